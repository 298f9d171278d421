"""PLUME, polyhedral learning by a mixture of experts: expectation and maximisation, then Newton or L-BFGS.

A step computes the responsibilities of the faces for each sample, and then lowers the M-step's convex program
F(W; R) at them, to its optimum or partially: either lowers the penalised negative log-likelihood L(W), and
no other step is taken. A partial M-step is enough, and often better: a full one follows responsibilities that
the next step revises anyway. Two things help EM. It is slow at its end, where L itself is minimised instead.
And at a sharp gate the samples hardly change faces any more, so that runs begin with a soft gate, which is
sharpened on the way.

Both objectives are of :mod:`formulations.mixture`. Newton takes the full Hessian of all faces, as without the
blocks between faces its convergence is not quadratic; if it is not positive definite, as L's need not be, its
diagonal is lifted until it is.
"""

from __future__ import annotations

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
from polyopt.estimators.parameters import Settings, estimator, ruled, shared
from polyopt.linalg.span import SampleSpan
from polyopt.optim.newton_steps import ARMIJO, positive_factor
from polyopt.optim.rounds import DescentProblem, Stage, random_faces, run_from_many_starts
from polyopt.optim.starts import TIE
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.logistic_certificate import certify_plume

if TYPE_CHECKING:
    from formulations.error_bounds.rademacher import PolytopeBound


Method = Literal["auto", "exact", "newton", "bfgs", "gradient"]


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of PLUME's descent."""

    first_gamma: float = 0.25  # sharpness of the gate at which annealing begins
    gamma_ratio: float = 2.0  # between two of its stages, up to the γ asked
    steps_per_gamma: int = 5
    steps_before_polish: int = 15  # EM steps at most; on separable data L falls for long
    min_rel_decrease_em: float = 0.01  # decrease of L by a step below which the polish begins
    max_newton_entries: int = 5000  # entries of W up to which Newton's method is allowed: a Hessian of 200 MB
    newton_entries: int = 600  # entries of W up to which Newton is quicker than L-BFGS
    min_rel_decrease_bfgs: float = 1e-5  # in `bfgs_span` iterations, below which Newton follows
    bfgs_span: int = 10
    one_thread_products: float = 2e7  # multiplications of X W' up to which BLAS has one thread
    rel_rounding: float = 1e-14  # relative difference of values that counts as rounding


OPTIONS = Options()


