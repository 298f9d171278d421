"""A dual bound for a merely primal point: guessed multipliers, then accelerated projected ascent.

Any feasible multipliers give a valid bound; better ones give a better bound. The first guess, where w is
given by expansion coefficients, is these coefficients up to their signs. The others follow complementary
slackness at the given point: the cap where a row needs slack, 0 beyond its kink, and at the kink the
multipliers that fit w best by least squares (a bound without slack has non-zero ones only there). If the
point is optimal, so is the guess. The ascent starts from the best guess; it needs only products with the
data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import lsq_linear

from polyopt.certificates.certificate import relative_gap
from polyopt.margin.geometry import KernelGeometry
from polyopt.margin.hinge_program import HingeProgram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.language.types import Vector

__all__ = ["ascend"]

_BANDS = (1e-6, 1e-4, 1e-2)  # how near the margin or a bound an output counts as on it
_MAX_FREE = 600  # multipliers that are fitted by least squares, ...
_MAX_FIT_WORK = 2e9  # ... and rows times squared columns: beyond either a fit costs more than it gives
_MAX_KERNEL_VALUES = 4e9  # that an ascent may ask for


def ascend(
    program: HingeProgram, v: Vector, f: Vector, primal_value: float, tol: float, max_iter: int
) -> Vector:
    """Feasible multipliers (q, n) with as high a dual value as the guesses and `max_iter` steps find.

    v is the vector of the primal point, f (n,) its outputs. The search ends once the gap to its value is
    within `tol`, relative; with a kernel of more than about a thousand samples there are fewer steps.
    """
    dual = _Dual(program)
    best, best_value = np.zeros(len(dual.signs)), -np.inf
    for z in dual.guesses(v, f):
        value = dual.value(z)
        if value > best_value:
            best, best_value = z, value
        if relative_gap(primal_value, best_value) <= tol:
            return dual.unpack(best)
    if isinstance(program.geometry, KernelGeometry):  # a step costs n² products
        max_iter = min(max_iter, int(_MAX_KERNEL_VALUES / program.geometry.n**2))
    if not max_iter:
        return dual.unpack(best)
    z = previous = dual.project(best)
    step, momentum = 1.0 / dual.curvature(), 1.0
    for iteration in range(1, max_iter + 1):
        faster = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = z + (momentum - 1.0) / faster * (z - previous)
        previous, momentum = z, faster
        z = dual.project(ahead + step * dual.gradient(ahead))
        if (ahead - z) @ (z - previous) > 0:  # momentum points downhill: restart it
            momentum = 1.0
        if iteration % 20 == 0 or iteration == max_iter:
            value = dual.value(z)
            if value > best_value:
                best, best_value = z, value
            if relative_gap(primal_value, best_value) <= tol:
                break
    return dual.unpack(best)


class _Dual:
    """The dual in stacked variables z, the multipliers of all families one after the other."""

    def __init__(self, program: HingeProgram):
        self.program, self.rows, n = program, program.rows, program.rows.n
        self.signs, self.upper = self.rows.sides.ravel(), self.rows.caps.ravel()
        self.linear = np.repeat(self.rows.kinks, n)
        # Costs, with 1 standing for that of a margin without slack, and 0 for bounds without it.
        hard = [1.0 if family.kink > 0.0 else 0.0 for family in self.rows]
        self.costs = np.where(np.isfinite(self.upper), self.upper, np.repeat(hard, n))

    def beta(self, z: Vector) -> Vector:
        return self.rows.beta(z.reshape(len(self.rows), -1))

    def gradient(self, z: Vector) -> Vector:
        geometry = self.program.geometry
        g = geometry.scores(geometry.represent(self.beta(z)))
        return self.linear - self.signs * np.tile(g, len(self.rows))

    def unpack(self, z: Vector) -> Vector:
        """Multipliers (q, n), repaired to the last digit."""
        return self.program.repair(z.reshape(len(self.rows), -1))

    def value(self, z: Vector) -> float:
        return self.program.dual_value(self.unpack(z))

    def guesses(self, v: Vector, f: Vector) -> Iterator[Vector]:
        """The guesses of this module, the cheapest first."""
        room = np.concatenate([family.room(f) for family in self.rows])
        if isinstance(self.program.geometry, KernelGeometry):
            yield self.rows.split(v).ravel()
        yield self.project(self.costs * np.clip((_BANDS[-1] - room) / (2.0 * _BANDS[-1]), 0.0, 1.0))
        for band in _BANDS:
            yield self.fitted(v, room, band)

    def fitted(self, v: Vector, room: Vector, band: float) -> Vector:
        """Multipliers that make w stationary as nearly as those free at the point can."""
        geometry = self.program.geometry
        soft = self.costs > 0.0
        free = np.where(soft, np.abs(room) <= band, room <= band)
        z = self.costs * (room < 0.0)
        z[free] = 0.0
        places = np.flatnonzero(free)
        if not 0 < len(places) <= _MAX_FREE or self.rows.n * len(places) ** 2 > _MAX_FIT_WORK:
            return z
        held = self.beta(z)
        columns = geometry.columns(places % geometry.n) * self.signs[places]
        target = geometry.gradient(v) - geometry.pull(held)
        if self.program.intercept:
            # The balance is a row of its own, in the units of the others.
            unit = float(np.abs(columns).max()) or 1.0
            columns = np.vstack([columns, unit * self.signs[places]])
            target = np.append(target, -unit * held.sum())
        z[places] = lsq_linear(columns, target, (0.0, self.upper[places] + 1e-300), method="bvls").x
        return z

    def curvature(self) -> float:
        """Largest curvature of the dual, estimated with a safety margin."""
        return len(self.rows) * 1.1 * self.program.geometry.curvature() or 1.0

    def project(self, z: Vector) -> Vector:
        """The nearest point with 0 <= z <= upper and, with a free intercept, signs'z = 0.

        It is z less a multiple of the signs, cut to the box. Its balance signs'z falls with the multiple, in
        straight pieces between the places where an entry comes to an end of its interval: the piece that
        crosses 0 is searched for among these, and its slope is the number of entries that move in it.
        """

        def moved(shift: float) -> Vector:
            return np.minimum(np.maximum(z - shift * self.signs, 0.0), self.upper)

        if not self.program.intercept or not len(z):
            return moved(0.0)
        begin, end = np.sort([self.signs * z, self.signs * (z - self.upper)], axis=0)
        places = np.unique([begin, end])
        places = np.concatenate([[-np.inf], places[np.isfinite(places)], [np.inf]])
        low, high, above = 0, len(places) - 1, 0.0  # the balance is positive at low, and not at high
        while high - low > 1:
            middle = (low + high) // 2
            balance = float(self.signs @ moved(places[middle]))
            if balance > 0.0:
                low, above = middle, balance
            else:
                high = middle
        if low == 0:  # it is positive nowhere: all that counts upward has a cap of 0
            return moved(places[high])
        moving = max(int(((begin <= places[low]) & (end >= places[high])).sum()), 1)
        return moved(places[low] + above / moving)
