"""Our side of the comparison with interpretable models: this one function says what is compared.

Columns of many different numbers, no one of which fills half of the rows, are first bent by PiecewisePower,
which takes heavy tails away. A bent column that the faces use has its power as one number more, so a machine
of at most 60 numbers has bent columns only where there are at most 20 of them, and so many numbers fewer for
its faces. The search tries faces on the columns, and faces that may bend at three knots of each: a knot that
is used is a number, too.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.helpers.interpretable_rivals import LIMIT
from polyopt import Columns, LogisticPolytopes, LogisticSearch, PiecewisePower
from polyopt.estimators.search import machine_of

__all__ = ["OURS", "Polytopes", "ours"]

OURS = ("polytope, 60 numbers", "polytope, any size")
"""The names that are compared, from small to large."""

_MOST_BENT = 20
_KNOTS = (0, 3)


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
        columns = Columns() if self.standardise else FunctionTransformer()
        Z = np.asarray(columns.fit_transform(X))
        steps, most = [("columns", columns)] if self.standardise else [], self.max_numbers
        power = PiecewisePower().fit(Z)
        bent = ~np.isnan(power.powers_)
        if most is not None:
            bent &= bent.sum() <= _MOST_BENT
            most = most - int(bent.sum())
        if bent.any():
            Z = power.transform(Z)
            steps.append(("power", power))
        machine = LogisticPolytopes(n_init=2, random_state=self.seed, tol=1e-3)
        search = LogisticSearch(machine, max_faces=self.max_faces, max_numbers=most, n_knots=_KNOTS)
        self.search_ = search.fit(Z, y)
        self.classes_ = search.classes_
        self.n_numbers_ = search.n_numbers_ + int((_used(search.best_estimator_, len(bent)) & bent).sum())
        self.pipeline_ = Pipeline([*steps, ("search", search)])
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the classes."""
        return self.pipeline_.predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class."""
        return self.pipeline_.predict(X)


def _used(best: Any, m: int) -> NDArray[np.bool_]:
    """Which of m columns the faces use, themselves or one of their hinges."""
    machine = machine_of(best)
    used = (machine.W_ != 0.0).any(axis=0)
    if machine is not best:
        counts = [len(knots) for knots in best[0].knots_]
        np.logical_or.at(used, np.repeat(np.arange(m), counts), used[m:].copy())
    return used[:m]
