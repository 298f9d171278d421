"""From a good point of logistic polytopes to a stationary one: Newton's method at sharper and sharper maxima.

For an assignment and a soft maximum of softness t the objective is convex, and smooth but for its penalties.
Its optimum is above that of the assignment's program by no more than t Σ α ln L over the samples whose
multiplier two faces of the other class share, and those are few: as t falls, so does the gap to the bound
that the multipliers give. Between two steps every sample takes its best face, which lowers the objective,
too.

Kinks of the ℓ1 penalty and of signs are met by steps within an orthant (:func:`step_within`). With a group
penalty a step goes to the minimum of the quadratic model with the penalty as it is (:func:`least_of_model`),

    min  g·(V − W) + ½ (V − W)'H(V − W) + λ Σ |V_kj| + τ Σ_l ‖V of group l‖,      signs kept,

for faces V (K, m+1) taken as one vector, H positive definite. A sweep lowers it one weight, or one group,
after the other, and finds zeros. With these held at 0, and no sign changed, the rest is smooth, and a Newton
step is nearly its optimum. For pulls P = ρV − slope, with ρ below every eigenvalue of H, V is above the
optimum by at most

    ρ/2 ‖V‖² + penalty(V) + ‖shrunk P‖²/(2ρ) − P·V.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from formulations.face_penalty import FacePenalty
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, dense
from polyopt.native.library import kernel
from polyopt.optim.newton_steps import ARMIJO, solve_scaled
from polyopt.polyhedral.logistic_loss import Bits, FaceLoss, shares_of

# Lower the model in each group, one after the other, in so many sweeps; r is the slope of its smooth part
# at v. `begins` and `ends` are places in `members`, `cut` is room to work in.
_sweep = kernel(
    "sweep_groups",
    "H: f8 (v, v); r!: f8 (v); v!: f8 (v); begins: i8 (g); ends: i8 (g); members: i8 (v); up: f8 (v); "
    "down: f8 (v); prices: f8 (g); steep: f8 (g); cut!: f8 (v); sweeps: i8",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of Newton's method."""

    max_entries: int = 2500  # nonzero entries of W up to which the curvature is a dense matrix
    first_softness: float = 0.1  # t of the maxima at the first stage
    softness_ratio: float = 0.2  # between stages; a ratio that adapts changed nothing on ten data sets
    last_softness: float = 1e-10
    stage_steps: int = 200  # Newton steps at one softness, at most
    stage_tol_ratio: float = 0.1  # tolerance of a stage, relative to the one asked
    last_tol_ratio: float = 1e-5  # the same, of the last stage
    model_gap_ratio: float = 0.01  # gap to which a model with groups is solved, relative to the gap at hand
    max_legs: int = 60  # of a step within an orthant, each up to an entry that comes to 0
    sweeps: int = 3  # between two Newton steps of a model
    max_model_rounds: int = 60  # of sweeps and a Newton step, at most
    model_halvings: int = 6  # of a Newton step of a model


OPTIONS = Options()


def polish(
    problem: FaceLoss, W: Array, clock: Clock, *, tol: float = 1e-6, max_iter: int = 1000,
    options: Options = OPTIONS,
) -> Solution:  # fmt: skip
    """Solve for the assignment, and assign, until neither lowers the objective.

    W (K, m+1): where to begin; it keeps the signs that are asked.
    tol: relative gap to the bound of the assignment at which to stop.
    max_iter: Newton steps at most. At a limit the best point is kept.
    Returns: ``primal`` has ``W`` and ``assignment``, ``duals`` has ``margin``, alpha (n, K); SOLVED within
        the assignment, which is the best for W. ``history`` has a record after each step.
    """
    run, status, t = _Run(problem, W, tol, clock, options), Status.STALLED, options.first_softness
    while t >= options.last_softness:
        ended = run.newton(t, min(max_iter, run.made + options.stage_steps))
        if max(run.gap, run.slack / options.stage_tol_ratio) <= tol * run.value:
            status = Status.SOLVED
            break
        if ended not in (None, Status.ITERATION_LIMIT) or run.made >= max_iter:
            status = ended or Status.ITERATION_LIMIT
            break
        t *= options.softness_ratio
    return Solution(
        status, {"W": run.W, "assignment": run.z}, {"margin": run.alpha}, run.value,
        min(run.bound, run.value), "newton", run.made, solve_time=clock.seconds, history=tuple(run.history),
    )  # fmt: skip


