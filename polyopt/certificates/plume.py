"""Certificates of PLUME, the polyhedral learner by a mixture of experts.

The negative log-likelihood L(W) is not convex; for fixed responsibilities R it has the convex majorant

    G(W; R) = F(W; R) − Σ_i c_i Ent(R_i)  ≥  L(W),

which the M-step minimises and which touches L at the W whose responsibilities are R
(:mod:`formulations.mixture`). The dual of the M-step (:mod:`formulations.plume`) is feasible at p = gate(W),
u = σ(−y s) for any W, and there its value is G(W; R) − ‖∇F‖²/(2ρ): that is the bound, proven by the gradient
alone. −ln P is never negative, so 0 is a bound as well. A point is ``stationary`` when it is optimal for its
own responsibilities: a fixed point of expectation and maximisation, and no more. One face alone is a logistic
regression with a ridge, and can be ``optimal``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from formulations import mixture
from formulations.recovery import as_costs, as_data
from polyopt.certificates.certificate import Certificate, Claim, relative_gap, residual

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["certify_plume"]

_NAME = "PLUME"


def certify_plume(
    X: Any,
    y: ArrayLike,
    W: ArrayLike,
    *,
    gamma: float,
    ridge: float,
    C: ArrayLike = 1.0,
    responsibilities: ArrayLike | None = None,
    tol: float = 1e-6,
) -> Certificate:
    """Certify faces of PLUME's mixture of experts (Shah, Sastry & Manwani 2019).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        The training data.
    y : array_like of shape (n,)
        Labels: +1 inside, -1 outside.
    W : array_like of shape (K, m+1)
        Faces, the bias last.
    gamma : float
        Sharpness of the gate, at least 0.
    ridge : float
        ρ, at least 0; nothing is proven without one.
    C : float or array_like of shape (n,)
        Weight per sample.
    responsibilities : array_like of shape (n, K), optional
        Those of the M-step whose optimum W is held to; rows add up to 1. By default those of W, at which the
        value is L(W).
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        ``stationary`` if W is optimal for its responsibilities and they are its own, within `tol`; with one
        face then ``optimal``. Otherwise ``suboptimal_by``, within the M-step at these responsibilities.
        ``none`` without a ridge, as the gap is over it.
    """
    X, y = as_data(X, y)
    mixture.check_model(gamma, ridge)
    W = np.asarray(W, dtype=float)
    if W.ndim != 2 or len(W) == 0 or W.shape[1] != X.shape[1] + 1 or not np.isfinite(W).all():
        raise ValueError(f"W must be finite, of shape (K, {X.shape[1] + 1}), the bias last; it is {W.shape}")
    costs = as_costs(C, len(y))
    R = own = mixture.responsibilities(X, y, W, gamma)
    if responsibilities is not None:
        R = mixture.check_responsibilities(responsibilities, own.shape)
    value, gradient = mixture.value_and_gradient(X, y, W, R, gamma, costs, ridge)
    value -= float(costs @ entr(R).sum(axis=1))
    bound = value - float(np.sum(gradient**2)) / (2.0 * ridge) if ridge > 0 else 0.0
    scale = mixture.turnover(X, y, W, R, gamma, costs, ridge)
    residuals = [
        residual("stationarity", f"w(face {k})", np.abs(slope), scale) for k, slope in enumerate(gradient)
    ]
    if responsibilities is not None:
        residuals.append(residual("stationarity", "responsibilities", np.abs(R - own).max(axis=1), 1.0))
    bound, single = max(bound, 0.0), len(W) == 1
    proven = relative_gap(value, bound) <= tol and all(r.relative <= tol for r in residuals)
    claim = (Claim.OPTIMAL if single else Claim.STATIONARY) if proven else Claim.SUBOPTIMAL_BY
    note = "" if single else "Other responsibilities may have a lower optimum."
    if ridge == 0.0:
        claim, note = Claim.NONE, "A bound needs a ridge: without one the optimum need not be attained."
    return Certificate(
        program=_NAME,
        claim=claim,
        primal_value=value,
        dual_value=bound,
        residuals=tuple(residuals),
        tol=tol,
        scope=_NAME if single else "the M-step at these responsibilities",
        note=note,
    )
