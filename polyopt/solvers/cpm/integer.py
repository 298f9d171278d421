"""A face of the Convex Polytope Machine of small whole numbers: its scale and its threshold.

For given numbers p what is left is a face of one feature p·x whose square costs ‖p‖²
(:mod:`polyopt.solvers.cpm.smooth`). The search is that of :mod:`polyopt.solvers.whole`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.cpm.smooth import begin, multipliers_of, newton
from polyopt.solvers.whole import Whole, WholeFace

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector

__all__ = ["IntegerFace", "Whole"]

_SHRINK, _STAGES, _STEPS, _FLAT = 0.1, 10, 60, 1e-6  # of the path, as for a face of few features
_CLOSE = 1e-9  # relative gap at which it ends


class IntegerFace(WholeFace):
    """One face's samples, and their costs.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels: -1 inside, +1 outside.
    c : ndarray of shape (n,)
        Costs, 0 where another face answers.
    M : int
        The largest number, at least 1.
    s : int, optional
        Numbers other than 0 at most; any by default.
    square : float
        What the square of a weight costs, positive.
    """

    def __init__(self, X: Matrix, y: Vector, c: Vector, M: int, s: int | None = None, square: float = 1.0):
        rows = np.flatnonzero(np.asarray(c) > 0)
        super().__init__(X[rows], M, s, square)
        self.y, self.c = np.asarray(y, dtype=float)[rows], np.asarray(c, dtype=float)[rows]

    def fitted(self, outputs: Vector, length: float) -> tuple[float, float, Vector, float]:
        """The best δ and b for outputs δ o + b, what samples pull, and the cost."""
        A = np.asfortranarray(np.column_stack([self.y * outputs, self.y]))
        v, alpha, cost = self._solve(A, self.square * np.array([max(length, 1e-300), 1.0]))
        return float(v[0]), float(v[1]), alpha * self.y, cost

    def scaled(self, outputs: Vector, length: float) -> float:
        """The best δ for outputs δ o."""
        v, _, _ = self._solve(
            np.asfortranarray((self.y * outputs)[:, None]), np.array([self.square * length])
        )
        return float(v[0])

    def cost(self, outputs: Vector, length: float) -> float:
        """What outputs cost, and a length."""
        return float(self.square * length + self.c @ np.maximum(1.0 - self.y * outputs, 0.0))

    def _solve(self, A: Vector, d: Vector) -> tuple[Vector, Vector, float]:
        """The minimum of d·v² + Σ c [1 − A v]_+ over a few v: v, multipliers and cost."""
        point, best, least = begin(len(self.c), len(d)), np.zeros(len(d)), float(self.c.sum())
        most, alpha = 0.0, np.zeros(len(self.c))
        largest = float(self.c.max(initial=0.0))
        for stage in range(_STAGES):
            eps = point.eps * (_SHRINK if stage else 1.0)
            near = _FLAT * eps * largest
            point = newton(A, self.c, d, point, eps, tol=near, steps=_STEPS, keep=stage > 0)
            value = float(d @ point.w**2 + self.c @ np.maximum(point.u, 0.0))
            if value < least:
                best, least = point.w, value
            tried = multipliers_of(point, self.c)
            bound = float(tried.sum() - 0.25 * ((tried @ A) ** 2 / d).sum())
            if bound > most:
                alpha, most = tried, bound
            if least - most <= _CLOSE * least:
                break
        return best, alpha, least
