r"""The dual (8), seen as n variables with kinks instead of 3n with bounds.

The paper's dual has the families alpha, lam and lam_star, which meet the kernel only in
β = α∘y − λ + λ*:

    max  Σ α_i − B Σ (λ_i + λ*_i) − ½ β'Kβ    s.t.  Σ β_i = 0,  0 ≤ α ≤ C,  λ, λ* ≥ 0.

For a given β_i the best split into the three is plain: α takes what fits between 0 and its cap,
and λ or λ* the rest. With lo_i = min(0, y_i C_i) and hi_i = max(0, y_i C_i),

    α_i = y_i clip(β_i, lo_i, hi_i),   λ_i = [lo_i − β_i]_+,   λ*_i = [β_i − hi_i]_+,

so that the dual is max φ(β) − ½ β'Kβ with Σ β_i = 0, where φ_i is concave and piecewise linear: its
slope is B below lo_i, y_i between the kinks lo_i and hi_i, and −B above hi_i (B ≥ 1). The three
families are its three pieces, and a working set of samples holds all three at once. For the SVM B is
infinite: the kinks are walls. For B < 1 the middle piece is never worth its place: every α_i is C_i.

With g = Kβ, the point is optimal when no β_i gains by rising while another falls:

    m = max_i  φ'_i(β_i +) − g_i   ≤   M = min_i  φ'_i(β_i −) − g_i,

which are the m and M of the 3n-variable form; every b within [m, M] is an optimal intercept.

References
----------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (8) and section 3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from formulations.recovery import best_intercept, slacks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["Dual", "balanced", "extremes", "gains", "recapped", "slopes", "slopes_at"]


class Dual:
    """The data of one dual: labels, costs, bound, and the kinks that they put into φ.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Labels -1 and +1.
    C : ndarray of shape (n,)
        Cost per sample, finite and non-negative.
    B : float
        Bound on the outputs; infinite for the SVM.
    """

    def __init__(self, y: Vector, C: Vector, B: float = np.inf):
        self.y, self.C, self.B = y, C, float(B)
        self.lo, self.hi = np.minimum(0.0, y * C), np.maximum(0.0, y * C)
        if self.B < 1.0:
            self.lo = self.hi = y * C

    def split(self, beta: Vector) -> tuple[Vector, Vector, Vector]:
        """alpha, lam and lam_star, each of shape (n,), that give the most for this β."""
        inside = np.clip(beta, self.lo, self.hi)
        return self.y * inside, np.maximum(self.lo - beta, 0.0), np.maximum(beta - self.hi, 0.0)

    def join(self, alpha: Vector, lam: Vector | None = None, lam_star: Vector | None = None) -> Vector:
        """A feasible β near these multipliers: clipped where B is infinite, and balanced to Σ β_i = 0."""
        beta = np.clip(alpha, 0.0, self.C) * self.y
        if np.isfinite(self.B):
            beta = beta - (0.0 if lam is None else lam) + (0.0 if lam_star is None else lam_star)
        return balanced(beta)

    def is_free(self, beta: Vector) -> NDArray[np.bool_]:
        """Which β_i are at none of their kinks."""
        return (beta != self.lo) & (beta != self.hi)

    def start(self) -> Vector:
        """The β to start from: 0, which for B < 1 is no piece of φ's, so that the kinks are taken there."""
        return balanced(self.hi.copy()) if self.B < 1.0 else np.zeros(len(self.y))

    def violation(self, beta: Vector, g: Vector) -> tuple[float, float]:
        """The two of them, m and M; optimal within tol when m − M ≤ tol."""
        return extremes(g, beta, self.lo, self.hi, self.y, self.B)

    def values(self, beta: Vector, g: Vector, b: float | None = None) -> dict[str, float]:
        """Primal and dual objective at β, with b (by default the best); outputs are scaled back within ±B."""
        alpha, lam, lam_star = self.split(beta)
        with np.errstate(over="ignore", invalid="ignore"):  # who asks sees that a value is no number
            energy = float(beta @ g)
        f = g + (self.intercept(g) if b is None else b)
        shrink = self.shrink(f)
        bounds = float(lam.sum() + lam_star.sum())
        return {
            "objective": 0.5 * shrink**2 * energy + float(self.C @ slacks(shrink * f, self.y)),
            "bound": float(alpha.sum()) - (self.B * bounds if bounds else 0.0) - 0.5 * energy,
        }

    def intercept(self, g: Vector) -> float:
        """The best b for these g."""
        return best_intercept(g, self.y, self.C, self.B)

    def shrink(self, f: Vector) -> float:
        """The factor, at most 1, that brings every output within ±B."""
        if np.isinf(self.B):
            return 1.0
        reach = float(np.abs(f).max())
        return self.B / reach if reach > self.B else 1.0


