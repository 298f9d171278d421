"""The representation of an object: at most ten lines of text, or HTML in a notebook.

An object describes itself by a :class:`Summary`, from which this module makes the text. The HTML is made by a
function whose full name, such as ``"pages.shown.html_of"``, is the variable ``__drawer__`` of an imported
package. Without such a package a notebook shows the text.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from formulations.language.statement import Statement


MAX_LINES = 10  # lines of a representation
MAX_WIDTH = 80  # characters of a line


class Table(NamedTuple):
    """A table, which a notebook can fold to its title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_open: bool = False  # True if a notebook shows the table unfolded, and if the text includes it


class Summary(NamedTuple):
    """The content of a representation."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()  # names and values, the most important first
    tables: tuple[Table, ...] = ()
    program: "Statement | None" = None  # a program that a notebook shows as formulas


class Shown:
    """Base of objects with a summary; a subclass implements :meth:`_summary`."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __repr__(self) -> str:
        return text_of(self._summary())

    def _repr_html_(self) -> str | None:
        full_name = _html_function()
        if full_name is None:
            return None
        module, _, name = full_name.rpartition(".")
        html: str = getattr(import_module(module), name)(self._summary())
        return html


def _html_function() -> str | None:
    """Return the full name of the function that makes HTML of a summary, or None if no package has one."""
    packages = (vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__"))
    return next((package["__drawer__"] for package in packages if "__drawer__" in package), None)


def text_of(summary: Summary) -> str:
    """Return the title, facts and open tables as text, at most ten lines of at most 80 columns."""
    name_width = max((len(name) for name, _ in summary.facts), default=0)
    lines = [summary.title]
    for name, value in summary.facts:
        lines += _wrapped(f"  {name:<{name_width}}  ", value)
    for table in summary.tables:
        if table.is_open:
            lines += _aligned(table)
    return "\n".join(short(lines))


def short(lines: list[str], more: str = "") -> list[str]:
    """Cut a text to ten lines of 80 columns; a last line has the number of omitted lines, and then `more`."""
    is_long = len(lines) > MAX_LINES
    shown = [line.rstrip() for line in (lines[: MAX_LINES - 1] if is_long else lines)]
    cut = [line if len(line) <= MAX_WIDTH else f"{line[: MAX_WIDTH - 1]}…" for line in shown]
    return [*cut, f"  … and {len(lines) - len(cut)} more{more}"] if is_long else cut


def _wrapped(name: str, value: str) -> list[str]:
    """Return a fact's value in at most two lines; the first begins with `name`, indented and padded."""
    import textwrap

    indent = " " * len(name)
    lines = textwrap.wrap(
        value, MAX_WIDTH, initial_indent=name, subsequent_indent=indent, max_lines=2, placeholder=" …"
    )
    return lines or [name]


def _aligned(table: Table) -> list[str]:
    """Return the lines of a table, its columns aligned on the right and the last one on the left."""
    rows = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    last = len(widths) - 1
    return [
        "  " + "  ".join(cell if i == last else f"{cell:>{widths[i]}}" for i, cell in enumerate(row))
        for row in rows
    ]
