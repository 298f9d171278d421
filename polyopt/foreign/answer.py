"""What another package answered, in our terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from formulations.arguments import as_weights, real_array
from formulations.matrices import canonical, is_sparse
from polyopt.check.check import plain
from polyopt.estimators.variance import variance
from polyopt.text import visible

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, MatrixLike, Vector
    from polyopt.kernels import Kernel

__all__ = ["Answer", "Intercept", "Samples", "gamma_by", "label_among"]

Intercept: TypeAlias = Literal["free", "penalised", "none"]


@dataclass(frozen=True)
class Answer:
    """A package's solution for two classes; f = w'x + b or Σ_i w_i k(x_i, x) + b, positive on one side.

    Attributes
    ----------
    source : str
        Where it is from, in words.
    w : ndarray, optional
        Normal vector (m,); with a kernel, signed coefficients (n,) of all samples, those of other classes
        among them.
    b : float, optional
        Intercept; the best one for w where it is missing.
    faces : ndarray of shape (K, m+1), optional
        Faces of a polytope, the bias last.
    multipliers : mapping of str to ndarray, optional
        By the names of the rows, (n,), or (n, K) of a polytope; not negative.
    labels : tuple, optional
        The labels on the sides -1 and +1.
    kernel : Kernel, optional
        The kernel that it was made with.
    intercept : {"free", "penalised", "none"}, optional
        Whether the intercept is free of cost, or costs ½b² as one more weight, or is 0; None where the
        package does not say.
    costs : dict of str to object
        Settings of the program that the package tells, such as C.
    weights : ndarray of shape (n,), optional
        What the package multiplied the cost of each sample by, as by weights of classes.
    """

    source: str
    w: Vector | None = None
    b: float | None = None
    faces: Vector | None = None
    multipliers: Mapping[str, Vector] | None = None
    labels: tuple[Any, Any] | None = None
    kernel: Kernel | None = None
    intercept: Intercept | None = None
    costs: dict[str, Any] = field(default_factory=dict)
    weights: Vector | None = None

    def turned(self) -> Answer:
        """The same with its sides changed over."""
        assert self.labels is not None
        w, b = None if self.w is None else -self.w, None if self.b is None else -self.b
        return replace(self, w=w, b=b, labels=self.labels[::-1])


@dataclass(frozen=True)
class Samples:
    """The samples that a solution is of.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples, finite.
    y : ndarray of shape (n,)
        Labels, of any kind.
    weights : ndarray of shape (n,)
        What multiplies the cost of each sample.
    classes : ndarray
        The labels that there are, sorted.
    """

    X: Matrix
    y: NDArray[Any]
    weights: Vector
    classes: NDArray[Any]

    @classmethod
    def of(cls, X: MatrixLike, y: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Samples, checked.

        Parameters
        ----------
        X : array_like or CSR of shape (n, m)
            Samples.
        y : array_like of shape (n,)
            Labels of two classes or more.
        weights : array_like of shape (n,), optional
            Weights; 1 by default.

        Raises
        ------
        ValueError
            Shapes that do not fit, numbers that are not finite, or one class.
        """
        made: Matrix = canonical(sp.csr_array(X, dtype=float)) if is_sparse(X) else real_array("X", X)
        if made.ndim != 2 or not made.shape[0]:
            raise ValueError(f"X must have two dimensions and at least one row, not shape {made.shape}")
        if sp.issparse(made) and not np.isfinite(made.data).all():
            raise ValueError("X must be finite; it has NaN or infinite values")
        labels = np.asarray(y)
        if labels.shape != made.shape[:1]:
            raise ValueError(f"y must have shape ({made.shape[0]},) to match X, not {labels.shape}")
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("y must be finite; it has NaN or infinite values")
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y must have two classes; all of it is {visible(str(classes[0]))!r}")
        n = made.shape[0]
        return cls(made, labels, np.ones(n) if weights is None else as_weights(weights, n), classes)

    @property
    def n(self) -> int:
        """How many samples there are."""
        return len(self.y)

    @property
    def m(self) -> int:
        """How many features they have."""
        return int(self.X.shape[1])

    def two(self, positive: object = None) -> tuple[Any, Any]:
        """The labels of the sides -1 and +1: in sorted order, unless it is told which is +1.

        Parameters
        ----------
        positive : object, optional
            The label of +1.

        Raises
        ------
        ValueError
            There are more classes than two, or none of this label.
        """
        if len(self.classes) != 2:
            raise ValueError(f"the solution is of two classes, and y has {len(self.classes)}")
        low, high = self.classes
        if positive is not None and label_among(positive, self.classes) == low:
            return high, low
        return low, high


def gamma_by(rule: str, samples: Samples) -> float:
    """A kernel's gamma by scikit-learn's rules "scale" and "auto".

    Parameters
    ----------
    rule : {"scale", "auto"}
        The rule.
    samples : Samples
        The samples.
    """
    spread = variance(samples.X, np.ones(samples.n)) if rule == "scale" else 1.0
    return 1.0 / (samples.m * (spread or 1.0))


def label_among(label: object, classes: NDArray[Any]) -> Any:
    """The class that a label stands for; 1, "1" and 1.0 are one.

    Parameters
    ----------
    label : object
        As somebody wrote it.
    classes : ndarray
        The labels that there are.

    Raises
    ------
    ValueError
        None of them is it.
    """
    for known in classes:
        if plain(known) == plain(label):
            return known
    shown = ", ".join(visible(str(known)) for known in classes[:10])
    raise ValueError(f"{visible(str(label))!r} is no label of the data; there are {shown}")
