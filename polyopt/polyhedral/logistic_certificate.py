"""Certificates of the logistic classifiers: SPLA1, PLUME and logistic polytopes.

Faces are the rows of W (K, m+1), the bias last; s_ik = W_k·x̃_i with x̃ = (x, 1) are the scores. Each problem
is a convex program for a fixed assignment: cells in SPLA1, responsibilities in PLUME, a face for each sample
in logistic polytopes. Over all assignments it is not convex. A point is ``stationary`` if it attains a lower
bound for its assignment, and the assignment is the one that the point implies. With one face there is one
assignment, and the point can be ``optimal``. Values, gradients and bounds are balls, intervals that enclose
rounding (:mod:`polyopt.linalg.rounding`).

**SPLA1.** The cell of a sample is the face with the least score. For fixed cells each face is a logistic
regression with the ridge ρ, which is strongly convex: the optimum is at least the value less ‖∇‖²/(2ρ). A
face with an empty cell has its optimum at 0, and leaving it out lowers the value by its ridge. The value for
fixed cells is not an upper bound on the loss at the cells of W: a positive that moves to the face with the
least score has a higher loss.

**PLUME.** For fixed responsibilities R, whose rows add up to 1, the negative log-likelihood L(W) has the
convex majorant

    G(W; R) = F(W; R) − Σ_i c_i Ent(R_i)  ≥  L(W),    Ent(R_i) = −Σ_k R_ik ln R_ik,

where F is the objective of the M-step. They are equal if R are the responsibilities of W
(:mod:`formulations.mixture`). F is strongly convex, so that G(W; R) − ‖∇F‖²/(2ρ) is a lower bound on the
minimum of G for any W. The dual of the M-step (:mod:`formulations.plume`) has this value at p = gate(W) and
u = σ(−y s). Since −ln P ≥ 0, 0 is a bound, too.

A convex relaxation of L gives no useful bound over all responsibilities. With two or more faces and γ > 0,
the loss −ln P(outside) of a negative has the convex envelope 0: its scores S are the mean of S + tD and
S − tD with D = (1, −1, 0, ..., 0), and as t → ∞ the gate selects a face whose score tends to −∞, so that
P(outside) → 1 and both losses tend to 0. The relaxation consists of the positives and the ridge. Its minimum
is at most Σ_+ c_i ln(1 + e^−b) + ρ/2 K b² for any b ≥ 0, the value for zero weights and the bias b on every
face, whatever the negatives are. The constraint ‖W‖² ≤ 2U/ρ, valid for a known value U, makes the envelope
positive, but at most e^−t, where t is the largest score that the constraint allows.

**Logistic polytopes.** Let C_i be the weights, z_i the face of sample i and alpha_ik ≥ 0 multipliers at the
faces of the other class, with Σ_k alpha_ik ≤ C_i. Then

    Σ_i C_i H(p_i) − 1/(2ρ) Σ_kj (shrunk q)_kj² − 1/(2η) Σ_k r_k²,    p_i = Σ_k alpha_ik / C_i,

is a lower bound for the assignment z. H is the binary entropy, ρ and η are the ridges of weights and biases,
q_k = Σ_i ([z_i = k] C_i p_i − alpha_ik) x_i, and r_k is the same sum with 1 in place of x_i. "Shrunk" is soft
thresholding of entries by λ, with 0 for a forbidden sign, and then of groups of features by τ
(:mod:`formulations.face_penalty`). The second sum is over the weights that may differ from 0.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr, expit, softmax

from formulations import mixture
from formulations.class_faces import BIAS_RIDGE, Owners, natural_assignment
from formulations.face_penalty import FacePenalty
from formulations.language.arguments import positive, real_array, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polyhedral import belonging, check_positives, hard_loss, pull, scores
from formulations.polytope import check_assignment, lift
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.statement import Evidence, Statement, numeral, numerals
from polyopt.certificates.points import checked_faces, within_shared_caps
from polyopt.cpm.claim import add_penalty, family_of, program_of, state_faces
from polyopt.cpm.penalty_term import penalty_value, shrunk_square_sum
from polyopt.linalg.rounding import UNIT, Ball, product, strongly_convex_bound, transposed_product
from polyopt.linalg.used_features import UsedFeatures

Positives = Literal["cell", "all"]

_EMPTY = "A face has no samples in its cell: without it the value is lower by its ridge."
_OTHER_CELLS = "Other cells may have a lower optimum."
_NOT_A_FIXED_POINT = (
    "The cells are the given ones; for a fitted machine, those that its faces were fitted to. {count} of {n} "
    "samples have a lower score at another face, by up to {worst:.3g}: not a fixed point. With every "
    "sample in the cell of its least score the loss is {loss:.6g}."
)
_OTHER_RESPONSIBILITIES = "Other responsibilities may have a lower optimum."
_NO_RIDGE = "A bound needs a ridge: without one the optimum need not be attained."
_OTHER_ASSIGNMENT = "Another assignment may have a lower optimum."
_OTHER_SUPPORT = "Other weights held at 0 may have a lower optimum."
# Softness t of the softmax(scores / t) that divides a sample's multiplier between faces of nearly equal
# scores. Each gives a bound, and the largest bound is used.
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
        "cell" if a positive is in the program of its own cell, "all" if it is in the programs of all faces.
    assignment : array_like of int, shape (n,), optional
        The cell of each sample, such as the one that W was fitted to; by default that of W.
    n_faces : int, optional
        Number of faces allowed, at least that of W: the optimum for one face need not be the optimum for
        three. By default the number of faces of W.

    Returns
    -------
    Certificate
        ``stationary`` if every face is optimal for its cell and every sample is in the cell of W;
        ``optimal`` if one face is allowed; else ``suboptimal_by``, for the fixed cells. The note has the
        number of samples that are in another cell than that of W.
    """
    X, y = as_data(X, y)
    check_positives(positives)
    tol, rho = tolerance(tol), positive("ridge", ridge)  # without a ridge there is no bound
    W = checked_faces("W", W, None, X.shape[1] + 1)
    single = (len(W) if n_faces is None else whole("n_faces", n_faces, len(W))) == 1
    costs, s = as_costs(C, len(y)), scores(X, W)
    cell: NDArray[np.int64] = np.argmin(s, axis=1)
    if assignment is not None:
        cell = check_assignment(np.ones(len(y)), len(W), assignment, "sample")
    members = belonging(y, cell, len(W), positives)
    weights = costs[:, None] * members
    lifted = lift(X)
    negative_margins = product(lifted, W.T).signed(-y[:, None])  # −y s
    value = (negative_margins.softplus() * weights).sum() + (0.5 * rho) * Ball(W).square_sum()
    multipliers = negative_margins.logistic() * weights  # c σ(−y s)
    loss_gradient = transposed_product(lifted, multipliers.signed(-y[:, None])).transposed()
    gradient = rho * Ball(W) + loss_gradient
    gradient_scale = float(pull(abs(X), multipliers.mid).max()) or 1.0  # size of the terms that should cancel
    residuals = [residual("stationarity", "W", np.abs(gradient.mid).max(axis=1), gradient_scale)]
    scope, notes = "SPLA1", list[str]()
    if not single:
        # A positive in the programs of all faces has no cell, and no excess.
        cell_scores = np.take_along_axis(s, cell[:, None], axis=1)[:, 0]
        excess = np.where(members.sum(axis=1) > 1, 0.0, cell_scores - s.min(axis=1))
        scale = float(np.abs(s).max()) or 1.0
        residuals.append(residual("stationarity", "cells", excess, scale))
        scope, notes = "the program for fixed cells", [_OTHER_CELLS]
        n_outside = int((excess > tol * scale).sum())
        if n_outside:
            loss, worst = hard_loss(X, y, W, costs, rho, positives), float(excess.max())
            scope = "the program for the cells given"
            notes.append(_NOT_A_FIXED_POINT.format(count=n_outside, n=len(y), worst=worst, loss=loss))
    if not members.any(axis=0).all():
        notes.append(_EMPTY)

    def stated() -> Statement:
        norm = {"kind": "square", "factor": numeral(0.5 * rho)}
        title = "SPLA1 for the cells that are listed"
        return state_faces(title, X, y, W, norm, costs.tolist(), members, multipliers.mid, loss="logistic")

    return conclude(
        f"SPLA1, positives={positives!r}", value, strongly_convex_bound(value, gradient, rho), residuals, tol,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY, scope=scope, notes=notes,
        evidence=[Evidence(stated)],
    )  # fmt: skip


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
        ρ, at least 0; 0 leaves no certificate.
    C : float or array_like of shape (n,)
        Weight per sample.
    responsibilities : array_like of shape (n, K), optional
        Responsibilities of the M-step for which W is certified; rows add up to 1. By default those of W, for
        which the value is L(W).

    Returns
    -------
    Certificate
        ``stationary`` if W is optimal for the responsibilities, and W implies the same responsibilities,
        within `tol`; ``optimal`` instead if W has a single face. Otherwise ``suboptimal_by``, for the M-step
        at these responsibilities. ``none`` without a ridge.
    """
    X, y = as_data(X, y)
    mixture.check_model(gamma, ridge)
    tol, costs = tolerance(tol), as_costs(C, len(y))
    W = checked_faces("W", W, None, X.shape[1] + 1)
    R = R_of_W = mixture.responsibilities(X, y, W, gamma)
    if responsibilities is not None:
        R = checked_faces("responsibilities", responsibilities, len(y), len(W))
        R = mixture.check_responsibilities(R, R_of_W.shape)
        R = R / R.sum(axis=1, keepdims=True)
    loss, loss_gradient = _loss_and_gradient(X, y, W, R, float(gamma), costs)
    value = loss + (0.5 * float(ridge)) * Ball(W).square_sum()
    gradient = float(ridge) * Ball(W) + loss_gradient
    bound = strongly_convex_bound(value, gradient, float(ridge)) if ridge > 0 else Ball(0.0)
    scale = mixture.gradient_scale(X, y, W, R, gamma, costs, ridge)
    residuals = [
        residual("stationarity", f"w(face {k})", entries, scale)
        for k, entries in enumerate(np.abs(gradient.mid))
    ]
    if responsibilities is not None:
        residuals.append(residual("stationarity", "responsibilities", np.abs(R - R_of_W).max(axis=1), 1.0))
    single = len(W) == 1
    stated = partial(state_plume, X, y, W, R, float(gamma), float(ridge), costs)
    return conclude(
        "PLUME", value, bound, residuals, tol,
        feasible=ridge > 0, reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="PLUME" if single else "the M-step at these responsibilities",
        notes=[_NO_RIDGE if ridge == 0 else "" if single else _OTHER_RESPONSIBILITIES],
        evidence=[Evidence(stated)] if ridge > 0 else [],
    )  # fmt: skip


def _loss_and_gradient(
    X: Matrix, y: Vector, W: Vector, R: Vector, sharpness: float, costs: Vector
) -> tuple[Ball, Ball]:
    """Return G(W; R) without its ridge, and its gradient (K, m+1).

    R (n, K) is normalised in double precision; the balls enclose the values for rows whose sum is exactly 1.
    """
    lifted = lift(X)
    s = product(lifted, W.T)
    # The gate's part of G depends on the differences of a sample's scores only, since rows of R add up to 1.
    smallest = s.mid.min(axis=1, keepdims=True)
    exponents = (s - smallest) * -sharpness
    negative_margins = s.signed(-y[:, None])
    # If a row adds up to 1 ± e, division by its sum changes R by at most e R, and −R ln R by e (R − R ln R),
    # to first order in e; the factor 1.01 covers the higher orders.
    row_sums = Ball(R).sum(axis=1)
    sum_error = np.abs(row_sums.mid - 1.0) + row_sums.rad + UNIT
    R_ball = Ball(R, 1.01 * R * sum_error[:, None])
    entropies = entr(R)
    entropy_error = 1.01 * sum_error[:, None] * (entropies + R) + 16 * UNIT * entropies
    terms = (
        exponents.log_sum_exp()
        + (R_ball * (negative_margins.softplus() - exponents)).sum(axis=1)
        - Ball(entropies, entropy_error).sum(axis=1)
    )
    gate_gradient = sharpness * (R_ball - exponents.softmax())
    score_gradient = gate_gradient - (R_ball * negative_margins.logistic()).signed(y[:, None])
    return terms.dot(costs), transposed_product(lifted, score_gradient * costs[:, None]).transposed()


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
        Faces, the bias last: those of class -1, then those of +1; one zero face for a class without faces.
    n_faces : tuple of int
        Numbers of faces of the classes -1 and +1.
    ridge, bias_ridge, l1, group : float
        ρ and η, the ridges of weights and biases, both positive (by default η = ρ/100), λ and τ.
    alpha : array_like of shape (n, K), optional
        Multipliers of the margin constraints, at the faces of the other class; by default computed from W.
    assignment : array_like of int, shape (n,), optional
        The face of each sample, of its own class; by default that with the largest score.
    support : array_like of bool, shape (K, m), optional
        True for weights that may differ from 0; by default all.
    signs : array_like of int, shape (m,), optional
        Sign constraint of the log-odds in each feature, +1, -1 or 0; by default there is none.
    groups : array_like of shape (m,), or sequence of sequences of int, optional
        As in :meth:`formulations.face_penalty.FacePenalty.of`; by default each feature is a group.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for the assignment, and each sample is assigned to its face
        with the largest score, within `tol`; ``optimal`` if there is one assignment and no `support`; else
        ``suboptimal_by``, for the fixed assignment and support.
    """
    X, y = as_data(X, y)
    tol, owners = tolerance(tol), Owners(*n_faces)
    rho = positive("ridge", ridge)
    penalty = FacePenalty.of(X.shape[1], l1=l1, group=group, signs=signs, groups=groups)
    eta = BIAS_RIDGE * rho if bias_ridge is None else positive("bias_ridge", bias_ridge)
    W = checked_faces("W", W, owners.count, X.shape[1] + 1)
    if W[~owners.free].any():
        raise ValueError("W must be 0 at the face of a class without faces")
    free = np.column_stack([owners.support(X.shape[1], support), owners.free])
    if W[~free].any():
        raise ValueError("W must be 0 where support is False: these weights are held at 0")
    required_signs = owners.required_signs(penalty.signs)
    if (required_signs * W[:, :-1] < 0).any():
        raise ValueError("W must keep the signs: faces of class +1 those given, faces of class -1 the others")
    costs, other_class = as_costs(C, len(y)), owners.other_class(y)
    statement = partial(
        state_logistic_polytopes, X, y, W, owners, free, required_signs, (rho, eta, penalty), costs
    )
    # Features without entries and weights contribute 0 to everything below.
    used = UsedFeatures.of(X, W)
    X, W, free = used.samples(X), used.faces(W), used.faces(free)
    penalty = penalty.of_features(used.columns)
    lifted, ridges = lift(X), np.append(np.full(X.shape[1], rho), eta)
    s = product(lifted, W.T)
    Z = owners.assignment_matrix(
        y, natural_assignment(y, s.mid, owners) if assignment is None else assignment
    )
    z = Z.argmax(axis=1)
    best_other = Ball(np.where(other_class, s.mid, -np.inf), np.where(other_class, s.rad, 0.0)).max(axis=1)
    xi = best_other - s[np.arange(len(y)), z]
    squares = 0.5 * rho * Ball(W[:, :-1]).square_sum() + 0.5 * eta * Ball(W[:, -1]).square_sum()
    value = (xi.softplus() * costs).sum() + squares + penalty_value(penalty, W)
    residuals: list[Residual] = []
    if alpha is None:
        totals = (costs * expit(xi.mid))[:, None]  # Σ_k alpha_ik of an optimal alpha
        other_scores = np.where(other_class, s.mid, -np.inf)
        candidates = [totals * softmax(other_scores / t, axis=1) for t in _TIE_SOFTNESS]
    else:
        alpha = np.where(other_class, real_array("alpha", alpha, other_class.shape), 0.0)
        residuals = [residual("sign", "alpha", -alpha.min(axis=1), 1.0)]
        candidates = [np.maximum(alpha, 0.0)]

    def bound_at(alpha: Vector) -> tuple[Ball, Ball, float]:
        """Return the bound at alpha (n, K), its gradients, and the largest sum of their absolute terms.

        The gradients (m+1, K) are the columns (q_k, r_k), and 0 for weights that `free` holds at 0. Columns
        of class -1 have the sign changed, since the signs of `penalty` are those of the log-odds.
        """
        alpha = within_shared_caps(alpha, costs)
        total = Ball(alpha).sum(axis=1)
        net = (Z * Ball(total.mid[:, None], total.rad[:, None]) - alpha).signed(owners.free.astype(float))
        gradients = transposed_product(lifted, net).signed(owners.classes * free.T)
        weights = gradients.signed(np.append(np.ones(X.shape[1]), 0.0)[:, None])  # q, with 0 in place of r
        norms = shrunk_square_sum(penalty, weights) * (1.0 / rho) + gradients[-1].square_sum() * (1.0 / eta)
        norms = Ball(0.5 * norms.mid, 0.5 * norms.rad + 2.0 * UNIT * norms.mid)  # rounding of the divisions
        bound = _entropy(total, costs) - norms
        scale = float(pull(abs(X), np.abs(net.mid)).max()) or 1.0
        return (Ball(0.0) if not bound.lower > 0.0 else bound), gradients, scale

    bounds = [bound_at(candidate) for candidate in candidates]
    best = int(np.argmax([float(bound.lower) for bound, _, _ in bounds]))
    bound, gradients, gradient_scale = bounds[best]
    # Stationarity: ρ w_k = shrunk q_k and η b_k = r_k, both sides with the sign changed for class -1.
    error = ridges * W * owners.classes[:, None] - penalty.shrunk(gradients.mid.T)
    residuals.append(residual("stationarity", "W", np.abs(error * free).max(axis=1), gradient_scale))
    single = max(owners.minus, owners.plus) <= 1
    if not single:
        shortfall = np.where(other_class, -np.inf, s.mid).max(axis=1) - s.mid[np.arange(len(y)), z]
        score_scale = float(np.abs(s.mid).max()) or 1.0
        residuals.append(residual("stationarity", "assignment", shortfall, score_scale))
    name = "logistic polytopes"
    return conclude(
        name, value, bound, residuals, tol, evidence=[Evidence(partial(statement, z, candidates[best]))],
        reached=Claim.OPTIMAL if single and support is None else Claim.STATIONARY,
        scope=name if single else "the fixed-assignment program",
        notes=["" if single else _OTHER_ASSIGNMENT, "" if support is None else _OTHER_SUPPORT],
    )  # fmt: skip


