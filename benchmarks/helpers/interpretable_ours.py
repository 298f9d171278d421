"""Our side of the comparison with interpretable models: this one function says what is compared.

Columns of many different numbers, no one of which fills half of the rows, are first bent by scikit-learn's
PowerTransformer (Yeo-Johnson), which takes heavy tails away. A bent column that the faces use has its power
as one number more, so a machine of at most 60 numbers has bent columns only where there are at most 20 of
them, and so many numbers fewer for its faces. The search tries faces on the columns, and faces that may bend
at three knots of each: a knot that is used is a number, too.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import FunctionTransformer, PowerTransformer

from benchmarks.helpers.interpretable_rivals import LIMIT, preparation
from polyopt import LogisticPolytopes, LogisticSearch
from polyopt.estimators.search import machine_of

__all__ = ["OURS", "Polytopes", "ours"]

OURS = ("polytope, 60 numbers", "polytope, any size")
"""The names that are compared, from small to large."""

_MOST_BENT = 20
_FEW, _HALF = 10, 0.5  # different numbers of a column, and the share of its most frequent one
_KNOTS = (0, 3)
_FAR = 6.0  # deviations beyond which a bent value is taken to be there


def ours(name: str, seed: int = 0, kind: str = "") -> Any:
    """An estimator that tunes itself on what it is fitted on.

    Parameters
    ----------
    name : str
        One of OURS.
    seed : int, optional
        Of all that is drawn.
    kind : str, optional
        Of the set. Words of a ``"text"`` are taken as they are, rows of length 1; all else is standardised.

    Returns
    -------
    estimator
        Not fitted. It takes an array of numbers, or a frame of numbers and categories with gaps, and labels
        0 and 1, and has ``predict_proba``.
    """
    if name == "polytope, 60 numbers":
        return Polytopes(max_faces=4, max_numbers=LIMIT, seed=seed, standardise=kind != "text")
    return Polytopes(max_faces=16, seed=seed, standardise=kind != "text")


class Polytopes(ClassifierMixin, BaseEstimator):
    """Logistic polytopes by their search, on standardised columns, bent where that helps.

    Attributes
    ----------
    n_numbers_ : int
        Weights and biases that are not 0, the knots in use, and the powers of the columns that the faces use.
    """

    def __init__(
        self, max_faces: int = 4, max_numbers: int | None = None, seed: int = 0, standardise: bool = True
    ):
        self.max_faces, self.max_numbers, self.seed = max_faces, max_numbers, seed
        self.standardise = standardise

    def fit(self, X: Any, y: NDArray[Any]) -> Self:
        """Prepare the columns, and search."""
        kind = "mixed" if hasattr(X, "iloc") else "numbers"
        self.preparation_ = (preparation(kind) if self.standardise else FunctionTransformer()).fit(X)
        Z = np.asarray(self.preparation_.transform(X))
        self.bent_ = np.array([_can_be_bent(column) for column in Z.T])
        most = self.max_numbers
        if most is not None:
            self.bent_ &= self.bent_.sum() <= _MOST_BENT
            most = most - int(self.bent_.sum())
        self.power_ = PowerTransformer().fit(Z[:, self.bent_]) if self.bent_.any() else None
        machine = LogisticPolytopes(n_init=2, random_state=self.seed, tol=1e-3)
        search = LogisticSearch(machine, max_faces=self.max_faces, max_numbers=most, n_knots=_KNOTS)
        self.search_ = search.fit(self._columns(Z), y)
        self.classes_ = search.classes_
        self.n_numbers_ = search.n_numbers_ + int((self._used() & self.bent_).sum())
        return self

    def _used(self) -> NDArray[np.bool_]:
        """The columns that the faces use, themselves or one of their hinges."""
        best = self.search_.best_estimator_
        machine = machine_of(best)
        used = (machine.W_ != 0.0).any(axis=0)
        m = len(self.bent_)
        if machine is not best:
            counts = [len(knots) for knots in best[0].knots_]
            np.logical_or.at(used, np.repeat(np.arange(m), counts), used[m:].copy())
        return used[:m]

    def _columns(self, Z: NDArray[Any]) -> NDArray[Any]:
        if self.power_ is None:
            return Z
        made = Z.copy()
        made[:, self.bent_] = np.clip(self.power_.transform(Z[:, self.bent_]), -_FAR, _FAR)
        return made

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the classes."""
        return self.search_.predict_proba(self._columns(np.asarray(self.preparation_.transform(X))))

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def _can_be_bent(column: NDArray[Any]) -> bool:
    values, counts = np.unique(column, return_counts=True)
    return len(values) > _FEW and counts.max() < _HALF * len(column)
