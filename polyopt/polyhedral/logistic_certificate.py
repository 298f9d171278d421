"""Certificates of logistic polytopes.

For a fixed assignment of the samples to faces of their own class the machine is a convex program, and any
multipliers alpha ≥ 0 of a sample that add up to no more than its weight give a bound on it:

    Σ C_i H(p_i) − 1/(2ρ) Σ s(q)_kj² − 1/(2η) Σ r_k²,    p_i = Σ_k alpha_ik / C_i,

with q and r the pulls of alpha, and s, which brings numbers nearer to 0 by λ, to 0 where their sign is not
allowed, and then groups of features nearer to 0 by τ (:mod:`formulations.face_penalty`). The first sum is
over the weights that may differ from 0. A point is ``stationary`` when it attains the bound and no sample
would gain by another face of its class. With one face against one, or against none, there is one assignment,
and the point can be ``optimal``.

Values and bounds are balls (:mod:`polyopt.linalg.rounding`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import entr

from formulations.class_faces import BIAS, Owners, natural_assignment
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import positive, tolerance
from formulations.language.recovery import as_costs, as_data
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.statement import Evidence
from polyopt.certificates.points import checked_faces, checked_vector, within_shared_caps
from polyopt.cpm.penalty_term import left_squares, price_of
from polyopt.linalg.rounding import UNIT, Ball, product, transposed_product
from polyopt.linalg.used_features import UsedFeatures
from polyopt.polyhedral.logistic_claim import state_logistic_polytopes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, MatrixLike

    Vector = NDArray[np.float64]

__all__ = ["certify_logistic_polytopes"]

_NAME = "logistic polytopes"
_OTHERS = "Another assignment may have a lower optimum."
_FEW = "Other weights held at 0 may have a lower optimum."
_SOFTNESS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)  # of the maxima by which ties share a sample's pull


class _Prices(NamedTuple):
    """Prices of weights, and which weights may differ from 0.

    rho, eta: the ridges.
    penalty: prices, and the signs of faces of class +1.
    free (K, m+1): which entries may differ from 0.
    classes (K,): the class of every face.
    """

    rho: float
    eta: float
    penalty: FacePenalty
    free: NDArray[np.bool_]
    classes: Vector

    def turned(self, q: Ball) -> Ball:
        """Pulls (m+1, K), 0 at the biases, as if all faces were of class +1, and 0 at weights held at 0."""
        padded = Ball(*(np.vstack([part, np.zeros(len(self.free))]) for part in (q.mid, q.rad)))
        return padded.signed(self.classes * self.free.T)


@np.errstate(over="ignore", invalid="ignore")
def certify_logistic_polytopes(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, n_faces: tuple[int, int], ridge: float,
    bias_ridge: float | None = None, l1: float = 0.0, C: ArrayLike = 1.0, alpha: ArrayLike | None = None,
    assignment: ArrayLike | None = None, support: ArrayLike | None = None, signs: ArrayLike | None = None,
    group: float = 0.0, groups: ArrayLike | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of logistic polytopes (:mod:`formulations.logistic_polytopes`).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        The training data.
    y : array_like of shape (n,)
        Labels -1 and +1.
    W : array_like of shape (K, m+1)
        Faces, the bias last: those of the class -1, then those of +1, and zeros for a class without faces.
    n_faces : tuple of int
        How many faces the classes -1 and +1 have.
    ridge, bias_ridge, l1 : float
        ρ, η (by default a hundredth of ρ), both positive, and λ.
    C : float or array_like of shape (n,)
        Weight of each sample.
    alpha : array_like of shape (n, K), optional
        Multipliers of the margin rows, at the faces of the other class. By default those that W suggests.
    assignment : array_like of int, shape (n,), optional
        The face of each sample, of its own class; by default the best for W.
    support : array_like of bool, shape (K, m), optional
        Which weights may differ from 0; by default all.
    signs : array_like of int, shape (m,), optional
        The sign that the log-odds keep with each feature; by default none has one.
    group : float
        τ.
    groups : array_like of shape (m,), or sequence of sequences of int, optional
        As in :meth:`formulations.face_penalty.FacePenalty.of`; by default each feature is its own.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignment and its assignment for it, within `tol`;
        ``optimal`` where there is one assignment and no `support`; else ``suboptimal_by``, within the fixed
        assignment and the weights that may differ from 0.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, a ridge that is not positive, a face of a
        class without faces that is not 0, or a weight that is not 0 and may not differ from it, or has a sign
        that is not allowed.
    """
    X, y = as_data(X, y)
    tol, owners = tolerance(tol), Owners(*n_faces)
    rho = positive("ridge", ridge)
    penalty = FacePenalty.of(X.shape[1], l1=l1, group=group, signs=signs, groups=groups)
    eta = BIAS * rho if bias_ridge is None else positive("bias_ridge", bias_ridge)
    W = checked_faces("W", W, owners.count, X.shape[1] + 1)
    if W[~owners.free].any():
        raise ValueError("W must be 0 at the face of a class without faces")
    free = np.column_stack([owners.support(X.shape[1], support), owners.free])
    if W[~free].any():
        raise ValueError("W must be 0 where support says that a weight is held there")
    ways = owners.ways(X.shape[1], signs)
    if (ways * W[:, :-1] < 0).any():
        raise ValueError("W must keep the signs: faces of class +1 those given, faces of class -1 the others")
    costs, others = as_costs(C, len(y)), owners.others(y)
    paid_for = rho, eta, penalty
    made = partial(state_logistic_polytopes, X, y, W, owners, free, ways, paid_for, costs)
    used = UsedFeatures.of(X, W)  # the others add 0 to all that follows
    X, W, free, penalty = used.samples(X), used.faces(W), used.faces(free), penalty.of_features(used.columns)
    s = product(X, W[:, :-1].T) + W[:, -1]
    Z = owners.answers(y, natural_assignment(y, s.mid, owners) if assignment is None else assignment)
    z = Z.argmax(axis=1)
    best = Ball(np.where(others, s.mid, -np.inf), np.where(others, s.rad, 0.0)).max(axis=1)
    xi = best - s[np.arange(len(y)), z]
    paid = 0.5 * rho * Ball(W[:, :-1]).square_sum() + 0.5 * eta * Ball(W[:, -1]).square_sum()
    value = (xi.softplus() * costs).sum() + paid + price_of(penalty, W)
    stated: list[Residual] = []
    if alpha is None:
        given = [_suggested(s.mid, xi.mid, costs, others, t) for t in _SOFTNESS]
    else:
        numbers = checked_vector("alpha", alpha, others.shape)
        assert numbers is not None
        stated = [residual("sign", "alpha", -np.where(others, numbers, 0.0).min(axis=1), 1.0)]
        given = [np.where(others, np.maximum(numbers, 0.0), 0.0)]
    prices = _Prices(rho, eta, penalty, free, owners.classes)
    bounds = [_bound(X, a, Z, costs, prices) for a in given]
    at = int(np.argmax([float(found.lower) for found, _, _ in bounds]))
    bound, pulls, scale = bounds[at]
    single = max(owners.minus, owners.plus) <= 1
    residuals = [*stated, _stationarity(W, pulls, prices, scale)]
    if not single:
        own = np.where(others, -np.inf, s.mid).max(axis=1) - s.mid[np.arange(len(y)), z]
        residuals.append(residual("stationarity", "assignment", own, float(np.abs(s.mid).max()) or 1.0))
    certificate = conclude(
        _NAME,
        value,
        bound,
        residuals,
        tol,
        reached=Claim.OPTIMAL if single and support is None else Claim.STATIONARY,
        scope=_NAME if single else "the fixed-assignment program",
        notes=[] if single and support is None else [_OTHERS] * (not single) + [_FEW] * (support is not None),
    )
    return replace(certificate, evidence=(Evidence(partial(made, z, given[at])),))


