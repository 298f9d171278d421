"""A Gram matrix that is there as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from formulations.matrices import is_sparse
from polyopt.kernels.panels import FunctionPanel

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from formulations.matrices import MatrixLike
    from polyopt.kernels.protocol import Gram, Panel, Samples, Vector

__all__ = ["MatrixGram", "as_gram"]


class MatrixGram:
    """A Gram matrix that is there as a whole.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite matrix.

    Raises
    ------
    ValueError
        K is not square.
    """

    def __init__(self, K: MatrixLike):
        self.K = np.asarray(K.toarray() if is_sparse(K) else K, dtype=float)
        if self.K.ndim != 2 or self.K.shape[0] != self.K.shape[1]:
            raise ValueError(f"the Gram matrix must be square, not of shape {self.K.shape}")
        self.n, self.width = len(self.K), 1

    def diagonal(self) -> Vector:
        return self.K.diagonal()

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        def block(samples: Samples) -> Vector:
            return self.K[samples] if columns is None else self.K[np.ix_(samples, columns)]

        return FunctionPanel(block, np.dtype(dtype))

    def is_single(self) -> bool:
        return float(np.abs(self.K.diagonal()).max()) < 1e30

    def entry_error(self) -> tuple[float, Vector]:
        """The matrix is what it is: no error; sizes by its largest entry."""
        return 0.0, np.full(self.n, float(np.sqrt(np.abs(self.K).max(initial=0.0))))


def as_gram(K: Gram | MatrixLike) -> Gram:
    """A Gram matrix served by blocks, as it is; a square array as a :class:`MatrixGram`."""
    return cast("Gram", K) if hasattr(K, "panel") else MatrixGram(K)
