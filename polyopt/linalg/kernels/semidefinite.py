"""Refusing a Gram matrix that is not positive semidefinite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.linalg.kernels.gram import MatrixGram, SampleGram, as_gram
from polyopt.linalg.kernels.protocol import DENSE_ROWS, chunks, spread_samples

if TYPE_CHECKING:
    from formulations.language.types import MatrixLike
    from polyopt.linalg.kernels.protocol import Gram, Vector

__all__ = ["require_psd"]


def require_psd(gram: Gram | MatrixLike) -> float:
    """Refuse a Gram matrix that is clearly not symmetric positive semidefinite.

    Up to 2,000 samples the matrix is tested whole. Beyond, the principal submatrix of 2,000 evenly
    spaced samples is: a semidefinite matrix passes, but another one may pass as well. Of kernels that
    are semidefinite by nature nothing is computed.

    Parameters
    ----------
    gram : Gram or array_like of shape (n, n)
        The Gram matrix.

    Returns
    -------
    float
        How far below zero an eigenvalue of the matrix tested may lie; 0 for kernels that are
        semidefinite by nature.

    Raises
    ------
    ValueError
        It is not finite or not symmetric, or has an eigenvalue below -1e-8 n max|K|.
    """
    gram = as_gram(gram)
    if isinstance(gram, SampleGram) and gram.kernel.is_mercer:
        return 0.0
    samples = spread_samples(gram.n)
    K = gram.panel(samples, np.float64).rows(samples)
    _require_symmetric(gram.K if isinstance(gram, MatrixGram) else K)
    n, size = len(K), float(np.abs(K).max())
    # A Cholesky factorisation that ends proves all eigenvalues above minus this (Rump 2006).
    unit = (n + 4) * np.finfo(float).eps / 2
    floor, lost = 1e-8 * n * size, unit * float(np.trace(K)) * (1 + 1e-6)
    for shift in (-2 * lost, 4 * unit * size, floor):
        try:
            np.linalg.cholesky(K + shift * np.eye(n))
        except np.linalg.LinAlgError:
            continue
        if shift <= 0.0:
            return 0.0
        if shift < floor:
            return min(shift + lost + unit * n * shift, _from_factor(K))
    least = float(np.linalg.eigvalsh(K)[0])
    if least < -floor:
        part = "" if n == gram.n else f" of {n} of its samples"
        raise ValueError(
            "the Gram matrix must be positive semidefinite; "
            f"its smallest eigenvalue{part} is {least:.3g}. "
            "The dual is not concave for this kernel; choose a Mercer kernel"
        )
    return max(-least, 0.0) + unit * n * size  # no better than its own rounding


def _from_factor(K: Vector) -> float:
    """Bound on how far below zero an eigenvalue of K lies, from the rest that a factor of low rank leaves.

    K = LL' + E, and no eigenvalue is below -‖E‖: what is computed of E, and the rounding of LL' in it.
    """
    from scipy.linalg.lapack import dpstrf

    n, eps = len(K), np.finfo(float).eps
    factor, order, rank, _ = dpstrf(K, tol=n * eps * float(K.diagonal().max()), lower=1)
    L = np.tril(factor)[:, :rank]
    at = order - 1
    E = K[np.ix_(at, at)] - L @ L.T
    return float(np.linalg.norm(E) + (rank + 4) * eps / 2 * ((L**2).sum() + np.trace(K))) * (1 + 1e-6)


def _require_symmetric(K: Vector) -> None:
    size = max(float(K.max()), -float(K.min()))
    if not np.isfinite(size):
        raise ValueError("the Gram matrix must be finite; it has NaN or infinite values")
    for rows in chunks(np.arange(len(K)), DENSE_ROWS):
        part = slice(rows[0], rows[-1] + 1)
        if np.abs(K[part] - K[:, part].T).max() > 1e-8 * size:
            raise ValueError("the Gram matrix must be symmetric")
