"""Certificates of the Convex Polytope Machine.

For a fixed assignment the machine is a convex program, and its optimum can be bounded; over the
assignments it is not convex, and nothing here bounds that. A point is called ``stationary`` when it
is optimal for its assignment and no positive sample would gain by another face: a fixed point of
alternating minimisation, and no more. One face alone has one assignment, so it can be ``optimal``.

With loss="sum" the faces are independent hinge programs without intercept on x̃ = (x, 1), each twice
the SVM of cost C/2: values and violations are doubled here. With loss="max" the faces share each
negative's slack, and its multipliers must add up to C_i at most; with margin="worst" they share the
margin budget, and nothing else is different.

A bound on all assignments that a caller hands in is shown as a solver's word. That of this package's own
branch and bound (:mod:`polyopt.cpm.global_search.search`) is a proof, each of its bounds lowered by its
rounding: :func:`certify_cpm_search` takes it, and the certificate says what it rests on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.families import Families, margin_family
from formulations.language.arguments import real_number, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.polytope import answers, check_loss, lift, natural_assignment
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude
from polyopt.certificates.claims.statement import Evidence
from polyopt.certificates.given import checked_faces
from polyopt.cpm.claim import state_cpm
from polyopt.cpm.penalty_term import checked_penalty, sign_residuals
from polyopt.cpm.point import (
    CpmPoint,
    assignment_residual,
    bound_of,
    check_coupled,
    check_margin,
    implied_faces,
    pulls,
)
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import certify_hinge
from polyopt.margin.dual_ascent import ascend
from polyopt.margin.geometry import LinearGeometry
from polyopt.margin.hinge_program import HingeProgram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.face_penalty import FacePenalty
    from formulations.language.solution import Solution
    from formulations.language.types import MatrixLike, Vector
    from formulations.polytope import Loss
    from polyopt.cpm.point import Margin

__all__ = ["certify_cpm", "certify_cpm_held", "certify_cpm_search", "check_faces"]

_NAME = "the Convex Polytope Machine"
_MAX_GRADIENT_ENTRIES = 500_000  # of X; above, the bound is sought one multiplier at a time
_STATED = "The bound on all assignments is the word of whoever handed it in; 0 alone is proven."
_SEARCHED = (
    "The bound is that of this package's own branch and bound over all assignments, by trial moves or by the "
    "spread of the faces, each of its bounds lowered by the rounding of its evaluation; it is not computed "
    "anew here."
)
_PRICED = (
    "The bound is one at prices of the positives (duals['price'] of the solution): K times the least cost of "
    "one face at these prices, bounded over boxes of its coefficients, less what the prices count too often, "
    "and lowered by its rounding; it is not computed anew here."
)
_BY_SCIP = (
    "The bound on all assignments is the word of SCIP, for the mixed-integer program; 0 alone is proven."
)
_HELD = "the Convex Polytope Machine for the assignment that is held"
_MOVES = "At these faces a sample outside would pay less at another face, so another assignment costs less."
_STAYS = "No sample outside would pay less at another face, yet another assignment may have a lower optimum."


def certify_cpm(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    *,
    W: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    assignment: ArrayLike | None = None,
    loss: Loss = "sum",
    margin: Margin = "total",
    global_bound: float | None = None,
    penalty: FacePenalty | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of the Convex Polytope Machine, eq. (6) of Kantchelian et al. (2014).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        The training data.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    W : array_like of shape (K, m+1), optional
        Faces, the bias last. By default what `alpha` implies.
    alpha : array_like of shape (n, K), optional
        Multipliers of the margin rows, non-negative. At least one of `W` and `alpha` is needed;
        without `alpha` a dual bound is built.
    assignment : array_like of int, shape (n,), optional
        The face of each positive; the entries of negatives are ignored. By default the one whose
        multiplier holds it or, where none does, the best for W.
    loss : {"sum", "max"}
        Whether a negative pays for every face it violates, or for the worst.
    margin : {"total", "worst"}
        Whether the squared norms of all faces are paid for, or the largest.
    global_bound : float, optional
        A bound on the optimum over all assignments that somebody states; for loss="sum" and margin="total",
        without a price.
    penalty : FacePenalty, optional
        The price of the weights, and their signs (:mod:`formulations.cpm_sparse`). Faces with a weight of the
        wrong sign are valued without it.
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Ascent steps spent on the bound of each face when `alpha` is absent and X is not large.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignment and its assignment for it, within
        `tol`; with one face then ``optimal``. Otherwise ``suboptimal_by``, within the fixed
        assignment. With `global_bound` the point is held to that instead: ``solvers_word`` where it is
        attained, as nothing here proves it.

    Raises
    ------
    ValueError
        `global_bound` is above the value of the point, or of the one that `alpha` implies: then it
        bounds another program, or is wrong. Anything given that is not finite, real and of its shape.
    """
    point, certificate = _certified(
        X, y, C, W=W, alpha=alpha, assignment=assignment, loss=loss, margin=margin, tol=tol,
        max_iter=max_iter, penalty=penalty,
    )  # fmt: skip
    if global_bound is None:
        return certificate
    if (loss, margin) != ("sum", "total") or point.penalty is not None:
        raise ValueError(
            "global_bound is for loss='sum' and margin='total' without a price, which the search minimises"
        )
    bound = real_number("global_bound", global_bound, infinite=True)
    with np.errstate(over="ignore", invalid="ignore"):
        value = point.value_of_best_assignment()
        least = float(value.upper)
        if point.alpha is not None:
            W = implied_faces(pulls(point.geometry, point.y, point.alpha), "total")
            other = CpmPoint(point.geometry, point.y, point.C, point.Z, W, None, True)
            least = min(least, float(other.value_of_best_assignment().upper))
    if bound > least:
        raise ValueError(
            f"global_bound must be at most {least:.10g}, which a point at hand attains, not {bound!r}: "
            "a bound on another program (other data, C or n_faces), or a wrong one"
        )
    return conclude(
        _NAME, value, Ball(0.0), certificate.residuals, certificate.tol, notes=[_STATED], stated=bound
    )


