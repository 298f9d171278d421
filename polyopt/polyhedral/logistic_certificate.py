"""Certificates of the logistic machines: SPLA1, PLUME and logistic polytopes.

None of them is convex over its assignment (the cells, the responsibilities, the faces of samples); at a fixed
assignment each is a convex program, with a bound from multipliers. A point is ``stationary`` if it attains
that bound and its assignment is its own; with one face, so that there is one assignment, it can be
``optimal``. Values, gradients and bounds are balls (:mod:`polyopt.linalg.rounding`).

**SPLA1.** At fixed cells it is one logistic regression with a ridge for each face, strongly convex with
modulus ρ: the optimum is at least the value less ‖∇‖²/(2ρ). A face with an empty cell has its optimum at 0;
without it the same machine has a lower value. The value at given cells need not be above the problem's, as h
is a minimum and the loss of a positive in its cell is no upper bound.

**PLUME.** The negative log-likelihood L(W) has, for fixed responsibilities R, the convex majorant

    G(W; R) = F(W; R) − Σ_i c_i Ent(R_i)  ≥  L(W),

which the M-step minimises and which touches L at the W whose responsibilities are R
(:mod:`formulations.mixture`). The dual of the M-step (:mod:`formulations.plume`) is feasible at p = gate(W),
u = σ(−y s) for any W, with the value G(W; R) − ‖∇F‖²/(2ρ): the same bound. Since −ln P ≥ 0, 0 is a bound too.
There is no useful bound on all responsibilities from a convex relaxation of L. For a negative the loss
ℓ(S) = −ln P(outside) at its scores S has, for two faces and more and γ > 0, the convex envelope 0: S is the
mean of S + tD and S − tD with D = (1, −1, 0, ..., 0), and as t grows the gate of either goes to a face whose
score falls without end, so that P(outside) goes to 1 and both losses to 0. The relaxation keeps the positives
and the ridge alone, whose minimum is at most Σ_+ c_i ln(1 + e^−b) + ρ/2 K b² for any b ≥ 0, whatever the
negatives are: W = 0 and b on every face. The condition ‖W‖² ≤ 2U/ρ for a known value U makes the envelope
positive, but no larger than e^−t with t the largest score that it allows.

**Logistic polytopes.** For a fixed assignment any multipliers alpha ≥ 0 of a sample that add up to no more
than its weight give the bound

    Σ C_i H(p_i) − 1/(2ρ) Σ s(q)_kj² − 1/(2η) Σ r_k²,    p_i = Σ_k alpha_ik / C_i,

with q and r the pulls of alpha, and s, which brings numbers nearer to 0 by λ, to 0 where their sign is not
allowed, and then groups of features nearer to 0 by τ (:mod:`formulations.face_penalty`). The first sum is
over the weights that may differ from 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, softmax

from formulations import mixture
from formulations.class_faces import BIAS, Owners, natural_assignment
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import positive, real_array, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polyhedral import belonging, check_positives, hard_loss, pull, scores
from formulations.polytope import check_assignment, lift
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.statement import Evidence, Statement, cap_of, numeral, numerals
from polyopt.certificates.points import checked_faces, within_shared_caps
from polyopt.cpm.claim import add_penalty, state_faces
from polyopt.cpm.penalty_term import penalty_value, shrunk_square_sum
from polyopt.linalg.rounding import UNIT, Ball, product, strongly_convex_bound, transposed_product
from polyopt.linalg.used_features import UsedFeatures

Positives = Literal["cell", "all"]

_EMPTY = "A face has no samples in its cell: without it the value is lower by its ridge."
_OTHER_CELLS = "Other cells may have a lower optimum."
_MOVED = (
    "The cells are those given, of a fitted machine those that its faces were fitted to: {count} of {n} "
    "samples have a lower score at another face, by up to {worst:.3g}, so this is no fixed point. With every "
    "sample in the cell of its least score the loss is {loss:.6g}."
)
_OTHER_RESPONSIBILITIES = "Other responsibilities may have a lower optimum."
_NO_RIDGE = "A bound needs a ridge: without one the optimum need not be attained."
_OTHER_ASSIGNMENT = "Another assignment may have a lower optimum."
_OTHER_SUPPORT = "Other weights held at 0 may have a lower optimum."
# Softness of the maxima by which faces with equal scores share a sample's multiplier; the best bound counts.
_TIE_SOFTNESS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)


@np.errstate(over="ignore", invalid="ignore")
def certify_spla1(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, ridge: float, C: ArrayLike = 1.0,
    positives: Positives = "cell", assignment: ArrayLike | None = None, n_faces: int | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of SPLA1 (:mod:`formulations.spla1`).

    Parameters
    ----------
    X, y, W, C, tol
        As in :func:`~polyopt.polyhedral.lp_certificate.certify_polyceptron`; C is the weight of each sample.
    ridge : float
        ρ, positive.
    positives : {"cell", "all"}
        "cell" if a positive is in the program of its cell, "all" if in those of all faces.
    assignment : array_like of int, shape (n,), optional
        The cell of each sample, such as the one that W was fitted to; by default that of W.
    n_faces : int, optional
        Number of faces allowed, at least those of W: a machine that uses one of three is not an optimum
        among those with three. By default the number of faces of W.

    Returns
    -------
    Certificate
        ``stationary`` if every face is optimal for its cell and every sample is in the cell that W gives
        it; ``optimal`` for one face of one, which has one cell; else ``suboptimal_by``, within the fixed
        cells. The note has the number of samples that are not in their cell.
    """
    X, y = as_data(X, y)
    check_positives(positives)
    tol, rho = tolerance(tol), positive("ridge", ridge)  # without a ridge there is no bound
    W = checked_faces("W", W, None, X.shape[1] + 1)
    single = (len(W) if n_faces is None else whole("n_faces", n_faces, len(W))) == 1
    costs, s = as_costs(C, len(y)), scores(X, W)
    chosen: NDArray[np.int64] = np.argmin(s, axis=1)
    if assignment is not None:
        chosen = check_assignment(np.ones(len(y)), len(W), assignment, "sample")
    members = belonging(y, chosen, len(W), positives)
    weights = costs[:, None] * members
    value, bound, residuals = _of_cells(X, y, W, weights, rho)
    scope, notes = "SPLA1", list[str]()
    if not single:
        # A positive in every program has no cell; the others pay less at the face with the least score.
        cell = np.take_along_axis(s, chosen[:, None], axis=1)[:, 0]
        moves = np.where(members.sum(axis=1) > 1, 0.0, cell - s.min(axis=1))
        size = float(np.abs(s).max()) or 1.0
        residuals.append(residual("stationarity", "cells", moves, size))
        scope, notes = "the program for fixed cells", [_OTHER_CELLS]
        moved = int((moves > tol * size).sum())
        if moved:
            loss, worst = hard_loss(X, y, W, costs, rho, positives), float(moves.max())
            scope = "the program for the cells given"
            notes.append(_MOVED.format(count=moved, n=len(y), worst=worst, loss=loss))
    if not members.any(axis=0).all():
        notes.append(_EMPTY)
    certificate = conclude(
        f"SPLA1, positives={positives!r}", value, bound, residuals, tol,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY, scope=scope, notes=notes,
    )  # fmt: skip

    def stated() -> Statement:
        multipliers = weights * expit(-y[:, None] * s)
        norm = {"kind": "square", "factor": numeral(0.5 * rho)}
        title = "SPLA1 for the cells that are listed"
        return state_faces(title, X, y, W, norm, costs.tolist(), members, multipliers, loss="logistic")

    return replace(certificate, evidence=(Evidence(stated),))


