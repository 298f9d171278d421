"""Tables of a comparison: the columns of fits and of proven gaps, and their layout.

A narrow terminal has fewer digits, and marks and letters for words; a page has an infinite width.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from formulations.language.solution import Status
from polyopt.base.table import Column, terminal_table
from polyopt.compare.results import Proof, Row

_WIDE = 112  # columns of a terminal from which claims are words
_SHORT_CONDITIONS = {"stationarity": "stat.", "complementarity": "compl."}


@dataclass(frozen=True)
class Badge:
    """Mark, word and colour of a claim, and its meaning in a sentence."""

    mark: str
    word: str
    colour: str
    meaning: str


CLAIMS = {
    "optimal": Badge("✓", "optimal", "green", "optimal within 1e-6, proven"),
    "suboptimal_by": Badge("≤", "within gap", "yellow", "within the gap of the optimum, proven"),
    "stationary": Badge(
        "○", "stationary", "cyan", "optimal for its assignment, and no sample would change face"
    ),
    "conditions": Badge("◇", "conditions", "cyan", "the optimality conditions hold; no bound is proven"),
    "solvers_word": Badge("?", "solver's word", "yellow", "a solver states this bound; it is not proven"),
    "infeasible": Badge("∅", "infeasible", "red", "no feasible point, proven"),
    "contradiction": Badge("!", "contradiction", "red", "value below bound: one of them is wrong"),
    "none": Badge("✗", "none", "red", "nothing proven"),
}

SIZES = {"support vectors": "sv", "faces": "faces"}
"""Units of a method's size, abbreviated."""


def number(value: float, digits: int = 8) -> str:
    """Format a value to `digits` significant digits, trailing zeros kept; a dash for nan."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else str(value)
    text = f"{value:#.{digits}g}"
    return text.rstrip(".")


def duration(seconds: float) -> str:
    """Format seconds to three digits or the full second: slow runs take no wider column than fast ones."""
    return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f}"


def _exponent(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}e}"


def fit_columns(rows: Sequence[Row], width: float = inf) -> list[Column[Row]]:
    """Return the columns of fits for a width."""
    is_wide = width >= _WIDE
    digits = int(is_wide)
    units = dict.fromkeys(SIZES[row.counts] for row in rows)

    def solver(row: Row) -> str:
        word = row.solver if is_wide else row.solver.partition("-")[0]
        return word if is_wide or len(word) <= 9 else f"{word[:6]}."

    def worst_at(row: Row) -> str:
        condition, _, where = row.residual_at.partition(" of ")
        if width == inf or not where:
            return row.residual_at
        return f"{_SHORT_CONDITIONS.get(condition, condition)} {where}" if is_wide else where

    def claim(row: Row) -> str:
        badge = CLAIMS[row.claim]
        return f"{badge.mark} {badge.word}" if width == inf else badge.word if is_wide else badge.mark

    def error(row: Row) -> str:
        unit = " %" if is_wide else ""
        return "–" if np.isnan(row.test_error) else f"{100 * row.test_error:.1f}{unit}"

    columns: list[Column[Row]] = [
        Column("method", lambda r: r.method, is_text=True),
        Column("solver" if is_wide else "by", solver, is_text=True),
        Column("objective", lambda r: number(r.objective, 7 + digits)),
        Column("bound", lambda r: number(r.bound, 7 + digits)),
        Column("gap", lambda r: _exponent(r.relative_gap, digits)),
        Column("worst", lambda r: _exponent(r.residual, digits)),
        Column("at", worst_at, is_text=True, overflow="cut"),
        Column("claim" if is_wide else "", claim, is_text=True, colour=lambda r: CLAIMS[r.claim].colour),
        Column(
            "/".join(unit if is_wide or len(unit) < 3 else unit[0] for unit in units),
            lambda r: "–" if r.complexity is None else str(r.complexity),
        ),
        Column("test error" if is_wide else "err %", error),
        Column("seconds" if is_wide else "sec", lambda r: duration(r.seconds)),
    ]  # fmt: skip
    if width == inf:
        columns.insert(4, Column("gap (abs.)", lambda r: _exponent(r.gap, digits)))
    return columns


def proof_columns(
    proofs: Sequence[Proof], digits: int = 8, *, with_seconds: bool = True
) -> list[Column[Proof]]:
    """Return the columns of gaps to a proven bound, one for each solver."""

    def gap_of(solver: str) -> Column[Proof]:
        def cell(proof: Proof) -> str:
            if solver not in proof.gaps:
                return "–"
            seconds = f" ({duration(proof.seconds[solver])})" if with_seconds else ""
            return f"{100 * proof.gaps[solver]:.3g}{seconds}"

        return Column(solver, cell)

    columns: list[Column[Proof]] = [Column("data", lambda p: p.data, is_text=True)]
    if len({proof.method for proof in proofs}) > 1:
        columns.append(Column("method", lambda p: p.method, is_text=True))
    columns += [
        Column("best", lambda p: number(min(p.objectives.values(), default=np.nan), digits)),
        Column("bound", lambda p: number(p.bound, digits)),
    ]
    return columns + [gap_of(name) for name in dict.fromkeys(name for p in proofs for name in p.objectives)]


def comparison_tables(
    rows: Sequence[Row], proofs: Sequence[Proof], titles: Mapping[str, str], notes: Iterable[str], width: int
) -> Group:
    """Return the table of each data set, proofs, the meaning of marks, failed fits and notes."""
    parts: list[RenderableType] = []
    is_wide = width >= _WIDE
    for name, title in titles.items():
        if fits := [row for row in rows if row.data == name]:
            table = terminal_table(
                fit_columns(fits, width), fits, width, title=title, gap=1, group=lambda row: row.method,
                is_group_named=True,
            )  # fmt: skip
            parts += [table, Text()]
    if proofs:
        columns = proof_columns(proofs, 7 if is_wide else 5, with_seconds=is_wide)
        title = f"Gap to the bound on all points, in percent{', and seconds' if is_wide else ''}"
        parts += [terminal_table(columns, proofs, width, title=title), Text()]
    if not rows:
        parts.append(Text("No fit was finished."))
    elif not is_wide:
        present = {row.claim for row in rows}
        parts += [Text(f"{b.mark} {b.meaning}", style="dim") for name, b in CLAIMS.items() if name in present]
    parts += [Text(line, style="yellow") for line in _failures(rows)]
    parts += [Text(note, style="dim") for note in notes]
    return Group(*parts)


def _failures(rows: Iterable[Row]) -> list[str]:
    """Return a line for each reason of a failed fit, with its methods, solvers and data."""
    by_status: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.status not in (str(Status.SOLVED), str(Status.CONVERGED)):
            by_status.setdefault(row.status, {}).setdefault(f"{row.method} {row.solver}", []).append(row.data)
    return [
        "; ".join(f"{name} on {', '.join(data)}" for name, data in fits.items()) + f": {status}"
        for status, fits in by_status.items()
    ]
