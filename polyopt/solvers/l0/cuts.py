"""The cuts that solved patterns of the L0 machine leave behind, and what they say of other patterns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.l0_data import as_patterns

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector

__all__ = ["CutPool"]


class CutPool:
    """Bounds on L(σ) for patterns that are not solved yet.

    Every cut L(σ) ≥ constant − slopes·σ is valid for every σ (:func:`polyopt.certificates.l0.cut_of`), so the
    largest counts. When the pool is full, a new cut takes the place of the one that was last the largest, or
    was last added, longest ago.

    data: the problem.
    capacity: cuts kept at most; each takes 8 p bytes.

    constants (number of cuts,): the constants.
    slopes (number of cuts, p): the slopes, never negative.
    """

    def __init__(self, data: L0Data, capacity: int = 256):
        if not (isinstance(capacity, int | np.integer) and capacity >= 1):
            raise ValueError(f"capacity must be an integer of at least 1, not {capacity!r}")
        self._capacity = int(capacity)
        self.constants, self.slopes = np.empty(0), np.empty((0, len(data.centres)))
        self._last_of_use, self._now = np.empty(0, dtype=np.int64), 0

    def add(self, constant: float, slopes: Vector) -> None:
        """Add a cut.

        constant: the constant.
        slopes (p,): the slopes; ``pool.add(*solution.cut)`` adds what a :class:`PatternSolution` proves.
        """
        self._now += 1
        same = np.flatnonzero(np.abs(self.constants - constant) <= 1e-12 * abs(constant))
        if same.size and (self.slopes[same] == slopes).all(axis=1).any():
            return
        if len(self.constants) < self._capacity:
            self.constants = np.append(self.constants, constant)
            self.slopes = np.vstack([self.slopes, slopes])
            self._last_of_use = np.append(self._last_of_use, self._now)
            return
        at = int(self._last_of_use.argmin())
        self.constants[at], self.slopes[at], self._last_of_use[at] = constant, slopes, self._now

    def bounds(self, Sigma: ArrayLike) -> Vector:
        """Bounds from below on L(σ) of each pattern, at least 0.

        Sigma (m, p): the patterns.
        Returns (m,).
        """
        patterns = np.atleast_2d(as_patterns(Sigma, self.slopes.shape[1]))
        if not len(self.constants):
            return np.zeros(len(patterns))
        values = self.constants - patterns @ self.slopes.T
        best = values.argmax(axis=1)
        self._now += 1
        self._last_of_use[best] = self._now
        return np.maximum(values[np.arange(len(best)), best], 0.0)
