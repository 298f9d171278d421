"""`Dataset`: features, labels and what they mean, in one frozen object."""

from __future__ import annotations

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
    """A labelled data set.

    Parameters
    ----------
    name : str
        Its name; for the public sets, what :func:`polyopt.datasets.load` calls it.
    X : ndarray or csr_matrix, shape (n, m)
        Features, float64 (``mnist`` alone keeps its uint8 pixels).
    y : ndarray, shape (n,)
        Labels as published: integers where they are whole numbers, else floats or strings.
    target_names : tuple of str
        What each label means, in the order of the sorted labels.
    feature_names : tuple of str, optional
        Names of the m columns; ``None`` when the source names none.
    description : str
        What the rows are, source and licence.
    X_test, y_test : optional
        The publisher's test part, of the same width; ``None`` when there is none.
    preparation : ColumnTransformer, optional
        What makes numbers of X, not yet fitted, where X holds texts or gaps
        (:func:`polyopt.datasets.fit_preparation`).
    target : str or int, optional
        The label column of the file: its name, or its place; ``None`` when it comes from no table.

    Raises
    ------
    ValueError
        When the shapes do not fit each other.
    """

    name: str
    X: Features
    y: Labels
    target_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None
    description: str = ""
    X_test: Features | None = None
    y_test: Labels | None = None
    preparation: ColumnTransformer | None = None
    target: str | int | None = None

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
        """Training and test part, in scikit-learn's order.

        A set published with a test part is split that way and no other; ``test_size`` and
        ``random_state`` then have nothing to decide. Any other set is split at random, every class
        in the same proportion on both sides.

        Parameters
        ----------
        test_size : float
            Share of the rows that goes to the test part, between 0 and 1.
        random_state : int, RandomState or None
            Seed of the random split.

        Returns
        -------
        X_train, X_test, y_train, y_test
            Same kinds as ``X`` and ``y``.
        """
        if self.X_test is not None and self.y_test is not None:
            return self.X, self.X_test, self.y, self.y_test
        from sklearn.model_selection import train_test_split  # slow to import, and often not needed

        X_train, X_test, y_train, y_test = train_test_split(
            self.X, self.y, test_size=test_size, random_state=random_state, stratify=self.y
        )
        return X_train, X_test, y_train, y_test


def _check_part(X_name: str, X: Features, y_name: str, y: Labels) -> None:
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != y.shape[0]:
        raise ValueError(f"{X_name} must be (n, m) and {y_name} (n,); got {X.shape} and {y.shape}")
