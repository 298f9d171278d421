"""From a start to a good point of logistic polytopes, and from there to fewer weights.

:func:`descend` lowers the objective with soft maxima, softer ones first, by one of three methods:

- dense samples without ℓ1 penalty and signs: L-BFGS (Liu & Nocedal 1989) in one compiled loop, since a search
  makes hundreds of short descents on a few hundred samples, which cost a general solver more outside of the
  objective than in it. Steps meet Wolfe's conditions, by halving or a parabola. The loop is in
  ``native/logistic.c``.
- a group penalty: proximal steps (:func:`proximal`). The penalty is not smooth where a group is 0, and there
  its groups end, exactly.
- all else: L-BFGS-B, with an ℓ1 penalty on the parts of weights above and below 0.

:func:`eliminate` is backward elimination. To hold the weight w_kj at 0 raises the loss by about h w_kj²/2,
where h is its curvature once the bias of its face has absorbed the feature's mean: the saliency of LeCun,
Denker & Solla (1989), "Optimal brain damage". The weights of least saliency are held at 0, some at a time,
and all others descend again. There is no proof that other weights would not have been better; afterwards the
program of the weights that are left is certified (:mod:`formulations.logistic_polytopes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from formulations.language.clock import Clock
from formulations.language.types import Array, is_sparse
from polyopt.native.library import kernel
from polyopt.optim.newton_steps import ARMIJO
from polyopt.polyhedral.logistic_loss import Bits, FaceLoss, Units, shares_of

Report = Callable[[float], None]


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of descents and of elimination."""

    lbfgs_pairs: int = 10  # pairs of steps and slopes that the compiled L-BFGS keeps
    products_per_look: float = 1e8  # products between two looks at the clock: about a tenth of a second
    recent_objectives: int = 5  # a proximal step need only be below the largest of these (SpaRSA)
    min_rel_curvature: float = 1e-10  # of a proximal step, relative to the weight of the samples
    sharp_softness: float = 0.3  # of the maxima after the first descent, in elimination and on paths
    first_max_iter: int = 40  # of a path's first descent, at each softness
    refit_max_iter: int = 20  # of a descent that starts near its end
    kept_share: float = 0.85  # of the numbers, by a step of elimination


OPTIONS = Options()

_TILE_ROWS = 256  # samples at once, as in native/tiles.h
_SAMPLES = (
    "columns: f8 (m, n); y: f8 (n); c: f8 (n); entries: f8 (K, e); ridges: f8 (e); scale: f8 (e); "
    "middle: f8 (m); faces!: f8 (K, e); pulls!: f8 (K, e); scores!: f8 (K, t); first: i8; softness: f8"
)  # fmt: skip

# At most as many iterations as `values` is long, from v, with their objectives in it; returns their number.
# value (1,) is the objective at v and g its slope, NaN at first; counts (3,) are pairs kept, the place of the
# next one, and 1 once the descent is over.
_descend = kernel(
    "descend_faces",
    "v!: f8 (v); g!: f8 (v); value!: f8 (o); counts!: i8 (h); steps!: f8 (p, v); bends!: f8 (p, v); "
    f"products!: f8 (p); shares!: f8 (p); room!: f8 (h, v); values!: f8 (b); {_SAMPLES}; tol: f8",
    returns="i8",
)  # fmt: skip

# The objective at faces v of scaled features, and its slope g.
_objective = kernel("faces_objective", f"v: f8 (v); g!: f8 (v); {_SAMPLES}", returns="f8")


