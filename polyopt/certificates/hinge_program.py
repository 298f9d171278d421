"""The data of one hinge program, with its two objectives, and its multipliers made feasible.

The program and its dual stand in :mod:`polyopt.certificates.hinge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.recovery import best_intercept
from polyopt.certificates.given import checked_vector
from polyopt.certificates.rounding import Ball

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.certificates.geometry import Geometry

    Vector = NDArray[np.float64]

__all__ = ["HingeProgram", "Multipliers", "balancing"]

_TOO_LONG = 1e150  # to be squared


@dataclass(frozen=True)
class Multipliers:
    """The multipliers of a hinge program, in input order.

    Attributes
    ----------
    alpha : ndarray of shape (n,)
        Of the margin rows.
    lam, lam_star : ndarray of shape (n,)
        Of the upper and the lower bounds; zero where the program has none.
    """

    alpha: Vector
    lam: Vector
    lam_star: Vector

    def beta(self, y: Vector) -> Vector:
        """``alpha * y - lam + lam_star``: the expansion coefficients of w."""
        return self.alpha * y - self.lam + self.lam_star


@dataclass(frozen=True)
class HingeProgram:
    """The data of one hinge program.

    Attributes
    ----------
    name : str
        What the certificate calls it.
    geometry : Geometry
        The feature space.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    C : ndarray of shape (n,)
        Cost per sample; infinite for a hard margin.
    B : float
        Bound on the outputs; infinite for none.
    intercept : bool
        Whether b is free.
    """

    name: str
    geometry: Geometry
    y: Vector
    C: Vector
    B: float = np.inf
    intercept: bool = True

    def primal_value(self, v: Vector, f: Vector, shrink: float = 1.0) -> float:
        """Objective with the least slacks at ``shrink * v``, where the outputs are ``shrink * f``."""
        return float(self.value(v, Ball(f), shrink).mid)

    def value(self, v: Vector, f: Ball, scale: float = 1.0) -> Ball:
        """:meth:`primal_value` with its rounding, at ``scale * v``."""
        xi = (1.0 - f * (scale * self.y)).positive()
        soft = np.isfinite(self.C)
        paid = xi[soft].dot(self.C[soft])
        broken = bool((xi.mid[~soft] > 0.0).any())
        if self.geometry.short:
            # Of a matrix this near outputs differ by so much in all, and what is paid by this, at most.
            costs = float(np.linalg.norm(self.C[soft][(xi.mid + xi.rad)[soft] > 0.0]))
            off = self.geometry.short * scale * float(np.linalg.norm(v)) * costs * (1 + 1e-9)
            paid = Ball(paid.mid, paid.rad + off)
        energy = self.geometry.energy(v) * Ball(scale) * scale * 0.5
        return energy + (Ball(np.inf) if broken else paid)

    def dual_value(self, dual: Multipliers) -> float:
        """Dual objective at multipliers that are feasible but for rounding."""
        return float(self.bound(dual).lower)

    def bound(self, dual: Multipliers) -> Ball:
        """Dual objective at feasible multipliers next to these; its lower end bounds the optimum.

        The multipliers must keep their signs and caps. What rounding leaves of the balance Σ β_i = 0, real
        multipliers near these pay for: those of the heavier side, shrunk a little, are in balance. The
        objective is taken at these, and what the others differ by is in the radius.
        """
        geometry = self.geometry
        beta = Ball(dual.alpha * self.y)
        if np.isfinite(self.B):
            beta = beta - dual.lam + dual.lam_star
        pays = geometry.price(beta.mid)
        gain = Ball(dual.alpha).sum()
        if np.isfinite(self.B):
            gain = gain - (Ball(dual.lam).sum() + Ball(dual.lam_star).sum()) * self.B
        moved = beta.rad
        if self.intercept:
            off = float(beta.sum().size)
            up = self.y > 0
            heavy = max(dual.alpha[up].sum() + dual.lam_star.sum(), dual.alpha[~up].sum() + dual.lam.sum())
            if off >= heavy:
                return Ball(0.0)  # of no multipliers at all, which are in balance
            share = off / heavy * (1 + 1e-9)
            moved = moved + share * (dual.alpha + dual.lam + dual.lam_star)
            gain = Ball(gain.mid, gain.rad + off * (1 + 1e-9))
        # ‖Σ β φ‖ for the multipliers in balance is at most this much more.
        more = float(moved @ geometry.sizes()) * (1 + 1e-9)
        length = float(np.sqrt(max(float(pays.upper), 0.0)))
        if not length + more < _TOO_LONG:
            return Ball(0.0)  # of no multipliers at all; these overflow
        extra = (2.0 * length * more + more**2) * (1 + 1e-9)
        found = gain - 0.5 * Ball(pays.mid, pays.rad + extra)
        return found if found.lower >= 0.0 else Ball(0.0)  # no multipliers at all are feasible too

    def best_intercept(self, v: Vector) -> float:
        """The intercept that is optimal for v; 0 where the program has none."""
        if not self.intercept:
            return 0.0
        return best_intercept(self.geometry.scores(v), self.y, self.C, self.B)

    def multipliers(
        self, alpha: Vector, lam: Vector | None = None, lam_star: Vector | None = None
    ) -> Multipliers:
        """Multipliers, checked, with zeros for those that are not given."""
        families = (("alpha", alpha), ("lam", lam), ("lam_star", lam_star))
        found = (checked_vector(name, part, self.y.shape) for name, part in families)
        return Multipliers(*(np.zeros(len(self.y)) if part is None else part for part in found))

    def split(self, beta: Vector) -> Multipliers:
        """The multipliers that give the most for this beta: alpha takes what its cap lets it."""
        # For B < 1 a bound's multiplier costs less than alpha earns, and alpha is at its cap.
        least = np.where(np.isfinite(self.C) & (self.B < 1.0), self.C, 0.0)
        ends = self.y * least, self.y * self.C
        low, high = np.minimum(*ends), np.maximum(*ends)
        lam, lam_star = np.maximum(low - beta, 0.0), np.maximum(beta - high, 0.0)
        return Multipliers(self.y * np.clip(beta, low, high), lam, lam_star)

    def repair(self, dual: Multipliers) -> Multipliers:
        """The multipliers made feasible: clipped to their signs and caps, then balanced.

        The balance Σ β_i = 0 is restored by shrinking the side that is too heavy, which keeps every
        sign and every cap.
        """
        alpha = np.clip(dual.alpha, 0.0, self.C)
        bounded = np.isfinite(self.B)
        lam, lam_star = (
            np.maximum(part, 0.0) if bounded else 0.0 * part for part in (dual.lam, dual.lam_star)
        )
        if not self.intercept:
            return Multipliers(alpha, lam, lam_star)
        up = self.y > 0
        s_plus, s_minus = balancing(alpha[up].sum() + lam_star.sum(), alpha[~up].sum() + lam.sum())
        return Multipliers(alpha * np.where(up, s_plus, s_minus), lam * s_minus, lam_star * s_plus)


def balancing(plus: float, minus: float) -> tuple[float, float]:
    """Factors of at most 1 that make two non-negative sums equal by shrinking the larger one.

    Parameters
    ----------
    plus, minus : float
        The sums.
    """
    light = min(plus, minus)
    return (light / plus if plus > 0 else 0.0, light / minus if minus > 0 else 0.0)
