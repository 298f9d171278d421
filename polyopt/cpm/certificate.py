"""Certificates of the Convex Polytope Machine.

For a fixed assignment the machine is a convex program, and its optimum can be bounded; over the assignments
it is not convex, and only a global search bounds that. A point is called ``stationary`` if it is optimal for
its assignment and no positive would gain by another face: a fixed point of alternating minimisation, and no
more. One face has one assignment, so it can be ``optimal``.

With v_k = Σ_i α_ik y_i x̃_i the dual value for an assignment is

    margin="total"   Σ α − ¼ Σ_k ‖v_k‖²
    margin="worst"   Σ α − ¼ (Σ_k ‖v_k‖)²,   with the shares θ_k = ‖v_k‖ / Σ_l ‖v_l‖,

at any α within its caps; stationary is 2 θ_k W_k = v_k, with θ_k = 1 for the total. With loss="max" a
negative has one slack for all faces, so its multipliers must sum to at most C_i. With a penalty
(:mod:`formulations.cpm_sparse`) v_k is replaced by what the penalty leaves of it
(:mod:`polyopt.cpm.penalty_term`). With loss="sum", margin="total" and no penalty the faces are independent
hinge programs without intercept on x̃ = (x, 1), each twice the SVM of cost C/2: values and violations are
doubled here.

Values and bounds are balls (:mod:`polyopt.linalg.rounding`), whose ends are true of real numbers.

A bound on all assignments that a caller passes is shown as a solver's word. That of this package's own branch
and bound (:mod:`polyopt.cpm.global_search.search`) is a proof, each of its bounds lowered by its rounding:
:func:`certify_cpm_search` takes it, and the certificate says what it rests on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from formulations.face_penalty import FacePenalty
from formulations.families import Families, margin_family
from formulations.language.arguments import one_of, real_number, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import assignment_matrix, check_loss, lift, margin_weights, natural_assignment
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, relative_gap, residual
from polyopt.certificates.claims.statement import Evidence, Statement
from polyopt.certificates.points import checked_faces, within_shared_caps
from polyopt.cpm.claim import add_penalty, state_faces
from polyopt.cpm.penalty_term import (
    checked_penalty,
    choose_group_multipliers,
    penalty_value,
    root,
    shrunk_square_sum,
    sign_residuals,
)
from polyopt.linalg.rounding import Ball, product, transposed_product
from polyopt.linalg.rows import as_rows
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.geometry import LinearGeometry

Loss = Literal["sum", "max"]
Margin = Literal["total", "worst"]

_NAME = "the Convex Polytope Machine"
_LARGE_ENTRIES = 500_000  # of X; above, a bound without given multipliers is sought with less effort
_LARGE_ROUNDS = 30  # of the ascent for it
_MOVES = "At these faces a sample outside would pay less at another face, so another assignment costs less."
_STAYS = "No sample outside would pay less at another face, yet another assignment may have a lower optimum."

# -- public -----------------------------------------------------------------------------------


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
    max_iter: int = 300,
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
        multiplier is positive or, if none is, the best for W.
    loss : {"sum", "max"}
        Whether a negative pays for every face it violates, or for the worst.
    margin : {"total", "worst"}
        Whether the squared norms of all faces are penalised, or the largest.
    global_bound : float, optional
        A bound on the optimum over all assignments from elsewhere; for loss="sum" and margin="total",
        without a penalty.
    penalty : FacePenalty, optional
        The penalty on the weights, and their signs (:mod:`formulations.cpm_sparse`). Faces with a weight of
        the wrong sign are valued without it.
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Rounds of coordinate ascent at most for the bound, if `alpha` is absent.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignment and its assignment for it, within
        `tol`; with one face then ``optimal``. Otherwise ``suboptimal_by``, within the fixed
        assignment. With `global_bound` the point is compared with that instead: ``solvers_word`` if it is
        attained, as nothing here proves it.

    Raises
    ------
    ValueError
        `global_bound` is above the value of the point, or of the one that `alpha` implies: then it
        bounds another program, or is wrong. An argument that is not finite, real and of its shape.
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
        attained = float(value.upper)
        if point.alpha is not None:
            W = implied_faces(pulls(point.geometry, point.y, point.alpha), "total")
            attained = min(attained, float(replace(point, W=W, alpha=None).value_of_best_assignment().upper))
    if bound > attained:
        raise ValueError(
            f"global_bound must be at most {attained:.10g}, which a point at hand attains, not {bound!r}: "
            "a bound on another program (other data, C or n_faces), or a wrong one"
        )
    note = "The bound on all assignments is the word of whoever handed it in; 0 alone is proven."
    return conclude(
        _NAME, value, Ball(0.0), certificate.residuals, certificate.tol, notes=[note], stated=bound
    )


def certify_cpm_search(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, solution: Solution, tol: float = 1e-6, *, loss: Loss = "sum",
    margin: Margin = "total",
) -> Certificate:  # fmt: skip
    """Certify the solution of a search over all assignments.

    solution: that of :func:`~polyopt.cpm.global_search.search.solve_cpm_global` for these data, whose bound
        is safe from rounding. With loss="max" or margin="worst" that of
        :func:`~polyopt.cpm.global_search.explicit.solve_cpm_explicitly`, whose bound is SCIP's.
    Returns: ``optimal`` among all assignments if the point attains the bound, ``solvers_word`` if the bound
        is SCIP's, else ``suboptimal_by``.
    """
    point, certificate = _certified(
        X, y, C, W=solution["W"], alpha=solution.duals["margin"], assignment=solution["assignment"], tol=tol,
        loss=loss, margin=margin,
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        value = point.value_of_best_assignment(loss, margin)
    bound, stated = Ball(float(solution.bound or 0.0)), None
    note = (
        "The bound is that of this package's own branch and bound over all assignments, by trial moves or by "
        "the spread of the faces, each of its bounds lowered by the rounding of its evaluation; it is not "
        "computed anew here."
    )
    if (loss, margin) != ("sum", "total"):
        bound, stated = Ball(0.0), solution.bound
        note = (
            "The bound on all assignments is the word of SCIP, for the mixed-integer program; 0 alone is "
            "proven."
        )
    elif "price" in solution.duals:
        note = (
            "The bound is one at prices of the positives (duals['price'] of the solution): K times the least "
            "cost of one face at these prices, bounded over boxes of its coefficients, less what the prices "
            "count too often, and lowered by its rounding; it is not computed anew here."
        )
    return conclude(_NAME, value, bound, certificate.residuals, certificate.tol, notes=[note], stated=stated)


def certify_cpm_held(X: MatrixLike, y: ArrayLike, C: ArrayLike, **arguments: Any) -> Certificate:
    """Certify faces for an assignment that is held.

    The program of :mod:`formulations.cpm` for this assignment is convex, so its optimum can be attained,
    whether samples would gain by another face or not: a note says whether any would.

    Returns: ``optimal`` for this assignment if its bound is attained, else ``suboptimal_by``.
    """
    certificate = certify_cpm(X, y, C, **arguments)
    assignment = [one for one in certificate.residuals if one.row == "assignment"]
    if not assignment:  # one face has one assignment
        return certificate
    note = _MOVES if assignment[0].relative > certificate.tol else _STAYS
    fixed = conclude(
        f"{_NAME} for the assignment that is held", certificate.primal_value, certificate.dual_value,
        [one for one in certificate.residuals if one.row != "assignment"], certificate.tol, notes=[note],
    )  # fmt: skip
    return replace(fixed, rounding=certificate.rounding, evidence=certificate.evidence)


@np.errstate(over="ignore", invalid="ignore")
def _certified(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, *, W: ArrayLike | None = None,
    alpha: ArrayLike | None = None, assignment: ArrayLike | None = None, loss: Loss = "sum",
    margin: Margin = "total", tol: float = 1e-6, max_iter: int = 300, penalty: FacePenalty | None = None,
) -> tuple[CpmPoint, Certificate]:  # fmt: skip
    """Return the point, and its certificate within the fixed assignment."""
    X, y = as_data(X, y)
    check_loss(loss)
    one_of("margin", margin, ("total", "worst"))
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    tol, max_iter = tolerance(tol), whole("max_iter", max_iter, 0)
    n, m = X.shape
    penalty = checked_penalty(penalty, m)
    geometry = LinearGeometry(lift(X))
    multipliers = None if alpha is None else checked_faces("alpha", alpha, n, None)
    implied = W is None
    if W is None:
        assert multipliers is not None
        W = implied_faces(pulls(geometry, y, multipliers), margin, penalty)
    W = checked_faces("W", W, None if multipliers is None else multipliers.shape[1], m + 1)
    W_before_signs, W = W, W if penalty is None else penalty.allowed(W)
    costs = as_costs(C, n)
    if assignment is None:
        assignment = natural_assignment(X, y, W)
        if multipliers is not None:
            has_multiplier = multipliers.max(axis=1) > tol * costs
            assignment = np.where(has_multiplier, multipliers.argmax(axis=1), assignment)
    Z = assignment_matrix(y, len(W), assignment)
    point = CpmPoint(geometry, y, costs, Z, W, multipliers, implied, penalty)
    alpha_used = _multipliers(point, loss, margin, tol, max_iter) if multipliers is None else multipliers
    dual_value, residuals = bound_of(point, alpha_used, loss, margin), list[Residual]()
    if multipliers is not None and (loss, margin, penalty) == ("sum", "total", None):
        residuals = face_residuals(point, alpha_used, tol)
    elif multipliers is not None:
        residuals = coupled_residuals(point, alpha_used, loss, margin)
    if penalty is not None:
        residuals += sign_residuals(penalty, W_before_signs, W)
    name = f"{_NAME}, loss={loss!r}" + (", margin='worst'" if margin == "worst" else "")
    name += "" if penalty is None else ", with a price on the weights"
    certificate = conclude_for_assignment(
        len(W), assignment_residual(point), name, point.value(loss, margin), dual_value, residuals, tol,
        _NAME if len(W) == 1 else "the fixed-assignment program",
    )  # fmt: skip
    evidence = Evidence(partial(state_cpm, point, alpha_used, loss, margin))
    return point, replace(certificate, evidence=(evidence,))


def conclude_for_assignment(
    n_faces: int, assignment: Residual, name: str, value: Ball, bound: Ball, residuals: list[Residual],
    tol: float, scope: str, notes: Sequence[str] = (), feasible: bool = True,
) -> Certificate:  # fmt: skip
    """Conclude about faces and their assignment: ``optimal`` can be reached by one face only."""
    if n_faces == 1:
        return conclude(
            name, value, bound, residuals, tol, reached=Claim.OPTIMAL, scope=scope, notes=notes,
            feasible=feasible,
        )  # fmt: skip
    return conclude(
        name, value, bound, [*residuals, assignment], tol, reached=Claim.STATIONARY,
        scope=scope, notes=[*notes, "Another assignment may have a lower optimum."], feasible=feasible,
    )  # fmt: skip


# -- the point and its value ------------------------------------------------------------------


@dataclass(frozen=True)
class CpmPoint:
    """A point to certify, with its data: W (K, m+1), alpha (n, K) or None, Z (n, K).

    `implied` is True if W was computed from alpha.
    """

    geometry: LinearGeometry
    y: Vector
    C: Vector
    Z: Vector
    W: Vector
    alpha: Vector | None
    implied: bool
    penalty: FacePenalty | None = None

    @cached_property
    def hinge_ball(self) -> Ball:
        """[1 − y_i W_k·x̃_i]_+, shape (n, K)."""
        return (1.0 - product(self.geometry.X, self.W.T).signed(self.y[:, None])).positive()

    @property
    def hinge(self) -> Vector:
        """[1 − y_i W_k·x̃_i]_+ as computed, shape (n, K)."""
        return self.hinge_ball.mid

    @property
    def costs(self) -> Vector:
        """C_i Z_ik, shape (n, K)."""
        return self.C[:, None] * self.Z

    def value(self, loss: Loss, margin: Margin = "total") -> Ball:
        """Return the objective for the assignment."""
        hinge = self.hinge_ball.signed(self.Z)
        paid = hinge.sum(axis=1)
        if loss == "max":
            shared, worst = self.y < 0, hinge.max(axis=1)
            paid = Ball(np.where(shared, worst.mid, paid.mid), np.where(shared, worst.rad, paid.rad))
        return self._size(margin) + paid.dot(self.C)

    def value_of_best_assignment(self, loss: Loss = "sum", margin: Margin = "total") -> Ball:
        """Return the objective with each positive at the face with its least hinge."""
        hinge, positive = self.hinge_ball, self.y > 0
        smallest, total = -((-hinge).max(axis=1)), hinge.sum(axis=1) if loss == "sum" else hinge.max(axis=1)
        paid = Ball(np.where(positive, smallest.mid, total.mid), np.where(positive, smallest.rad, total.rad))
        return self._size(margin) + paid.dot(self.C)

    def _size(self, margin: Margin) -> Ball:
        squares = Ball(self.W).square_sum(axis=1)
        size = squares.sum() if margin == "total" else squares.max()
        return size if self.penalty is None else size + penalty_value(self.penalty, self.W)


# -- the bound --------------------------------------------------------------------------------


def pulls(geometry: LinearGeometry, y: Vector, alpha: Vector) -> Vector:
    """Return v_k = Σ_i α_ik y_i x̃_i for every face, shape (K, m+1)."""
    return np.asarray(geometry.X.T @ (alpha * y[:, None])).T


def implied_faces(v: Vector, margin: Margin, penalty: FacePenalty | None = None) -> Vector:
    """Return the faces (K, m+1) that belong to v (K, m+1); 0 if a face's share of the worst margin is."""
    if penalty is not None:
        v = penalty.shrunk(v) if margin == "total" else penalty.cut(v)
    if margin == "worst":
        theta = margin_weights(v)[:, None]
        v = np.divide(v, theta, out=np.zeros_like(v), where=theta > 0)
    return 0.5 * v


