"""Certificates of PLUME, the polyhedral learner by a mixture of experts.

The negative log-likelihood L(W) is not convex; for fixed responsibilities R it has the convex majorant

    G(W; R) = F(W; R) − Σ_i c_i Ent(R_i)  ≥  L(W),

which the M-step minimises and which touches L at the W whose responsibilities are R
(:mod:`formulations.mixture`). The dual of the M-step (:mod:`formulations.plume`) is feasible at p = gate(W),
u = σ(−y s) for any W, and there its value is G(W; R) − ‖∇F‖²/(2ρ): that is the bound, proven by the gradient
alone. −ln P is never negative, so 0 is a bound as well. A point is ``stationary`` when it is optimal for its
own responsibilities: a fixed point of expectation and maximisation, and no more. One face alone is a logistic
regression with a ridge, and can be ``optimal``.

There is no bound on all responsibilities, and none is to be had from a convex relaxation of L. Of a negative
the loss ℓ(S) = −ln P(outside) at its scores S has, for two faces and more and γ > 0, the convex envelope 0:
S is the mean of S + tD and S − tD with D = (1, −1, 0, ..., 0), and as t grows the gate of either goes to a
face whose score falls without end, so that P(outside) goes to 1 and both losses to 0. What is left of the
relaxation is the positives and the ridge alone, whose least is no more than Σ_+ c_i ln(1 + e^−b) + ρ/2 K b²
for any b ≥ 0, whatever the negatives are: W = 0 and b on every face. That ‖W‖² ≤ 2U/ρ for a known value U
makes the envelope positive, but no larger than e^−t with t the largest score that this allows.

Value and gradient are balls (:mod:`polyopt.linalg.rounding`). The responsibilities are those given, or
those computed at W, over their sum in each row: real numbers that add up to 1, whatever rounding did to them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr

from formulations import mixture
from formulations.language.arguments import tolerance
from formulations.language.recovery import as_costs, as_data
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate, Claim, conclude, residual
from polyopt.certificates.claims.statement import Evidence
from polyopt.certificates.points import checked_faces
from polyopt.linalg.rounding import UNIT, Ball, product, strongly_convex_bound, transposed_product
from polyopt.polyhedral.logistic_claim import state_plume

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import Matrix, MatrixLike, Vector

__all__ = ["certify_plume"]

_NAME = "PLUME"
_OTHERS = "Other responsibilities may have a lower optimum."
_NO_RIDGE = "A bound needs a ridge: without one the optimum need not be attained."


@np.errstate(over="ignore", invalid="ignore")
def certify_plume(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, gamma: float, ridge: float, C: ArrayLike = 1.0,
    responsibilities: ArrayLike | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of PLUME's mixture of experts (Shah, Sastry & Manwani 2019).

    Parameters
    ----------
    X, y, W, tol
        As in :func:`~polyopt.polyhedral.lp_certificate.certify_polyceptron`.
    gamma : float
        Sharpness of the gate, at least 0.
    ridge : float
        ρ, at least 0; nothing is proven without one.
    C : float or array_like of shape (n,)
        Weight per sample.
    responsibilities : array_like of shape (n, K), optional
        Those of the M-step whose optimum W is held to; rows add up to 1. By default those of W, at which the
        value is L(W).

    Returns
    -------
    Certificate
        ``stationary`` if W is optimal for its responsibilities and they are its own, within `tol`; with one
        face then ``optimal``. Otherwise ``suboptimal_by``, within the M-step at these responsibilities.
        ``none`` without a ridge, as the gap is over it.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or out of its range.
    """
    X, y = as_data(X, y)
    mixture.check_model(gamma, ridge)
    tol, costs = tolerance(tol), as_costs(C, len(y))
    W = checked_faces("W", W, None, X.shape[1] + 1)
    R = own = mixture.responsibilities(X, y, W, gamma)
    if responsibilities is not None:
        given = checked_faces("responsibilities", responsibilities, len(y), len(W))
        R = mixture.check_responsibilities(given, own.shape)
        R = R / R.sum(axis=1, keepdims=True)
    loss, slope = _loss_and_slope(X, y, W, R, float(gamma), costs)
    value, gradient = loss + (0.5 * float(ridge)) * Ball(W).square_sum(), float(ridge) * Ball(W) + slope
    bound = strongly_convex_bound(value, gradient, float(ridge)) if ridge > 0 else Ball(0.0)
    scale = mixture.turnover(X, y, W, R, gamma, costs, ridge)
    off = np.abs(gradient.mid)
    residuals = [residual("stationarity", f"w(face {k})", each, scale) for k, each in enumerate(off)]
    if responsibilities is not None:
        residuals.append(residual("stationarity", "responsibilities", np.abs(R - own).max(axis=1), 1.0))
    single = len(W) == 1
    certificate = conclude(
        _NAME,
        value,
        bound,
        residuals,
        tol,
        feasible=ridge > 0,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope=_NAME if single else "the M-step at these responsibilities",
        notes=[_NO_RIDGE if ridge == 0 else "" if single else _OTHERS],
    )
    stated = partial(state_plume, X, y, W, R, float(gamma), float(ridge), costs)
    return replace(certificate, evidence=(Evidence(stated),)) if ridge > 0 else certificate


def _loss_and_slope(
    X: Matrix, y: Vector, W: Vector, R: Vector, sharpness: float, costs: Vector
) -> tuple[Ball, Ball]:
    """G(W; R) without its ridge, and its slope (K, m+1), at R (n, K) over the sums of its rows."""
    lifted = lift(X)
    s = product(lifted, W.T)
    # The gate and, as R adds up to 1, G too stay the same when all scores of a row move alike.
    least = s.mid.min(axis=1, keepdims=True)
    exponents = (s - least) * -sharpness
    against = s.signed(-y[:, None])
    sums = Ball(R).sum(axis=1)
    off = np.abs(sums.mid - 1.0) + sums.rad + UNIT
    shares = Ball(R, 1.01 * R * off[:, None])
    entropies = entr(R)
    blurred = 1.01 * off[:, None] * (entropies + R) + 16 * UNIT * entropies
    terms = (
        exponents.log_sum_exp()
        + (shares * (against.softplus() - exponents)).sum(axis=1)
        - Ball(entropies, blurred).sum(axis=1)
    )
    pulls = sharpness * (shares - exponents.softmax()) - (shares * against.logistic()).signed(y[:, None])
    return terms.dot(costs), transposed_product(lifted, pulls * costs[:, None]).transposed()