def _entropy(total: Ball, costs: Vector) -> Ball:
    """Return a lower bound of Σ C_i H(p_i), p_i = total_i / C_i.

    The concave H attains its minimum over the interval of p_i at an end point.
    """
    weight = np.where(costs > 0.0, costs, 1.0)
    low = np.clip(np.nextafter(total.lower / weight * (1.0 - 4 * UNIT), 0.0), 0.0, 1.0)
    high = np.clip(np.nextafter(total.upper / weight * (1.0 + 4 * UNIT), 2.0), 0.0, 1.0)
    smallest = np.minimum(*(entr(p) + entr(1.0 - p) for p in (low, high)))
    return (Ball(smallest, 8 * UNIT * (smallest + 1.0)) * costs).sum()


def state_plume(
    X: Matrix, y: Vector, W: Vector, R: Vector, gamma: float, ridge: float, costs: Vector
) -> Statement:
    """State PLUME's M-step for faces W (K, m+1) and responsibilities R (n, K), for a claim file.

    With costs C (n,) the objective is G(W; R): the ridge, a constant, and the losses of 2K + 1 families,

        "gate"      C γ · (1/γ) ln Σ_k exp(−γ s_k)
        "face k"    C γ R_k s_k
        "expert k"  C R_k ln(1 + exp(−y s_k)).

    The constant is minus the weighted entropy of R. If γ = 0, only the experts are families, and the gate
    adds the constant Σ C ln K.
    """
    s, n, K = scores(X, W), len(y), len(W)
    weights = [Fraction(c) for c in costs.tolist()]
    constant = -float(costs @ entr(R).sum(axis=1))
    rows: list[dict[str, Any]] = []
    multipliers = {}
    for k in range(K):
        shares = [c * Fraction(r) for c, r in zip(weights, R[:, k].tolist(), strict=True)]
        rows.append(family_of(f"expert {k}", "label", "logistic", shares) | {"at": k})
        multipliers[f"expert {k}"] = np.zeros((K, n))
        multipliers[f"expert {k}"][k] = costs * R[:, k] * expit(-y * s[:, k])
        if gamma:
            face_weights = [Fraction(gamma) * share for share in shares]
            rows.append(family_of(f"face {k}", -1, "linear", face_weights) | {"at": k})
            # Zeros: making the multipliers feasible raises those of a linear loss to their caps.
            multipliers[f"face {k}"] = np.zeros((K, n))
    if gamma:
        gate_weights = [Fraction(gamma) * c for c in weights]
        rows.append(family_of("gate", 1, "linear", gate_weights) | {"pays": "soft", "sharp": numeral(gamma)})
        multipliers["gate"] = (gamma * costs[:, None] * softmax(-gamma * s, axis=1)).T
    else:
        constant += float(costs.sum() * np.log(K))
    size = {"kind": "square", "factor": numeral(0.5 * ridge)}
    program = {**program_of(size, K, rows), "constant": numeral(constant)}
    return Statement("PLUME's M-step at its responsibilities", X, y, program, W, [], multipliers)


