"""Platt's sigmoid of the scores of samples that are read by blocks: Newton's method over a few sums.

It is the curve that :func:`polyopt.estimators.calibration.calibrate` fits to scores in memory. The scores are
made anew in each pass, by the machine that was not fitted to the sample, and no pass leaves more of a block
than some numbers for each pair of classes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from polyopt.estimators.calibration import Calibration, Units, curve_of, flat_nodes, line_of, targets_of
from polyopt.large.held import Walk
from polyopt.large.parts import costed
from polyopt.large.sieve import fold_of_rows
from polyopt.large.slices import slices_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from polyopt.large.held import Hands
    from polyopt.large.sources import Samples

    Vector = NDArray[np.float64]

__all__ = ["Scorers", "Scoring", "platt"]

_STEPS = (1.0, 0.25, 0.0625, 2.0**-8)  # of Newton's, that a pass tries
_DECREMENT = 1e-20  # of the weight of all samples, at which it ends
_ROUNDING = 1e-12  # of the loss, by which it may rise in a full step
_RIDGE = 1e-12  # of the Hessian's trace
_ITERATIONS = 100


class Scoring(Protocol):
    """A machine that scores samples."""

    def _pair_scores(self, X: Any) -> Vector:
        """Scores (t, pairs)."""


class Scorers(NamedTuple):
    """Who scores the rows of each fold, and what they score: pairs of classes, and the weights of these.

    None scores a fold without samples.
    """

    machines: list[Scoring | None]
    pairs: list[tuple[Any, Any]]
    factors: list[tuple[float, float]]


class _Known(NamedTuple):
    """What is known of a pair's scores: units, the least and the largest in these, weights of the classes."""

    units: Units
    low: float
    high: float
    of_first: float
    of_second: float


def platt(
    hands: Hands, count: int, scorers: Scorers, is_over: Callable[[], bool] | None = None
) -> list[Calibration] | None:
    """The curve of each pair of classes; None where time was over before.

    Parameters
    ----------
    hands : Hands
        Who reads the blocks.
    count : int
        How many blocks there are.
    scorers : Scorers
        Who scores the rows.
    is_over : callable, optional
        Whether time is over.
    """
    pairs = range(len(scorers.pairs))

    def passed(step: Callable[..., Any], *arguments: Any) -> list[Any] | None:
        return hands.walk(
            step, [Walk(None, [(number, (scorers, *arguments))]) for number in range(count)], is_over
        )

    extents = passed(_extents)
    if extents is None:
        return None
    most, sums = np.max([e[0] for e in extents], axis=0), np.sum([e[1] for e in extents], axis=0)
    sizes = most[:, 0]
    centres = sums[:, 2] / (sums[:, 0] + sums[:, 1]) / np.where(sizes > 0, sizes, 1.0)
    squares = passed(_squares, [Units(float(s), float(c), 1.0) for s, c in zip(sizes, centres, strict=True)])
    if squares is None:
        return None
    deviations = np.sqrt(np.sum(squares, axis=0) / (sums[:, 0] + sums[:, 1]))
    known = []
    for pair in pairs:
        units = Units(float(sizes[pair]), float(centres[pair]), float(deviations[pair]))
        low, high = (float(each) for each in units.told_in(np.array([-most[pair, 1], most[pair, 2]])))
        known.append(_Known(units, low, high, float(sums[pair, 0]), float(sums[pair, 1])))
    lines = _lines(known, passed)
    n_folds = sum(machine is not None for machine in scorers.machines)
    return None if lines is None else [
        curve_of(_flat(each) if line is None else line, each.units, "sigmoid", n_folds)
        for each, line in zip(known, lines, strict=True)
    ]  # fmt: skip


def _flat(known: _Known) -> Vector:
    first, second = targets_of(known.of_first, known.of_second)
    share = (known.of_first * first + known.of_second * second) / (known.of_first + known.of_second)
    return flat_nodes(known.low, known.high, share)


# -- Newton's method -----------------------------------------------------------------------------


