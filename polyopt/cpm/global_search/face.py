"""One face of the Convex Polytope Machine on small dense data: its dual, by coordinates or interior point.

The samples are rows y_i x̃_i, those inside (y = -1) first. For a face to which the positives in P are assigned
the dual is

    max  D(a) = Σ a_i − ‖w‖²,   w = ½ Σ a_i y_i x̃_i,   0 ≤ a_i ≤ C_i, and a_i = 0 for positives not in P,

and any feasible a bounds the optimum of the face from below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.alternating import solve_explicit_face
from polyopt.linalg.rounding import UNIT
from polyopt.native.library import Struct, kernel

ENTRIES_PER_CALL = 1 << 25
"""Matrix entries that a kernel visits in one call, some hundredths of a second: the clock is seen between."""
_MIN_SECONDS = 0.2  # for an interior point on one face, even past a limit


class Samples(Struct):
    """Rows y_i x̃_i (n, d), their squared lengths and costs (n,), and the number of negatives."""

    signature = "A: f8 (n, d); q: f8 (n); C: f8 (n); inside: i8"

    @property
    def npos(self) -> int:
        """Number of positives."""
        return len(self.C) - self.inside

    @property
    def points(self) -> Vector:
        """Rows x̃ of the positives (npos, d)."""
        return self.A[self.inside :]

    @property
    def y(self) -> Vector:
        """Labels (n,)."""
        return np.where(np.arange(len(self.C)) < self.inside, -1.0, 1.0)


class Best(Struct):
    """The incumbent W (K, d), and limits (3,).

    These are its cost, the least bound of the nodes that kernels closed, and the largest rounding error of a
    computed bound.
    """

    signature = "W!: f8 (K, d); limits!: f8 (l)"

    @property
    def cost(self) -> float:
        """Cost of the incumbent; infinite without one."""
        return float(self.limits[0])

    def offer(self, cost: float, W: Vector) -> None:
        """Keep faces that cost less."""
        if cost < self.limits[0]:
            self.limits[0], self.W[:] = cost, W


def no_best(n_faces: int, d: int) -> Best:
    """Return an incumbent of infinite cost."""
    return Best(np.zeros((n_faces, d)), np.array([np.inf, np.inf, 0.0]))


# Set w to ½ Σ a_i y_i x̃_i.
hyperplane = kernel("cpm_hyperplane", "data: Samples; a: f8 (n); w!: f8 (d)")

# D(a) for the w of a.
dual_value = kernel("cpm_dual_value", "a: f8 (n); w: f8 (d)", returns="f8")

# Rounding error of dual_value, for the w of hyperplane.
dual_error = kernel("cpm_dual_error", "data: Samples; a: f8 (n); w: f8 (d)", returns="f8")

# Set caps to the box of face k when positive p is assigned to face[p].
caps_of = kernel("cpm_caps_of", "data: Samples; face: i8 (p); k: i8; caps!: f8 (n)")

# J(W), with each positive on its best face, written to best.
total_cost = kernel("cpm_price", "data: Samples; W: f8 (K, d); best!: i8 (p)", returns="f8")

# Raise D over the box [low, high] by so many sweeps, until they have gained `enough`, or one of them no more
# than `least`; done (3,): the total gain, the gain of the last sweep, and the number of sweeps.
_climb = kernel(
    "cpm_climb",
    "data: Samples; low: f8 (n); high: f8 (n); a!: f8 (n); w!: f8 (d); sweeps: i8; enough: f8; least: f8; "
    "done!: f8 (t)",
)

# Continue alternating by so many sweeps. Returns J(W), infinity if it has not ended, -1 without memory. at
# (4,), zeros at first, is the state: rounds and faces done, sweeps over the current face, the last round's J.
_alternate = kernel(
    "cpm_alternate",
    "data: Samples; face!: i8 (p); W!: f8 (K, d); a!: f8 (K, n); at!: f8 (t); precision: f8; sweeps: f8",
    returns="f8",
)


def climb(
    data: Samples, low: Vector, high: Vector, a: Vector, w: Vector, sweeps: int, enough: float, least: float,
    clock: Clock | None = None,
) -> float:  # fmt: skip
    """Raise D over the box [low, high] by coordinate sweeps, in place; return the increase.

    The sweeps end once they have gained `enough`, or one of them no more than `least`, or the clock is over.
    """
    total, done, piece = 0.0, np.zeros(3), _sweeps_per_call(data)
    while sweeps > 0:
        _climb(data, low, high, a, w, min(sweeps, piece), enough - total, least, done)
        total, sweeps = total + done[0], sweeps - piece
        if total >= enough or done[1] <= least or (clock is not None and clock.is_over):
            break
    return float(total)


def _sweeps_per_call(data: Samples) -> int:
    return int(max(ENTRIES_PER_CALL // max(data.A.size, 1), 1))


def alternate(data: Samples, face: NDArray[np.int64], W: Vector, precision: float, clock: Clock) -> float:
    """Alternate from the assignment `face` until it stays; leave the faces in W and return J(W).

    Each face is raised until a sweep gains less than `precision`. When time is up, J(W) is returned all the
    same.
    """
    a, at, sweeps = np.zeros((len(W), data.A.shape[0])), np.zeros(4), float(_sweeps_per_call(data))
    while not clock.is_over:
        J = _alternate(data, face, W, a, at, precision, sweeps)
        if J < 0.0:
            raise MemoryError
        if np.isfinite(J):
            return float(J)
    return float(total_cost(data, W, face))


def solve_exactly(data: Samples, caps: Vector, a: Vector, w: Vector, clock: Clock) -> None:
    """Improve a face by an interior point, in place, if that is better: multipliers a and hyperplane w.

    On badly scaled samples, such as features far from 0, coordinate ascent takes millions of sweeps. The
    clock's limit may be passed by a little.
    """
    if not caps.any():
        return
    left = clock.left
    found = solve_explicit_face(
        data.A * data.y[:, None], data.y, caps, None if left is None else max(left, _MIN_SECONDS)
    )
    if found is None:
        return
    exact, implied = np.clip(found.duals["margin"], 0.0, caps), np.empty_like(w)
    hyperplane(data, exact, implied)
    value = dual_value(a, 0.5 * a @ data.A)
    if dual_value(exact, implied) > value - 1e-9 * abs(value):  # of equal ones those that fit the hyperplane
        a[:] = exact
    w[:] = min((w.copy(), implied, found["w"]), key=lambda v: _face_cost(data, caps, v))


def polished_face(
    data: Samples, face: NDArray[np.int64], k: int, small_gap: float, clock: Clock
) -> tuple[Vector, Vector]:
    """Return multipliers (n,) and hyperplane (d,) of face k for an assignment (npos,), nearly to rounding.

    An interior point takes over if coordinate ascent leaves more than `small_gap`.
    """
    a, w, caps = np.zeros(len(data.C)), np.zeros(data.A.shape[1]), np.zeros(len(data.C))
    caps_of(data, face, k, caps)
    climb(data, np.zeros_like(a), caps, a, w, 100_000, np.inf, 1e-15 * data.C.sum(), clock)
    hyperplane(data, a, w)
    if _face_cost(data, caps, w) - dual_value(a, w) > small_gap:
        solve_exactly(data, caps, a, w, clock)
    return a, w


def _face_cost(data: Samples, costs: Vector, w: Vector) -> float:
    return float(w @ w + costs @ np.maximum(0.0, 1.0 - data.A @ w))


def proven_sum(data: Samples, alpha: Vector) -> tuple[float, float]:
    """Return the sum of the dual values of faces with multipliers alpha (K, n), and its rounding error."""
    total, error, w = 0.0, 0.0, np.empty(data.A.shape[1])
    for a in alpha:
        hyperplane(data, a, w)
        value = dual_value(a, w)
        total += value
        error += dual_error(data, a, w) + (len(alpha) + 4) * UNIT * abs(value)
    return total, error