class PlumeProblem(DescentProblem):
    """Steps of expectation and maximisation for PLUME.

    X, y, c, n_faces: as in :func:`~polyopt.optim.rounds.random_faces`; the weights are positive.
    gamma: sharpness of the gate, at least 0.
    ridge: ρ, on the biases as well; positive for method="exact".
    method: the explicit program, or a method of :func:`minimise`; "auto" is Newton's for some hundred entries
        of W.
    inner: iterations of an M-step at most; by default 1, 5 with "bfgs". The explicit program is solved to
        its end.
    """

    _program: Any = None  # the explicit program, built at its first use

    def __init__(
        self, X: Matrix, y: Array, c: Array, n_faces: int, *, gamma: float = 1.0, ridge: float = 1e-3,
        method: Method = "auto", inner: int | None = None, options: Options = OPTIONS,
    ):  # fmt: skip
        mixture.check_model(gamma, ridge)
        whole("n_faces", n_faces)
        whole_or_none("inner", inner)
        one_of("method", method, ("auto", "exact", "newton", "bfgs", "gradient"))
        if method == "exact" and ridge == 0.0:
            raise ValueError("ridge must be positive with method='exact': its program needs an optimum")
        self.X, self.y, self.c, self.n_faces = X, y, as_costs(c, len(y)), n_faces
        self.gamma, self.ridge, self.options = gamma, ridge, options
        n_entries = n_faces * (X.shape[1] + 1)
        self.is_small = n_entries * X.shape[0] <= options.one_thread_products
        has_few_entries = n_entries <= options.newton_entries
        self.polish_method = "bfgs-newton" if has_few_entries else "bfgs"
        if method == "auto":
            method = "newton" if has_few_entries else "bfgs"
        self.method, self.inner = method, inner or (5 if method == "bfgs" else 1)
        self._cached_value: tuple[Array, float] | None = None

    def at(self, gamma: float) -> PlumeProblem:
        """Return the same problem with another sharpness of the gate."""
        other = copy.copy(self)
        other.gamma, other._program, other._cached_value = gamma, None, None
        return other

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return sources of randomness for `count` starts."""
        return [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Array:
        """Draw faces to begin from, no two alike."""
        return random_faces(self.X, self.y, self.c, self.n_faces, rng)

    def value(self, W: Array) -> float:
        """Return the penalised negative log-likelihood L(W)."""
        # The step, its record and the next step evaluate the same W.
        if self._cached_value is None or self._cached_value[0] is not W:
            self._cached_value = W, mixture.loss(self.X, self.y, W, self.gamma, self.c, self.ridge)
        return self._cached_value[1]

    def step(self, W: Array, time_limit: float | None = None) -> Solution:
        """Make an E-step and an M-step; return the same point, as STALLED, if they would not lower L."""
        R = mixture.responsibilities(self.X, self.y, W, self.gamma)
        m_step = (
            self._explicit_m_step(R, time_limit)
            if self.method == "exact"
            else self._fast_m_step(R, W, time_limit)
        )
        if m_step.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        before = self.value(W)
        after = self.value(m_step["W"]) if m_step.primal else np.inf
        is_out_of_time = m_step.status is Status.TIME_LIMIT
        if after <= before:
            status = Status.TIME_LIMIT if is_out_of_time else Status.SOLVED
            return replace(m_step, status=status, primal={"W": m_step["W"]}, objective=after, bound=None)
        # At a fixed point the accuracy of a conic solver may raise the objective a little.
        is_fixed = after <= before + TIE * abs(before)
        status = Status.TIME_LIMIT if is_out_of_time else Status.SOLVED if is_fixed else Status.STALLED
        return replace(m_step, status=status, primal={"W": W}, duals={}, objective=before, bound=None)

    def record(self, W: Array) -> dict[str, float]:
        """Return sharpness, log-likelihood without the ridge, and the number of faces in use."""
        used = np.argmin(mixture.scores_in_blocks(self.X, W), axis=1)
        return {
            "gamma": self.gamma,
            "log_likelihood": 0.5 * self.ridge * float(np.sum(W**2)) - self.value(W),
            "occupied": float(len(np.unique(used))),
            "perplexity": perplexity(used, self.c),
        }

    def polish(self, em_end: Solution, max_iter: int, tol: float, time_limit: float | None) -> Solution:
        """Minimise L itself from the end of EM."""
        if max_iter <= 0:
            return replace(em_end, status=Status.ITERATION_LIMIT)
        point = minimise(
            self.X, self.y, self.c, None, em_end["W"], gamma=self.gamma, ridge=self.ridge,
            method=self.polish_method, max_iter=max_iter, tol=tol, time_limit=time_limit,
            options=self.options,
        )  # fmt: skip
        records = [
            {
                "step": em_end.iterations + number,
                **record,
                "gamma": self.gamma,
                "seconds": em_end.solve_time + record["seconds"],
            }
            for number, record in enumerate(point.history, 1)
        ]
        if records:
            records[-1] |= self.record(point["W"])
            tell(records[-1])
            show(records[-1], lambda: {"W": point["W"]})
        return replace(
            point,
            status=Status.CONVERGED if point.status is Status.SOLVED else point.status,
            bound=None,
            iterations=em_end.iterations + point.iterations,
            solve_time=em_end.solve_time + point.solve_time,
            history=(*em_end.history, *records),
        )

    def _fast_m_step(self, R: Array, W: Array, time_limit: float | None) -> Solution:
        return minimise(
            self.X, self.y, self.c, R, W, gamma=self.gamma, ridge=self.ridge, method=self.method,
            max_iter=self.inner, time_limit=time_limit, options=self.options,
        )  # fmt: skip

    def _explicit_m_step(self, R: Array, time_limit: float | None) -> Solution:
        if self._program is None:
            from formulations.plume import m_step

            self._program = m_step(self.X, self.y, R, self.gamma, self.c, self.ridge)
        return self._program.set(R=R).solve(time_limit=time_limit)


def solve_plume(
    problem: PlumeProblem, *, n_init: int = 10, max_iter: int = 5000, tol: float = 1e-6, anneal: bool = True,
    polish: bool = True, time_limit: float | None = None, seed: int = 0, n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Run expectation and maximisation from many starts, polish each end, and keep the best.

    Without `anneal` and `polish` it is the paper's Algorithm 1.

    tol: relative tolerance of the certificate that the polish is to reach. Without a polish, a run ends when
        a step lowers the objective by no more than `tol`, relative.
    Other arguments are as in :class:`PLUME`. ``duals`` has ``score``, the multipliers of
    :func:`formulations.mixture.multipliers`. The status is CONVERGED if the polish ended at a stationary
    point, or without a polish if the steps settled, which need not be at one.
    """
    whole("max_iter", max_iter)
    options = problem.options
    step_tol = max(tolerance(tol), options.min_rel_decrease_em)
    stages: list[Stage[Array]] = [
        Stage(problem.at(gamma), options.steps_per_gamma, step_tol)
        for gamma in (softer(problem.gamma, options) if anneal else [])
    ]
    last = (options.steps_before_polish, step_tol) if polish else (max_iter, tol)
    stages.append(Stage(problem, *last))

    def finish(found: Solution, time_left: float | None) -> Solution:
        left = max_iter - found.iterations
        return problem.polish(found, left, 0.1 * tol, time_left)  # well within the tolerance

    with single_threaded_blas() if problem.is_small else nullcontext():
        best = run_from_many_starts(
            stages, n_init=n_init, time_limit=time_limit, seed=seed, n_jobs=n_jobs, max_iter=max_iter,
            finish=finish if polish else None,
        )  # fmt: skip
    alpha = mixture.multipliers(problem.X, problem.y, best["W"], None, problem.gamma, problem.c)
    then = ", then L itself" if polish else ""
    return replace(best, duals={"score": alpha}, solver=f"em ({problem.method}){then}")


