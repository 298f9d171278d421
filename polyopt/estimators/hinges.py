"""Hinges: features that are 0 up to a knot and grow from there, so that a face may bend with a feature."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import whole
from formulations.language.types import Array
from polyopt.base.types import SamplesLike
from polyopt.estimators.parameters import estimator
from polyopt.estimators.validation import validated


@estimator
class Hinges(TransformerMixin, BaseEstimator):
    """Every feature as it is, and ``max(0, x - t)`` for some knots t of each.

    A face that is linear in these features is piecewise linear in every feature of X, as the hinges of
    multivariate adaptive regression splines are (Friedman 1991, eq. (30)). A ridge on their weights makes it
    smooth: a weight is by how much the slope changes at a knot. Put it after a
    ``StandardScaler``, so that all features cost alike.

    Knots are quantiles of the training data, without the values that more than one in ``n_knots + 1`` samples
    share, such as a pile at 0, which would take all knots to itself. A feature of two values has no knots.

    Parameters
    ----------
    n_knots : int, default=3
        Knots of each feature at most, at least 0.

    Attributes
    ----------
    knots_ : list of ndarray
        Those of each feature, ascending.
    numbers_ : ndarray of int, shape (n_features_out,)
        The numbers that a feature of the output itself takes: 1 for a hinge, its knot, else 0.

    Examples
    --------
    >>> from polyopt import Hinges
    >>> features = Hinges(n_knots=1).fit([[0.0], [1.0], [4.0]])
    >>> features.get_feature_names_out().tolist()
    ['x0', 'max(0, x0 - 1)']
    >>> features.transform([[3.0]])
    array([[3., 2.]])
    """

    n_knots: int = 3
    _: KW_ONLY

    def fit(self, X: SamplesLike, y: ArrayLike | None = None) -> Self:
        """Place the knots.

        Parameters
        ----------
        X : array_like of shape (n, m)
            The training data.
        y : ignored
            For pipelines.

        Raises
        ------
        ValueError
            A value that is not finite, or an invalid number of knots.
        """
        count = whole("n_knots", self.n_knots, 0)
        values = validated(self, X, dtype=np.float64)
        self.knots_ = [_knots(column, count) for column in values.T]
        self.numbers_ = np.repeat([0, 1], [values.shape[1], sum(len(t) for t in self.knots_)])
        return self

    def transform(self, X: SamplesLike) -> Array:
        """Return the features, then the hinges of each in turn: (n, n_features_out)."""
        check_is_fitted(self)
        values = validated(self, X, dtype=np.float64, reset=False)
        hinges = [np.maximum(values[:, [j]] - t, 0.0) for j, t in enumerate(self.knots_) if len(t)]
        return np.hstack([values, *hinges])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names: those of the input, and ``max(0, name - knot)``."""
        check_is_fitted(self)
        if input_features is None:
            own = getattr(self, "feature_names_in_", None)
            input_features = [f"x{j}" for j in range(self.n_features_in_)] if own is None else own
        names = [str(name) for name in np.asarray(input_features)]
        if len(names) != self.n_features_in_:
            raise ValueError(f"input_features must be {self.n_features_in_} names, not {len(names)}")
        hinges = [
            f"max(0, {name} {'-' if t >= 0 else '+'} {abs(t):.4g})"
            for name, knots in zip(names, self.knots_, strict=True)
            for t in knots
        ]
        return np.array(names + hinges, dtype=object)


def _knots(column: Array, count: int) -> Array:
    """Quantiles of a column without its piles, or of its different values where there is little else."""
    values, often = np.unique(column, return_counts=True)
    if len(values) <= 2 or count == 0:
        return np.empty(0)
    counted = np.where(often * (count + 1) > len(column), 0, often)
    if np.count_nonzero(counted) <= 2:
        counted = np.ones(len(values))
    places = (np.cumsum(counted) - 0.5 * counted) / counted.sum()
    wanted = np.arange(1, count + 1) / (count + 1)
    found = values[np.searchsorted(places, wanted).clip(1, len(values) - 2)]
    return np.unique(found)
