"""The comparison as rich tables, laid out for the width there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from formulations.language.solution import Status

if TYPE_CHECKING:
    from polyopt.compare.row import Row

__all__ = ["CLAIMS", "SIZES", "WIDE", "duration", "marks_explained", "number", "tables"]

# From these widths on: claims in words; one more digit; conditions in full.
WIDE, _MEDIUM_WIDTH, _FULL_WIDTH = 112, 96, 140
_SHORT = {"stationarity": "stat.", "complementarity": "compl."}


@dataclass(frozen=True)
class _Badge:
    mark: str
    word: str
    style: str
    meaning: str


CLAIMS = {
    "optimal": _Badge("✓", "optimal", "green", "optimal within 1e-6, proven"),
    "suboptimal_by": _Badge("≤", "within gap", "yellow", "within the gap of the optimum, proven"),
    "stationary": _Badge(
        "○", "stationary", "cyan", "optimal for its assignment, and no sample would change face"
    ),
    "conditions": _Badge("◇", "conditions", "cyan", "the optimality conditions hold; no bound is proven"),
    "solvers_word": _Badge("?", "solver's word", "yellow", "a solver states this bound; it is not proven"),
    "infeasible": _Badge("∅", "infeasible", "red", "no feasible point, proven"),
    "contradiction": _Badge("!", "contradiction", "red", "value below bound: one of them is wrong"),
    "none": _Badge("✗", "none", "red", "nothing proven"),
}
"""Each claim's mark, word, colour and meaning."""

SIZES = {"support vectors": "sv", "faces": "faces"}
"""Units of a method's size, abbreviated."""


def number(value: float, digits: int = 8) -> str:
    """A value to `digits` significant digits, trailing zeros kept; a dash where there is no value."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else str(value)
    text = f"{value:#.{digits}g}"
    return text.rstrip(".")


def duration(seconds: float) -> str:
    """Seconds to three digits or the full second, so that the column is as wide for slow runs as for fast."""
    return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f}"


def tables(
    rows: Sequence[Row], titles: Mapping[str, str], notes: Iterable[str], width: int,
    more: Sequence[RenderableType] = (),
) -> Group:  # fmt: skip
    """One table per data set, then the meaning of the marks and how the numbers came about.

    more: what else is to be shown, below the tables.
    """
    parts: list[RenderableType] = []
    shown = []
    for name, title in titles.items():
        own = [row for row in rows if row.data == name]
        if own:
            parts += [_table(title, own, width), Text()]
            shown += own
    for one in more:
        parts += [one, Text()]
    parts += marks_explained([row.claim for row in shown], width)
    parts += [Text(line, style="yellow") for line in _short_falls(shown)]
    parts += [Text(note, style="dim") for note in notes]
    return Group(*parts)


def marks_explained(claims: Sequence[str | None], width: int) -> list[RenderableType]:
    """Explain the marks of a table that is too narrow for words, or say that there is no fit."""
    if not claims:
        return [Text("No fit was finished.")]
    if width >= WIDE:
        return []
    badges = [CLAIMS[name] for name in CLAIMS if name in claims]
    return [Text(f"{badge.mark} {badge.meaning}", style="dim") for badge in badges]


def _short_falls(rows: Iterable[Row]) -> list[str]:
    """Who fell short, and how: a line for each reason, those of one method and solver together."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.status not in (str(Status.SOLVED), str(Status.CONVERGED)):
            found.setdefault(row.status, {}).setdefault(f"{row.method} {row.solver}", []).append(row.data)
    lines = []
    for status, whose in found.items():
        who = "; ".join(f"{name} on {', '.join(where)}" for name, where in whose.items())
        lines.append(f"{who}: {status}")
    return lines


def _table(title: str, rows: list[Row], width: int) -> Table:
    gap = 1 if width < _FULL_WIDTH else 2
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, show_edge=False, pad_edge=False,
        padding=(0, gap, 0, 0), header_style="bold",
    )  # fmt: skip
    sizes = dict.fromkeys(SIZES[row.counts] for row in rows)
    counts = "/".join(sizes if width >= WIDE else (name if len(name) < 3 else name[0] for name in sizes))
    columns = _columns(width, counts)
    cells = [[cell(row) for _, cell in columns] for row in rows]
    for previous, row in zip(rows, cells[1:], strict=False):
        if row[0] == previous.method:
            row[0] = ""
    headers = [header for header, _ in columns]
    needs = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    # Where the room is short, the place of the worst residual alone is cut.
    place = headers.index("at")
    needs[place] = min(needs[place], max(4, width - gap * len(needs) - sum(needs) + needs[place]))
    for header, need in zip(headers, needs, strict=True):
        justify: Any = "left" if header in ("method", "by", "solver", "at", "claim", "") else "right"
        table.add_column(header, justify=justify, no_wrap=True, overflow="ellipsis", width=need)
    for row in cells:
        table.add_row(*row)
    return table


def _columns(width: int, counts: str) -> list[tuple[str, Callable[[Row], str | Text]]]:
    """Header and contents of each column that fits."""
    wide, medium = width >= WIDE, width >= _MEDIUM_WIDTH
    places = 1 if medium else 0

    def small(value: float) -> str:
        return "–" if np.isnan(value) else f"{value:.{places}e}"

    def claim(row: Row) -> Text:
        badge = CLAIMS[row.claim]
        return Text(badge.word if wide else badge.mark, style=badge.style)

    def place(row: Row) -> str:
        condition, _, where = row.residual_at.partition(" of ")
        if width >= _FULL_WIDTH or not where:
            return row.residual_at
        return f"{_SHORT.get(condition, condition)} {where}" if medium else where

    columns: list[tuple[str, Callable[[Row], str | Text]]] = [
        ("method", lambda row: row.method),
        ("solver" if medium else "by", lambda row: solver_word(row.solver, width)),
        ("objective", lambda row: number(row.objective, 8 if medium else 7)),
        ("bound", lambda row: number(row.bound, 8 if medium else 7)),
        ("gap", lambda row: small(row.relative_gap)),
        ("worst", lambda row: small(row.residual)),
        ("at", place),
        ("claim" if wide else "", claim),
        (counts, lambda row: "–" if row.complexity is None else str(row.complexity)),
        ("test error" if wide else "err %", lambda row: _percent(row.test_error, wide)),
        ("seconds" if wide else "sec", lambda row: duration(row.seconds)),
    ]
    if width >= _FULL_WIDTH:
        columns.insert(4, ("gap (abs.)", lambda row: small(row.gap)))
    return columns


def solver_word(solver: str, width: int) -> str:
    """A solver's name; where the table is narrow its first part, cut short if that is long."""
    if width >= _FULL_WIDTH or len(solver) <= 9:
        return solver
    first = solver.partition("-")[0]
    return first if len(first) <= 9 else f"{first[:6]}."


def _percent(share: float, with_sign: bool) -> str:
    if np.isnan(share):
        return "–"
    return f"{100 * share:.1f}{' %' if with_sign else ''}"
