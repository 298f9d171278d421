"""PLUME (Shah, Sastry & Manwani 2019): expectation and maximisation, then Newton or L-BFGS on the likelihood.

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
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from formulations import mixture
from formulations.language.arguments import as_costs, one_of, tolerance, whole, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, Matrix
from formulations.polytope import perplexity
from polyopt.base.progress import show, tell
from polyopt.base.threads import blas_held
from polyopt.optim.logistic_newton import ARMIJO, positive_factor
from polyopt.optim.rounds import DescentProblem, Stage, random_faces, run_from_many_starts
from polyopt.optim.starts import TIE

Climber = Literal["newton", "bfgs", "gradient"]
Method = Literal["auto", "exact", "newton", "bfgs", "gradient"]


@dataclass(frozen=True)
class Options:
    """Numbers of PLUME's descent.

    first_gamma, gamma_ratio, steps_per_gamma: annealing begins at this γ, and multiplies it by the ratio
        after so many steps, up to the γ asked.
    steps_before_polish, min_rel_decrease_em: EM hands on to the polish after so many steps, as on separable
        data L falls for long, or when a step lowers L by no more than this.
    max_newton_entries: entries of W up to which Newton's method is allowed: a Hessian of 200 MB.
    newton_entries: entries of W up to which Newton is quicker than L-BFGS.
    min_rel_decrease_bfgs, bfgs_span: L-BFGS hands on to Newton when so many iterations lower L by less.
    one_thread_products: multiplications of X W' up to which BLAS gets one thread: they take milliseconds.
    rel_rounding: relative difference of values that counts as rounding.
    """

    first_gamma: float = 0.25
    gamma_ratio: float = 2.0
    steps_per_gamma: int = 5
    steps_before_polish: int = 15
    min_rel_decrease_em: float = 0.01
    max_newton_entries: int = 5000
    newton_entries: int = 600
    min_rel_decrease_bfgs: float = 1e-5
    bfgs_span: int = 10
    one_thread_products: float = 2e7
    rel_rounding: float = 1e-14


OPTIONS = Options()


class PlumeProblem(DescentProblem):
    """Steps of expectation and maximisation for PLUME.

    X, y, c, n_faces: as in :func:`~polyopt.optim.rounds.random_faces`; the weights are positive.
    gamma: sharpness of the gate, at least 0.
    ridge: ρ, on the biases as well; positive for method="exact".
    method: the explicit program, or a method of :func:`minimise`; "auto" is Newton's for some hundred entries
        of W.
    inner: iterations of an M-step at most; by default 1, 5 with "bfgs". The explicit program is always
        solved.
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
        entries = n_faces * (X.shape[1] + 1)
        self.is_small = entries * X.shape[0] <= options.one_thread_products
        few = entries <= options.newton_entries
        self.polisher = "bfgs-newton" if few else "bfgs"
        quick: Climber = "newton" if few else "bfgs"
        self.climber: Climber = quick if method == "auto" or method == "exact" else method
        self.method = self.climber if method == "auto" else method
        self.inner = inner or (5 if self.climber == "bfgs" else 1)
        self._known: tuple[Array, float] | None = None

    def at(self, gamma: float) -> PlumeProblem:
        """Return the same problem with another sharpness of the gate."""
        other = copy.copy(self)
        other.gamma, other._program, other._known = gamma, None, None
        return other

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Return sources of randomness for `count` starts."""
        return [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Array:
        """Draw faces to begin from, no two alike."""
        return random_faces(self.X, self.y, self.c, self.n_faces, rng)

    def value(self, W: Array) -> float:
        """Return the penalised negative log-likelihood L(W)."""
        # A step, its record and the next step ask for the same W.
        if self._known is None or self._known[0] is not W:
            self._known = W, mixture.loss(self.X, self.y, W, self.gamma, self.c, self.ridge)
        return self._known[1]

    def step(self, W: Array, time_limit: float | None = None) -> Solution:
        """Make an E-step and an M-step; return the same point, as STALLED, if they would not lower L."""
        R = mixture.responsibilities(self.X, self.y, W, self.gamma)
        found = self._explicit(R, time_limit) if self.method == "exact" else self._climb(R, W, time_limit)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        before = self.value(W)
        after = self.value(found["W"]) if found.primal else np.inf
        over = found.status is Status.TIME_LIMIT
        if after <= before:
            status = Status.TIME_LIMIT if over else Status.SOLVED
            return replace(found, status=status, primal={"W": found["W"]}, objective=after, bound=None)
        # A conic solver ends at its own accuracy, which at a fixed point may be above where it began.
        fixed = Status.SOLVED if after <= before + TIE * abs(before) else Status.STALLED
        status = Status.TIME_LIMIT if over else fixed
        return replace(found, status=status, primal={"W": W}, duals={}, objective=before, bound=None)

    def record(self, W: Array) -> dict[str, float]:
        """Return gate, log-likelihood without the ridge, and the number of faces in use."""
        used = np.argmin(mixture.scores_in_blocks(self.X, W), axis=1)
        return {
            "gamma": self.gamma,
            "log_likelihood": 0.5 * self.ridge * float(np.sum(W**2)) - self.value(W),
            "occupied": float(len(np.unique(used))),
            "perplexity": perplexity(used, self.c),
        }

    def polish(self, found: Solution, max_iter: int, tol: float, time_limit: float | None) -> Solution:
        """Minimise L itself from the end of EM."""
        if max_iter <= 0:
            return replace(found, status=Status.ITERATION_LIMIT)
        point = minimise(
            self.X, self.y, self.c, None, found["W"], gamma=self.gamma, ridge=self.ridge,
            method=self.polisher, max_iter=max_iter, tol=tol, time_limit=time_limit, options=self.options,
        )  # fmt: skip
        records = [
            {
                "step": found.iterations + number,
                **record,
                "gamma": self.gamma,
                "seconds": found.solve_time + record["seconds"],
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
            iterations=found.iterations + point.iterations,
            solve_time=found.solve_time + point.solve_time,
            history=(*found.history, *records),
        )

    def _climb(self, R: Array, W: Array, time_limit: float | None) -> Solution:
        return minimise(
            self.X, self.y, self.c, R, W, gamma=self.gamma, ridge=self.ridge, method=self.climber,
            max_iter=self.inner, time_limit=time_limit, options=self.options,
        )  # fmt: skip

    def _explicit(self, R: Array, time_limit: float | None) -> Solution:
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

    max_iter: iterations of each run at most: EM steps, at softer gates too, and iterations of the polish.
    tol: relative tolerance of the certificate that the polish is to reach. Without a polish, a run ends when
        a step lowers the objective by no more than `tol`, relative.
    anneal: begin each run at a soft gate, and sharpen it every few steps until γ is as asked.
    polish: minimise L itself as soon as EM becomes slow.
    time_limit: seconds, for everything together.
    Returns: ``primal`` has ``W``; ``duals`` has ``score``, the pull of each sample at each face
        (:func:`formulations.mixture.multipliers`). ``history`` has a record per iteration with its ``gamma``,
        and one of the start, numbered 0; only objectives of one γ compare. The faces in use are recorded for
        the steps and for the end of the polish. The status is CONVERGED if the polish ended at a stationary
        point, or without a polish if the steps settled, which need not be at one. A limit, or Ctrl-C, keeps
        the best point.
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

    with blas_held() if problem.is_small else nullcontext():
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

    X, y, c: samples (n, m), labels (+1 inside, -1 outside) and weights (n,). Float32 samples are not copied.
    R (n, K): responsibilities; rows add up to 1.
    method: "newton" with the full Hessian; "bfgs", of limited memory; "gradient", with steps of Barzilai and
        Borwein; or "bfgs-newton", L-BFGS while it makes progress, and then Newton. Each backtracks until the
        objective falls.
    max_iter: iterations at most, of both methods together.
    tol: relative tolerance: of the proven gap ‖∇F‖²/(2ρ), if there is a ridge, and of the gradient relative
        to the terms that cancel in it (:func:`formulations.mixture.turnover`).
    Returns: ``primal`` has ``W``, and ``bound`` the proven one of F if there is a ridge. The status is SOLVED
        within `tol`. A limit, or Ctrl-C, keeps the best point. ``history`` has a record of each iteration:
        ``seconds`` and ``objective``.
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
        """Backtrack along the direction; return False if no point on it is better."""
        slope = float(np.sum(direction * self.gradient))
        steepest, rounding = float(np.abs(self.gradient).max()), self.rel_rounding * abs(self.value)
        while True:
            W = self.W + step * direction
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.objective(W)
            visible = -step * slope > rounding
            if value <= self.value + (ARMIJO * step * slope if visible else rounding) and (
                # If values differ by rounding alone, the gradient decides.
                visible or float(np.abs(gradient).max()) < 0.5 * steepest
            ):
                self.move(W, value, gradient)
                return True
            if not visible:
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
        moved, turned = run.W - before, run.gradient - slope
        bend = float(np.sum(moved * turned))
        lengths = float(np.sum(moved**2)), float(np.sum(turned**2))
        straight = bend <= options.rel_rounding * np.sqrt(lengths[0] * lengths[1])
        step = 2.0 * step if straight else lengths[0] / bend


def _bfgs_then_newton(run: _Run, options: Options) -> None:
    """Run L-BFGS while it makes progress, in the metric of logistic regression, and then Newton.

    Far from a minimum of L its Hessian is not positive definite, and Newton's steps bring no more than those
    of L-BFGS, which cost a tenth or less. Near it Newton needs few. The metric, which bounds the Hessian of
    logistic regression for any face (Böhning & Lindsay, 1988), leaves nothing to the units of the features.
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
        fallen = values[-1 - span] - run.value if len(values) > span else np.inf
        if fallen <= min_rel_decrease * abs(run.value) and min_rel_decrease:
            raise StopIteration

    if run.is_over():
        return
    limits = {"maxiter": run.max_iter + 1, "maxfun": 1 << 30, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
    start = (run.W if root is None else run.W @ np.tril(root)).ravel()
    minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=accepted, options=limits)
