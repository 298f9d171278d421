"""The nearest point of a polytope, by non-negative least squares.

min  ½ Σ_j ((z_j − x_j)/s_j)²   s.t.  W z + b ≤ 0 [face],  low ≤ z ≤ high [below, above],
                                      z_j = x_j for the held features [held]

The multipliers are the rates at which the optimal value decreases as the constraint is relaxed; the dual, and
the ray that proves that no point is feasible, are in :mod:`polyopt.certificates.projection`. In the units of
the features, u_j = (z_j − x_j)/s_j, the program minimises ‖u‖ subject to A u ≤ c, with rows of length 1 for
the faces and the bounds. By Lawson and
Hanson, with the residual r of the least squares min ‖[−A'; −c'/d] y − e‖ over y ≥ 0, e the last unit vector,
u = −d (r_1, …, r_f) / r_(f+1), and y > 0 at the rows that hold with equality; r = 0 if no point is feasible,
and y is a ray then. The point is accurate if its distance is of the order of d, which is raised until it is.
From the rows that hold it is then computed anew, to rounding.

Reference: C. L. Lawson, R. J. Hanson, Solving Least Squares Problems (1974), chapter 23.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from formulations.language.arguments import real_array
from formulations.language.solution import Solution, Status
from formulations.language.types import Array

_EPS = float(np.finfo(float).eps)
_NOISE = 32.0 * _EPS  # rounding of a row, relative to the sizes that make it up


@dataclass(frozen=True)
class LeastLength:
    """The least ‖u‖ subject to N u ≤ c and low_u ≤ u ≤ high_u, the rows of N of length 1, or 0.

    N, c, noise (K, f): the rows of the faces, and the rounding of c.
    length (K,): divisors of the normals; a row of length 0 is no row.
    low_u, high_u (f,): bounds, below and above each other.
    """

    N: Array
    c: Array
    noise: Array
    length: Array
    low_u: Array
    high_u: Array


def _least_length(q: LeastLength) -> tuple[Array | None, Array]:
    """The point u and the multipliers of the faces; None and a ray of them if no point is feasible."""
    size = q.N.shape[1]
    eye, high, low = np.eye(size), np.isfinite(q.high_u), np.isfinite(q.low_u)
    A = np.vstack([q.N, eye[high], -eye[low]])
    c = np.concatenate([q.c, q.high_u[high], -q.low_u[low]])
    noise = np.concatenate([q.noise, np.zeros(len(c) - len(q.c))])
    usable = np.concatenate([q.length > 0.0, np.ones(len(c) - len(q.c), dtype=bool)])
    A, c, noise, places = A[usable], c[usable], noise[usable], np.flatnonzero(usable)
    u, faces = np.zeros(size), np.zeros(len(q.c))
    beyond = -c - noise
    if not len(c) or beyond.max() <= 0.0:
        return u, faces
    distance = float(beyond.max())  # a lower bound, as rows have the length 1
    far, first = 1e12 * distance, np.zeros(0)  # the first multipliers are the most accurate ray
    while distance <= far:
        E = np.vstack([-A.T, -c / distance])
        y, _ = nnls(E, np.append(np.zeros(size), 1.0), maxiter=100 * len(c))
        rest, first = E @ y, first if len(first) else y
        left = 1.0 - float(rest[-1])  # the squared length of the residual, 0 if no point is feasible
        if left > 1e-13:
            u, active = rest[:-1] / left * distance, np.flatnonzero(y > 0.0)
            if np.linalg.norm(u) > 100.0 * distance:  # once more, in units in which it is accurate
                distance = float(np.linalg.norm(u))
                continue
            u, lam = _on_rows(A[active], c[active], u, y[active] / left * distance)
            length = np.linalg.norm(u)
            if length <= far and (A @ u - c <= noise + 1e-10 * length).all():
                own = places[active] < len(q.c)
                faces[places[active][own]] = lam[own]
                return u, faces / np.where(q.length > 0.0, q.length, 1.0)
        distance *= 1e5
    ray = np.zeros(len(q.c))
    own = places < len(q.c)
    ray[places[own]] = first[own]
    ray = ray / np.where(q.length > 0.0, q.length, 1.0)
    return None, ray / ray.max() if ray.max() > 0.0 else ray


def _on_rows(A: Array, c: Array, u: Array, lam: Array) -> tuple[Array, Array]:
    """The point of least length on these rows, and its multipliers, computed anew."""
    if len(A) > A.shape[1]:
        return u, lam
    Q, R = np.linalg.qr(A.T)
    along = solve_triangular(R, c, trans="T", check_finite=False)
    point, own = Q @ along, -solve_triangular(R, along, check_finite=False)
    return (point, np.maximum(own, 0.0)) if np.isfinite(point).all() else (u, lam)


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
    Returns: ``z``, and the multipliers of the module's program: ``face`` (K,), ``above``, ``below`` (m,) and
        ``held`` (m,; 0 for the features that are free). The objective is
        half the squared distance. If the status is ``INFEASIBLE`` there is no point, and the multipliers
        are a ray of the dual.
    ValueError: arrays that do not fit each other, numbers that are not finite, a spread that is not positive,
        or a low above its high.
    """
    q, solver = _Question.of(x, W, b, spread, low, high, held), "non-negative least squares"
    ray, u = q.contradiction(), None
    if ray is None:
        u, ray = _least_length(q.rows)
    if u is None:
        return Solution(Status.INFEASIBLE, {}, q.duals_of_ray(ray), np.nan, None, solver)
    z = q.point(u)
    value = 0.5 * float(np.sum(((z - q.x) / q.spread) ** 2))
    return Solution(Status.SOLVED, {"z": z}, q.duals(ray, z), value, None, solver)


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
        rows = LeastLength(N, -(terms.sum(axis=1) + offsets) / safe, _NOISE * sizes / safe, length, *room)
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