class _Run:
    """The iterate with its smoothed objective, and the best bound for its assignment."""

    def __init__(self, problem: FaceLoss, W: Array, tol: float, clock: Clock, options: Options):
        self.problem, self.tol, self.clock, self.options = problem, tol, clock, options
        self.history: list[dict[str, float]] = []
        self.value, self.bound, self.z = np.inf, -np.inf, problem.best_assignment(W)
        self.at(W, options.first_softness)

    @property
    def made(self) -> int:
        """Number of steps made, each with a record in the history."""
        return len(self.history)

    @property
    def gap(self) -> float:
        """Difference of the objective and the bound."""
        return self.value - self.bound

    def at(self, W: Array, t: float) -> None:
        """Move to a point: its smoothed objective, its objective, and the bounds of both."""
        problem, s = self.problem, self.problem.scores(W)
        loss, self.slope, self.R, self.a = problem.smooth(W, 0.0, t, s)
        self.W, self.smoothed = W, loss + problem.price(W)
        z = problem.best_assignment(W, s)
        if not np.array_equal(z, self.z):
            self.z, self.bound = z, -np.inf
        found = problem.bound(W, self.slope, self.a)
        others = np.where(problem.others, self.R, 0.0)
        self.slack = self.smoothed - (found + t * float(self.a @ entr(shares_of(others, self.a)).sum(axis=1)))
        self.value = problem.value(W, s)
        # Of bounds within the tolerance the last: its multipliers belong to the last point.
        if found > self.bound or self.value - found <= self.tol * self.value:
            self.bound, self.alpha = found, others

    def newton(self, t: float, max_made: int) -> Status | None:
        """Make Newton steps at one softness, `max_made` in all; return None if they settled."""
        options = self.options
        step = self._within_orthant if self.problem.group == 0.0 else self._with_groups
        self.at(self.W, t)
        while True:
            is_near = self.gap <= self.tol * self.value
            ratio = options.last_tol_ratio if is_near else options.stage_tol_ratio
            if self.slack <= ratio * self.tol * self.value:
                return None
            if self.made >= max_made:
                return Status.ITERATION_LIMIT
            if self.clock.is_over:
                return Status.TIME_LIMIT
            found = step(t)
            if found is None:
                return Status.STALLED
            is_lower = self._search(*found, t)
            bound = min(self.bound, self.value)
            self.history.append({"seconds": self.clock.seconds, "objective": self.value, "bound": bound})
            if not is_lower:
                return None

    def _within_orthant(self, t: float) -> tuple[Array, float] | None:
        """Return the end of a Newton step, and its predicted decrease; None if there are too many entries."""
        problem, W = self.problem, self.W
        up, down = problem.thresholds
        at_zero = (self.slope < -up).astype(float) - (self.slope > down)
        signs = np.where(W != 0.0, np.sign(W), at_zero)
        steepest = np.where(signs != 0.0, -(self.slope + problem.prices * signs), 0.0)
        steepest[~problem.entries] = 0.0
        active = (W != 0.0) | (steepest != 0.0)
        if active.sum() > self.options.max_entries:
            return None
        direction = np.zeros_like(W)
        H = curvature(problem, self.R, self.a, active, t)
        held = ((problem.prices > 0.0) | (problem.entry_signs != 0.0))[active]
        kept = np.where(held, signs[active], 0.0)
        direction[active] = step_within(H, steepest[active], W[active], kept, self.options.max_legs)
        return W + direction, float((steepest * direction).sum())

    def _with_groups(self, t: float) -> tuple[Array, float] | None:
        """Return the same with a group penalty: the end is near the model's minimum, with its zeros."""
        problem, options = self.problem, self.options
        penalty, W, slope = (
            problem.face_penalty,
            problem.class_signed(self.W),
            problem.class_signed(self.slope),
        )
        pulls = np.where(problem.entries, problem.ridges * W - slope, 0.0)
        active = ((W != 0.0) | (penalty.shrunk(pulls) != 0.0)) & problem.entries
        active[:, -1] = problem.free
        used = np.append(active[:, :-1].any(axis=0), True)
        used[0] |= not used[:-1].any()  # the model is of one feature at least
        at = np.flatnonzero(active[:, used])
        if active[:, used].size > options.max_entries:
            return None
        H = np.eye(active[:, used].size)
        signs = np.repeat(problem.owners.classes, active.sum(axis=1))
        H[np.ix_(at, at)] = curvature(problem, self.R, self.a, active, t) * np.outer(signs, signs)
        part = penalty.of_features(np.flatnonzero(used[:-1]))
        gap = max(self.slack, 0.0)
        enough = options.model_gap_ratio * min(gap, max(self.value * self.tol, gap * gap / self.value))
        ended = W.copy()
        ended[:, used] = least_of_model(
            part, Places.of(part, len(W)), W[:, used], slope[:, used], H, problem.ridges[used],
            active[:, used], enough, options,
        )  # fmt: skip
        predicted = float((slope * (W - ended)).sum()) + penalty.value(W) - penalty.value(ended)
        return problem.class_signed(ended), predicted

    def _search(self, ended: Array, predicted: float, t: float) -> bool:
        """Halve the step until it lowers the smoothed objective enough; return False if none does."""
        W, value, size = self.W, self.smoothed, 1.0
        while size >= 1e-6:
            self.at(ended if size == 1.0 else W + size * (ended - W), t)
            if self.smoothed <= value - size * ARMIJO * predicted and self.smoothed < value:
                return True
            size *= 0.5
        self.at(W, t)
        return False


