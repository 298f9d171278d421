"""The quadratic part of a hinge program: what an inner product, a norm and a score are.

A hinge program needs five operations of its feature space, whatever the space is. `v` stands for
the vector that represents ``w``: ``w`` itself for linear features, expansion coefficients for a
kernel. `beta` is a vector over the samples.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from formulations.recovery import moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["Geometry", "KernelGeometry", "LinearGeometry"]


class Geometry(Protocol):
    """What a hinge program asks of its feature space; n samples."""

    n: int
    unit: float  # the size of the gradient of half the energy where the energy is 1

    def scores(self, v: Vector) -> Vector:
        """``w'phi(x_i)`` for every sample, shape (n,)."""

    def gradient(self, v: Vector) -> Vector:
        """Gradient of half the energy."""

    def pull(self, beta: Vector) -> Vector:
        """Gradient of ``sum_i beta_i w'phi(x_i)``, in the units of :meth:`gradient`."""

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        """:meth:`pull` of each of these samples alone, as the columns of a matrix."""

    def pull_scale(self, beta: Vector) -> float:
        """Size of the terms that :meth:`pull` adds up: what its rounding errors are relative to."""

    def represent(self, beta: Vector) -> Vector:
        """The v whose gradient is ``pull(beta)``: the minimiser of the Lagrangian."""

    def energy(self, v: Vector) -> float:
        """Twice the regulariser: ``||w||^2``, or its like in another metric."""


class LinearGeometry:
    """Linear features in the metric ``(1-D) I + D Sigma``; the plain norm at D = 0.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    D : float, optional
        The Sigma-SVM's share. Given (even 0), scores are of centred samples, as in its eq. (3).
    weights : ndarray of shape (n,), optional
        Weights of the samples in mean and covariance.
    """

    def __init__(self, X: Any, D: float | None = None, weights: Vector | None = None):
        self.X = sp.csr_array(X, dtype=float) if sp.issparse(X) else np.asarray(X, dtype=float)
        self.n, m = self.X.shape
        self.mean = np.zeros(m)
        self.metric: Vector | None = None
        if D is not None:
            self.mean, Sigma = moments(self.X, weights)
            self.metric = (1.0 - D) * np.eye(m) + D * Sigma
        self.unit = 1.0 if self.metric is None else float(np.sqrt(self.metric.diagonal().max()))

    def scores(self, v: Vector) -> Vector:
        return np.asarray(self.X @ v) - self.mean @ v

    def gradient(self, v: Vector) -> Vector:
        return v if self.metric is None else self.metric @ v

    def pull(self, beta: Vector) -> Vector:
        return np.asarray(self.X.T @ beta) - self.mean * beta.sum()

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        rows: Any = self.X[samples]
        return (rows.toarray() if sp.issparse(rows) else rows).T - self.mean[:, None]

    def pull_scale(self, beta: Vector) -> float:
        size = np.abs(beta)
        return float(np.max(abs(self.X).T @ size + np.abs(self.mean) * size.sum(), initial=0.0))

    @cached_property
    def _inverse(self) -> NDArray[Any]:
        assert self.metric is not None
        return np.linalg.pinv(self.metric, rcond=1e-12, hermitian=True)

    def represent(self, beta: Vector) -> Vector:
        pulled = self.pull(beta)
        return pulled if self.metric is None else self._inverse @ pulled

    def energy(self, v: Vector) -> float:
        return float(v @ self.gradient(v))


class KernelGeometry:
    """The feature space of a Gram matrix; v are expansion coefficients, ``w = sum_i v_i phi(x_i)``.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric positive semidefinite Gram matrix.
    """

    def __init__(self, K: Any):
        self.K = np.asarray(K, dtype=float)
        self.n = len(self.K)
        self.unit = float(np.sqrt(max(self.K.diagonal().max(), 0.0)))

    def scores(self, v: Vector) -> Vector:
        return self.K @ v

    def gradient(self, v: Vector) -> Vector:
        return self.K @ v

    def pull(self, beta: Vector) -> Vector:
        return self.K @ beta

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        return self.K[:, samples]

    def pull_scale(self, beta: Vector) -> float:
        return float(np.max(np.abs(self.K) @ np.abs(beta), initial=0.0))

    def represent(self, beta: Vector) -> Vector:
        return beta

    def energy(self, v: Vector) -> float:
        return float(v @ self.K @ v)
