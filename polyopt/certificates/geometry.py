"""The quadratic part of a hinge program: what an inner product, a norm and a score are.

A hinge program needs a few operations of its feature space, whatever the space is. `v` stands for
the vector that represents ``w``: ``w`` itself for linear features, expansion coefficients for a
kernel. `beta` is a vector over the samples.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from formulations.recovery import moments
from polyopt.certificates.products import Products
from polyopt.kernels import as_gram, spread_samples

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from polyopt.kernels import Gram

    Vector = NDArray[np.float64]

__all__ = ["Geometry", "KernelGeometry", "LinearGeometry"]


class Geometry(Protocol):
    """What a hinge program asks of its feature space; n samples."""

    n: int
    unit: float  # the size of the gradient of half the energy where the energy is 1

    def prepare(self, *vectors: Vector) -> None:
        """Be told which v and beta will be asked about, so that one pass over the data may do."""

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

    def curvature(self) -> float:
        """Estimate of the largest eigenvalue of ``beta -> scores(represent(beta))``."""


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

    def prepare(self, *vectors: Vector) -> None:
        pass  # its products are cheap

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

    def curvature(self) -> float:
        return _largest_eigenvalue(lambda beta: self.scores(self.represent(beta)), self.n)


class KernelGeometry:
    """The feature space of a Gram matrix; v are expansion coefficients, ``w = sum_i v_i phi(x_i)``.

    Parameters
    ----------
    gram : Gram or array_like of shape (n, n)
        Symmetric positive semidefinite Gram matrix, whole or served by blocks: no more of it is
        computed than the columns of the samples in use, and no more kept than half a gigabyte.
    """

    def __init__(self, gram: Gram | Any):
        self.gram = as_gram(gram)
        self.n = self.gram.n
        self.unit = float(np.sqrt(max(self.gram.diagonal().max(), 0.0)))
        self._products = Products(self.gram)

    def prepare(self, *vectors: Vector) -> None:
        self._products.prepare(list(vectors))

    def scores(self, v: Vector) -> Vector:
        return self._products.of(v)

    def gradient(self, v: Vector) -> Vector:
        return self._products.of(v)

    def pull(self, beta: Vector) -> Vector:
        return self._products.of(beta)

    def columns(self, samples: NDArray[np.intp]) -> Vector:
        return self._products.columns(samples)

    def pull_scale(self, beta: Vector) -> float:
        return self._products.size(beta)

    def represent(self, beta: Vector) -> Vector:
        return beta

    def energy(self, v: Vector) -> float:
        return max(float(v @ self._products.of(v)), 0.0)  # rounding must not make it negative

    def curvature(self) -> float:
        # For many samples from some of them, spread evenly: the mean outer product is about the same.
        some = spread_samples(self.n)
        K = self.gram.panel(some, np.float64).rows(some)
        return self.n / len(some) * _largest_eigenvalue(lambda beta: K @ beta, len(some))


def _largest_eigenvalue(product: Callable[[Vector], Vector], n: int) -> float:
    """Largest eigenvalue of a semidefinite map on n numbers, from below, by power iteration."""
    direction = np.cos(np.arange(n) + 1.0)  # no symmetry of the data is likely to hide from it
    largest = 0.0
    for _ in range(30):
        norm = float(np.linalg.norm(direction))
        if norm == 0:
            break
        largest = norm
        direction = product(direction / norm)
    return max(largest, float(np.linalg.norm(direction)))
