r"""The dual of a hinge-type machine in n variables with kinks, instead of several families with bounds.

The dual (8) of the Relative Margin Machine has the families alpha, lam and lam_star, which meet the kernel
only in β = α∘y − λ + λ*:

    max  Σ α_i − B Σ (λ_i + λ*_i) − ½ β'Kβ    s.t.  Σ β_i = 0,  0 ≤ α ≤ C,  λ, λ* ≥ 0.

For a given β_i the best split into the three is plain: α takes what fits between 0 and its cap, and λ or λ*
the rest. So the dual is max φ(β) − ½ β'Kβ with Σ β_i = 0, where φ_i is concave and piecewise linear. With
the kinks 0 and y_i C_i in order, its slope is B below them, y_i between them, and −B above them (B ≥ 1). The
three families are its three pieces, and a working set of samples holds all three at once. For the SVM B is
infinite: the kinks are walls. For B < 1 the margin's piece is never worth its place: every α_i is C_i.

The same holds for any families of rows; :mod:`formulations.families` finds the kinks and slopes.

With g = Kβ, the point is optimal when no β_i gains by rising while another falls:

    m = max_i  φ'_i(β_i +) − g_i   ≤   M = min_i  φ'_i(β_i −) − g_i,

which are the m and M of the 3n-variable form; every b within [m, M] is an optimal intercept.

References
----------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (8) and section 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from formulations.families import Families, Pieces
from formulations.language.types import Vector
from polyopt.native.library import kernel


class Dual:
    """The dual of families of rows, with the kinks and slopes `phi` of φ.

    Families without slack are bounds, which β = 0 satisfies.
    """

    def __init__(self, rows: Families):
        if any(family.kink > 0.0 and not family.is_soft for family in rows):
            raise ValueError("this solver needs finite costs; an explicit program takes hard margins")
        self.rows, self.phi = rows, rows.pieces

    def join(self, multipliers: Mapping[str, Vector]) -> Vector:
        """Return a feasible β near these multipliers: clipped to the caps, and balanced to Σ β_i = 0."""
        Z = self.rows.stacked(multipliers)
        return balanced(self.rows.beta(np.clip(Z, 0.0, self.rows.caps)))

    def is_free(self, beta: Vector) -> NDArray[np.bool_]:
        """Mask of the β_i that are not at a kink."""
        is_free: NDArray[np.bool_] = (beta != self.phi.ends).all(axis=0)
        return is_free

    @property
    def rests_at_zero(self) -> bool:
        """True if 0 is a kink of every sample, as it is unless some row can never be satisfied."""
        return bool((self.phi.ends == 0.0).any(axis=0).all())

    def start(self) -> Vector:
        """Return a first β: each sample at its kink next to 0, as a β_i between kinks costs most time."""
        ends = self.phi.ends
        return balanced(ends[np.abs(ends).argmin(axis=0), np.arange(ends.shape[1])])

    def violation(self, beta: Vector, g: Vector) -> tuple[float, float]:
        """Return m and M; the point is optimal within tol if m − M ≤ tol."""
        return gains(g, beta, self.phi)[2:]

    def gain(self, beta: Vector) -> float:
        """Return Σ φ_i(β_i), the linear part of the dual objective."""
        return self.rows.gain(self.rows.split(beta))

    def values(self, beta: Vector, g: Vector, b: float | None = None) -> dict[str, float]:
        """Primal and dual objective at β and b (by default the best), with outputs scaled to the bounds."""
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow shows in the value
            energy = float(beta @ g)
        f = g + (self.intercept(g) if b is None else b)
        shrink = self.rows.shrink(f)
        return {
            "objective": 0.5 * shrink**2 * energy + self.rows.cost(shrink * f),
            "bound": self.gain(beta) - 0.5 * energy,
        }

    def intercept(self, g: Vector) -> float:
        """Return the best b for these g."""
        return self.rows.best_intercept(g)


def recapped(multipliers: Mapping[str, Vector], old: Families, new: Families) -> dict[str, Vector]:
    """Return multipliers for the caps of `new`: those at their old cap move to the new one.

    Parameters
    ----------
    multipliers : mapping of str to ndarray of shape (n,)
        By family.
    old, new : Families
        The families with the old and with the new caps.
    """
    before = {family.name: family.cap for family in old}
    return {
        family.name: np.where(mu >= before[family.name], family.cap, np.minimum(mu, family.cap))
        for family in new
        if family.name in before and (mu := multipliers.get(family.name)) is not None
    }


def balanced(beta: Vector) -> Vector:
    """Shrink the heavier side of β so that Σ β_i = 0; signs and caps are kept."""
    plus, minus = float(beta[beta > 0].sum()), float(-beta[beta < 0].sum())
    if abs(plus - minus) <= 1e-13 * (plus + minus):
        return beta  # shrinking by rounding errors would move variables off their kinks
    light = min(plus, minus)
    beta = np.where(beta > 0, beta * (light / plus if plus else 0.0), beta)
    return np.where(beta < 0, beta * (light / minus if minus else 0.0), beta)


# Slopes of φ less g to the right and to the left of every β_i, and the extremes m and M.
_gains = kernel(
    "gains",
    "g: f8 (n); beta: f8 (n); ends: f8 (k, n); slopes: f8 (l, n); rise!: f8 (n); fall!: f8 (n); "
    "extremes!: f8 (e)",
)


def gains(g: Vector, beta: Vector, phi: Pieces) -> tuple[Vector, Vector, float, float]:
    """Return ``φ'(β+) − g`` and ``φ'(β−) − g``, each of shape (n,), and their extremes m and M.

    If some g is not finite, both extremes are nan.
    """
    rise, fall, found = np.empty(len(g)), np.empty(len(g)), np.empty(2)
    _gains(g, beta, *phi, rise, fall, found)
    m, M = found.tolist()
    return rise, fall, m, M
