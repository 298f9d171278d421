"""Types of samples and arrays, and their conversion."""

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
    """Raise ValueError for a sparse matrix with invalid indices, which compiled code does not check.

    ValueError: an index is negative or too large, or the arrays do not fit the shape or each other.
    """
    if is_sparse(X) and not _has_valid_indices(X):
        raise ValueError(
            f"the arrays of a sparse matrix of shape {X.shape} do not fit: an index is negative or too "
            "large, or a row has no valid beginning; X.check_format() says what is wrong"
        )


def _has_valid_indices(X: Any) -> bool:
    if X.format == "coo":
        return all(
            len(indices) == len(X.data) and _are_within(indices, length)
            for indices, length in zip(X.coords, X.shape, strict=True)
        )
    if X.format not in ("csr", "csc", "bsr"):
        return True  # scipy converts other formats from Python objects, or diagonals
    height, width = X.shape[::-1] if X.format == "csc" else X.shape
    if X.format == "bsr":
        height, width = height // X.blocksize[0], width // X.blocksize[1]
    starts = X.indptr
    if len(starts) != height + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        return False
    count = starts[-1]
    return count <= min(len(X.indices), len(X.data)) and _are_within(X.indices[:count], width)


def _are_within(indices: NDArray[Any], length: int) -> bool:
    """Return True if all indices are from 0 to length − 1."""
    return len(indices) == 0 or bool(indices.min() >= 0 and indices.max() < length)


def as_csr(X: MatrixLike, dtype: Any = None) -> Any:
    """Return a matrix as CSR, with errors of :func:`check_indices`."""
    check_indices(X)
    return sp.csr_array(X, dtype=dtype)


def aligned(X: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return an array that is contiguous by rows and aligned in memory, as compiled code requires.

    Such an array is not copied.
    """
    return np.require(X, dtype, ["C", "A"])


def canonical(X: MatrixLike) -> Any:
    """Return sparse samples as CSR with ascending columns, without repeated or zero entries.

    Repeated entries are added up, as in scipy, and arrays are aligned in memory. A matrix that is canonical
    already, or not sparse, is returned itself.

    ValueError: as in :func:`check_indices`.
    """
    if not is_sparse(X):
        return X
    check_indices(X)
    rows = X.tocsr()
    if rows is not X:
        check_indices(rows)  # a list of lists may have had any columns
    if rows.has_canonical_format and rows.data.all():
        is_aligned = all(each.flags.aligned for each in (rows.data, rows.indices, rows.indptr))
        return rows if is_aligned else rows.copy()
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def dense(X: MatrixLike) -> NDArray[Any]:
    """Return the matrix as an array of its own type.

    ValueError: as in :func:`check_indices`.
    """
    check_indices(X)
    return X.toarray() if is_sparse(X) else np.asarray(X)