def _of_cells(
    X: Matrix, y: Vector, W: Vector, weights: Vector, rho: float
) -> tuple[Ball, Ball, list[Residual]]:
    """Return value and bound of SPLA1 at fixed cells, and the stationarity of each face in its cell."""
    lifted = lift(X)
    against = product(lifted, W.T).signed(-y[:, None])
    value = (against.softplus() * weights).sum() + (0.5 * rho) * Ball(W).square_sum()
    own = against.logistic() * weights  # c σ(−z)
    pulls = transposed_product(lifted, own.signed(y[:, None]))
    # The terms that cancel at the optimum, not their sum.
    scale = float(pull(abs(X), own.mid).max()) or 1.0
    gradient = rho * Ball(W) - pulls.transposed()
    off = np.abs(gradient.mid).max(axis=1)
    return value, strongly_convex_bound(value, gradient, rho), [residual("stationarity", "W", off, scale)]


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
        Responsibilities of the M-step that W is compared with; rows add up to 1. By default those of W, at
        which the value is L(W).

    Returns
    -------
    Certificate
        ``stationary`` if W is optimal for its responsibilities and they are its own, within `tol`; with one
        face then ``optimal``. Otherwise ``suboptimal_by``, within the M-step at these responsibilities.
        ``none`` without a ridge.
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
        "PLUME", value, bound, residuals, tol,
        feasible=ridge > 0, reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="PLUME" if single else "the M-step at these responsibilities",
        notes=[_NO_RIDGE if ridge == 0 else "" if single else _OTHER_RESPONSIBILITIES],
    )  # fmt: skip
    stated = partial(state_plume, X, y, W, R, float(gamma), float(ridge), costs)
    return replace(certificate, evidence=(Evidence(stated),)) if ridge > 0 else certificate