def bound_of(point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin) -> Ball:
    """Return the dual value at alpha made feasible, or 0, which bounds every value, if that is more."""
    feasible = np.clip(alpha, 0.0, point.costs)
    if loss == "max":
        shared = within_shared_caps(feasible, point.C)
        feasible = np.where((point.y < 0)[:, None], shared, feasible)
    v = transposed_product(point.geometry.X, feasible * point.y[:, None])
    if margin == "total":
        square = v.square_sum() if point.penalty is None else shrunk_square_sum(point.penalty, v)
    else:
        if point.penalty is None:
            lengths = v.norm(axis=0)
        else:
            group_multipliers = choose_group_multipliers(point.penalty, v.mid.T, point.W)
            lengths = root(shrunk_square_sum(point.penalty, v, group_multipliers))
        square = lengths.sum() * lengths.sum()
    bound = Ball(feasible).sum() - 0.25 * square
    return bound if bound.lower > 0.0 else Ball(0.0)


def _multipliers(point: CpmPoint, loss: Loss, margin: Margin, tol: float, max_iter: int) -> Vector:
    """Return good multipliers (n, K) for a point without any.

    With loss="max" alone the faces are made independent: the largest hinge of a negative is at least any
    weighted mean of its hinges, so its cost may be split between the faces, here between those that it
    violates most. Other coupled faces need the dual program.
    """
    X, y, Z, penalty = point.geometry.X, point.y, point.Z, point.penalty
    if margin == "worst" or (loss == "max" and penalty is not None):
        from formulations import cpm, cpm_sparse

        data = (X[:, :-1], y, len(point.W), Z.argmax(axis=1), point.C, loss)
        if penalty is None:
            program = cpm.fixed_assignment_dual(*data, margin)
        else:
            program = cpm_sparse.fixed_assignment_dual(*data, margin, penalty=penalty)
        solution = program.solve()
        return solution["alpha"] if solution.primal else np.zeros_like(Z)
    costs = point.costs
    if loss == "max":
        worst = point.hinge >= point.hinge.max(axis=1, keepdims=True) - 1e-6
        parts = np.where((y < 0)[:, None], worst / worst.sum(axis=1, keepdims=True), Z)
        costs = point.C[:, None] * parts
    is_large = X.shape[0] * X.shape[1] > _LARGE_ENTRIES
    if penalty is not None:
        from polyopt.cpm.penalised_face_dual import PenalisedAscent

        ascent = PenalisedAscent(X[:, :-1], y, costs, penalty)
        ascent.begin_at(point.W)
        ascent.solve(max(tol, 1e-4) if is_large else tol)
        return ascent.alpha
    caps = costs if loss == "max" else np.repeat(point.C[:, None], len(point.W), axis=1)
    value = float(point.value(loss).mid)
    return ascend_faces(point, caps, tol, min(max_iter, _LARGE_ROUNDS) if is_large else max_iter, value)


