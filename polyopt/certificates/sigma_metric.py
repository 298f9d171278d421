"""The matrix A = (1-D) I + D Sigma of linear features: systems with it, and what u'A⁻¹u is at most.

See :mod:`polyopt.certificates.sigma_geometry` for the mathematics.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.rounding import ABOVE, Ball

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["SigmaMetric", "inverse", "kept", "left_by_spread", "sizes_in_metric"]


class SigmaMetric:
    """The metric A (m, m), each of whose entries was added up from n products.

    `centre` (m,) is the mean, if the moments were taken around 0 and its square was taken off.
    """

    def __init__(self, A: Vector, D: float, n: int, centre: Vector | None):
        self.A, self._D, self._n, self._centre = A, D, n, centre
        self.unit = float(np.sqrt(max(A.diagonal().max(initial=0.0), 0.0)))

    @cached_property
    def _scaling(self) -> Vector:
        """T: what makes the diagonal of the metric one; 0 for a feature without size."""
        size = np.sqrt(np.maximum(self.A.diagonal(), 0.0))
        return np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)

    @cached_property
    def _scaled(self) -> tuple[Vector, Vector]:
        """Eigenvalues and vectors of TAT."""
        T = self._scaling
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = T[:, None] * self.A * T
        values, vectors = np.linalg.eigh(np.nan_to_num((scaled + scaled.T) / 2))
        return values, vectors

    def solve(self, u: Vector) -> Vector:
        """The v of ``A v = u``, as nearly as it can be had."""
        T, (values, vectors) = self._scaling, self._scaled
        floor = 8 * len(values) * np.finfo(float).eps * values.max(initial=0.0)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > floor)
        w = np.zeros_like(u)
        for _ in range(2):  # once more for what the first solution leaves
            w = w + T * (vectors @ (inverse * (vectors.T @ (T * (u - self.A @ w)))))
        return w

    def price(self, v: Vector, energy: Ball, pulled: Ball, by_spread: float) -> Ball:
        """``u'A⁻¹u``, or more, for any v (m,) that nearly solves ``A v = u``.

        `energy` is ``v'Av``, `pulled` is ``u − D Σ v`` (m,) with nothing cut off, and `by_spread` another
        bound on the rest, infinite for none.
        """
        rho, left = pulled - kept(self._D) * Ball(v), [np.inf, by_spread]
        if self._D < 1.0:
            left.append(float((rho.square_sum() * inverse(kept(self._D))).upper))
        if len(v) and min(left) > 1e-12 * float(energy.size):
            left.append(self._by_least_eigenvalue(rho))
        return energy + 2.0 * rho.dot(v) + Ball(0.0, min(left))

    def _by_least_eigenvalue(self, rho: Ball) -> float:
        """‖Tρ‖² over a number that the least eigenvalue of TAT is at least."""
        T, values = self._scaling, self._scaled[0]
        if (rho.size[T == 0.0] > 1e-290).any():  # a feature of zeros adds 0, up to underflow
            return np.inf
        # Errors of the metric's entries, in units of its diagonal, and of the eigenvalue itself.
        error = len(T) * (self._n + 8 * len(T) + 40) * np.finfo(float).eps
        if self._centre is not None:
            error *= 1.0 + float(np.abs(self._centre * T).max(initial=0.0) ** 2)
        least = float(values[int((T == 0.0).sum()) :].min(initial=np.inf)) - error
        return float((rho * T).square_sum().upper) / least * (1 + 1e-12) if least > 0.0 else np.inf


def left_by_spread(squares: Ball, total: Ball) -> float:
    """An upper bound of ``N Σ r_i² / s_i``, the rest at D = 1, from the sum of squares and N = Σ s_i."""
    return float((squares * total).upper) * (1 + 1e-12)


def sizes_in_metric(own: Vector, D: float, weights: Vector, total: float) -> Vector:
    """Norms of samples in the metric, from their norms `own` (n,) less the mean.

    From A ⪰ (1-D) I, or from (φ_i − mean)'Σ⁺(φ_i − mean) ≤ N / s_i, with N = `total` the sum of all weights.
    """
    by_norm = own / np.sqrt(max(1.0 - D, 1e-300))
    by_spread = np.sqrt(total / weights) / np.sqrt(max(D, 1e-300))  # D times a weight may be too small
    return np.asarray(np.minimum(by_norm, by_spread) * ABOVE)


def kept(D: float) -> Ball:
    """1 − D."""
    return 1.0 - Ball(D)


def inverse(x: Ball) -> Ball:
    """1 / x of a positive ball."""
    mid = 1.0 / x.mid
    low = np.maximum(x.mid - x.rad, np.finfo(float).tiny)
    return Ball(mid, (1.0 / low - mid) * ABOVE + 4e-16 * mid)
