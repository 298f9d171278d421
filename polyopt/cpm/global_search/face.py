"""One face of the Convex Polytope Machine on small dense data: its dual, by coordinates or interior point.

The samples are rows y_i x̃_i with x̃ = (x, 1), those inside the polytope (y = -1) first. The program of a face
w to which the positives in P are assigned is min ‖w‖² + Σ C_i [1 − y_i w·x̃_i]_+, the sum over the negatives
and P, and its dual is

    max  D(a) = Σ a_i − ‖w‖²,   w = ½ Σ a_i y_i x̃_i,   0 ≤ a_i ≤ C_i, and a_i = 0 for positives not in P,

and any feasible a bounds the optimum of the face from below.
"""

import numpy as np
from numpy.typing import NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.fixed_assignment import FixedAssignmentSolver
from polyopt.linalg.rounding import UNIT
from polyopt.native.library import Struct, kernel

ENTRIES_PER_CALL = 1 << 25
"""Number of matrix entries that a kernel visits in one call, in some 0.01 s; then the clock is checked."""
_MIN_SECONDS = 0.2  # least time limit of an interior point on a face, even after the search's own limit


class Samples(Struct):
    """The samples, negatives first.

    A (n, d), q (n,): rows y_i x̃_i, and their squared lengths.
    C (n,): costs of slack.
    inside: number of negatives.
    """

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
    """The incumbent W (K, d), and limits (3,) for its search tree.

    limits: the incumbent's cost; the least bound of the nodes that kernels closed; the largest rounding error
        of a computed bound.
    """

    signature = "W!: f8 (K, d); limits!: f8 (l)"

    @property
    def cost(self) -> float:
        """Cost of the incumbent; infinite without one."""
        return float(self.limits[0])

    def offer(self, cost: float, W: Vector) -> None:
        """Replace the incumbent by faces that cost less."""
        if cost < self.limits[0]:
            self.limits[0], self.W[:] = cost, W


def no_best(n_faces: int, d: int) -> Best:
    """Return an incumbent of infinite cost."""
    return Best(np.zeros((n_faces, d)), np.array([np.inf, np.inf, 0.0]))


# Set w to ½ Σ a_i y_i x̃_i.
hyperplane = kernel("cpm_hyperplane", "data: Samples; a: f8 (n); w!: f8 (d)")

# D(a), given its w.
dual_value = kernel("cpm_dual_value", "a: f8 (n); w: f8 (d)", returns="f8")

# Bound on the rounding error of dual_value, for w by hyperplane.
dual_error = kernel("cpm_dual_error", "data: Samples; a: f8 (n); w: f8 (d)", returns="f8")

# Set caps to the upper bounds of face k's multipliers if each positive p is assigned to face[p].
caps_of = kernel("cpm_caps_of", "data: Samples; face: i8 (p); k: i8; caps!: f8 (n)")

_total_cost = kernel("cpm_price", "data: Samples; W: f8 (K, d); best_face!: i8 (p)", returns="f8")

# As climb, below. result (3,): increase of D, increase by the last sweep, number of sweeps.
_climb = kernel(
    "cpm_climb",
    "data: Samples; low: f8 (n); high: f8 (n); a!: f8 (n); w!: f8 (d); sweeps: i8; target: f8; "
    "min_increase: f8; result!: f8 (t)",
)

# Continue alternating minimisation by at most `sweeps` coordinate sweeps. Returns J(W) after convergence,
# infinity before, -1 if there is not enough memory. state (4,), zeros at first: rounds, faces done in this
# round, sweeps over the current face, and J of the last round.
_alternate = kernel(
    "cpm_alternate",
    "data: Samples; face!: i8 (p); W!: f8 (K, d); a!: f8 (K, n); state!: f8 (t); precision: f8; sweeps: f8",
    returns="f8",
)


def total_cost(data: Samples, W: Vector) -> tuple[float, NDArray[np.int64]]:
    """Return J(W), the faces' costs with each positive on its best face, and these best faces (npos,)."""
    best_face = np.zeros(data.npos, dtype=np.int64)
    return _total_cost(data, W, best_face), best_face


