"""The weights of samples and of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import compute_class_weight

from formulations.arguments import as_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix
    from polyopt.estimators.given import ClassWeight

__all__ = ["checked_weights", "class_weights"]


def checked_weights(sample_weight: ArrayLike | None, X: Matrix) -> NDArray[np.float64]:
    """The weights (n,) of the samples, ones by default; those below zero are refused."""
    n = X.shape[0]
    return np.ones(n) if sample_weight is None else as_weights(sample_weight, n, "sample_weight")


def class_weights(
    class_weight: ClassWeight,
    classes: NDArray[Any],
    codes: NDArray[Any],
    weights: NDArray[Any],
) -> NDArray[Any]:
    """Weight per class; "balanced" gives every class the same total.

    Parameters
    ----------
    class_weight : mapping, "balanced" or None
        Weights by class; None for ones.
    classes : ndarray of shape (n_classes,)
        The classes.
    codes : ndarray of int, shape (n,)
        The number of each sample's class.
    weights : ndarray of shape (n,)
        Weights of the samples.

    Raises
    ------
    ValueError
        A weight that is not positive.
    """
    if class_weight is None:
        return np.ones(len(classes))
    if class_weight == "balanced":
        totals = np.bincount(codes, weights)
        return weights.sum() / (len(totals) * totals)
    per_class = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    if not (per_class > 0).all():
        raise ValueError(f"class_weight must be positive, not {class_weight!r}")
    return per_class