def ascend_faces(
    point: CpmPoint, caps: Vector, tol: float, max_rounds: int, primal_value: float = np.inf
) -> Vector:
    """Return multipliers (n, K) within caps (n, K) by coordinate ascent on the dual of each face.

    The ascent ends if its bound is within a relative `tol` of the smaller of its own primal value and
    `primal_value`, an upper bound on the optimum.
    """
    from polyopt.optim.coordinate_ascent import FaceAscent

    ascent = FaceAscent(as_rows(point.geometry.X[:, :-1]), point.y, caps, point.Z.argmax(axis=1))
    ascent.sweep(times=2)
    for _ in range(max_rounds):
        ascent.scan()
        if relative_gap(min(float(ascent.primal.sum()), primal_value), float(ascent.dual.sum())) <= tol:
            break
        ascent.climb(tol)
    return ascent.alpha


def _face(geometry: LinearGeometry, y: Vector, costs: Vector) -> HingeProgram:
    return HingeProgram("a face", geometry, Families(margin_family(y, costs / 2)), intercept=False)


# -- the optimality conditions ----------------------------------------------------------------


def assignment_residual(point: CpmPoint) -> Residual:
    """Return by how much a positive's hinge would fall on its best face."""
    hinge, positive = point.hinge, point.y > 0
    gain = np.where(positive, (hinge * point.Z).sum(axis=1) - hinge.min(axis=1), 0.0)
    return residual("stationarity", "assignment", gain, 1.0)