def curvature(problem: FaceLoss, R: Array, a: Array, active: Bits, t: float) -> Array:
    """Return the second derivatives of the smooth part in the active entries of W."""
    p, shares = problem.probabilities(a), shares_of(R, a)
    bend, tied = a * (1.0 - p), a / t
    columns = []
    for row in active:  # the features of each face, dense, and ones for its bias
        chosen = np.asarray(dense(problem.X[:, np.flatnonzero(row[:-1])]))
        columns.append(np.column_stack([chosen, np.ones(len(chosen))]) if row[-1] else chosen)
    ends = np.r_[0, np.cumsum(active.sum(axis=1))]
    H = np.zeros((ends[-1], ends[-1]))
    for k, left in enumerate(columns):
        for j in range(k + 1):
            weights = bend * shares[:, k] * shares[:, j]
            both = problem.others[:, k] & problem.others[:, j]
            weights -= np.where(both, tied * shares[:, k] * shares[:, j], 0.0)
            if j == k:
                weights += np.where(both, tied * shares[:, k], 0.0)
            used = np.flatnonzero(weights)
            block = left[used].T @ (columns[j][used] * weights[used, None])
            H[ends[k] : ends[k + 1], ends[j] : ends[j + 1]] = block
            H[ends[j] : ends[j + 1], ends[k] : ends[k + 1]] = block.T
    H.flat[:: len(H) + 1] += np.broadcast_to(problem.ridges, active.shape)[active]
    return H


def step_within(H: Array, down: Array, at: Array, signs: Array, max_legs: int = OPTIONS.max_legs) -> Array:
    """Make a Newton step that leaves no orthant: an entry that comes to 0 stays there, the others go on.

    Every leg lowers the quadratic model, which is convex, so the whole step is one of descent.

    H (k, k): positive definite.
    down, at (k,): the direction of steepest descent, and where the step begins.
    signs (k,): the sign that an entry keeps; 0 if it may change.
    """
    free, here, slope = np.ones(len(at), dtype=bool), at.copy(), down.copy()
    for _ in range(max_legs):
        step = np.zeros_like(at)
        step[free] = solve_scaled(H[np.ix_(free, free)], slope[free])
        crossing = free & (signs != 0.0) & (signs * (here + step) < 0.0)
        if not crossing.any():
            return here + step - at
        shares = np.divide(-here, step, out=np.full(len(at), np.inf), where=crossing)
        share = float(shares.min())
        stops = shares <= share * (1.0 + 1e-9)
        here, slope = here + share * step, slope - share * (H @ step)
        here[stops], free = 0.0, free & ~stops
    return here - at


@dataclass(frozen=True)
class Places:
    """Groups of weights in faces (K, m+1) taken row by row, a bias being a group of its own."""

    starts: NDArray[np.int64]  # the entries of group g are ``members[starts[g]:starts[g + 1]]``
    members: NDArray[np.int64]
    up: Array  # threshold of a positive pull at each entry; infinite if the sign forbids it
    down: Array  # the same, of a negative pull
    prices: Array  # (groups,), τ, and 0 for a bias
    smooth: Bits  # True for entries without penalty and sign

    @staticmethod
    def of(penalty: FacePenalty, n_faces: int) -> Places:
        """Find the groups of a penalty in so many faces."""
        labels = np.tile(np.append(penalty.groups, -1), n_faces)
        biases = labels < 0
        labels[biases] = penalty.n_groups + np.arange(n_faces)
        counts = np.bincount(labels, minlength=penalty.n_groups + n_faces)
        up, down = (np.tile(np.append(each, 0.0), n_faces) for each in penalty.thresholds)
        prices = np.append(np.full(penalty.n_groups, penalty.group), np.zeros(n_faces))
        smooth = (up == 0.0) & (down == 0.0) & (biases | (penalty.group == 0.0))
        starts = np.append(0, np.cumsum(counts))
        return Places(starts, np.argsort(labels, kind="stable"), up, down, prices, smooth)

    def steepness(self, H: Array) -> Array:
        """Return the largest eigenvalue of each penalised group's own part of H; 0 for the others."""
        steep = np.zeros(len(self.prices))
        for g in np.flatnonzero(self.prices > 0.0):
            mine = self.members[self.starts[g] : self.starts[g + 1]]
            steep[g] = np.linalg.eigvalsh(H[np.ix_(mine, mine)])[-1]
        return steep


