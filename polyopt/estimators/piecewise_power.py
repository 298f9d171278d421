"""The power transform by straight pieces."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import PowerTransformer
from sklearn.utils.validation import check_is_fitted

from polyopt.estimators.validation import validated

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.matrices import Array
    from polyopt.estimators.given import SamplesLike

__all__ = ["PiecewisePower"]

_LEVELS = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
_FEW, _HALF = 10, 0.5  # different numbers of a column, and the share of its most frequent one


class PiecewisePower(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Take the heavy tails of columns away, by a rising function of straight pieces.

    Each column is standardised and goes through the power transform of Yeo and Johnson (2000) with the power
    of greatest likelihood, which scikit-learn's ``PowerTransformer`` finds; the result has mean 0 and
    deviation 1. Between the places where that is a whole number from -3 to 3 the function is taken to be
    straight, and beyond the last of them constant. So outliers are held, and the function is a sum of hinges.

    Columns of at most ten different numbers, and those of which one number fills half, stay as they are. Put
    it after ``Columns``, whose indicators it leaves alone.

    Attributes
    ----------
    powers_ : ndarray of shape (m,)
        The power of each column; nan where it stays as it is.
    knots_, levels_ : list of ndarray
        For each column the ends of the pieces, ascending, and the function there; empty where it stays.

    Examples
    --------
    >>> import numpy as np
    >>> from polyopt import PiecewisePower
    >>> incomes = np.exp(np.linspace(0.0, 5.0, 51))[:, None]  # from 1 to 148, the median 12
    >>> power = PiecewisePower().fit(incomes)
    >>> power.transform(incomes[[0, 25, 50]]).round(1).ravel()
    array([-1.2, -0.3,  1.6])
    """

    def fit(self, X: SamplesLike, y: ArrayLike | None = None) -> Self:
        """Find the powers.

        Parameters
        ----------
        X : array_like of shape (n, m)
            The training data.
        y : ignored
            For pipelines.

        Raises
        ------
        ValueError
            Anything that is not finite.
        """
        values = validated(self, X, dtype=np.float64)
        found = [_pieces(column) for column in values.T]
        self.powers_ = np.array([power for power, _, _ in found])
        self.knots_ = [knots for _, knots, _ in found]
        self.levels_ = [levels for _, _, levels in found]
        return self

    def transform(self, X: SamplesLike) -> Array:
        """The columns (n, m), in the place where each was."""
        check_is_fitted(self)
        values = validated(self, X, dtype=np.float64, reset=False)
        made = np.array(values, dtype=np.float64)
        for j, (knots, levels) in enumerate(zip(self.knots_, self.levels_, strict=True)):
            if len(knots):
                made[:, j] = np.interp(values[:, j], knots, levels)
        return made


def _pieces(column: Array) -> tuple[float, Array, Array]:
    """The power, the ends of the pieces, and the function there; nan and nothing where a column stays."""
    as_it_is: tuple[float, Array, Array] = np.nan, np.empty(0), np.empty(0)
    values, counts = np.unique(column, return_counts=True)
    if len(values) <= _FEW or counts.max() >= _HALF * len(column):
        return as_it_is
    mean, scale = column.mean(), column.std()
    standard: Any = PowerTransformer()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        standard.fit(((column - mean) / scale)[:, None])
        knots = mean + scale * standard.inverse_transform(_LEVELS[:, None])[:, 0]
    # A bounded power transform never comes to some levels.
    known = np.isfinite(knots)
    knots, levels = knots[known], _LEVELS[known]
    if len(knots) < 2 or not (np.diff(knots) > 0).all() or not np.isfinite(standard.lambdas_[0]):
        return as_it_is
    return float(standard.lambdas_[0]), knots, levels