def face_residuals(
    point: CpmPoint, alpha: Vector, tol: float, *, own_features: bool = False
) -> list[Residual]:
    """Return the conditions of one hinge program per face, in its nonzero features or in all."""
    residuals: list[Residual] = []
    for k, (w, costs) in enumerate(zip(point.W, point.costs.T, strict=True)):
        geometry, v = point.geometry, None if point.implied else w
        if own_features:
            used = np.append(np.flatnonzero(w[:-1]), len(w) - 1)
            geometry, v = LinearGeometry(geometry.X[:, used]), w[used]
        multipliers = {"margin": alpha[:, k] / 2}
        certificate = certify_hinge(_face(geometry, point.y, costs), v=v, multipliers=multipliers, tol=tol)
        residuals += [replace(r, row=f"{r.row}(face {k})", value=2 * r.value) for r in certificate.residuals]
    return residuals


def coupled_residuals(
    point: CpmPoint, alpha: Vector, loss: Loss = "sum", margin: Margin = "total", *,
    own_features: bool = False,
) -> list[Residual]:  # fmt: skip
    """Return the conditions of faces that share slacks, the margin budget or a penalty.

    own_features: True if a face has its nonzero features alone.
    """
    y, shared, penalty = point.y[:, None], (point.y < 0) & (loss == "max"), point.penalty
    largest = float(np.abs(alpha).max()) or float(point.C.max())
    xi = np.where(shared[:, None], point.hinge.max(axis=1, keepdims=True), point.hinge)
    surplus = y * np.asarray(point.geometry.X @ point.W.T) - 1.0 + xi
    pulled = v = pulls(point.geometry, point.y, alpha)
    if penalty is not None and margin == "total":
        v = penalty.shrunk(pulled)
    elif penalty is not None:
        group_multipliers = choose_group_multipliers(penalty, pulled, point.W)
        v = penalty.cut(pulled - np.column_stack([group_multipliers, np.zeros(len(pulled))]))
    if own_features:
        v = np.where((point.W != 0.0) | (np.arange(v.shape[1]) == v.shape[1] - 1), v, 0.0)
    theta = np.ones(len(v)) if margin == "total" else margin_weights(v)
    # The faces share multipliers: a face that needs none is zero up to the rounding of the others.
    weight = max(
        float(np.abs(2 * theta[:, None] * point.W).max()),
        float(np.abs(pulled).max()),
        1e-8 * max(point.geometry.adjoint_scale(column * point.y) for column in alpha.T),
    )
    residuals = []
    for k in range(len(point.W)):
        residuals.append(residual("sign", f"margin(face {k})", -alpha[:, k], largest))
        if not point.implied:
            imbalance = np.abs(2 * theta[k] * point.W[k] - v[k])
            residuals.append(residual("stationarity", f"w(face {k})", imbalance, weight))
        residuals.append(
            residual("complementarity", f"margin(face {k})", np.abs(alpha[:, k] * surplus[:, k]), largest)
        )
    beta = np.where(shared[:, None], (point.C - alpha.sum(axis=1))[:, None], point.costs - alpha)
    residuals.append(residual("sign", "slack", -beta.min(axis=1), largest))
    residuals.append(residual("complementarity", "slack", np.abs(beta * xi).max(axis=1), largest))
    if margin == "worst":
        squares = (point.W**2).sum(axis=1)
        residuals.append(
            residual("complementarity", "norm", theta * (squares.max() - squares), float(squares.max()))
        )
    return residuals


