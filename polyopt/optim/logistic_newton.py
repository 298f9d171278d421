"""Ridge logistic regression of weighted samples: the program of one cell of SPLA1.

Minimises  L(w) = Σ c_i ln(1 + exp(−y_i w·x̃_i)) + ρ/2 ‖w‖²,  bias last in w and penalised like the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import expit

from formulations.language.arguments import one_of, positive, tolerance, whole
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector, is_sparse
from formulations.polyhedral import pull, scores

Method = Literal["newton", "bfgs"]
METHODS = ("newton", "bfgs")
ARMIJO = 1e-4
"""Share of the decrease predicted by the slope that a step must attain (Armijo's condition)."""


@dataclass(frozen=True)
class Options:
    """Sizes and limits of the solvers."""

    min_step: float = 1e-10  # share of a Newton step at which the line search gives up
    max_bfgs_unknowns: int = 200  # up to which BFGS keeps its whole matrix; beyond it is L-BFGS
    max_newton_unknowns: int = 6000
    ridges: tuple[float, ...] = (0.0, 1e-14, 1e-11, 1e-8)  # added to a scaled Hessian's unit diagonal in turn


DEFAULT = Options()


def solve_logistic(
    X: Matrix, y: Vector, c: Vector, w: Vector, *, ridge: float, method: Method = "newton",
    max_iter: int = 100, tol: float = 1e-8, time_limit: float | None = None, options: Options = DEFAULT,
) -> Solution:  # fmt: skip
    """Minimise L from w (m+1,), by Newton's method with backtracking or by scipy's BFGS.

    It stops at a relative gap of `tol` to the proven bound L − ‖∇L‖²/(2ρ). The point is never worse than the
    start. ValueError for an unknown method, or more unknowns than Newton's method takes.
    """
    one_of("method", method, METHODS)
    ridge, tol = positive("ridge", ridge), tolerance(tol)
    whole("max_iter", max_iter)
    if method == "newton" and len(w) > options.max_newton_unknowns:
        raise ValueError(
            f"method='newton' takes {options.max_newton_unknowns} unknowns at most, not {len(w)}; "
            "choose method='bfgs'"
        )
    clock = Clock(time_limit)
    run = _newton if method == "newton" else _bfgs
    w, value, gradient, steps = run(X, y, c, w, ridge, max_iter, tol, clock, options)
    gap = float(gradient @ gradient) / (2 * ridge)
    if gap <= tol * value:
        status = Status.SOLVED
    elif clock.is_over:
        status = Status.TIME_LIMIT
    else:
        status = Status.ITERATION_LIMIT if steps >= max_iter else Status.STALLED
    return Solution(
        status, {"w": w}, {}, value, value - gap, f"logistic, {method}", steps, solve_time=clock.seconds
    )


def _loss(X: Matrix, y: Vector, c: Vector, w: Vector, ridge: float) -> tuple[float, Vector, Vector]:
    """L, its gradient, and σ(−z) at w."""
    z = y * scores(X, w[None, :])[:, 0]
    away = expit(-z)
    value = float(c @ np.logaddexp(0.0, -z) + 0.5 * ridge * (w @ w))
    return value, ridge * w - pull(X, (c * y * away)[:, None])[0], away


def _newton(
    X: Matrix, y: Vector, c: Vector, w: Vector, ridge: float, max_iter: int, tol: float, clock: Clock,
    options: Options,
) -> tuple[Vector, float, Vector, int]:  # fmt: skip
    value, gradient, away = _loss(X, y, c, w, ridge)
    for steps in range(max_iter):
        if gradient @ gradient <= 2 * ridge * tol * value or clock.is_over:
            return w, value, gradient, steps
        direction = -solve_scaled(_hessian(X, c * away * (1.0 - away), ridge), gradient)
        slope, size = float(gradient @ direction), 1.0
        while True:
            trial = w + size * direction
            found = _loss(X, y, c, trial, ridge)
            if found[0] <= value + ARMIJO * size * slope:
                break
            size *= 0.5
            if size < options.min_step:  # no lower point in double precision
                return w, value, gradient, steps
        # If neither the loss nor its slope falls any more, only rounding is left.
        if found[0] >= value and found[1] @ found[1] >= gradient @ gradient:
            return w, value, gradient, steps
        w, (value, gradient, away) = trial, found
    return w, value, gradient, max_iter


def solve_scaled(H: Vector, b: Vector) -> Vector:
    """H⁻¹ b for a symmetric H with a positive diagonal, scaled to 1 and raised until H has a factor."""
    scale = 1.0 / np.sqrt(H.diagonal())
    H = H * scale[:, None] * scale
    for more in DEFAULT.ridges:
        H.flat[:: len(H) + 1] += more
        try:
            return np.asarray(scale * cho_solve(cho_factor(H), scale * b))
        except np.linalg.LinAlgError:
            continue
    return np.asarray(scale * scale * b)


def positive_factor(H: Vector) -> tuple[Vector, bool]:
    """The lower Cholesky factor of a symmetric H, whose diagonal is raised, in place, as far as necessary."""
    size = float(np.abs(H).max()) or 1.0
    lift = 0.0
    while True:
        try:
            return cho_factor(H, lower=True)
        except np.linalg.LinAlgError:
            more = max(10.0 * lift, 1e-10 * size)
            H.flat[:: len(H) + 1] += more - lift
            lift = more


def _hessian(X: Matrix, d: Vector, ridge: float) -> Vector:
    """Σ d_i x̃_i x̃_i' + ρ I."""
    m = X.shape[1]
    H = np.empty((m + 1, m + 1))
    if is_sparse(X):
        H[:m, :m] = (X.T @ X.multiply(d[:, None]).tocsr()).toarray()
    else:
        H[:m, :m] = X.T @ (X * d[:, None])
    H[m, :m] = H[:m, m] = X.T @ d
    H[m, m] = d.sum()
    H.flat[:: m + 2] += ridge
    return H


def _bfgs(
    X: Matrix, y: Vector, c: Vector, w: Vector, ridge: float, max_iter: int, tol: float, clock: Clock,
    options: Options,
) -> tuple[Vector, float, Vector, int]:  # fmt: skip
    value, gradient, _ = _loss(X, y, c, w, ridge)
    best, steps = (w, value, gradient), 0

    def evaluate(trial: Vector) -> tuple[float, Vector]:
        nonlocal best
        value, gradient, _ = _loss(X, y, c, trial, ridge)
        if value <= best[1]:
            best = (trial.copy(), value, gradient)
        return value, gradient

    def after_step(_: Vector) -> None:
        nonlocal steps
        steps += 1
        if best[2] @ best[2] <= 2 * ridge * tol * best[1] or clock.is_over:
            raise StopIteration

    small = len(w) <= options.max_bfgs_unknowns
    tightest = {"gtol": 0.0} if small else {"gtol": 0.0, "ftol": 0.0}  # the gap stops it
    before = np.inf
    # Its line search gives up in narrow valleys; a restart continues from there.
    while best[2] @ best[2] > 2 * ridge * tol * best[1] and best[1] < before and steps < max_iter:
        before = best[1]
        minimize(
            evaluate, best[0], jac=True, method="BFGS" if small else "L-BFGS-B",
            callback=after_step, options={"maxiter": max_iter - steps, **tightest},
        )  # fmt: skip
        if clock.is_over:
            break
    return *best, steps
