"""Data made ready for a comparison: checked, split, and scaled on the training part alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from polyopt.datasets import Dataset, features_of, fit_preparation, load

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.preprocessing import StandardScaler

    from formulations.matrices import Matrix

__all__ = ["Prepared", "check_dataset", "prepare", "scaler_for"]

_TEST_SHARE = 0.25  # of the samples, scikit-learn's own default


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A data set, split and scaled.

    Attributes
    ----------
    name : str
        Its name.
    X_train, X_test : ndarray or CSR matrix
        Scaled features.
    y_train, y_test : ndarray
        Labels.
    target_names : tuple of str
        What each label means, in the order of the sorted labels.
    published : bool
        Whether the test part is the publisher's.
    """

    name: str
    X_train: Matrix
    X_test: Matrix
    y_train: NDArray[Any]
    y_test: NDArray[Any]
    target_names: tuple[str, ...]
    published: bool

    @property
    def summary(self) -> str:
        """Name and sizes in one line."""
        (n, m), t = self.X_train.shape, self.X_test.shape[0]
        return f"{self.name}: {n} training and {t} test samples, {m} features"


def check_dataset(data: Dataset) -> None:
    """Refuse data that no method can use.

    Raises
    ------
    ValueError
        Features that are not finite (the first is named), or fewer than two classes.
    """
    for label, X in (("X", data.X), ("X_test", data.X_test)):
        if X is None or data.preparation is not None:
            continue  # gaps that are to be filled are none
        bad = ~np.isfinite(X.data if sp.issparse(X) else X)
        if bad.any():
            place = (
                ""
                if sp.issparse(X)
                else f" (first at row {np.argwhere(bad)[0][0]}, column {np.argwhere(bad)[0][1]})"
            )
            raise ValueError(
                f"data {data.name!r}: {label} holds {int(bad.sum())} values that are NaN or infinite{place}; "
                "impute or drop them first"
            )
    classes = np.unique(data.y)
    if len(classes) < 2:
        raise ValueError(f"data {data.name!r} has one class, {classes.tolist()}; at least two are needed")


def scaler_for(X: Matrix) -> StandardScaler:
    """Scaler to unit variance, fitted on X; it also centres, unless X is sparse."""
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(with_mean=not sp.issparse(X)).fit(X)


def prepare(data: str | Dataset, seed: int = 0) -> Prepared:
    """Check, split and scale a data set.

    Parameters
    ----------
    data : str or Dataset
        The name of a set, or a set.
    seed : int
        Seed of the split; a set published with a test part is split that way.

    Raises
    ------
    ValueError
        As :func:`check_dataset`; or a class too small to be on both sides of the split.
    """
    found = load(data) if isinstance(data, str) else data
    check_dataset(found)
    labels, counts = np.unique(found.y, return_counts=True)
    if found.X_test is None and counts.min() < 2:
        raise ValueError(
            f"data {found.name!r}: class {labels[counts.argmin()]} has one sample; two are needed, "
            "one for training and one for testing"
        )
    X_train, X_test, y_train, y_test = found.split(_TEST_SHARE, random_state=seed)
    if found.preparation is not None:
        learnt = fit_preparation(found, X_train)[1]
        X_train, X_test = features_of(learnt, X_train), features_of(learnt, X_test)
    X_train, X_test = (
        X if sp.issparse(X) else np.asarray(X, dtype=float) for X in (X_train, X_test)
    )  # mnist is kept in bytes
    scaler = scaler_for(X_train)
    return Prepared(
        name=found.name,
        X_train=scaler.transform(X_train),
        X_test=scaler.transform(X_test),
        y_train=y_train,
        y_test=y_test,
        target_names=found.target_names,
        published=found.X_test is not None,
    )