def recapped(alpha: Vector, old: Vector, new: Vector) -> Vector:
    """Multipliers for new caps: those at their old cap are put at the new one.

    Parameters
    ----------
    alpha, old, new : ndarray of shape (n,)
        The multipliers, the caps they had, and those they get.
    """
    return np.where(alpha >= old, new, np.minimum(alpha, new))


def balanced(beta: Vector) -> Vector:
    """β with its heavier side shrunk so that Σ β_i = 0; no sign changes and no cap is passed."""
    plus, minus = float(beta[beta > 0].sum()), float(-beta[beta < 0].sum())
    if abs(plus - minus) <= 1e-13 * (plus + minus):
        return beta  # shrinking by rounding errors would move variables off their kinks
    light = min(plus, minus)
    beta = np.where(beta > 0, beta * (light / plus if plus else 0.0), beta)
    return np.where(beta < 0, beta * (light / minus if minus else 0.0), beta)


@njit(cache=True, nogil=True)
def slopes_at(beta: float, lo: float, hi: float, y: float, B: float) -> tuple[float, float]:
    """Slope of φ_i to the right and to the left of β_i."""
    if beta < lo:
        return B, B
    if beta > hi:
        return -B, -B
    return (y if beta < hi else -B), (y if beta > lo else B)


@njit(cache=True, nogil=True)
def slopes(beta: Vector, lo: Vector, hi: Vector, y: Vector, B: float) -> tuple[Vector, Vector]:
    """Slopes of φ to the right and to the left of every β_i, each of shape (n,)."""
    up, down = np.empty(len(beta)), np.empty(len(beta))
    for i in range(len(beta)):
        up[i], down[i] = slopes_at(beta[i], lo[i], hi[i], y[i], B)
    return up, down


@njit(cache=True, nogil=True)
def gains(
    g: Vector, beta: Vector, lo: Vector, hi: Vector, y: Vector, B: float
) -> tuple[Vector, Vector, float, float]:
    """``φ'(β+) − g`` and ``φ'(β−) − g``, each of shape (n,), and their extremes m and M.

    Where some g is not finite, neither extreme is a number, and nothing is within a tolerance.
    """
    rise, fall = slopes(beta, lo, hi, y, B)
    m, M, spoilt = -np.inf, np.inf, 0.0
    for i in range(len(g)):
        rise[i] -= g[i]
        fall[i] -= g[i]
        m, M, spoilt = max(m, rise[i]), min(M, fall[i]), spoilt + 0.0 * g[i]
    return rise, fall, m + spoilt, M + spoilt


@njit(cache=True, nogil=True)
def extremes(g: Vector, beta: Vector, lo: Vector, hi: Vector, y: Vector, B: float) -> tuple[float, float]:
    """The m and M of these samples, as of :func:`gains`."""
    m, M, spoilt = -np.inf, np.inf, 0.0
    for i in range(len(g)):
        up, down = slopes_at(beta[i], lo[i], hi[i], y[i], B)
        m, M, spoilt = max(m, up - g[i]), min(M, down - g[i]), spoilt + 0.0 * g[i]
    return m + spoilt, M + spoilt