def descend(
    problem: FaceLoss, W: Array, clock: Clock, *, softness: Sequence[float] = (1.0, 0.3), max_iter: int = 100,
    tol: float = 1e-9, most: int | None = None, progress: Callable[[float, float], None] | None = None,
    options: Options = OPTIONS,
) -> tuple[Array, int]:  # fmt: skip
    """Lower the smoothed objective from faces W (K, m+1), and return faces and the number of iterations.

    W: faces not all alike; weights that are held at 0 may be anything. With a penalty the end has exact
        zeros.
    clock: when time is up, and after Ctrl-C, the best point so far is kept.
    softness: t of the maxima, one after the other.
    max_iter, most: iterations at each softness, and in all.
    tol: relative decrease of a step at which to stop.
    progress: called with the softness and the smoothed objective after each iteration.
    """
    is_smooth = problem.l1 == 0.0 and not problem.entry_signs.any() and not is_sparse(problem.X)
    run = proximal if problem.group > 0.0 else lbfgs if is_smooth else _lbfgs_b
    W, made = np.where(problem.entries, W, 0.0), 0
    for t in softness:
        left = max_iter if most is None else min(max_iter, most - made)
        if left < 1:
            break
        report = None if progress is None else partial(progress, t)
        W, steps = run(problem, W, clock, t, left, tol, report, options)
        made += steps
        if clock.is_over:
            break
    return W, made


def lbfgs(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    report: Report | None = None, options: Options = OPTIONS,
) -> tuple[Array, int]:  # fmt: skip
    """Run the compiled L-BFGS; arguments as in :func:`descend`, W being 0 where it may not differ from it."""
    units, size, pairs = problem.units, W.size, options.lbfgs_pairs
    samples = _samples(problem)
    counts = np.zeros(3, dtype=np.int64)  # pairs kept, place of the next one, 1 once the descent is over
    v, kept = units.inward(W).ravel(), np.empty((2, pairs, size))
    state = (
        v, np.empty(size), np.full(1, np.nan), counts, *kept, np.empty(pairs), np.empty(pairs),
        np.empty((3, size)),
    )  # fmt: skip
    per_look = max(1, int(options.products_per_look / (len(problem.y) * size + 1)))
    made, values = 0, np.empty(min(per_look, max_iter))
    try:
        while made < max_iter:
            steps = _descend(*state, values[: max_iter - made], *samples, problem.owners.first, softness, tol)
            made += steps
            if report is not None:
                for value in values[:steps].tolist():
                    report(value)
            if counts[2] or clock.is_over:
                break
    except KeyboardInterrupt:
        clock.stop()
    return units.outward(v.reshape(W.shape)), made


def _samples(problem: FaceLoss) -> tuple[Array, ...]:
    """Return the samples and penalties as the kernels take them, and room to work in."""
    X, y, c, entries = (
        np.ascontiguousarray(each, dtype=float)
        for each in (problem.X.T, problem.y, problem.c, problem.entries)
    )
    room = np.empty(problem.shape), np.empty(problem.shape), np.empty((problem.shape[0], _TILE_ROWS))
    return X, y, c, entries, problem.ridges, *problem.units, *room


def _lbfgs_b(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    report: Report | None, _: Options,
) -> tuple[Array, int]:  # fmt: skip
    """Run scipy's L-BFGS-B on the entries that may differ from 0, or on their parts above and below 0."""
    allowed, units, signs = problem.entries, problem.units, problem.entry_signs[problem.entries]
    here, whole = units.inward(problem.allowed(W))[allowed], np.zeros(problem.shape)
    price = np.broadcast_to(problem.prices / units.scale, problem.shape)[allowed]
    split = problem.l1 > 0.0
    sides = np.r_[signs >= 0, signs <= 0] if split else signs >= 0
    lower = np.zeros(len(sides)) if split else np.where(signs > 0, 0.0, -np.inf)
    upper = np.where(sides, np.inf, 0.0)

    def point_of(x: Array) -> Array:
        return x[: len(signs)] - x[len(signs) :] if split else x

    def evaluate(x: Array) -> tuple[float, Array]:
        whole[allowed] = point_of(x)
        loss, slope, _, _ = problem.smooth(units.outward(whole), softness, softness)
        g = units.slope(slope)[allowed]
        if not split:
            return loss, g
        return loss + float(price @ (x[: len(signs)] + x[len(signs) :])), np.r_[g + price, price - g]

    def after_step(intermediate_result: OptimizeResult) -> None:
        nonlocal here
        here = point_of(intermediate_result.x).copy()
        if report is not None:
            report(float(intermediate_result.fun))
        if clock.is_over:
            raise StopIteration

    start, made = np.r_[np.maximum(here, 0.0), np.maximum(-here, 0.0)] if split else here, 0
    try:
        found = minimize(
            evaluate, start, jac=True, method="L-BFGS-B", bounds=np.column_stack([lower, upper]),
            callback=after_step, options={"maxiter": max_iter, "ftol": tol, "gtol": 0.0},
        )  # fmt: skip
        here, made = point_of(found.x), int(found.nit)
    except KeyboardInterrupt:  # the point after the last whole step is kept
        clock.stop()
    V = np.zeros(problem.shape)
    V[allowed] = here
    return units.outward(V), made


