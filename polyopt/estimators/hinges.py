"""Hinges: the transformer that adds the features max(0, x − t), 0 up to a knot t and linear above it.

A face, linear in these features, is then piecewise linear in x.
"""

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
    """Transformer to every feature x itself and ``max(0, x - t)`` for knots t of the feature.

    A face that is linear in these features is piecewise linear in every feature of X, as the hinges of
    multivariate adaptive regression splines are (Friedman 1991, eq. (30)). The weight of a hinge is the
    change of the slope at its knot, so that a ridge makes the face smooth. A ``StandardScaler`` before this
    step makes the ridge treat all features alike.

    Knots are quantiles of the training data. Values of more than one in ``n_knots + 1`` samples, such as a
    frequent 0, are left out, as they would be several quantiles. A feature of two values has no knots.

    Parameters
    ----------
    n_knots : int, default=3
        Largest number of knots of a feature, at least 0.

    Attributes
    ----------
    knots_ : list of ndarray
        Knots of each feature, ascending.
    numbers_ : ndarray of int, shape (n_features_out,)
        Number of parameters of each output feature: 1 for a hinge, its knot, else 0.

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

    def fit(self, X: "SamplesLike", y: ArrayLike | None = None) -> Self:
        """Compute the knots.

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

    def transform(self, X: "SamplesLike") -> Array:
        """Return the features, then the hinges, feature by feature: (n, n_features_out)."""
        check_is_fitted(self)
        values = validated(self, X, dtype=np.float64, reset=False)
        hinges = [np.maximum(values[:, [j]] - t, 0.0) for j, t in enumerate(self.knots_) if len(t)]
        return np.hstack([values, *hinges])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the input, and ``max(0, name - knot)`` for the hinges."""
        check_is_fitted(self)
        if input_features is None:
            default = [f"x{j}" for j in range(self.n_features_in_)]
            input_features = getattr(self, "feature_names_in_", default)
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
    """Return quantiles of a column without frequent values, or of its distinct values if few are left."""
    values, counts = np.unique(column, return_counts=True)
    if len(values) <= 2 or count == 0:
        return np.empty(0)
    weights = np.where(counts * (count + 1) > len(column), 0, counts)
    if np.count_nonzero(weights) <= 2:
        weights = np.ones(len(values))
    levels = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
    quantiles = np.arange(1, count + 1) / (count + 1)
    return np.unique(values[np.searchsorted(levels, quantiles).clip(1, len(values) - 2)])
