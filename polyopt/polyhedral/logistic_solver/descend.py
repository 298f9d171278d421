"""From a start to a good point: L-BFGS on the objective with soft maxima, softer ones first.

With a price of groups the steps are proximal (:func:`proximal`): along the slope, each followed by the
price's own shrinking. The price is not smooth where a group is 0, and there its groups end, exactly. A step
goes from V to the least of the slope, L/2 times the squared step, and the price: every pull L V − G goes λ
nearer to 0, its group τ, and is divided by L. L is the curvature along the last step (Barzilai & Borwein
1988), doubled until the objective is below the largest of the last few (SpaRSA: Wright, Nowak & Figueiredo,
Sparse Reconstruction by Separable Approximation, 2009). Features have spread 1, but those of one group one
scale together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from formulations.language.clock import Clock
from formulations.language.types import is_sparse
from polyopt.optim.logistic_newton import ARMIJO
from polyopt.polyhedral.logistic_solver.quasi_newton import quasi_newton
from polyopt.polyhedral.logistic_solver.smooth import FaceLoss, Units

Array = NDArray[np.float64]
Progress = Callable[[float, float], None]


_MEMORY = 5  # objectives, of which the largest may be reached again
_RANGE = 1e-10, 1e10  # of L, next to the weight of the samples


def descend(
    problem: FaceLoss, W: Array, clock: Clock, *, softness: Sequence[float] = (1.0, 0.3), max_iter: int = 100,
    tol: float = 1e-9, most: int | None = None, progress: Progress | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective.

    Dense samples without a price and without signs go to :mod:`.quasi_newton`, those with a price of groups
    to :mod:`.proximal`, all else to L-BFGS-B.

    Parameters
    ----------
    problem : FaceLoss
        The samples and prices.
    W : ndarray of shape (K, m+1)
        Faces to begin from, not all alike; weights that are held at 0 may be anything.
    clock : Clock
        When to stop; the best point so far is kept then. Ctrl-C stops it.
    softness : sequence of float
        t of the maxima, one after the other.
    max_iter : int
        Iterations for each of them.
    tol : float
        Relative decrease of a step at which to stop.
    most : int, optional
        Iterations in all.
    progress : callable, optional
        Called with the softness and the smoothed objective after each iteration.

    Returns
    -------
    W : ndarray
        Faces. With a price they have exact zeros.
    iterations : int
        In all.
    """
    limits = _Limits(softness, max_iter, np.inf if most is None else most, tol, progress)
    smooth = problem.l1 == 0.0 and not problem.ways.any()
    if problem.group > 0.0 or (smooth and not is_sparse(problem.X)):
        W, made = np.where(problem.entries, W, 0.0), 0
        run = proximal if problem.group > 0.0 else quasi_newton
        for t in softness:
            W, steps = run(problem, W, clock, t, limits.after(made), tol, limits.progress_at(t))
            made += steps
            if clock.is_over:
                break
        return W, made
    if problem.l1 > 0.0 and problem.support is None:
        return _by_features(problem, W, clock, limits)
    return _descended(problem, W, clock, limits)


@dataclass(frozen=True)
class _Limits:
    """The softnesses of a descent, the iterations at each and in all, and the decrease at which it stops."""

    softness: Sequence[float]
    max_iter: int
    most: float
    tol: float
    progress: Progress | None

    def after(self, made: int) -> int:
        """Iterations that the next softness may take after so many."""
        return int(min(self.max_iter, self.most - made))

    def less(self, made: int) -> _Limits:
        """The limits of a descent that goes on after so many iterations."""
        return replace(self, most=self.most - made)

    def progress_at(self, t: float) -> Callable[[float], None] | None:
        """Progress at one softness, as a function of the objective alone."""
        return None if self.progress is None else partial(self.progress, t)


