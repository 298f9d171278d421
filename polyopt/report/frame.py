"""The frame of every page: one file, its style and its script inside, no network."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import polyopt
from polyopt.base.text import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Contents", "cells_table", "framed", "head_cells", "page", "part", "scrolling", "table_row"]


def part(name: str) -> str:
    """The text of a file beside this one."""
    return resources.files("polyopt.report").joinpath(name).read_text(encoding="utf-8")


class Contents:
    """The headings of a page, each with an id of its own, and the list that leads to them."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, str, str]] = []
        self._taken: set[str] = set()

    def anchor(self, name: str, label: str, level: int = 2) -> str:
        """An id that stays the same as long as the name does; the list leads to it.

        level: 2 for a section, 3 for a part of one; others are not listed.
        """
        stem = re.sub(r"[^\w.]+", "-", name.lower()).strip("-") or "part"
        known, copy = stem, 1
        while known in self._taken:
            copy += 1
            known = f"{stem}-{copy}"
        self._taken.add(known)
        self._entries.append((level, known, label))
        return known

    def heading(self, level: int, name: str, label: str, more: str = "") -> str:
        """A heading that the list leads to.

        more: what follows them in the heading alone, as HTML.
        """
        return f"<h{level} id='{self.anchor(name, label, level)}'>{label}{more}</h{level}>"

    def nav(self) -> str:
        """The list, as HTML: of sections, and of the parts of each."""
        lines, inside = [], False
        for level, anchor, label in self._entries:
            link = f"<a href='#{anchor}'>{label}</a>"
            if level > 2:
                lines.append(f"{'' if inside else '<ul>'}<li>{link}</li>")
                inside = True
                continue
            lines.append(f"{'</ul>' if inside else ''}{'</li>' if lines else ''}<li>{link}")
            inside = False
        end = "</ul></li>" if inside else "</li>"
        plain = (re.sub(r"<[^>]*>", "", label) for _, _, label in self._entries)
        # Short headings stand beside each other on a phone.
        kind = " class='short'" if max(map(len, plain), default=0) <= 20 else ""
        return f"<nav aria-label='Contents'{kind}><ul>{''.join(lines)}{end}</ul></nav>" if lines else ""


def framed(title: str, body: str, *, wide: bool = False) -> str:
    """A whole page, which may load nothing and run nothing but its own script.

    wide: whether it is printed across.
    """
    across = "@page { size: landscape; }\n" if wide else ""
    footer = f"<footer>polyopt {escape(polyopt.__version__)}</footer>"
    return page(
        escape(title), f"<main>\n{body}\n{footer}\n</main>",
        style=part("style.css") + across, script=part("page.js"),
    )  # fmt: skip


def page(title: str, body: str, *, style: str, script: str) -> str:
    """A file that may load nothing and run nothing but `script`.

    style, script: all of its CSS, and of its JavaScript.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return Template(part("frame.html")).substitute(
        title=title, style=style, body=body, script=script, digest=digest
    )


def cells_table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], *, sortable: bool = False
) -> str:
    """A table of plain texts, as :func:`scrolling` makes it.

    columns: heading and class of each.
    sortable: whether a click on a heading sorts it.
    """
    body = "".join(table_row([escape(cell) for cell in row], columns) for row in rows)
    return scrolling(head_cells(columns), body, sortable=sortable)


def head_cells(columns: Sequence[tuple[str, str]]) -> str:
    """The cells of a table's head, from heading and class of each column."""
    return "".join(f"<th scope='col' class='{kind}'>{escape(name)}</th>" for name, kind in columns)


def table_row(cells: Sequence[str], columns: Sequence[tuple[str, str]], attributes: str = "") -> str:
    """A row of a table; cells and attributes are HTML."""
    shown = (f"<td class='{kind}'>{cell}</td>" for cell, (_, kind) in zip(cells, columns, strict=True))
    return f"<tr{attributes}>{''.join(shown)}</tr>"


def scrolling(head: str, body: str, style: str = "", *, sortable: bool = False) -> str:
    """A table that scrolls sideways within its own box where the page is too narrow for it.

    head, body: the cells of the head, and the rows of the body, as HTML. A row of class ``note`` stays under
        the row before it; what a cell says again is in an element of class ``again``, and shown once rows
        move.
    style: class of the table.
    sortable: whether a click on a heading sorts it: by words where it is of class ``text``, else by number.
    """
    kinds = " ".join(filter(None, (style, "sortable" if sortable else "")))
    kind = f" class='{kinds}'" if kinds else ""
    return (
        f"<div class='scroll' tabindex='0'><table{kind}><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
