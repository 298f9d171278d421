"""A face of small whole numbers whose samples have smooth convex losses, by Newton's method.

The loss is one of the face's scores, φ(s), as SPLA1 has it for a cell, and PLUME's M-step for one face where
the others stay. With the ridge ρ/2 (δ² ‖p‖² + b²) the scale δ and the bias b of given numbers are the minimum
of a smooth function of two variables. The search is that of :mod:`polyopt.solvers.whole`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.whole import WholeFace

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.matrices import Matrix, Vector

    # Of scores (n,): their loss, and its first and second derivative in each.
    ScoreLoss = Callable[[Vector], tuple[float, Vector, Vector]]

__all__ = ["SmoothWhole"]

_STEPS, _CLOSE = 60, 1e-13  # of Newton's method at most; its relative gap at the end
_SUFFICIENT, _LEAST_STEP = 1e-4, 1e-10


class SmoothWhole(WholeFace):
    """One face's samples, and their loss.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    loss : callable
        Takes scores (n,) to their convex loss and to its first and second derivative in each.
    ridge : float
        ρ, positive.
    M : int
        The largest number, at least 1.
    s : int, optional
        Numbers other than 0 at most; any by default.
    """

    def __init__(self, X: Matrix, loss: ScoreLoss, ridge: float, M: int, s: int | None = None):
        super().__init__(X, M, s, 0.5 * ridge)
        self._loss = loss

    def fitted(self, outputs: Vector, length: float) -> tuple[float, float, Vector, float]:
        """The best δ and b for outputs δ o + b, what samples pull, and the cost."""
        root = float(np.sqrt(length)) or 1.0
        v, cost = self._least(np.column_stack([outputs / root, np.ones(len(outputs))]))
        _, slope, _ = self._loss(v[0] / root * outputs + v[1])
        return float(v[0]) / root, float(v[1]), -slope, cost

    def scaled(self, outputs: Vector, length: float) -> float:
        """The best δ for outputs δ o."""
        root = float(np.sqrt(length)) or 1.0
        v, _ = self._least(outputs[:, None] / root)
        return float(v[0]) / root

    def cost(self, outputs: Vector, length: float) -> float:
        """What outputs cost, and half the ridge times a length."""
        return self._loss(outputs)[0] + self.square * length

    def _least(self, A: Vector) -> tuple[Vector, float]:
        """The minimum of φ(A v) + ρ/2 ‖v‖² over a few v, and its value."""
        v = np.zeros(A.shape[1])
        value, slope, bend = self._loss(A @ v)
        for _ in range(_STEPS):
            gradient = slope @ A + 2.0 * self.square * v
            if float(gradient @ gradient) <= 4.0 * self.square * _CLOSE * abs(value):
                break
            H = (A * bend[:, None]).T @ A
            H.flat[:: len(v) + 1] += 2.0 * self.square
            step, size = -np.linalg.solve(H, gradient), 1.0
            promised = float(gradient @ step)
            while size >= _LEAST_STEP:
                trial = v + size * step
                loss, first, second = self._loss(A @ trial)
                total = loss + self.square * float(trial @ trial)
                if total <= value + _SUFFICIENT * size * promised:
                    break
                size *= 0.5
            if size < _LEAST_STEP or not total < value:
                break
            v, value, slope, bend = trial, total, first, second
        return v, value
