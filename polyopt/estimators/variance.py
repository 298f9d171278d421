"""The variance of all entries, from which a kernel's gamma is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from polyopt.kernels import chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix

__all__ = ["variance"]

_SAME = 1e-12  # relative size up to which a variance counts as rounding of the mean


def variance(X: Matrix, weights: NDArray[np.float64]) -> float:
    """The weighted variance of all entries of samples X (n, m) with weights (n,).

    It is the mean square of the differences from the mean, less the square of their own mean, which is not
    quite 0, as the mean is rounded. The mean square less the square of the mean would lose all digits far
    from the origin.
    """
    m = X.shape[1]
    weights = weights / weights.max()  # so that sums do not overflow
    total = m * float(weights.sum())
    mean = left = spread = 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # _gamma_of refuses what overflows
        for part in chunks(np.arange(X.shape[0])):
            mean += float(weights[part] @ np.asarray(X[part].astype(float).sum(axis=1)).ravel()) / total
        for part in chunks(np.arange(X.shape[0])):
            block: Any = X[part].astype(float)
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