def _suggested(s: Vector, xi: Vector, costs: Vector, others: NDArray[np.bool_], t: float) -> Vector:
    """Multipliers: what ξ pulls, shared between the other class's faces by how near they are to the best."""
    far = np.where(others, s, -np.inf)
    shares = np.exp((far - far.max(axis=1, keepdims=True)) / t)
    shares /= shares.sum(axis=1, keepdims=True)
    pull = costs * np.exp(-np.logaddexp(0.0, -xi))
    return np.asarray(shares * pull[:, None])


def _bound(
    X: Matrix, alpha: Vector, Z: Vector, costs: Vector, prices: _Prices
) -> tuple[Ball, tuple[Ball, Ball], float]:
    """The bound at multipliers, never under 0, their pulls q (m, K) and r (K,), and their size."""
    alpha = within_shared_caps(alpha, costs)
    total = Ball(alpha).sum(axis=1)
    net = Z * Ball(total.mid[:, None], total.rad[:, None]) - alpha
    free = prices.free[:, -1].astype(float)
    q, r = transposed_product(X, net.signed(free)), net.signed(free).sum(axis=0)
    left = left_squares(prices.penalty, prices.turned(q))
    lost = left * (1.0 / prices.rho) + Ball(r.size).square_sum() * (1.0 / prices.eta)
    lost = Ball(0.5 * lost.mid, 0.5 * lost.rad + 2.0 * UNIT * lost.mid)  # of the two divisions
    found = _entropy(total, costs) - lost
    sizes = np.abs(net.mid) * free
    scale = max(float(np.asarray(abs(X).T @ sizes).max(initial=0.0)), float(sizes.sum(axis=0).max()))
    return (Ball(0.0) if not found.lower > 0.0 else found), (q, r), scale or 1.0


def _entropy(total: Ball, costs: Vector) -> Ball:
    """Σ C_i H(p_i), p_i = total_i / C_i, where H, concave, is least over what rounding leaves open."""
    weight = np.where(costs > 0.0, costs, 1.0)
    low = np.clip(np.nextafter(total.lower / weight * (1.0 - 4 * UNIT), 0.0), 0.0, 1.0)
    high = np.clip(np.nextafter(total.upper / weight * (1.0 + 4 * UNIT), 2.0), 0.0, 1.0)
    least = np.minimum(*(entr(p) + entr(1.0 - p) for p in (low, high)))
    return (Ball(least, 8 * UNIT * (least + 1.0)) * costs).sum()


def _stationarity(W: Vector, pulls: tuple[Ball, Ball], prices: _Prices, scale: float) -> Residual:
    """Distance of the faces from those that the multipliers imply, relative to the size of the pulls."""
    implied = prices.penalty.shrunk(prices.turned(pulls[0]).mid.T)[:, :-1] * prices.classes[:, None]
    off = np.column_stack([prices.rho * W[:, :-1] - implied, prices.eta * W[:, -1] - pulls[1].mid])
    return residual("stationarity", "W", np.abs(off * prices.free).max(axis=1), scale)
