"""What the classifiers with a kernel share: its parameters, gamma by scikit-learn's rules, the tags."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from polyopt.estimators.base import PairwiseClassifier
from polyopt.kernels import Kernel, SampleGram, chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KERNEL_PARAMETERS", "KernelClassifier", "scoring_gram"]

KERNEL_PARAMETERS: dict[str, list[Any]] = {
    "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}
"""Constraints of the parameters that all of them have."""


_CERTAIN = 1e-7  # of a score, that the kernel's own rounding may cost before more care is taken
_SAME = 1e-12  # of a variance that is all rounding of the mean, what may remain of it


def scoring_gram(X: Any, kernel: Kernel, coef: NDArray[Any]) -> SampleGram:
    """The kernel of a model, ready to score: with distances by differences where the coefficients need it.

    Parameters
    ----------
    X : ndarray or CSR of shape (s, m)
        Support vectors.
    kernel : Kernel
        The kernel.
    coef : ndarray of shape (s,)
        Their coefficients.
    """
    gram = SampleGram(X, kernel)
    doubtful = kernel.name == "rbf" and gram.entry_error()[0] * float(np.abs(coef).sum()) > _CERTAIN
    return gram.careful(always=True) if doubtful else gram


def _variance(X: Any, weights: NDArray[Any]) -> float:
    """The weighted variance of all entries.

    By differences from the mean, less the square of what these have for a mean, as the mean is rounded: a
    difference of squares has no digits far from the origin.
    """
    m = X.shape[1]
    weights = weights / weights.max()  # so that sums do not overflow
    total = m * float(weights.sum())
    mean = left = spread = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
        for part in chunks(np.arange(X.shape[0])):
            mean += float(weights[part] @ np.asarray(X[part].astype(float).sum(axis=1)).ravel()) / total
        for part in chunks(np.arange(X.shape[0])):
            block = X[part].astype(float)
            if sp.issparse(block):
                zeros = m - np.diff(block.indptr)
                block.data -= mean
                sums = np.asarray(block.sum(axis=1)).ravel() - zeros * mean
                squares = np.asarray(block.power(2).sum(axis=1)).ravel() + zeros * (mean * mean)
            else:
                block -= mean
                sums, squares = block.sum(axis=1), (block**2).sum(axis=1)
            left += float(weights[part] @ sums) / total
            spread += float(weights[part] @ squares) / total
    found = spread - left * left
    return 0.0 if abs(found) <= _SAME * spread < np.inf else found


class KernelClassifier(PairwiseClassifier):
    """Base of the classifiers with a kernel; a fit sets ``gamma_`` before it asks for the kernel."""

    kernel: Any
    gamma: float | str
    degree: int
    coef0: float
    gamma_: float

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        return super()._for_pairs(X, weights).set_params(gamma=self._gamma_of(X, weights))

    def _gamma_of(self, X: Any, weights: NDArray[Any]) -> float:
        """Gamma as a number, by scikit-learn's rules for "scale" (here with weights) and "auto"."""
        if self.gamma not in ("scale", "auto"):
            return float(self.gamma)
        if self.kernel in ("linear", "precomputed") or callable(self.kernel):
            return 1.0
        m = X.shape[1]
        if self.gamma == "auto":
            return 1.0 / m
        spread = _variance(X, weights)
        gamma = 1.0 if spread == 0.0 else 1.0 / (m * spread)
        if not 0.0 < gamma < np.inf:
            raise ValueError(
                f"gamma={self.gamma!r} cannot be taken from these samples: the variance of their entries is "
                f"{spread:g}; scale the features, or give gamma as a number"
            )
        return gamma

    @property
    def _kernel(self) -> Kernel:
        return Kernel(self.kernel, self.gamma_, self.degree, self.coef0)

    @property
    def _kernel_is_mercer(self) -> bool:
        return self.kernel != "precomputed" and self._kernel.is_mercer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
