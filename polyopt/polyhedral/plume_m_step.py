"""PLUME's M-step, and its likelihood itself, climbed by Newton, by L-BFGS or along the gradient.

Both objectives are of :mod:`formulations.mixture`, and are minimised: F(W; R), convex, and L(W), which is
not. No method ends above where it began. Newton takes the full Hessian of all faces, as without the blocks
between faces its convergence is not quadratic; where it is not positive definite, as L's need not be, its
diagonal is lifted until it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

from formulations import mixture
from formulations.language.arguments import one_of, tolerance, whole
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.optim.logistic_newton import ARMIJO, positive_factor

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.language.types import Array, Matrix

    Method = Literal["newton", "bfgs", "gradient", "bfgs-newton"]

__all__ = ["MOST_FOR_NEWTON", "MixtureLoss", "maximise", "polish"]

MOST_FOR_NEWTON = 5000  # entries of W: a Hessian of 200 MB
_ROUNDING = 1e-14  # relative, within which two values count as equal
# Relative decrease, in how many iterations, under which L-BFGS hands on to Newton.
_MIN_REL_FALL, _SPAN = 1e-5, 10


class Given(TypedDict, total=False):
    """The method of :func:`maximise` and of :func:`polish`, and its limits."""

    method: Method
    max_iter: int
    tol: float
    time_limit: float | None


def maximise(
    X: Matrix,
    y: Array,
    c: Array,
    R: Array | None,
    W: Array,
    *,
    gamma: float,
    ridge: float,
    method: Method = "newton",
    max_iter: int = 200,
    tol: float = 1e-9,
    time_limit: float | None = None,
) -> Solution:
    """The M-step: the faces that maximise the expected log-likelihood, less the ridge.

    X, y, c: samples (n, m), labels (+1 inside, -1 outside) and weights (n,). Of float32 samples no copy is
        made.
    R (n, K): responsibilities; rows add up to 1. Without them it is L itself that is minimised
        (:func:`polish`).
    W (K, m+1): where to begin.
    gamma, ridge: sharpness of the gate, and ρ.
    method: Newton with the full Hessian, for K (m+1) up to 5000; L-BFGS; steps along the gradient, of the
        length that Barzilai and Borwein give; or L-BFGS while it makes way, and then Newton. Each backtracks
        until the objective falls.
    max_iter: iterations at most; of "bfgs-newton" those of both methods together.
    tol: relative tolerance: of the proven gap ‖∇F‖²/(2ρ), if there is a ridge, and of the gradient next to
        what it adds up before anything cancels (:func:`formulations.mixture.turnover`).
    time_limit: seconds.
    Returns: ``primal`` has ``W``, ``objective`` is F(W; R), and ``bound`` the proven one where there is a
        ridge. The status is SOLVED within `tol`. A limit, or Ctrl-C, keeps the best point. ``history`` has a
        record of each iteration: ``seconds`` and ``objective``.
    ValueError: the method does not exist, or is Newton's and the faces are too many for it.
    """
    return _minimise(MixtureLoss(X, y, c, R, gamma, ridge), W, method, max_iter, tol, time_limit)


def polish(
    X: Matrix, y: Array, c: Array, W: Array, *, gamma: float, ridge: float, **given: Unpack[Given]
) -> Solution:
    """Minimise the penalised negative log-likelihood L itself, for the tail on which EM is slow.

    By Fisher's identity L has the gradient of the M-step at its own responsibilities, so a point without one
    is a fixed point of EM. Arguments as in :func:`maximise`, and so the answer, but that L has no bound.
    Without a ridge, on separable data, it ends where the mean loss of a sample is `tol`.
    """
    return maximise(X, y, c, None, W, gamma=gamma, ridge=ridge, **given)


@dataclass(frozen=True)
class MixtureLoss:
    """F(W; R), or L(W) where R is None, with its ridge.

    X, y, c: samples (n, m), labels and weights.
    R (n, K): responsibilities.
    gamma, ridge: sharpness of the gate, and ρ.
    """

    X: Matrix
    y: Array
    c: Array
    R: Array | None
    gamma: float
    ridge: float

    def __call__(self, W: Array) -> tuple[float, Array]:
        """Its value, and its slope (K, m+1)."""
        return mixture.value_and_gradient(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)

    def hessian(self, W: Array) -> Array:
        """Its second derivatives, for W taken row by row."""
        return mixture.hessian(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)

    def metric(self) -> Array:
        """What the Hessian of one face is at most: ¼ Σ_i c_i x̃_i x̃_i' + ρ I, the one of a face of zeros."""
        one = np.ones((len(self.y), 1))
        face = np.zeros((1, self.X.shape[1] + 1))
        return mixture.hessian(self.X, self.y, face, one, 0.0, self.c, self.ridge)

    def is_flat(self, W: Array, value: float, gradient: Array, tol: float) -> bool:
        """Whether a point is as good as the tolerance asks, by its gap and by its slope."""
        if self.R is None and self.ridge == 0.0 and value <= tol * float(self.c.sum()):
            return True  # hardly any loss is left, and without a ridge it may have no least value
        gap = self.gap(gradient)
        if gap > tol * abs(value) and np.isfinite(gap):
            return False
        scale = mixture.turnover(self.X, self.y, W, self.R, self.gamma, self.c, self.ridge)
        return float(np.abs(gradient).max()) <= tol * scale

    def gap(self, gradient: Array) -> float:
        """What is left above the least value at most, for a convex one."""
        return float(np.sum(gradient**2)) / (2.0 * self.ridge) if self.ridge > 0 else np.inf


