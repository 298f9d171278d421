"""Tables of a comparison: the columns of fits, means, differences and proven gaps, and their layout.

A terminal has the columns that fit its width; a page has those of an infinite width.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from formulations.language.solution import Status
from polyopt.base.table import Column, terminal_table
from polyopt.compare.results import LEVEL, Difference, Proof, Row, Summary

# Widths of a terminal: claims in words; one more digit; conditions in full.
_WORDS_WIDTH, _DIGITS_WIDTH, _FULL_WIDTH = 112, 96, 140
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

_VERDICT_COLOURS = {"lower": "green", "higher": "red", "not told apart": "dim", "equal": "dim"}


def number(value: float, digits: int = 8) -> str:
    """Format a value to `digits` significant digits, trailing zeros kept; a dash for nan."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else str(value)
    text = f"{value:#.{digits}g}"
    return text.rstrip(".")


def duration(seconds: float) -> str:
    """Format seconds to three digits or the full second: slow runs take no wider column than fast ones."""
    return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f}"


def solver_word(solver: str, width: float) -> str:
    """Return a solver's name; in a narrow table its first part, cut short if that is long."""
    if width >= _FULL_WIDTH or len(solver) <= 9:
        return solver
    first = solver.partition("-")[0]
    return first if len(first) <= 9 else f"{first[:6]}."


def _exponent(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}e}"


def _points(fraction: float, sign: bool = False) -> str:
    """Format a fraction in percentage points; a dash for nan."""
    if np.isnan(fraction):
        return "–"
    text = f"{100 * fraction:{'+' if sign else ''}.1f}"
    return text.lstrip("+-") if float(text) == 0.0 else text.replace("-", "−")


def _interval(low: float, high: float, sign: bool = False) -> str:
    return "–" if np.isnan(low) else f"{_points(low, sign)} to {_points(high, sign)}"


def _claim_text(claim: str, width: float) -> str:
    badge = CLAIMS[claim]
    if width == inf:
        return f"{badge.mark} {badge.word}"
    return badge.word if width >= _WORDS_WIDTH else badge.mark


def _size_head(counts: Iterable[str], width: float) -> str:
    """Return the units of all sizes, such as ``"sv/faces"``, in a narrow table by their first letters."""
    units = dict.fromkeys(SIZES[unit] for unit in counts)
    return "/".join(unit if width >= _WORDS_WIDTH or len(unit) < 3 else unit[0] for unit in units)


def _columns(rows: Sequence[Row] | Sequence[Summary], width: float) -> list[Column[Any]]:
    """Return the columns that fits and means share, for a width."""
    in_words, digits = width >= _WORDS_WIDTH, int(width >= _DIGITS_WIDTH)

    def size(row: Row | Summary) -> str:
        known = row.complexity is not None and not np.isnan(row.complexity)
        return f"{row.complexity:.1f}".removesuffix(".0") if known else "–"

    return [
        Column("method", lambda r: r.method, is_text=True),
        Column("solver" if digits else "by", lambda r: solver_word(r.solver, width), is_text=True),
        Column("objective", lambda r: number(r.objective, 7 + digits)),
        Column("bound", lambda r: number(r.bound, 7 + digits)),
        Column("gap", lambda r: _exponent(r.relative_gap, digits)),
        Column(
            "claim" if in_words else "", lambda r: _claim_text(r.claim, width), is_text=True,
            colour=lambda r: CLAIMS[r.claim].colour,
        ),
        Column(_size_head((r.counts for r in rows), width), size),
        Column(
            "test error" if in_words else "err %",
            lambda r: _points(r.test_error) + (" %" if in_words and not np.isnan(r.test_error) else ""),
        ),
        Column("seconds" if in_words else "sec", lambda r: duration(r.seconds)),
    ]  # fmt: skip


def fit_columns(rows: Sequence[Row], width: float = inf) -> list[Column[Row]]:
    """Return the columns of single fits for a width."""
    columns, is_full, digits = _columns(rows, width), width >= _FULL_WIDTH, int(width >= _DIGITS_WIDTH)

    def worst_at(row: Row) -> str:
        condition, _, where = row.residual_at.partition(" of ")
        if is_full or not where:
            return row.residual_at
        short = _SHORT_CONDITIONS.get(condition, condition)
        return f"{short} {where}" if digits else where

    columns[5:5] = [
        Column("worst", lambda r: _exponent(r.residual, digits)),
        Column("at", worst_at, is_text=True, overflow="cut"),
    ]
    if is_full:
        columns.insert(4, Column("gap (abs.)", lambda r: _exponent(r.gap, digits)))
    return columns


