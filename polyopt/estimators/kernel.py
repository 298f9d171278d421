"""What the classifiers with a kernel share: its parameters, gamma by scikit-learn's rules, the tags."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from polyopt.estimators.base import PairwiseClassifier
from polyopt.kernels import Kernel, chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KERNEL_PARAMETERS", "KernelClassifier"]

KERNEL_PARAMETERS: dict[str, list[Any]] = {
    "kernel": [StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}), callable],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
    "degree": [Interval(Integral, 1, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
}
"""Constraints of the parameters that all of them have."""


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
        first = second = 0.0
        for part in chunks(np.arange(X.shape[0])):
            block = X[part].astype(float)
            squares = block.multiply(block) if sp.issparse(X) else block * block
            first += float(weights[part] @ np.asarray(block.sum(axis=1)).ravel())
            second += float(weights[part] @ np.asarray(squares.sum(axis=1)).ravel())
        total = m * float(weights.sum())
        variance = second / total - (first / total) ** 2
        return 1.0 / (m * variance) if variance > 0 else 1.0

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
