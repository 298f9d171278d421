"""Descent for logistic polytopes, from a start to a good point, and the elimination of weights.

The objective, with soft maxima of softness t, is in :mod:`polyopt.polyhedral.logistic_loss`; faces are the
rows of W (K, m+1), the bias last. :func:`descend` lowers it, for one t after the other, by one of two
methods:

- :func:`lbfgs`, for dense samples without ℓ1 penalty, group penalty and sign constraints: L-BFGS (Liu &
  Nocedal 1989) in one compiled loop, in ``native/logistic.c``. A search makes hundreds of short descents on a
  few hundred samples, for which the overhead of a general solver exceeds the cost of the objective. The line
  search meets Wolfe's conditions, by halving or by a parabola.
- L-BFGS-B of scipy, in all other cases. With an ℓ1 penalty its variables are the positive and the negative
  parts of the weights. Norms of groups are smoothed; the entries that a proximal step from the last point
  sets to 0 are 0 in the result.

:func:`eliminate` is backward elimination. Fixing the weight w_kj at 0 raises the loss by about h w_kj²/2,
where h is the curvature in w_kj after the bias of the face was minimised out: the saliency of LeCun, Denker &
Solla (1989), "Optimal brain damage". A fraction of the weights, those of least saliency, is fixed at 0, the
others descend again, and so on. This is a heuristic: another choice of weights may be better. The certificate
is of the program for the remaining weights (:mod:`formulations.logistic_polytopes`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from formulations.language.clock import Clock
from formulations.language.types import Array, is_sparse
from polyopt.native.library import kernel
from polyopt.polyhedral.logistic_loss import FaceLoss, Mask, shortfall_gradient

Report = Callable[[float], None]


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of descents and of elimination."""

    lbfgs_pairs: int = 10  # pairs of steps and gradient differences that the compiled L-BFGS stores
    products_per_call: float = 1e8  # multiplications between checks of the clock: about 0.1 s
    norm_softness: float = 1e-2  # ε of a group's norm, sqrt(Σ w² + ε²), in features of deviation 1
    last_softness: float = 0.3  # t after the first descent of a path: of `refit` and of `saliency`
    first_max_iter: int = 40  # iterations of a path's first descent, at each softness
    refit_max_iter: int = 20  # iterations of a descent that starts near a minimum
    kept_fraction: float = 0.85  # fraction of the nonzero numbers that a step of elimination leaves


OPTIONS = Options()

# Samples, penalties and units; faces, pulls and scores are work space.
_SAMPLES = (
    "columns: f8 (m, n); y: f8 (n); c: f8 (n); entries: f8 (K, e); ridges: f8 (e); scale: f8 (e); "
    "middle: f8 (m); faces!: f8 (K, e); pulls!: f8 (K, e); scores!: f8 (K, t); first: i8; softness: f8"
)  # fmt: skip

# L-BFGS from v: at most len(values) iterations, whose objectives are written to `values`; returns their
# number. value (1,) and g are the objective and the gradient at v; value is NaN at the first call. counts
# (3,): pairs stored, position of the next pair, and 1 once the descent has ended. steps and bends (p, v) are
# the stored steps and gradient differences, products (p,) their inner products. shares and room are work
# space.
descend_faces = kernel(
    "descend_faces",
    "v!: f8 (v); g!: f8 (v); value!: f8 (o); counts!: i8 (h); steps!: f8 (p, v); bends!: f8 (p, v); "
    f"products!: f8 (p); shares!: f8 (p); room!: f8 (h, v); values!: f8 (b); {_SAMPLES}; tol: f8",
    returns="i8",
)  # fmt: skip