def mean_columns(summaries: Sequence[Summary], width: float = inf) -> list[Column[Summary]]:
    """Return the columns of means for a width."""
    columns = _columns(summaries, width)
    columns.insert(-1, Column("interval", lambda s: _interval(s.test_error_low, s.test_error_high)))
    if width < inf:
        del columns[3]  # the bound
    columns.insert(2, Column("fits", lambda s: str(s.fits)))
    if width == inf:
        columns.insert(3, Column("failed", lambda s: str(s.failed)))
    return columns


DIFFERENCE_COLUMNS: tuple[Column[Difference], ...] = (
    Column("method", lambda d: d.method, is_text=True),
    Column("less", lambda d: d.other, is_text=True),
    Column("splits", lambda d: str(d.splits)),
    Column("mean", lambda d: _points(d.difference, True)),
    Column("interval", lambda d: _interval(d.low, d.high, True)),
    Column(
        "so the first is", lambda d: d.verdict, is_text=True, colour=lambda d: _VERDICT_COLOURS[d.verdict]
    ),
)


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


def _proof_table(proofs: Sequence[Proof], width: int) -> Table:
    """Return a table of the bounds, and each solver's gap and seconds, with fewer digits if it is narrow."""
    with_seconds = width >= _WORDS_WIDTH
    columns = proof_columns(proofs, 7 if with_seconds else 5, with_seconds=with_seconds)
    seconds = ", and seconds" if with_seconds else ""
    return terminal_table(
        columns, proofs, width, title=f"Gap to the bound on all points, in percent{seconds}"
    )


def comparison_tables(
    rows: Sequence[Row], means: Sequence[Summary], differences: Sequence[Difference], proofs: Sequence[Proof],
    titles: Mapping[str, str], notes: Iterable[str], width: int,
) -> Group:  # fmt: skip
    """Return tables and notes: for each data set the fits or, if there are any, the means and differences.

    The proofs, the meaning of the marks, the failed fits and the notes follow.
    """
    parts: list[RenderableType] = []
    shown: Sequence[Any] = means or rows
    for name, title in titles.items():
        if lines := [line for line in shown if line.data == name]:
            table = terminal_table(
                mean_columns(lines, width) if means else fit_columns(lines, width), lines, width, title=title,
                gap=1 if means or width < _FULL_WIDTH else 2, group=lambda line: line.method,
                is_group_named=True,
            )  # fmt: skip
            parts += [table, Text()]
        if pairs := [difference for difference in differences if difference.data == name]:
            title = f"{name}: differences of test error, in points"
            parts += [terminal_table(DIFFERENCE_COLUMNS, pairs, width, title=title, gap=1), Text()]
    if proofs:
        parts += [_proof_table(proofs, width), Text()]
    parts += _meanings([line.claim for line in shown], width)
    failed = [
        f"{s.method} {s.solver} on {s.data}: {s.failed} of {s.fits} fits failed" for s in means if s.failed
    ]
    parts += [Text(line, style="yellow") for line in (failed if means else _failures(rows))]
    parts += [Text(note, style="dim") for note in notes]
    return Group(*parts)


def _meanings(claims: Sequence[str], width: int) -> list[RenderableType]:
    """Explain the marks of a table that is too narrow for words, or say that there is no fit."""
    if not claims:
        return [Text("No fit was finished.")]
    if width >= _WORDS_WIDTH:
        return []
    return [Text(f"{b.mark} {b.meaning}", style="dim") for name, b in CLAIMS.items() if name in claims]


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


def repeat_notes(splits: int) -> list[str]:
    """Explain how means, intervals and differences are computed."""
    level = f"{100 * LEVEL:.0f} %"
    return [
        f"Means are over {splits} splits. Intervals are {level} of Student's t over the splits, "
        "with the variance corrected for the training samples they share (Nadeau & Bengio 2003). Gap and "
        "residual are the largest, the claim is the weakest.",
        "Differences are of test errors split by split, in points, by the fast solvers. Each interval is for "
        "one pair alone: of many, some miss by chance.",
    ]
