"""What the searches share once they have searched: they answer as the classifier they chose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ClassifierSearch"]


class ClassifierSearch(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of the searches, whose ``fit`` sets ``best_estimator_``."""

    best_estimator_: Any

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels, by the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores, of the chosen classifier."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
