"""Labels as numbers and back, for every baseline in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["LargestScore", "coded_labels"]


class LargestScore:
    """A classifier's predictions from its scores: of two classes by their sign, of more by the largest."""

    classes_: NDArray[Any]

    if TYPE_CHECKING:

        def decision_function(self, X: MatrixLike) -> NDArray[Any]:
            """Scores of samples (t, m), of shape (t,) or (t, n_classes)."""

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Predicted labels (t,), from ``classes_``."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def coded_labels(y: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, sorted, and for each label the number of its class.

    Raise ValueError for labels that are not of classes, or of one class only; `name` is the classifier's.
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs samples of at least two classes; the data has one class: {classes.tolist()}"
        )
    return classes, codes.astype(np.int64)
