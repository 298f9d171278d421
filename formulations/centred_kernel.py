"""The kernel of the Sigma-SVM: centred, and scaled down along the directions of large variance.

The Sigma-SVM's metric is (1−D) I + D Sigma, with the covariance Sigma of the points and D from 0 to 1. D = 0
gives the centred kernel, D = 1 the whitened one (by the pseudo-inverse). One eigendecomposition serves every
D, and training and test points.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import as_weights
from formulations.language.types import Array


class CentredKernel:
    """Inner products ``phi_c(s)' ((1-D) I + D Sigma)^{-1} phi_c(t)`` from a Gram matrix.

    ``phi_c`` is the feature map centred at the weighted mean of the training points and Sigma its
    weighted covariance (divided by the sum of the weights: biased, as in the paper). Let Kc be the centred
    Gram matrix and S = diag(weights). The columns of V are eigenvectors of ``S^(1/2) Kc S^(1/2)``.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Symmetric positive semidefinite Gram matrix of the training points.
    weights : array_like of shape (n,), optional
        Positive multiplicities of the points. All one by default.

    Attributes
    ----------
    total : float
        Sum of the weights.
    eigenvalues : ndarray of shape (r,)
        Eigenvalues above rounding error, kappa in the formulas; the others count as 0.
    factors : tuple of ndarray
        The complete eigendecomposition: all n eigenvalues, and the eigenvectors (n, n).
    root : ndarray of shape (n, r)
        ``S^(-1/2) V diag(sqrt(eigenvalues))``: the centred points along the eigenvectors of Sigma.

    References
    ----------
    Shivaswamy & Jebara (2008), the kernelised form after eq. (4), computed by the eigenvalues above rounding
    error: accurate up to and including D = 1, where the printed form divides by zero.
    """

    def __init__(self, K: ArrayLike, weights: ArrayLike | None = None):
        K = np.asarray(K, dtype=float)
        n = len(K)
        self.weights = np.ones(n) if weights is None else as_weights(weights, n)
        if (self.weights == 0).any():
            raise ValueError("weights must be positive; drop the samples whose weight is zero")
        self.total = float(self.weights.sum())
        self._mean_row = self.weights @ K / self.total
        self._mean = float(self._mean_row @ self.weights / self.total)
        root_weights = np.sqrt(self.weights)
        G = self._centre(K) * np.outer(root_weights, root_weights)
        if not np.isfinite(G).all():
            raise ValueError(
                "the centred kernel has values that are not finite: scale the features or the kernel"
            )
        scale = float(np.abs(G).max(initial=0.0)) or 1.0  # eigh may fail for very large or small entries
        values, vectors = np.linalg.eigh((G + G.T) / (2 * scale))
        values = values * scale
        self.factors = values, vectors
        is_positive = values > 2 * n * np.finfo(float).eps * max(values[-1], np.finfo(float).tiny)
        self.eigenvalues: Array = values[is_positive]
        self.root: Array = vectors[:, is_positive] * np.sqrt(self.eigenvalues) / root_weights[:, None]

    def _centre(self, K_test: Any) -> Array:
        """Centre kernel rows k(t, x_j) in feature space; shape (t, n)."""
        K_test = np.asarray(K_test, dtype=float)
        means = K_test @ self.weights / self.total
        return np.asarray(K_test - means[:, None] - self._mean_row[None, :] + self._mean)

    def shrinkage(self, D: float) -> Array:
        """Return 1 / ((1-D) + D kappa / total) (r,), the scaling along each eigenvector of Sigma."""
        return 1.0 / ((1.0 - D) + D * self.eigenvalues / self.total)

    def gram(self, D: float) -> Array:
        """Return the kernel between the training points, shape (n, n)."""
        return (self.root * self.shrinkage(D)) @ self.root.T

    def cross(self, K_test: ArrayLike, D: float) -> Array:
        """Return the kernel (t, n) of test and training points, from ``K_test[t, j] = k(t, x_j)``."""
        # Coordinates of test point t as in `root`: V' S^(1/2) kc_t / sqrt(kappa), with its centred row kc_t.
        weighted = self.root * (self.weights[:, None] / self.eigenvalues)
        return (self._centre(K_test) @ weighted * self.shrinkage(D)) @ self.root.T

    def is_degenerate(self) -> bool:
        """Return True if the centred points have rank n − 1: at D = 1 only the weights then matter, not K."""
        return len(self.eigenvalues) >= len(self.weights) - 1
