"""The representation of an object: ten lines of text, and in a notebook a part of a page.

An object describes itself once, by a :class:`Summary`, from which its text is made here. Its HTML is made by
a function of another package, named in that package's ``__drawer__``, such as ``"pages.shown.html_of"``,
which need not be imported before. Without one a notebook shows the text.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from formulations.language.statement import Statement


LINES, WIDTH = 10, 80  # largest size of a text


class Table(NamedTuple):
    """A table that may be folded."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    is_open: bool = False  # True if it is unfolded at first; then it is in the text as well


class Summary(NamedTuple):
    """The content of a representation."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()  # names and values, the most important first
    tables: tuple[Table, ...] = ()
    program: "Statement | None" = None  # a program to be shown


class Shown:
    """Base of objects with a summary; a subclass implements :meth:`_summary`."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def __repr__(self) -> str:
        return text_of(self._summary())

    def _repr_html_(self) -> str | None:
        place = _html_function()
        if place is None:
            return None
        module, _, name = place.rpartition(".")
        html: str = getattr(import_module(module), name)(self._summary())
        return html


def _html_function() -> str | None:
    """Return the name of the function that makes HTML of a summary, from an imported package."""
    packages = (vars(module) for module in list(sys.modules.values()) if hasattr(module, "__dict__"))
    return next((package["__drawer__"] for package in packages if "__drawer__" in package), None)


def text_of(summary: Summary) -> str:
    """Return a summary as text, at most ten lines of at most 80 columns."""
    width = max((len(name) for name, _ in summary.facts), default=0)
    lines = [summary.title]
    for name, value in summary.facts:
        lines += _wrapped(f"  {name:<{width}}  ", value)
    for table in summary.tables:
        if table.is_open:
            lines += _aligned(table)
    return "\n".join(short(lines))


def short(lines: list[str], more: str = "") -> list[str]:
    """Cut a text to ten lines of 80 columns; the last line says how many are omitted."""
    kept = lines if len(lines) <= LINES else lines[: LINES - 1]
    cut = [
        line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in (part.rstrip() for part in kept)
    ]
    return cut if len(lines) <= LINES else [*cut, f"  … and {len(lines) - len(kept)} more{more}"]


def _wrapped(name: str, value: str) -> list[str]:
    """Return a fact in at most two lines."""
    import textwrap

    return textwrap.wrap(
        value, WIDTH, initial_indent=name, subsequent_indent=" " * len(name), max_lines=2, placeholder=" …"
    ) or [name]


def _aligned(table: Table) -> list[str]:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
    last = len(widths) - 1
    return [
        "  " + "  ".join(cell if i == last else f"{cell:>{widths[i]}}" for i, cell in enumerate(row))
        for row in rows
    ]
