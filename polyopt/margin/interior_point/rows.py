"""The products of an interior-point iteration with the data.

With the samples X (n, m), and Y = [X - 1 shift', 1] of shape (n, m+1), whose last column is the intercept's:

    scores          Y (w, b)          (n,)
    weighted_sums   Y'V               (m+1, k) for V (n, k)
    normal_matrix   Y' diag(d) Y      (m+1, m+1), dense, for weights d (n,)

Rows are processed in blocks, and at most one block is copied: to centre it, to weight it, or to convert
float32 to the float64 of all computations.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from formulations.language.types import Matrix, Vector, is_sparse
from polyopt.native.library import kernel

_BLOCK_NUMBERS = 1 << 16  # numbers in a block of rows: half a megabyte, which stays in the cache
_ENTRYWISE_COST = 40.0  # multiplications by BLAS in the time of one multiplication by sparse indices
_MAX_CALL_WORK = 1 << 24  # multiplications in one call in C: less than 0.1 s, so that Ctrl-C is soon heard

# out[i] = √d_i (x_i - shift, 1), followed by V_i / √d_i; x_i is the first m numbers of row i. out may be X.
weight_rows = kernel(
    "weighted_rows",
    "X: T (n, x); shift: f8 (m); d: f8 (n); V: f8 (n, k); out!: f8 (n, w)",
    T="f8 f4",
)  # fmt: skip

_CSR = "data: T (e); indices: J (e); indptr: J (p)"
_CSR_TYPES = {"T": "f8 f4", "J": "i4 i8"}

# Add the lower triangle of X' diag(d) X to out; the indices of each row ascend.
csr_normal_matrix = kernel("csr_normal", f"{_CSR}; d: f8 (n); out!: f8 (w, w)", **_CSR_TYPES)


class Rows:
    """Samples X (n, m), float32 or float64, dense or canonical CSR, with their products.

    shift (m,): the point subtracted from every sample; zeros at first.
    products: number of multiplications in X' diag(d) X if it is computed entry by entry.
    is_entrywise: True if it is computed so, because X is very sparse; else by BLAS, densely.
    max_call_work: multiplications in one call in C.
    """

    def __init__(self, X: Matrix, max_call_work: int = _MAX_CALL_WORK):
        self.X, self.max_call_work = X, max_call_work
        self.n, self.m = X.shape
        self.shift = np.zeros(self.m)
        self._block = max(_BLOCK_NUMBERS // (self.m + 1), 64)  # rows
        self.products = _count_products(X)
        self.is_entrywise = is_entrywise_faster(self.products, self.n, self.m)

    def scores(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the outputs at ``v = (w, b)``, shape (n,), written to `out` if given."""
        out = np.empty(self.n) if out is None else out
        w, b = v[:-1], float(v[-1] - self.shift @ v[:-1])
        if is_sparse(self.X):
            np.add(self.X @ w, b, out=out)
            return out
        for rows, block in self._float64_blocks():
            np.matmul(block, w, out=out[rows])
        out += b
        return out

    def weighted_sums(self, V: Vector) -> Vector:
        """Return Y'V, the sums of the samples weighted by each column of V (n, k): shape (m+1, k)."""
        out = np.zeros((self.m + 1, V.shape[1]))
        if is_sparse(self.X):
            out[:-1] = self.X.T @ V
        else:
            for rows, block in self._float64_blocks():
                out[:-1] += block.T @ V[rows]
        out[-1] = V.sum(axis=0)
        out[:-1] -= np.outer(self.shift, out[-1])
        return out

    def normal_matrix(self, d: Vector, V: Vector) -> tuple[Vector, Vector]:
        """Return Y' diag(d) Y and Y'V for weights d (n,) and V (n, k); row i of V must be 0 if d_i is 0."""
        if self.is_entrywise:
            return self._entrywise_normal_matrix(d, V)
        # Let A have the rows (√d_i Y_i, V_i/√d_i): A'A contains both.
        width = self.m + 1 + V.shape[1]
        M, buffer = np.zeros((width, width), order="F"), np.empty((min(self._block, self.n), width))
        for rows in self._row_slices():
            block = buffer[: len(d[rows])]
            if is_sparse(self.X):
                block[:, : self.m] = self.X[rows].toarray()
                weight_rows(block, self.shift, d[rows], V[rows], block)
            else:
                weight_rows(self.X[rows], self.shift, d[rows], V[rows], block)
            M = dsyrk(1.0, block.T, beta=1.0, c=M, lower=1, overwrite_c=1)
        return _symmetric(M[: self.m + 1, : self.m + 1]), M[self.m + 1 :, : self.m + 1].T

    def _entrywise_normal_matrix(self, d: Vector, V: Vector) -> tuple[Vector, Vector]:
        """Compute :meth:`normal_matrix` entry by entry, for very sparse samples."""
        assert is_sparse(self.X)
        sums = self.weighted_sums(np.column_stack([V, d]))
        total = sums[-1, -1]
        M = np.zeros((self.m + 1, self.m + 1))
        for rows, starts in self._sparse_ranges():
            csr_normal_matrix(self.X.data, self.X.indices, starts, d[rows], M)
        M[-1] = sums[:, -1]
        M = _symmetric(M)
        # Σ d_i (x_i - shift)(x_i - shift)' from Σ d_i x_i x_i' and Σ d_i (x_i - shift).
        moment = np.outer(sums[:-1, -1], self.shift)
        M[:-1, :-1] -= moment + moment.T + total * np.outer(self.shift, self.shift)
        return M, sums[:, :-1]

    def _float64_blocks(self) -> Iterator[tuple[slice, Vector]]:
        """Yield blocks of dense rows in float64, all copied to one buffer unless X is float64."""
        if self.X.dtype == np.float64 and isinstance(self.X, np.ndarray):
            yield slice(None), self.X
            return
        buffer = np.empty((min(self._block, self.n), self.m))
        for rows in self._row_slices():
            block = buffer[: len(self.X[rows])]
            np.copyto(block, self.X[rows])
            yield rows, block

    def _sparse_ranges(self) -> Iterator[tuple[slice, Any]]:
        """Yield ranges of sparse rows with their row pointers, each range small enough for one call."""
        assert is_sparse(self.X)
        starts = self.X.indptr
        work = np.cumsum(np.diff(starts).astype(float) ** 2)
        cuts = np.searchsorted(work, np.arange(self.max_call_work, work[-1:].sum(), self.max_call_work))
        stops = np.unique(np.append(cuts, self.n))
        for first, last in zip([0, *stops[:-1]], stops, strict=True):
            yield slice(first, last), starts[first : last + 1]

    def _row_slices(self) -> Iterator[slice]:
        return (slice(first, first + self._block) for first in range(0, self.n, self._block))


def _count_products(X: Matrix) -> float:
    """Return the sum over the rows of their squared number of entries."""
    if not is_sparse(X):
        return X.shape[0] * float(X.shape[1]) ** 2
    counts = np.diff(X.indptr).astype(float)
    return float(counts @ counts)


def is_entrywise_faster(products: float, n: int, m: int) -> bool:
    """Return True if this many entrywise products take less time than X' diag(d) X of dense rows by BLAS."""
    return _ENTRYWISE_COST * products < n * float(m) ** 2


def _symmetric(M: Vector) -> Vector:
    """Return the symmetric matrix with this lower triangle."""
    lower = np.tril(M)
    return lower + np.tril(M, -1).T
