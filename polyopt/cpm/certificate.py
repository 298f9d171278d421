"""Certificates of the Convex Polytope Machine.

The machine has K faces W (K, m+1) and an assignment Z (n, K): Z_ik = 1 if sample i must satisfy the margin
constraint y_i W_k·x̃_i ≥ 1 − ξ_ik of face k, with x̃ = (x, 1). Negatives (inside) have all faces, a positive
one. For a fixed assignment this is a convex program with the dual values

    margin="total"   Σ α − ¼ Σ_k ‖v_k‖²
    margin="worst"   Σ α − ¼ (Σ_k ‖v_k‖)²,        v_k = Σ_i α_ik y_i x̃_i,

for any multipliers 0 ≤ α_ik ≤ C_i Z_ik of the margin constraints; these are lower bounds on its optimum.
Stationarity is 2 θ_k W_k = v_k, with θ_k = 1 ("total") or θ_k = ‖v_k‖ / Σ_l ‖v_l‖ ("worst"). With loss="max"
a negative has one slack for all faces, so its multipliers must sum to at most C_i. With a penalty on the
weights v_k is replaced by its soft-thresholded value (:mod:`formulations.face_penalty`). With loss="sum",
margin="total" and no penalty the faces are independent: face k is twice the SVM on x̃ without intercept that
has the costs C/2.

Over all assignments the problem is not convex. So a point is ``stationary`` if it is optimal for its
assignment and no positive has a smaller hinge on another face: a fixed point of alternating minimisation. A
single face has only one assignment and can be ``optimal``. A global bound comes from a search:
:func:`certify_cpm_search` accepts that of :mod:`polyopt.cpm.global_search.search` as proven, because it is
safe from rounding; a bound of SCIP is only quoted (``solvers_word``).

Values and bounds are intervals that contain the exact result (:class:`~polyopt.linalg.rounding.Ball`, with
`mid` and `rad`). A certificate's *evidence* is a function that states the program, the point and multipliers
for a *claim file*, from which an independent checker verifies the bound. Read :func:`certify_cpm`, then
``_certified``, which calls the sections below in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import one_of, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.language.solution import Solution
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import (
    Loss,
    Margin,
    assignment_matrix,
    check_loss,
    lift,
    margin_weights,
    natural_assignment,
)
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, relative_gap, residual
from polyopt.certificates.claims.statement import Evidence, Statement
from polyopt.certificates.points import checked_faces, within_shared_caps
from polyopt.certificates.tally import Tally
from polyopt.cpm.claim import add_penalty, state_faces
from polyopt.cpm.penalty_term import (
    checked_penalty,
    penalty_value,
    shrunk_square_sum,
    sign_residuals,
)
from polyopt.linalg.rounding import Ball, product, transposed_product
from polyopt.linalg.rows import as_rows
from polyopt.margin.geometry import LinearGeometry

_NAME = "the Convex Polytope Machine"
_WORST_HINGE_TOL = 1e-6  # difference to the largest hinge up to which a hinge counts as largest
_MIN_SCALE = 1e-8  # smallest scale of the residuals of stationarity, relative to max_j Σ_i |α_ik x̃_ij|
_NOTE_IMPROVABLE = "A sample outside has a smaller hinge on another face, so another assignment costs less."
_NOTE_FIXED_POINT = "No sample outside has a smaller hinge on another face; another assignment may cost less."
_LESS_EFFORT = "X is large: multipliers for the bound were computed {}. Given multipliers may prove more."


@dataclass(frozen=True)
class Options:
    """Effort for the multipliers of a certificate that is given none."""

    max_entries: int = 500_000  # X is large if it has more entries
    max_rounds_above: int = 30  # largest number of rounds of the coordinate ascent if X is large
    min_gap_above: float = 1e-4  # least relative gap of penalised faces' multipliers if X is large


OPTIONS = Options()


# -- entry points -----------------------------------------------------------------------------


def certify_cpm(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *, W: ArrayLike | None = None,
    alpha: ArrayLike | None = None, assignment: ArrayLike | None = None, loss: Loss = "sum",
    margin: Margin = "total", penalty: FacePenalty | None = None,
    tol: float = 1e-6, max_iter: int = 300,
) -> Certificate:  # fmt: skip
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
        Faces, the bias last. By default those that `alpha` implies by stationarity.
    alpha : array_like of shape (n, K), optional
        Multipliers of the margin constraints, non-negative. At least one of `W` and `alpha` is needed;
        without `alpha` multipliers are computed for the bound.
    assignment : array_like of int, shape (n,), optional
        The face of each positive; the entries of negatives are ignored. By default the one whose
        multiplier is positive or, if none is, the best for W.
    loss : {"sum", "max"}
        The loss of a negative: the sum or the maximum of its hinges over the faces.
    margin : {"total", "worst"}
        The squared norm in the objective: the sum over the faces, or the largest.
    penalty : FacePenalty, optional
        The penalty on the weights, and their signs (:mod:`formulations.cpm_sparse`), for loss="sum" and
        margin="total". Weights of the wrong sign are set to 0 in the value; the residuals show them.
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Largest number of rounds of coordinate ascent for the bound, if `alpha` is absent.

    Returns
    -------
    Certificate
        ``stationary`` if, within `tol`, the faces are optimal for the assignment and the assignment for the
        faces; with one face ``optimal``. Otherwise ``suboptimal_by``, within the fixed assignment.

    Raises
    ------
    ValueError
        An argument is not finite, real and of its shape.
    """
    return _certified(
        X, y, C, W=W, alpha=alpha, assignment=assignment, loss=loss, margin=margin, tol=tol,
        max_iter=max_iter, penalty=penalty,
    )[1]  # fmt: skip