def _by_features(problem: FaceLoss, W: Array, clock: Clock, limits: _Limits) -> tuple[Array, int]:
    """With a price on the features in use alone, and again where the slope asks for others."""
    active, made, sharpest = (W[:, :-1] != 0.0).any(axis=0), 0, limits.softness[-1]
    for _ in range(3):  # times that features come in
        if not active.any() or active.mean() > 0.8:  # nearly all are in use
            break
        part = problem.of_features(np.flatnonzero(active))
        kept = np.append(active, True)
        V, steps = _descended(part, W[:, kept], clock, limits.less(made))
        W, made = np.zeros(problem.shape), made + steps
        W[:, kept] = V
        slope = problem.smooth(W, sharpest, sharpest)[1][:, :-1]
        up, down = (1.001 * price[:, :-1] for price in problem.thresholds)
        wanted = ((slope < -up) | (slope > down)).any(axis=0) & ~active
        if not wanted.any() or made >= limits.most or clock.is_over:
            return W, made
        active |= wanted
    W, steps = _descended(problem, W, clock, limits.less(made))
    return W, made + steps


def _descended(problem: FaceLoss, W: Array, clock: Clock, limits: _Limits) -> tuple[Array, int]:
    allowed = problem.entries
    units = problem.units
    here, made = units.inward(problem.allowed(W))[allowed], 0
    price = np.broadcast_to(problem.prices / units.scale, problem.shape)[allowed]
    whole = np.zeros(problem.shape)
    split = problem.l1 > 0.0
    bounds = _bounds(problem.ways[allowed], split)

    def evaluate(x: Array, t: float) -> tuple[float, Array]:
        whole[allowed] = x
        loss, slope, _, _ = problem.smooth(units.outward(whole), t, t)
        return loss, units.slope(slope)[allowed]

    def evaluate_parts(x: Array, t: float) -> tuple[float, Array]:
        plus, minus = x[: len(x) // 2], x[len(x) // 2 :]
        loss, slope = evaluate(plus - minus, t)
        return loss + float(price @ (plus + minus)), np.r_[slope + price, price - slope]

    def point_of(x: Array) -> Array:
        return x[: len(x) // 2] - x[len(x) // 2 :] if split else x

    def after_step(progress: Callable[[float], None] | None, intermediate_result: OptimizeResult) -> None:
        nonlocal here
        here = point_of(intermediate_result.x).copy()
        if progress is not None:
            progress(float(intermediate_result.fun))
        if clock.is_over:
            raise StopIteration

    for t in limits.softness:
        if limits.after(made) < 1:
            break
        start = np.r_[np.maximum(here, 0.0), np.maximum(-here, 0.0)] if split else here
        try:
            found = minimize(
                evaluate_parts if split else evaluate, start, args=(t,), jac=True, method="L-BFGS-B",
                bounds=bounds, callback=partial(after_step, limits.progress_at(t)),
                options={"maxiter": limits.after(made), "ftol": limits.tol, "gtol": 0.0},
            )  # fmt: skip
        except KeyboardInterrupt:  # the point after the last whole step is kept
            clock.stop()
            break
        here = point_of(found.x)
        made += int(found.nit)
        if clock.is_over:
            break
    W = np.zeros(problem.shape)
    W[allowed] = here
    return units.outward(W), made


def _bounds(ways: Array, split: bool) -> list[tuple[float | None, float | None]] | None:
    """Of entries with such signs to keep: of what they have above 0 and below it, or of themselves."""
    if split:
        sides = np.r_[ways >= 0, ways <= 0]
        return [(0.0, None if may else 0.0) for may in sides.tolist()]
    if not ways.any():
        return None
    return [(0.0 if way > 0 else None, 0.0 if way < 0 else None) for way in ways.tolist()]


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
            for _ in range(40):
                trial = price.shrunk(L * V - slope, L)
                moved = trial - V
                found, steep = evaluate(trial)
                if found <= max(last) - ARMIJO * 0.5 * L * float((moved * moved).sum()):
                    break
                L *= 2.0
            else:
                break
            made += 1
            if progress is not None:
                progress(found)
            bend, square = float((moved * (steep - slope)).sum()), float((moved * moved).sum())
            fallen, (V, slope) = last[-1] - found, (trial, steep)
            last = [*last[1 - _MEMORY :], found]
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