class _Run:
    """The point at which a method stands, and why it is to stop."""

    def __init__(
        self, objective: MixtureLoss, W: Array, max_iter: int, tol: float, time_limit: float | None
    ) -> None:
        self.objective, self.max_iter, self.tol, self.clock = objective, max_iter, tol, Clock(time_limit)
        self.W, self.history, self.status = W, list[dict[str, float]](), Status.STALLED
        self.value, self.gradient = objective(W)

    @property
    def iterations(self) -> int:
        """The iterations made, each with a record in the history."""
        return len(self.history)

    def is_over(self) -> bool:
        """Whether to stop here, which the status then tells."""
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
        """Backtrack along the direction; False where nothing on it is better."""
        slope = float(np.sum(direction * self.gradient))
        steepest, rounding = float(np.abs(self.gradient).max()), _ROUNDING * abs(self.value)
        while True:
            W = self.W + step * direction
            with np.errstate(over="ignore", invalid="ignore"):
                value, gradient = self.objective(W)
            visible = -step * slope > rounding
            if value <= self.value + (ARMIJO * step * slope if visible else rounding) and (
                # Where values differ by rounding alone, the gradient tells what is better.
                visible or float(np.abs(gradient).max()) < 0.5 * steepest
            ):
                self.move(W, value, gradient)
                return True
            if not visible:
                return False
            step *= 0.5


def _minimise(
    objective: MixtureLoss, W: Array, method: str, max_iter: int, tol: float, time_limit: float | None
) -> Solution:
    methods: dict[str, Callable[[_Run], None]] = {
        "newton": _newton, "bfgs": _bfgs, "gradient": _gradient, "bfgs-newton": _bfgs_then_newton,
    }  # fmt: skip
    one_of("method", method, tuple(methods))
    mixture.check_model(objective.gamma, objective.ridge)
    whole("max_iter", max_iter)
    tolerance(tol)
    if method.endswith("newton") and W.size > MOST_FOR_NEWTON:
        raise ValueError(
            f"method={method!r} is for W of at most {MOST_FOR_NEWTON} entries, not {W.size}: its Hessian has "
            "the square of that; method='bfgs' has no such limit"
        )
    run = _Run(objective, np.array(W, dtype=float), max_iter, tol, time_limit)
    start = run.W, run.value, run.gradient
    try:
        methods[method](run)
    except KeyboardInterrupt:
        run.status = interrupted()
    if run.value > start[1]:  # by rounding
        run.W, run.value, run.gradient = start
    bounded = objective.R is not None and objective.ridge > 0
    return Solution(
        status=run.status,
        primal={"W": run.W},
        duals={},
        objective=run.value,
        bound=run.value - objective.gap(run.gradient) if bounded else None,
        solver=method,
        iterations=run.iterations,
        solve_time=run.clock.seconds,
        history=tuple(run.history),
    )


def _newton(run: _Run) -> None:
    while not run.is_over():
        factor = positive_factor(run.objective.hessian(run.W))
        direction = cho_solve(factor, -run.gradient.ravel()).reshape(run.W.shape)
        if not run.descend(direction):
            return


def _gradient(run: _Run) -> None:
    step = 1.0 / (float(np.linalg.norm(run.gradient)) or 1.0)
    while not run.is_over():
        before, slope = run.W, run.gradient
        if not run.descend(-run.gradient, step):
            return
        moved, turned = run.W - before, run.gradient - slope
        bend = float(np.sum(moved * turned))
        lengths = float(np.sum(moved**2)), float(np.sum(turned**2))
        straight = bend <= _ROUNDING * np.sqrt(lengths[0] * lengths[1])
        step = 2.0 * step if straight else lengths[0] / bend


def _bfgs_then_newton(run: _Run) -> None:
    """L-BFGS while it makes way, in the metric of logistic regression, and then Newton.

    Far from a minimum of L its Hessian is not positive definite, and Newton's steps bring no more than those
    of L-BFGS, which cost a tenth or less. Near it Newton needs few. The metric, which bounds the Hessian of
    logistic regression for any face (Böhning & Lindsay, 1988), leaves nothing to the units of the features.
    """
    _bfgs(run, positive_factor(run.objective.metric())[0], _MIN_REL_FALL)
    if run.status is Status.STALLED:
        _newton(run)


def _bfgs(run: _Run, root: Array | None = None, slow: float = 0.0) -> None:
    """L-BFGS on Z = W times a lower triangular `root`; ends where `_SPAN` iterations bring but `slow`."""
    values, latest = [run.value], dict[str, Any]()

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
        if slow and len(values) > _SPAN and values[-1 - _SPAN] - run.value <= slow * abs(run.value):
            raise StopIteration

    if run.is_over():
        return
    options = {"maxiter": run.max_iter + 1, "maxfun": 1 << 30, "ftol": 0.0, "gtol": 0.0, "maxcor": 20}
    start = (run.W if root is None else run.W @ np.tril(root)).ravel()
    minimize(evaluate, start, jac=True, method="L-BFGS-B", callback=accepted, options=options)