def proximal(
    problem: FaceLoss, W: Array, clock: Clock, softness: float, max_iter: int, tol: float,
    report: Report | None = None, options: Options = OPTIONS,
) -> tuple[Array, int]:  # fmt: skip
    """Make proximal steps; arguments as in :func:`descend`, W being 0 where it may not differ from it.

    A step goes from V to the minimum of the slope, L/2 times the squared step, and the penalty: every pull
    L V − G goes λ nearer to 0, its group τ, and is divided by L. L is the curvature along the last step
    (Barzilai & Borwein 1988), doubled until the objective is below the largest of the last few (SpaRSA:
    Wright, Nowak & Figueiredo, Sparse Reconstruction by Separable Approximation, 2009). Features have spread
    1, but those of one group one scale together.
    """
    groups, scale, entries = problem.face_penalty.groups, problem.units.scale[:-1], problem.entries
    squares = np.bincount(groups, scale * scale) / np.bincount(groups)
    units = Units(np.append(np.sqrt(squares)[groups], 1.0), problem.units.middle)
    up, down = (np.where(entries, each / units.scale, np.inf) for each in problem.thresholds)
    tau, weight = problem.group / np.sqrt(squares), float(problem.c.sum())

    def outward(V: Array) -> Array:
        return np.where(entries, units.outward(V), 0.0)

    def evaluate(V: Array) -> tuple[float, Array]:
        W = outward(V)
        loss, slope, _, _ = problem.smooth(W, softness, softness)
        return loss + problem.price(W), units.slope(slope)

    def shrunk(P: Array) -> Array:
        cut = np.maximum(P - up, 0.0) - np.maximum(-P - down, 0.0)
        lengths = np.sqrt(np.bincount(groups, (cut[:, :-1] ** 2).sum(axis=0)))
        left = np.maximum(lengths - tau, 0.0)
        cut[:, :-1] *= np.divide(left, lengths, out=np.zeros_like(left), where=lengths > 0.0)[groups]
        return cut

    V = units.inward(problem.allowed(W))
    value, slope = evaluate(V)
    best, last, L, made = (value, V), [value], weight, 0
    try:
        while made < max_iter and not clock.is_over:
            for _ in range(40):
                trial = shrunk(L * V - slope) / L
                moved = trial - V
                square = float((moved * moved).sum())
                found, steep = evaluate(trial)
                if found <= max(last) - ARMIJO * 0.5 * L * square:
                    break
                L *= 2.0
            else:
                break
            made += 1
            if report is not None:
                report(found)
            bend = float((moved * (steep - slope)).sum())
            fallen, V, slope = last[-1] - found, trial, steep
            last = [*last[1 - options.recent_objectives :], found]
            best = min(best, (found, V), key=lambda point: point[0])
            if square == 0.0 or abs(fallen) <= tol * abs(found):
                break
            L = max(bend / square, options.min_rel_curvature * weight)
    except KeyboardInterrupt:
        clock.stop()
    return outward(best[1]), made


