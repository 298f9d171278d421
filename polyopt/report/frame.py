"""What every page is set in: one file, its style inside, no network."""

from __future__ import annotations

from importlib import resources
from string import Template

import polyopt
from polyopt.text import escape

__all__ = ["framed", "part", "scrolling"]


def part(name: str) -> str:
    """The text of a file beside this one."""
    return resources.files("polyopt.report").joinpath(name).read_text(encoding="utf-8")


def framed(title: str, body: str) -> str:
    """A whole page.

    Parameters
    ----------
    title : str
        Its title, in plain text.
    body : str
        What is in it, as HTML.
    """
    return Template(part("frame.html")).substitute(
        title=escape(title), style=part("style.css"), body=body, version=escape(polyopt.__version__)
    )


def scrolling(head: str, body: str, style: str = "") -> str:
    """A table that scrolls sideways where the page is too narrow for it.

    Parameters
    ----------
    head, body : str
        The cells of the head, and the rows of the body, as HTML.
    style : str
        Class of the table.
    """
    kind = f" class='{style}'" if style else ""
    return (
        f"<div class='scroll'><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
