"""Samples as rows, and faces as lanes: the form in which compiled loops read them (``native/rows.inc``).

:class:`Rows` holds samples row by row, like CSR. A dense matrix with few zeros shares one list of columns
between all rows and is not copied; one with many zeros is packed without them, in its own type, which is
smaller and several times faster to read.

Faces (K, m+1), bias last, become lanes (m+1, L): one row per feature and a last one for the bias, padded with
columns of zeros to L, a multiple of eight. One pass over a sample then multiplies it with all faces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from formulations.language.types import Matrix, Vector, aligned, canonical, is_sparse
from polyopt.native.library import kernel

LANES = 8  # the number of lanes is a multiple of it
ROWS = "values: V (e); columns: N (c); starts: i8 (s); shared: i8; "  # first arguments of kernels on Rows
ROW_TYPES = {"V": "f8 f4 u1", "N": "u2 i4"}  # of their values and columns
WEIGHT_TYPES = {"W": "f4 f8"}  # of lanes

_MAX_PACKED_SHARE = 0.5  # of nonzero entries, below which dense samples are packed: fewer bytes to read
_ENTRIES_PER_CALL = 1 << 26  # entries of dense rows in one call: about 0.1 s between two signals
_PRODUCTS_PER_CALL = 1 << 28  # products of an entry and a lane in one call: about 0.1 s

# starts[i + 1] = number of nonzero entries of the first i + 1 rows; starts[0] = 0.
count_filled = kernel("count_filled", "X: T (n, m); starts!: i8 (s)", T="f8 f4 u1")

# Write the nonzero entries of row i, and their columns, from place starts[i] on. The arrays have room for one
# entry more than there are, whose value has no meaning.
pack = kernel(
    "pack_rows", "X: T (n, m); starts: i8 (s); values!: T (f); columns!: U (f)", T="f8 f4 u1", U="u2 i4"
)


class Rows(NamedTuple):
    """Samples row by row: row i has the entries ``values[starts[i] : starts[i + 1]]``."""

    values: NDArray[Any]  # stored entries, float32, float64 or uint8
    columns: NDArray[Any]  # entry p of row i stands in column ``columns[p - shared * starts[i]]``
    starts: NDArray[np.int64]  # (n + 1,), first entry of each row
    shared: int  # 1 if every row has all columns and ``columns`` lists them once, else 0
    width: int  # m, the number of features

    def matrix(self) -> Matrix:
        """Return the samples as a dense or CSR matrix."""
        shape = (len(self.starts) - 1, self.width)
        if self.shared:
            return self.values.reshape(shape)
        return sp.csr_array((self.values, self.columns.astype(np.int32), self.starts), shape=shape)


def as_rows(X: Matrix) -> Rows:
    """Return the rows of samples (n, m), copied only if zeros are left out.

    A dtype other than float32, float64 and uint8 becomes float64.
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
    filled = starts[-1]
    if filled >= _MAX_PACKED_SHARE * X.size:
        return Rows(X.ravel(), np.arange(m, dtype=narrow), np.arange(n + 1, dtype=np.int64) * m, 1, m)
    values, columns = np.empty(filled + 1, dtype=X.dtype), np.empty(filled + 1, dtype=narrow)
    for first in range(0, n, size):
        pack(X[first : first + size], starts[first : first + size + 1], values, columns)
    return Rows(values[:filled], columns[:filled], starts, 0, m)


def padded(n_faces: int) -> int:
    """Return the number of lanes for `n_faces` faces: the next multiple of :data:`LANES`."""
    return -(-n_faces // LANES) * LANES


def in_lanes(W: Vector, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return faces (K, m+1) as lanes (m+1, L)."""
    lanes = np.zeros((W.shape[1], padded(len(W))), dtype=dtype)
    lanes[:, : len(W)] = W.T
    return lanes


def stretches(count: int, rows: Rows, n_lanes: int, most: int | None = None) -> Iterator[tuple[int, int]]:
    """Cut `count` samples into ranges ``first, last`` small enough for one call with `n_lanes` lanes.

    rows: the samples, for the mean number of entries.
    most: largest length of a range.
    """
    entries = len(rows.values) / max(len(rows.starts) - 1, 1) + 1.0
    step = max(1, int(_PRODUCTS_PER_CALL / (entries * n_lanes)))
    step = step if most is None else min(step, most)
    return ((first, min(first + step, count)) for first in range(0, count, step))
