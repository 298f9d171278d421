"""What the searches share: how they are fitted, and that they answer as the classifier they chose."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from formulations.runs import whole_or_nothing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from polyopt.estimators.given import SamplesLike

__all__ = ["ClassifierSearch"]


class ClassifierSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of the searches. A subclass chooses in :meth:`_search`."""

    best_estimator_: Any

    @abstractmethod
    def _search(self, X: SamplesLike, y: ArrayLike, weights: dict[str, Any]) -> None:
        """Set ``best_estimator_``, fitted to all data; `weights` has a ``sample_weight`` or nothing."""

    def fit(self, X: SamplesLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Search, then fit the classifier that was chosen to all data.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (n, m)
            Training samples.
        y : array_like of shape (n,)
            Labels.
        sample_weight : array_like of shape (n,), optional
            Weights of the samples in training.

        Returns
        -------
        self
            The fitted search.

        Raises
        ------
        ValueError
            No candidates, or a setting that is not allowed.
        KeyboardInterrupt
            After Ctrl-C: candidates of which some were broken off cannot be compared.
        """
        with whole_or_nothing():
            self._search(X, y, {} if sample_weight is None else {"sample_weight": sample_weight})
        self.classes_ = self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        return self

    def predict(self, X: SamplesLike) -> NDArray[Any]:
        """Labels, by the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: SamplesLike) -> NDArray[Any]:
        """Scores, of the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
