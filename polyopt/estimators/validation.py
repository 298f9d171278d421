"""Samples as scikit-learn checks them, without masked entries."""

from __future__ import annotations

from typing import Any

from sklearn.utils import validation

from formulations.arguments import refuse_masked

__all__ = ["validate_data"]


def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
    """Check samples by ``sklearn.utils.validation.validate_data``, which would take masked entries as data.

    Parameters
    ----------
    estimator : estimator
        The one that takes the samples.
    X, y : array_like
        Samples, and labels if there are any.
    **checks
        As of scikit-learn's function.

    Raises
    ------
    ValueError
        A masked entry of X or y, and what scikit-learn refuses.
    """
    refuse_masked("X", X)
    refuse_masked("y", y)
    return validation.validate_data(estimator, X, y, **checks)