def descend(
    problem: FaceLoss, W: Array, clock: Clock, *, softness: Sequence[float] = (1.0, 0.3), max_iter: int = 100,
    tol: float = 1e-9, max_total: int | None = None, progress: Callable[[float, float], None] | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective from faces W (K, m+1); return the faces and the number of iterations.

    W: the start, with different faces; entries that must be 0 are set to 0. With a penalty the result has
        exact zeros.
    clock: when the time is over, and after Ctrl-C, the best point so far is returned.
    softness: values of t, one after the other.
    max_iter, max_total: iterations at each softness, and in all.
    tol: relative decrease of the objective by an iteration at which to stop.
    progress: called with the softness and the smoothed objective after each iteration.
    """
    run = lbfgs if problem.penalty.is_absent and not is_sparse(problem.X) else _lbfgs_b
    W, iterations = np.where(problem.entries, W, 0.0), 0
    for t in softness:
        limit = max_iter if max_total is None else min(max_iter, max_total - iterations)
        if limit < 1:
            break
        report = None if progress is None else partial(progress, t)
        W, new_iterations = run(problem, W, clock, t, limit, tol, report)
        iterations += new_iterations
        if clock.is_over:
            break
    return W, iterations


def lbfgs(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    report: Report | None = None,
) -> tuple[Array, int]:  # fmt: skip
    """Run the compiled L-BFGS. Arguments are as in :func:`descend`; W is 0 outside of ``problem.entries``."""
    units, size, pairs = problem.units, W.size, OPTIONS.lbfgs_pairs
    v, gradient, value = units.scaled(W).ravel(), np.empty(size), np.full(1, np.nan)
    counts = np.zeros(3, dtype=np.int64)
    steps, gradient_differences = np.empty((2, pairs, size))
    products, shares = np.empty((2, pairs))
    room = np.empty((3, size))
    state = (v, gradient, value, counts, steps, gradient_differences, products, shares, room)
    samples = sample_arrays(problem)
    max_steps_per_call = max(1, int(OPTIONS.products_per_call / (len(problem.y) * size + 1)))
    iterations, values = 0, np.empty(min(max_steps_per_call, max_iter))
    try:
        while iterations < max_iter:
            values_left = values[: max_iter - iterations]
            made = descend_faces(*state, values_left, *samples, problem.owners.count_minus, softness, tol)
            iterations += made
            if report is not None:
                for objective in values[:made].tolist():
                    report(objective)
            if counts[2] or clock.is_over:
                break
    except KeyboardInterrupt:
        clock.stop()
    return units.unscaled(v.reshape(W.shape)), iterations


def sample_arrays(problem: FaceLoss) -> tuple[Array, ...]:
    """Return the kernels' arguments `_SAMPLES`, from `columns` to the work arrays."""
    arrays = problem.X.T, problem.y, problem.c, problem.entries
    contiguous = (np.ascontiguousarray(values, dtype=float) for values in arrays)
    tile_rows = 256  # as in native/tiles.h
    n_faces = problem.shape[0]
    work = np.empty(problem.shape), np.empty(problem.shape), np.empty((n_faces, tile_rows))
    return *contiguous, problem.ridges, *problem.units, *work


def _lbfgs_b(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    report: Report | None,
) -> tuple[Array, int]:  # fmt: skip
    """Run scipy's L-BFGS-B on the entries v that may differ from 0, or on x = (v⁺, v⁻) with an ℓ1 penalty."""
    free, units, penalty = problem.entries, problem.units, problem.entry_penalty
    point = units.scaled(problem.allowed(W))[free]  # after the last complete step
    V = np.zeros(problem.shape)
    iterations = 0
    l1_weights = (np.minimum(penalty.up, penalty.down) / units.scale)[free]
    # An infinite threshold forbids a sign.
    lower = np.where(np.isinf(penalty.down[free]), 0.0, -np.inf)
    upper = np.where(np.isinf(penalty.up[free]), 0.0, np.inf)
    n, is_split, has_groups = len(point), problem.penalty.l1 > 0.0, problem.penalty.group > 0.0

    def entries_of(x: Array) -> Array:
        return x[:n] - x[n:] if is_split else x

    def evaluate(x: Array) -> tuple[float, Array]:
        V[free] = entries_of(x)
        W = units.unscaled(V)
        value, gradient, _, _ = problem.smooth(W, softness, softness)
        if has_groups:
            norms, by_entry = penalty.smoothed_norms(W, OPTIONS.norm_softness / units.scale)
            value, gradient = value + norms, gradient + by_entry
        g = units.scaled_gradient(gradient)[free]
        if not is_split:
            return value, g
        return value + float(l1_weights @ (x[:n] + x[n:])), np.r_[g + l1_weights, l1_weights - g]

    def after_step(intermediate_result: OptimizeResult) -> None:
        nonlocal point, iterations
        point, iterations = entries_of(intermediate_result.x).copy(), iterations + 1
        if report is not None:
            report(float(intermediate_result.fun))
        if clock.is_over:
            raise StopIteration

    start, bounds = point, (lower, upper)
    if is_split:
        start = np.r_[np.maximum(point, 0.0), np.maximum(-point, 0.0)]
        bounds = np.zeros(2 * n), np.r_[upper, -lower]
    try:
        minimize(
            evaluate, start, jac=True, method="L-BFGS-B", bounds=np.column_stack(bounds),
            callback=after_step, options={"maxiter": max_iter, "ftol": tol, "gtol": 0.0},
        )  # fmt: skip
    except KeyboardInterrupt:  # the point after the last complete step is returned
        clock.stop()
    V[free] = point
    W = units.unscaled(V)
    if has_groups:
        _, gradient, _, _ = problem.smooth(W, softness, softness)
        W[penalty.shrunk(problem.ridges * W - gradient) == 0.0] = 0.0
    return W, iterations


# -- elimination of weights ------------------------------------------------------------------------------


def count_numbers(W: Array, knots: Array | None = None) -> int:
    """Count the numbers of a model: nonzero weights and biases, and `knots` (m,) of the features in use."""
    count = int(np.count_nonzero(W))
    return count if knots is None else count + int(knots[(W[:, :-1] != 0.0).any(axis=0)].sum())


def sizes_down_to(smallest: int, largest: int) -> list[int]:
    """Return counts from `largest` down to `smallest`, each about ``kept_fraction`` times the one before."""
    sizes = [largest]
    while sizes[-1] > smallest:
        sizes.append(max(smallest, min(int(OPTIONS.kept_fraction * sizes[-1]), sizes[-1] - 1)))
    return sizes


def eliminate(
    problem: FaceLoss, W: Array, max_numbers: int, clock: Clock, knots: Array | None = None
) -> tuple[Array, Mask]:
    """Fix weights at 0 until at most `max_numbers` numbers are left (:func:`count_numbers`).

    Return the faces, and the mask (K, m) of their weights that may differ from 0. Every face keeps its bias.
    When the time is over, the remaining weights are not fitted again.
    """
    support = W[:, :-1] != 0.0
    while count_numbers(W, knots) > max_numbers and support.any():
        increase = np.where(support, saliency(problem, W, OPTIONS.last_softness), np.inf)
        size = max(max_numbers, int(OPTIONS.kept_fraction * count_numbers(W, knots)))
        support = _reduced_support(W, increase, size, knots)
        W = np.column_stack([np.where(support, W[:, :-1], 0.0), W[:, -1]])
        if not clock.is_over:
            used = np.flatnonzero(support.any(axis=0))
            used = used if len(used) else np.zeros(1, dtype=int)  # biases alone are left
            columns = np.append(used, W.shape[1] - 1)
            W[:, columns] = refit(problem.of_features(used, support), W[:, columns], clock)
    return W, support


def refit(problem: FaceLoss, W: Array, clock: Clock) -> Array:
    """Descend from faces W near a minimum; return the faces."""
    return descend(problem, W, clock, softness=(OPTIONS.last_softness,), max_iter=OPTIONS.refit_max_iter)[0]


def _reduced_support(W: Array, increase: Array, max_numbers: int, knots: Array | None) -> Mask:
    """Drop the weights of the least increase of the objective per number, until `max_numbers` are left.

    Dropping the last weight of a feature drops its knots, too.
    """
    support = W[:, :-1] != 0.0
    faces_using = support.sum(axis=0)
    feature_knots = np.zeros(support.shape[1], dtype=int) if knots is None else np.asarray(knots, dtype=int)
    count = count_numbers(W, knots)
    # Numbers that the removal of a weight drops, if it is the first one to go.
    dropped_numbers = 1 + np.where(faces_using == 1, feature_knots, 0)
    order = np.argsort(increase / dropped_numbers, axis=None)[: int(support.sum())]
    for k, j in zip(*np.unravel_index(order, support.shape), strict=True):
        if count <= max_numbers:
            break
        support[k, j] = False
        faces_using[j] -= 1
        count -= 1 + (feature_knots[j] if faces_using[j] == 0 else 0)
    return support


def saliency(problem: FaceLoss, W: Array, softness: float) -> Array:
    """Estimate the increase of the objective if each weight (K, m) alone is fixed at 0."""
    X = problem.X
    if is_sparse(X):
        squared = X.multiply(X).tocsr()
    else:  # centred, which changes no curvature but reduces its rounding error
        X = X - np.asarray(X.T @ problem.c).ravel() / problem.c.sum()
        squared = X**2
    _, _, R, a = problem.smooth(W, softness, softness)
    curvatures = (a * (1.0 - problem.probabilities(a)))[:, None] * shortfall_gradient(R, a) ** 2
    total = curvatures.sum(axis=0)
    first, second = (np.asarray(moments.T @ curvatures).T for moments in (X, squared))
    without_bias = second - first**2 / np.where(total > 0.0, total, 1.0)[:, None]  # Schur complement
    h = np.maximum(without_bias, 0.0) + problem.ridge
    return 0.5 * h * W[:, :-1] ** 2 + problem.penalty.l1 * np.abs(W[:, :-1])
