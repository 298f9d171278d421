"""The nearest point of a polytope, by Goldfarb and Idnani's dual active-set method.

The program is in :mod:`formulations.projection`. In the units of the features, u_j = (z_j − x_j)/s_j, the
program is the least ‖u‖ subject to n_k·u ≤ c_k with normals of length 1, and to bounds. The method starts
at u = 0, where x itself is, takes up the row that is violated most, and moves along its normal in the space
that the active rows leave, giving up an active row where its multiplier comes to 0. ½‖u‖² grows with every
row taken up, so that no set of active rows comes back. A row that no direction can satisfy and no
multiplier stops gives a ray: none is feasible.

A bound that is active takes its feature out of the system, so that only the normals of active faces are
factorised, and anew each time: there are few, and nothing drifts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from formulations.language.arguments import real_array
from formulations.language.solution import Solution, Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array


__all__ = ["project"]

_EPS = float(np.finfo(float).eps)
_NOISE = 32.0 * _EPS  # rounding of a row, relative to the sizes that make it up


@dataclass(frozen=True)
class LeastLength:
    """The least ‖u‖ subject to N u ≤ c and low_u ≤ u ≤ high_u, the rows of N of length 1, or 0.

    N, c, noise (K, f): the rows of the faces, and the rounding of c.
    length (K,): what the normals were divided by; a row of length 0 is none.
    low_u, high_u (f,): bounds, below and above each other.
    """

    N: Array
    c: Array
    noise: Array
    length: Array
    low_u: Array
    high_u: Array


class ActiveSet:
    """The point u, the active rows and their multipliers, as they change.

    q: the program.
    """

    def __init__(self, q: LeastLength):
        K, size = q.N.shape
        self.q, self.steps = q, 0
        self.u = np.zeros(size)
        self.faces = np.zeros(K)  # multipliers of all faces
        self.bounds = np.zeros(size)  # of the bounds, positive at the upper one, negative at the lower one
        self.active: list[int] = []  # faces
        self.side = np.zeros(size, dtype=np.int64)  # of each feature: 1 at its high, -1 at its low, else 0
        self.settled: set[tuple[int, int]] = set()  # rows that are kept but for rounding, at this u
        self.ray = np.zeros(K)

    def finish(self) -> Status:
        """Take up rows until none is violated."""
        limit = 10 * (len(self.q.c) + 2 * len(self.u) + 10)
        while self.steps < limit:
            face, feature, side = self._most_violated()
            if face < 0 and feature < 0:
                return Status.SOLVED
            found = self._take_up(face, feature, side, limit)
            if found is not None:
                return found
        return Status.STALLED

    def _most_violated(self) -> tuple[int, int, int]:
        """The face or the feature whose row is violated most, and the bound's side; -1 for none."""
        q, slight = self.q, _NOISE * float(np.linalg.norm(self.u))
        beyond = q.N @ self.u - q.c - self._rounding()
        beyond[self.active] = -np.inf
        beyond[q.length == 0.0] = -np.inf
        over, under = self.u - q.high_u - slight, q.low_u - self.u - slight
        over[self.side == 1], under[self.side == -1] = -np.inf, -np.inf
        for face, feature in self.settled:
            if face >= 0:
                beyond[face] = -np.inf
            else:
                over[feature] = under[feature] = -np.inf
        k = int(np.argmax(beyond)) if len(beyond) else -1
        best, found = (beyond[k] if k >= 0 else -np.inf), (k, -1, 0)
        for side, amounts in ((1, over), (-1, under)):
            if len(amounts) and amounts.max() > max(best, 0.0):
                best, found = amounts.max(), (-1, int(np.argmax(amounts)), side)
        return found if best > 0.0 else (-1, -1, 0)

    def _rounding(self) -> Array:
        """How far rounding may put the faces' rows from what they are."""
        return self.q.noise + _NOISE * (np.abs(self.q.N) @ np.abs(self.u) + np.abs(self.q.c))

    def _is_settled(self, violation: float, face: int, rates: Array, on_bounds: Array) -> bool:
        """Whether the active rows imply this one, but for what their rounding adds up to."""
        own, slight = self._rounding(), _NOISE * float(np.linalg.norm(self.u))
        carried = np.abs(rates) @ own[self.active] + slight * (1.0 + np.abs(on_bounds).sum())
        return bool(violation <= carried + (own[face] if face >= 0 else 0.0))

    def _take_up(self, face: int, feature: int, side: int, limit: int) -> Status | None:
        """Satisfy one row, giving up active ones on the way; a status where that is the end."""
        q, own = self.q, 0.0  # the row's own multiplier
        normal = q.N[face] if face >= 0 else side * np.eye(1, len(self.u), feature)[0]
        target = q.c[face] if face >= 0 else side * (q.high_u if side > 0 else q.low_u)[feature]
        while self.steps < limit:
            self.steps += 1
            left, rates, on_bounds, dependent = self._directions(normal)
            violation = float(normal @ self.u - target)
            slight = dependent and self._is_settled(violation, face, rates, on_bounds)
            if slight and not own:
                self.settled.add((face, feature))
                return None
            full = np.inf if dependent else violation / float(left @ left)
            stop, first = self._first_to_go(rates, on_bounds)
            if np.isinf(min(full, stop)):
                if slight:
                    break  # nothing is violated, nor proven: rounding has the last word
                self._keep_ray(face, rates)
                return Status.INFEASIBLE
            step = max(min(full, stop), 0.0)
            own += step
            self.u = self.u if dependent else self.u - step * left
            self.faces[self.active] -= step * rates
            self.bounds -= step * on_bounds * self.side
            if full <= stop:
                self._add(face, feature, side, own)
                return None
            self._drop(first)
        return Status.STALLED

    def _directions(self, normal: Array) -> tuple[Array, Array, Array, bool]:
        """What is left of a normal beside the active rows, its coefficients in them, and if nothing is."""
        inner = self.side == 0
        left = np.where(inner, normal, 0.0)
        rates, spread = np.zeros(len(self.active)), 1.0
        if self.active:
            Q, R = np.linalg.qr(self.q.N[self.active][:, inner].T)
            part = left[inner]
            shares = Q.T @ part
            part = part - Q @ shares
            again = Q.T @ part  # once more: what is left may be small
            left[inner] = part - Q @ again
            rates = solve_triangular(R, shares + again, check_finite=False)
            spread = 1.0 / max(float(np.abs(np.diag(R)).min()), _EPS)
        on_bounds = np.where(inner, 0.0, self.side * (normal - rates @ self.q.N[self.active]))
        size = float(np.linalg.norm(left))
        return left, rates, on_bounds, size <= min(1e-13 * spread, 1e-6)

    def _first_to_go(self, rates: Array, on_bounds: Array) -> tuple[float, tuple[int, int]]:
        """The step at which the first multiplier comes to 0, and whose it is: (place of a face, feature)."""
        best, first = np.inf, (-1, -1)
        for place, (k, rate) in enumerate(zip(self.active, rates, strict=True)):
            if rate > 0.0 and self.faces[k] / rate < best:
                best, first = self.faces[k] / rate, (place, -1)
        going = np.flatnonzero(on_bounds > 0.0)
        if len(going):
            steps = np.abs(self.bounds[going]) / on_bounds[going]
            if steps.min() < best:
                best, first = float(steps.min()), (-1, int(going[np.argmin(steps)]))
        return max(best, 0.0), first

    def _drop(self, first: tuple[int, int]) -> None:
        place, feature = first
        if place >= 0:
            self.faces[self.active.pop(place)] = 0.0
        else:
            self.side[feature], self.bounds[feature] = 0, 0.0

    def _add(self, face: int, feature: int, side: int, own: float) -> None:
        if face >= 0:
            self.active.append(face)
            self.faces[face] = own
        else:
            self.side[feature], self.bounds[feature] = side, own * side
        self._refresh()

    def _refresh(self) -> None:
        """The point and the multipliers of these active rows from nothing else, which forgets rounding."""
        self.settled.clear()
        q, inner = self.q, self.side == 0
        u = np.where(self.side > 0, q.high_u, np.where(self.side < 0, q.low_u, 0.0))
        lam = np.zeros(len(self.active))
        if self.active:
            A = q.N[self.active]
            Q, R = np.linalg.qr(A[:, inner].T)
            room = q.c[self.active] - A[:, ~inner] @ u[~inner]
            along = solve_triangular(R, room, trans="T", check_finite=False)
            u[inner] = Q @ along
            lam = -solve_triangular(R, along, check_finite=False)
        if not np.isfinite(u).all():
            return  # faces that are all but parallel: the point as it was stepped to
        self.u = u
        self.faces = np.zeros(len(q.c))
        self.faces[self.active] = np.maximum(lam, 0.0)
        pull = -(u + lam @ q.N[self.active]) if self.active else -u
        self.bounds = np.where(inner, 0.0, np.maximum(pull * self.side, 0.0) * self.side)

    def _keep_ray(self, face: int, rates: Array) -> None:
        """The multipliers of the faces on the ray: of this row less what it takes of the active ones."""
        ray = np.zeros(len(self.q.c))
        ray[self.active] = np.maximum(-rates, 0.0)
        if face >= 0:
            ray[face] = 1.0
        length = np.where(self.q.length > 0.0, self.q.length, 1.0)
        ray = ray / length
        self.ray = ray / ray.max() if ray.max() > 0.0 else ray


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
