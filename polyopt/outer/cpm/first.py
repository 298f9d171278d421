"""The first incumbent of the search for the Convex Polytope Machine's global optimum."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from polyopt.outer.cpm.dual_ends import best_dual_end
from polyopt.outer.cpm.polish import polished_face
from polyopt.solvers.cpm.face import price, settle
from polyopt.solvers.cpm.tree import Best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock
    from polyopt.solvers.cpm.face import Samples

    Vector = NDArray[np.float64]

__all__ = ["begin"]

_FEWER = 0.3  # of the time, for starts with one face less
# Samples times dimensions times faces from which dual ascents, too, are worth their time: so many from random
# starts, rounds of each at most, and their part of the time.
_WIDE = 10_000
_ASCENTS, _ROUNDS, _ASCENDING = 40, 300, 0.4


def begin(
    data: Samples, best: Best, precision: float, first: Vector | None, starts: int, clock: Clock,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Alternate from the faces given, or from random ones and ends of dual ascent, and keep the best.

    Parameters
    ----------
    data, best
        As of :func:`polyopt.solvers.cpm.tree.examine`.
    precision : float
        Of all costs: that of alternating.
    first : ndarray of shape (K, d), optional
        Faces to begin from.
    starts : int
        By default: that many from random directions, and as many at random.
    clock : Clock
        When there is to be no other start.
    rng : Generator
        Of the starts.
    """
    n_faces, points = len(best.W), data.A[data.inside :]
    if first is not None:
        _keep(data, best, precision, (points @ first.T).argmax(axis=1))
        return
    if n_faces > 1 and data.A.size * n_faces >= _WIDE:
        _from_dual(data, best, precision, clock.part(_ASCENDING), int(rng.integers(2**31)))
    if n_faces > 2:
        _from_fewer(data, best, precision, starts, clock, rng)
    some = len(points) > 0
    middle = points[:, :-1].mean(axis=0) if some else np.zeros(points.shape[1] - 1)
    scale = points[:, :-1].std(axis=0) if some else np.ones_like(middle)
    centred = (points[:, :-1] - middle) / np.where(scale > 0, scale, 1.0)
    _keep(data, best, precision, np.zeros(len(points), dtype=np.int64))
    for _ in range(starts if n_faces > 1 else 0):
        _keep(data, best, precision, (centred @ rng.normal(size=(centred.shape[1], n_faces))).argmax(axis=1))
        _keep(data, best, precision, rng.integers(0, n_faces, len(points)))
        if clock.is_over:
            return


def _from_fewer(
    data: Samples, best: Best, precision: float, starts: int, clock: Clock, rng: np.random.Generator
) -> None:
    """Begin from what one face less comes to, and a face for nobody: the best w = 0, which costs at most 1.

    So more faces cost no more than that above fewer, as far as these starts go; a face of nobody takes whom
    it is the best for.
    """
    fewer = Best(np.zeros((len(best.W) - 1, best.W.shape[1])), np.array([np.inf, np.inf, 0.0]))
    begin(data, fewer, precision, None, starts, clock.part(_FEWER), deepcopy(rng))
    nobody = np.zeros_like(best.W[:1])
    nobody[0, -1] = -1.0
    W = np.vstack([fewer.W, nobody])
    face = np.zeros(len(data.C) - data.inside, dtype=np.int64)
    cost = price(data, W, face)
    if cost < best.limits[0]:
        best.limits[0], best.W[:] = cost, W
    _keep(data, best, precision, face)


def _from_dual(data: Samples, best: Best, precision: float, clock: Clock, seed: int) -> None:
    """Begin from where the best of some dual ascents ends.

    Their starts are loosened: in many dimensions, where a face can hold almost any samples that it is given,
    they end lower than alternation from random faces does.
    """
    y = np.where(np.arange(len(data.C)) < data.inside, -1.0, 1.0)
    X = np.ascontiguousarray((y[:, None] * data.A)[:, :-1])
    assignment = best_dual_end(
        X, y, data.C, len(best.W), n_init=2 * _ASCENTS, max_iter=_ROUNDS, time_limit=clock.left, seed=seed
    )  # fmt: skip
    face = assignment[data.inside :]
    little = precision * data.C.sum()  # that coordinates may not come to in many dimensions
    W = np.array([polished_face(data, face, k, little, clock)[1] for k in range(len(best.W))])
    cost = price(data, W, np.zeros_like(face))
    if cost < best.limits[0]:
        best.limits[0], best.W[:] = cost, W
    _keep(data, best, precision, face)


def _keep(data: Samples, best: Best, precision: float, assignment: NDArray[np.int64]) -> None:
    W = np.zeros_like(best.W)
    J = settle(data, assignment.astype(np.int64), W, precision * data.C.sum())
    if best.limits[0] > J:
        best.limits[0], best.W[:] = J, W
