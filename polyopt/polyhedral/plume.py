"""PLUME, polyhedral learning by a mixture of experts: the EM algorithm, a final descent, and the estimator.

With scores s_k = W_k·x̃, x̃ = (x, 1), of the faces, rows of W (K, m+1), each face is the logistic expert
σ(s_k) for the class inside, and the gate g_k ∝ exp(−γ s_k) weights the faces; γ is its sharpness. L(W) is
the penalised negative log-likelihood of the mixture. R (n, K) are responsibilities of the faces for the
samples, and F(W; R) is the convex objective of the M-step (:mod:`formulations.mixture`).

**EM.** The E-step computes the responsibilities R of W; the M-step decreases F(·; R), which decreases L, too.
A step that would not decrease L is rejected. The M-step may be partial, a few iterations, which is often
better than its optimum, since the next E-step changes R anyway.

**Annealing and polish.** With a sharp gate the samples hardly change faces, so runs begin with a soft gate
and raise γ in stages. Since EM converges slowly, its end is replaced by a direct minimisation of L, the
polish.

**Newton's method** uses the full Hessian of all faces; without the blocks between faces its convergence is
not quadratic. If the Hessian is not positive definite, as that of L need not be, a multiple of the identity
is added.

In the file: :class:`PlumeProblem` (EM steps), :func:`solve_plume` (many starts), :func:`minimise` (F or L)
with its methods, and the estimator.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.utils._param_validation import StrOptions

from formulations import mixture
from formulations.language.arguments import as_costs, at_least, one_of, tolerance, whole, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, Matrix
from formulations.polytope import perplexity
from polyopt.base.onnx_graph import Graph
from polyopt.base.progress import show, tell
from polyopt.base.threads import single_threaded_blas
from polyopt.base.types import ClassWeight
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.parameters import Settings, checked_by, estimator, shared
from polyopt.linalg.span import SampleSpan
from polyopt.optim.newton_steps import ARMIJO, positive_factor
from polyopt.optim.rounds import DescentProblem, Stage, random_faces, run_from_many_starts
from polyopt.optim.starts import TIE, continued
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.logistic_certificate import certify_plume

if TYPE_CHECKING:
    from formulations.error_bounds.rademacher import PolytopeBound


Method = Literal["auto", "exact", "newton", "bfgs", "gradient"]


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of PLUME's descent."""

    first_gamma: float = 0.25  # sharpness of the gate in the first stage of annealing
    gamma_ratio: float = 2.0  # between stages, up to the γ of the problem
    steps_per_gamma: int = 5  # EM steps of a stage
    steps_before_polish: int = 15  # largest number of EM steps; on separable data L decreases for long
    min_rel_decrease_em: float = 0.01  # relative decrease of L by an EM step below which the polish begins
    max_newton_entries: int = 5000  # entries of W up to which Newton's method is allowed: a Hessian of 200 MB
    newton_entries: int = 600  # entries of W up to which Newton is faster than L-BFGS
    min_rel_decrease_bfgs: float = 1e-5  # of L in `bfgs_span` iterations, below which Newton follows
    bfgs_span: int = 10
    gap_tol_ratio: float = 0.1  # tolerance of the polish, relative to that of the certificate
    one_thread_products: float = 2e7  # multiplications of X W' up to which BLAS has one thread
    rel_rounding: float = 1e-14  # relative difference of values that counts as rounding


OPTIONS = Options()


