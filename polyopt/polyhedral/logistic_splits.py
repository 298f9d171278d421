"""The samples of a search over logistic polytopes, on each split, as binary problems."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils.validation import check_X_y

from formulations.language.arguments import refuse_masked
from formulations.language.types import canonical, check_indices
from polyopt.estimators.validation import checked_weights, class_weights, explained
from polyopt.polyhedral.logistic_estimator import LogisticPolytopes
from polyopt.polyhedral.logistic_paths import Split

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array
    from polyopt.base.types import SamplesLike

__all__ = ["SplitSamples"]

_MAX_FIRST_ROUND = 3000  # samples that the first round trains on


class SplitSamples:
    """The samples of each split, a binary problem for each pair of classes.

    ``splits`` are `count` whole ones, and where the first of them has many samples one more with a part of
    them; ``first`` is the number of the one for the first round. ``unit`` is the weight of the samples.
    """

    def __init__(
        self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any], machine: LogisticPolytopes,
        cv: BaseCrossValidator | None, seed: int,
    ):  # fmt: skip
        refuse_masked("X", X)
        check_indices(X)
        refuse_masked("y", y)
        name = "LogisticSearch"
        with explained(name, X, y):
            samples, labels = check_X_y(X, y, accept_sparse="csr", dtype=np.float64, estimator=name)
        samples = canonical(samples)
        mass = np.array(checked_weights(weights.get("sample_weight"), samples))
        used = mass > 0  # a sample without weight is left out, and so is a class that has no other
        classes, codes = np.unique(labels[used], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"LogisticSearch needs samples of two classes; the data has one class: {classes.tolist()}"
            )
        mass[used] *= class_weights(machine.class_weight, classes, codes, mass[used])[codes]
        numbers = np.full(len(mass), -1)
        numbers[used] = codes
        codes = numbers
        pairs = list(combinations(range(len(classes)), 2))
        masses = [mass[np.isin(codes, pair)].sum() for pair in pairs]
        self.unit = float(np.mean(masses))
        places = np.flatnonzero(used)
        if cv is None:
            own = _splitter(codes[used], seed).split(places, codes[used])
            pieces = [(places[train], places[held]) for train, held in own]
        else:
            pieces = list(cv.split(samples, labels))
        self.count = len(pieces)
        # The first round needs no more samples than tell structures apart.
        train, held = pieces[0]
        if len(train) > _MAX_FIRST_ROUND:
            pieces.append((np.random.default_rng(seed).permutation(train)[:_MAX_FIRST_ROUND], held))
        self.first = len(pieces) - 1 if len(pieces) > self.count else 0
        self.splits = [
            [
                _split(samples, codes, mass, pair, train, held, total)
                for pair, total in zip(pairs, masses, strict=True)
            ]
            for train, held in pieces
        ]


def _splitter(codes: NDArray[np.intp], seed: int) -> Any:
    n, fewest = len(codes), int(np.bincount(codes).min())
    if fewest < 2:
        raise ValueError(
            "LogisticSearch chooses by samples held out, and needs at least two of every class; a class "
            "has one: fit LogisticPolytopes, or give cv"
        )
    if n >= 3000:  # one split is enough
        return StratifiedShuffleSplit(1, test_size=0.25, random_state=seed)
    return StratifiedKFold(max(2, min(3 if n >= 1000 else 5, fewest)), shuffle=True, random_state=seed)


def _split(
    X: Any,
    codes: NDArray[np.intp],
    mass: Array,
    pair: tuple[int, int],
    train: Array,
    held: Array,
    total: float,
) -> Split:
    parts = []
    for rows in (train, held):
        mine = rows[np.isin(codes[rows], pair)]
        parts.append((X[mine], np.where(codes[mine] == pair[1], 1.0, -1.0), mass[mine]))
    (A, y, c), out = parts
    if len(np.unique(y)) < 2:
        raise ValueError("cv must leave samples of every class to train on")
    return Split(A, y, c, out, float(c.sum() / total))