def certify_cpm_search(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, found: Solution, tol: float = 1e-6, *, loss: Loss = "sum",
    margin: Margin = "total",
) -> Certificate:  # fmt: skip
    """Certify what a search over all assignments found.

    found: what :func:`~polyopt.cpm.global_search.search.solve_cpm_global` returned for these data: its point,
        its multipliers and its bound, which is safe from rounding. With loss="max" or margin="worst" what
        :func:`~polyopt.cpm.global_search.explicit.solve_cpm_explicitly` returned, whose bound is SCIP's.
    Returns: ``optimal`` among all assignments if the point attains the bound, ``solvers_word`` if the bound
        is SCIP's, else ``suboptimal_by``.
    """
    point, certificate = _certified(
        X, y, C, W=found["W"], alpha=found.duals["margin"], assignment=found["assignment"], tol=tol,
        loss=loss, margin=margin,
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        value = point.value_of_best_assignment(loss, margin)
    if (loss, margin) != ("sum", "total"):
        return conclude(
            _NAME, value, Ball(0.0), certificate.residuals, certificate.tol, notes=[_BY_SCIP],
            stated=found.bound,
        )  # fmt: skip
    note = _PRICED if "price" in found.duals else _SEARCHED
    bound = float(found.bound or 0.0)
    return conclude(_NAME, value, bound, certificate.residuals, certificate.tol, notes=[note])


def certify_cpm_held(X: MatrixLike, y: ArrayLike, C: ArrayLike, **given: Any) -> Certificate:
    """Certify faces for an assignment that somebody holds.

    The program of :mod:`formulations.cpm` for this assignment is convex, so its optimum can be attained,
    whether samples would gain by another face or not: a note says whether any would.

    Returns: ``optimal`` for this assignment where its bound is attained, else ``suboptimal_by``.
    """
    whole = certify_cpm(X, y, C, **given)
    moving = [one for one in whole.residuals if one.row == "assignment"]
    if not moving:  # one face has one assignment
        return whole
    others = [one for one in whole.residuals if one.row != "assignment"]
    held = conclude(
        _HELD, whole.primal_value, whole.dual_value, others, whole.tol,
        notes=[_MOVES if moving[0].relative > whole.tol else _STAYS],
    )  # fmt: skip
    return replace(held, rounding=whole.rounding, evidence=whole.evidence)


@np.errstate(over="ignore", invalid="ignore")
def _certified(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, *, W: ArrayLike | None = None,
    alpha: ArrayLike | None = None, assignment: ArrayLike | None = None, loss: Loss = "sum",
    margin: Margin = "total", tol: float = 1e-6, max_iter: int = 2000, penalty: FacePenalty | None = None,
) -> tuple[CpmPoint, Certificate]:  # fmt: skip
    """The point, and its certificate within the fixed assignment."""
    X, y = as_data(X, y)
    check_loss(loss)
    check_margin(margin)
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    tol, max_iter = tolerance(tol), whole("max_iter", max_iter, 0)
    n, m = X.shape
    penalty = checked_penalty(penalty, m)
    geometry = LinearGeometry(lift(X))
    given = None if alpha is None else checked_faces("alpha", alpha, n, None)
    implied = W is None
    if W is None:
        assert given is not None
        W = implied_faces(pulls(geometry, y, given), margin, penalty)
    W = checked_faces("W", W, None if given is None else given.shape[1], m + 1)
    asked, W = W, W if penalty is None else penalty.allowed(W)
    costs = as_costs(C, n)
    if assignment is None:
        assignment = natural_assignment(X, y, W)
        if given is not None:
            assignment = np.where(given.max(axis=1) > tol * costs, given.argmax(axis=1), assignment)
    point = CpmPoint(geometry, y, costs, answers(y, len(W), assignment), W, given, implied, penalty)
    residuals: list[Residual] = []
    primal_value, used = point.value(loss, margin), given
    if used is None:
        if margin == "worst" or (loss == "max" and penalty is not None):
            used = _multipliers_by_program(point, loss, margin)
        else:
            used = _multipliers_by_ascent(point, loss, tol, max_iter)
        dual_value = bound_of(point, used, loss, margin)
    elif loss == "sum" and margin == "total" and penalty is None:
        dual_value, residuals = check_faces(point, used, tol)
    else:
        dual_value, residuals = check_coupled(point, used, loss, margin)
    if penalty is not None:
        residuals += sign_residuals(penalty, asked, W)
    single = len(W) == 1
    if not single:
        residuals.append(assignment_residual(point))
    certificate = conclude(
        f"{_NAME}, loss={loss!r}"
        + (", margin='worst'" if margin == "worst" else "")
        + ("" if penalty is None else ", with a price on the weights"),
        primal_value,
        dual_value,
        residuals,
        tol,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope=_NAME if single else "the fixed-assignment program",
        notes=[] if single else ["Another assignment may have a lower optimum."],
    )
    stated = partial(state_cpm, point, used, loss, margin)
    return point, replace(certificate, evidence=(Evidence(stated),))


def check_faces(point: CpmPoint, alpha: Vector, tol: float) -> tuple[Ball, list[Residual]]:
    """The bound of all faces, and the conditions of one hinge program per face."""
    residuals: list[Residual] = []
    for k, (w, costs) in enumerate(zip(point.W, point.costs.T, strict=True)):
        v = None if point.implied else w
        mine = {"margin": alpha[:, k] / 2}
        certificate = certify_hinge(_face(point, costs), v=v, multipliers=mine, tol=tol)
        residuals += [replace(r, row=f"{r.row}(face {k})", value=2 * r.value) for r in certificate.residuals]
    return bound_of(point, alpha, "sum", "total"), residuals


def _multipliers_by_ascent(point: CpmPoint, loss: Loss, tol: float, max_iter: int) -> Vector:
    """The multipliers that ascent on the dual of each face finds.

    With loss="max" the faces are made independent: the largest hinge of a negative is at least any
    weighted mean of its hinges, so its cost may be split between the faces, here between those that
    it violates most.
    """
    parts, hinge = point.Z, point.hinge
    if loss == "max":
        worst = hinge >= hinge.max(axis=1, keepdims=True) - 1e-6
        parts = np.where((point.y < 0)[:, None], worst / worst.sum(axis=1, keepdims=True), point.Z)
    X, costs = point.geometry.X, point.C[:, None] * parts
    is_large = X.shape[0] * X.shape[1] > _MAX_GRADIENT_ENTRIES
    if point.penalty is not None:
        from polyopt.cpm.penalised_face_dual import ShrunkAscent

        ascent = ShrunkAscent(X[:, :-1], point.y, costs, point.penalty)
        ascent.begin_at(point.W)
        ascent.reach(max(tol, 1e-4) if is_large else tol)
        return ascent.alpha
    if is_large:
        from polyopt.optim.coordinate_ascent import climb

        return climb(
            X[:, :-1],
            point.y,
            costs if loss == "max" else point.C,
            len(point.W),
            point.Z.argmax(axis=1),
            float(point.value(loss).mid),
            tol,
        )
    return _climbed_faces(point, costs, tol, max_iter)


def _climbed_faces(point: CpmPoint, costs: Vector, tol: float, max_iter: int) -> Vector:
    """Multipliers (n, K) that ascent on the dual of each face finds, for costs (n, K)."""
    X, alpha = point.geometry.X, np.zeros_like(costs)
    # Half of a face's program is a hinge program: ½‖w‖² + Σ (c/2) ξ.
    values = 0.5 * (np.einsum("kj,kj->k", point.W, point.W) + (costs * point.hinge).sum(axis=0))
    done: dict[bytes, int] = {}
    for k in np.argsort(values, kind="stable").tolist():  # of the faces of one program the best is first
        first = done.setdefault(costs[:, k].tobytes(), k)
        if first == k:
            w = point.W[k]
            dual = ascend(_face(point, costs[:, k]), w, np.asarray(X @ w), float(values[k]), tol, max_iter)
            alpha[:, k] = 2.0 * dual[0]
        else:  # neither answers for anybody
            alpha[:, k] = alpha[:, first]
    return alpha


def _multipliers_by_program(point: CpmPoint, loss: Loss, margin: Margin) -> Vector:
    """The dual program's solution; the coupled faces leave no simpler way."""
    from formulations import cpm, cpm_sparse

    X, y, Z = point.geometry.X[:, :-1], point.y, point.Z
    arguments = (X, y, len(point.W), Z.argmax(axis=1), point.C, loss)
    if point.penalty is None:
        found = cpm.fixed_assignment_dual(*arguments, margin).solve()
    else:
        found = cpm_sparse.fixed_assignment_dual(*arguments, margin, penalty=point.penalty).solve()
    return found["alpha"] if found.primal else np.zeros_like(Z)


def _face(point: CpmPoint, costs: Vector) -> HingeProgram:
    rows = Families(margin_family(point.y, costs / 2))
    return HingeProgram("a face", point.geometry, rows, intercept=False)
