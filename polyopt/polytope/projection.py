"""The nearest point of a polytope; the program is in formulations/projection.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import real_array
from formulations.solution import Solution, Status
from polyopt.polytope.active_set import NOISE, ActiveSet, LeastLength

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Array

__all__ = ["project"]


def project(
    x: ArrayLike, W: ArrayLike, b: ArrayLike, *, spread: ArrayLike | None = None,
    low: ArrayLike | None = None, high: ArrayLike | None = None, held: ArrayLike | None = None,
) -> Solution:  # fmt: skip
    """The point of {z : W z + b ≤ 0} that is nearest to x, exact to rounding, or a proof that there is none.

    x (m,): A point, in the units of the features.
    W (K, m): normals of the faces, pointing outside; a row of zeros only asks for b_k ≤ 0.
    b (K,): offsets of the faces.
    spread (m,): the unit in which each feature's change is measured, positive; by default 1.
    low, high (m,): bounds on the features, which may be infinite; x itself may be beyond them.
    held (m,): the features that may not move.
    Returns: of the program :func:`formulations.projection.primal`: ``z``, and the multipliers of the rows
        ``face``, ``above``, ``below`` (m,) and ``held`` (m,; 0 where a feature is free). The objective is
        half the squared distance. Where the status is ``INFEASIBLE`` there is no point, and the multipliers
        are a ray of the dual; ``STALLED`` if rounding kept the method from its end.
    ValueError: arrays that do not fit each other, numbers that are not finite, a spread that is not positive,
        or a low above its high.
    """
    q = _Question.of(x, W, b, spread, low, high, held)
    ray = q.contradiction()
    if ray is not None:
        return _no_point(q, ray, 0)
    run = ActiveSet(q.rows)
    status = run.finish()
    if status is Status.INFEASIBLE:
        return _no_point(q, run.ray, run.steps)
    faces = run.faces / np.where(q.rows.length > 0.0, q.rows.length, 1.0)
    z = q.point(run.u)
    duals = q.duals(faces, z)
    value = 0.5 * float(np.sum(((z - q.x) / q.spread) ** 2))
    return Solution(status, {"z": z}, duals, value, None, "active set", run.steps)


def _no_point(q: _Question, ray: Array, steps: int) -> Solution:
    """The end without a point: the multipliers of the faces, and of the bounds that go with them."""
    duals = q.duals_of_ray(ray)
    return Solution(Status.INFEASIBLE, {}, duals, np.nan, None, "active set", steps)


@dataclass(frozen=True)
class _Question:
    """The program in the units of the features, without those that cannot move."""

    x: Array
    W: Array
    b: Array
    spread: Array
    low: Array
    high: Array
    held: NDArray[np.bool_]
    start: Array  # x, with the features that cannot move where they must be
    free: NDArray[np.intp]
    rows: LeastLength  # over these

    @classmethod
    def of(
        cls, x: ArrayLike, W: ArrayLike, b: ArrayLike, spread: ArrayLike | None, low: ArrayLike | None,
        high: ArrayLike | None, held: ArrayLike | None,
    ) -> _Question:  # fmt: skip
        point, normals = real_array("x", x), real_array("W", W)
        if point.ndim != 1 or normals.ndim != 2 or normals.shape[1] != len(point):
            raise ValueError(f"W must be of shape (K, {point.size}) to fit x, not {normals.shape}")
        m = len(point)
        offsets = real_array("b", b, normals.shape[:1])
        unit = real_array("spread", np.ones(m) if spread is None else spread, (m,))
        if not (unit > 0.0).all():
            raise ValueError(f"spread must be positive; its least entry is {unit.min()!r}")
        ends = [
            real_array(
                name, np.broadcast_to(value if end is None else np.asarray(end), m), (m,), finite=False
            )
            for name, end, value in (("low", low, -np.inf), ("high", high, np.inf))
        ]
        crossed = (ends[0] > ends[1]) | (ends[0] == np.inf) | (ends[1] == -np.inf)
        if crossed.any():
            j = int(np.argmax(crossed))
            raise ValueError(
                f"low must not be above high; of feature {j} they are {ends[0][j]} and {ends[1][j]}"
            )
        fixed = np.zeros(m, dtype=bool) if held is None else np.asarray(held)
        if fixed.dtype != bool or fixed.shape != (m,):
            raise ValueError(f"held must be {m} truth values, not {held!r}")
        start = np.where(fixed, point, np.where(ends[0] == ends[1], ends[0], point))
        free = np.flatnonzero(~fixed & (ends[0] < ends[1]))
        N, length = _unit_rows(normals[:, free] * unit[free])
        safe = np.where(length > 0.0, length, 1.0)
        terms = normals * start
        sizes = np.abs(terms).sum(axis=1) + np.abs(offsets)
        room = [(end[free] - point[free]) / unit[free] for end in ends]
        rows = LeastLength(N, -(terms.sum(axis=1) + offsets) / safe, NOISE * sizes / safe, length, *room)
        return cls(point, normals, offsets, unit, ends[0], ends[1], fixed, start, free, rows)

    def contradiction(self) -> Array | None:
        """Multipliers of the faces that prove that the features which cannot move allow no point."""
        beyond = self.held & ((self.x < self.low) | (self.x > self.high))
        if beyond.any():
            return np.zeros(len(self.b))
        stuck = np.flatnonzero((self.rows.length == 0.0) & (-self.rows.c > self.rows.noise))
        return np.eye(len(self.b))[stuck[0]] if len(stuck) else None

    def point(self, u: Array) -> Array:
        """The point in the units of x; what is at a bound, and what has not moved, is there exactly."""
        z, free = self.start.copy(), self.free
        moved = self.x[free] + self.spread[free] * u
        at_low, at_high = u == self.rows.low_u, u == self.rows.high_u
        z[free] = np.where(at_low, self.low[free], np.where(at_high, self.high[free], moved))
        return np.clip(z, self.low, self.high)

    def duals(self, faces: Array, z: Array) -> dict[str, Array]:
        """The multipliers of every row, from those of the faces: what is left is the bounds'."""
        own = -(z - self.x) / self.spread**2 - self.W.T @ faces  # ρ⁺ − ρ⁻ + ν
        nu = np.where(self.held, own, 0.0)
        rest = np.where(self.held, 0.0, own)
        above = np.where(z == self.high, np.maximum(rest, 0.0), 0.0)
        below = np.where(z == self.low, np.maximum(-rest, 0.0), 0.0)
        return {"face": faces, "above": above, "below": below, "held": nu}

    def duals_of_ray(self, faces: Array) -> dict[str, Array]:
        """A ray of the dual: the bounds take up the normals' sum, as far as they are finite."""
        m = len(self.x)
        above, below, nu = np.zeros(m), np.zeros(m), np.zeros(m)
        beyond = self.held & ((self.x < self.low) | (self.x > self.high))
        if beyond.any():
            j = int(np.argmax(beyond))
            side = 1.0 if self.x[j] > self.high[j] else -1.0
            above[j], below[j], nu[j] = max(side, 0.0), max(-side, 0.0), -side
        else:
            pull = -(self.W.T @ faces)
            nu = np.where(self.held, pull, 0.0)
            above = np.where(~self.held & np.isfinite(self.high), np.maximum(pull, 0.0), 0.0)
            below = np.where(~self.held & np.isfinite(self.low), np.maximum(-pull, 0.0), 0.0)
        return {"face": faces, "above": above, "below": below, "held": nu}


def _unit_rows(A: Array) -> tuple[Array, Array]:
    """The rows at length 1, and their lengths; a row of zeros stays as it is."""
    largest = np.abs(A).max(axis=1, initial=0.0)
    rows = A / np.where(largest > 0.0, largest, 1.0)[:, None]
    length = np.linalg.norm(rows, axis=1)
    return rows / np.where(length > 0.0, length, 1.0)[:, None], largest * length
