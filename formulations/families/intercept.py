"""The intercept from the scores without it: the best one, and by the multipliers every optimal one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formulations.families.family import Family

    Vector = NDArray[np.float64]
    Bound = tuple[Vector, NDArray[np.bool_], NDArray[np.bool_]]

__all__ = ["allowed", "bounds_of", "cheapest", "optimal_interval"]


def cheapest(families: Sequence[Family], g: Vector) -> tuple[float, float]:
    """The interval of b at which the slacks of ``g + b`` cost least.

    The slope of this piecewise linear function rises by a row's cap at its breakpoint ``side * kink - g``. An
    interval without end is left at its finite end.

    Parameters
    ----------
    families : sequence of Family
        The families.
    g : ndarray of shape (n,)
        Scores without intercept.
    """
    breaks, sides, costs = _priced(families, g)
    if not len(breaks):
        return -np.inf, np.inf
    order = breaks.argsort()
    slope = costs[order].cumsum() - float(costs[sides > 0].sum())
    rounding = 1e-12 * float(costs.sum())
    first = int((slope >= -rounding).argmax())
    low = float(breaks[order[first]])
    flat = slope[first] <= rounding
    high = float(breaks[order[first + 1]]) if flat and first + 1 < len(breaks) else low
    if flat and not (sides > 0).any():  # the minimum is flat from -infinity up to the first breakpoint
        low = high = float(breaks[order[0]])
    return low, high


def _priced(families: Sequence[Family], g: Vector) -> tuple[Vector, Vector, Vector]:
    """Breakpoints, sides and costs of the rows with slack; a hard margin outweighs all soft ones together."""
    found: list[tuple[Vector, Vector, Vector]] = []
    for family in families:
        hard = np.isinf(family.cap)
        if family.kink <= 0.0 and hard.all():
            continue
        costs = np.where(hard, _outweighing(families) if family.kink > 0.0 else 0.0, family.cap)
        found.append((family.side * family.kink - g, family.side, costs if hard.any() else family.cap))
    if not found:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    breaks, sides, priced = found[0] if len(found) == 1 else map(np.concatenate, zip(*found, strict=True))
    return breaks, sides, priced


def _outweighing(families: Sequence[Family]) -> float:
    soft = sum(float(family.cap[np.isfinite(family.cap)].sum()) for family in families)
    return 1.0 + len(families[0].side) * soft


def bounds_of(families: Sequence[Family]) -> list[Bound]:
    """Of each family of bounds without slack: where it ends the outputs, and which it holds up and down.

    Parameters
    ----------
    families : sequence of Family
        The families.
    """
    found = []
    for family in families:
        hard = np.isinf(family.cap)
        if family.kink <= 0.0 and hard.any():
            up = family.side > 0
            found.append((family.side * family.kink, hard & up, hard & ~up))
    return found


def allowed(bounds: list[Bound], g: Vector) -> tuple[float, float]:
    """The interval of b that keeps every bound without slack; empty where its ends are in no order.

    Parameters
    ----------
    bounds : list
        As :func:`bounds_of` gives them.
    g : ndarray of shape (n,)
        Scores without intercept.
    """
    least, most = -np.inf, np.inf
    for places, up, down in bounds:
        ends = places - g
        least = max(least, float(ends.max(initial=-np.inf, where=up)))
        most = min(most, float(ends.min(initial=np.inf, where=down)))
    return least, most


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