def softer(gamma: float, options: Options = OPTIONS) -> list[float]:
    """Return the γ below the one asked at which a run begins, in rising order."""
    first, ratio = options.first_gamma, options.gamma_ratio
    count = int(np.ceil(np.log(gamma / first) / np.log(ratio))) if gamma > first else 0
    return [first * ratio**i for i in range(count)]


def minimise(
    X: Matrix, y: Array, c: Array, R: Array | None, W: Array, *, gamma: float, ridge: float,
    method: str = "newton", max_iter: int = 200, tol: float = 1e-9, time_limit: float | None = None,
    options: Options = OPTIONS,
) -> Solution:  # fmt: skip
    """Minimise F(W; R), the M-step, or L(W) itself if R is None, from W (K, m+1).

    By Fisher's identity L has the gradient of the M-step at its own responsibilities, so a stationary point
    of L is a fixed point of EM. L has no bound; without a ridge, on separable data, its descent ends when the
    mean loss of a sample is `tol`.

    method: "newton" with the full Hessian; "bfgs", of limited memory; "gradient", with steps of Barzilai and
        Borwein; or "bfgs-newton", L-BFGS while it makes progress, and then Newton. Each backtracks until the
        objective falls.
    tol: relative tolerance: of the proven gap ‖∇F‖²/(2ρ), if there is a ridge, and of the gradient relative
        to the terms that cancel in it (:func:`formulations.mixture.turnover`).
    """
    methods: dict[str, Callable[[_Run, Options], None]] = {
        "newton": _newton, "bfgs": _bfgs, "gradient": _gradient, "bfgs-newton": _bfgs_then_newton,
    }  # fmt: skip
    one_of("method", method, tuple(methods))
    mixture.check_model(gamma, ridge)
    whole("max_iter", max_iter)
    tolerance(tol)
    if method.endswith("newton") and W.size > options.max_newton_entries:
        raise ValueError(
            f"method={method!r} is for W of at most {options.max_newton_entries} entries, not {W.size}: its "
            "Hessian has the square of that; method='bfgs' has no such limit"
        )
    objective = MixtureLoss(X, y, c, R, gamma, ridge)
    run = _Run(objective, np.array(W, dtype=float), max_iter, tol, time_limit, options.rel_rounding)
    start = run.W, run.value, run.gradient
    try:
        methods[method](run, options)
    except KeyboardInterrupt:
        run.status = interrupted()
    if run.value > start[1]:  # by rounding
        run.W, run.value, run.gradient = start
    bounded = R is not None and ridge > 0
    return Solution(
        run.status, {"W": run.W}, {}, run.value,
        run.value - objective.gap(run.gradient) if bounded else None, method, run.iterations,
        solve_time=run.clock.seconds, history=tuple(run.history),
    )  # fmt: skip