def numbers_of(W: Array, knots: Array | None = None) -> int:
    """Count weights and biases other than 0, and the `knots` (m,) of the features that are used."""
    found = int(np.count_nonzero(W))
    return found if knots is None else found + int(knots[(W[:, :-1] != 0.0).any(axis=0)].sum())


def sizes_down_to(least: int, most: int) -> list[int]:
    """List numbers from `most` down to `least`, each about 0.85 of the one before."""
    sizes = [most]
    while sizes[-1] > least:
        sizes.append(max(least, min(int(OPTIONS.kept_share * sizes[-1]), sizes[-1] - 1)))
    return sizes


def eliminate(
    problem: FaceLoss, W: Array, most: int, clock: Clock, knots: Array | None = None,
    options: Options = OPTIONS,
) -> tuple[Array, Bits]:  # fmt: skip
    """Reduce a good point to at most so many numbers (:func:`numbers_of`).

    Return the faces, and the mask (K, m) of their weights that may differ from 0. No face loses its bias.
    When time is up the weights that are left are not fitted again.
    """
    centred, squared = _centred_squares(problem)
    support = W[:, :-1] != 0.0
    while numbers_of(W, knots) > most and support.any():
        loss = np.where(support, saliency(problem, W, centred, squared, options.sharp_softness), np.inf)
        size = max(most, int(options.kept_share * numbers_of(W, knots)))
        support = _without(W, loss, size, knots)
        W = np.column_stack([np.where(support, W[:, :-1], 0.0), W[:, -1]])
        if not clock.is_over:
            used = np.flatnonzero(support.any(axis=0))
            used = used if len(used) else np.zeros(1, dtype=int)  # biases alone are left
            kept = np.append(used, W.shape[1] - 1)
            W[:, kept], _ = descend(
                problem.of_features(used, support), W[:, kept], clock, softness=(options.sharp_softness,),
                max_iter=options.refit_max_iter, options=options,
            )  # fmt: skip
    return W, support


def _without(W: Array, loss: Array, most: int, knots: Array | None) -> Bits:
    """Drop the weights of least loss for each number, until at most so many numbers are left."""
    support = W[:, :-1] != 0.0
    users = support.sum(axis=0)
    own = np.zeros(support.shape[1], dtype=int) if knots is None else np.asarray(knots, dtype=int)
    left = numbers_of(W, knots)
    freed = 1 + np.where(users == 1, own, 0)
    order = np.argsort(loss / freed, axis=None)[: int(support.sum())]
    for k, j in zip(*np.unravel_index(order, support.shape), strict=True):
        if left <= most:
            break
        support[k, j] = False
        users[j] -= 1
        left -= 1 + (own[j] if users[j] == 0 else 0)
    return support


def _centred_squares(problem: FaceLoss) -> tuple[Array, Array]:
    """Return the features around their means, and their squares; sparse ones are not centred."""
    X = problem.X
    if is_sparse(X):
        return X, X.multiply(X).tocsr()
    centred = X - np.asarray(X.T @ problem.c).ravel() / problem.c.sum()
    return centred, centred**2


def saliency(problem: FaceLoss, W: Array, centred: Array, squared: Array, softness: float) -> Array:
    """Estimate the rise of the objective if each weight (K, m) alone is held at 0."""
    _, _, R, a = problem.smooth(W, softness, softness)
    bend = (a * (1.0 - problem.probabilities(a)))[:, None] * shares_of(R, a) ** 2
    total = bend.sum(axis=0)
    first, second = (np.asarray(M.T @ bend).T for M in (centred, squared))
    spread = second - first**2 / np.where(total > 0.0, total, 1.0)[:, None]
    curvature = np.maximum(spread, 0.0) + problem.ridge
    return 0.5 * curvature * W[:, :-1] ** 2 + problem.l1 * np.abs(W[:, :-1])