def state_logistic_polytopes(
    X: Matrix, y: Vector, W: Vector, owners: Owners, free: NDArray[np.bool_], required_signs: Vector,
    penalties: tuple[float, float, FacePenalty], costs: Vector, assignment: NDArray[np.int64], alpha: Vector,
) -> Statement:  # fmt: skip
    """State logistic polytopes W (K, m+1) for an assignment (n,) and multipliers alpha (n, K).

    free (K, m+1): True for entries that may differ from 0.
    required_signs (K, m): sign constraints of the weights, 0 without one.
    penalties: ρ, η, and the penalty of weights, whose signs are ignored.
    """
    rho, eta = (Fraction(ridge) for ridge in penalties[:2])
    penalty = replace(penalties[2], signs=0 * penalties[2].signs)
    m = X.shape[1]
    other_faces = {label: np.flatnonzero(owners.classes == -label).tolist() for label in (-1.0, 1.0)}
    factor = [numerals([rho / 2] * m + [eta / 2])] * len(W)
    size = add_penalty({"kind": "square", "factor": factor}, penalty, len(W))
    if not free.all() or required_signs.any():
        signed = np.column_stack([required_signs, np.zeros(len(W))])
        may_be_negative, may_be_positive = free & (signed <= 0), free & (signed >= 0)
        size["low"] = [["-inf" if may else 0 for may in face] for face in may_be_negative.tolist()]
        size["high"] = [["inf" if may else 0 for may in face] for face in may_be_positive.tolist()]
    row = family_of("margin", -1, "logistic", [Fraction(c) for c in costs.tolist()])
    row |= {"pays": "worst", "at": [other_faces[label] for label in y.tolist()], "less": assignment.tolist()}
    program, title = program_of(size, len(W), [row]), "logistic polytopes for their assignment"
    return Statement(title, X, y, program, W, [], {"margin": alpha.T})
