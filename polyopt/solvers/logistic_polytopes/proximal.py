"""Descent with a price of groups: steps along the slope, each followed by the price's own shrinking.

The price is not smooth where a group is 0, and there its groups end, exactly. A step goes from V to the least
of the slope, L/2 times the squared step, and the price: every pull L V − G goes λ nearer to 0, its group τ,
and is divided by L. L is the curvature along the last step (Barzilai & Borwein 1988), doubled until the
objective is below the largest of the last few (SpaRSA: Wright, Nowak & Figueiredo, Sparse Reconstruction by
Separable Approximation, 2009). Features have spread 1, but those of one group one scale together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.logistic_polytopes.smooth import Units

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.clock import Clock
    from polyopt.solvers.logistic_polytopes.smooth import FaceLoss

    Array = NDArray[np.float64]

__all__ = ["proximal"]

_KEPT = 5  # objectives, of which the largest may be reached again
_ENOUGH = 1e-4  # share of the decrease that L/2 times the squared step promises
_TRIALS = 40  # doublings of L
_RANGE = 1e-10, 1e10  # of L, next to the weight of the samples


def proximal(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    progress: Callable[[float], None] | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective with a price of groups.

    problem: the samples and prices.
    W (K, m+1): faces to begin from, 0 where they may not differ from it.
    clock: when to stop; the best point so far is kept then.
    softness: t of the maxima, positive.
    max_iter: steps at most.
    tol: relative decrease of a step at which to stop.
    progress: called with the smoothed objective after each step.
    Returns W: faces, with exact zeros.
    Returns steps: how many were made.
    """
    price = _Price(problem)
    weight = float(problem.c.sum())

    def evaluate(V: Array) -> tuple[float, Array]:
        W = price.outward(V)
        loss, slope, _, _ = problem.smooth(W, softness, softness)
        return loss + problem.price(W), price.units.slope(slope)

    V = price.inward(problem.allowed(W))
    value, slope = evaluate(V)
    best, last, L, made = (value, V), [value], weight, 0
    try:
        while made < max_iter and not clock.is_over:
            for _ in range(_TRIALS):
                trial = price.shrunk(L * V - slope, L)
                moved = trial - V
                found, steep = evaluate(trial)
                if found <= max(last) - _ENOUGH * 0.5 * L * float((moved * moved).sum()):
                    break
                L *= 2.0
            else:
                break
            made += 1
            if progress is not None:
                progress(found)
            bend, square = float((moved * (steep - slope)).sum()), float((moved * moved).sum())
            fallen, (V, slope) = last[-1] - found, (trial, steep)
            last = [*last[1 - _KEPT :], found]
            best = min(best, (found, V), key=lambda point: point[0])
            if square == 0.0 or abs(fallen) <= tol * abs(found):
                break
            L = float(np.clip(bend / square, _RANGE[0] * weight, _RANGE[1] * weight))
    except KeyboardInterrupt:
        clock.stop()
    return price.outward(best[1]), made


class _Price:
    """The price of faces in units in which the features of a group have one scale."""

    def __init__(self, problem: FaceLoss):
        groups, scale = problem.face_price.groups, problem.units.scale[:-1]
        squares = np.bincount(groups, scale * scale) / np.bincount(groups)
        own = np.sqrt(squares)[groups]
        self.problem, self.units = problem, Units(np.append(own, 1.0), problem.units.middle)
        entries = problem.entries
        self.up, self.down = (
            np.where(entries, each / self.units.scale, np.inf) for each in problem.thresholds
        )
        self.groups, self.tau = groups, problem.group / np.sqrt(squares)

    def inward(self, W: Array) -> Array:
        """Faces in these units."""
        return self.units.inward(W)

    def outward(self, V: Array) -> Array:
        """Faces in the units of the samples, 0 where they may not differ from it."""
        return np.where(self.problem.entries, self.units.outward(V), 0.0)

    def shrunk(self, P: Array, L: float) -> Array:
        """Pulls as the price leaves them, over L."""
        cut = np.maximum(P - self.up, 0.0) - np.maximum(-P - self.down, 0.0)
        lengths = np.sqrt(np.bincount(self.groups, (cut[:, :-1] ** 2).sum(axis=0)))
        left = np.maximum(lengths - self.tau, 0.0)
        cut[:, :-1] *= np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0.0)[self.groups]
        return cut / L
