"""A dual bound for a merely primal point: accelerated projected ascent on the dual.

Any feasible multipliers give a valid bound; better ones give a better bound. The ascent starts from
what complementary slackness suggests at the given point, and needs products with the data alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import relative_gap
from polyopt.certificates.hinge import HingeProgram, Multipliers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["ascend"]

_CHECK_EVERY = 20  # steps between two evaluations of the bound


def ascend(program: HingeProgram, f: Vector, primal_value: float, tol: float, max_iter: int) -> Multipliers:
    """Feasible multipliers with as high a dual value as `max_iter` steps find.

    Parameters
    ----------
    program : HingeProgram
        The program.
    f : ndarray of shape (n,)
        Outputs of the primal point, from which the first multipliers are guessed.
    primal_value : float
        Its objective; the ascent ends once the relative gap to it is within `tol`.
    tol : float
        Relative gap asked.
    max_iter : int
        Steps at most.
    """
    dual = _Dual(program)
    z = dual.project(dual.guess(f))
    best, best_value = z, dual.value(z)
    step = 1.0 / dual.curvature()
    previous, momentum = z, 1.0
    for iteration in range(1, max_iter + 1):
        faster = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = z + (momentum - 1.0) / faster * (z - previous)
        previous, momentum = z, faster
        z = dual.project(ahead + step * dual.gradient(ahead))
        if (ahead - z) @ (z - previous) > 0:  # momentum points downhill: restart it
            momentum = 1.0
        if iteration % _CHECK_EVERY == 0 or iteration == max_iter:
            value = dual.value(z)
            if value > best_value:
                best, best_value = z, value
            if relative_gap(primal_value, best_value) <= tol:
                break
    return dual.unpack(best)


class _Dual:
    """The dual in stacked variables z = (alpha, lam, lam_star), or alpha alone where B is infinite."""

    def __init__(self, program: HingeProgram):
        self.program = program
        n, y = program.geometry.n, program.y
        ones = np.ones(n)
        if np.isfinite(program.B):
            self.signs = np.concatenate([y, -ones, ones])
            self.upper = np.concatenate([program.C, np.full(2 * n, np.inf)])
            self.linear = np.concatenate([ones, np.full(2 * n, -program.B)])
        else:
            self.signs, self.upper, self.linear = y, program.C, ones
        self.families = len(self.signs) // n

    def beta(self, z: Vector) -> Vector:
        return (self.signs * z).reshape(self.families, -1).sum(axis=0)

    def gradient(self, z: Vector) -> Vector:
        geometry = self.program.geometry
        g = geometry.scores(geometry.represent(self.beta(z)))
        return self.linear - self.signs * np.tile(g, self.families)

    def unpack(self, z: Vector) -> Multipliers:
        """Multipliers, repaired to the last digit."""
        parts = z.reshape(self.families, -1)
        lam, lam_star = (parts[1], parts[2]) if self.families == 3 else (None, None)
        return self.program.repair(self.program.multipliers(parts[0], lam, lam_star))

    def value(self, z: Vector) -> float:
        return self.program.dual_value(self.unpack(z))

    def guess(self, f: Vector) -> Vector:
        """C inside the margin, 0 beyond it, a ramp in a thin band around it; nothing on the bounds."""
        band = 1e-2
        finite = np.where(np.isfinite(self.program.C), self.program.C, 1.0)
        z = np.zeros(len(self.signs))
        z[: len(f)] = finite * np.clip((1.0 + band - self.program.y * f) / (2.0 * band), 0.0, 1.0)
        return z

    def curvature(self) -> float:
        """Largest curvature of the dual, by power iteration, with a safety margin."""
        geometry = self.program.geometry
        direction = np.cos(np.arange(geometry.n) + 1.0)  # no symmetry of the data is likely to hide from it
        largest = 0.0
        for _ in range(30):
            norm = float(np.linalg.norm(direction))
            if norm == 0:
                break
            largest = norm
            direction = geometry.scores(geometry.represent(direction / norm))
        largest = max(largest, float(np.linalg.norm(direction)))
        return self.families * 1.1 * largest or 1.0

    def project(self, z: Vector) -> Vector:
        """The nearest point with 0 <= z <= upper and, with a free intercept, signs'z = 0."""

        def moved(shift: float) -> Vector:
            return np.clip(z - shift * self.signs, 0.0, self.upper)

        if not self.program.intercept:
            return moved(0.0)
        low, high = -1.0, 1.0
        while self.signs @ moved(low) < 0:
            low *= 4.0
        while self.signs @ moved(high) > 0:
            high *= 4.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if self.signs @ moved(middle) > 0:
                low = middle
            else:
                high = middle
        return moved(0.5 * (low + high))
