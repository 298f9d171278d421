"""Newton's method for logistic polytopes: from a good point to a stationary one.

Every face, a row of W (K, m+1) with the bias last, belongs to one of the two classes, and every sample is
assigned to a face of its own class. The loss of a sample of weight c is c ln(1 + e^ξ), where ξ is the largest
score of the other class's faces less the score of the assigned face. For a fixed assignment the objective is
convex (:mod:`formulations.logistic_polytopes`).

**Smoothing.** The maximum of the scores s is replaced by the soft maximum t ln Σ exp(s/t) of softness t. The
objective is then smooth, except for the penalties. The derivatives alpha_ik of the loss by the scores of the
other class's faces are multipliers, which give a lower bound on the optimum for the assignment. The smoothed
optimum is higher than that optimum by at most t Σ_i alpha_i ln L_i, where alpha_i = Σ_k alpha_ik and L_i is
the number of faces with a multiplier of sample i; so the gap vanishes as t is lowered in stages. After each
step every sample is assigned to the best face of its class, which never raises the objective.

**Penalties.** Without a group penalty a step keeps the signs of the penalised weights
(:func:`orthant_step`). With one, a step goes to the minimum of the quadratic model that includes the penalty
(:func:`minimise_model`),

    min over V   g·(V − W) + ½ (V − W)'H(V − W) + penalty(V),
    penalty(V) = λ Σ |V_kj| + τ Σ_l ‖V of group l‖,      subject to the sign constraints,

where g is the gradient and H, positive definite, the Hessian of the smooth part, and V is taken as one
vector. Block coordinate descent over the groups finds the zeros. Newton steps in the other entries, with
their signs kept, then converge quickly.

**Gap of the model.** Let r be the gradient of the model's smooth part at V, and P = ρV − r, with ρ below
every eigenvalue of H. The value of the model at V exceeds its minimum by at most

    ρ/2 ‖V‖² + penalty(V) + ‖shrunk P‖²/(2ρ) − P·V,

where "shrunk" is soft thresholding by λ, and by τ for groups (:mod:`formulations.face_penalty`).
"""

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
from polyopt.polyhedral.logistic_loss import FaceLoss, Mask, shortfall_gradient

