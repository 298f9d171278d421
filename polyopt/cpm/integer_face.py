"""A face of the Convex Polytope Machine of small whole numbers: its scale and its threshold, and its search.

For given numbers p the outputs are δ p·x + b, and what is left are two variables, whatever m is: a face of
one feature p·x whose square costs ‖p‖² (:mod:`polyopt.cpm.smooth_hinge`). The numbers are sought by
rounding a real face at several scales, and from the best of them by steps of single numbers, those first that
the slope 2δ²p_j − δ v_j promises most of, where the samples pull v, and of two numbers where no single one
helps.

The threshold −b/δ is then rounded to as few digits as cost no more than a small share of the objective, and
the scale to so few binary digits that its products with the numbers are exact: what is printed is the face
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations, product
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.cpm.smooth_hinge import EPS_RATIO, MAX_STAGES, REL_FALL, begin, multipliers_of, newton

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from formulations.language.types import Matrix, Vector

    Integers = NDArray[np.int64]

__all__ = ["IntegerFace", "Whole"]

_TRIES = 24  # steps of single numbers that are tried before none helps
_PAIRED = 6  # numbers of which any two are moved together
_BITS = 20  # binary digits of a scale
_MAX_THRESHOLD_COST = 1e-3  # share of the objective that a threshold of few digits may cost
_REL_TOL = 1e-9  # relative fall of the objective that counts as one, and relative gap at which a path ends


class Whole(NamedTuple):
    """A face: its numbers p (m,), their scale δ, the threshold −b/δ (or −b, where p is 0), and its cost."""

    numbers: Integers
    scale: float
    threshold: float
    objective: float

    @property
    def w(self) -> Vector:
        """The face (m+1,), bias last."""
        if not self.numbers.any():
            return np.append(np.zeros(len(self.numbers)), -self.threshold)
        return self.scale * np.append(self.numbers, -self.threshold)


@dataclass(frozen=True)
class _Line:
    """What is known of some numbers: their scale and bias, what samples pull, and the cost."""

    numbers: Integers
    scale: float
    bias: float
    pulls: Vector
    objective: float


class IntegerFace:
    """One face's samples, and their costs.

    X (n, m): samples.
    y (n,): labels: -1 inside, +1 outside.
    c (n,): costs, 0 where another face answers.
    M: the largest number, at least 1.
    s: numbers other than 0 at most; any by default.
    """

    def __init__(self, X: Matrix, y: Vector, c: Vector, M: int, s: int | None = None):
        rows = np.flatnonzero(np.asarray(c) > 0)
        self.X, self.y, self.c = X[rows], np.asarray(y, dtype=float)[rows], np.asarray(c, dtype=float)[rows]
        self.M, self.m = M, X.shape[1]
        self.s = self.m if s is None else min(s, self.m)
        self._known: dict[bytes, _Line] = {}

    def round(self, w: Vector, *others: Integers) -> Whole:
        """Whole numbers near a real face, and from there as good as single steps make them.

        w (m+1,): the real face.
        *others (m,): further numbers to begin from: the answer costs no more than any of them.
        """
        starts = [self._line(p) for p in (*others, *self._rounded(w[:-1]), np.zeros(self.m, dtype=np.int64))]
        best = min(starts, key=lambda line: line.objective)
        while (better := self._better(best)) is not None:
            best = better
        return self._printed(best)

    # -- numbers -------------------------------------------------------------------------------

    def _rounded(self, w: Vector) -> Iterator[Integers]:
        """A real face at several scales, its largest entries where there are too many."""
        size = np.abs(w)
        if not size.any():
            return
        kept = np.zeros(self.m)
        order = np.argsort(-size, kind="stable")[: self.s]
        kept[order] = w[order]
        steps = np.unique(np.round(np.geomspace(1, self.M, 24)).astype(int))
        for most in np.concatenate([steps, steps[:-1] + 0.4]):
            yield np.clip(np.round(kept * most / size.max()), -self.M, self.M).astype(np.int64)

    def _better(self, line: _Line) -> _Line | None:
        """Numbers that cost less, one or two of them another; None where none of those tried do."""
        p, scale = line.numbers, line.scale
        slope = 2.0 * scale**2 * p - scale * np.asarray(self.X.T @ line.pulls)
        tries: list[tuple[float, Integers]] = []
        is_full = int((p != 0).sum()) >= self.s
        for j in np.argsort(-np.abs(slope), kind="stable")[:_TRIES]:
            step = -1 if slope[j] > 0 else 1
            if abs(p[j] + step) <= self.M and not (is_full and p[j] == 0):
                tries.append((-abs(slope[j]), _with(p, (j, p[j] + step))))
            elif p[j] == 0 and is_full:
                for k in np.flatnonzero(np.abs(p) == np.abs(p[p != 0]).min())[:2]:
                    tries.append((-abs(slope[j]), _with(p, (k, 0), (j, step))))
        for j in np.flatnonzero(p):  # against the slope too: to 0, and back by one
            tries.append((abs(slope[j]), _with(p, (int(j), int(p[j] - np.sign(p[j]))))))
            tries.append((abs(slope[j]) * abs(p[j]), _with(p, (int(j), 0))))
        if np.abs(p).max(initial=0) <= self.M // 2:
            tries.append((0.0, 2 * p))  # finer steps from here on, for the same cost
        singles = [numbers for _, numbers in sorted(tries, key=lambda each: each[0])[: 2 * _TRIES]]
        for numbers in chain(singles, self._two_steps(p, slope)):
            found = self._line(numbers)
            if found.objective < line.objective * (1.0 - _REL_TOL):
                return found
        return None

    def _two_steps(self, p: Integers, slope: Vector) -> Iterator[Integers]:
        """Two of the numbers with the steepest slopes, each one more or one less."""
        order = np.argsort(-np.abs(slope), kind="stable")[:_PAIRED]
        for j, k in combinations(map(int, order), 2):
            for a, b in product((-1, 1), (-1, 1)):
                numbers = _with(p, (j, int(p[j]) + a), (k, int(p[k]) + b))
                if np.abs(numbers).max() <= self.M and (numbers != 0).sum() <= self.s:
                    yield numbers

    # -- the scale and the threshold -----------------------------------------------------------

    def _line(self, numbers: Integers) -> _Line:
        """The best scale and bias of some numbers; of their opposites where the scale would be negative."""
        key = numbers.tobytes()
        if key not in self._known:
            outputs = np.asarray(self.X @ numbers.astype(float)).ravel()
            scale, bias, pulls, cost = self._fitted(outputs, float(numbers @ numbers))
            sign = -1 if scale < 0.0 else 1
            self._known[key] = _Line(sign * numbers, sign * scale, bias, pulls, cost)
        return self._known[key]

    def _printed(self, line: _Line) -> Whole:
        """Without a common divisor, the threshold of few digits, the scale for it."""
        p, scale = line.numbers, line.scale
        if not p.any() or not scale > 0.0:
            return Whole(np.zeros_like(p), 1.0, -line.bias, line.objective)
        common = gcd(*map(int, p))
        p, scale = p // common, scale * common
        threshold, allowed = -line.bias / scale, line.objective * (1.0 + _MAX_THRESHOLD_COST)
        outputs = np.asarray(self.X @ p.astype(float)).ravel()
        found = Whole(p, scale, threshold, np.inf)
        for digits in range(1, 13):  # of the threshold
            short = float(f"{threshold:.{digits}g}")
            length = float(p @ p) + short**2
            own = _few_bits(self._scaled(outputs - short, length))
            cost = self._cost(own * (outputs - short), own**2 * length)
            if cost < found.objective and own > 0.0:
                found = Whole(p, own, short, cost)
            if cost <= allowed:
                break
        return found

    def _fitted(self, outputs: Vector, length: float) -> tuple[float, float, Vector, float]:
        """The best δ and b for outputs δ o + b, what samples pull, and the cost."""
        A = np.asfortranarray(np.column_stack([self.y * outputs, self.y]))
        v, alpha, cost = self._solve(A, np.array([max(length, 1e-300), 1.0]))
        return float(v[0]), float(v[1]), alpha * self.y, cost

    def _scaled(self, outputs: Vector, length: float) -> float:
        """The best δ for outputs δ o."""
        v, _, _ = self._solve(np.asfortranarray((self.y * outputs)[:, None]), np.array([length]))
        return float(v[0])

    def _cost(self, outputs: Vector, length: float) -> float:
        """What outputs cost, and a length."""
        return float(length + self.c @ np.maximum(1.0 - self.y * outputs, 0.0))

    def _solve(self, A: Vector, d: Vector) -> tuple[Vector, Vector, float]:
        """The minimum of d·v² + Σ c [1 − A v]_+ over a few v: v, multipliers and cost."""
        point, best, least = begin(len(self.c), len(d)), np.zeros(len(d)), float(self.c.sum())
        most, alpha = 0.0, np.zeros(len(self.c))
        largest = float(self.c.max(initial=0.0))
        for stage in range(MAX_STAGES):
            eps = point.eps * (EPS_RATIO if stage else 1.0)
            near = REL_FALL * eps * largest
            point = newton(A, self.c, d, point, eps, tol=near, keep=stage > 0)
            value = float(d @ point.w**2 + self.c @ np.maximum(point.u, 0.0))
            if value < least:
                best, least = point.w, value
            tried = multipliers_of(point, self.c)
            bound = float(tried.sum() - 0.25 * ((tried @ A) ** 2 / d).sum())
            if bound > most:
                alpha, most = tried, bound
            if least - most <= _REL_TOL * least:
                break
        return best, alpha, least


def _with(p: Integers, *changes: tuple[int, int]) -> Integers:
    found = p.copy()
    for j, value in changes:
        found[j] = value
    return found


def _few_bits(scale: float) -> float:
    """The scale with so few binary digits that it times a number is exact."""
    mantissa, exponent = np.frexp(scale)
    return float(np.ldexp(np.round(mantissa * 2.0**_BITS), int(exponent) - _BITS))
