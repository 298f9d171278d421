"""Answers of several classes from those of their pairs: winners of votes, and coupled probabilities."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def couple_pairs(second: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Return the probabilities (t, n_classes) that agree best with those of all pairs.

    Minimises Σ_{i≠j} (r_ji p_i − r_ij p_j)² with Σ p = 1, the second method of Wu, Lin & Weng,
    Probability Estimates for Multi-class Classification by Pairwise Coupling (2004).

    `second` (t, pairs) has the probability of each pair's second class, pairs in the order of
    ``itertools.combinations``.
    """
    t = len(second)
    r = np.zeros((t, n_classes, n_classes))  # r[:, i, j]: probability of i among i and j
    # Where pairs are certain, classes would have probabilities of exactly 0 and could not be told apart.
    second = np.clip(second, 1e-12, 1.0 - 1e-12)
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        r[:, j, i], r[:, i, j] = second[:, pair], 1.0 - second[:, pair]
    system = np.zeros((t, n_classes + 1, n_classes + 1))
    system[:, :-1, :-1] = -r * r.transpose(0, 2, 1)
    each = np.arange(n_classes)
    system[:, each, each] = (r**2).sum(axis=1)
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    right = np.zeros((t, n_classes + 1, 1))
    right[:, -1] = 1.0
    p = np.maximum(np.linalg.solve(system, right)[:, :-1, 0], np.finfo(float).tiny)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def certain_winners(
    second: NDArray[np.bool_], first: NDArray[np.bool_], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the classes (t,) with most certain votes, and a mask of those that no vote in doubt can change.

    `second` and `first` (t, pairs) are True if that class of the pair won for certain, pairs in the order of
    ``itertools.combinations``.
    """
    pairs = np.array(list(combinations(range(n_classes), 2)))
    is_first, is_second = (np.eye(n_classes, dtype=np.float32)[pairs[:, side]] for side in (0, 1))
    one, two = first.astype(np.float32), second.astype(np.float32)
    least = one @ is_first + two @ is_second
    most = (n_classes - 1) - (one @ is_second + two @ is_first)
    winner, every = least.argmax(axis=1), np.arange(len(least))
    most[every, winner] = -1.0
    return winner, least[every, winner] > most.max(axis=1)