class PlumeProblem(DescentProblem):
    """The EM steps of PLUME.

    X, y, c, n_faces: as in :func:`~polyopt.optim.rounds.random_faces`; the weights are positive.
    gamma: sharpness of the gate, at least 0.
    ridge: ρ, also on the biases; positive for method="exact".
    method: of the M-step: "exact", the explicit program of :mod:`formulations.plume`, or a method of
        :func:`minimise`; "auto" is "newton" up to a few hundred entries of W, else "bfgs".
    inner: largest number of iterations of an M-step; by default 1, or 5 with "bfgs". The explicit program is
        solved to optimality.
    """

    _program: Any = None  # the explicit program, built at its first use

    def __init__(
        self, X: Matrix, y: Array, c: Array, n_faces: int, *, gamma: float = 1.0, ridge: float = 1e-3,
        method: Method = "auto", inner: int | None = None,
    ):  # fmt: skip
        mixture.check_model(gamma, ridge)
        whole("n_faces", n_faces)
        whole_or_none("inner", inner)
        one_of("method", method, ("auto", "exact", "newton", "bfgs", "gradient"))
        if method == "exact" and ridge == 0.0:
            raise ValueError("ridge must be positive with method='exact': its program needs an optimum")
        self.X, self.y, self.c, self.n_faces = X, y, as_costs(c, len(y)), n_faces
        self.gamma, self.ridge = gamma, ridge
        n_entries = n_faces * (X.shape[1] + 1)
        self.is_small = n_entries * X.shape[0] <= OPTIONS.one_thread_products
        fast = "newton" if n_entries <= OPTIONS.newton_entries else "bfgs"
        self.polish_method = "bfgs-newton" if fast == "newton" else "bfgs"
        self.method = fast if method == "auto" else method
        self.inner = inner or (5 if self.method == "bfgs" else 1)
        self._cached_value: tuple[Array, float] | None = None

    def with_gamma(self, gamma: float) -> "PlumeProblem":
        """Return the same problem with another sharpness of the gate."""
        other = copy.copy(self)
        other.gamma, other._program, other._cached_value = gamma, None, None
        return other

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return the random generators of `count` starts."""
        return np.random.default_rng(seed).spawn(count)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Array:
        """Draw random faces, all different."""
        return random_faces(self.X, self.y, self.c, self.n_faces, rng)

    def value(self, W: Array) -> float:
        """Return the penalised negative log-likelihood L(W)."""
        # The step, its record and the next step evaluate the same W.
        if self._cached_value is None or self._cached_value[0] is not W:
            self._cached_value = W, mixture.loss(self.X, self.y, W, self.gamma, self.c, self.ridge)
        return self._cached_value[1]

    def step(self, W: Array, time_limit: float | None = None) -> Solution:
        """Make an E-step and an M-step; return the same point, with STALLED, if they do not decrease L."""
        m_step = self._m_step(mixture.responsibilities(self.X, self.y, W, self.gamma), W, time_limit)
        if m_step.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        before, status = self.value(W), Status.STALLED
        after = self.value(m_step["W"]) if m_step.primal else np.inf
        if m_step.status is Status.TIME_LIMIT:
            status = Status.TIME_LIMIT
        elif after <= before + TIE * abs(before):  # at a fixed point a conic solver may raise L a little
            status = Status.SOLVED
        W, value = (m_step["W"], after) if after <= before else (W, before)
        return replace(m_step, status=status, primal={"W": W}, duals={}, objective=value, bound=None)

    def record(self, W: Array) -> dict[str, float]:
        """Return γ, the log-likelihood without the ridge, and number and perplexity of the faces in use."""
        used = np.argmin(mixture.scores_in_blocks(self.X, W), axis=1)
        return {
            "gamma": self.gamma,
            "log_likelihood": 0.5 * self.ridge * float(np.sum(W**2)) - self.value(W),
            "occupied": float(len(np.unique(used))),
            "perplexity": perplexity(used, self.c),
        }

    def polish(self, em_end: Solution, max_iter: int, tol: float, time_limit: float | None) -> Solution:
        """Minimise L from the last point of EM."""
        if max_iter <= 0:
            return replace(em_end, status=Status.ITERATION_LIMIT)
        point = minimise(
            self.X, self.y, self.c, None, em_end["W"], gamma=self.gamma, ridge=self.ridge,
            method=self.polish_method, max_iter=max_iter, tol=tol, time_limit=time_limit,
        )  # fmt: skip
        steps, seconds = em_end.iterations, em_end.solve_time
        records = continued(point.history, "step", steps, seconds, gamma=self.gamma)
        if records:
            records[-1] |= self.record(point["W"])
            tell(records[-1])
            show(records[-1], lambda: {"W": point["W"]})
        status = Status.CONVERGED if point.status is Status.SOLVED else point.status
        return replace(
            point, status=status, bound=None, iterations=steps + point.iterations,
            solve_time=seconds + point.solve_time, history=(*em_end.history, *records),
        )  # fmt: skip

    def _m_step(self, R: Array, W: Array, time_limit: float | None) -> Solution:
        """Decrease F(·; R) from W, or minimise it by the explicit program."""
        if self.method != "exact":
            return minimise(
                self.X, self.y, self.c, R, W, gamma=self.gamma, ridge=self.ridge, method=self.method,
                max_iter=self.inner, time_limit=time_limit,
            )  # fmt: skip
        if self._program is None:
            from formulations.plume import m_step

            self._program = m_step(self.X, self.y, R, self.gamma, self.c, self.ridge)
        return self._program.set(R=R).solve(time_limit=time_limit)


def solve_plume(
    problem: PlumeProblem, *, n_init: int = 10, max_iter: int = 5000, tol: float = 1e-6, anneal: bool = True,
    polish: bool = True, time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Run EM from many starts, polish each result, and return the best.

    Without `anneal` and `polish` it is the paper's Algorithm 1.

    tol: relative tolerance of the certificate. Without `polish`, a run ends when a step decreases the
        objective by at most `tol` relatively.
    Other arguments are as in :class:`PLUME`. ``duals`` has ``score``, the multipliers of
    :func:`formulations.mixture.multipliers`. The status is CONVERGED if the polish ended at a stationary
    point or, without `polish`, if the steps converged, which need not be to a stationary point.
    """
    whole("max_iter", max_iter)
    step_tol = max(tolerance(tol), OPTIONS.min_rel_decrease_em)
    stages: list[Stage[Array]] = []
    gamma = OPTIONS.first_gamma
    while anneal and gamma < problem.gamma:
        stages.append(Stage(problem.with_gamma(gamma), OPTIONS.steps_per_gamma, step_tol))
        gamma *= OPTIONS.gamma_ratio
    last_stage = (OPTIONS.steps_before_polish, step_tol) if polish else (max_iter, tol)
    stages.append(Stage(problem, *last_stage))

    def finish(em_end: Solution, time_left: float | None) -> Solution:
        iterations_left = max_iter - em_end.iterations
        return problem.polish(em_end, iterations_left, OPTIONS.gap_tol_ratio * tol, time_left)

    with single_threaded_blas() if problem.is_small else nullcontext():
        best = run_from_many_starts(
            stages, n_init=n_init, time_limit=time_limit, seed=seed, n_jobs=n_jobs, max_iter=max_iter,
            finish=finish if polish else None,
        )  # fmt: skip
    alpha = mixture.multipliers(problem.X, problem.y, best["W"], None, problem.gamma, problem.c)
    polish_name = ", then L itself" if polish else ""
    return replace(best, duals={"score": alpha}, solver=f"em ({problem.method}){polish_name}")


