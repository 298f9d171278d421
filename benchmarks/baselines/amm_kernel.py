"""The steps of AMM online.

With the step 1/(λ(t+1)) and the decay t/(t+1), a weight after step t is its running sum of samples
over λ(t+1): ``w = u / (λ(t+1))``. Only the sums are kept. The margin test ``w_y'x − w_o'x < 1`` of step
t, whose weights are those after step t−1, becomes ``u_y'x − u_o'x < λt``, and the pruning rule
``Σ‖w‖² <= (c/(λt))²`` becomes ``Σ‖u‖² <= (c (t+1)/t)²``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.compiled import njit
from polyopt.operands import put

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Integers = NDArray[np.int64]

__all__ = ["prune", "show"]


@njit(cache=True)
def _best(sums: Vector, count: int, x: Vector) -> tuple[int, float]:
    """The weight of a class that scores highest, and its score."""
    best, score = 0, -np.inf
    for j in range(count):
        product = 0.0
        for i in range(len(x)):
            product += sums[j, i] * x[i]
        if product > score:
            best, score = j, product
    return best, score


@njit(cache=True)
def _square(w: Vector) -> float:
    """``‖w‖²``."""
    total = 0.0
    for i in range(len(w)):
        total += w[i] * w[i]
    return total


@njit(cache=True)
def show(
    X: Vector, codes: Integers, order: Integers, sums: Vector, counts: Integers, steps: int, lam: float,
    prune_every: int, c: float,
) -> int:  # fmt: skip
    """Show the samples in that order; return how many weights were pruned.

    `X` (n, m+1) has a last column of ones; `sums` (n_classes, limit, m+1) and `counts` (n_classes,) are
    changed; `steps` were taken before.
    """
    n_classes, limit = sums.shape[0], sums.shape[1]
    pruned = 0
    for place in range(len(order)):
        t = steps + place + 1
        x, true = X[order[place]], codes[order[place]]
        mine, own = _best(sums[true], counts[true], x)
        rival, theirs, other = -1, -1, -np.inf
        for k in range(n_classes):
            if k != true:
                j, score = _best(sums[k], counts[k], x)
                if score > other:
                    rival, theirs, other = k, j, score
        if own - other < lam * t:
            for i in range(len(x)):
                sums[rival, theirs, i] -= x[i]
            if own <= 0.0 and counts[true] < limit:
                mine = counts[true]
                for i in range(len(x)):
                    sums[true, mine, i] = 0.0
                counts[true] += 1
            for i in range(len(x)):
                sums[true, mine, i] += x[i]
        if t % prune_every == 0:
            pruned += prune(sums, counts, c * (t + 1.0) / t)
    return pruned


@njit(cache=True)
def prune(sums: NDArray[Any], counts: Integers, size: float) -> int:
    """Drop the smallest weights, as many as have ``Σ‖u‖² <= size²`` together; return how many.

    Of `sums` (n_classes, limit, m+1) those that stay are moved together. A class keeps its last weight,
    however small.
    """
    limit, total = sums.shape[1], 0
    norms = np.full(len(counts) * limit, np.inf)  # of weights that may still go
    for k in range(len(counts)):
        total += counts[k]
        for j in range(counts[k]):
            norms[k * limit + j] = _square(sums[k, j])
    left, gone = counts.copy(), np.zeros(len(norms), np.bool_)
    weight, pruned = 0.0, 0
    for _ in range(total):
        i = np.argmin(norms)
        weight += norms[i]
        if weight > size * size:
            break
        norms[i] = np.inf
        if left[i // limit] > 1 and not gone[i]:  # all that overflow are equal
            left[i // limit] -= 1
            gone[i] = True
            pruned += 1
    for k in range(len(counts)):
        kept = 0
        for j in range(counts[k]):
            if not gone[k * limit + j]:
                put(sums[k, j], sums[k, kept])
                kept += 1
        counts[k] = kept
    return pruned