def _loss_and_slope(
    X: Matrix, y: Vector, W: Vector, R: Vector, sharpness: float, costs: Vector
) -> tuple[Ball, Ball]:
    """Return G(W; R) without its ridge, and its slope (K, m+1), at R (n, K) over the sums of its rows."""
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
    X, y, C, tol
        As in :func:`~polyopt.polyhedral.lp_certificate.certify_polyceptron`; C is the weight of each sample.
    W : array_like of shape (K, m+1)
        Faces, the bias last: those of the class -1, then those of +1, and zeros for a class without faces.
    n_faces : tuple of int
        Numbers of faces of the classes -1 and +1.
    ridge, bias_ridge, l1, group : float
        ρ, η (by default a hundredth of ρ), both positive, λ and τ.
    alpha : array_like of shape (n, K), optional
        Multipliers of the margin constraints, at the faces of the other class; by default from W.
    assignment : array_like of int, shape (n,), optional
        The face of each sample, of its own class; by default the best for W.
    support : array_like of bool, shape (K, m), optional
        True for weights that may differ from 0; by default all.
    signs : array_like of int, shape (m,), optional
        The sign that the log-odds keep with each feature; by default none has one.
    groups : array_like of shape (m,), or sequence of sequences of int, optional
        As in :meth:`formulations.face_penalty.FacePenalty.of`; by default each feature is its own.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignment and its assignment for it, within `tol`;
        ``optimal`` if there is one assignment and no `support`; else ``suboptimal_by``, within the fixed
        assignment and the weights that may differ from 0.
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
    made = partial(state_logistic_polytopes, X, y, W, owners, free, ways, (rho, eta, penalty), costs)
    used = UsedFeatures.of(X, W)  # the other features add 0 to everything below
    X, W, free, penalty = used.samples(X), used.faces(W), used.faces(free), penalty.of_features(used.columns)
    s = product(X, W[:, :-1].T) + W[:, -1]
    Z = owners.assignment_matrix(
        y, natural_assignment(y, s.mid, owners) if assignment is None else assignment
    )
    z = Z.argmax(axis=1)
    best = Ball(np.where(others, s.mid, -np.inf), np.where(others, s.rad, 0.0)).max(axis=1)
    xi = best - s[np.arange(len(y)), z]
    squares = 0.5 * rho * Ball(W[:, :-1]).square_sum() + 0.5 * eta * Ball(W[:, -1]).square_sum()
    value = (xi.softplus() * costs).sum() + squares + penalty_value(penalty, W)
    residuals: list[Residual] = []
    if alpha is None:
        candidates = [_suggested(s.mid, xi.mid, costs, others, t) for t in _TIE_SOFTNESS]
    else:
        given = np.where(others, real_array("alpha", alpha, others.shape), 0.0)
        residuals = [residual("sign", "alpha", -given.min(axis=1), 1.0)]
        candidates = [np.maximum(given, 0.0)]
    program = _FixedAssignment(X, Z, costs, rho, eta, penalty, free, owners.classes)
    bounds = [program.bound(each) for each in candidates]
    at = int(np.argmax([float(found.lower) for found, _, _ in bounds]))
    bound, pulls, scale = bounds[at]
    residuals.append(program.stationarity(W, pulls, scale))
    single = max(owners.minus, owners.plus) <= 1
    if not single:
        own = np.where(others, -np.inf, s.mid).max(axis=1) - s.mid[np.arange(len(y)), z]
        residuals.append(residual("stationarity", "assignment", own, float(np.abs(s.mid).max()) or 1.0))
    name = "logistic polytopes"
    certificate = conclude(
        name, value, bound, residuals, tol,
        reached=Claim.OPTIMAL if single and support is None else Claim.STATIONARY,
        scope=name if single else "the fixed-assignment program",
        notes=["" if single else _OTHER_ASSIGNMENT, "" if support is None else _OTHER_SUPPORT],
    )  # fmt: skip
    return replace(certificate, evidence=(Evidence(partial(made, z, candidates[at])),))


