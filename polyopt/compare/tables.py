"""Tables of a comparison for a terminal, laid out for its width: fits, means, differences, proven gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from formulations.language.solution import Status
from polyopt.compare.results import LEVEL, Difference, Proof, Row, Summary

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
    """Format a value to `digits` significant digits, trailing zeros kept; a dash for nan."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else str(value)
    text = f"{value:#.{digits}g}"
    return text.rstrip(".")


def duration(seconds: float) -> str:
    """Format seconds to three digits or the full second: slow runs take no wider column than fast ones."""
    return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f}"


_TEXTS = ("method", "by", "solver", "at", "claim", "", "less", "so the first is", "data")  # headers of texts


def _plain_table(
    title: str, headers: Sequence[str], rows: Iterable[Sequence[str | Text]], gap: int = 1,
    widths: Sequence[int | None] = (),
) -> Table:  # fmt: skip
    """Return a table without rules, its texts to the left and its numbers to the right."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, show_edge=False, pad_edge=False,
        padding=(0, gap, 0, 0), header_style="bold",
    )  # fmt: skip
    for header, width in zip_longest(headers, widths):
        justify: Any = "left" if header in _TEXTS else "right"
        table.add_column(header, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for row in rows:
        table.add_row(*row)
    return table


def tables(
    rows: Sequence[Row], titles: Mapping[str, str], notes: Iterable[str], width: int,
    more: Sequence[RenderableType] = (),
) -> Group:  # fmt: skip
    """Return a table per data set, `more` tables, the meaning of the marks, and notes on the numbers."""
    parts: list[RenderableType] = []
    shown = []
    for name, title in titles.items():
        own = [row for row in rows if row.data == name]
        if own:
            parts += [_fits_table(title, own, width), Text()]
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
    """Return a line for each reason of a failed fit, with its methods, solvers and data."""
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row.status not in (str(Status.SOLVED), str(Status.CONVERGED)):
            found.setdefault(row.status, {}).setdefault(f"{row.method} {row.solver}", []).append(row.data)
    lines = []
    for status, whose in found.items():
        who = "; ".join(f"{name} on {', '.join(where)}" for name, where in whose.items())
        lines.append(f"{who}: {status}")
    return lines


def _fits_table(title: str, rows: list[Row], width: int) -> Table:
    gap = 1 if width < _FULL_WIDTH else 2
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
    return _plain_table(title, headers, cells, gap, needs)


def _columns(width: int, counts: str) -> list[tuple[str, Callable[[Row], str | Text]]]:
    """Header and contents of each column that fits."""
    wide, medium = width >= WIDE, width >= _MEDIUM_WIDTH
    places = 1 if medium else 0

    def small(value: float) -> str:
        return "–" if np.isnan(value) else f"{value:.{places}e}"

    def percent(row: Row) -> str:
        sign = " %" if wide else ""
        return "–" if np.isnan(row.test_error) else f"{100 * row.test_error:.1f}{sign}"

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
        ("test error" if wide else "err %", percent),
        ("seconds" if wide else "sec", lambda row: duration(row.seconds)),
    ]
    if width >= _FULL_WIDTH:
        columns.insert(4, ("gap (abs.)", lambda row: small(row.gap)))
    return columns


def solver_word(solver: str, width: int) -> str:
    """Return a solver's name; where the table is narrow its first part, cut short if that is long."""
    if width >= _FULL_WIDTH or len(solver) <= 9:
        return solver
    first = solver.partition("-")[0]
    return first if len(first) <= 9 else f"{first[:6]}."


VERDICTS = {"lower": "green", "higher": "red", "not told apart": "dim", "equal": "dim"}
"""The colour of each verdict."""


def points(share: float, sign: bool = False) -> str:
    """Format a share in points of a hundred; a dash for nan."""
    if np.isnan(share):
        return "–"
    text = f"{100 * share:{'+' if sign else ''}.1f}"
    return text.lstrip("+-") if float(text) == 0.0 else text.replace("-", "−")


def span(low: float, high: float, sign: bool = False) -> str:
    """Format an interval in points of a hundred; a dash for nan."""
    return "–" if np.isnan(low) else f"{points(low, sign)} to {points(high, sign)}"


def repeat_tables(
    summaries: Sequence[Summary], differences: Sequence[Difference], titles: Mapping[str, str],
    notes: Sequence[str], width: int,
) -> Group:  # fmt: skip
    """For each data set the means, and the differences between methods; then how the numbers came about."""
    parts: list[RenderableType] = []
    for name, title in titles.items():
        own = [one for one in summaries if one.data == name]
        if own:
            parts += [_means(title, own, width), Text()]
        apart = [one for one in differences if one.data == name]
        if apart:
            parts += [_apart(name, shown_differences(apart, own)), Text()]
    parts += marks_explained([one.claim for one in summaries], width)
    for one in summaries:
        if one.failed:
            words = f"{one.method} {one.solver} on {one.data}: {one.failed} of {one.fits} fits failed"
            parts.append(Text(words, style="yellow"))
    parts += [Text(note, style="dim") for note in notes]
    return Group(*parts)


