"""Our side of the comparison with interpretable models: this one function says what is compared.

Gaps of numbers are filled and marked, rare categories share an indicator, and numbers are standardised.
Columns of many different numbers, no one of which fills half of the rows, then go through the power transform
of Yeo and Johnson and are held within three deviations, which takes heavy tails away. A bent column that the
faces use has its power as one number more, so a machine of at most 60 numbers has bent columns only where
there are at most 20 of them, and so many numbers fewer for its faces. The search tries faces on the columns,
and faces that may bend at three knots of each: a knot that is used is a number, too.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PowerTransformer, StandardScaler

from benchmarks.helpers.interpretable_rivals import LIMIT
from polyopt import LogisticPolytopes, LogisticSearch
from polyopt.polyhedral.logistic_search import hinges_and_machine

__all__ = ["OURS", "Polytopes", "ours"]

OURS = ("polytope, 60 numbers", "polytope, any size")
"""The names that are compared, from small to large."""

_MAX_BENT = 20
_MAX_LEVELS = 10  # a column of so many different numbers, or fewer, is not bent
_MAX_SHARE = 0.5  # nor one of whose rows a single number fills this share
_MAX_DEVIATIONS = 3.0  # deviations beyond which bent columns are held
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
        steps: list[Any] = [_columns(X)] if self.standardise else []
        Z = np.asarray(steps[0].fit_transform(X) if steps else X)
        most, bent = self.max_numbers, np.array([_is_bent(column) for column in Z.T])
        if most is not None:
            bent &= bent.sum() <= _MAX_BENT
            most = most - int(bent.sum())
        if bent.any():
            steps.append(_power(bent))
            Z = steps[-1].fit_transform(Z)
        machine = LogisticPolytopes(n_init=2, random_state=self.seed, tol=1e-3)
        search = LogisticSearch(machine, max_faces=self.max_faces, numbers=most, n_knots=_KNOTS)
        self.search_ = search.fit(Z, y)
        self.classes_ = search.classes_
        used = _used(search.best_estimator_, len(bent))  # bent columns come first
        self.n_numbers_ = search.n_numbers_ + int(used[: bent.sum()].sum())
        self.pipeline_ = make_pipeline(*steps, search)
        return self

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Probabilities of the classes."""
        return self.pipeline_.predict_proba(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The more probable class."""
        return self.pipeline_.predict(X)


def _columns(X: Any) -> Any:
    """What makes columns of an array of numbers, or of a frame with categories."""
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    if isinstance(X, np.ndarray):
        return numbers
    levels = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="(missing)"),
        OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.01, sparse_output=False),
    )
    return ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_include="number")),
            ("levels", levels, make_column_selector(dtype_include="category")),
        ]
    )


def _is_bent(column: NDArray[np.float64]) -> bool:
    values, counts = np.unique(column, return_counts=True)
    return len(values) > _MAX_LEVELS and counts.max() < _MAX_SHARE * len(column)


def _power(bent: NDArray[np.bool_]) -> ColumnTransformer:
    """The power transform of some columns, which come first then."""
    held = FunctionTransformer(np.clip, kw_args={"a_min": -_MAX_DEVIATIONS, "a_max": _MAX_DEVIATIONS})
    return ColumnTransformer(
        [("power", make_pipeline(PowerTransformer(), held), np.flatnonzero(bent))], remainder="passthrough"
    )


def _used(best: Any, m: int) -> NDArray[np.bool_]:
    """Which of m columns the faces use, themselves or one of their hinges."""
    hinges, machine = hinges_and_machine(best)
    used = (machine.W_ != 0.0).any(axis=0)
    if hinges is not None:
        counts = [len(knots) for knots in hinges.knots_]
        np.logical_or.at(used, np.repeat(np.arange(m), counts), used[m:].copy())
    return used[:m]
