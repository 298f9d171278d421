"""The first incumbent of the search for the Convex Polytope Machine's global optimum."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.polytope import objective
from polyopt.cpm.dual import DualProblem
from polyopt.cpm.global_search.columns import better_by_columns
from polyopt.cpm.global_search.face import price, settle_in_time
from polyopt.cpm.global_search.prices import MAX_FEATURES
from polyopt.cpm.global_search.tree import Best
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.cpm.global_search.face import Samples

    Vector = NDArray[np.float64]

__all__ = ["begin", "centred", "take"]

_COLUMNS_TIME, _KICKS_TIME = 0.2, 0.3  # of the time: for faces of many starts put together, and for kicks
# Samples times dimensions times faces from which dual ascents and kicks are worth their time. It was chosen
# on six sets and some pairs of digits, of which sonar and ionosphere are reported, too.
_MIN_SIZE_FOR_ASCENTS = 10_000
_MAX_ROUNDS = 300  # of a dual ascent
_MAX_BATCHES = 25  # of ascents and of kicks, if there is a limit of time; otherwise there is one


def begin(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Alternate from random faces and from ends of dual ascent, and keep the best.

    Where the data are large enough (samples times dimensions times faces, from 10,000) there are dual ascents
    in up to four tenths of the time, but for the first batch, which may take longer; then, with more than
    four features, faces of many starts put together anew (:mod:`polyopt.cpm.global_search.columns`) in up to
    a fifth; and kicks of the best point in up to three tenths.

    precision: of all costs: that of alternating.
    starts: that many from random directions, and as many at random.
    clock: when there is to be no other start.
    rng: of the starts.
    """
    large = _has_ascents(data, len(best.W))
    whole = clock.left
    wide = large and data.A.shape[1] > MAX_FEATURES + 1
    rest = _KICKS_TIME + (_COLUMNS_TIME if wide else 0.0)
    _from_many(data, best, precision, starts, clock.part(1.0 - rest if large else 1.0), rng)
    if wide and 0 < data.inside < len(data.C):  # with few features the bound itself begins so
        better_by_columns(data, best, Clock(None if whole is None else _COLUMNS_TIME * whole), rng)
    if large:
        kicking = Clock(None if whole is None else _KICKS_TIME * whole)
        _kicked(data, best, 4 * starts, kicking, rng)


def take(data: Samples, best: Best, precision: float, W: Vector, clock: Clock) -> None:
    """Keep known faces (K, d), or the end of alternating from them, if they are the best so far."""
    y = np.where(np.arange(len(data.C)) < data.inside, -1.0, 1.0)
    value = objective(y[:, None] * data.A[:, :-1], y, W, data.C)
    if best.limits[0] > value:
        best.limits[0], best.W[:] = value, W
    _keep(data, best, precision, (data.A[data.inside :] @ W.T).argmax(axis=1), clock)


def _has_ascents(data: Samples, n_faces: int) -> bool:
    """Return whether the data are large enough for dual ascents and kicks."""
    return n_faces > 1 and data.A.size * n_faces >= _MIN_SIZE_FOR_ASCENTS


