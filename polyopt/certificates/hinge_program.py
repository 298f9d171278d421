"""The data of one hinge program, with its two objectives, and its multipliers made feasible.

The program and its dual stand in :mod:`polyopt.certificates.hinge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import real_array
from polyopt.certificates.rounding import ABOVE, Ball

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.families import Families
    from polyopt.certificates.geometry import Geometry

    Vector = NDArray[np.float64]

__all__ = ["HingeProgram", "balancing"]

_TOO_LONG = 1e150  # to be squared


@dataclass(frozen=True)
class HingeProgram:
    """The data of one hinge program.

    Attributes
    ----------
    name : str
        What the certificate calls it.
    geometry : Geometry
        The feature space.
    rows : Families
        Its families of rows.
    intercept : bool
        Whether b is free.
    """

    name: str
    geometry: Geometry
    rows: Families
    intercept: bool = True

    def primal_value(self, v: Vector, f: Vector, shrink: float = 1.0) -> float:
        """Objective with the least slacks at ``shrink * v``, where the outputs are ``shrink * f``."""
        return float(self.value(v, Ball(f), shrink).mid)

    def value(self, v: Vector, f: Ball, scale: float = 1.0, *, soft_only: bool = False) -> Ball:
        """:meth:`primal_value` with its rounding, at ``scale * v``; hard margins may break if `soft_only`."""
        paid, broken, costs = Ball(0.0), False, np.zeros(self.rows.n)
        for family in self.rows:
            soft = np.isfinite(family.cap)
            if family.kink <= 0.0 and not soft.any():
                continue  # bounds without slack: the scale is to keep them
            slack = (family.kink - f * (scale * family.side)).positive()
            paid = paid + slack[soft].dot(family.cap[soft])
            broken |= family.kink > 0.0 and bool((slack.mid[~soft] > 0.0).any())
            if self.geometry.short:
                costs += np.where(soft & ((slack.mid + slack.rad) > 0.0), family.cap, 0.0)
        if self.geometry.short:
            # With a matrix within that distance the cost of slack differs by at most this.
            off = self.geometry.short * scale * float(np.linalg.norm(v)) * float(np.linalg.norm(costs))
            paid = Ball(paid.mid, paid.rad + off * ABOVE)
        energy = self.geometry.energy(v) * Ball(scale) * scale * 0.5
        return energy + (Ball(np.inf) if broken and not soft_only else paid)

    def dual_value(self, Z: Vector) -> float:
        """Dual objective at multipliers that are feasible up to rounding."""
        return float(self.bound(Z).lower)

    def bound(self, Z: Vector) -> Ball:
        """Dual objective at feasible multipliers next to these; its lower end bounds the optimum.

        The multipliers (q, n), by family, must keep their signs and caps. What rounding leaves of the balance
        Σ β_i = 0, real multipliers near these pay for: those of the heavier side, shrunk a little, are in
        balance. The objective is taken at these, and what the others differ by is in the radius.
        """
        geometry = self.geometry
        pulls = [Ball(mu * family.side) for family, mu in zip(self.rows, Z, strict=True)]
        gains = [Ball(mu).sum() * family.kink for family, mu in zip(self.rows, Z, strict=True)]
        beta, gain = sum(pulls[1:], start=pulls[0]), sum(gains[1:], start=gains[0])
        pays = geometry.price(beta.mid)
        moved = beta.rad
        if self.intercept:
            off = float(beta.sum().size)
            up = self.rows.sides > 0
            heavy = max(float(Z[up].sum()), float(Z[~up].sum()))
            if off >= heavy:
                return Ball(0.0)  # of no multipliers at all, which are in balance
            share = off / heavy * ABOVE
            moved = moved + share * Z.sum(axis=0)
            # What a unit of a multiplier earns is lost with it; where it costs, nothing is.
            gain = Ball(gain.mid, gain.rad + off * max(float(self.rows.kinks.max()), 0.0) * ABOVE)
        # ‖Σ β φ‖ for the multipliers in balance is at most this much more.
        more = float(moved @ geometry.sizes()) * ABOVE
        length = float(np.sqrt(max(float(pays.upper), 0.0)))
        if not length + more < _TOO_LONG:
            return Ball(0.0)  # of no multipliers at all; these overflow
        extra = (2.0 * length * more + more**2) * ABOVE
        found = gain - 0.5 * Ball(pays.mid, pays.rad + extra)
        return found if found.lower >= 0.0 else Ball(0.0)  # no multipliers at all are feasible too

    def best_intercept(self, v: Vector) -> float:
        """The intercept that is optimal for v; 0 where the program has none."""
        return self.rows.best_intercept(self.geometry.scores(v)) if self.intercept else 0.0

    def multipliers(self, given: Mapping[str, ArrayLike]) -> Vector:
        """Multipliers by name as an array (q, n), checked, with zeros for those that are not given."""
        letters = {family.name: family.letter for family in self.rows}
        shape = (self.rows.n,)
        return self.rows.stacked(
            {name: real_array(letters.get(name, name), mu, shape) for name, mu in given.items()}
        )

    def repair(self, Z: Vector) -> Vector:
        """The multipliers made feasible: clipped to their signs and caps, then balanced.

        The balance Σ β_i = 0 is restored by shrinking the side that is too heavy, which keeps every
        sign and every cap.
        """
        rows = self.rows
        clipped: Vector = np.clip(Z, 0.0, rows.caps)
        if not self.intercept:
            return clipped
        up = rows.sides > 0
        s_plus, s_minus = balancing(float(clipped[up].sum()), float(clipped[~up].sum()))
        return clipped * np.where(up, s_plus, s_minus)


def balancing(plus: float, minus: float) -> tuple[float, float]:
    """Factors of at most 1 that make two non-negative sums equal by shrinking the larger one.

    Parameters
    ----------
    plus, minus : float
        The sums.
    """
    light = min(plus, minus)
    return (light / plus if plus > 0 else 0.0, light / minus if minus > 0 else 0.0)
