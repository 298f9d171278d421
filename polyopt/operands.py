"""The one pass over dense samples that kernels by blocks need, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["fill", "square_norms"]


@njit(cache=True)
def fill(
    X: NDArray[Any], rows: Samples, columns: Samples, centre: Vector, scale: float, out: NDArray[Any]
) -> None:
    """Put ``scale * (X[rows, columns] - centre)`` into the first columns of `out`, without a temporary."""
    for r in range(len(rows)):
        row, target = X[rows[r]], out[r]
        for k in range(len(columns)):
            target[k] = scale * (row[columns[k]] - centre[k])


@njit(cache=True)
def square_norms(X: NDArray[Any], columns: Samples, centre: Vector) -> Vector:
    """``sum_k (X[i, columns_k] - centre_k)^2`` for every row i."""
    squares = np.zeros(len(X))
    for i in range(len(X)):
        row = X[i]
        for k in range(len(columns)):
            d = row[columns[k]] - centre[k]
            squares[i] += d * d
    return squares
