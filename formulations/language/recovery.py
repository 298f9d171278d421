"""Functions shared by programs: checks of samples and labels, factors of Gram matrices, moments, slacks."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from formulations.language.arguments import as_costs, as_weights, real_array
from formulations.language.types import Array, Matrix, MatrixLike, Vector, as_csr, canonical, is_sparse

RANK_TOLERANCE = 1e-12  # eigenvalues below this, relative to the largest, count as 0

__all__ = [
    "RANK_TOLERANCE", "as_costs", "as_data", "as_labels", "gram_factor", "moments", "slacks", "square_sum",
]  # fmt: skip


def as_data(X: MatrixLike, y: ArrayLike) -> tuple[Matrix, Vector]:
    """Return samples as a float matrix (CSR stays CSR) and labels as -1.0 and +1.0."""
    if is_sparse(X):
        if np.issubdtype(X.dtype, np.complexfloating):
            raise ValueError("X must be real; it has complex values")
        X = canonical(as_csr(X, float))
    else:
        X = real_array("X", X)
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(f"X must have two dimensions and at least one row, not shape {X.shape}")
    y = real_array("y", y)
    if y.shape != (X.shape[0],):
        raise ValueError(f"y must have shape ({X.shape[0]},) to match X, not {y.shape}")
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise ValueError("X must be finite; it has NaN or infinite values")
    return X, as_labels(y)


def as_labels(y: ArrayLike, name: str = "y") -> Vector:
    """Return labels as -1.0 and +1.0."""
    y = real_array(name, y)
    if y.ndim != 1 or len(y) == 0:
        raise ValueError(f"{name} must have one dimension and at least one label, not shape {y.shape}")
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"{name} must hold only -1 and +1, not {np.setdiff1d(y, (-1.0, 1.0))[:3]}")
    return y


def square_sum(X: Matrix) -> float:
    """Return Σ_i ‖x_i‖²."""
    return float((X.multiply(X) if is_sparse(X) else X * X).sum())


def gram_factor(K: ArrayLike, asymmetry: float = 1e-8) -> Array:
    """Return a factor F (n, r) of the Gram matrix K = F F', so that β'Kβ = ‖F'β‖² for all β.

    cvxpy may not recognise a quadratic form in a numerically singular K as convex, but ‖F'β‖² is. The rank r
    is the number of eigenvalues above RANK_TOLERANCE, at least 1. `asymmetry` is the tolerance for
    |K_ij − K_ji| and, multiplied by n, for negative eigenvalues, both relative to the largest entry.
    """
    K = np.asarray(K, dtype=float)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"the Gram matrix must be square, not of shape {K.shape}")
    largest = np.abs(K).max(initial=0.0)
    if np.abs(K - K.T).max(initial=0.0) > asymmetry * largest:
        raise ValueError("the Gram matrix must be symmetric")
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    if values[0] < -asymmetry * len(K) * largest:
        raise ValueError(
            f"the Gram matrix must be positive semidefinite; its smallest eigenvalue is {values[0]:.3g}. "
            "The dual is not concave for this kernel; choose a Mercer kernel"
        )
    is_positive = values > RANK_TOLERANCE * max(values[-1], np.finfo(float).tiny)
    is_positive[-1] = True  # cvxpy needs a factor with at least one column
    return np.asarray(vectors[:, is_positive] * np.sqrt(np.maximum(values[is_positive], 0.0)))


def slacks(f: Vector, y: Vector) -> Vector:
    """Return the smallest feasible slacks, ξ_i = [1 − y_i f_i]_+, for the outputs f."""
    return np.maximum(0.0, 1.0 - y * f)


def moments(X: Matrix, weights: ArrayLike | None = None) -> tuple[Vector, Array]:
    """Return the mean (m,) and biased covariance (m, m) of samples with multiplicities `weights`."""
    weights = np.ones(X.shape[0]) if weights is None else as_weights(weights, X.shape[0])
    total = weights.sum()
    mu = np.asarray(X.T @ weights) / total
    if isinstance(X, np.ndarray):
        centred = X - mu
        return mu, (centred * weights[:, None]).T @ centred / total
    second_moments = X.T @ (X.multiply(weights[:, None])).tocsr()
    return mu, second_moments.toarray() / total - np.outer(mu, mu)