def climb(
    data: Samples, low: Vector, high: Vector, a: Vector, w: Vector, sweeps: int, target: float,
    min_increase: float, clock: Clock | None = None,
) -> float:  # fmt: skip
    """Maximise D over the box [low, high] by coordinate sweeps; update a and w in place, return the increase.

    w is the hyperplane of a. The ascent ends after `sweeps` sweeps, once D has increased by `target`, after a
    sweep that increases D by at most `min_increase`, or at the time limit.
    """
    total, result, per_call = 0.0, np.zeros(3), _sweeps_per_call(data)
    while sweeps > 0:
        _climb(data, low, high, a, w, min(sweeps, per_call), target - total, min_increase, result)
        total, sweeps = total + result[0], sweeps - per_call
        if total >= target or result[1] <= min_increase or (clock is not None and clock.is_over):
            break
    return float(total)


def _sweeps_per_call(data: Samples) -> int:
    return int(max(ENTRIES_PER_CALL // max(data.A.size, 1), 1))


def alternate(data: Samples, face: NDArray[np.int64], W: Vector, precision: float, clock: Clock) -> float:
    """Alternate from the assignment `face` (npos,) until it is stable or time is up; return J(W).

    `face` and W are overwritten. A face's dual is maximised until a sweep raises it by less than `precision`.
    """
    a, state, sweeps = np.zeros((len(W), data.A.shape[0])), np.zeros(4), float(_sweeps_per_call(data))
    while not clock.is_over:
        J = _alternate(data, face, W, a, state, precision, sweeps)
        if J < 0.0:
            raise MemoryError
        if np.isfinite(J):
            return float(J)
    cost, face[:] = total_cost(data, W)
    return cost


def solve_exactly(data: Samples, caps: Vector, a: Vector, w: Vector, clock: Clock) -> None:
    """Replace multipliers a and hyperplane w of a face by those of an interior point, if these are better.

    caps (n,): upper bounds of the multipliers. On badly scaled samples, such as features far from 0,
    coordinate ascent would take millions of sweeps. The time limit may be exceeded by a little.
    """
    if not caps.any():
        return
    seconds = None if clock.left is None else max(clock.left, _MIN_SECONDS)
    X = data.A[:, :-1] * data.y[:, None]
    solver = FixedAssignmentSolver(X, data.y, caps[:, None], FacePenalty.of(X.shape[1]))
    solver.begin_at(w[None, :])
    solver.polish(Clock(seconds))
    new_a, new_w = np.clip(solver.alpha[:, 0], 0.0, caps), np.empty_like(w)
    hyperplane(data, new_a, new_w)
    value = dual_value(a, 0.5 * a @ data.A)
    if dual_value(new_a, new_w) > value - 1e-9 * abs(value):  # prefer new_a if equal: it belongs to w
        a[:] = new_a
    # Keep the best of three hyperplanes: the given one, that of new_a, and the interior point's own.
    w[:] = min((w.copy(), new_w, solver.W[0]), key=lambda v: _face_cost(data, caps, v))


def polished_faces(
    data: Samples, best: Best, face: NDArray[np.int64], tol: float, clock: Clock
) -> tuple[Vector, Vector]:
    """Solve all faces for an assignment `face` (npos,) precisely; return multipliers (K, n) and W (K, d).

    An interior point is tried on a face if coordinate ascent leaves a gap above 1/K of a tenth of `tol`,
    relative to the incumbent's cost.
    """
    K, n = len(best.W), len(data.C)
    alpha, W, caps = np.zeros((K, n)), np.zeros((K, data.A.shape[1])), np.zeros(n)
    for k, (a, w) in enumerate(zip(alpha, W, strict=True)):
        caps_of(data, face, k, caps)
        climb(data, np.zeros(n), caps, a, w, 100_000, np.inf, 1e-15 * data.C.sum(), clock)
        hyperplane(data, a, w)
        if _face_cost(data, caps, w) - dual_value(a, w) > 0.1 * tol * best.cost / K:
            solve_exactly(data, caps, a, w, clock)
    return alpha, W


def _face_cost(data: Samples, costs: Vector, w: Vector) -> float:
    """Return the primal value of a face; `costs` (n,) are 0 for positives of other faces."""
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