# -- statements in claim files ----------------------------------------------------------------


def state_cpm(point: CpmPoint, alpha: Vector, loss: Loss = "sum", margin: Margin = "total") -> Statement:
    """State the point of a Convex Polytope Machine for its assignment; alpha (n, K) are multipliers."""
    X: Any = point.geometry.X
    size = add_penalty({"kind": "worst" if margin == "worst" else "square", "factor": 1}, point.penalty)
    combine = "worst" if loss == "max" else "sum"
    title = "the Convex Polytope Machine for its assignment"
    return state_faces(
        title, X[:, :-1], point.y, point.W, size, point.C.tolist(), point.Z, alpha, combine=combine
    )


def state_choice(X: Matrix, y: Vector, W: Vector, C: Vector, tree: dict[str, Any], bound: float) -> Statement:
    """State a Convex Polytope Machine's point W (K, m+1) among all assignments.

    `tree` has the multipliers of the leaves, as in the file; together they prove `bound`.
    """
    size, everywhere = {"kind": "square", "factor": 1}, y[:, None] + 0.0 * W[None, :, 0]
    statement = state_faces(_NAME, X, y, W, size, C.tolist(), everywhere, everywhere)
    row = {**statement.program["rows"][0], "at": ["all" if s < 0 else "one" for s in y.tolist()]}
    return replace(
        statement, program={**statement.program, "rows": [row]}, multipliers={}, tree=tree, bound=bound
    )
