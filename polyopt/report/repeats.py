"""The part of a comparison's page on repeated runs: means, differences, and every single fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.compare.repeat_table import points, span
from polyopt.compare.table import CLAIMS, SIZES, duration, number
from polyopt.report.frame import cells_table

if TYPE_CHECKING:
    from polyopt.compare.comparison import Comparison

__all__ = ["repeats_section"]

_MEANS = (
    ("method", "text"), ("solver", "text"), ("fits", ""), ("failed", ""), ("objective", ""),
    ("proven bound", ""), ("largest gap", ""), ("weakest claim", "text"), ("size", ""), ("test error %", ""),
    ("interval", ""), ("seconds", ""),
)  # fmt: skip
_APART = (
    ("method", "text"), ("less", "text"), ("splits", ""), ("points", ""), ("interval", ""),
    ("so the first is", "text"),
)  # fmt: skip
_FITS = (
    ("method", "text"), ("solver", "text"), ("split", ""), ("seed", ""), ("settings", "text"),
    ("objective", ""), ("proven bound", ""), ("gap", ""), ("claim", "text"), ("size", ""),
    ("test error %", ""), ("seconds", ""), ("status", "text"),
)  # fmt: skip


def repeats_section(comparison: Comparison, name: str) -> str:
    """Means over splits and seeds, differences between methods, and the single fits, of one data set.

    comparison: A repeated one.
    name: the data set.
    """

    def small(value: float) -> str:
        return "–" if np.isnan(value) else f"{value:.1e}"

    def claim(name: str) -> str:
        return f"{CLAIMS[name].mark} {CLAIMS[name].word}"

    means = [
        (one.method, one.solver, str(one.fits), str(one.failed), number(one.objective), number(one.bound),
         small(one.relative_gap), claim(one.claim),
         "–" if np.isnan(one.complexity) else f"{one.complexity:.1f} {SIZES[one.counts]}",
         points(one.test_error), span(one.test_error_low, one.test_error_high), duration(one.seconds))
        for one in comparison.summaries() if one.data == name
    ]  # fmt: skip
    apart = [
        (f"{one.method} ({one.solver})", f"{one.other} ({one.other_solver})", str(one.splits),
         points(one.difference, True), span(one.low, one.high, True), one.verdict)
        for one in comparison.differences() if one.data == name
    ]  # fmt: skip
    fits = [
        (row.method, row.solver, str(row.split), str(row.seed), row.settings, number(row.objective),
         number(row.bound), small(row.relative_gap), claim(row.claim),
         "–" if row.complexity is None else f"{row.complexity} {SIZES[row.counts]}",
         points(row.test_error), duration(row.seconds), row.status)
        for row in comparison.rows if row.data == name
    ]  # fmt: skip
    parts = ["<h3>Means over splits and seeds</h3>", cells_table(_MEANS, means)]
    if apart:
        parts += ["<h3>Differences of test error, in points</h3>", cells_table(_APART, apart)]
    parts.append(f"<details><summary>All {len(fits)} fits</summary>{cells_table(_FITS, fits)}</details>")
    parts.append("<h3>The first split and seed</h3>")
    return "\n".join(parts)
