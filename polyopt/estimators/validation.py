"""Samples and labels as scikit-learn validates them, after a look at what it has no sentence for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import validation

from polyopt.estimators.frames import check_unique

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["check_labels", "validate_data"]


def check_labels(y: object) -> None:
    """Refuse missing labels among objects, which cannot be sorted; scikit-learn finds NaN among numbers.

    Parameters
    ----------
    y : array_like
        Labels.

    Raises
    ------
    ValueError
        None, NaN or pandas' NA among the labels.
    """
    labels = np.asarray(y, dtype=None if hasattr(y, "dtype") else object)  # NaN in a list would be a text
    if labels.dtype.kind != "O" or labels.ndim != 1:
        return
    from pandas import isna

    missing = isna(labels)
    if missing.any():
        row = int(missing.argmax())
        raise ValueError(
            f"y contains NaN or another missing label: {labels[row]!r} in row {row}, {int(missing.sum())} in "
            "all; leave these samples out"
        )


def validate_data(estimator: BaseEstimator, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Validate as :func:`sklearn.utils.validation.validate_data`, with its arguments and results.

    Raises
    ------
    ValueError
        As there; two columns of one name; or a missing label.
    """
    check_unique("X", getattr(X, "columns", ()))
    if y is not None and not isinstance(y, str):
        check_labels(y)
    return validation.validate_data(estimator, X, y, **options)
