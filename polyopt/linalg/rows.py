"""The arrays in which the C kernels read samples (:class:`Rows`) and faces (lanes); see ``native/rows.inc``.

:class:`Rows` has samples row by row, like CSR. A dense matrix with few zeros shares one list of columns
between all rows and is not copied. One with many zeros is packed without them, in its own type, which is
smaller and several times faster to read.

Faces are linear functions, the rows of W (K, m+1) with the bias last. As lanes they are the columns of an
array (m+1, L), padded with columns of zeros to a multiple L of eight: one pass over the entries of a sample
multiplies it with all faces by vector instructions.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from formulations.language.types import Matrix, Vector, aligned, canonical, is_sparse
from polyopt.native.library import kernel

LANES = 8  # the number of lanes is a multiple of this
# First arguments of kernels on Rows. In a signature, "!" marks an array that is written; letters are types
# (V, N, T, U, W) and lengths.
ROWS = "values: V (e); columns: N (c); starts: i8 (s); shared: i8; "
ROW_TYPES = {"V": "f8 f4 u1", "N": "u2 i4"}  # types of values and columns
WEIGHT_TYPES = {"W": "f4 f8"}  # types of lanes

_MAX_PACKED_DENSITY = 0.5  # density of nonzero entries below which dense samples are packed
_ENTRIES_PER_CALL = 1 << 26  # entries of dense rows in one call: about 0.1 s between two signals
_PRODUCTS_PER_CALL = 1 << 28  # products of an entry and a lane in one call: about 0.1 s

# starts[i + 1] = number of nonzero entries of the first i + 1 rows; starts[0] = 0.
count_filled = kernel("count_filled", "X: T (n, m); starts!: i8 (s)", T="f8 f4 u1")

# Write the nonzero entries of row i, and their columns, from position starts[i] on. The arrays have one entry
# more than needed, whose value has no meaning.
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


def as_rows(X: Matrix, entries_per_call: int = _ENTRIES_PER_CALL) -> Rows:
    """Return samples X (n, m) as rows; a dense X is copied only to pack it or to convert its type.

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
    starts, size = np.zeros(n + 1, dtype=np.int64), max(1, entries_per_call // max(m, 1))
    for first in range(0, n, size):
        n_before, chunk_starts = starts[first], starts[first : first + size + 1]
        count_filled(X[first : first + size], chunk_starts)
        chunk_starts += n_before
    n_filled = starts[-1]
    if n_filled >= _MAX_PACKED_DENSITY * X.size:
        return Rows(X.ravel(), np.arange(m, dtype=narrow), np.arange(n + 1, dtype=np.int64) * m, 1, m)
    values, columns = np.empty(n_filled + 1, dtype=X.dtype), np.empty(n_filled + 1, dtype=narrow)
    for first in range(0, n, size):
        pack(X[first : first + size], starts[first : first + size + 1], values, columns)
    return Rows(values[:n_filled], columns[:n_filled], starts, 0, m)


def padded(n_faces: int) -> int:
    """Return the number of lanes for `n_faces` faces: the next multiple of :data:`LANES`."""
    return -(-n_faces // LANES) * LANES


def in_lanes(W: Vector, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return faces (K, m+1) as lanes (m+1, L)."""
    lanes = np.zeros((W.shape[1], padded(len(W))), dtype=dtype)
    lanes[:, : len(W)] = W.T
    return lanes


def stretches(
    count: int, rows: Rows, n_lanes: int, max_length: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield ranges ``first, stop`` of `count` samples, each small enough for one call with `n_lanes` lanes.

    rows: samples with the same mean number of entries.
    max_length: largest length of a range.
    """
    entries = len(rows.values) / max(len(rows.starts) - 1, 1) + 1.0
    step = max(1, int(_PRODUCTS_PER_CALL / (entries * n_lanes)))
    step = step if max_length is None else min(step, max_length)
    return ((first, min(first + step, count)) for first in range(0, count, step))
