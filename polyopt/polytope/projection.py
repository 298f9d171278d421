"""Nearest point of a polytope, by non-negative least squares.

min  ½ Σ_j ((z_j − x_j)/s_j)²   s.t.  W z + b ≤ 0 [face],  low ≤ z ≤ high [below, above],
                                      z_j = x_j for the features that may not change [held]

The multipliers are the rates at which the optimal value decreases as the constraint is relaxed; the dual, and
the ray that proves that no point is feasible, are in :mod:`polyopt.certificates.projection`.

In the units of the features, u_j = (z_j − x_j)/s_j, it is min ‖u‖ subject to A u ≤ c, with rows of length 1
for the faces and the bounds. By Lawson and Hanson, let r be the residual of min ‖[−A'; −c'/d] y − e‖ over
y ≥ 0, with e the last unit vector. Then u = −d (r_1, …, r_f) / r_(f+1), and y > 0 at active rows. If no point
is feasible, r = 0 and y is a ray of the dual. The point is accurate if ‖u‖ is of the order of d, so d is
raised until it is. The point is then computed anew from the active rows, to rounding.

Reference: C. L. Lawson, R. J. Hanson, Solving Least Squares Problems (1974), chapter 23.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from formulations.language.arguments import real_array
from formulations.language.solution import Solution, Status
from formulations.language.types import Array

_NOISE = 32.0 * float(np.finfo(float).eps)  # rounding of a row, relative to the sum of its terms' sizes


class ValueChoice(NamedTuple):
    """A choice among options, each of which fixes some features at values."""

    options: tuple[tuple[NDArray[np.intp], Array], ...]

    def is_made_at(self, z: Array) -> bool:
        """True if a point (m,) has the values of an option."""
        return any((z[places] == values).all() for places, values in self.options)


@dataclass(frozen=True)
class Question:
    """The sample, the units of distance, and the changes that are allowed."""

    x: Array  #: (m,), the sample
    spread: Array  #: (m,), the unit in which each feature's change is measured
    #: low, high: (m,), bounds on the features.
    low: Array
    high: Array
    held: NDArray[np.bool_]  #: (m,), mask of the features that may not change
    choices: tuple[ValueChoice, ...] = ()  #: categories, and missing numbers

    @classmethod
    def of(
        cls, x: ArrayLike, *, spread: ArrayLike | None = None, low: ArrayLike | None = None,
        high: ArrayLike | None = None, held: ArrayLike | None = None,
        groups: Sequence[ArrayLike] = (), gaps: Sequence[ArrayLike] = (),
    ) -> Self:  # fmt: skip
        """Return a question, by default with spreads of 1, without bounds, and with all features free.

        `groups` has an array for each categorical column, the places of its indicators, one of which is 1 and
        the others are 0. `gaps` has a pair of places for each column with missing numbers, that of the number
        and that of its indicator. An indicator of a group stays 0 if its upper bound is below 1, unless it is
        1 now. Known numbers stay known.
        """
        point = real_array("x", x)
        m = len(point)

        def bounds(name: str, given: ArrayLike | None, default: float) -> Array:
            values = np.broadcast_to(default if given is None else given, m)
            return np.array(real_array(name, values, (m,), finite=False))

        lower, upper = bounds("low", low, -np.inf), bounds("high", high, np.inf)
        is_held = np.zeros(m, dtype=bool) if held is None else np.array(held)
        unit = np.ones(m) if spread is None else real_array("spread", spread, (m,))
        choices = []
        for places in (np.asarray(group, dtype=np.intp) for group in groups):
            if is_held[places].any():  # a category that may not change
                is_held[places] = True
                continue
            is_allowed = (upper[places] >= 1.0) | (point[places] == 1.0)
            lower[places], upper[places] = 0.0, is_allowed
            categories = np.eye(len(places))[is_allowed]
            if not point[places].any():  # the sample has none of the categories, and may keep none
                categories = np.vstack([categories, point[places]])
            choices.append(ValueChoice(tuple((places, category) for category in categories)))
        for pair in (np.asarray(gap, dtype=np.intp) for gap in gaps):
            indicator = pair[1]
            if not point[indicator]:  # a known number
                is_held[indicator] = True
            elif is_held[pair].any():
                is_held[pair] = True
            else:
                lower[indicator], upper[indicator] = 0.0, 1.0
                choices.append(ValueChoice(((pair[1:], np.zeros(1)), (pair, point[pair]))))
        is_crossed = (lower > upper) | (lower == np.inf) | (upper == -np.inf)
        if is_crossed.any():
            j = int(np.argmax(is_crossed))
            raise ValueError(f"low must not be above high; of feature {j} they are {lower[j]} and {upper[j]}")
        return cls(point, unit, lower, upper, is_held, tuple(choices))


def project(question: Question, W: ArrayLike, b: ArrayLike) -> Solution:
    """Return the point of {z : W z + b ≤ 0} nearest to x, exact to rounding, or a proof that there is none.

    The question's choices are left out; x itself may be beyond the bounds. A row of zeros of W (K, m) only
    requires b_k ≤ 0. The solution has ``z``, and the multipliers of the rows ``face`` (K,), ``above``,
    ``below`` and ``held`` (m,); the objective is half the squared distance. If the status is ``INFEASIBLE``,
    the multipliers are a ray of the dual.
    """
    program, solver = _Projection(question, W, b), "non-negative least squares"
    ray = program.contradiction()
    if ray is None:
        u, faces = program.least_length()
        if u is not None:
            z = program.point(u)
            value = 0.5 * float(np.sum(((z - program.x) / program.spread) ** 2))
            return Solution(Status.SOLVED, {"z": z}, program.duals(faces, z), value, None, solver)
        ray = program.ray(faces)
    return Solution(Status.INFEASIBLE, {}, ray, np.nan, None, solver)


class _Projection:
    """The program over the features that can change, in the units of the features.

    x, spread, low, high, held: those of the question; W, b: arguments of :func:`project`.
    start (m,): x, with the other features at their only value.
    free (f,): places of the features that can change.
    N (K, f), c, noise (K,): rows N u ≤ c of the faces with normals of length 1, and the rounding of c.
    length (K,): lengths of the normals before; 0 for a normal of zeros, which is no row.
    low_u, high_u (f,): bounds on u.
    """

    def __init__(self, question: Question, W: ArrayLike, b: ArrayLike):
        self.x, self.spread, self.held = question.x, question.spread, question.held
        self.low, self.high = question.low, question.high
        self.W, self.b = np.asarray(W, dtype=float), np.asarray(b, dtype=float)
        is_point = self.low == self.high
        self.start = np.where(is_point & ~self.held, self.low, self.x)
        self.free = np.flatnonzero(~self.held & ~is_point)
        self.N, self.length = _unit_rows(self.W[:, self.free] * self.spread[self.free])
        divisor = np.where(self.length > 0.0, self.length, 1.0)
        terms = self.W * self.start
        self.c = -(terms.sum(axis=1) + self.b) / divisor
        self.noise = _NOISE * (np.abs(terms).sum(axis=1) + np.abs(self.b)) / divisor
        self.low_u, self.high_u = (
            (end[self.free] - self.x[self.free]) / self.spread[self.free] for end in (self.low, self.high)
        )

    def contradiction(self) -> dict[str, Array] | None:
        """Return a ray of the dual if a feature that cannot change proves that no point is feasible."""
        side = np.where(self.held, 1.0 * (self.x > self.high) - (self.x < self.low), 0.0)
        if side.any():
            side[np.flatnonzero(side)[1:]] = 0.0  # one feature is enough
            faces, above, below = np.zeros(len(self.b)), np.maximum(side, 0.0), np.maximum(-side, 0.0)
            return {"face": faces, "above": above, "below": below, "held": 0.0 - side}
        violated = np.flatnonzero((self.length == 0.0) & (-self.c > self.noise))
        return self.ray(np.eye(len(self.b))[violated[0]]) if len(violated) else None

    def least_length(self) -> tuple[Array | None, Array]:
        """Return the point u and the multipliers of the faces; None and a ray if no point is feasible."""
        is_row, eye = self.length > 0.0, np.eye(len(self.free))
        has_high, has_low = np.isfinite(self.high_u), np.isfinite(self.low_u)
        A = np.vstack([self.N[is_row], eye[has_high], -eye[has_low]])
        c = np.concatenate([self.c[is_row], self.high_u[has_high], -self.low_u[has_low]])
        n_faces = int(is_row.sum())  # the first rows
        noise = np.zeros(len(c))
        noise[:n_faces] = self.noise[is_row]

        def of_faces(y: Array) -> Array:
            """Return multipliers of the faces from those of all rows, whose normals have the length 1."""
            multipliers = np.zeros(len(is_row))
            multipliers[is_row] = y[:n_faces] / self.length[is_row]
            return multipliers

        violation = np.max(-c - noise, initial=0.0)
        if violation <= 0.0:
            return np.zeros(len(self.free)), np.zeros(len(is_row))
        d = float(violation)  # a lower bound on ‖u‖, as normals have the length 1
        limit = 1e12 * d  # largest ‖u‖; if all points are farther, none counts as feasible
        first_y = None
        while d <= limit:
            E = np.vstack([-A.T, -c / d])
            y, _ = nnls(E, np.append(np.zeros(len(self.free)), 1.0), maxiter=100 * len(c))
            first_y = y if first_y is None else first_y  # the most accurate ray, if no point is feasible
            minus_r = E @ y
            last_r = 1.0 - float(minus_r[-1])  # also the squared length of the residual
            if last_r > 1e-13:  # more than rounding
                u, multipliers = minus_r[:-1] / last_r * d, y / last_r * d
                if np.linalg.norm(u) > 100.0 * d:  # once more, in units in which u is accurate
                    d = float(np.linalg.norm(u))
                    continue
                active = np.flatnonzero(y > 0.0)
                u, multipliers[active] = _on_rows(A[active], c[active], u, multipliers[active])
                length = np.linalg.norm(u)
                is_feasible = (A @ u - c <= noise + 1e-10 * length).all()  # up to rounding
                if length <= limit and is_feasible:
                    return u, of_faces(multipliers)
            d *= 1e5
        ray = of_faces(np.asarray(first_y))
        return None, ray / ray.max() if ray.max() > 0.0 else ray

    def point(self, u: Array) -> Array:
        """Return the point in the units of x; exact for features at a bound, or that have not changed."""
        z, free = self.start.copy(), self.free
        moved = self.x[free] + self.spread[free] * u
        at_low, at_high = u == self.low_u, u == self.high_u
        z[free] = np.where(at_low, self.low[free], np.where(at_high, self.high[free], moved))
        return np.clip(z, self.low, self.high)

    def duals(self, faces: Array, z: Array) -> dict[str, Array]:
        """Return the multipliers of all rows at the point z: those of bounds are for the bounds it is at."""
        gradient = (z - self.x) / self.spread**2 + self.W.T @ faces
        return self._with_bounds(faces, gradient, z == self.low, z == self.high)

    def ray(self, faces: Array) -> dict[str, Array]:
        """Return a ray of the dual: finite bounds balance the sum of the normals."""
        return self._with_bounds(faces, self.W.T @ faces, np.isfinite(self.low), np.isfinite(self.high))

    def _with_bounds(
        self, faces: Array, gradient: Array, has_low: NDArray[np.bool_], has_high: NDArray[np.bool_]
    ) -> dict[str, Array]:
        """Return multipliers of all rows: those of bounds and held features balance the gradient (m,)."""
        of_bounds = np.where(self.held, 0.0, -gradient)
        return {
            "face": faces,
            "above": np.where(has_high, np.maximum(of_bounds, 0.0), 0.0),
            "below": np.where(has_low, np.maximum(-of_bounds, 0.0), 0.0),
            "held": np.where(self.held, -gradient, 0.0),
        }


def _on_rows(A: Array, c: Array, u: Array, multipliers: Array) -> tuple[Array, Array]:
    """Return the point of least length on these rows, and its multipliers, computed anew."""
    if len(A) > A.shape[1]:
        return u, multipliers
    Q, R = np.linalg.qr(A.T)
    coordinates = solve_triangular(R, c, trans="T", check_finite=False)
    point, exact = Q @ coordinates, -solve_triangular(R, coordinates, check_finite=False)
    return (point, np.maximum(exact, 0.0)) if np.isfinite(point).all() else (u, multipliers)


def _unit_rows(A: Array) -> tuple[Array, Array]:
    """Return the rows at length 1, and their lengths; a row of zeros stays as it is."""
    largest = np.abs(A).max(axis=1, initial=0.0)
    rows = A / np.where(largest > 0.0, largest, 1.0)[:, None]
    length = np.linalg.norm(rows, axis=1)
    return rows / np.where(length > 0.0, length, 1.0)[:, None], largest * length
