"""The best intercept for w, of samples in blocks: the cost of slack is convex and piecewise linear in b.

Its slope rises by a row's cost where b meets the row. The sign change is searched for among the edges of a
grid, then among edges between two of these, until few rows are left; they are listed and sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from formulations.families import Families, breaks_of
from formulations.language.types import Vector

_GRID_EDGES = 512
_MAX_LISTED_ROWS = 50_000  # rows that are listed and sorted
_SLOPE_ROUNDING = 1e-12  # slopes within this share of all costs count as 0


class Ends(NamedTuple):
    """The first and last b at which a row with a cost is met, the number of these rows, and their total cost.

    rising: total cost of the rows that hold outputs up.
    any_rise: True if there are such rows.
    """

    first: float
    last: float
    n: int
    total: float
    rising: float
    any_rise: bool


class Few(NamedTuple):
    """Cost of the rows met before an interval; each b in it, ascending, with its cost; the first b after."""

    before: float
    places: Vector
    costs: Vector
    after: float


def ends_of(rows: Families, g: Vector) -> Ends:
    """The ends and sums of the costs, at scores g (n,) without intercept."""
    known, breaks = rows.priced, _breaks(rows, g)
    ends = float(breaks.min(initial=np.inf)), float(breaks.max(initial=-np.inf))
    return Ends(*ends, len(breaks), known.total, known.rising, known.any_rise)


def _breaks(rows: Families, g: Vector) -> Vector:
    """The b at which rows with a cost are met."""
    return breaks_of(rows.priced, g) if rows.priced.total > 0.0 else np.zeros(0)


def bins_of(rows: Families, g: Vector, edges: Vector) -> Vector:
    """Costs and numbers of rows met up to the first edge, up to the next, ..., and after the last."""
    bins, size = edges.searchsorted(_breaks(rows, g)), len(edges) + 1
    return np.stack(
        [np.bincount(bins, rows.priced.costs[: len(bins)], size), np.bincount(bins, minlength=size)]
    )


def few_of(rows: Families, g: Vector, low: float, high: float) -> Few:
    """The b above `low`, up to `high`, at which rows are met."""
    breaks = _breaks(rows, g)
    costs = rows.priced.costs[: len(breaks)]
    before, within = breaks <= low, (breaks > low) & (breaks <= high)
    places, which = np.unique(breaks[within], return_inverse=True)
    after = float(breaks[breaks > high].min(initial=np.inf))
    sums = np.bincount(which, costs[within], len(places)).astype(float)
    return Few(float(costs[before].sum()), places, sums, after)


def cheapest_of_blocks(
    ask: Callable[..., list], total: Callable[[list], Vector], w: Vector
) -> tuple[float, float]:
    """Return the interval of b at which the slacks cost least for w (m,).

    ask: returns the answers of all blocks.
    total: sums them in a fixed order.
    """
    ends: list[Ends] = ask("break_ends", w)
    first, last = min(e.first for e in ends), max(e.last for e in ends)
    if not any(e.n for e in ends):
        return -np.inf, np.inf
    if not any(e.any_rise for e in ends):  # flat from -infinity up to the first
        return -np.inf, first
    costs, rising = float(total([e.total for e in ends])), float(total([e.rising for e in ends]))
    rounding = _SLOPE_ROUNDING * costs
    low, high, left = -np.inf, last, sum(e.n for e in ends)
    for _ in range(6):  # rows that are still together then are so to the last digits
        begin = first if np.isinf(low) else low
        edges = np.unique(np.linspace(begin, high, _GRID_EDGES))
        if left <= _MAX_LISTED_ROWS or len(edges) < 3:
            break
        found = total(ask("break_bins", w, edges))
        slopes = found[0].cumsum() - rising
        at = int((slopes >= -rounding).argmax())
        if slopes[at] < -rounding or at >= len(edges):  # by rounding of the sums: it is at the end
            at = len(edges) - 1
        low, high, left = (-np.inf if at == 0 else float(edges[at - 1])), float(edges[at]), int(found[1, at])
    few: list[Few] = ask("few_breaks", w, low, high)
    places, which = np.unique(np.concatenate([f.places for f in few]), return_inverse=True)
    steps = np.bincount(which, np.concatenate([f.costs for f in few]), len(places))
    slope = float(total([f.before for f in few])) + steps.cumsum() - rising
    after = min(f.after for f in few)
    if not len(places):
        return (low, low) if np.isfinite(low) else (after, after)
    at = int((slope >= -rounding).argmax()) if (slope >= -rounding).any() else len(places) - 1
    flat = abs(slope[at]) <= rounding
    following = float(places[at + 1]) if at + 1 < len(places) else after
    return float(places[at]), following if flat else float(places[at])
