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

**Penalties.** A step goes to the minimum of the quadratic model that includes the penalty,

    min over v   g·(v − w) + ½ (v − w)'H(v − w) + penalty(v),
    penalty(v) = λ Σ |v_j| + τ Σ_l ‖v of group l‖,      subject to the sign constraints,

where w are the entries of faces that may change, g is the gradient and H, positive definite, the Hessian of
the smooth part. Block coordinate descent over the groups finds the zeros. Newton steps in the other entries,
with their signs kept, then converge quickly (:func:`minimise_model`).

**Gap of the model.** Let r be the gradient of the model's smooth part at v, and p = ρv − r, with ρ below
every eigenvalue of H. The value of the model at v exceeds its minimum by at most

    ρ/2 ‖v‖² + penalty(v) + ‖shrunk p‖²/(2ρ) − p·v,

where "shrunk" is soft thresholding by λ, and by τ for groups (:mod:`formulations.face_penalty`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, dense
from polyopt.native.library import kernel
from polyopt.optim.newton_steps import ARMIJO, solve_scaled
from polyopt.polyhedral.logistic_loss import EntryPenalty, FaceLoss, Mask, shortfall_gradient

# Block coordinate descent in the model: `sweeps` passes over the groups, updating v and the gradient r of the
# smooth part at v. The entries of group g are members[begins[g]:ends[g]]; up and down are thresholds of
# entries, prices are τ or 0, steep are the largest eigenvalues of the groups' blocks of H. cut: work space.
sweep_groups = kernel(
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
    stage_gap_ratio: float = 0.1  # smoothed gap at which a stage ends, relative to the gap
    last_tol_ratio: float = 1e-5  # tolerance of the last stage, relative to `tol`
    min_step: float = 1e-6  # fraction of a Newton step at which the line search gives up
    model_gap_ratio: float = 0.01  # gap to which a model is minimised, relative to the smoothed gap
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
        if max(run.gap, run.smoothed_gap / OPTIONS.stage_gap_ratio) <= tol * run.value:
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
        self.move_to(self.W, t)
        while True:
            tol = self.tol * self.value
            is_last_stage = self.gap <= tol
            target = OPTIONS.last_tol_ratio * tol if is_last_stage else OPTIONS.stage_gap_ratio * self.gap
            if self.smoothed_gap <= target:
                return None
            if self.n_steps >= max_steps:
                return Status.ITERATION_LIMIT
            if self.clock.is_over:
                return Status.TIME_LIMIT
            step = self._newton_point(t)
            if step is None:
                return Status.STALLED
            is_lower = self._line_search(*step, t)
            bound = min(self.bound, self.value)
            self.history.append({"seconds": self.clock.seconds, "objective": self.value, "bound": bound})
            if not is_lower:
                return None

    def _newton_point(self, t: float) -> tuple[Array, float] | None:
        """Return the minimum of the penalised model, and the predicted decrease; None if W is too large.

        Entries that are 0 and stay so in a proximal step are not in the model.
        """
        problem, W, penalty = self.problem, self.W, self.problem.entry_penalty
        moved = penalty.shrunk(problem.ridges * W - self.gradient) != 0.0
        active = (W != 0.0) | (moved & problem.entries)
        if active.sum() > OPTIONS.max_entries:
            return None
        H = hessian(problem, self.R, self.a, active, t)
        # A gap near the square of the smoothed gap gives quadratic convergence; the tolerance needs no less.
        gap = max(self.smoothed_gap, 0.0)
        model_tol = OPTIONS.model_gap_ratio * min(gap, max(self.value * self.tol, gap * gap / self.value))
        ridges, gradient = np.broadcast_to(problem.ridges, W.shape)[active], self.gradient[active]
        V = W.copy()
        V[active] = minimise_model(penalty.at(active), W[active], gradient, H, ridges, model_tol)
        return V, float((self.gradient * (W - V)).sum()) + penalty.value(W) - penalty.value(V)

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
    columns = list[Array]()
    for k, row in enumerate(active):  # the active features of each face, dense, and ones for its bias
        if k and np.array_equal(row, active[k - 1]):
            columns.append(columns[-1])
            continue
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
            left = columns_k.take(rows, axis=0)
            right = left if columns[j] is columns_k else columns[j].take(rows, axis=0)
            block = left.T @ (right * weights[rows, None])
            H[offsets[k] : offsets[k + 1], offsets[j] : offsets[j + 1]] = block
            H[offsets[j] : offsets[j + 1], offsets[k] : offsets[k + 1]] = block.T
    H.flat[:: len(H) + 1] += np.broadcast_to(problem.ridges, active.shape)[active]
    return H


# -- the quadratic model --------------------------------------------------------------------------------


def model_gap(penalty: EntryPenalty, v: Array, gradient: Array, ridges: Array) -> float:
    """Bound the gap of entries v (k,) to the model's minimum, up to rounding.

    gradient (k,): of the model's smooth part at v, r in the formula above. ridges (k,): ρ of each entry.
    """
    proximal_input = ridges * v - gradient
    shrunk = penalty.shrunk(proximal_input)
    terms = 0.5 * (ridges * v * v + shrunk * shrunk / ridges) - proximal_input * v
    return max(float(terms.sum()) + penalty.value(v), 0.0)


def minimise_model(
    penalty: EntryPenalty, start: Array, gradient: Array, H: Array, ridges: Array, tol: float
) -> Array:
    """Return entries v (k,) near the minimum of the model, and never above the start in it.

    start, gradient (k,): w, which satisfies the sign constraints, and g.
    H (k, k): positive definite.
    ridges (k,): ρ, below every eigenvalue of H; equal within a group of features.
    tol: the gap (:func:`model_gap`) at which to stop.
    """
    members, counts = np.argsort(penalty.groups, kind="stable"), np.bincount(penalty.groups)
    ends, norm_weights = np.cumsum(counts), penalty.norm_weights[: len(counts)]
    curvatures = np.zeros(len(counts))  # largest eigenvalue of each penalised group's block of H
    for g in np.flatnonzero((norm_weights > 0.0) & (counts > 0)):
        group = members[ends[g] - counts[g] : ends[g]]
        curvatures[g] = np.linalg.eigvalsh(H[np.ix_(group, group)])[-1]
    is_smooth = ~penalty.has_kink & (penalty.norm_weights[penalty.groups] == 0.0)
    v, work = start.copy(), np.empty_like(start)

    def gradient_at(v: Array) -> Array:
        return gradient + H @ (v - start)

    def value_of(v: Array, r: Array) -> float:
        return 0.5 * float((v - start) @ (r + gradient)) + penalty.value(v)

    r, value = gradient.copy(), penalty.value(v)
    for _ in range(OPTIONS.max_model_rounds):
        previous_value, step, size = value, _model_step(penalty, v, r, H, is_smooth), 1.0
        for _ in range(OPTIONS.model_halvings):
            trial = v + size * step
            trial[penalty.has_kink & (trial * v < 0.0)] = 0.0  # penalised signs are kept
            trial_gradient = gradient_at(trial)
            trial_value = value_of(trial, trial_gradient)
            if trial_value < value:
                v, r, value = trial, trial_gradient, trial_value
                break
            size *= 0.5
        if model_gap(penalty, v, r, ridges) <= tol:
            break
        sweep_groups(
            H, r, v, ends - counts, ends, members, penalty.up, penalty.down, norm_weights, curvatures, work,
            OPTIONS.sweeps,
        )  # fmt: skip
        r = gradient_at(v)
        value = value_of(v, r)
        if previous_value - value <= OPTIONS.rel_rounding * abs(value):
            break
    return v


def _model_step(penalty: EntryPenalty, v: Array, r: Array, H: Array, is_smooth: Mask) -> Array:
    """Return a Newton step of the model with its zeros fixed; the penalty is smooth in the other entries."""
    used = np.flatnonzero((v != 0.0) | is_smooth)
    kinks = np.where(v > 0.0, penalty.up, np.where(v < 0.0, -penalty.down, 0.0))
    M, gradient = add_group_norms(penalty, v, used, H[np.ix_(used, used)], (r + kinks)[used])
    step = np.zeros_like(v)
    step[used] = solve_scaled(M, -gradient)
    return step


def add_group_norms(
    penalty: EntryPenalty, v: Array, used: NDArray[np.intp], M: Array, gradient: Array
) -> tuple[Array, Array]:
    """Add the derivatives of τ‖v‖ for each nonzero group v to the Hessian M and to the gradient, both `used`.

    The gradient is τ v/‖v‖ and the Hessian τ (I/‖v‖ − v v'/‖v‖³).
    """
    if not penalty.norm_weights.any():
        return M, gradient
    groups = penalty.groups[used]
    norms, weights = penalty.norms(v)[groups], penalty.norm_weights[groups]
    unit = np.divide(v[used], norms, out=np.zeros(len(used)), where=norms > 0.0)
    scale = np.divide(weights, norms, out=np.zeros(len(used)), where=norms > 0.0)
    M = M - np.where(groups[:, None] == groups, (scale * unit)[:, None] * unit, 0.0)
    M.flat[:: len(M) + 1] += scale
    return M, gradient + weights * unit
