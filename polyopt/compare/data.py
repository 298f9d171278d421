"""Data made ready for a comparison: checked, split, and scaled on the training part alone."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from formulations.language.types import Matrix
from polyopt.datasets import Dataset, fit_preparation, load

_TEST_FRACTION = 0.25  # of the samples, scikit-learn's default
_MIN_RANGE = 1e-150  # range of a feature that is not constant; the square of a smaller one underflows


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """A data set, split and scaled, with the names of its sorted labels.

    If `published`, the test part is the publisher's.
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
    """Refuse data that no method can use: features that are not finite, or fewer than two classes."""
    for label, X in (("X", data.X), ("X_test", data.X_test)):
        if X is None or data.preparation is not None:
            continue  # missing values will be imputed
        bad = ~np.isfinite(X.data if sp.issparse(X) else X)
        if bad.any():
            place = ""
            if not sp.issparse(X):
                place = " (first at row {}, column {})".format(*np.argwhere(bad)[0])
            raise ValueError(
                f"data {data.name!r}: {label} holds {int(bad.sum())} values that are NaN or infinite{place}; "
                "impute or drop them first"
            )
    classes = np.unique(data.y)
    if len(classes) < 2:
        raise ValueError(f"data {data.name!r} has one class, {classes.tolist()}; at least two are needed")


def scaler_for(X: Matrix, names: Sequence[str] | None = None) -> StandardScaler:
    """Fit a scaler to unit variance, which also centres unless X is sparse.

    A feature whose variance overflows or underflows is refused.
    """
    from sklearn.preprocessing import StandardScaler

    with np.errstate(over="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        scaler = StandardScaler(with_mean=not sp.issparse(X)).set_output(transform="default").fit(X)
        ends = X.min(axis=0), X.max(axis=0)
        low, high = (np.asarray(end.todense() if sp.issparse(end) else end).ravel() for end in ends)
    range_ = high / 2 - low / 2
    wrong = ~np.isfinite(scaler.var_) | ((scaler.var_ == 0) & (range_ > 0) & (range_ < _MIN_RANGE))
    if wrong.any():
        j = int(np.flatnonzero(wrong)[0])
        name = f"feature {j + 1}" if names is None else f"feature {names[j]!r}"
        raise ValueError(
            f"{name} goes from {low[j]:.3g} to {high[j]:.3g}, and its variance leaves double precision: "
            "multiply it by a constant in the file"
        )
    return scaler


def prepare(data: str | Dataset, seed: int = 0) -> Prepared:
    """Check, split and scale a data set, or the one of a name, by the published split or that of a seed."""
    raw = load(data) if isinstance(data, str) else data
    check_dataset(raw)
    labels, counts = np.unique(raw.y, return_counts=True)
    if raw.X_test is None and counts.min() < 2:
        raise ValueError(
            f"data {raw.name!r}: class {labels[counts.argmin()]} has one sample; two are needed, "
            "one for training and one for testing"
        )
    least = math.floor((len(labels) - 1) / _TEST_FRACTION) + 1  # test part with a sample of each class
    if raw.X_test is None and len(raw.y) < least:
        raise ValueError(
            f"data {raw.name!r} has {len(raw.y)} samples of {len(labels)} classes; {least} are needed, "
            "so that a quarter of them for testing has each class"
        )
    X_train, X_test, y_train, y_test = raw.split(_TEST_FRACTION, random_state=seed)
    feature_names = raw.feature_names
    prepared, preparation = fit_preparation(raw, X_train)
    if preparation is not None:
        feature_names = prepared.feature_names
        X_train, X_test = preparation.transform(X_train), preparation.transform(X_test)
    X_train, X_test = (
        X if sp.issparse(X) else np.asarray(X, dtype=float) for X in (X_train, X_test)
    )  # mnist is kept in bytes
    scaler = scaler_for(X_train, feature_names)
    return Prepared(
        raw.name, scaler.transform(X_train), scaler.transform(X_test), y_train, y_test,
        raw.target_names, raw.X_test is not None,
    )  # fmt: skip
