"""A labelled data set: features, labels, and the meaning of both."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

Features: TypeAlias = NDArray[Any] | sparse.csr_matrix
Labels: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A labelled data set."""

    name: str  #: its name; of a public set, its name for :func:`polyopt.datasets.load`
    X: Features  #: features (n, m), float64; ``mnist`` alone keeps its uint8 pixels
    y: Labels  #: labels (n,) as published: integers if all are whole numbers, else floats or strings
    target_names: tuple[str, ...]  #: meaning of each label, in the order of the sorted labels
    feature_names: tuple[str, ...] | None = None  #: names of the m columns, if the source has some
    description: str = ""  #: meaning of the rows, source and licence
    X_test: Features | None = None  #: features of the publisher's test part, of the same width
    y_test: Labels | None = None  #: labels of the test part
    #: Unfitted transformer of texts or missing values (:func:`polyopt.datasets.fit_preparation`).
    preparation: "ColumnTransformer | None" = None
    target: str | int | None = None  #: name or place of the label column in its file

    def __post_init__(self) -> None:
        _check_part("X", self.X, "y", self.y)
        if self.feature_names is not None and len(self.feature_names) != self.X.shape[1]:
            raise ValueError(
                f"feature_names has {len(self.feature_names)} names; X has {self.X.shape[1]} columns"
            )
        if (self.X_test is None) != (self.y_test is None):
            raise ValueError("X_test and y_test must be given together")
        if self.X_test is not None and self.y_test is not None:
            _check_part("X_test", self.X_test, "y_test", self.y_test)
            if self.X_test.shape[1] != self.X.shape[1]:
                raise ValueError(f"X_test has {self.X_test.shape[1]} columns; X has {self.X.shape[1]}")

    def __repr__(self) -> str:
        n, m = self.X.shape
        kind = "sparse" if sparse.issparse(self.X) else "dense"
        labels, counts = np.unique(self.y, return_counts=True)
        shown = ", ".join(f"{label}: {count}" for label, count in zip(labels[:10], counts[:10], strict=True))
        more = ", ..." if len(labels) > 10 else ""
        test = "" if self.X_test is None else f", test {self.X_test.shape[0]} × {m}"
        return f"Dataset({self.name!r}, {n} × {m} {kind}{test}, labels {{{shown}{more}}})"

    def split(
        self, test_size: float = 0.25, random_state: int | np.random.RandomState | None = None
    ) -> tuple[Features, Features, Labels, Labels]:
        """Return X_train, X_test, y_train, y_test, in scikit-learn's order.

        A set with a published test part is split into its two parts, whatever the arguments. Any other is
        split at random, stratified by class: a fraction `test_size` of the rows is the test part.
        """
        if self.X_test is not None and self.y_test is not None:
            return self.X, self.X_test, self.y, self.y_test
        from sklearn.model_selection import train_test_split  # slow to import

        X_train, X_test, y_train, y_test = train_test_split(
            self.X, self.y, test_size=test_size, random_state=random_state, stratify=self.y
        )
        return X_train, X_test, y_train, y_test


def _check_part(X_name: str, X: Features, y_name: str, y: Labels) -> None:
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != y.shape[0]:
        raise ValueError(f"{X_name} must be (n, m) and {y_name} (n,); got {X.shape} and {y.shape}")
