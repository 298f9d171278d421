"""The product ``left @ right.T``, dense, of two sparse matrices (CSR) of samples.

The samples of the right matrix are multiplied in groups. A group is copied to a dense table with a row for
every feature in which the group has an entry, and a column for every sample; then each sample of the left
matrix computes its products with the whole group at once.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyopt.native.library import kernel

_GROUP = 64  # samples of the right matrix multiplied at once
_MAX_CALL_WORK = 1e9  # multiplications of one call in C: less than 0.2 s between two checks for Ctrl-C

# out[i, j] = sum_k left_ik right_jk, or out[j, i] if `transposed`, for right samples j from first to last-1.
# starts, columns, values: the left CSR. table_rows, table (of `work_arrays`): zero before and after a call.
# In the signature, "!" marks an array that is written; letters are types (T, I) and lengths.
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
        # A group may begin at any sample: it lies in at most two consecutive blocks of _GROUP samples.
        block_starts = samples.indptr[np.append(np.arange(0, self.shape[0], _GROUP), self.shape[0])]
        max_entries = 2 * int(np.diff(block_starts).max(initial=0))
        # Row 0 of the table stays zero, for features without an entry in the group.
        self._n_table_rows = 1 + min(self.shape[1], max_entries)
        self.longest = int(np.diff(samples.indptr).max(initial=0))

    def work_arrays(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return work arrays of :meth:`multiply` for one thread: the table row of each feature, the table."""
        table_rows = np.zeros(self.shape[1], dtype=np.int32)
        return table_rows, np.zeros((self._n_table_rows, _GROUP), dtype=self._samples.dtype)

    def multiply(
        self, left: csr_array, first: int, last: int, out: NDArray[Any],
        work: tuple[NDArray[Any], NDArray[Any]], *, transposed: bool = False,
    ) -> NDArray[Any]:  # fmt: skip
        """Write the products of the samples `left` with the right samples `first` to `last` - 1 into `out`.

        left: CSR, of the same type as the right matrix.
        out: of shape (left samples, last - first), or (last - first, left samples) if `transposed`.
        work: see :meth:`work_arrays`.
        """
        right, (table_rows, table) = self._samples, work
        shape = (last - first, left.shape[0]) if transposed else (left.shape[0], last - first)
        if left.shape[1] != self.shape[1] or out.shape != shape:
            raise ValueError(f"products of {left.shape} with rows of {self.shape} do not fit {out.shape}")
        indices = (left.indptr, left.indices, right.indptr, right.indices)
        if any(index.dtype != indices[0].dtype for index in indices):
            indices = tuple(index.astype(np.int64) for index in indices)
        multiply_sparse(
            *indices[:2], left.data, *indices[2:], right.data, first, last, table_rows, table, out, transposed
        )
        return out


def multiply_transposed(
    left: csr_array, right: csr_array, out: NDArray[Any], max_call_work: float = _MAX_CALL_WORK
) -> None:
    """Write ``right @ left.T`` into `out`, for few samples in `right` and many in `left` (CSR, same type)."""
    grouped = SparseRight(right)
    work = grouped.work_arrays()
    step = max(1, int(max_call_work / (_GROUP * (left.nnz + 1)))) * _GROUP  # whole groups in a call
    for start in range(0, right.shape[0], step):
        stop = min(start + step, right.shape[0])
        grouped.multiply(left, start, stop, out[start:stop], work, transposed=True)
