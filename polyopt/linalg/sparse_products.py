"""Products of sparse samples with sparse samples, ``left right'``, dense.

A group of the samples at the right is laid out densely, side by side for every column that they use; then
every sample at the left adds up its share of a whole group at once, from registers and cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

__all__ = ["SparseRight", "multiply_turned", "roundings"]

_GROUP = 64  # samples at the right that are multiplied at once
_WORK = 1e9  # multiplications in one call of compiled code: less than 0.2 s, after which Ctrl-C is heard

# out[i, j] = sum_k left_ik right_jk, or out[j, i] if turned is 1; j counts the samples at the right from
# first up to last. places and group, as SparseRight.room makes them, are zero before and after.
multiply_sparse = kernel(
    "multiply_sparse",
    "starts: I (p); columns: I (e); values: T (e); right_starts: I (q); right_columns: I (f); "
    "right_values: T (f); first: i8; last: i8; places!: i4 (m); group!: T (u, g); out!: T (r, c); turned: i8",
    T="f8 f4",
    I="i4 i8",
)


class SparseRight:
    """The samples at the right, ready for products.

    samples (n, m): the samples.
    """

    def __init__(self, samples: csr_array):
        self.shape, self._samples = samples.shape, samples
        ends = samples.indptr[np.append(np.arange(0, self.shape[0], _GROUP), self.shape[0])]
        # A group need not begin at a multiple of its size, so that it may have parts of two of these.
        filled = int(np.diff(ends).max(initial=0))
        self._used = min(self.shape[1], 2 * filled)
        self.longest = int(np.diff(samples.indptr).max(initial=0))

    def room(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Room for :meth:`multiply`, for one thread at a time."""
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

        `out` has a row for each sample at the left, or for each one at the right where it is turned.
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
    """``right left'`` into `out`, for few samples at the right and many at the left (CSR, same type)."""
    some = SparseRight(right)
    room, size = some.room(), max(1, int(_WORK / (_GROUP * (left.nnz + 1)))) * _GROUP
    for start in range(0, right.shape[0], size):
        end = min(start + size, right.shape[0])
        some.multiply(left, start, end, out[start:end], room, turned=True)


def roundings(longest: int) -> int:
    """Roundings that a term of a product goes through; no row of one side has more entries than `longest`."""
    return longest + 1