def certify_cpm_search(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, solution: Solution, tol: float = 1e-6, *, loss: Loss = "sum",
    margin: Margin = "total",
) -> Certificate:  # fmt: skip
    """Certify the solution of a search over all assignments.

    solution: the result of :func:`~polyopt.cpm.global_search.search.solve_cpm_global` for these data, whose
        bound is safe from rounding; with loss="max" or margin="worst" the result of
        :func:`~polyopt.cpm.global_search.explicit.solve_cpm_explicitly`, whose bound is SCIP's.
    Returns: if the value attains the bound, ``optimal`` among all assignments, or ``solvers_word`` for a
        bound of SCIP; otherwise ``suboptimal_by``.
    """
    point, certificate = _certified(
        X, y, C, W=solution["W"], alpha=solution.duals["margin"], assignment=solution["assignment"], tol=tol,
        loss=loss, margin=margin,
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        value = point.value(loss, margin, best_assignment=True)
    bound, stated = Ball(float(solution.bound or 0.0)), None
    note = (
        "The bound is that of this package's own branch and bound over all assignments, by trial moves or by "
        "the spread of the faces. Each of its node bounds is lowered by its rounding error; it is not "
        "recomputed here."
    )
    if (loss, margin) != ("sum", "total"):
        bound, stated = Ball(0.0), solution.bound
        note = (
            "The bound on all assignments is the word of SCIP, for the mixed-integer program; 0 alone is "
            "proven."
        )
    elif "price" in solution.duals:
        note = (
            "The bound is K B - (K - 1) Σ λ, with the prices λ of the positives (duals['price'] of the "
            "solution) and B a lower bound on the cost of one face at these prices, by branch and bound over "
            "boxes of its coefficients. It is lowered by its rounding error, and not recomputed here."
        )
    return conclude(_NAME, value, bound, certificate.residuals, certificate.tol, notes=[note], stated=stated)


def certify_cpm_fixed(X: MatrixLike, y: ArrayLike, C: ArrayLike, **arguments: Any) -> Certificate:
    """Certify faces for an assignment that is part of the problem, not a variable.

    The remaining program is convex. A note says whether a sample has a smaller hinge on another face.

    arguments: those of :func:`certify_cpm` without `global_bound`.
    Returns: ``optimal`` for this assignment if its bound is attained, else ``suboptimal_by``.
    """
    return _certified(X, y, C, **arguments, is_fixed=True)[1]


@np.errstate(over="ignore", invalid="ignore")
def _certified(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, *, W: ArrayLike | None = None,
    alpha: ArrayLike | None = None, assignment: ArrayLike | None = None, loss: Loss = "sum",
    margin: Margin = "total", tol: float = 1e-6, max_iter: int = 300, penalty: FacePenalty | None = None,
    is_fixed: bool = False,
) -> "tuple[CpmPoint, Certificate]":  # fmt: skip
    """Return the point with its data, and its certificate for its assignment.

    is_fixed: True if the assignment is part of the problem.
    """
    X, y = as_data(X, y)
    check_loss(loss)
    one_of("margin", margin, ("total", "worst"))
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    tol, max_iter = tolerance(tol), whole("max_iter", max_iter, 0)
    n, m = X.shape
    penalty = checked_penalty(penalty, m)
    if penalty is not None and (loss, margin) != ("sum", "total"):
        raise ValueError("a penalty on the weights needs loss='sum' and margin='total'")
    geometry = LinearGeometry(lift(X))
    multipliers = None if alpha is None else checked_faces("alpha", alpha, n, None)
    implied = W is None
    if W is None:  # the faces follow from the multipliers
        assert multipliers is not None
        W = implied_faces(sample_sums(geometry, y, multipliers), margin, penalty)
    W = checked_faces("W", W, None if multipliers is None else multipliers.shape[1], m + 1)
    W_before_signs, W = W, W if penalty is None else penalty.enforce_signs(W)
    costs = as_costs(C, n)
    if assignment is None:  # the face with a positive multiplier, else that with the highest score
        assignment = natural_assignment(X, y, W)
        if multipliers is not None:
            has_multiplier = multipliers.max(axis=1) > tol * costs
            assignment = np.where(has_multiplier, multipliers.argmax(axis=1), assignment)
    Z = assignment_matrix(y, len(W), assignment)
    point = CpmPoint(geometry, y, costs, Z, W, multipliers, implied, penalty)
    residuals, note = list[Residual](), ""
    if multipliers is None:
        multipliers, note = _multipliers(point, loss, margin, tol, max_iter)
    else:
        residuals = condition_residuals(point, multipliers, loss, margin)
    if penalty is not None:
        residuals += sign_residuals(penalty, W_before_signs, W)
    value, bound = point.value(loss, margin), bound_of(point, multipliers, loss, margin)
    evidence = [Evidence(partial(state_cpm, point, multipliers, loss, margin))]
    reassignment = assignment_residual(point)
    if is_fixed and reassignment is not None:
        notes = [_NOTE_FIXED_POINT if reassignment.relative <= tol else _NOTE_IMPROVABLE, note]
        name = f"{_NAME} for the assignment that is held"
        return point, conclude(name, value, bound, residuals, tol, notes=notes, evidence=evidence)
    name = f"{_NAME}, loss={loss!r}" + (", margin='worst'" if margin == "worst" else "")
    name += "" if penalty is None else ", with a penalty on the weights"
    scope = _NAME if len(W) == 1 else "the fixed-assignment program"
    return point, conclude_for_assignment(
        name, value, bound, residuals, tol, reassignment, scope, [note], evidence=evidence
    )  # fmt: skip


def conclude_for_assignment(
    name: str, value: Ball, bound: Ball, residuals: list[Residual], tol: float, reassignment: Residual | None,
    scope: str, notes: Sequence[str] = (), *, feasible: bool = True, evidence: Sequence[Evidence] = (),
) -> Certificate:  # fmt: skip
    """Return the certificate: at best ``stationary``, or ``optimal`` if there is one assignment.

    reassignment: the residual of the assignment, None if there is one only.
    scope: name of the program for which the bound holds, for the messages.
    feasible: False if the point violates a constraint that has no residual.
    """
    reached = Claim.OPTIMAL
    if reassignment is not None:
        residuals, reached = [*residuals, reassignment], Claim.STATIONARY
        notes = [*notes, "Another assignment may have a lower optimum."]
    return conclude(
        name, value, bound, residuals, tol, reached=reached, scope=scope, notes=notes, feasible=feasible,
        evidence=evidence,
    )  # fmt: skip


# -- the point and its value ------------------------------------------------------------------


@dataclass(frozen=True)
class CpmPoint:
    """A point to certify, and its data."""

    geometry: LinearGeometry  # of the samples x̃, (n, m+1); `geometry.X` has them as rows
    y: Vector  # labels (n,)
    C: Vector  # costs of slack (n,)
    Z: Vector  # assignment (n, K)
    W: Vector  # faces (K, m+1)
    alpha: Vector | None  # multipliers (n, K) of the margin constraints; None if only W was given
    implied: bool  # True if W was computed from alpha
    penalty: FacePenalty | None = None  # on the weights

    @cached_property
    def margins(self) -> Ball:
        """Margins y_i W_k·x̃_i, shape (n, K)."""
        return product(self.geometry.X, self.W.T).signed(self.y[:, None])

    @cached_property
    def hinge_ball(self) -> Ball:
        """Hinges [1 − y_i W_k·x̃_i]_+, shape (n, K)."""
        return (1.0 - self.margins).positive()

    @property
    def hinge(self) -> Vector:
        """Midpoints of the hinges, shape (n, K)."""
        return self.hinge_ball.mid

    @property
    def costs(self) -> Vector:
        """Upper bounds C_i Z_ik of the multipliers, shape (n, K)."""
        return self.C[:, None] * self.Z

    def value(self, loss: Loss, margin: Margin = "total", *, best_assignment: bool = False) -> Ball:
        """Return the objective.

        best_assignment: True if each positive has the face with its smallest hinge, instead of Z.
        """
        size = size_of(self.W, margin, self.penalty)
        return size + self.total_loss(loss, best_assignment=best_assignment)

    def total_loss(self, loss: Loss = "sum", *, best_assignment: bool = False) -> Ball:
        """Return the objective's losses of the samples, as of :meth:`value`."""
        hinge = self.hinge_ball
        assigned_loss = hinge.signed(self.Z).sum(axis=1)  # the hinges times Z, without rounding
        negative_loss = assigned_loss if loss == "sum" else hinge.max(axis=1)  # Z is 1 on all faces
        positive_loss = -((-hinge).max(axis=1)) if best_assignment else assigned_loss
        sample_loss = _where(self.y > 0, positive_loss, negative_loss)
        return sample_loss.dot(self.C)

    def hinge_decreases(self) -> Vector:
        """Return the decrease (n,) of each positive's hinge by another face; 0 for negatives."""
        return np.where(self.y > 0, (self.hinge * self.Z).sum(axis=1) - self.hinge.min(axis=1), 0.0)


def size_of(W: Vector, margin: Margin = "total", penalty: FacePenalty | None = None) -> Ball:
    """Return the objective's terms of W: squared norms and penalty."""
    squares = Ball(W).square_sum(axis=1)
    size = squares.sum() if margin == "total" else squares.max()
    return size if penalty is None else size + penalty_value(penalty, W)


def _where(mask: NDArray[np.bool_], a: Ball, b: Ball) -> Ball:
    return Ball(np.where(mask, a.mid, b.mid), np.where(mask, a.rad, b.rad))


# -- the bound --------------------------------------------------------------------------------


def sample_sums(geometry: LinearGeometry, y: Vector, alpha: Vector) -> Vector:
    """Return the weighted sums of samples v_k = Σ_i α_ik y_i x̃_i, shape (K, m+1)."""
    return np.asarray(geometry.X.T @ (alpha * y[:, None])).T


def implied_faces(v: Vector, margin: Margin, penalty: FacePenalty | None = None) -> Vector:
    """Return the faces (K, m+1) that are stationary for v (K, m+1): v_k / (2 θ_k), or 0 if θ_k = 0."""
    v = v if penalty is None else penalty.shrunk(v)
    if margin == "worst":
        theta = margin_weights(v)[:, None]
        v = np.divide(v, theta, out=np.zeros_like(v), where=theta > 0)
    return 0.5 * v


def bound_of(point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin) -> Ball:
    """Return the dual value at alpha (n, K), clipped to its caps; at least 0, which is a bound anyway."""
    return bound_from(reduce_dual(point, alpha, loss), margin, point.penalty)


def reduce_dual(point: CpmPoint, alpha: Vector, loss: Loss = "sum") -> Tally:
    """Return the sums of a dual value at alpha (n, K), clipped to its caps: ``alpha``, and ``v`` (m+1, K)."""
    feasible = np.clip(alpha, 0.0, point.costs)
    if loss == "max":
        capped = within_shared_caps(feasible, point.C)
        feasible = np.where((point.y < 0)[:, None], capped, feasible)
    v = transposed_product(point.geometry.X, feasible * point.y[:, None])
    return Tally(len(point.y), {"alpha": Ball(feasible).sum(), "v": v})


def bound_from(dual: Tally, margin: Margin = "total", penalty: FacePenalty | None = None) -> Ball:
    """Return the dual value of the sums of :func:`reduce_dual`; at least 0, which is a bound anyway."""
    v: Ball = dual.sums["v"]
    if margin == "total":
        square = v.square_sum() if penalty is None else shrunk_square_sum(penalty, v)
    else:
        length = v.norm(axis=0).sum()
        square = length * length
    bound = dual.sums["alpha"] - 0.25 * square
    return bound if bound.lower > 0.0 else Ball(0.0)


def _multipliers(
    point: CpmPoint, loss: Loss, margin: Margin, tol: float, max_iter: int
) -> tuple[Vector, str]:
    """Compute multipliers (n, K) for a point without any, and a note if they had less effort than asked.

    1. Faces coupled by margin="worst": the dual program of formulations.
    2. Faces with a penalty: the interior-point method for their dual.
    3. Other faces: coordinate ascent on the dual of each face. With loss="max" a negative's cost is divided
       equally among the faces with its largest hinge, which is at least any weighted mean of its hinges.
    """
    X, y, Z, penalty = point.geometry.X, point.y, point.Z, point.penalty
    if margin == "worst":
        from formulations import cpm

        data = (X[:, :-1], y, len(point.W), Z.argmax(axis=1), point.C, loss)
        solution = cpm.fixed_assignment_dual(*data, margin).solve()
        return (solution["alpha"] if solution.primal else np.zeros_like(Z)), ""
    costs = point.costs
    if loss == "max":
        is_worst = point.hinge >= point.hinge.max(axis=1, keepdims=True) - _WORST_HINGE_TOL
        weights = np.where((y < 0)[:, None], is_worst / is_worst.sum(axis=1, keepdims=True), Z)
        costs = point.C[:, None] * weights
    is_large = X.shape[0] * X.shape[1] > OPTIONS.max_entries
    if penalty is not None:
        from polyopt.cpm.fixed_assignment import FixedAssignmentSolver

        gap = max(tol, OPTIONS.min_gap_above) if is_large else tol
        ascent = FixedAssignmentSolver(X[:, :-1], y, costs, penalty)
        ascent.begin_at(point.W)
        ascent.solve(gap)
        return ascent.alpha, _LESS_EFFORT.format(f"to a relative gap of {gap:g} only") if gap > tol else ""
    rounds = min(max_iter, OPTIONS.max_rounds_above) if is_large else max_iter
    caps = costs if loss == "max" else np.repeat(point.C[:, None], len(point.W), axis=1)
    alpha = ascend_faces(point, caps, tol, rounds, float(point.value(loss).mid))
    return alpha, _LESS_EFFORT.format(f"in at most {rounds} rounds") if rounds < max_iter else ""


def ascend_faces(
    point: CpmPoint, caps: Vector, tol: float, max_rounds: int, primal_value: float = np.inf
) -> Vector:
    """Return multipliers (n, K) within caps (n, K) by coordinate ascent on the dual of each face.

    The ascent stops if the relative gap between its bound and the smaller of its own primal value and
    `primal_value`, an upper bound on the optimum, is at most `tol`.
    """
    from polyopt.optim.coordinate_ascent import FaceAscent

    ascent = FaceAscent(as_rows(point.geometry.X[:, :-1]), point.y, caps, point.Z.argmax(axis=1))
    ascent.sweep(times=2)  # coordinate steps on all samples
    for _ in range(max_rounds):
        ascent.scan()  # measures the primal and dual value of each face
        if relative_gap(min(float(ascent.primal.sum()), primal_value), float(ascent.dual.sum())) <= tol:
            break
        ascent.climb(tol)  # coordinate steps of the faces with a larger gap, on their active samples
    return ascent.alpha


# -- the optimality conditions ----------------------------------------------------------------


def assignment_residual(point: CpmPoint) -> Residual | None:
    """Return the largest decrease of a positive's hinge by another face; None if there is one face."""
    if len(point.W) == 1:
        return None
    return residual("stationarity", "assignment", point.hinge_decreases(), 1.0)


def condition_residuals(
    point: CpmPoint, alpha: Vector, loss: Loss = "sum", margin: Margin = "total", *,
    own_features: bool = False,
) -> list[Residual]:  # fmt: skip
    """Return the residuals of the optimality conditions for the assignment at multipliers alpha (n, K).

    own_features: True if stationarity is required only for features with nonzero weights.
    """
    W, v = point.W, sample_sums(point.geometry, point.y, alpha)
    if own_features:
        v = np.where((W != 0.0) | (np.arange(W.shape[1]) == W.shape[1] - 1), v, 0.0)
    size = max(point.geometry.adjoint_scale(column * point.y) for column in alpha.T)
    conditions = reduce_conditions(point, alpha, loss)
    return residuals_of(conditions, W, v, size, margin, point.penalty, implied=point.implied)


def reduce_conditions(point: CpmPoint, alpha: Vector, loss: Loss = "sum") -> Tally:
    """Return the worst violations of the conditions on samples, and the largest multiplier and cost."""
    takes_max = ((point.y < 0) & (loss == "max"))[:, None]  # samples with one slack for all faces
    # ξ (n, K); the multipliers C − α of ξ ≥ 0; and the slack y W·x̃ − 1 + ξ of the margin constraints.
    xi = np.where(takes_max, point.hinge.max(axis=1, keepdims=True), point.hinge)
    unused = np.where(takes_max, point.C[:, None] - alpha.sum(axis=1, keepdims=True), point.costs - alpha)
    products = np.abs(alpha * (point.margins.mid - 1.0 + xi))
    largest = {"multiplier": float(np.abs(alpha).max()), "cost": float(point.C.max())}
    tally = Tally(len(point.y), largest=largest)
    for k in range(len(point.W)):
        tally.note("sign", f"margin(face {k})", -alpha[:, k])
        tally.note("complementarity", f"margin(face {k})", products[:, k])
    tally.note("sign", "slack", -unused.min(axis=1))
    tally.note("complementarity", "slack", np.abs(unused * xi).max(axis=1))
    return tally


def residuals_of(
    conditions: Tally, W: Vector, v: Vector, size: float, margin: Margin = "total",
    penalty: FacePenalty | None = None, *, implied: bool = False,
) -> list[Residual]:  # fmt: skip
    """Return the residuals of all conditions from :func:`reduce_conditions` over all samples.

    All faces have the same scales, because a face of zeros is exact only up to the rounding of the others.

    v (K, m+1): the sums v_k; `size` is the largest sum of their absolute terms.
    implied: True if W was computed from v.
    """
    largest = conditions.largest["multiplier"] or conditions.largest["cost"]
    raw_v, v = v, v if penalty is None else penalty.shrunk(v)
    theta = np.ones(len(W)) if margin == "total" else margin_weights(v)
    gradient = 2 * theta[:, None] * W  # equal to v at a stationary point
    scale = max(float(np.abs(gradient).max()), float(np.abs(raw_v).max()), _MIN_SCALE * size)
    residuals = []
    for k in range(len(W)):
        residuals.append(conditions.residual("sign", f"margin(face {k})", largest))
        if not implied:
            residuals.append(residual("stationarity", f"w(face {k})", np.abs(gradient[k] - v[k]), scale))
        residuals.append(conditions.residual("complementarity", f"margin(face {k})", largest))
    residuals.append(conditions.residual("sign", "slack", largest))
    residuals.append(conditions.residual("complementarity", "slack", largest))
    if margin == "worst":
        squares = (W**2).sum(axis=1)
        products = theta * (squares.max() - squares)
        residuals.append(residual("complementarity", "norm", products, float(squares.max())))
    return residuals


# -- statements for claim files ---------------------------------------------------------------


def state_cpm(point: CpmPoint, alpha: Vector, loss: Loss = "sum", margin: Margin = "total") -> Statement:
    """State the point for its assignment, with the multipliers alpha (n, K)."""
    X: Any = point.geometry.X
    size = add_penalty(
        {"kind": "worst" if margin == "worst" else "square", "factor": 1}, point.penalty, len(point.W)
    )
    return state_faces(
        f"{_NAME} for its assignment", X[:, :-1], point.y, point.W, size, point.C.tolist(), point.Z, alpha,
        combine="worst" if loss == "max" else "sum",
    )  # fmt: skip


def state_choice(X: Matrix, y: Vector, W: Vector, C: Vector, tree: dict[str, Any], bound: float) -> Statement:
    """State the point W (K, m+1) among all assignments; the multipliers of `tree` prove `bound`.

    tree: a branch-and-bound tree over the assignments, in the format of the file.
    """
    size, all_faces = {"kind": "square", "factor": 1}, y[:, None] + 0.0 * W[None, :, 0]  # (n, K), not 0
    statement = state_faces(_NAME, X, y, W, size, C.tolist(), all_faces, all_faces)
    # "one": a positive has its loss at one face, which is a variable.
    row = {**statement.program["rows"][0], "at": ["all" if s < 0 else "one" for s in y.tolist()]}
    return replace(
        statement, program={**statement.program, "rows": [row]}, multipliers={}, tree=tree, bound=bound
    )