class _Newton:
    """The method for a pair: the point (offset, slope) there is, and the points to be tried next."""

    def __init__(self, known: _Known):
        self.point = np.array([math.log((known.of_second + 1.0) / (known.of_first + 1.0)), 0.0])
        self.trial: Vector | None = self.point[None] if known.high > known.low else None
        self._least, self._weight, self._passes = np.inf, known.of_first + known.of_second, 0

    def take(self, sums: Vector) -> None:
        """Take the sums (trials, 6) at the points that were tried: loss, gradient, Hessian."""
        assert self.trial is not None
        losses = sums[:, 0]
        best = 0 if losses[0] <= self._least + _ROUNDING * abs(losses[0]) else int(losses.argmin())
        if best > 0 and losses[best] >= self._least:
            self.trial = None
            return
        self.point, self._least = self.trial[best], min(float(losses[best]), self._least)
        gradient, (of_offset, mixed, of_slope) = sums[best, 1:3], sums[best, 3:]
        hessian = np.array([[of_offset, mixed], [mixed, of_slope]])
        step = np.linalg.solve(hessian + _RIDGE * max(np.trace(hessian), 1e-300) * np.eye(2), gradient)
        self._passes += 1
        if float(gradient @ step) <= _DECREMENT * self._weight or self._passes >= _ITERATIONS:
            self.trial = None
        else:
            self.trial = self.point - np.array(_STEPS)[:, None] * step


def _lines(
    known: list[_Known], passed: Callable[..., list[Any] | None]
) -> list[tuple[float, float] | None] | None:
    """Where the log-odds of each pair are 0 and their slope, or None where they do not rise; None in time."""
    all_newton = [_Newton(each) for each in known]
    while any(newton.trial is not None for newton in all_newton):
        trials = [newton.trial for newton in all_newton]
        sums = passed(_losses, [
            None if t is None else (each.units, targets_of(each.of_first, each.of_second), t)
            for each, t in zip(known, trials, strict=True)
        ])  # fmt: skip
        if sums is None:
            return None
        for pair, newton in enumerate(all_newton):
            if newton.trial is not None:
                newton.take(np.sum([each[pair] for each in sums], axis=0))
    return [
        line_of(*newton.point.tolist()) if each.high > each.low else None
        for newton, each in zip(all_newton, known, strict=True)
    ]


# -- steps of walks ------------------------------------------------------------------------------


def _scored(
    samples: Samples, number: int, scorers: Scorers
) -> Iterator[tuple[int, Vector, NDArray[np.bool_], Vector]]:
    """Pairs with scores (t,), which samples are of the second class, and their weights; by slices of rows."""
    folds = fold_of_rows(len(samples.y), number, len(scorers.machines))
    for part, some in slices_of(samples):
        scores = np.zeros((len(some.y), len(scorers.pairs)))
        for fold, machine in enumerate(scorers.machines):
            own = folds[part] == fold
            if machine is not None and own.any():
                scores[own] = machine._pair_scores(some.X[own])
        for pair, (classes, factors) in enumerate(zip(scorers.pairs, scorers.factors, strict=True)):
            found = costed(some, classes, factors)
            if found is not None:
                yield pair, scores[found.chosen, pair], found.up, found.counts


def _extents(_: None, samples: Samples, number: int, scorers: Scorers) -> tuple[Vector, Vector]:
    """Of each pair: the largest score by size, less the least, and the largest; and what adds up.

    These are the weights of both classes, and the weighted sum of scores.
    """
    most, sums = np.full((len(scorers.pairs), 3), -np.inf), np.zeros((len(scorers.pairs), 3))
    for pair, scores, up, weights in _scored(samples, number, scorers):
        most[pair] = np.maximum(most[pair], [np.abs(scores).max(), -scores.min(), scores.max()])
        sums[pair] += [weights[~up].sum(), weights[up].sum(), weights @ scores]
    return most, sums


def _squares(_: None, samples: Samples, number: int, scorers: Scorers, units: list[Units]) -> Vector:
    """Of each pair: the weighted sum of squares about the mean."""
    sums = np.zeros(len(units))
    for pair, scores, _up, weights in _scored(samples, number, scorers):
        sums[pair] += weights @ units[pair].told_in(scores) ** 2
    return sums


def _losses(
    _: None, samples: Samples, number: int, scorers: Scorers,
    asked: list[tuple[Units, tuple[float, float], Vector] | None],
) -> list[Vector]:  # fmt: skip
    """Of each pair that asks, at each of its points (offset, slope): loss, gradient and Hessian."""
    sums = [np.zeros((0 if each is None else len(each[2]), 6)) for each in asked]
    for pair, scores, up, weights in _scored(samples, number, scorers):
        each = asked[pair]
        if each is None:
            continue
        units, (first, second), points = each
        z, targets = units.told_in(scores), np.where(up, second, first)
        for place, (offset, slope) in enumerate(points):
            odds = offset + slope * z
            p = expit(odds)
            off, bend = weights * (p - targets), weights * p * (1.0 - p)
            loss = weights @ (np.logaddexp(0.0, odds) - targets * odds)
            sums[pair][place] += [loss, off.sum(), off @ z, bend.sum(), bend @ z, bend @ (z * z)]
    return sums