# Block coordinate descent in the model: `sweeps` passes over the groups, updating v and the gradient r of the
# smooth part at v. The entries of group g are members[begins[g]:ends[g]]; up and down are thresholds of
# entries, prices are τ or 0, steep are the largest eigenvalues of the groups' blocks of H. cut: work space.
_sweep = kernel(
    "sweep_groups",
    "H: f8 (v, v); r!: f8 (v); v!: f8 (v); begins: i8 (g); ends: i8 (g); members: i8 (v); up: f8 (v); "
    "down: f8 (v); prices: f8 (g); steep: f8 (g); cut!: f8 (v); sweeps: i8",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of Newton's method."""

    max_entries: int = 2500  # nonzero entries of W up to which the Hessian is a dense matrix
    first_softness: float = 0.1  # t of the first stage
    softness_ratio: float = 0.2  # between stages; a ratio that adapts changed nothing on ten data sets
    last_softness: float = 1e-10
    stage_steps: int = 200  # largest number of Newton steps of a stage
    stage_tol_ratio: float = 0.1  # tolerance of a stage, relative to `tol`
    last_tol_ratio: float = 1e-5  # tolerance of the last stage, relative to `tol`
    min_step: float = 1e-6  # fraction of a Newton step at which the line search gives up
    model_gap_ratio: float = 0.01  # gap to which a model is minimised, relative to the smoothed gap
    max_legs: int = 60  # of an orthant step, each up to an entry that reaches 0
    sweeps: int = 3  # of block coordinate descent between two Newton steps of a model
    max_model_rounds: int = 60  # largest number of rounds, each of sweeps and a Newton step
    model_halvings: int = 6  # of a Newton step of a model
    rel_rounding: float = 1e-15  # relative decrease of a model that counts as rounding


OPTIONS = Options()


def polish(problem: FaceLoss, W: Array, clock: Clock, *, tol: float = 1e-6, max_iter: int = 1000) -> Solution:
    """Minimise the objective by Newton steps, each followed by a new assignment, in stages of falling t.

    W (K, m+1): the start, which satisfies the sign constraints.
    tol: relative gap to the bound for the assignment at which to stop.
    max_iter: largest number of Newton steps. At a limit the last point is returned.
    Returns: ``primal`` has ``W`` and ``assignment``, ``duals`` has ``margin``, alpha (n, K). The status is
        SOLVED if W is optimal for the assignment, which is the best for W. ``history`` has a record for each
        step.
    """
    run, status, t = _Run(problem, W, tol, clock), Status.STALLED, OPTIONS.first_softness
    while t >= OPTIONS.last_softness:
        stage_status = run.solve_stage(t, min(max_iter, run.n_steps + OPTIONS.stage_steps))
        if max(run.gap, run.smoothed_gap / OPTIONS.stage_tol_ratio) <= tol * run.value:
            status = Status.SOLVED
            break
        if stage_status not in (None, Status.ITERATION_LIMIT) or run.n_steps >= max_iter:
            status = stage_status or Status.ITERATION_LIMIT
            break
        t *= OPTIONS.softness_ratio
    return Solution(
        status, {"W": run.W, "assignment": run.z}, {"margin": run.alpha}, run.value,
        min(run.bound, run.value), "newton", run.n_steps, solve_time=clock.seconds,
        history=tuple(run.history),
    )  # fmt: skip


class _Run:
    """The iterate, its objective and smoothed objective, and the best bound for its assignment.

    W (K, m+1), z (n,): the iterate and its assignment.
    value, smoothed: objective and smoothed objective at W.
    gradient (K, m+1): of the smooth part. R (n, K), a (n,): derivatives of the loss by the scores and by ξ.
    bound, alpha (n, K): best bound for the assignment, and its multipliers.
    smoothed_gap: smoothed objective less its own lower bound.
    """

    def __init__(self, problem: FaceLoss, W: Array, tol: float, clock: Clock):
        self.problem, self.tol, self.clock = problem, tol, clock
        self.history: list[dict[str, float]] = []
        self.value, self.bound, self.z = np.inf, -np.inf, problem.best_assignment(W)
        self.move_to(W, OPTIONS.first_softness)

    @property
    def n_steps(self) -> int:
        """Number of steps so far, each with a record in the history."""
        return len(self.history)

    @property
    def gap(self) -> float:
        """Difference of the objective and the bound."""
        return self.value - self.bound

    def move_to(self, W: Array, t: float) -> None:
        """Make W the iterate; evaluate its objectives at softness t, and their bounds."""
        problem, s = self.problem, self.problem.scores(W)
        loss, self.gradient, self.R, self.a = problem.smooth(W, 0.0, t, s)
        self.W, self.smoothed = W, loss + problem.penalty.value(W)
        z = problem.best_assignment(W, s)
        if not np.array_equal(z, self.z):
            self.z, self.bound = z, -np.inf
        bound = problem.bound(W, self.gradient, self.a)
        alpha = np.where(problem.other_class, self.R, 0.0)
        # The dual of a soft maximum has t times the entropy of the multipliers' fractions in addition.
        entropies = entr(shortfall_gradient(alpha, self.a)).sum(axis=1)
        self.smoothed_gap = self.smoothed - (bound + t * float(self.a @ entropies))
        self.value = problem.value(W, s)
        # Of bounds within the tolerance the last: its multipliers belong to the last point.
        if bound > self.bound or self.value - bound <= self.tol * self.value:
            self.bound, self.alpha = bound, alpha

    def solve_stage(self, t: float, max_steps: int) -> Status | None:
        """Make Newton steps at softness t, up to `max_steps` of the run; return None if they converged."""
        newton_point = self._orthant_point if self.problem.penalty.group == 0.0 else self._model_point
        self.move_to(self.W, t)
        while True:
            is_last_stage = self.gap <= self.tol * self.value
            ratio = OPTIONS.last_tol_ratio if is_last_stage else OPTIONS.stage_tol_ratio
            if self.smoothed_gap <= ratio * self.tol * self.value:
                return None
            if self.n_steps >= max_steps:
                return Status.ITERATION_LIMIT
            if self.clock.is_over:
                return Status.TIME_LIMIT
            step = newton_point(t)
            if step is None:
                return Status.STALLED
            is_lower = self._line_search(*step, t)
            bound = min(self.bound, self.value)
            self.history.append({"seconds": self.clock.seconds, "objective": self.value, "bound": bound})
            if not is_lower:
                return None

    def _orthant_point(self, t: float) -> tuple[Array, float] | None:
        """Return the faces after an orthant step, and the predicted decrease; None if W is too large.

        A penalised weight at 0 may move to the side to which the objective falls.
        """
        problem, W = self.problem, self.W
        up, down = problem.thresholds
        sign_from_zero = (self.gradient < -up).astype(float) - (self.gradient > down)
        signs = np.where(W != 0.0, np.sign(W), sign_from_zero)
        descent = np.where(signs != 0.0, -(self.gradient + problem.l1_weights * signs), 0.0)
        descent[~problem.entries] = 0.0
        active = (W != 0.0) | (descent != 0.0)
        if active.sum() > OPTIONS.max_entries:
            return None
        direction = np.zeros_like(W)
        H = hessian(problem, self.R, self.a, active, t)
        has_kink = ((problem.l1_weights > 0.0) | (problem.entry_signs != 0.0))[active]
        fixed_signs = np.where(has_kink, signs[active], 0.0)
        direction[active] = orthant_step(H, descent[active], W[active], fixed_signs)
        return W + direction, float((descent * direction).sum())

    def _model_point(self, t: float) -> tuple[Array, float] | None:
        """Return the minimum of the penalised model, and the predicted decrease; None if W is too large."""
        problem, penalty = self.problem, self.problem.penalty
        W = problem.class_signed(self.W)
        gradient = problem.class_signed(self.gradient)
        proximal_input = np.where(problem.entries, problem.ridges * W - gradient, 0.0)
        active = ((W != 0.0) | (penalty.shrunk(proximal_input) != 0.0)) & problem.entries
        active[:, -1] = problem.owners.free
        used = np.append(active[:, :-1].any(axis=0), True)  # columns of W in the model
        used[0] |= not used[:-1].any()  # one feature at least
        positions = np.flatnonzero(active[:, used])
        if active[:, used].size > OPTIONS.max_entries:
            return None
        H = np.eye(active[:, used].size)
        signs = np.repeat(problem.owners.classes, active.sum(axis=1))
        H[np.ix_(positions, positions)] = hessian(problem, self.R, self.a, active, t) * np.outer(signs, signs)
        used_penalty = penalty.of_features(np.flatnonzero(used[:-1]))
        gap = max(self.smoothed_gap, 0.0)
        model_tol = OPTIONS.model_gap_ratio * min(gap, max(self.value * self.tol, gap * gap / self.value))
        V = W.copy()
        V[:, used] = minimise_model(
            used_penalty, WeightGroups.of(used_penalty, len(W)), W[:, used], gradient[:, used], H,
            problem.ridges[used], active[:, used], model_tol,
        )  # fmt: skip
        predicted = float((gradient * (W - V)).sum()) + penalty.value(W) - penalty.value(V)
        return problem.class_signed(V), predicted

    def _line_search(self, newton_point: Array, predicted: float, t: float) -> bool:
        """Halve the step until the smoothed objective meets Armijo's condition; return False if it fails."""
        W, value, size = self.W, self.smoothed, 1.0
        while size >= OPTIONS.min_step:
            self.move_to(newton_point if size == 1.0 else W + size * (newton_point - W), t)
            if self.smoothed <= value - size * ARMIJO * predicted and self.smoothed < value:
                return True
            size *= 0.5
        self.move_to(W, t)
        return False


def hessian(problem: FaceLoss, R: Array, a: Array, active: Mask, t: float) -> Array:
    """Return the Hessian of the smooth part in the active entries of W, in row order.

    R (n, K), a (n,): derivatives of the loss by the scores and by ξ. The soft maximum of softness t adds
    (a/t)(diag(p) − p p') in the scores of the other class, p being its gradient.
    """
    probabilities, xi_gradient = problem.probabilities(a), shortfall_gradient(R, a)
    loss_curvature, max_curvature = a * (1.0 - probabilities), a / t
    columns = []
    for row in active:  # the active features of each face, dense, and ones for its bias
        features = np.asarray(dense(problem.X[:, np.flatnonzero(row[:-1])]))
        columns.append(np.column_stack([features, np.ones(len(features))]) if row[-1] else features)
    offsets = np.r_[0, np.cumsum(active.sum(axis=1))]
    H = np.zeros((offsets[-1], offsets[-1]))
    for k, columns_k in enumerate(columns):
        for j in range(k + 1):
            weights = loss_curvature * xi_gradient[:, k] * xi_gradient[:, j]
            in_maximum = problem.other_class[:, k] & problem.other_class[:, j]
            weights -= np.where(in_maximum, max_curvature * xi_gradient[:, k] * xi_gradient[:, j], 0.0)
            if j == k:
                weights += np.where(in_maximum, max_curvature * xi_gradient[:, k], 0.0)
            rows = np.flatnonzero(weights)
            block = columns_k[rows].T @ (columns[j][rows] * weights[rows, None])
            H[offsets[k] : offsets[k + 1], offsets[j] : offsets[j + 1]] = block
            H[offsets[j] : offsets[j + 1], offsets[k] : offsets[k + 1]] = block.T
    H.flat[:: len(H) + 1] += np.broadcast_to(problem.ridges, active.shape)[active]
    return H


def orthant_step(H: Array, descent: Array, start: Array, signs: Array) -> Array:
    """Return a Newton step that changes no fixed sign: an entry that reaches 0 stays there.

    The step is a path of legs. Each is a Newton step in the free entries, cut where the first of them reaches
    0. Every leg lowers the convex quadratic model, so the sum of the legs is a descent direction.

    H (k, k): Hessian, positive definite.
    descent, start (k,): negative gradient, and the entries before the step.
    signs (k,): the sign that an entry keeps; 0 if it may change.
    """
    free, point, descent = np.ones(len(start), dtype=bool), start.copy(), descent.copy()
    for _ in range(OPTIONS.max_legs):
        leg = np.zeros_like(start)
        leg[free] = solve_scaled(H[np.ix_(free, free)], descent[free])
        crossing = free & (signs != 0.0) & (signs * (point + leg) < 0.0)
        if not crossing.any():
            return point + leg - start
        fractions = np.divide(-point, leg, out=np.full(len(start), np.inf), where=crossing)
        fraction = float(fractions.min())
        reaches_zero = fractions <= fraction * (1.0 + 1e-9)  # with ties up to rounding
        point, descent = point + fraction * leg, descent - fraction * (H @ leg)
        point[reaches_zero], free = 0.0, free & ~reaches_zero
    return point - start


# -- the quadratic model with a group penalty ------------------------------------------------------------


@dataclass(frozen=True)
class WeightGroups:
    """Groups of the entries of faces (K, m+1), which are taken row by row; each bias is its own group."""

    starts: NDArray[np.int64]  # (groups + 1,): the entries of group g are members[starts[g]:starts[g + 1]]
    members: NDArray[np.int64]  # (K (m+1),) indices of entries, group by group
    up: Array  # (K (m+1),) soft threshold above 0 of each entry; infinite if the sign is forbidden
    down: Array  # (K (m+1),) soft threshold below 0
    norm_penalties: Array  # (groups,) penalty on the norm of each group: τ, 0 for a bias
    smooth: Mask  # (K (m+1),) True for entries without penalty and sign constraint

    @staticmethod
    def of(penalty: FacePenalty, n_faces: int) -> "WeightGroups":
        """Return the groups of a penalty for `n_faces` faces."""
        labels = np.tile(np.append(penalty.groups, -1), n_faces)
        biases = labels < 0
        labels[biases] = penalty.n_groups + np.arange(n_faces)
        counts = np.bincount(labels, minlength=penalty.n_groups + n_faces)
        up, down = (np.tile(np.append(threshold, 0.0), n_faces) for threshold in penalty.thresholds)
        norm_penalties = np.append(np.full(penalty.n_groups, penalty.group), np.zeros(n_faces))
        smooth = (up == 0.0) & (down == 0.0) & (biases | (penalty.group == 0.0))
        starts = np.append(0, np.cumsum(counts))
        return WeightGroups(starts, np.argsort(labels, kind="stable"), up, down, norm_penalties, smooth)

    def block_curvatures(self, H: Array) -> Array:
        """Return the largest eigenvalue of each penalised group's diagonal block of H; 0 for the others."""
        curvatures = np.zeros(len(self.norm_penalties))
        for g in np.flatnonzero(self.norm_penalties > 0.0):
            group = self.members[self.starts[g] : self.starts[g + 1]]
            curvatures[g] = np.linalg.eigvalsh(H[np.ix_(group, group)])[-1]
        return curvatures


def model_gap(penalty: FacePenalty, V: Array, gradient: Array, ridges: Array) -> float:
    """Bound the gap of faces V (K, m+1) to the model's minimum, up to rounding.

    gradient (K, m+1): of the model's smooth part at V, r in the formula above. ridges (m+1,): ρ by column.
    """
    proximal_input = ridges * V - gradient
    shrunk = penalty.shrunk(proximal_input)
    terms = 0.5 * (ridges * V * V + shrunk * shrunk / ridges) - proximal_input * V
    return max(float(terms.sum()) + penalty.value(V), 0.0)


def minimise_model(
    penalty: FacePenalty, groups: WeightGroups, W: Array, gradient: Array, H: Array, ridges: Array,
    active: Mask, tol: float,
) -> Array:  # fmt: skip
    """Return faces V (K, m+1) near the minimum of the model, and never above W in it.

    W, gradient (K, m+1): the start, which satisfies the sign constraints, and g.
    H: positive definite in the active entries.
    ridges (m+1,): ρ, below every eigenvalue of H; equal within a group of features.
    active (K, m+1): True for entries that may change; the others are 0.
    tol: the gap (:func:`model_gap`) at which to stop.
    """
    g, start, is_active = gradient.ravel(), W.ravel(), active.ravel()
    v, r = start.copy(), g.copy()
    curvatures, work = groups.block_curvatures(H), np.empty_like(v)
    up, down = (np.where(is_active, threshold, np.inf) for threshold in (groups.up, groups.down))

    def gradient_at(v: Array) -> Array:
        return g + H @ (v - start)

    def value_of(v: Array, r: Array) -> float:
        return 0.5 * float((v - start) @ (r + g)) + penalty.value(v.reshape(W.shape))

    def is_solved() -> bool:
        active_gradient = np.where(is_active, r, 0.0).reshape(W.shape)
        return model_gap(penalty, v.reshape(W.shape), active_gradient, ridges) <= tol

    value = penalty.value(W)
    for _ in range(OPTIONS.max_model_rounds):
        previous_value = value
        _sweep(
            H, r, v, groups.starts[:-1], groups.starts[1:], groups.members, up, down, groups.norm_penalties,
            curvatures, work, OPTIONS.sweeps,
        )  # fmt: skip
        r = gradient_at(v)
        value = value_of(v, r)
        if is_solved():
            break
        step, size = _model_step(penalty, groups, v, r, H, is_active), 1.0
        for _ in range(OPTIONS.model_halvings):
            trial = v + size * step
            trial_gradient = gradient_at(trial)
            trial_value = value_of(trial, trial_gradient)
            if trial_value < value:
                v, r, value = trial, trial_gradient, trial_value
                break
            size *= 0.5
        if is_solved() or previous_value - value <= OPTIONS.rel_rounding * abs(value):
            break
    return v.reshape(W.shape)


def _model_step(
    penalty: FacePenalty, groups: WeightGroups, v: Array, r: Array, H: Array, is_active: Mask
) -> Array:
    """Return a Newton step of the model with its zeros fixed and its penalised signs kept."""
    used = np.flatnonzero(is_active & ((v != 0.0) | groups.smooth))
    gradient = r + np.where(v > 0.0, groups.up, np.where(v < 0.0, -groups.down, 0.0))
    M = H[np.ix_(used, used)]
    if penalty.group > 0.0:
        M, gradient = add_group_norms(penalty, v, used, M, gradient)
    has_kink = (groups.up > 0.0) | (groups.down > 0.0)
    signs = np.where(has_kink, np.sign(v), 0.0)[used]
    step = np.zeros_like(v)
    step[used] = orthant_step(M, -gradient[used], v[used], signs)
    return step


def add_group_norms(
    penalty: FacePenalty, v: Array, used: NDArray[np.intp], M: Array, gradient: Array
) -> tuple[Array, Array]:
    """Add the derivatives of τ‖v‖ for each nonzero group v to the Hessian M and to the gradient.

    The gradient is τ v/‖v‖ and the Hessian τ (I/‖v‖ − v v'/‖v‖³); M has the entries `used` alone.
    """
    faces = v.reshape(-1, penalty.n_features + 1)
    group_norms = penalty.group_norms(faces[:, :-1])
    labels = np.tile(np.append(penalty.groups, -1), len(faces))  # -1: a bias
    norms = np.where(labels >= 0, group_norms[labels], 0.0)
    scale = np.divide(penalty.group, norms, out=np.zeros_like(v), where=norms > 0.0)
    unit = np.divide(v, norms, out=np.zeros_like(v), where=norms > 0.0)
    same_group = labels[used][:, None] == labels[used][None, :]
    M = M - np.where(same_group, (scale * unit)[used][:, None] * unit[used][None, :], 0.0)
    M.flat[:: len(M) + 1] += scale[used]
    return M, gradient + scale * v