def minimise(
    X: Matrix, y: Array, c: Array, R: Array | None, W: Array, *, gamma: float, ridge: float,
    method: str = "newton", max_iter: int = 200, tol: float = 1e-9, time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Minimise F(W; R), the M-step, or L(W) itself if R is None, from W (K, m+1).

    By Fisher's identity the gradient of L at W is that of F(·; R) for the responsibilities R of W, so a
    stationary point of L is a fixed point of EM. The solution has a lower bound for F only. Without a ridge
    the infimum of L on separable data is 0; its descent then ends when the mean loss of a sample is `tol`.

    method: "newton", with the full Hessian; "bfgs", L-BFGS; "gradient", with steps of Barzilai and Borwein;
        or "bfgs-newton", L-BFGS while it makes progress, and then Newton. All have a line search.
    tol: relative tolerance of the gap ‖∇F‖²/(2ρ), if there is a ridge, and of the gradient relative to the
        terms that cancel in it (:func:`formulations.mixture.gradient_scale`).
    """
    one_of("method", method, tuple(_METHODS))
    mixture.check_model(gamma, ridge)
    whole("max_iter", max_iter)
    tolerance(tol)
    if method.endswith("newton") and W.size > OPTIONS.max_newton_entries:
        raise ValueError(
            f"method={method!r} is for W of at most {OPTIONS.max_newton_entries} entries, not {W.size}: its "
            "Hessian has the square of that; method='bfgs' has no such limit"
        )
    objective = MixtureLoss(X, y, c, R, gamma, ridge)
    run = Descent(objective, np.array(W, dtype=float), max_iter, tol, time_limit)
    start = run.W, run.value, run.gradient
    try:
        _METHODS[method](run)
    except KeyboardInterrupt:
        run.status = interrupted()
    if run.value > start[1]:  # by rounding
        run.W, run.value, run.gradient = start
    has_bound = R is not None and ridge > 0
    return Solution(
        run.status, {"W": run.W}, {}, run.value,
        run.value - objective.gap(run.gradient) if has_bound else None, method, run.iterations,
        solve_time=run.clock.seconds, history=tuple(run.history),
    )  # fmt: skip


@dataclass(frozen=True)
class MixtureLoss:
    """The objective F(W; R), or L(W) if R is None, with the ridge; callable at W."""

    X: Matrix
    y: Array
    c: Array
    R: Array | None
    gamma: float
    ridge: float

    def __call__(self, W: Array) -> tuple[float, Array]:
        """Return the value and the gradient (K, m+1)."""
        return mixture.value_and_gradient(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)

    def hessian(self, W: Array) -> Array:
        """Return the Hessian, for W taken row by row."""
        return mixture.hessian(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)

    def metric(self) -> Array:
        """Return ¼ Σ_i c_i x̃_i x̃_i' + ρ I, an upper bound on the Hessian of one face."""
        responsibilities = np.ones((len(self.y), 1))
        zero_face = np.zeros((1, self.X.shape[1] + 1))
        return mixture.hessian(self.X, self.y, zero_face, responsibilities, 0.0, self.c, self.ridge)

    def is_stationary(self, W: Array, value: float, gradient: Array, tol: float) -> bool:
        """Return True if the gap and the gradient are within the tolerance."""
        if self.R is None and self.ridge == 0.0 and value <= tol * float(self.c.sum()):
            return True  # the loss is negligible, and without a ridge it may have no minimum
        gap = self.gap(gradient)
        if np.isfinite(gap) and gap > tol * abs(value):
            return False
        scale = mixture.gradient_scale(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)
        return float(np.abs(gradient).max()) <= tol * scale

    def gap(self, gradient: Array) -> float:
        """Return ‖gradient‖²/(2ρ), a bound on the gap of F to its minimum; inf without a ridge."""
        return float(np.sum(gradient**2)) / (2.0 * self.ridge) if self.ridge > 0 else np.inf


class Descent:
    """The iterate of a descent, its value, gradient and history, and the status."""

    def __init__(self, objective: MixtureLoss, W: Array, max_iter: int, tol: float, time_limit: float | None):
        self.objective, self.max_iter, self.tol, self.clock = objective, max_iter, tol, Clock(time_limit)
        self.W, self.history, self.status = W, list[dict[str, float]](), Status.STALLED
        self.value, self.gradient = objective(W)

    @property
    def iterations(self) -> int:
        """Number of iterations so far, each with a record in the history."""
        return len(self.history)

    def is_over(self) -> bool:
        """Return True if the run has converged or reached a limit, and set the status."""
        if self.objective.is_stationary(self.W, self.value, self.gradient, self.tol):
            self.status = Status.SOLVED
        elif self.iterations >= self.max_iter:
            self.status = Status.ITERATION_LIMIT
        elif self.clock.is_over:
            self.status = Status.TIME_LIMIT
        else:
            return False
        return True

    def move(self, W: Array, value: float, gradient: Array) -> None:
        """Make W the iterate and record it."""
        self.W, self.value, self.gradient = W, value, gradient
        self.history.append({"seconds": self.clock.seconds, "objective": value})

    def descend(self, direction: Array, step: float = 1.0) -> bool:
        """Move along a descent direction by backtracking from `step`; return False if no point is better."""
        slope = float(np.sum(direction * self.gradient))
        max_gradient, rounding = float(np.abs(self.gradient).max()), OPTIONS.rel_rounding * abs(self.value)
        while True:
            W = self.W + step * direction
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.objective(W)
            exceeds_rounding = -step * slope > rounding
            if exceeds_rounding:
                is_better = value <= self.value + ARMIJO * step * slope
            else:  # the values differ by rounding only: the gradient must be halved
                is_halved = float(np.abs(gradient).max()) < 0.5 * max_gradient
                is_better = value <= self.value + rounding and is_halved
            if is_better:
                self.move(W, value, gradient)
                return True
            if not exceeds_rounding:
                return False
            step *= 0.5


def _newton(run: Descent) -> None:
    while not run.is_over():
        factor = positive_factor(run.objective.hessian(run.W))
        direction = cho_solve(factor, -run.gradient.ravel()).reshape(run.W.shape)
        if not run.descend(direction):
            return


def _gradient(run: Descent) -> None:
    """Run gradient descent with the step lengths of Barzilai and Borwein."""
    step = 1.0 / (float(np.linalg.norm(run.gradient)) or 1.0)
    while not run.is_over():
        previous_W, previous_gradient = run.W, run.gradient
        if not run.descend(-run.gradient, step):
            return
        dW, dg = run.W - previous_W, run.gradient - previous_gradient
        curvature = float(np.sum(dW * dg))  # times ‖dW‖²
        dW_sq, dg_sq = float(np.sum(dW**2)), float(np.sum(dg**2))
        is_flat = curvature <= OPTIONS.rel_rounding * np.sqrt(dW_sq * dg_sq)
        step = 2.0 * step if is_flat else dW_sq / curvature  # Barzilai & Borwein


def _bfgs_then_newton(run: Descent) -> None:
    """Run preconditioned L-BFGS while it makes progress, and then Newton.

    Far from a minimum of L its Hessian is not positive definite, and a Newton step decreases L no more than a
    step of L-BFGS, which takes a tenth of the time or less. Near a minimum Newton needs few steps. The
    preconditioner bounds the Hessian of logistic regression for any face (Böhning & Lindsay, 1988), and makes
    L-BFGS independent of the units of the features.
    """
    _bfgs(run, positive_factor(run.objective.metric())[0], OPTIONS.min_rel_decrease_bfgs)
    if run.status is Status.STALLED:
        _newton(run)


def _bfgs(run: Descent, root: Array | None = None, min_rel_decrease: float = 0.0) -> None:
    """Run L-BFGS of scipy in the variables Z = W times `root`, a lower triangular preconditioner.

    It stops when `bfgs_span` iterations decrease the objective by at most `min_rel_decrease`.
    """
    values, span, latest = [run.value], OPTIONS.bfgs_span, dict[str, Any]()

    def faces_of(z: Array) -> Array:
        Z = z.reshape(run.W.shape)
        return Z.copy() if root is None else solve_triangular(root, Z.T, trans="T", lower=True).T

    def preconditioned(G: Array) -> Array:
        return (G if root is None else solve_triangular(root, G.T, lower=True).T).ravel()

    def evaluate(z: Array) -> tuple[float, Array]:
        W = faces_of(z)
        value, gradient = run.objective(W)
        latest["point"] = z.copy(), W, value, gradient
        return value, preconditioned(gradient)

    def after_step(z: Array) -> None:
        if not np.array_equal(latest["point"][0], z):
            evaluate(z)  # the line search did not end with the point that it accepted
        run.move(*latest["point"][1:])
        values.append(run.value)
        if run.is_over():
            raise StopIteration
        decrease = values[-1 - span] - run.value if len(values) > span else np.inf
        if decrease <= min_rel_decrease * abs(run.value) and min_rel_decrease:
            raise StopIteration

    if run.is_over():
        return
    limits = {"maxiter": run.max_iter + 1, "maxfun": 1 << 30, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
    start = (run.W if root is None else run.W @ np.tril(root)).ravel()
    minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=after_step, options=limits)


_METHODS: dict[str, Callable[[Descent], None]] = {
    "newton": _newton, "bfgs": _bfgs, "gradient": _gradient, "bfgs-newton": _bfgs_then_newton,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EMSettings(Settings):
    """Settings of the EM algorithm for the parameter ``em`` of :class:`polyopt.PLUME`.

    Parameters
    ----------
    inner : int, optional
        Largest number of iterations of an M-step; by default 1, or 5 with "bfgs".
    anneal : bool, default=True
        True: each run begins with a soft gate, γ = 1/4, and doubles γ up to `gamma`.
    polish : bool, default=True
        True: the objective itself is minimised once EM becomes slow, or after 15 steps. Without `polish` and
        `anneal`, a run is the paper's Algorithm 1, until a step decreases the objective by at most `tol`
        relatively; that need not be a stationary point.

    Examples
    --------
    >>> from polyopt import PLUME, EMSettings
    >>> PLUME(em=EMSettings(inner=5)).set_params(em__anneal=False).em
    EMSettings(inner=5, anneal=False, polish=True)
    """

    inner: int | None = None
    anneal: bool = True
    polish: bool = True

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {
        **shared(optional=["inner"]),
        "anneal": ["boolean"],
        "polish": ["boolean"],
    }


@estimator
class PLUME(PolyhedralClassifier):
    """Polyhedral learning by mixture of experts, of Shah, Sastry & Manwani [1]_.

    With scores ``s_k = W_k'x + b_k``, every face is a logistic expert, and the gate has its largest weight at
    the face with the least score: ``P(inside | x) = Σ_k g_k(x) / (1 + exp(-s_k))``, ``g_k`` proportional to
    ``exp(-γ s_k)``. Minimises the negative log-likelihood plus ``ridge/2 (||W||² + ||b||²)`` by the EM
    algorithm, no step of which raises it. Once these steps become slow, Newton's method or L-BFGS minimises
    it directly to a stationary point, with every `solver` of the M-step. The problem is not convex for more
    than one face. As γ grows the model becomes SPLA1's, ``P = σ(min_k s_k)``.

    Parameters
    ----------
    n_faces : int, default=3
        K, the number of faces; one is logistic regression.
    gamma : float, default=1.0
        γ, the sharpness of the gate, at least 0. With a sharp gate samples hardly change faces during the
        fit; ``EMSettings(anneal=True)`` therefore begins with a soft one.
    ridge : float, default=0.1
        ρ, at least 0. With 0 there is no certificate, and separable data have no optimum; the normals are
        then the shortest with their scores, so that a feature that is constant in training has the weight 0.
    solver : {"auto", "newton", "bfgs", "gradient", "exact"}, default="auto"
        Solver of the M-step: a few steps of Newton's method on all faces together, of L-BFGS, or of gradient
        ascent with backtracking, or ("exact") the explicit program of ``formulations.plume`` to optimality.
        "auto" is Newton's method up to a few hundred unknowns, else L-BFGS.
    em : EMSettings, optional
        Settings of the EM algorithm; by default ``EMSettings()``.
    decision : {"posterior", "polytope"}, default="posterior"
        Decision rule: the more probable class (``classes_[0]`` in a tie), or whether the sample is in the
        polytope of the faces. The two differ near the polytope's edges. There ``predict_proba``, which is the
        model's probability with both rules, may be less than one half for the class that "polytope" predicts.
    max_iter : int, default=5000
        Largest number of iterations per start: EM steps, also those of annealing, and iterations of Newton's
        method or L-BFGS in the polish, all together.
    tol : float, default=1e-6
        Relative tolerance of the certificate at the result of a run.

    Attributes
    ----------
    duals_ : pandas.DataFrame
        One row per sample and face, in input order: the responsibility of the face for the sample, and the
        multiplier, the coefficient of the sample in the face.
    history_ : pandas.DataFrame
        One row per iteration of every start, and one numbered 0 for the start itself. Objectives are
        comparable between rows of equal ``gamma``. Rows of EM steps and the last row of the polish have the
        number of faces in use.

    References
    ----------
    .. [1] Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts, 2019.

    Examples
    --------
    >>> from polyopt import PLUME, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = PLUME(2, inside_label=1, n_init=2, random_state=0).fit(data.X, data.y)
    >>> machine.polytope_.n_faces, machine.predict_proba(data.X).shape
    (2, (351, 2))
    >>> machine.certificate().relative_gap < 1e-6  # of the program for its responsibilities
    True
    """

    _: KW_ONLY
    gamma: float = 1.0
    ridge: float = 0.1
    solver: Method = "auto"
    em: EMSettings | None = None
    decision: str = "posterior"
    max_iter: int = 5000
    tol: float = 1e-6
    class_weight: ClassWeight = None

    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32]
    _scored_dtypes: ClassVar[Any] = _dtypes
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        **shared("tol"),
        "gamma": checked_by("gamma", at_least, 0.0),
        "ridge": checked_by("ridge", at_least, 0.0),
        "solver": [StrOptions({"auto", "newton", "bfgs", "gradient", "exact"})],
        "em": [EMSettings, None],
        "decision": [StrOptions({"posterior", "polytope"})],
    }
    _settings: ClassVar[dict[str, type[Settings]]] = {"em": EMSettings}
    _models_probabilities: ClassVar[bool] = True

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        em = self.em or EMSettings()
        problem = PlumeProblem(
            X, y, c, self.n_faces,
            gamma=self.gamma, ridge=self.ridge, method=self.solver, inner=em.inner,
        )  # fmt: skip
        self.solver_ = problem.method
        n_init = self.n_init if self.n_faces > 1 else 1  # logistic regression has one optimum
        solution = solve_plume(
            problem, n_init=n_init, max_iter=self.max_iter, tol=self.tol, anneal=em.anneal,
            polish=em.polish, time_limit=self.time_limit, seed=seed, n_jobs=self.n_jobs,
        )  # fmt: skip
        if self.ridge == 0.0:
            faces = SampleSpan(X).project(solution["W"])
            solution = replace(solution, primal={**solution.primal, "W": faces})
        return solution

    def _binary_scores(self, X: Any) -> Array:
        return self._log_odds(X) if self._decides_by_model else super()._binary_scores(X)

    def _log_odds(self, X: Any) -> Array:
        W = np.column_stack([self.W_, self.b_])  # a copy without data has no solution_["W"]
        return self._side * mixture.log_odds(X, W, self._asked["gamma"])

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if not self._decides_by_model:
            return super()._draw_scores(graph, x)
        s = graph.affine(x, self.W_, self.b_)
        least = graph.over_columns("ReduceMin", s)
        gate = graph.op("Mul", graph.op("Sub", least, s), graph.constant(float(self._asked["gamma"])))
        inside, outside = (
            _draw_log_sum(graph, graph.op("Sub", gate, _draw_softplus(graph, signed_scores)))
            for signed_scores in (graph.op("Neg", s), s)
        )
        return graph.op("Mul", graph.op("Sub", inside, outside), graph.constant(self._side))

    @property
    def _decides_by_model(self) -> bool:
        """True if the model's probabilities decide, and not the polytope of the faces."""
        return bool(self._asked["decision"] == "posterior")

    def _binary_certificate(self, tol: float) -> Certificate:
        model = {name: self._asked[name] for name in ("gamma", "ridge")}
        return certify_plume(self._X, self._y, self.solution_["W"], **model, C=self._costs, tol=tol)

    def _multipliers(self) -> dict[str, Any]:
        W, n, K, gamma = self.solution_["W"], len(self._y), len(self.W_), self._asked["gamma"]
        r = mixture.responsibilities(self._X, self._y, W, gamma).ravel()
        alpha = mixture.multipliers(self._X, self._y, W, None, gamma, self._costs).ravel()
        p_other = expit(-self._y[:, None] * mixture.scores_in_blocks(self._X, W)).ravel()
        place = np.repeat(np.arange(n), K)
        states = np.array(["another face's", "shared", "its own"])
        return {
            "row": np.full(n * K, "score"),
            "letter": np.full(n * K, "alpha"),
            "place": place,
            "face": np.tile(np.arange(K), n),
            "multiplier": alpha,
            "responsibility": r,
            "doubt": p_other,
            "state": states[(r > 0.05).astype(int) + (r > 0.5)],
        }

    def generalization_bound(self, delta: float = 0.05) -> "PolytopeBound":
        """Return a bound on the error, by Rademacher complexity, from the training data (two classes).

        It is for the decision rule of the parameter `decision`.

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data, for a γ that
            was chosen without them.
        """
        from formulations.error_bounds.rademacher import plume_bound, polytope_bound

        self._need_one_polytope("the bound")
        self._need_data("generalization_bound()")
        if not self._decides_by_model:
            # The theorem for polytopes has faces that are positive outside.
            return polytope_bound(self._X, -self._y, -self.solution_["W"], delta)
        return plume_bound(self._X, self._y, self.solution_["W"], self._asked["gamma"], delta)


def _draw_log_sum(graph: Graph, a: str) -> str:
    """Draw the logarithm (n, 1) of the sum of the exponentials of a (n, K), and return its name."""
    largest = graph.over_columns("ReduceMax", a)
    sums = graph.over_columns("ReduceSum", graph.op("Exp", graph.op("Sub", a, largest)))
    return graph.op("Add", largest, graph.op("Log", sums))


def _draw_softplus(graph: Graph, s: str) -> str:
    """Draw ``log(1 + e^s)``, for which ONNX Runtime has an operation in single precision only."""
    exponential = graph.op("Exp", graph.op("Neg", graph.op("Abs", s)))
    log_term = graph.op("Log", graph.op("Add", graph.constant(1.0), exponential))
    return graph.op("Add", graph.op("Max", s, graph.constant(0.0)), log_term)