def _suggested(s: Vector, xi: Vector, costs: Vector, others: NDArray[np.bool_], t: float) -> Vector:
    """Share c σ(ξ) between the other class's faces (n, K) by the softmax of their scores at softness t."""
    far = np.where(others, s, -np.inf)
    shares = np.exp((far - far.max(axis=1, keepdims=True)) / t)
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares * (costs * np.exp(-np.logaddexp(0.0, -xi)))[:, None])


@dataclass(frozen=True)
class _FixedAssignment:
    """Logistic polytopes at an assignment Z (n, K), 1 at the face of a sample.

    `free` (K, m+1) marks the entries that may differ from 0; the signs of the penalty are those of the faces
    of class +1; `classes` (K,) are the classes of the faces.
    """

    X: Matrix
    Z: Vector
    costs: Vector
    rho: float
    eta: float
    penalty: FacePenalty
    free: NDArray[np.bool_]
    classes: Vector

    def bound(self, alpha: Vector) -> tuple[Ball, tuple[Ball, Ball], float]:
        """Return the bound at multipliers, never under 0, their pulls q (m, K) and r (K,), and their size."""
        alpha = within_shared_caps(alpha, self.costs)
        total = Ball(alpha).sum(axis=1)
        net = self.Z * Ball(total.mid[:, None], total.rad[:, None]) - alpha
        free = self.free[:, -1].astype(float)
        q, r = transposed_product(self.X, net.signed(free)), net.signed(free).sum(axis=0)
        left = shrunk_square_sum(self.penalty, self._turned(q))
        lost = left * (1.0 / self.rho) + Ball(r.size).square_sum() * (1.0 / self.eta)
        lost = Ball(0.5 * lost.mid, 0.5 * lost.rad + 2.0 * UNIT * lost.mid)  # of the two divisions
        found = _entropy(total, self.costs) - lost
        sizes = np.abs(net.mid) * free
        scale = max(float(np.asarray(abs(self.X).T @ sizes).max(initial=0.0)), float(sizes.sum(axis=0).max()))
        return (Ball(0.0) if not found.lower > 0.0 else found), (q, r), scale or 1.0

    def stationarity(self, W: Vector, pulls: tuple[Ball, Ball], scale: float) -> Residual:
        """Compare the faces with those that the multipliers imply, relative to the size of the pulls."""
        turned = self._turned(pulls[0]).mid.T
        implied = self.penalty.shrunk(turned)[:, :-1] * self.classes[:, None]
        off = np.column_stack([self.rho * W[:, :-1] - implied, self.eta * W[:, -1] - pulls[1].mid])
        return residual("stationarity", "W", np.abs(off * self.free).max(axis=1), scale)

    def _turned(self, q: Ball) -> Ball:
        """Pad pulls to (m+1, K), 0 at biases and weights held at 0, with the signs of faces of class +1."""
        padded = Ball(*(np.vstack([part, np.zeros(len(self.free))]) for part in (q.mid, q.rad)))
        return padded.signed(self.classes * self.free.T)


def _entropy(total: Ball, costs: Vector) -> Ball:
    """Return Σ C_i H(p_i), p_i = total_i / C_i; the concave H is least at an end of the interval of p_i."""
    weight = np.where(costs > 0.0, costs, 1.0)
    low = np.clip(np.nextafter(total.lower / weight * (1.0 - 4 * UNIT), 0.0), 0.0, 1.0)
    high = np.clip(np.nextafter(total.upper / weight * (1.0 + 4 * UNIT), 2.0), 0.0, 1.0)
    least = np.minimum(*(entr(p) + entr(1.0 - p) for p in (low, high)))
    return (Ball(least, 8 * UNIT * (least + 1.0)) * costs).sum()


