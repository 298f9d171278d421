"""The data of one hinge program, with its two objectives, and its multipliers made feasible.

The program and its dual stand in :mod:`polyopt.margin.certificate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.language.arguments import real_array
from polyopt.linalg.rounding import ABOVE, Ball

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from formulations.families import Families
    from formulations.language.types import Vector
    from polyopt.margin.geometry import Geometry

__all__ = ["Balance", "HingeProgram", "balancing"]


class Balance(NamedTuple):
    """Sums over the samples for the balance Σ β_i = 0.

    What is left of it; multipliers of rows that hold outputs up, and down; the norms of the samples, each
    times the rounding of its β, and times its multipliers.
    """

    left: Ball
    up: float
    down: float
    error: float
    length: float


@dataclass(frozen=True)
class HingeProgram:
    """The data of a hinge program: name, feature space, families of rows, and whether b is free."""

    name: str
    geometry: Geometry
    rows: Families
    intercept: bool = True

    def value(self, v: Vector, f: Ball, scale: float = 1.0, *, soft_only: bool = False) -> Ball:
        """Objective at ``scale * v``, with the least slacks at outputs ``scale * f``.

        Hard margins may break if `soft_only`.
        """
        paid, broken, costs = self.paid(f, scale)
        if self.geometry.short:
            # With a matrix within that distance the cost of slack differs by at most this.
            off = self.geometry.short * scale * float(np.linalg.norm(v)) * float(np.linalg.norm(costs))
            paid = Ball(paid.mid, paid.rad + off * ABOVE)
        energy = self.geometry.energy(v) * Ball(scale) * scale * 0.5
        return energy + (Ball(np.inf) if broken and not soft_only else paid)

    def paid(self, f: Ball, scale: float) -> tuple[Ball, bool, Vector]:
        """Cost of slack at outputs ``scale * f``; whether a hard margin breaks; costs of slack in use.

        The last only where the geometry is short of convex.
        """
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
        return paid, broken, costs

    def dual_value(self, Z: Vector) -> float:
        """Dual objective at multipliers that are feasible up to rounding."""
        return float(self.bound(Z).lower)

    def bound(self, Z: Vector) -> Ball:
        """Dual objective at feasible multipliers next to these; its lower end bounds the optimum.

        The multipliers (q, n), by family, must keep their signs and caps. What rounding leaves of the balance
        Σ β_i = 0, real multipliers near these pay for: those of the heavier side, shrunk a little, are in
        balance. The objective is taken at these, and what the others differ by is in the radius.
        """
        gain, beta, sums = self.earned(Z)
        return self.bound_by(gain, self.geometry.price(beta.mid), sums)

    def earned(self, Z: Vector) -> tuple[Ball, Ball, Balance]:
        """Linear dual gain of multipliers, the β_i, and the sums that :meth:`bound_by` needs."""
        pulls = [Ball(mu * family.side) for family, mu in zip(self.rows, Z, strict=True)]
        gains = [Ball(mu).sum() * family.kink for family, mu in zip(self.rows, Z, strict=True)]
        beta, gain = sum(pulls[1:], start=pulls[0]), sum(gains[1:], start=gains[0])
        up, sizes = self.rows.sides > 0, self.geometry.sizes()
        return gain, beta, Balance(
            beta.sum(), float(Z[up].sum()), float(Z[~up].sum()),
            float(beta.rad @ sizes), float(Z.sum(axis=0) @ sizes),
        )  # fmt: skip

    def bound_by(self, gain: Ball, pays: Ball, sums: Balance) -> Ball:
        """:meth:`bound`, from sums over the samples."""
        more = sums.error
        if self.intercept:
            off = float(sums.left.size)
            heavy = max(sums.up, sums.down)
            if off >= heavy:
                return Ball(0.0)  # of no multipliers at all, which are in balance
            more = more + off / heavy * ABOVE * sums.length
            # What a unit of a multiplier earns is lost with it; where it costs, nothing is.
            gain = Ball(gain.mid, gain.rad + off * max(float(self.rows.kinks.max()), 0.0) * ABOVE)
        # ‖Σ β φ‖ for the multipliers in balance is at most this much more.
        more *= ABOVE
        length = float(np.sqrt(max(float(pays.upper), 0.0)))
        if not length + more < 1e150:  # its square may overflow
            return Ball(0.0)  # of no multipliers at all
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
        clipped, plus, minus = self.clipped(Z)
        return self.shrunk(clipped, *balancing(plus, minus)) if self.intercept else clipped

    def clipped(self, Z: Vector) -> tuple[Vector, float, float]:
        """The multipliers within their signs and caps; their sum for rows that hold up, and down."""
        up, clipped = self.rows.sides > 0, np.clip(Z, 0.0, self.rows.caps)
        return clipped, float(clipped[up].sum()), float(clipped[~up].sum())

    def shrunk(self, Z: Vector, plus: float, minus: float) -> Vector:
        """The multipliers times factors, for rows that hold up and down."""
        return Z * np.where(self.rows.sides > 0, plus, minus)


def balancing(plus: float, minus: float) -> tuple[float, float]:
    """Factors of at most 1 that make two non-negative sums equal by shrinking the larger one."""
    light = min(plus, minus)
    return (light / plus if plus > 0 else 0.0, light / minus if minus > 0 else 0.0)
