"""The variance of all entries, from which a kernel's gamma is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.matrices import is_sparse
from polyopt.kernels import chunks

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector

__all__ = ["variance"]

_SAME = 1e-12  # relative size up to which a variance counts as rounding of the mean


def variance(X: Matrix, weights: Vector) -> float:
    """The weighted variance of all entries of samples X (n, m) with weights (n,).

    It is the mean square of the differences from the mean, less the square of their own mean, which is not
    quite 0, as the mean is rounded. The mean square less the square of the mean would lose all digits far
    from the origin.
    """
    weights = weights / weights.max()  # so that sums do not overflow
    total = X.shape[1] * float(weights.sum())
    with np.errstate(over="ignore", invalid="ignore"):  # _gamma_of refuses what overflows
        if is_sparse(X):
            entries, per_entry = X.data.astype(float), np.repeat(weights, np.diff(X.indptr))
            zeros = max(total - float(per_entry.sum()), 0.0)  # weight of the entries that are not stored
            mean = float(per_entry @ entries) / total
            entries -= mean
            left = (float(per_entry @ entries) - zeros * mean) / total
            spread = (float(per_entry @ entries**2) + zeros * (mean * mean)) / total
        else:
            mean = left = spread = 0.0
            parts = list(chunks(np.arange(X.shape[0])))
            for part in parts:
                mean += float(weights[part] @ X[part].astype(float).sum(axis=1)) / total
            for part in parts:
                block = X[part].astype(float) - mean
                left += float(weights[part] @ block.sum(axis=1)) / total
                spread += float(weights[part] @ (block**2).sum(axis=1)) / total
    found = spread - left * left
    return 0.0 if abs(found) <= _SAME * spread < np.inf else found