def state_plume(
    X: Matrix, y: Vector, W: Vector, R: Vector, gamma: float, ridge: float, costs: Vector
) -> Statement:
    """State PLUME's M-step for faces W (K, m+1) at responsibilities R (n, K), less their weighted entropy.

    The gate pays C γ times (1/γ) ln Σ exp(−γ s_k), a face C γ R s_k, and an expert C R ln(1 + exp(−y s_k)). C
    are the costs (n,), ρ is the ridge.
    """
    s, n, K = scores(X, W), len(y), len(W)
    weights = [Fraction(c) for c in costs.tolist()]
    steep = [c * Fraction(gamma) for c in weights]
    shares = [[Fraction(r) for r in column] for column in R.T.tolist()]
    constant = -float(costs @ entr(R).sum(axis=1))
    rows: list[dict[str, Any]] = []
    multipliers: dict[str, Any] = {}
    for k in range(K):
        wrong = [c * r for c, r in zip(weights, shares[k], strict=True)]
        rows.append(_row(f"expert {k}", "label", "logistic", wrong) | {"at": k})
        pulls = np.zeros((K, n))
        pulls[k] = costs * R[:, k] * expit(-y * s[:, k])
        multipliers[f"expert {k}"] = pulls
        if gamma:
            own = [c * r for c, r in zip(steep, shares[k], strict=True)]
            rows.append(_row(f"face {k}", -1, "linear", own) | {"at": k})
            multipliers[f"face {k}"] = np.zeros((K, n))
    if gamma:
        rows.append(_row("gate", 1, "linear", steep) | {"pays": "soft", "sharp": numeral(gamma)})
        multipliers["gate"] = (gamma * costs[:, None] * softmax(-gamma * s, axis=1)).T
    else:
        constant += float(costs.sum() * np.log(K))
    size = {"kind": "square", "factor": numeral(0.5 * ridge)}
    program = {**_program(size, K, rows), "constant": numeral(constant)}
    return Statement("PLUME's M-step at its responsibilities", X, y, program, W, [], multipliers)


def _row(name: str, side: int | str, loss: str, caps: list[Fraction]) -> dict[str, Any]:
    return {"name": name, "side": side, "loss": loss, "cap": cap_of(caps), "kink": 0}


def _program(size: dict[str, Any], n_faces: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"features": {"kind": "lifted"}, "size": size, "faces": n_faces, "intercept": False, "rows": rows}


def state_logistic_polytopes(
    X: Matrix, y: Vector, W: Vector, owners: Owners, free: NDArray[np.bool_], ways: Vector,
    prices: tuple[float, float, FacePenalty], costs: Vector, own: NDArray[np.int64], alpha: Vector,
) -> Statement:  # fmt: skip
    """State logistic polytopes W (K, m+1) for an assignment `own` (n,), with multipliers alpha (n, K).

    `free` (K, m+1) marks the weights that may differ from 0; `ways` (K, m) are the signs that weights keep, 0
    if any. `prices` are ρ, η, and the penalty of weights, whose signs are ignored.
    """
    (rho, eta), penalty = (Fraction(v) for v in prices[:2]), replace(prices[2], signs=0 * prices[2].signs)
    m, others = X.shape[1], {s: np.flatnonzero(owners.classes == -s).tolist() for s in (-1.0, 1.0)}
    size = add_penalty({"kind": "square", "factor": numerals([rho / 2] * m + [eta / 2])}, penalty)
    if not free.all() or ways.any():
        signed = np.column_stack([ways, np.zeros(len(W))])
        low, high = free & (signed <= 0), free & (signed >= 0)
        size["low"] = {"faces": [["-inf" if may else 0 for may in face] for face in low.tolist()]}
        size["high"] = {"faces": [["inf" if may else 0 for may in face] for face in high.tolist()]}
    row = _row("margin", -1, "logistic", [Fraction(c) for c in costs.tolist()])
    row |= {"pays": "worst", "at": [others[s] for s in y.tolist()], "less": own.tolist()}
    program, title = _program(size, len(W), [row]), "logistic polytopes for their assignment"
    return Statement(title, X, y, program, W, [], {"margin": alpha.T})
