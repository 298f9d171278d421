"""What the texts of explanations share: numbers, labels, names and lines of at most 80 columns."""

from __future__ import annotations

import textwrap

from polyopt.base.text import visible

__all__ = ["NAME", "WIDTH", "cut", "named", "number", "others", "wrapped"]

WIDTH = 80
"""Columns of a line, at most."""
NAME = 26
"""Letters of a column's name in a table."""


def number(value: float | str | None) -> str:
    """A number or a text as people read it.

    value: the value; nothing for None.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return cut(value, 12)
    return f"{value:.4g}" if value else "0"


def named(label: object) -> str:
    """A label between quotation marks.

    label: A class.
    """
    return f"'{visible(str(label))}'"


def others(count: int) -> str:
    """So many others.

    count: how many.
    """
    return f"{count} other{'s' if count > 1 else ''}"


def cut(text: str, most: int = NAME) -> str:
    """A name that fits into its column of a table.

    text: the name.
    most: letters at most.
    """
    shown = visible(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def wrapped(text: str) -> list[str]:
    """A text in lines.

    text: the text.
    """
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)
