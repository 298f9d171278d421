"""Labels as numbers, for every baseline in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["coded_labels"]


def coded_labels(y: ArrayLike, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, sorted, and for each label the number of its class.

    Parameters
    ----------
    y : array_like of shape (n,)
        Labels.
    name : str
        The classifier that asks, for the message.

    Raises
    ------
    ValueError
        Labels that are not of classes, or of one class only.
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"{name} needs samples of at least two classes; the data has one class: {classes.tolist()}"
        )
    return classes, codes.astype(np.int64)
