"""Parts of a page: its frame, contents and tables. A page is one file that needs no network."""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from importlib import resources
from string import Template

import polyopt
from polyopt.base.table import Column, R
from polyopt.base.text import escape


def part(name: str, package: str = "polyopt.report") -> str:
    """Return the text of a file of a package."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


class Contents:
    """The headings of a page, with unique ids, and the list of links to them."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, str, str]] = []  # level, id and label

    def anchor(self, name: str, label: str, level: int = 2) -> str:
        """Return a new id made of the name, and add a link to it to the list, at level 2 or 3."""
        stem = re.sub(r"[^\w.]+", "-", name.lower()).strip("-") or "part"
        used = {each for _, each, _ in self._entries}
        anchor, copy = stem, 1
        while anchor in used:
            copy += 1
            anchor = f"{stem}-{copy}"
        self._entries.append((level, anchor, label))
        return anchor

    def heading(self, level: int, name: str, label: str, more: str = "") -> str:
        """Return a heading with a link in the list; `more` HTML follows in the heading alone."""
        return f"<h{level} id='{self.anchor(name, label, level)}'>{label}{more}</h{level}>"

    def nav(self) -> str:
        """Return the list of sections and of the parts of each, as HTML."""
        items: list[str] = []
        inner: list[list[str]] = []
        for level, anchor, label in self._entries:
            link = f"<a href='#{anchor}'>{label}</a>"
            if level == 2:
                items.append(link)
                inner.append([])
            else:
                inner[-1].append(f"<li>{link}</li>")
        lists = (f"<ul>{''.join(each)}</ul>" if each else "" for each in inner)
        lines = [f"<li>{link}{each}</li>" for link, each in zip(items, lists, strict=True)]
        plain = (re.sub(r"<[^>]*>", "", label) for _, _, label in self._entries)
        # Short headings stand beside each other on a phone.
        kind = " class='short'" if max(map(len, plain), default=0) <= 20 else ""
        return f"<nav aria-label='Contents'{kind}><ul>{''.join(lines)}</ul></nav>" if lines else ""


def framed(title: str, body: str, *, wide: bool = False) -> str:
    """Return a whole page, printed in landscape if `wide`."""
    landscape = "@page { size: landscape; }\n" if wide else ""
    footer = f"<footer>polyopt {escape(polyopt.__version__)}</footer>"
    return page(
        escape(title), f"<main>\n{body}\n{footer}\n</main>",
        style=part("style.css") + landscape, script=part("page.js"),
    )  # fmt: skip


def page(title: str, body: str, *, style: str, script: str) -> str:
    """Return a file with its CSS and JavaScript, whose policy is to load nothing and run only `script`."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return Template(part("frame.html")).substitute(
        title=title, style=style, body=body, script=script, digest=digest
    )


def rows_table(
    columns: Sequence[Column[R]], rows: Sequence[R], style: str = "", *, sortable: bool = False,
    group: Callable[[R], object] | None = None, is_group_named: bool = False,
    note: Callable[[R], str] | None = None,
) -> str:  # fmt: skip
    """Return a table of columns over rows, with a rule above each group.

    If `is_group_named`, the first cell names the group, and is repeated only once rows are sorted. A `note`
    that is not empty stands under its row.
    """
    kinds = ["text" if column.is_text else "" for column in columns]
    head = "".join(
        f"<th scope='col' class='{kind}'>{escape(column.head)}</th>" if column.head else "<td></td>"
        for column, kind in zip(columns, kinds, strict=True)
    )
    body = []
    for i, row in enumerate(rows):
        begins_group = group is not None and (i == 0 or group(row) != group(rows[i - 1]))
        cells = [escape(column.cell(row)).replace("\n", "<br>") for column in columns]
        for j, column in enumerate(columns):
            if column.colour is not None:
                cells[j] = badge(cells[j], column.colour(row))
        if is_group_named and not begins_group:
            cells[0] = f"<span class='again'>{cells[0]}</span>"
        text = "".join(f"<td class='{kind}'>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True))
        body.append(f"<tr class='{'first' if begins_group else ''}'>{text}</tr>")
        if note is not None and (text := note(row)):
            text = f"<td colspan='{len(columns)}' class='text quiet'>{escape(text)}</td>"
            body.append(f"<tr class='note'>{text}</tr>")
    return scrolling(head, "".join(body), style, sortable=sortable)


def badge(text: str, colour: str) -> str:
    """Return HTML on a coloured ground."""
    return f"<span class='badge {colour}'>{text}</span>"


def scrolling(head: str, body: str, style: str = "", *, sortable: bool = False) -> str:
    """Return a table of HTML cells and rows in a box that scrolls sideways.

    If `sortable`, a click on a heading sorts, by words under class ``text``, else by number. A row of class
    ``note`` stays under the row before it; an element of class ``again`` is shown once rows are sorted.
    """
    classes = " ".join(filter(None, (style, "sortable" if sortable else "")))
    attribute = f" class='{classes}'" if classes else ""
    return (
        f"<div class='scroll' tabindex='0'><table{attribute}><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )
