"""Samples as rows that compiled loops can walk: dense, dense with many zeros, or CSR, all alike.

A row is a stretch of stored entries and the columns they stand in. Those of a CSR matrix are its own;
a dense matrix with few zeros shares one list of columns between all rows and is not copied; one with
many is packed without its zeros, in its own type, which is smaller and several times faster to walk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from formulations.language.types import aligned, canonical, is_sparse
from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Matrix

__all__ = ["Rows", "as_rows"]

_MAX_PACKED_SHARE = 0.5  # of entries other than zero, below which dense samples are packed

_ENTRIES_PER_CALL = 1 << 26  # of dense rows, in one call: some 0.1 s

# starts[i + 1] = number of entries other than zero of the first i + 1 rows; starts[0] = 0.
count_filled = kernel("count_filled", "X: T (n, m); starts!: i8 (s)", T="f8 f4 u1")

# Put the entries of row i other than zero, and their columns, from place starts[i] on. The arrays have room
# for one entry more than there are, of no meaning afterwards.
pack = kernel(
    "pack_rows", "X: T (n, m); starts: i8 (s); values!: T (f); columns!: U (f)", T="f8 f4 u1", U="u2 i4"
)


class Rows(NamedTuple):
    """Samples row by row, for compiled loops.

    Row i has the entries ``values[starts[i] : starts[i + 1]]``. Entry p of it stands in column
    ``columns[p - shared * starts[i]]``: where the rows share their columns, they count from 0.

    values: stored entries: float32, float64 or uint8.
    columns: their columns.
    starts (n + 1,): where each row begins.
    shared: 1 where all rows have all columns, else 0.
    width: m, the number of features.
    """

    values: NDArray[Any]
    columns: NDArray[Any]
    starts: NDArray[np.int64]
    shared: int
    width: int

    def matrix(self) -> Matrix:
        """The samples as a matrix again, dense or CSR, of the same numbers."""
        shape = (len(self.starts) - 1, self.width)
        if self.shared:
            return self.values.reshape(shape)
        return sp.csr_array((self.values, self.columns.astype(np.int32), self.starts), shape=shape)


def as_rows(X: Matrix) -> Rows:
    """The rows of a matrix; its numbers are copied only where zeros are left out.

    X (n, m): samples of dtype float32, float64 or uint8; others are converted to float64.
    """
    if X.dtype not in (np.float32, np.float64, np.uint8):
        X = X.astype(np.float64)
    n, m = X.shape
    narrow = np.uint16 if m <= 1 << 16 else np.int32
    if is_sparse(X):
        X = canonical(X)
        return Rows(X.data, X.indices.astype(narrow), X.indptr.astype(np.int64), 0, m)
    X = aligned(X)
    starts, size = np.zeros(n + 1, dtype=np.int64), max(1, _ENTRIES_PER_CALL // max(m, 1))
    for first in range(0, n, size):
        before, own = starts[first], starts[first : first + size + 1]
        count_filled(X[first : first + size], own)
        own += before
    if starts[-1] >= _MAX_PACKED_SHARE * X.size:
        return Rows(X.ravel(), np.arange(m, dtype=narrow), np.arange(n + 1, dtype=np.int64) * m, 1, m)
    filled = starts[-1]
    values, columns = np.empty(filled + 1, dtype=X.dtype), np.empty(filled + 1, dtype=narrow)
    for first in range(0, n, size):
        pack(X[first : first + size], starts[first : first + size + 1], values, columns)
    return Rows(values[:filled], columns[:filled], starts, 0, m)