def shown_differences(differences: Sequence[Difference], summaries: Sequence[Summary]) -> list[Difference]:
    """Return all differences on a data set, or of many methods those to the lowest mean test error."""
    if len(differences) <= 15:
        return list(differences)
    fast = {(one.method, one.solver) for one in differences}
    fast |= {(one.other, one.other_solver) for one in differences}
    kept = [one for one in summaries if (one.method, one.solver) in fast and not np.isnan(one.test_error)]
    best = min(kept, key=lambda one: one.test_error).method
    return [one for one in differences if best in (one.method, one.other)]


def repeat_notes(splits: int, seeds: int, n_shown: int, n_differences: int) -> list[str]:
    """Explain how means, intervals and differences, of which `n_shown` are printed, are computed."""
    share = f"{100 * LEVEL:.0f} %"
    if splits == 1:
        return [
            f"Means and {share} intervals are over {seeds} seeds of the solvers that use chance, on one "
            "split: they say nothing of other data. --splits 10 does, and compares the methods."
        ]
    by_seeds = f", of the mean over {seeds} seeds where a solver uses chance" if seeds > 1 else ""
    more = ""
    if n_shown < n_differences:
        more = f" Shown are those to the lowest mean error; --json and --csv have all {n_differences}."
    return [
        f"Means are over {splits} splits{by_seeds}. Intervals are {share} of Student's t over the splits, "
        "with the variance corrected for the training samples they share (Nadeau & Bengio 2003). Gap and "
        "residual are the largest, the claim is the weakest.",
        "Differences are of test errors split by split, in points, by the fast solvers. Each interval is for "
        f"one pair alone: of many, some miss by chance.{more}",
    ]


def _means(title: str, summaries: Sequence[Summary], width: int) -> Table:
    wide = width >= WIDE
    sizes = dict.fromkeys(SIZES[one.counts] for one in summaries)
    counts = "/".join(sizes if wide else (name if len(name) < 3 else name[0] for name in sizes))
    claim = "claim" if wide else ""
    headers = ("method", "by", "fits", "objective", "gap", claim, counts, "err %", "interval", "sec")
    rows: list[list[str | Text]] = []
    previous = ""
    for one in summaries:
        badge = CLAIMS[one.claim]
        gap = "–" if np.isnan(one.relative_gap) else f"{one.relative_gap:.0e}"
        rows.append([
            "" if one.method == previous else one.method, solver_word(one.solver, width), str(one.fits),
            number(one.objective, 8 if wide else 5), gap,
            Text(badge.word if wide else badge.mark, style=badge.style),
            "–" if np.isnan(one.complexity) else f"{one.complexity:.1f}".removesuffix(".0"),
            points(one.test_error), span(one.test_error_low, one.test_error_high), duration(one.seconds),
        ])  # fmt: skip
        previous = one.method
    return _plain_table(title, headers, rows)


def _apart(name: str, differences: Sequence[Difference]) -> Table:
    rows: list[list[str | Text]] = [
        [one.method, one.other, points(one.difference, True), span(one.low, one.high, True),
         Text(one.verdict, style=VERDICTS[one.verdict])] for one in differences
    ]  # fmt: skip
    headers = ("method", "less", "mean", "interval", "so the first is")
    return _plain_table(f"{name}: differences of test error, in points", headers, rows)


def proof_table(proofs: list[Proof], width: int = 120) -> Table:
    """Return a table of the bounds, and each solver's gap and seconds; a short line has fewer digits."""
    solvers = list(dict.fromkeys(solver for proof in proofs for solver in proof.objectives))
    for digits, timed in ((7, True), (5, True), (7, False), (5, False)):
        headers, rows = _proof_cells(proofs, solvers, digits, timed)
        needs = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
        if sum(needs) + 2 * len(needs) <= width:
            break
    timing = ", and seconds" if timed else ""
    return _plain_table(f"Gap to the bound on all points, in percent{timing}", headers, rows, 2)


def _proof_cells(
    proofs: list[Proof], solvers: list[str], digits: int, timed: bool
) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows; the methods are named where there are several."""
    several = len({proof.method for proof in proofs}) > 1
    rows = []
    for proof in proofs:
        gaps = proof.gaps
        times = {name: f" ({duration(proof.seconds[name])})" if timed else "" for name in gaps}
        ends = [f"{100 * gaps[name]:.3g}{times[name]}" if name in gaps else "–" for name in solvers]
        best = min(proof.objectives.values(), default=np.nan)
        names = [proof.data, proof.method] if several else [proof.data]
        rows.append([*names, number(best, digits), number(proof.bound, digits), *ends])
    return ["data", *(["method"] if several else []), "best", "bound", *solvers], rows
