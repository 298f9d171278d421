"""The products with the data in an interior-point iteration, one block of rows at a time.

A row is ``(x_i - shift, 1)``: the last column is the intercept's. The products are

    scores   (X - 1 shift') w + b                                    one per sample
    pull     [X - 1 shift', 1]' V                                    for the columns of V
    normal   [X - 1 shift', 1]' D [X - 1 shift', 1], D = diag(d)     dense, of size m+1

At most one block of the data is copied: to centre it, to weight it, or to convert float32 to the float64 of
all computations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from formulations.language.types import Matrix, Vector, is_sparse
from polyopt.native.library import kernel

_BLOCK_NUMBERS = 1 << 16  # numbers in a block: half a megabyte, which stays in the cache
_SCATTER_COST = 40.0  # multiplications of BLAS in the time of one by sparse indices
_MAX_CALL_WORK = 1 << 24  # products of sparse rows in one call in C: less than 0.1 s, for Ctrl-C

# Rows √d_i (x_i - shift, 1), followed by V_i / √d_i, x_i being the first m numbers of row i; out may be X.
_weigh = kernel(
    "weighted_rows",
    "X: T (n, x); shift: f8 (m); d: f8 (n); V: f8 (n, k); out!: f8 (n, w)",
    T="f8 f4",
)  # fmt: skip

_CSR = "data: T (e); indices: J (e); indptr: J (p)"
_CSR_TYPES = {"T": "f8 f4", "J": "i4 i8"}

# X w + b.
_csr_scores = kernel("csr_scores", f"{_CSR}; w: f8 (m); b: f8; out!: f8 (n)", **_CSR_TYPES)

# Add X'V to the first m rows of out.
_csr_pull = kernel("csr_pull", f"{_CSR}; V: f8 (n, k); out!: f8 (w, k)", **_CSR_TYPES)

# Add the lower triangle of X' diag(d) X to out; the indices of each row ascend.
_csr_normal = kernel("csr_normal", f"{_CSR}; d: f8 (n); out!: f8 (w, w)", **_CSR_TYPES)


class Rows:
    """Samples X (n, m), float32 or float64, dense or canonical CSR, with a last feature of 1.

    shift (m,): the point subtracted from every sample; zeros at first.
    products: number of single products in X'DX.
    scatters: True if X is so sparse that these are summed one by one; else X'DX is computed by BLAS.
    """

    def __init__(self, X: Matrix):
        self.X = X
        self.n, self.m = X.shape
        self.shift = np.zeros(self.m)
        self._block = max(_BLOCK_NUMBERS // (self.m + 1), 64)
        self.products = _squares_of_counts(X)
        self.scatters = is_scattered(self.products, self.n, self.m)

    def scores(self, v: Vector, out: Vector | None = None) -> Vector:
        """Outputs at ``v = (w, b)``, shape (n,); into `out` if given."""
        out = np.empty(self.n) if out is None else out
        w, b = v[:-1], float(v[-1] - self.shift @ v[:-1])
        if is_sparse(self.X):
            for rows, starts in self._stretches(1):
                _csr_scores(self.X.data, self.X.indices, starts, w, b, out[rows])
            return out
        for rows, block in self._wide():
            np.matmul(block, w, out=out[rows])
        out += b
        return out

    def pull(self, V: Vector) -> Vector:
        """Sums of the rows weighted by each column of V (n, k): shape (m+1, k)."""
        out = np.zeros((self.m + 1, V.shape[1]))
        if is_sparse(self.X):
            for rows, starts in self._stretches(1):
                _csr_pull(self.X.data, self.X.indices, starts, V[rows], out)
        else:
            for rows, block in self._wide():
                out[:-1] += block.T @ V[rows]
        out[-1] = V.sum(axis=0)
        out[:-1] -= np.outer(self.shift, out[-1])
        return out

    def normal(self, d: Vector, V: Vector) -> tuple[Vector, Vector]:
        """Normal matrix for the weights d, shape (m+1, m+1), and :meth:`pull` of V, which is 0 where d is."""
        if self.scatters:
            return self._scattered(d, V)
        # V / √d is appended to the rows times √d: one product computes everything.
        width = self.m + 1 + V.shape[1]
        M, buffer = np.zeros((width, width), order="F"), np.empty((min(self._block, self.n), width))
        for rows in self._parts(self._block):
            block = buffer[: len(d[rows])]
            if is_sparse(self.X):
                block[:, : self.m] = self.X[rows].toarray()
                _weigh(block, self.shift, d[rows], V[rows], block)
            else:
                _weigh(self.X[rows], self.shift, d[rows], V[rows], block)
            M = dsyrk(1.0, block.T, beta=1.0, c=M, lower=1, overwrite_c=1)
        return _mirrored(M[: self.m + 1, : self.m + 1]), M[self.m + 1 :, : self.m + 1].T

    def _scattered(self, d: Vector, V: Vector) -> tuple[Vector, Vector]:
        """The same for very sparse rows."""
        assert is_sparse(self.X)
        pulled = self.pull(np.column_stack([V, d]))
        total = pulled[-1, -1]
        M = np.zeros((self.m + 1, self.m + 1))
        for rows, starts in self._stretches(2):
            _csr_normal(self.X.data, self.X.indices, starts, d[rows], M)
        M[-1] = pulled[:, -1]
        M = _mirrored(M)
        # Σ d_i (x_i - shift)(x_i - shift)' from Σ d_i x_i x_i' and Σ d_i (x_i - shift).
        moment = np.outer(pulled[:-1, -1], self.shift)
        M[:-1, :-1] -= moment + moment.T + total * np.outer(self.shift, self.shift)
        return M, pulled[:, :-1]

    def _wide(self) -> Iterator[tuple[slice, Vector]]:
        """Yield dense rows in float64, some at a time, in the same memory."""
        if self.X.dtype == np.float64 and isinstance(self.X, np.ndarray):
            yield slice(None), self.X
            return
        room = np.empty((min(self._block, self.n), self.m))
        for rows in self._parts(self._block):
            block = room[: len(self.X[rows])]
            np.copyto(block, self.X[rows])
            yield rows, block

    def _stretches(self, power: int) -> Iterator[tuple[slice, Any]]:
        """Yield sparse rows, some at a time, with their row pointers.

        power: the work of a row is this power of its number of entries.
        """
        assert is_sparse(self.X)
        starts = self.X.indptr
        work = np.cumsum(np.diff(starts).astype(float) ** power)
        cuts = np.searchsorted(work, np.arange(_MAX_CALL_WORK, work[-1:].sum(), _MAX_CALL_WORK))
        ends = np.unique(np.append(cuts, self.n))
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            yield slice(first, last), starts[first : last + 1]

    def _parts(self, size: int) -> Iterator[slice]:
        return (slice(first, first + size) for first in range(0, self.n, size))


def _squares_of_counts(X: Matrix) -> float:
    """Sum of the squared numbers of entries of the rows."""
    if not is_sparse(X):
        return X.shape[0] * float(X.shape[1]) ** 2
    in_row = np.diff(X.indptr).astype(float)
    return float(in_row @ in_row)


def is_scattered(products: float, n: int, m: int) -> bool:
    """Return True if so many single products cost less than n rows of m numbers by BLAS."""
    return _SCATTER_COST * products < n * float(m) ** 2


def _mirrored(M: Vector) -> Vector:
    """Symmetric matrix from its lower triangle."""
    lower = np.tril(M)
    return lower + np.tril(M, -1).T
