"""Samples dealt out to groups that are as alike as can be, each like the whole.

What is wanted of groups is that each of them, by itself, asks for nearly the faces that all the data ask for
(:mod:`polyopt.outer.cpm.groups`). So samples of one class that lie close to each other are spread over the
groups: a class is halved, and the halves again, each at the median of the feature that is spread most there,
down to blocks of as many samples as there are groups, and of a block each group gets one sample. Within a
block a group gets what brings the mean of its features closest to that of the class, which is an assignment
problem: with s_g the sum of what group g has over the mean, ‖s_g + x_i‖² summed over the pairs is least where
Σ s_g·x_i is. The other way round, far samples in each group, is known as anticlustering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Places = NDArray[np.int64]

__all__ = ["groups_alike"]

_MOST = 1 << 22  # entries of samples times groups up to which a block is dealt by matching


def groups_alike(
    X: Vector, y: Vector, count: int, rng: np.random.Generator, weights: Vector | None = None
) -> Places:
    """The group of each sample, from 0 to `count` - 1.

    X (n, m): samples.
    y (n,): their classes, each spread by itself.
    count: how many groups.
    rng: decides what the samples leave open.
    weights (m,): what a standard deviation of each feature counts; by default 1.
    Returns (n,): the sizes of the groups differ by one at most in each class, and in all.
    """
    spread = X.std(axis=0)
    scaled = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    if weights is not None:
        scaled *= weights
    group, first = np.empty(len(y), dtype=np.int64), 0
    for label in np.unique(y):
        at = np.flatnonzero(y == label)
        order = at[_near_each_other(scaled[at], count)]
        centred = scaled[order] - scaled[order].mean(axis=0)
        sums = np.zeros((count, X.shape[1]))
        for begin in range(0, len(order), count):
            block = centred[begin : begin + count]
            # The last block of a class ends where the first one of the next class goes on.
            open_to = (first + rng.permutation(len(block))) % count
            to = open_to[_dealt(sums[open_to], block)]
            group[order[begin : begin + count]] = to
            sums[to] += block
        first = (first + len(order)) % count
    return group


def _dealt(sums: Vector, block: Vector) -> Places:
    """Which of the groups each sample of a block goes to."""
    if len(block) ** 2 > _MOST:
        return np.arange(len(block))
    rows, columns = linear_sum_assignment(block @ sums.T)
    to = np.empty(len(block), dtype=np.int64)
    to[rows] = columns
    return to


def _near_each_other(points: Vector, size: int) -> Places:
    """An order in which each `size` points that follow each other are close; of the last ones fewer."""
    done: list[Places] = []
    waiting = [np.arange(len(points))]
    while waiting:
        at = waiting.pop()
        blocks = -(-len(at) // size)
        if blocks < 2:
            done.append(at)
            continue
        here = points[at]
        at = at[np.argsort(here[:, here.std(axis=0).argmax()], kind="stable")]
        half = size * (blocks // 2)
        waiting += [at[half:], at[:half]]
    return np.concatenate(done)