@dataclass(frozen=True)
class MixtureLoss:
    """F(W; R), or L(W) if R is None, with its ridge."""

    X: Matrix
    y: Array
    c: Array
    R: Array | None
    gamma: float
    ridge: float

    def __call__(self, W: Array) -> tuple[float, Array]:
        """Return the value, and the slope (K, m+1)."""
        return mixture.value_and_gradient(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)

    def hessian(self, W: Array) -> Array:
        """Return the second derivatives, for W taken row by row."""
        return mixture.hessian(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)

    def metric(self) -> Array:
        """Return ¼ Σ_i c_i x̃_i x̃_i' + ρ I, an upper bound on the Hessian of one face."""
        one = np.ones((len(self.y), 1))
        face = np.zeros((1, self.X.shape[1] + 1))
        return mixture.hessian(self.X, self.y, face, one, 0.0, self.c, self.ridge)

    def is_flat(self, W: Array, value: float, gradient: Array, tol: float) -> bool:
        """Return True if gap and slope are within the tolerance."""
        if self.R is None and self.ridge == 0.0 and value <= tol * float(self.c.sum()):
            return True  # the loss is negligible, and without a ridge it may have no minimum
        gap = self.gap(gradient)
        if gap > tol * abs(value) and np.isfinite(gap):
            return False
        scale = mixture.turnover(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)
        return float(np.abs(gradient).max()) <= tol * scale

    def gap(self, gradient: Array) -> float:
        """Bound the distance to the minimum of a convex objective."""
        return float(np.sum(gradient**2)) / (2.0 * self.ridge) if self.ridge > 0 else np.inf


class _Run:
    """An iterate, its history, and the reason to stop."""

    def __init__(
        self, objective: MixtureLoss, W: Array, max_iter: int, tol: float, time_limit: float | None,
        rel_rounding: float,
    ):  # fmt: skip
        self.rel_rounding = rel_rounding
        self.objective, self.max_iter, self.tol, self.clock = objective, max_iter, tol, Clock(time_limit)
        self.W, self.history, self.status = W, list[dict[str, float]](), Status.STALLED
        self.value, self.gradient = objective(W)

    @property
    def iterations(self) -> int:
        """Number of iterations made, each with a record in the history."""
        return len(self.history)

    def is_over(self) -> bool:
        """Return True if the run is to stop here, with the reason in the status."""
        if self.objective.is_flat(self.W, self.value, self.gradient, self.tol):
            self.status = Status.SOLVED
        elif self.iterations >= self.max_iter:
            self.status = Status.ITERATION_LIMIT
        elif self.clock.is_over:
            self.status = Status.TIME_LIMIT
        else:
            return False
        return True

    def move(self, W: Array, value: float, gradient: Array) -> None:
        self.W, self.value, self.gradient = W, value, gradient
        self.history.append({"seconds": self.clock.seconds, "objective": value})

    def descend(self, direction: Array, step: float = 1.0) -> bool:
        """Move along the direction by backtracking; return False if no point on it is better."""
        slope = float(np.sum(direction * self.gradient))
        largest, rounding = float(np.abs(self.gradient).max()), self.rel_rounding * abs(self.value)
        while True:
            W = self.W + step * direction
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.objective(W)
            exceeds_rounding = -step * slope > rounding
            if value <= self.value + (ARMIJO * step * slope if exceeds_rounding else rounding) and (
                # If values differ by rounding alone, the gradient decides.
                exceeds_rounding or float(np.abs(gradient).max()) < 0.5 * largest
            ):
                self.move(W, value, gradient)
                return True
            if not exceeds_rounding:
                return False
            step *= 0.5


