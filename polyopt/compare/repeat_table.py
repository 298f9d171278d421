"""Means and differences as rich tables, laid out for the width there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from polyopt.compare.repeats import LEVEL
from polyopt.compare.table import CLAIMS, SIZES, WIDE, duration, marks_explained, number, solver_word

if TYPE_CHECKING:
    from polyopt.compare.repeats import Difference, Summary

__all__ = ["VERDICTS", "points", "repeat_notes", "repeat_tables", "shown_differences", "span"]


VERDICTS = {
    "lower": "green",
    "higher": "red",
    "not told apart": "dim",
    "equal": "dim",
}
"""The colour of each verdict."""


def points(share: float, sign: bool = False) -> str:
    """A share in points of a hundred; a dash where there is none."""
    if np.isnan(share):
        return "–"
    text = f"{100 * share:{'+' if sign else ''}.1f}"
    return text.lstrip("+-") if float(text) == 0.0 else text.replace("-", "−")


def span(low: float, high: float, sign: bool = False) -> str:
    """An interval in points of a hundred; a dash where there is none."""
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
    parts += [
        Text(
            f"{one.method} {one.solver} on {one.data}: {one.failed} of {one.fits} fits failed", style="yellow"
        )
        for one in summaries
        if one.failed
    ]
    parts += [Text(note, style="dim") for note in notes]
    return Group(*parts)


def shown_differences(differences: Sequence[Difference], summaries: Sequence[Summary]) -> list[Difference]:
    """All differences on a data set; of many methods those to the method whose mean test error is lowest."""
    if len(differences) <= 15:
        return list(differences)
    fast = {(one.method, one.solver) for one in differences} | {
        (one.other, one.other_solver) for one in differences
    }
    kept = [one for one in summaries if (one.method, one.solver) in fast and not np.isnan(one.test_error)]
    best = min(kept, key=lambda one: one.test_error).method
    return [one for one in differences if best in (one.method, one.other)]


def repeat_notes(splits: int, seeds: int, n_shown: int, n_differences: int) -> list[str]:
    """Explain how means, intervals and differences are computed, as sentences.

    n_shown, n_differences: differences that are printed, and that there are.
    """
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
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, show_edge=False, pad_edge=False,
        padding=(0, 1, 0, 0), header_style="bold",
    )  # fmt: skip
    sizes = dict.fromkeys(SIZES[one.counts] for one in summaries)
    counts = "/".join(sizes if wide else (name if len(name) < 3 else name[0] for name in sizes))
    headers = [
        "method",
        "by",
        "fits",
        "objective",
        "gap",
        "claim" if wide else "",
        counts,
        "err %",
        "interval",
    ]
    for header in (*headers, "sec"):
        justify: Any = "left" if header in ("method", "by", "claim", "") else "right"
        table.add_column(header, justify=justify, no_wrap=True, overflow="ellipsis")
    previous = ""
    for one in summaries:
        badge = CLAIMS[one.claim]
        gap = "–" if np.isnan(one.relative_gap) else f"{one.relative_gap:.0e}"
        table.add_row(
            "" if one.method == previous else one.method, solver_word(one.solver, width), str(one.fits),
            number(one.objective, 8 if wide else 5), gap,
            Text(badge.word if wide else badge.mark, style=badge.style),
            "–" if np.isnan(one.complexity) else f"{one.complexity:.1f}".removesuffix(".0"),
            points(one.test_error), span(one.test_error_low, one.test_error_high), duration(one.seconds),
        )  # fmt: skip
        previous = one.method
    return table


def _apart(name: str, differences: Sequence[Difference]) -> Table:
    table = Table(
        title=f"{name}: differences of test error, in points", title_justify="left", title_style="bold",
        box=None, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold",
    )  # fmt: skip
    for header in ("method", "less", "mean", "interval", "so the first is"):
        justify: Any = "right" if header in ("mean", "interval") else "left"
        table.add_column(header, justify=justify, no_wrap=True, overflow="ellipsis")
    for one in differences:
        table.add_row(
            one.method, one.other, points(one.difference, True), span(one.low, one.high, True),
            Text(one.verdict, style=VERDICTS[one.verdict]),
        )  # fmt: skip
    return table
