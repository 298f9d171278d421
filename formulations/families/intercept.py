"""The intercept from the scores without it: the best one, and by the multipliers every optimal one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.families.family import Family
    from formulations.language.types import Vector

__all__ = [
    "Bound", "Priced", "Reaches", "allowed", "bounds_of", "breaks_of", "cheapest", "optimal_interval",
    "priced", "reaches_of", "shrink_of", "within",
]  # fmt: skip

Reaches = dict[tuple[bool, float], float]
"""How far outputs go towards each bound without slack: by its side (is it the lower one?) and its end."""


class Priced(NamedTuple):
    """The rows with slack of all families, one after the other: where they begin to hold, and their costs.

    `total` is the sum of the costs, `rising` that of the rows that hold outputs up, `any_rise` whether there
    are such rows, `repeats` the number of families. Of the samples of all families in a row, `kept` are those
    that have such a row (None for all).
    """

    places: Vector
    costs: Vector
    total: float
    rising: float
    any_rise: bool
    repeats: int
    kept: NDArray[np.intp] | None = None


def priced(families: Sequence[Family]) -> Priced:
    """What :func:`cheapest` needs of the families; a hard margin outweighs all soft rows together.

    Parameters
    ----------
    families : sequence of Family
        The families.
    """
    rows = [family for family in families if family.kink > 0.0 or family.has_slack]
    if not rows:
        return Priced(np.zeros(0), np.zeros(0), 0.0, 0.0, False, 0)
    costs = [row.cap if row.is_soft else _finite_costs(row, families) for row in rows]
    ups = [row.up for row in rows]
    rising = sum(float(cost[up].sum()) for cost, up in zip(costs, ups, strict=True))
    places = np.concatenate([row.side * row.kink for row in rows])
    whole, any_rise, kept = np.concatenate(costs), any(up.any() for up in ups), None
    if not whole.all() and whole.any():  # b need not stop where a row that costs nothing would begin to hold
        kept = np.flatnonzero(whole)
        places, whole = places[kept], whole[kept]
        any_rise = rising > 0.0
    return Priced(places, whole, float(whole.sum()), rising, any_rise, len(rows), kept)


def _finite_costs(row: Family, families: Sequence[Family]) -> Vector:
    """Costs with a finite one for rows without slack: for a bound 0, for a margin more than all soft rows."""
    soft = sum(float(family.cap[np.isfinite(family.cap)].sum()) for family in families)
    dear = 1.0 + len(row.cap) * soft if row.kink > 0.0 else 0.0
    return np.where(np.isfinite(row.cap), row.cap, dear)


def cheapest(rows: Priced, g: Vector) -> tuple[float, float]:
    """The interval of b at which the slacks of ``g + b`` cost least.

    The slope of this piecewise linear function rises by a row's cost at its breakpoint ``side * kink - g``.

    Parameters
    ----------
    rows : Priced
        The rows with slack.
    g : ndarray of shape (n,)
        Scores without intercept.
    """
    if not rows.repeats:
        return -np.inf, np.inf
    breaks = breaks_of(rows, g)
    order = breaks.argsort()
    slope = rows.costs[order].cumsum() - rows.rising
    rounding = 1e-12 * rows.total
    first = int((slope >= -rounding).argmax())
    low = float(breaks[order[first]])
    flat = slope[first] <= rounding
    high = float(breaks[order[first + 1]]) if flat and first + 1 < len(breaks) else np.inf if flat else low
    if not rows.any_rise:  # the minimum is flat from -infinity up to the first breakpoint
        low, high = -np.inf, float(breaks[order[0]])
    return low, high


def breaks_of(rows: Priced, g: Vector) -> Vector:
    """Where the slope of what the slacks of ``g + b`` cost rises, by each of the costs.

    Parameters
    ----------
    rows : Priced
        The rows with slack, of one family at least.
    g : ndarray of shape (n,)
        Scores without intercept.
    """
    scores = g if rows.repeats == 1 else np.tile(g, rows.repeats)
    return np.asarray(rows.places - (scores if rows.kept is None else scores[rows.kept]))


class Bound(NamedTuple):
    """Rows without slack, on one side, that hold outputs up to `end` >= 0 away from 0."""

    is_lower: bool
    end: float
    rows: NDArray[np.bool_] | None  # which of the samples; None for all

    def reach(self, f: Vector) -> float:
        """How far outputs f (n,) go towards this bound; -inf where no row is."""
        if self.rows is None:
            return float(-f.min() if self.is_lower else f.max())
        mine = f[self.rows]
        return float(-mine.min(initial=np.inf) if self.is_lower else mine.max(initial=-np.inf))


def bounds_of(families: Sequence[Family]) -> list[Bound]:
    """The bounds without slack.

    Parameters
    ----------
    families : sequence of Family
        The families.
    """
    found = []
    for family in families:
        if family.kink <= 0.0 and not family.is_soft:
            hard = np.isinf(family.common_cap)
            for is_lower in (True, False):
                rows = hard & (family.up == is_lower)
                if rows.any():
                    found.append(Bound(is_lower, -family.kink, None if rows.all() else rows))
    return found


def reaches_of(bounds: Sequence[Bound], f: Vector) -> Reaches:
    """How far outputs f (n,) go towards each of these bounds.

    Parameters
    ----------
    bounds : sequence of Bound
        The bounds.
    f : ndarray of shape (n,)
        Outputs.
    """
    found: Reaches = {}
    for bound in bounds:
        key = bound.is_lower, bound.end
        found[key] = max(bound.reach(f), found.get(key, -np.inf))
    return found


def shrink_of(reaches: Reaches) -> float:
    """The factor, at most 1, that brings outputs that reach so far within every bound.

    Parameters
    ----------
    reaches : dict
        As of :func:`reaches_of`.
    """
    return min((end / reach for (_, end), reach in reaches.items() if reach > end), default=1.0)


def allowed(reaches: Reaches) -> tuple[float, float]:
    """The interval of b that keeps every bound without slack; empty where its ends are in no order.

    Parameters
    ----------
    reaches : dict
        As of :func:`reaches_of`, of the scores without intercept.
    """
    least, most = -np.inf, np.inf
    for (is_lower, end), reach in reaches.items():
        room = end - reach
        if is_lower:
            least = max(least, -room)
        else:
            most = min(most, room)
    return least, most


def within(interval: tuple[float, float], bounds: tuple[float, float]) -> float:
    """The middle of an interval of b, as far as another one allows it; of that one, where it is empty.

    Parameters
    ----------
    interval : tuple of float
        Such as that of :func:`cheapest`.
    bounds : tuple of float
        Such as that of :func:`allowed`.
    """
    (low, high), (least, most) = interval, bounds
    if least > most:
        return (least + most) / 2
    low, high = min(max(low, least), most), min(max(high, least), most)
    if np.isinf(low) or np.isinf(high):  # bounds alone, on one side: any b beyond its end does
        return high if np.isfinite(high) else low if np.isfinite(low) else 0.0
    return (low + high) / 2


def optimal_interval(families: Sequence[Family], g: Vector, Z: Vector, tol: float) -> tuple[float, float]:
    """The interval [lo, hi] of every optimal b, by the optimality conditions.

    A row with a multiplier above 0 is not beyond its kink, and one with a multiplier below its cap needs no
    slack. Each bounds b on one side.

    Parameters
    ----------
    families : sequence of Family
        The families.
    g : ndarray of shape (n,)
        Scores without intercept.
    Z : ndarray of shape (q, n)
        Multipliers.
    tol : float
        A multiplier within `tol` times the largest cost of an end counts as at it.
    """
    costs = [float(family.cap.max(initial=0.0, where=np.isfinite(family.cap))) for family in families]
    slack, lo, hi = tol * max(costs), -np.inf, np.inf
    for family, mu in zip(families, Z, strict=True):
        place, up = family.side * family.kink - g, family.side > 0
        held, open_ = mu > slack, mu < family.cap - slack
        lo = max(lo, float(place[np.where(up, open_, held)].max(initial=-np.inf)))
        hi = min(hi, float(place[np.where(up, held, open_)].min(initial=np.inf)))
    return lo, hi
