"""Votes of pairs of classes, ties broken at random."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["random_votes"]


def random_votes(second: NDArray[np.bool_], n_classes: int, random_state: Any) -> NDArray[np.float64]:
    """Number of votes of each class; a tie is broken by less than a vote.

    Samples on which all pairs agree are told apart by nothing, so that they get the same answer, in
    whatever company they come.

    Parameters
    ----------
    second : ndarray of bool, shape (t, pairs)
        Whether the second class of each pair won, pairs in the order of ``itertools.combinations``.
    n_classes : int
        Number of classes.
    random_state : int, RandomState instance or None
        Seed of the lots.
    """
    patterns, which = np.unique(np.packbits(second, axis=1), axis=0, return_inverse=True)
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    lots = np.array(
        [np.random.default_rng([seed, *pattern]).random(n_classes) for pattern in patterns.tolist()]
    )
    votes = 0.5 * lots.reshape(len(patterns), n_classes)[which.ravel()]
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        votes[:, j] += second[:, pair]
        votes[:, i] += ~second[:, pair]
    return votes
