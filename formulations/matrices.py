"""What samples are given as, and what programs compute with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from scipy.sparse import csr_array

__all__ = ["Array", "Matrix", "MatrixLike", "Vector", "canonical", "dense", "is_sparse"]

Matrix: TypeAlias = "NDArray[Any] | csr_array"
MatrixLike: TypeAlias = "ArrayLike | csr_array"
Vector: TypeAlias = "NDArray[np.float64]"
Array: TypeAlias = "NDArray[np.float64]"


def is_sparse(X: object) -> TypeGuard[csr_array]:
    """Whether it is a sparse matrix."""
    return bool(sp.issparse(X))


def canonical(X: MatrixLike) -> Any:
    """Return sparse samples as CSR with ascending columns, without repeated or zero entries.

    Repeated entries are added up, by scipy's convention. The given matrix stays as it is, and is returned if
    it is so already; anything that is not sparse is returned as well.
    """
    if not is_sparse(X):
        return X
    rows = X.tocsr()
    if rows.has_canonical_format and rows.data.all():
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


def dense(X: MatrixLike) -> NDArray[Any]:
    """The matrix as an array, of whatever type its numbers have."""
    return X.toarray() if is_sparse(X) else np.asarray(X)