def _newton(run: _Run, _: Options) -> None:
    while not run.is_over():
        factor = positive_factor(run.objective.hessian(run.W))
        direction = cho_solve(factor, -run.gradient.ravel()).reshape(run.W.shape)
        if not run.descend(direction):
            return


def _gradient(run: _Run, options: Options) -> None:
    step = 1.0 / (float(np.linalg.norm(run.gradient)) or 1.0)
    while not run.is_over():
        before, slope = run.W, run.gradient
        if not run.descend(-run.gradient, step):
            return
        dW, dg = run.W - before, run.gradient - slope
        curvature = float(np.sum(dW * dg))  # times ‖dW‖²
        dW_sq, dg_sq = float(np.sum(dW**2)), float(np.sum(dg**2))
        is_flat = curvature <= options.rel_rounding * np.sqrt(dW_sq * dg_sq)
        step = 2.0 * step if is_flat else dW_sq / curvature  # Barzilai & Borwein


def _bfgs_then_newton(run: _Run, options: Options) -> None:
    """Run L-BFGS while it makes progress, in the metric of logistic regression, and then Newton.

    Far from a minimum of L its Hessian is not positive definite, and Newton's steps bring no more than those
    of L-BFGS, which cost a tenth or less. Near it Newton needs few. The metric bounds the Hessian of logistic
    regression for any face (Böhning & Lindsay, 1988), and makes L-BFGS independent of the features' units.
    """
    _bfgs(run, options, positive_factor(run.objective.metric())[0], options.min_rel_decrease_bfgs)
    if run.status is Status.STALLED:
        _newton(run, options)


def _bfgs(run: _Run, options: Options, root: Array | None = None, min_rel_decrease: float = 0.0) -> None:
    """Run L-BFGS on Z = W times a lower triangular `root`, until a span of steps decreases too little."""
    values, span, latest = [run.value], options.bfgs_span, dict[str, Any]()

    def faces(z: Array) -> Array:
        Z = z.reshape(run.W.shape)
        return Z.copy() if root is None else solve_triangular(root, Z.T, trans="T", lower=True).T

    def slopes(G: Array) -> Array:
        return (G if root is None else solve_triangular(root, G.T, lower=True).T).ravel()

    def evaluate(z: Array) -> tuple[float, Array]:
        W = faces(z)
        value, gradient = run.objective(W)
        latest["point"] = z.copy(), W, value, gradient
        return value, slopes(gradient)

    def accepted(z: Array) -> None:
        if not np.array_equal(latest["point"][0], z):
            evaluate(z)  # the last trial of the line search was not the one it took
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
    minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=accepted, options=limits)


