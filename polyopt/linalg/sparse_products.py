"""Dense products ``left right'`` of sparse samples.

A group of samples of the right matrix is laid out densely, side by side for every column that the group uses;
each sample of the left matrix then computes its products with a whole group at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from polyopt.native.library import kernel

_GROUP = 64  # samples of the right matrix multiplied at once
_MAX_CALL_WORK = 1e9  # multiplications of one call in C: less than 0.2 s between two checks for Ctrl-C

# out[i, j] = sum_k left_ik right_jk, or out[j, i] if turned is 1; j counts the right samples from first to
# last - 1. places and group (see SparseRight.room) are zero before and after.
multiply_sparse = kernel(
    "multiply_sparse",
    "starts: I (p); columns: I (e); values: T (e); right_starts: I (q); right_columns: I (f); "
    "right_values: T (f); first: i8; last: i8; places!: i4 (m); group!: T (u, g); out!: T (r, c); turned: i8",
    T="f8 f4",
    I="i4 i8",
)


class SparseRight:
    """The right matrix of products, CSR of shape (n, m)."""

    def __init__(self, samples: csr_array):
        self.shape, self._samples = samples.shape, samples
        ends = samples.indptr[np.append(np.arange(0, self.shape[0], _GROUP), self.shape[0])]
        # A group need not begin at a multiple of its size, so it may span two of these.
        filled = int(np.diff(ends).max(initial=0))
        self._used = min(self.shape[1], 2 * filled)
        self.longest = int(np.diff(samples.indptr).max(initial=0))

    def room(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Work arrays of :meth:`multiply` for one thread."""
        places = np.zeros(self.shape[1], dtype=np.int32)
        return places, np.zeros((self._used + 1, _GROUP), dtype=self._samples.dtype)

    def multiply(
        self,
        left: csr_array,
        first: int,
        last: int,
        out: NDArray[Any],
        room: tuple[NDArray[Any], NDArray[Any]],
        *,
        turned: bool = False,
    ) -> NDArray[Any]:
        """Products of the samples `left` (CSR, same type) with those from `first` to `last`, into `out`.

        A row of `out` belongs to a sample of the left matrix; if `turned`, to one of the right matrix.
        """
        right, (places, group) = self._samples, room
        shape = (left.shape[0], last - first)
        if left.shape[1] != self.shape[1] or out.shape != (shape[::-1] if turned else shape):
            raise ValueError(f"products of {left.shape} with {shape[1]} of {self.shape} are not {out.shape}")
        indices = (left.indptr, left.indices, right.indptr, right.indices)
        if any(index.dtype != indices[0].dtype for index in indices):
            indices = tuple(index.astype(np.int64) for index in indices)
        multiply_sparse(
            *indices[:2], left.data, *indices[2:], right.data, first, last, places, group, out, turned
        )
        return out


def multiply_turned(left: csr_array, right: csr_array, out: NDArray[Any]) -> None:
    """``right left'`` into `out`, for few samples in `right` and many in `left` (CSR, same type)."""
    some = SparseRight(right)
    room, size = some.room(), max(1, int(_MAX_CALL_WORK / (_GROUP * (left.nnz + 1)))) * _GROUP
    for start in range(0, right.shape[0], size):
        end = min(start + size, right.shape[0])
        some.multiply(left, start, end, out[start:end], room, turned=True)
