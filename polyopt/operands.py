"""Single passes over dense samples, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["count_filled", "distances", "fill", "pack", "square_norms"]


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


@njit(cache=True, nogil=True)
def distances(Z: NDArray[Any], points: Samples, X: NDArray[Any], columns: Samples, factor: float) -> Vector:
    """``factor * ‖z_i − x_j‖²`` from the differences of the samples, shape (points, columns)."""
    m, width = X.shape[1], len(columns)
    turned = np.empty((m, width))  # features by samples: the innermost loop walks samples side by side
    for j in range(width):
        for k in range(m):
            turned[k, j] = X[columns[j], k]
    found = np.zeros((len(points), width))
    for i in range(len(points)):
        z, totals = Z[points[i]], found[i]
        for k in range(m):
            value, others = np.float64(z[k]), turned[k]
            for j in range(width):
                d = value - others[j]
                totals[j] += d * d
        for j in range(width):
            totals[j] *= factor
    return found


@njit(cache=True)
def count_filled(X: NDArray[Any]) -> Samples:
    """Number of entries other than zero of every row."""
    counts = np.empty(len(X), dtype=np.int64)
    for i in range(len(X)):
        filled = 0
        for k in range(X.shape[1]):
            filled += X[i, k] != 0
        counts[i] = filled
    return counts


@njit(cache=True)
def pack(X: NDArray[Any], starts: Samples, values: NDArray[Any], columns: NDArray[Any]) -> None:
    """Put the entries of row i other than zero, and their columns, from place ``starts[i]`` on."""
    for i in range(len(X)):
        row, place = X[i], starts[i]
        for k in range(X.shape[1]):
            x = row[k]
            if x != 0:
                values[place], columns[place] = x, k
                place += 1
