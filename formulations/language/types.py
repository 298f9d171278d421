"""Types of samples and arrays, and their conversion.

Samples are an array (n, m) or a sparse matrix in CSR format (compressed sparse rows).
"""

from typing import Any, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

Matrix: TypeAlias = NDArray[Any] | csr_array
MatrixLike: TypeAlias = ArrayLike | csr_array
Vector: TypeAlias = NDArray[np.float64]
Array: TypeAlias = NDArray[np.float64]


def is_sparse(X: object) -> TypeGuard[csr_array]:
    """Return True for a sparse matrix."""
    return bool(sp.issparse(X))


def check_indices(X: object) -> None:
    """Raise ValueError if the indices or arrays of a sparse matrix do not fit its shape or each other.

    Compiled code does not check them.
    """
    if is_sparse(X) and not _has_valid_indices(X):
        raise ValueError(
            f"the arrays of a sparse matrix of shape {X.shape} do not fit: an index is negative or too "
            "large, or a row has no valid beginning; X.check_format() says what is wrong"
        )


def _has_valid_indices(X: Any) -> bool:
    """Return True if all indices of a sparse matrix are within its shape, and its arrays fit each other."""
    if X.format == "coo":
        return all(
            len(indices) == len(X.data) and _are_within(indices, length)
            for indices, length in zip(X.coords, X.shape, strict=True)
        )
    if X.format not in ("csr", "csc", "bsr"):
        return True  # scipy converts other formats from Python objects, or diagonals
    n_rows, n_columns = X.shape[::-1] if X.format == "csc" else X.shape  # rows of CSC are its columns
    if X.format == "bsr":  # block sparse rows
        n_rows, n_columns = n_rows // X.blocksize[0], n_columns // X.blocksize[1]
    starts = X.indptr
    if len(starts) != n_rows + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        return False
    count = starts[-1]
    return count <= min(len(X.indices), len(X.data)) and _are_within(X.indices[:count], n_columns)


def _are_within(indices: NDArray[Any], length: int) -> bool:
    """Return True if all indices are from 0 to length − 1."""
    return len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < length)


def as_csr(X: MatrixLike, dtype: Any = None) -> Any:
    """Return a matrix as CSR; ValueError as in :func:`check_indices`."""
    check_indices(X)
    return sp.csr_array(X, dtype=dtype)


def aligned(X: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return an array contiguous by rows and aligned in memory, for compiled code; copied only if needed."""
    return np.require(X, dtype, ["C", "A"])


def canonical(X: MatrixLike) -> Any:
    """Return sparse samples as CSR with ascending columns, without repeated or zero entries.

    Repeated entries are added up, as in scipy, and arrays are aligned in memory. A canonical matrix, or one
    that is not sparse, is returned itself. ValueError as in :func:`check_indices`.
    """
    if not is_sparse(X):
        return X
    check_indices(X)
    rows = X.tocsr()
    if rows is not X:
        check_indices(rows)  # conversion from the LIL format does not check the columns
    if rows.has_canonical_format and rows.data.all():
        is_aligned = all(array.flags.aligned for array in (rows.data, rows.indices, rows.indptr))
        return rows if is_aligned else rows.copy()
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def dense(X: MatrixLike) -> NDArray[Any]:
    """Return the matrix as an array with its dtype; ValueError as in :func:`check_indices`."""
    check_indices(X)
    return X.toarray() if is_sparse(X) else np.asarray(X)