def model_gap(penalty: FacePenalty, W: Array, slope: Array, ridges: Array) -> float:
    """Bound the distance of faces W (K, m+1) with this slope to the model's optimum, but for rounding."""
    pulls = ridges * W - slope
    left = penalty.shrunk(pulls)
    own = 0.5 * (ridges * W * W + left * left / ridges) - pulls * W
    return max(float(own.sum()) + penalty.value(W), 0.0)


def least_of_model(
    penalty: FacePenalty, places: Places, W: Array, slope: Array, H: Array, ridges: Array, active: Bits,
    enough: float, options: Options = OPTIONS,
) -> Array:  # fmt: skip
    """Return faces (K, m+1) near the minimum of the model, and never above W in it.

    W, slope (K, m+1): where to begin, with signs kept, and g.
    H: positive definite in the active entries.
    ridges (m+1,): ρ, below every eigenvalue of H; alike within a group of features.
    active (K, m+1): the entries that may change; the others are 0.
    enough: the gap at which to stop.
    """
    v, r, at, moves = W.ravel().copy(), slope.ravel().copy(), W.ravel(), active.ravel()
    steep, cut = places.steepness(H), np.empty_like(v)
    up, down = (np.where(moves, each, np.inf) for each in (places.up, places.down))

    def slope_at(v: Array) -> Array:
        return slope.ravel() + H @ (v - at)

    def value_of(v: Array, r: Array) -> float:
        return 0.5 * float((v - at) @ (r + slope.ravel())) + penalty.value(v.reshape(W.shape))

    def is_enough() -> bool:
        left = np.where(moves, r, 0.0).reshape(W.shape)
        return model_gap(penalty, v.reshape(W.shape), left, ridges) <= enough

    value = penalty.value(W)
    for _ in range(options.max_model_rounds):
        before = value
        _sweep(
            H, r, v, places.starts[:-1], places.starts[1:], places.members, up, down, places.prices, steep,
            cut, options.sweeps,
        )  # fmt: skip
        r = slope_at(v)
        value = value_of(v, r)
        if is_enough():
            break
        step, size = _model_step(penalty, places, v, r, H, moves, options), 1.0
        for _ in range(options.model_halvings):
            trial = v + size * step
            left = slope_at(trial)
            found = value_of(trial, left)
            if found < value:
                v, r, value = trial, left, found
                break
            size *= 0.5
        if is_enough() or before - value <= 1e-15 * abs(value):  # by rounding alone
            break
    return v.reshape(W.shape)


def _model_step(
    penalty: FacePenalty, places: Places, v: Array, r: Array, H: Array, moves: Bits, options: Options
) -> Array:
    """Return a Newton step of the model with the zeros held."""
    used = np.flatnonzero(moves & ((v != 0.0) | places.smooth))
    push = r + np.where(v > 0.0, places.up, np.where(v < 0.0, -places.down, 0.0))
    M = H[np.ix_(used, used)]
    if penalty.group > 0.0:
        M, push = with_lengths(penalty, v, used, M, push)
    bounded = (places.up > 0.0) | (places.down > 0.0)
    signs = np.where(bounded, np.sign(v), 0.0)[used]
    step = np.zeros_like(v)
    step[used] = step_within(M, -push[used], v[used], signs, options.max_legs)
    return step


def with_lengths(
    penalty: FacePenalty, v: Array, used: NDArray[np.intp], M: Array, push: Array
) -> tuple[Array, Array]:
    """Add curvature and slope of the groups' lengths, τ (I/‖v‖ − v v'/‖v‖³) and τ v/‖v‖, if not 0."""
    faces = v.reshape(-1, penalty.n_features + 1)
    lengths = penalty.lengths(faces[:, :-1])
    own = np.tile(np.append(penalty.groups, -1), len(faces))
    length = np.where(own >= 0, lengths[own], 0.0)
    share = np.divide(penalty.group, length, out=np.zeros_like(v), where=length > 0.0)
    along = np.divide(v, length, out=np.zeros_like(v), where=length > 0.0)
    same = own[used][:, None] == own[used][None, :]
    M = M - np.where(same, (share * along)[used][:, None] * along[used][None, :], 0.0)
    M.flat[:: len(M) + 1] += share[used]
    return M, push + share * v
