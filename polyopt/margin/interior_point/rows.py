"""The products with the data that an interior-point iteration needs, one block of rows at a time.

A row is ``(x_i - shift, 1)``: the last column is the intercept's. The products are

    scores   (X - 1 shift') w + b                                    one per sample
    pull     [X - 1 shift', 1]' V                                    for the columns of V
    normal   [X - 1 shift', 1]' D [X - 1 shift', 1], D = diag(d)     dense, of size m+1

No more than one block of the data is ever copied, whatever its type: not to centre it, not to
weigh it, and not to bring float32 to the float64 in which everything is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg.blas import dsyrk

from formulations.language.types import is_sparse
from polyopt.native.library import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formulations.language.types import Matrix, Vector

__all__ = ["Rows", "is_scattered"]

_BLOCK = 1 << 16  # numbers in a block: half a megabyte, so that it stays in the cache
_SCATTER = 40.0  # multiplications that BLAS does in the time of one that goes through row indices

_WORK = 1 << 24  # products of sparse rows in one call of compiled code: less than 0.1 s, then Ctrl-C is heard

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
    """The samples, each with a last one, seen through products in float64.

    X (n, m): samples, float32 or float64; as CSR in canonical format.

    n, m: samples and features.
    shift (m,): what is subtracted from every sample; zeros at first.
    products: what X'DX takes, of single products.
    scatters: whether X is so sparse that X'DX is made of these; else it is made by BLAS.
    """

    def __init__(self, X: Matrix):
        self.X = X
        self.n, self.m = X.shape
        self.shift = np.zeros(self.m)
        self._block = max(_BLOCK // (self.m + 1), 64)
        self.products = _squares_of_counts(X)
        self.scatters = is_scattered(self.products, self.n, self.m)

    def scores(self, v: Vector, out: Vector | None = None) -> Vector:
        """Outputs at ``v = (w, b)``, shape (n,); into `out`, if it is given."""
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
        """The rows added up with the weights in each column of V (n, k): shape (m+1, k)."""
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
        """The normal matrix for the weights d, shape (m+1, m+1), and :meth:`pull` of V.

        Where d is zero, V has to be.
        """
        if self.scatters:
            return self._scattered(d, V)
        # V over the root of d is appended to the rows times it: one product then makes it all.
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
        """The same for rows so sparse that their few products are best added one by one."""
        assert is_sparse(self.X)
        pulled = self.pull(np.column_stack([V, d]))
        total = pulled[-1, -1]
        M = np.zeros((self.m + 1, self.m + 1))
        for rows, starts in self._stretches(2):
            _csr_normal(self.X.data, self.X.indices, starts, d[rows], M)
        M[-1] = pulled[:, -1]
        M = _mirrored(M)
        # Sum of d_i (x_i - shift)(x_i - shift)' from that of d_i x_i x_i' and of d_i (x_i - shift).
        moment = np.outer(pulled[:-1, -1], self.shift)
        M[:-1, :-1] -= moment + moment.T + total * np.outer(self.shift, self.shift)
        return M, pulled[:, :-1]

    def _wide(self) -> Iterator[tuple[slice, Vector]]:
        """Dense rows in float64, some at a time, all in the same memory: new memory would cost more."""
        if self.X.dtype == np.float64 and isinstance(self.X, np.ndarray):
            yield slice(None), self.X
            return
        room = np.empty((min(self._block, self.n), self.m))
        for rows in self._parts(self._block):
            block = room[: len(self.X[rows])]
            np.copyto(block, self.X[rows])
            yield rows, block

    def _stretches(self, power: int) -> Iterator[tuple[slice, Any]]:
        """Sparse rows, some at a time, and where their entries begin.

        power: the work of a row is this power of its number of entries.
        """
        assert is_sparse(self.X)
        starts = self.X.indptr
        work = np.cumsum(np.diff(starts).astype(float) ** power)
        ends = np.unique(np.append(np.searchsorted(work, np.arange(_WORK, work[-1:].sum(), _WORK)), self.n))
        for first, last in zip([0, *ends[:-1]], ends, strict=True):
            yield slice(first, last), starts[first : last + 1]

    def _parts(self, size: int) -> Iterator[slice]:
        return (slice(first, first + size) for first in range(0, self.n, size))


def _squares_of_counts(X: Matrix) -> float:
    """The squares of the numbers of entries of all rows, added up."""
    if not is_sparse(X):
        return X.shape[0] * float(X.shape[1]) ** 2
    in_row = np.diff(X.indptr).astype(float)
    return float(in_row @ in_row)


def is_scattered(products: float, n: int, m: int) -> bool:
    """Return True if so many single products are less work than n rows of m numbers by BLAS."""
    return _SCATTER * products < n * float(m) ** 2


def _mirrored(M: Vector) -> Vector:
    """The symmetric matrix whose lower triangle is given."""
    lower = np.tril(M)
    return lower + np.tril(M, -1).T