@dataclass(frozen=True, kw_only=True)
class EMSettings(Settings):
    """Settings of expectation and maximisation for the parameter ``em`` of :class:`polyopt.PLUME`.

    Parameters
    ----------
    inner : int, optional
        Steps of the M-step at most; by default 1, 5 with "bfgs".
    anneal : bool, default=True
        True: each run begins at a soft gate, γ = 1/4, and doubles it up to `gamma`.
    polish : bool, default=True
        True: the objective itself is minimised once the steps become slow, or after 15 of them. Without
        it and without `anneal`, a run is the paper's Algorithm 1 to its own end, where a step lowers the
        objective by no more than `tol`, relative; that need not be a stationary point.

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

    With scores ``s_k = W_k'x + b_k``, every face is a logistic expert and the gate prefers the face with the
    least score: ``P(inside | x) = Σ_k g_k(x) / (1 + exp(-s_k))``, ``g_k`` proportional to ``exp(-γ s_k)``.
    Minimises the negative log-likelihood plus ``ridge/2 (||W||² + ||b||²)`` by expectation and maximisation,
    no step of which raises it. Where these steps become slow, Newton's method or L-BFGS minimises it directly
    to a stationary point, whatever `solver` made the M-steps. The problem is not convex for more than one
    face. As γ grows the model becomes SPLA1's, ``P = σ(min_k s_k)``.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces; one is logistic regression.
    gamma : float, default=1.0
        γ, the sharpness of the gate, at least 0. At a sharp gate samples hardly change faces while
        learning, for which there is ``EMSettings(anneal=True)``.
    ridge : float, default=0.1
        ρ, at least 0; without it nothing can be proven, and separable data have no optimum. With 0 the
        normals are the shortest with their scores: a feature that is constant in training has the weight 0.
    solver : {"auto", "newton", "bfgs", "gradient", "exact"}, default="auto"
        The M-step: some steps of Newton's method on all faces together, of L-BFGS, or up the gradient with
        backtracking, or ("exact") the explicit program of ``formulations.plume`` to its end. "auto" is
        Newton's up to a few hundred unknowns, else L-BFGS.
    em : EMSettings, optional
        Steps, gate and end of expectation and maximisation; by default ``EMSettings()``.
    decision : {"posterior", "polytope"}, default="posterior"
        Decision rule: which class is the more probable (``classes_[0]`` if both are equally so), or whether
        the sample is in the polytope of the faces. The two differ near the polytope's edges, where
        ``predict_proba``, which without `calibration` is the model's probability in either case, may be less
        than one half for the class that is predicted.
    n_init : int, default=10
        Starts, of which the best end is kept.
    max_iter : int, default=5000
        Iterations at most, per start: steps of expectation and maximisation, also those at softer gates,
        and iterations of Newton's method or L-BFGS in the polish, all together.
    tol : float, default=1e-6
        Relative tolerance of the certificate that the end of a run is to reach.

    Attributes
    ----------
    polytope_ : Polytope
        Where all scores are positive, as a set: redundant faces, vertices, volume, rules (binary problems).
    assignment_ : ndarray of int, shape (n,)
        The face with the least score for each sample (binary problems; samples of zero weight left out).
    duals_ : pandas.DataFrame
        One row per sample and face: how far the face is responsible for the sample, and what the sample
        pulls at it, in input order.
    history_ : pandas.DataFrame
        One row per iteration of every start, and one numbered 0 for the start itself. Rows of one ``gamma``
        compare. The faces in use are in the rows of steps and of the end of the polish.

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
        "gamma": ruled("gamma", at_least, 0.0),
        "ridge": ruled("ridge", at_least, 0.0),
        "solver": [StrOptions({"auto", "newton", "bfgs", "gradient", "exact"})],
        "em": [EMSettings, None],
        "decision": [StrOptions({"posterior", "polytope"})],
    }
    _settings: ClassVar[dict[str, type[Settings]]] = {"em": EMSettings}
    _moved: ClassVar[dict[str, str]] = {
        **{name: f"em__{name}" for name in EMSettings().get_params()},
        "init": "the starts are random faces",
    }
    _models_probabilities: ClassVar[bool] = True

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        em = self.em or EMSettings()
        problem = PlumeProblem(
            X, y, c, self.n_faces,
            gamma=self.gamma, ridge=self.ridge, method=self.solver, inner=em.inner,
        )  # fmt: skip
        self.solver_ = problem.method
        found = solve_plume(
            problem,
            n_init=self.n_init if self.n_faces > 1 else 1,  # logistic regression has one optimum
            max_iter=self.max_iter,
            tol=self.tol,
            anneal=em.anneal,
            polish=em.polish,
            time_limit=self.time_limit,
            seed=seed,
            n_jobs=self.n_jobs,
        )
        if self.ridge == 0.0:
            faces = SampleSpan(X).project(found["W"])
            found = replace(found, primal={**found.primal, "W": faces})
        return found

    def _binary_scores(self, X: Any) -> Array:
        if self._asked["decision"] == "polytope":
            return super()._binary_scores(X)
        return self._log_odds(X)

    def _log_odds(self, X: Any) -> Array:
        return self._side * mixture.log_odds(X, self._faces, self._asked["gamma"])

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self._asked["decision"] == "polytope":
            return super()._draw_scores(graph, x)
        s = graph.affine(x, self.W_, self.b_)
        least = graph.over_columns("ReduceMin", s)
        gate = graph.op("Mul", graph.op("Sub", least, s), graph.constant(float(self._asked["gamma"])))
        inside, outside = (
            _draw_log_sum(graph, graph.op("Sub", gate, _draw_softplus(graph, each)))
            for each in (graph.op("Neg", s), s)
        )
        return graph.op("Mul", graph.op("Sub", inside, outside), graph.constant(self._side))

    @property
    def _decides_by_model(self) -> bool:
        """True if the model's probabilities decide, and not the polytope of the faces."""
        return bool(self._asked["decision"] == "posterior")

    def _certify(self, W: Array, tol: float) -> Certificate:
        return certify_plume(
            self._X,
            self._y,
            W,
            gamma=self._asked["gamma"],
            ridge=self._asked["ridge"],
            C=self._costs,
            tol=tol,
        )

    def _multipliers(self) -> dict[str, Any]:
        W, n, K = self.solution_["W"], len(self._y), len(self.W_)
        r = mixture.responsibilities(self._X, self._y, W, self._asked["gamma"]).ravel()
        wrong = expit(-self._y[:, None] * mixture.scores_in_blocks(self._X, W)).ravel()
        place = np.repeat(np.arange(n), K)
        states = np.array(["another face's", "shared", "its own"])
        return {
            "row": np.full(n * K, "score"),
            "letter": np.full(n * K, "alpha"),
            "place": place,
            "face": np.tile(np.arange(K), n),
            "multiplier": mixture.multipliers(
                self._X, self._y, W, None, self._asked["gamma"], self._costs
            ).ravel(),
            "responsibility": r,
            "doubt": wrong,
            "state": states[(r > 0.05).astype(int) + (r > 0.5)],
        }

    def generalization_bound(self, delta: float = 0.05) -> PolytopeBound:
        """Return a bound on the error, by Rademacher complexity, from the training data (two classes).

        It is of what `decision` decides by: the log-odds, or the polytope of the faces.

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data, for a γ that
            was chosen without them.
        """
        from formulations.error_bounds.rademacher import plume_bound, polytope_bound

        self._need_one_polytope("the bound")
        self._need_data("generalization_bound()")
        if self._asked["decision"] == "polytope":
            # The polytope's theorem has its faces positive outside.
            return polytope_bound(self._X, -self._y, -self.solution_["W"], delta)
        return plume_bound(self._X, self._y, self.solution_["W"], self._asked["gamma"], delta)


def _draw_log_sum(graph: Graph, a: str) -> str:
    """Return the logarithm (n, 1) of the sum of the columns' exponentials."""
    top = graph.over_columns("ReduceMax", a)
    sums = graph.over_columns("ReduceSum", graph.op("Exp", graph.op("Sub", a, top)))
    return graph.op("Add", top, graph.op("Log", sums))


def _draw_softplus(graph: Graph, s: str) -> str:
    """``log(1 + e^s)``; ONNX Runtime's own operation is of single precision alone."""
    small = graph.op("Exp", graph.op("Neg", graph.op("Abs", s)))
    rest = graph.op("Log", graph.op("Add", graph.constant(1.0), small))
    return graph.op("Add", graph.op("Max", s, graph.constant(0.0)), rest)
