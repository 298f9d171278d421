"""Hinges: the transformer that adds the features max(0, x − t), 0 up to a knot t and linear above it.

A linear function of these features, such as a face of a polyhedral classifier, is piecewise linear in x.
"""

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
    """Transformer that keeps each feature x and adds ``max(0, x - t)`` for each of its knots t.

    These are the hinges of multivariate adaptive regression splines (Friedman 1991, eq. (30)): a linear
    function of them is piecewise linear in every feature of X. The weight of a hinge is the change of the
    slope at its knot, so a ridge penalty on the weights makes the function smoother. A ``StandardScaler``
    before this step makes the penalty treat all features alike.

    Knots are quantiles of the training data. A value that more than one in ``n_knots + 1`` samples have, such
    as a frequent 0, could be several quantiles. Therefore the quantiles are those of the other values or, if
    at most two other values are left, of the distinct values. A feature of at most two values has no knots.

    Parameters
    ----------
    n_knots : int, default=3
        Largest number of knots of a feature, at least 0.

    Attributes
    ----------
    knots_ : list of ndarray
        Knots of each feature, ascending.
    n_knots_ : ndarray of int, shape (n_features_out,)
        Number of knots of each output feature: 1 for a hinge, 0 for a feature of X.

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
        self.n_knots_ = np.repeat([0, 1], [values.shape[1], sum(len(t) for t in self.knots_)])
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
    """Return `count` quantiles of a column without frequent values; duplicates are removed."""
    values, counts = np.unique(column, return_counts=True)
    if len(values) <= 2 or count == 0:
        return np.empty(0)
    weights = np.where(counts * (count + 1) > len(column), 0, counts)  # 0 for a frequent value
    if np.count_nonzero(weights) <= 2:
        weights = np.ones(len(values))
    # Mid-ranks of the values, in [0, 1].
    levels = (np.cumsum(weights) - 0.5 * weights) / weights.sum()
    quantiles = np.arange(1, count + 1) / (count + 1)
    # A knot is never the smallest or the largest value.
    return np.unique(values[np.searchsorted(levels, quantiles).clip(1, len(values) - 2)])
