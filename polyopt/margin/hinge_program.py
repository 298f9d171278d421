"""The hinge program that every machine of this room is, with what a certificate needs of it.

The program and its dual are stated in :mod:`polyopt.margin.certificate`. Here are both objectives in ball
arithmetic, the repair of multipliers, the feasible point on the ray of a given one, and the residuals of the
optimality conditions. A certificate by blocks of samples adds up what these functions return for each block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import Families
from formulations.language.arguments import real_array
from formulations.language.types import Vector
from polyopt.certificates.certificate import Residual, residual
from polyopt.certificates.tally import Tally
from polyopt.linalg.rounding import ABOVE, Ball
from polyopt.margin.geometry import Geometry

# -- the program and its two objectives ----------------------------------------------------------


class Balance(NamedTuple):
    """Sums over the samples for the balance Σ β_i = 0.

    left: Σ β_i.
    up, down: sums of the multipliers of rows that hold outputs up, and down.
    error: Σ of the rounding of β_i times the norm of sample i.
    length: Σ of the multipliers of sample i times its norm.
    """

    left: Ball
    up: float
    down: float
    error: float
    length: float


@dataclass(frozen=True)
class HingeProgram:
    """A hinge program: its name, feature space and families of rows, and whether b is free."""

    name: str
    geometry: Geometry
    rows: Families
    intercept: bool = True

    def value(self, v: Vector, f: Ball, scale: float = 1.0, *, soft_only: bool = False) -> Ball:
        """Objective at ``scale * v`` with the least slacks at outputs ``scale * f``.

        It is infinite if a hard margin breaks, unless `soft_only`.
        """
        cost, is_broken, costs = self.slack_cost(f, scale)
        defect = self.geometry.psd_defect
        if defect:  # the cost of slack for a semidefinite matrix within that distance differs by at most this
            off = defect * scale * float(np.linalg.norm(v)) * float(np.linalg.norm(costs))
            cost = Ball(cost.mid, cost.rad + off * ABOVE)
        energy = self.geometry.energy(v) * Ball(scale) * scale * 0.5
        return energy + (Ball(np.inf) if is_broken and not soft_only else cost)

    def slack_cost(self, f: Ball, scale: float) -> tuple[Ball, bool, Vector]:
        """Cost of slack at outputs ``scale * f``; True if a hard margin breaks; unit costs of slacks in use.

        The unit costs are zeros unless the geometry has a defect.
        """
        cost, is_broken, costs = Ball(0.0), False, np.zeros(self.rows.n)
        for family in self.rows:
            soft = np.isfinite(family.cap)
            if family.kink <= 0.0 and not soft.any():
                continue  # bounds without slack: the scale keeps them
            slack = (family.kink - f * (scale * family.side)).positive()
            cost = cost + slack[soft].dot(family.cap[soft])
            is_broken |= family.kink > 0.0 and bool((slack.mid[~soft] > 0.0).any())
            if self.geometry.psd_defect:
                costs += np.where(soft & ((slack.mid + slack.rad) > 0.0), family.cap, 0.0)
        return cost, is_broken, costs

    def bound(self, Z: Vector) -> Ball:
        """Dual objective at feasible multipliers next to Z (q, n); its lower end bounds the optimum.

        Z must keep its signs and caps. If rounding leaves the balance Σ β_i = 0 unmet, the multipliers of the
        heavier side, shrunk a little, are in balance: the difference of the objective is in the radius.
        """
        gain, beta, sums = self.dual_terms(Z)
        return self.bound_from(gain, self.geometry.dual_norm_sq(beta.mid), sums)

    def dual_terms(self, Z: Vector) -> tuple[Ball, Ball, Balance]:
        """Linear part of the dual objective, the β_i, and the sums for :meth:`bound_from`."""
        signed = [Ball(mu * family.side) for family, mu in zip(self.rows, Z, strict=True)]
        gains = [Ball(mu).sum() * family.kink for family, mu in zip(self.rows, Z, strict=True)]
        beta, gain = sum(signed[1:], start=signed[0]), sum(gains[1:], start=gains[0])
        up, sizes = self.rows.sides > 0, self.geometry.sizes()
        return gain, beta, Balance(
            beta.sum(), float(Z[up].sum()), float(Z[~up].sum()),
            float(beta.rad @ sizes), float(Z.sum(axis=0) @ sizes),
        )  # fmt: skip

    def bound_from(self, gain: Ball, norm_sq: Ball, sums: Balance) -> Ball:
        """:meth:`bound` from the linear part, ‖Σ β_i phi_i‖², and sums over the samples."""
        more = sums.error
        if self.intercept:
            off = float(sums.left.size)
            heavy = max(sums.up, sums.down)
            if off >= heavy:
                return Ball(0.0)  # the dual objective at mu = 0
            more = more + off / heavy * ABOVE * sums.length
            # Shrinking a multiplier loses its gain; a multiplier with a negative gain loses nothing.
            gain = Ball(gain.mid, gain.rad + off * max(float(self.rows.kinks.max()), 0.0) * ABOVE)
        more *= ABOVE  # the norm at the multipliers in balance is larger by at most this
        norm = float(np.sqrt(max(float(norm_sq.upper), 0.0)))
        if not norm + more < 1e150:  # its square may overflow
            return Ball(0.0)
        extra = (2.0 * norm * more + more**2) * ABOVE
        found = gain - 0.5 * Ball(norm_sq.mid, norm_sq.rad + extra)
        return found if found.lower >= 0.0 else Ball(0.0)

    def best_intercept(self, v: Vector) -> float:
        """Optimal intercept for v; 0 if the program has none."""
        return self.rows.best_intercept(self.geometry.scores(v)) if self.intercept else 0.0

    def multipliers(self, given: Mapping[str, ArrayLike]) -> Vector:
        """Checked multipliers (q, n) from those by name; zeros for families that are not given."""
        letters = {family.name: family.letter for family in self.rows}
        shape = (self.rows.n,)
        return self.rows.stacked(
            {name: real_array(letters.get(name, name), mu, shape) for name, mu in given.items()}
        )

    def repair(self, Z: Vector) -> Vector:
        """Make multipliers feasible: clip them to signs and caps, then shrink the heavier side to balance."""
        clipped, plus, minus = self.clipped(Z)
        return self.shrunk(clipped, *balancing(plus, minus)) if self.intercept else clipped

    def clipped(self, Z: Vector) -> tuple[Vector, float, float]:
        """Multipliers clipped to signs and caps, with the sums of those that hold up, and down."""
        up, clipped = self.rows.sides > 0, np.clip(Z, 0.0, self.rows.caps)
        return clipped, float(clipped[up].sum()), float(clipped[~up].sum())

    def shrunk(self, Z: Vector, plus: float, minus: float) -> Vector:
        """Multipliers times a factor for rows that hold up, and one for those that hold down."""
        return Z * np.where(self.rows.sides > 0, plus, minus)


def balancing(plus: float, minus: float) -> tuple[float, float]:
    """Factors of at most 1 that make two non-negative sums equal by shrinking the larger one."""
    light = min(plus, minus)
    return (light / plus if plus > 0 else 0.0, light / minus if minus > 0 else 0.0)


# -- the feasible point on the ray ---------------------------------------------------------------


def to_feasible(program: HingeProgram, f: Ball) -> tuple[float, float]:
    """Factors for a point of outputs f: one with which it certainly keeps its hard rows, one that may do.

    They are above 1 if a hard margin is short, else below 1 if an output is beyond its bound; both are
    infinite if no point on the ray is certainly feasible. The second factor is the nearer to 1.
    """
    stretch, enough, has_margins = 1.0, 1.0, False
    for family in program.rows:
        hard = np.isinf(family.cap)
        if not hard.any() or family.kink <= 0.0:
            continue
        has_margins = True
        outputs = (family.side * f.mid)[hard]
        least = float((outputs - f.rad[hard]).min())
        if least <= 0.0:
            return np.inf, np.inf
        if least < family.kink:
            stretch = max(stretch, float(family.kink / least) * (1 + 1e-15))
            most = float((outputs + f.rad[hard]).min())
            enough = max(enough, float(family.kink / most) * (1 - 1e-15))
    bounds = list(_hard_bounds(program, f))
    if stretch > 1.0:
        is_kept = all(stretch * reach * (1 + 1e-15) <= end for end, reach, _ in bounds)
        return (stretch, enough) if is_kept else (np.inf, np.inf)
    if all(reach <= end for end, reach, _ in bounds):
        return 1.0, 1.0
    if has_margins:
        return np.inf, np.inf
    scale = 1.0
    for end, reach, surely in bounds:
        if reach > end:
            scale = min(scale, float(end / reach) * (1 - 1e-15))
        if surely > end:
            enough = min(enough, float(end / surely) * (1 + 1e-15))
    return scale, enough


def _hard_bounds(program: HingeProgram, f: Ball) -> Iterator[tuple[float, float, float]]:
    """Yield for each family of bounds without slack: the bound, and both ends of its largest output."""
    for family in program.rows:
        hard = np.isinf(family.cap)
        if family.kink <= 0.0 and hard.any():
            outward = f[hard].signed(-family.side[hard])
            yield -family.kink, float(outward.upper.max()), float((outward.mid - outward.rad).max())


def value_between(program: HingeProgram, v: Vector, f: Ball, scale: float, least: float) -> Ball:
    """Value of the point v, of outputs f, times the feasible factor between those of :func:`to_feasible`.

    The objective is convex along a ray, so at no factor is it above the larger of its values at both ends.
    Hard rows are kept at the first end, and count at that one only.
    """
    if np.isinf(scale):
        return Ball(np.inf)
    found = program.value(v, f, scale)
    if least == scale or not np.isfinite(found.upper):
        return found
    other = program.value(v, f, least, soft_only=True)
    return max(found, other, key=lambda value: float(value.upper))


# -- the conditions of optimality ----------------------------------------------------------------


def check_conditions(program: HingeProgram, f: Ball, Z: Vector | None = None) -> Tally:
    """Note the worst violation of each condition at outputs f (n,) and multipliers Z (q, n).

    Slacks are recomputed, so only hard rows can be short. The multiplier of ``slack >= 0`` is the cap less
    the row's own, so its sign is the cap. Products of multiplier and slack add up to the gap.
    """
    found = Tally(program.rows.n)
    for family in program.rows:
        hard = np.isinf(family.cap)
        if hard.any():
            short = -family.room(f.mid)
            short = np.where(f.rad > 1e-9, short + f.rad, short)  # rounding alone is no violation
            found.note("primal", family.name, np.where(hard, short, 0.0))
    if Z is None:
        return found
    for family, mu in zip(program.rows, Z, strict=True):
        room, soft = family.room(f.mid), np.isfinite(family.cap)
        slack = np.maximum(0.0, -room) if family.slack else np.zeros(len(room))
        found.note("sign", family.name, -mu)
        found.note("complementarity", family.name, np.abs(mu * (room + slack)))
        if family.slack:
            unused = np.where(soft, (np.where(soft, family.cap, 0.0) - mu) * slack, 0.0)
            found.note("sign", family.slack[0], mu - family.cap)
            found.note("complementarity", family.slack[0], np.abs(unused))
    beta = program.rows.beta(Z)
    found.sums = {"beta": float(beta.sum()), "size": float(np.abs(beta).sum())}
    found.least = {"-multiplier": -float(np.abs(Z).max()), "-cap": -float(program.rows.caps.max())}
    return found


def residuals(program: HingeProgram, found: Tally, stationary: list[Residual]) -> list[Residual]:
    """Residuals of all conditions in the order of a certificate, with those of stationarity in w.

    Outputs are relative to the size of an output at the row, multipliers to the largest one, and products to
    both: so the number of samples does not matter.
    """
    largest, cap = -found.least.get("-multiplier", 0.0), -found.least.get("-cap", 0.0)
    units = {family.name: family.unit for family in program.rows}
    units |= {family.slack[0]: family.unit for family in program.rows if family.slack}

    def of(condition: str, scale: float) -> list[Residual]:
        rows = [row for name, row in found.worst if name == condition]
        unit = {row: 1.0 if condition == "sign" else units[row] for row in rows}
        return [found.residual(condition, row, scale * unit[row]) for row in rows]

    balance = []
    if "beta" in found.sums and program.intercept:
        total, size = abs(found.sums["beta"]), found.sums["size"]
        balance = [Residual("stationarity", "b", total, total / size if size > 0 else total)]
    return [
        *of("primal", 1.0), *of("sign", largest or cap), *balance, *stationary,
        *of("complementarity", largest or 1.0),
    ]  # fmt: skip


def stationarity(
    gradient: Vector, pulled: Vector, terms: float, unit: float, primal_value: float
) -> list[Residual]:
    """Residual of ``gradient = pulled`` in w, relative to its own size.

    If the terms of the sum `pulled` cancel, rounding is relative to the size of the `terms`. If w is nearly
    zero, the gradient is compared with one that matters to the objective: `unit` is the size of the gradient
    of half the energy where the energy is 1.
    """
    scale = max(
        float(np.abs(gradient).max(initial=0.0)),
        float(np.abs(pulled).max(initial=0.0)),
        1e-8 * terms,
        1e-4 * unit * float(np.sqrt(2.0 * primal_value)),
    )
    return [residual("stationarity", "w", np.abs(gradient - pulled), scale)] if len(gradient) else []
