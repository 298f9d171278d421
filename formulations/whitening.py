"""The metric that a large relative margin implies: how far the data may spread before it counts.

The QCQP (5) of the Relative Margin Machine adds to ½‖w‖² the rows ½(w·x_i + b)² ≤ ½B², with multipliers λ.
At the optimum its Lagrangian holds, besides the margins,

    ½‖w‖² + ½ Σ λ_i (w·x_i + b)²  =  ½ w'(I + Σ_λ) w + ½ Λ (w·μ_λ + b)²,
    Λ = Σ λ_i,   μ_λ = Σ λ_i x_i / Λ,   Σ_λ = Σ λ_i (x_i − μ_λ)(x_i − μ_λ)',

and its stationarity is (I + Σ_λ) w = Σ α_i y_i (x_i − μ_λ), the inverse matrix of the dual (6). So the RMM is
a support vector machine in the metric I + Σ_λ, that is, of samples whitened by (I + Σ_λ)^{-1/2}, whose mean
output at the samples that bound it is pressed towards 0. Only these samples, with |f_i| = B, are in Σ_λ; in
the direction in which they spread, a change of x counts for less. The Sigma-SVM (3) has (1 − D) I + D Σ in
its place, of all samples, chosen before any output is known.

Of the QP (7), whose rows are ±f_i ≤ B, the multipliers are λ_i + λ*_i = B times those of (5).

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (5) to (7); Σ_λ stands before eq. (6).

Example
-------
>>> import numpy as np
>>> from formulations import rmm
>>> from formulations.language.toy_data import two_blobs
>>> from formulations.whitening import bounding_spread
>>> X, y = two_blobs()
>>> at = rmm.qp(X, y, C=1.0, B=1.5).solve()
>>> mu, Sigma = bounding_spread(X, at.duals["bound_above"], at.duals["bound_below"], B=1.5)
>>> pull = (X - mu).T @ (at.duals["margin"] * y)
>>> bool(np.allclose((np.eye(len(mu)) + Sigma) @ at["w"], pull, atol=1e-6))
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.recovery import moments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import MatrixLike, Vector

__all__ = ["bounding_spread"]


def bounding_spread(X: MatrixLike, lam: ArrayLike, lam_star: ArrayLike, B: float) -> tuple[Vector, Vector]:
    """The mean μ_λ (m,) and the matrix Σ_λ (m, m) of the samples that bound a Relative Margin Machine.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    lam, lam_star : array_like of shape (n,)
        Multipliers of the rows bound_above and bound_below of the QP (7).
    B : float
        The bound.

    Returns
    -------
    ndarray of shape (m,), ndarray of shape (m, m)
        The plain mean and the zero matrix where no sample is bounded: the metric is the SVM's.
    """
    own = (np.asarray(lam, dtype=float) + np.asarray(lam_star, dtype=float)) / B
    total = float(own.sum())
    if total == 0.0:
        mean, covariance = moments(X)
        return mean, np.zeros_like(covariance)
    mean, covariance = moments(X, own)
    return mean, total * covariance
