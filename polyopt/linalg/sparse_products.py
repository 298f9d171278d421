"""Dense products ``left right'`` of sparse samples.

The samples of the right matrix are multiplied in groups. A group is copied to a dense table with a row for
every column in which the group has an entry, and a column for every sample; then each sample of the left
matrix computes its products with the whole group at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyopt.native.library import kernel

_GROUP = 64  # samples of the right matrix multiplied at once
_MAX_CALL_WORK = 1e9  # multiplications of one call in C: less than 0.2 s between two checks for Ctrl-C

# out[i, j] = sum_k left_ik right_jk, or out[j, i] if `transposed` is 1; j counts the right samples from first
# to last - 1. table_rows and table (SparseRight.work_arrays) are zero before and after.
multiply_sparse = kernel(
    "multiply_sparse",
    "starts: I (p); columns: I (e); values: T (e); right_starts: I (q); right_columns: I (f); "
    "right_values: T (f); first: i8; last: i8; table_rows!: i4 (m); table!: T (u, g); out!: T (r, c); "
    "transposed: i8",
    T="f8 f4",
    I="i4 i8",
)


class SparseRight:
    """The right matrix of products, CSR of shape (n, m).

    longest: largest number of entries of a sample.
    """

    def __init__(self, samples: csr_array):
        self.shape, self._samples = samples.shape, samples
        starts = samples.indptr[np.append(np.arange(0, self.shape[0], _GROUP), self.shape[0])]
        # A group need not begin at a multiple of its size, so it may span two of these.
        max_entries = 2 * int(np.diff(starts).max(initial=0))
        self._max_table_rows = min(self.shape[1], max_entries)
        self.longest = int(np.diff(samples.indptr).max(initial=0))

    def work_arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return work arrays of :meth:`multiply` for one thread: the table row of each column, the table."""
        table_rows = np.zeros(self.shape[1], dtype=np.int32)
        return table_rows, np.zeros((self._max_table_rows + 1, _GROUP), dtype=self._samples.dtype)

    def multiply(
        self, left: csr_array, first: int, last: int, out: NDArray[Any],
        work: tuple[NDArray[Any], NDArray[Any]], *, transposed: bool = False,
    ) -> NDArray[Any]:  # fmt: skip
        """Write the products of the samples `left` with the right samples `first` to `last` - 1 into `out`.

        left: CSR, of the same type as the right matrix.
        work: see :meth:`work_arrays`.
        transposed: True if a row of `out` belongs to a right sample; else to a left one.
        """
        right, (table_rows, table) = self._samples, work
        shape = (left.shape[0], last - first)
        if left.shape[1] != self.shape[1] or out.shape != (shape[::-1] if transposed else shape):
            raise ValueError(f"products of {left.shape} with {shape[1]} of {self.shape} are not {out.shape}")
        indices = (left.indptr, left.indices, right.indptr, right.indices)
        if any(index.dtype != indices[0].dtype for index in indices):
            indices = tuple(index.astype(np.int64) for index in indices)
        multiply_sparse(
            *indices[:2], left.data, *indices[2:], right.data, first, last, table_rows, table, out, transposed
        )
        return out


def multiply_transposed(left: csr_array, right: csr_array, out: NDArray[Any]) -> None:
    """Write ``right left'`` into `out`, for few samples in `right` and many in `left` (CSR, same type)."""
    grouped = SparseRight(right)
    work, size = grouped.work_arrays(), max(1, int(_MAX_CALL_WORK / (_GROUP * (left.nnz + 1)))) * _GROUP
    for start in range(0, right.shape[0], size):
        stop = min(start + size, right.shape[0])
        grouped.multiply(left, start, stop, out[start:stop], work, transposed=True)
