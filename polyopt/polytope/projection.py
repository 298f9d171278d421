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

        `groups` has the places of indicators of which one is 1 and the others are 0, an array for each
        column, `gaps` pairs of places, of a missing number and of its indicator. An indicator of a group
        stays 0 if its upper bound is below 1, unless it is 1 now. Known numbers stay known.
        """
        point = real_array("x", x)
        m = len(point)
        ends = [
            np.array(real_array(name, np.broadcast_to(value if end is None else end, m), (m,), finite=False))
            for name, end, value in (("low", low, -np.inf), ("high", high, np.inf))
        ]
        is_fixed = np.zeros(m, dtype=bool) if held is None else np.array(held)
        unit = np.ones(m) if spread is None else real_array("spread", spread, (m,))
        choices = []
        for places in (np.asarray(group, dtype=np.intp) for group in groups):
            if is_fixed[places].any():  # a category that may not change
                is_fixed[places] = True
                continue
            is_allowed = (ends[1][places] >= 1.0) | (point[places] == 1.0)
            ends[0][places], ends[1][places] = 0.0, is_allowed
            categories = np.eye(len(places))[is_allowed]
            if not point[places].any():
                categories = np.vstack([categories, point[places]])
            choices.append(ValueChoice(tuple((places, category) for category in categories)))
        for pair in (np.asarray(gap, dtype=np.intp) for gap in gaps):
            if not point[pair[1]]:
                is_fixed[pair[1]] = True
            elif is_fixed[pair].any():
                is_fixed[pair] = True
            else:
                ends[0][pair[1]], ends[1][pair[1]] = 0.0, 1.0
                choices.append(ValueChoice(((pair[1:], np.zeros(1)), (pair, point[pair]))))
        crossed = (ends[0] > ends[1]) | (ends[0] == np.inf) | (ends[1] == -np.inf)
        if crossed.any():
            j = int(np.argmax(crossed))
            raise ValueError(
                f"low must not be above high; of feature {j} they are {ends[0][j]} and {ends[1][j]}"
            )
        return cls(point, unit, ends[0], ends[1], is_fixed, tuple(choices))


def project(question: Question, W: ArrayLike, b: ArrayLike) -> Solution:
    """Return the point of {z : W z + b ≤ 0} nearest to x, exact to rounding, or a proof that there is none.

    The question's choices are left out; x itself may be beyond the bounds. A row of zeros of W (K, m) only
    requires b_k ≤ 0. The solution has ``z``, and the multipliers of the rows ``face`` (K,), ``above``,
    ``below`` and ``held`` (m,); the objective is half the squared distance. If the status is ``INFEASIBLE``,
    the multipliers are a ray of the dual.
    """
    program, solver = _Projection(question, W, b), "non-negative least squares"
    multipliers, u = program.contradiction(), None
    if multipliers is None:
        u, multipliers = program.least_length()
    if u is None:
        return Solution(Status.INFEASIBLE, {}, program.duals_of_ray(multipliers), np.nan, None, solver)
    z = program.point(u)
    value = 0.5 * float(np.sum(((z - program.x) / program.spread) ** 2))
    return Solution(Status.SOLVED, {"z": z}, program.duals(multipliers, z), value, None, solver)


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

    def contradiction(self) -> Array | None:
        """Return multipliers of the faces that prove infeasibility by the features that cannot change."""
        if (self.held & ((self.x < self.low) | (self.x > self.high))).any():
            return np.zeros(len(self.b))
        violated = np.flatnonzero((self.length == 0.0) & (-self.c > self.noise))
        return np.eye(len(self.b))[violated[0]] if len(violated) else None

    def least_length(self) -> tuple[Array | None, Array]:
        """Return the point u and the multipliers of the faces; None and a ray if no point is feasible."""
        size, K = len(self.free), len(self.c)
        eye, high, low = np.eye(size), np.isfinite(self.high_u), np.isfinite(self.low_u)
        A = np.vstack([self.N, eye[high], -eye[low]])
        c = np.concatenate([self.c, self.high_u[high], -self.low_u[low]])
        noise = np.concatenate([self.noise, np.zeros(len(c) - K)])
        is_row = np.concatenate([self.length > 0.0, np.ones(len(c) - K, dtype=bool)])
        A, c, noise, places = A[is_row], c[is_row], noise[is_row], np.flatnonzero(is_row)
        divisor = np.where(self.length > 0.0, self.length, 1.0)

        def of_faces(rows: NDArray[np.intp], values: Array) -> Array:
            """Return multipliers of the faces from those of some rows, of unit length."""
            multipliers, is_face = np.zeros(K), rows < K
            multipliers[rows[is_face]] = values[is_face]
            return multipliers / divisor

        violation = -c - noise
        if not len(c) or violation.max() <= 0.0:
            return np.zeros(size), np.zeros(K)
        distance = float(violation.max())  # a lower bound, as rows have the length 1
        limit, first = 1e12 * distance, np.zeros(0)  # the first multipliers are the most accurate ray
        while distance <= limit:
            E = np.vstack([-A.T, -c / distance])
            y, _ = nnls(E, np.append(np.zeros(size), 1.0), maxiter=100 * len(c))
            residual, first = E @ y, first if len(first) else y
            squared = 1.0 - float(residual[-1])  # the squared length of the residual
            if squared > 1e-13:
                u, active = residual[:-1] / squared * distance, np.flatnonzero(y > 0.0)
                if np.linalg.norm(u) > 100.0 * distance:  # once more, in units in which it is accurate
                    distance = float(np.linalg.norm(u))
                    continue
                u, values = _on_rows(A[active], c[active], u, y[active] / squared * distance)
                length = np.linalg.norm(u)
                if length <= limit and (A @ u - c <= noise + 1e-10 * length).all():
                    return u, of_faces(places[active], values)
            distance *= 1e5
        ray = of_faces(places, first)
        return None, ray / ray.max() if ray.max() > 0.0 else ray

    def point(self, u: Array) -> Array:
        """Return the point in the units of x; exact for features at a bound, or that have not changed."""
        z, free = self.start.copy(), self.free
        moved = self.x[free] + self.spread[free] * u
        at_low, at_high = u == self.low_u, u == self.high_u
        z[free] = np.where(at_low, self.low[free], np.where(at_high, self.high[free], moved))
        return np.clip(z, self.low, self.high)

    def duals(self, faces: Array, z: Array) -> dict[str, Array]:
        """Return the multipliers of all rows: the remainder of the gradient is the bounds'."""
        remainder = -(z - self.x) / self.spread**2 - self.W.T @ faces  # ρ⁺ − ρ⁻ + ν
        of_bounds = np.where(self.held, 0.0, remainder)
        above = np.where(z == self.high, np.maximum(of_bounds, 0.0), 0.0)
        below = np.where(z == self.low, np.maximum(-of_bounds, 0.0), 0.0)
        return {"face": faces, "above": above, "below": below, "held": np.where(self.held, remainder, 0.0)}

    def duals_of_ray(self, faces: Array) -> dict[str, Array]:
        """Return a ray of the dual: finite bounds balance the sum of the normals."""
        m = len(self.x)
        above, below, nu = np.zeros(m), np.zeros(m), np.zeros(m)
        beyond = self.held & ((self.x < self.low) | (self.x > self.high))
        if beyond.any():
            j = int(np.argmax(beyond))
            side = 1.0 if self.x[j] > self.high[j] else -1.0
            above[j], below[j], nu[j] = max(side, 0.0), max(-side, 0.0), -side
        else:
            remainder = -(self.W.T @ faces)
            nu = np.where(self.held, remainder, 0.0)
            above = np.where(~self.held & np.isfinite(self.high), np.maximum(remainder, 0.0), 0.0)
            below = np.where(~self.held & np.isfinite(self.low), np.maximum(-remainder, 0.0), 0.0)
        return {"face": faces, "above": above, "below": below, "held": nu}


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