def _from_many(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Begin from the ends of dual ascents, from fewer faces and from faces by lot."""
    n_faces, points = len(best.W), data.A[data.inside :]
    if _has_ascents(data, n_faces):
        _from_dual(data, best, clock, int(rng.integers(2**31)))
    if n_faces > 2:
        _from_fewer(data, best, precision, starts, clock, rng)
    features = centred(points)
    _keep(data, best, precision, np.zeros(len(points), dtype=np.int64), clock)
    for _ in range(starts if n_faces > 1 else 0):
        towards = (features @ rng.normal(size=(features.shape[1], n_faces))).argmax(axis=1)
        for face in (towards, rng.integers(0, n_faces, len(points))):
            _keep(data, best, precision, face, clock)
        if clock.is_over:
            return


def centred(points: Vector) -> Vector:
    """The features of rows x̃, each less its mean and over its deviation: what random faces begin from."""
    features = points[:, :-1]
    if not len(features):
        return features
    scale = features.std(axis=0)
    return np.asarray((features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _from_fewer(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Begin from what one face less comes to, and a face for nobody: the best w = 0, which costs at most 1.

    So more faces cost no more than that above fewer, as far as these starts go; a face of nobody takes whom
    it is the best for.
    """
    fewer = Best(np.zeros((len(best.W) - 1, best.W.shape[1])), np.array([np.inf, np.inf, 0.0]))
    _from_many(data, fewer, precision, starts, clock.part(0.3), deepcopy(rng))
    nobody = np.zeros_like(best.W[:1])
    nobody[0, -1] = -1.0
    W = np.vstack([fewer.W, nobody])
    face = np.zeros(len(data.C) - data.inside, dtype=np.int64)
    cost = price(data, W, face)
    if cost < best.limits[0]:
        best.limits[0], best.W[:] = cost, W
    _keep(data, best, precision, face, clock)


def _from_dual(data: Samples, best: Best, clock: Clock, seed: int) -> None:
    """Begin from where the best of some dual ascents ends; with a limit, again as long as there is time.

    Their starts are loosened: in many dimensions, where a face can hold almost any samples that it is given,
    they end lower than alternation from random faces does.
    """
    problem, part = _problem(data, len(best.W)), clock.part(0.4)
    for number in range(1 if clock.left is None else _MAX_BATCHES):
        if number > 0 and part.is_over:
            return
        left = part.left if number > 0 else clock.left  # as one batch comes before all other starts
        found = run_from_many_starts(
            [Stage(problem, _MAX_ROUNDS)], n_init=20, time_limit=left, seed=seed + number, n_jobs=1
        )
        _keep_end(data, best, found)


def _kicked(data: Samples, best: Best, times: int, clock: Clock, rng: np.random.Generator) -> None:
    """Alternate from the best point after some positives, by lot or near to each other, were moved.

    Alternation ends where no positive gains by moving alone, and has many such ends; those near to a good one
    are better than those by lot. Every other time a loosened dual ascent goes before, which leads further
    where a face can hold almost any samples: more positives are moved for it.
    """
    points = data.A[data.inside :]
    if len(points) == 0:
        return
    problem = _problem(data, len(best.W))
    for number in range(times if clock.left is None else _MAX_BATCHES * times):
        if clock.is_over:
            return
        loose = number % 2 == 1
        face = _moved(points, best.W, 0.3 if loose else 0.1, rng)
        if loose:
            state = problem.loosen(np.concatenate([np.full(data.inside, -1), face]), clock.left)
            _keep_end(data, best, run_rounds(problem, state, max_iter=_MAX_ROUNDS, time_limit=clock.left))
            continue
        W = np.zeros_like(best.W)
        J = settle_in_time(data, face, W, 1e-4 * best.limits[0], clock)
        if 1.02 * best.limits[0] > J:  # only then to the end
            J = settle_in_time(data, face, W, 1e-8 * best.limits[0], clock)
        if best.limits[0] > J:
            best.limits[0], best.W[:] = J, W


def _moved(points: Vector, W: Vector, largest: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The faces of the positives, of which some were moved, up to that share."""
    face = (points @ W.T).argmax(axis=1)
    count = int(np.exp(rng.uniform(0.0, np.log(max(largest * len(points), 2.0)))))
    moved = rng.choice(len(points), min(count, len(points)), replace=False)
    if rng.random() < 0.5:
        moved = np.square(points - points[moved[0]]).sum(axis=1).argsort()[:count]
    face[moved] = rng.integers(0, len(W), len(moved)) if rng.random() < 0.5 else rng.integers(0, len(W))
    return face


def _problem(data: Samples, n_faces: int) -> DualProblem:
    """Dual ascents on the rows y_i x̃_i.

    To a gap of 1e-2 they end higher, as positives then stay for gains of less than that.
    """
    y = np.where(np.arange(len(data.C)) < data.inside, -1.0, 1.0)
    X = np.ascontiguousarray((y[:, None] * data.A)[:, :-1])
    return DualProblem(X, y, data.C, n_faces, tol=1e-4)


def _keep_end(data: Samples, best: Best, found: Solution) -> None:
    """Keep where dual ascents end, if it is better."""
    if found.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    W = np.ascontiguousarray(found["W"], dtype=float)
    cost = price(data, W, np.zeros(len(data.C) - data.inside, dtype=np.int64))
    if cost < best.limits[0]:
        best.limits[0], best.W[:] = cost, W


def _keep(data: Samples, best: Best, precision: float, assignment: NDArray[np.int64], clock: Clock) -> None:
    W = np.zeros_like(best.W)
    J = settle_in_time(data, assignment.astype(np.int64), W, precision * data.C.sum(), clock)
    if best.limits[0] > J:
        best.limits[0], best.W[:] = J, W
