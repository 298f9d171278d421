"""Before the branch and bound: equal samples become one, and moves are put in an order of good bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.polytope import lift
from polyopt.solvers.cpm.bound import Moves, add_up, try_move
from polyopt.solvers.cpm.face import Samples, caps_of, climb

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.clock import Clock
    from formulations.matrices import Vector

__all__ = ["best_order", "by_distance", "merge", "unmerge"]

_SHUFFLES, _ORDERS = 12, 100  # of the negatives, and of the moves for each, tried at the root


def merge(X: Vector, y: Vector, C: Vector, rng: np.random.Generator) -> tuple[Samples, NDArray[np.int64]]:
    """Equal samples of one class, merged into one with the sum of their costs, and each sample's place.

    The optimum is the same: some optimal assignment gives equal samples the same face. The place is -1
    where the cost is 0. Within a class the order is random, as sweeps over sorted samples favour some
    directions.
    """
    rows = np.column_stack([y, X])
    kept = np.flatnonzero(C > 0)
    unique, place = np.unique(rows[kept], axis=0, return_inverse=True)
    order = rng.permutation(len(unique))
    order = order[np.argsort(unique[order, 0], kind="stable")]
    unique, place = unique[order], np.argsort(order)[place.ravel()]
    costs = np.zeros(len(unique))
    np.add.at(costs, place, C[kept])
    A = np.ascontiguousarray(lift(unique[:, 1:]) * unique[:, :1])
    merged = np.full(len(y), -1)
    merged[kept] = place
    return Samples(A, (A * A).sum(axis=1), costs, int((unique[:, 0] < 0).sum())), merged


def unmerge(a: Vector, merged_costs: Vector, merged: NDArray[np.int64], C: Vector) -> Vector:
    """Multipliers of the merged samples shared out in proportion to the costs."""
    share = np.where(merged >= 0, C / merged_costs[merged], 0.0)
    return a[merged] * share[:, None]


def by_distance(data: Samples) -> NDArray[np.int64]:
    """The positives, those in the middle of the negatives first, who cost as much on any face."""
    inside, points = -data.A[: data.inside, :-1], data.A[data.inside :, :-1]
    if not len(inside):
        return np.arange(len(points))
    scale = inside.std(axis=0)
    far = np.linalg.norm((points - inside.mean(axis=0)) / np.where(scale > 0, scale, 1.0), axis=1)
    return np.argsort(far, kind="stable")


def best_order(
    data: Samples, moves: Moves, rng: np.random.Generator, clock: Clock
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order in which the moves are added up for a good bound at the root, and that of the samples.

    It begins with that by distance; then samples are moved about as long as the bound rises. Which
    multipliers the moves use up depends on the order of the negatives too: of some at random that with the
    best bound is kept.
    """
    as_they_are, nearest = np.arange(len(data.C)), by_distance(data)
    if len(nearest) < 2 or not data.inside:
        return nearest, as_they_are
    best, order, kept = -np.inf, nearest, as_they_are
    for _ in range(_SHUFFLES):
        rows = np.r_[rng.permutation(data.inside), np.arange(data.inside, len(data.C))]
        shuffled = Samples(data.A[rows], data.q[rows], data.C[rows], data.inside)
        bound, found = _climb_orders(shuffled, nearest, moves, rng, clock)
        if bound > best:
            best, order, kept = bound, found, rows
        if clock.is_over:
            break
    return order, kept


def _climb_orders(
    data: Samples, order: NDArray[np.int64], moves: Moves, rng: np.random.Generator, clock: Clock
) -> tuple[float, NDArray[np.int64]]:
    """The bound, and the order with samples moved about at random where that raises it."""
    n, npos = len(data.C), len(order)
    a, W, caps = np.zeros((1, n)), np.zeros((1, data.A.shape[1])), np.zeros((1, n))
    caps_of(data, np.full(npos, -1), 0, caps[0])
    climb(data, np.zeros_like(a[0]), caps[0], a[0], W[0], 1000, np.inf, 0.0)
    for p in range(npos):
        try_move(data, caps[0], a[0], W[0], p, 0, moves, np.inf)
    everywhere = np.ones((npos, 1), dtype=bool)
    most = -np.inf
    for trial in range(_ORDERS):
        one, other = rng.integers(npos, size=2)
        changed = _moved(order, one, other) if trial else order
        total = add_up(data, caps, a, W, moves, everywhere, changed, 1, np.inf)
        if total >= most:
            most, order = total, changed
        if clock.is_over:
            break
    return most, order


def _moved(order: NDArray[np.int64], one: int, other: int) -> NDArray[np.int64]:
    """The order with the sample at place `one` put at place `other`."""
    changed = order.copy()
    if one < other:
        changed[one:other] = order[one + 1 : other + 1]
    else:
        changed[other + 1 : one + 1] = order[other:one]
    changed[other] = order[one]
    return changed
