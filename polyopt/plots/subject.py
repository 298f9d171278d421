"""Subjects of pictures: machines, also at the end of a pipeline, and samples with named features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["feature_names", "machine_of", "values_of"]


def machine_of(subject: Any) -> Any:
    """The machine in a search or at the end of a pipeline; `subject` itself if it is neither."""
    subject = getattr(subject, "best_estimator_", subject)
    return subject[-1] if hasattr(subject, "steps") else subject


def values_of(X: ArrayLike, names: Sequence[str] | None) -> NDArray[np.float64]:
    """Samples (n, m) as numbers; the columns of a frame in the order of `names`, if it has them all."""
    columns = getattr(X, "columns", None)
    if columns is not None and names is not None and set(columns) == set(names):
        X = X[list(names)]  # type: ignore[call-overload, index]
    return np.asarray(X, dtype=float)


def feature_names(estimator: Any, X: ArrayLike | None = None) -> list[str] | None:
    """Names of the features: those of the fit or, if it had none, the columns of a frame."""
    names = getattr(estimator, "feature_names_in_", None)
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None else [str(name) for name in names]
