"""The best intercept b for given w, of samples in blocks.

Families of constraints (`rows`) bound the outputs g_i + b of the samples, g_i = w'x_i, from below (side +1)
or above (side −1), such as the margins y_i (g_i + b) ≥ 1 − ξ_i. The cost of the slacks ξ is convex and
piecewise linear in b. Its breakpoints are the b at which a constraint with slack becomes tight; there the
slope rises by the cost of a unit of this slack. The breakpoint at which the slope changes sign is bracketed
by the edges of a grid, and the bracket is refined by further grids until few breakpoints are left, which are
listed and sorted.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from formulations.families import Families, breaks_of
from formulations.language.types import Vector

_MAX_LISTED = 50_000  # breakpoints
_SLOPE_ROUNDING = 1e-12  # size of a slope, relative to the sum of all costs, that counts as 0


class BreakpointRange(NamedTuple):
    """The range of the breakpoints, and sums of their costs."""

    first: float  # infinity if there is no breakpoint
    last: float  # minus infinity if there is no breakpoint
    n: int  # number of breakpoints
    total: float  # sum of all costs
    rising: float  # sum of the costs of constraints of side +1: minus the slope at b = -infinity
    any_rise: bool  # True if there is a constraint of side +1


class ListedBreakpoints(NamedTuple):
    """The breakpoints in an interval of b."""

    cost_before: float  # sum of the costs of the breakpoints before the interval
    positions: Vector  # distinct breakpoints in the interval, ascending
    costs: Vector  # cost at each position
    following: float  # first breakpoint after the interval, or infinity


def breakpoint_range(rows: Families, g: Vector) -> BreakpointRange:
    """Return the range of the breakpoints at scores g (n,) without intercept."""
    known, breaks = rows.slack_costs, _breakpoints(rows, g)  # `known` has the sums that do not depend on g
    first, last = float(breaks.min(initial=np.inf)), float(breaks.max(initial=-np.inf))
    return BreakpointRange(first, last, len(breaks), known.total, known.rising, known.any_rise)


def _breakpoints(rows: Families, g: Vector) -> Vector:
    """Return the breakpoints in the order of ``rows.slack_costs``; none if no constraint has a cost."""
    return breaks_of(rows.slack_costs, g) if rows.slack_costs.total > 0.0 else np.zeros(0)


def breakpoint_histogram(rows: Families, g: Vector, edges: Vector) -> Vector:
    """Return the costs and the numbers of the breakpoints between the edges, shape (2, edges + 1).

    The first column is for breakpoints up to the first edge, the last one for those beyond all edges.
    """
    bins, size = edges.searchsorted(_breakpoints(rows, g)), len(edges) + 1
    return np.stack(
        [np.bincount(bins, rows.slack_costs.costs[: len(bins)], size), np.bincount(bins, minlength=size)]
    )


def list_breakpoints(rows: Families, g: Vector, low: float, high: float) -> ListedBreakpoints:
    """Return the breakpoints above `low`, up to `high` (none if no constraint has a cost)."""
    breaks = _breakpoints(rows, g)
    costs = rows.slack_costs.costs[: len(breaks)]
    before, within = breaks <= low, (breaks > low) & (breaks <= high)
    positions, index = np.unique(breaks[within], return_inverse=True)
    following = float(breaks[breaks > high].min(initial=np.inf))
    cost_at = np.bincount(index, costs[within], len(positions)).astype(float)
    return ListedBreakpoints(float(costs[before].sum()), positions, cost_at, following)


def best_intercept_interval(
    ask: Callable[..., list], total: Callable[[list], Vector], w: Vector, max_listed: int = _MAX_LISTED
) -> tuple[float, float]:
    """Return the interval (least b, largest b) at which the slacks cost least for w (m,).

    ask: ``ask(name, w, *arguments)`` lists the results of ``name(rows, Xw, *arguments)`` of all blocks X.
    total: sums a list in a fixed order.
    max_listed: largest number of breakpoints that are listed and sorted.
    """
    ranges: list[BreakpointRange] = ask("breakpoint_range", w)
    first, last = min(r.first for r in ranges), max(r.last for r in ranges)
    if not any(r.n for r in ranges):
        return -np.inf, np.inf
    if not any(r.any_rise for r in ranges):  # the cost is constant up to the first breakpoint
        return -np.inf, first
    costs, rising = float(total([r.total for r in ranges])), float(total([r.rising for r in ranges]))
    # Grids of 512 edges narrow the bracket (low, high] of the b at which the slope changes sign.
    tolerance = _SLOPE_ROUNDING * costs
    low, high, n_inside = -np.inf, last, sum(r.n for r in ranges)  # number of breakpoints in the bracket
    for _ in range(6):  # breakpoints that six grids do not separate are equal up to their last digits
        edges = np.unique(np.linspace(first if np.isinf(low) else low, high, 512))
        if n_inside <= max_listed or len(edges) < 3:
            break
        histogram = total(ask("breakpoint_histogram", w, edges))
        slopes = histogram[0].cumsum() - rising  # after each edge; the last one is after all breakpoints
        k = int((slopes >= -tolerance).argmax())
        if slopes[k] < -tolerance or k >= len(edges):  # rounding only: the sign changes at the last edge
            k = len(edges) - 1
        low, high = (-np.inf if k == 0 else float(edges[k - 1])), float(edges[k])
        n_inside = int(histogram[1, k])
    # The breakpoints of all blocks in the bracket, and the slope after each.
    listed: list[ListedBreakpoints] = ask("list_breakpoints", w, low, high)
    positions, index = np.unique(np.concatenate([part.positions for part in listed]), return_inverse=True)
    increases = np.bincount(index, np.concatenate([part.costs for part in listed]), len(positions))
    slopes = float(total([part.cost_before for part in listed])) + increases.cumsum() - rising
    following = min(part.following for part in listed)
    if not len(positions):  # possible only by rounding of the sums
        return (low, low) if np.isfinite(low) else (following, following)
    # The first breakpoint after which the slope is not negative.
    k = int((slopes >= -tolerance).argmax()) if (slopes >= -tolerance).any() else len(positions) - 1
    is_flat = abs(slopes[k]) <= tolerance  # then every b up to the next breakpoint is optimal
    next_position = float(positions[k + 1]) if k + 1 < len(positions) else following
    return float(positions[k]), next_position if is_flat else float(positions[k])
