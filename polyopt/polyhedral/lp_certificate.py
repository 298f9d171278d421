"""Certificates of faces fitted by linear programs: the exact Polyceptron and PC-SLP.

Positives, y = +1, should have the margin y W_k·x̃ ≥ 1, x̃ = (x, 1), at every face W_k, and each negative at
the face that it is assigned to; ξ ≥ 0 are the slacks. For a fixed assignment both problems are linear
programs with the box constraint |W| ≤ R on every entry. They differ in the loss of a positive. The exact
Polyceptron sums its slacks over the faces, so every multiplier M_ik has the cap C_i. PC-SLP takes the largest
slack, so the cap is on Σ_k M_ik; it also divides each cost by the total cost of the class. By weak duality
any multipliers M_ik ≥ 0 of the margin constraints that satisfy the caps give the bound

    Σ_ik M_ik − R Σ_k ‖r_k‖_1,    r_k = Σ_i M_ik y_i x̃_i, the imbalance of face k.

The gap of faces W to this bound is Σ M (y W·x̃ − 1 + ξ) + Σ (cap − M) ξ + Σ (R |r| − r W), a sum of
nonnegative terms: complementarity of the constraints margin, slack and box. At a face inside the box r should
be 0. An imbalance within a solver's tolerance lowers the bound by R per unit, so it is removed first
(:func:`balanced`).

Neither problem is convex over the assignments; the only bound proven here for all assignments is 0. A bound
from an integer solver is reported as the solver's.

Values and bounds are balls, intervals that enclose rounding (:mod:`polyopt.linalg.rounding`). The multipliers
satisfy their caps exactly, and the bound includes their imbalance with its rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import positive, tolerance
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import Matrix, MatrixLike, Vector, dense
from formulations.polyhedral import belonging, pull, scores
from formulations.polytope import check_assignment, lift
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.statement import Evidence, Statement, numeral
from polyopt.certificates.points import checked_faces, checked_number, checked_vector, within_shared_caps
from polyopt.cpm.claim import state_faces
from polyopt.linalg.rounding import UNIT, Ball, careful_transposed_product, gamma, product

_BOX_TOL = 1e-9  # relative distance from R up to which an entry is at the box
MAX_PROGRAM_ENTRIES = 2_000_000  # entries of X, times faces, up to which a program is solved for a bound


@np.errstate(over="ignore", invalid="ignore")
def certify_polyceptron(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, C: ArrayLike = 1.0, u: ArrayLike | None = None,
    assignment: ArrayLike | None = None, radius: float = 1e4, global_bound: float | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of the exact Polyceptron (:mod:`formulations.polyceptron`).

    Parameters
    ----------
    X, y
        The training data (n, m), and labels (n,): +1 inside, -1 outside.
    W : array_like of shape (K, m+1)
        Faces, the bias last.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    u : array_like of shape (n, K), optional
        Multipliers of the margin constraints. By default they are computed by solving the dual programs,
        unless the data are large. The certificate does not rely on the solver: the bound is evaluated here.
    assignment : array_like of int, shape (n,), optional
        The face of each negative; the entries of positives are ignored. By default the face at which its
        multiplier is largest or, without multipliers, its score least.
    radius : float
        R, the largest absolute value of an entry of W. If it is infinite, the bound is for faces with entries
        of up to ten times the largest one of W.
    global_bound : float, optional
        An integer solver's bound on the optimum over all faces in the box and all assignments
        (:mod:`formulations.polyceptron`). It cannot be checked here.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        ``optimal`` if the value is 0, or if there is one face and it attains its bound; ``stationary`` if
        several faces attain the bound for their assignment, and no negative has a smaller loss at another
        face; ``none`` if a face is outside the box; else ``suboptimal_by``, for the fixed assignment.

        If `global_bound` is given and the faces are not ``optimal``, the certificate is for all assignments:
        ``solvers_word`` if the faces attain `global_bound`, else ``suboptimal_by``, relative to the proven
        bound 0.
    """
    X, y = as_data(X, y)
    tol, costs = tolerance(tol), as_costs(C, len(y))
    box = BoxedFaces.around(checked_faces("W", W, None, X.shape[1] + 1), radius, tol)
    K = len(box.W)
    u_input = checked_vector("u", u, (len(y), K))
    hinges = _hinges(X, y, box.W)
    assigned = _assignment(X, y, box.W, assignment, u_input, tol * costs)
    caps = costs[:, None] * belonging(y, assigned, K, "all")  # 0 if a sample has no constraint at a face
    # A sum of balls has a radius above 0; if all hinges with a cost are 0, the value is 0 exactly.
    value = (hinges * caps).sum() if _may_be_positive(hinges.signed(caps > 0)) else Ball(0.0)
    large = u_input is None and X.shape[0] * X.shape[1] * K > MAX_PROGRAM_ENTRIES
    M = np.zeros_like(caps) if u_input is None else u_input
    if u_input is None and _may_be_positive(value) and not large:
        from formulations.polyceptron import cell_dual

        program = cell_dual(X, y, costs, radius=box.radius)
        for k, cap in enumerate(caps.T):
            M[:, k] = program.set(C=cap).solve().primal.get("u", 0.0)
    bound = bound_of(X, y, M, (M > 0) & (caps - M > 0), lambda u: np.clip(u, 0.0, caps), box)
    residuals = _reassignment_gain(y, hinges.mid, assigned)
    if u_input is not None:
        # If both are 0, complementarity is relative to the value at W = 0, the sum of the caps.
        scale = max(float(value.mid), float(bound.mid)) or float(caps.sum())
        residuals += conditions(X, y, M, caps - M, hinges.mid, box, scale)
    name = "the exact Polyceptron"
    statement = partial(state_faces, name, X, y, box.W, box.stated_size, costs.tolist(), caps, M)
    certificate = _certificate(name, value, bound, residuals, box, tol, large, statement)
    if global_bound is None or (certificate.scope == name and certificate.claim is Claim.OPTIMAL):
        return certificate
    return conclude(
        name, value, Ball(0.0), box.residuals(), tol,
        feasible=not box.is_violated, stated=checked_number("global_bound", global_bound),
        notes=["The bound on all assignments is an integer solver's word; 0 alone is proven."],
    )  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")
def certify_pc_slp(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, C: ArrayLike = 1.0, u: ArrayLike | None = None,
    q: ArrayLike | None = None, assignment: ArrayLike | None = None, radius: float = 1e4,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of PC-SLP (:mod:`formulations.pc_slp`).

    Parameters
    ----------
    X, y, W, C, assignment, radius, tol
        As in :func:`certify_polyceptron`; both classes are needed.
    u : array_like of shape (n, K), optional
        Multipliers of the positives' constraints ``inside``; the entries of negatives are ignored.
    q : array_like of shape (n,), optional
        Multipliers of the negatives' constraints ``outside``, needed with `u`; the entries of positives are
        ignored. By default both are computed by solving the dual program.

    Returns
    -------
    Certificate
        As in :func:`certify_polyceptron`.
    """
    X, y = as_data(X, y)
    tol, costs = tolerance(tol), as_costs(C, len(y))
    box = BoxedFaces.around(checked_faces("W", W, None, X.shape[1] + 1), radius, tol)
    K, n, inside = len(box.W), len(y), y > 0
    if not (costs[inside].any() and costs[~inside].any()):
        raise ValueError("y must hold both classes, each with a positive cost: the error is a mean over each")
    if (u is None) != (q is None):
        raise ValueError("u and q must be given together, or neither")
    weights = class_weights(y, costs)
    caps = np.maximum(weights.lower, 0.0)  # of the sum of each sample's multipliers
    hinges = _hinges(X, y, box.W)
    assigned = _assignment(X, y, box.W, assignment, None, caps)
    # (n, K), 1 if the sample has a margin constraint at the face
    members = np.where(inside[:, None], 1.0, belonging(y, assigned, K))
    # The loss of a positive is its largest hinge, that of a negative the hinge at its assigned face.
    losses = hinges.signed(members).max(axis=1)
    value = losses.dot(weights) if _may_be_positive(losses.signed(costs > 0)) else Ball(0.0)
    large = u is None and X.shape[0] * X.shape[1] * K > MAX_PROGRAM_ENTRIES
    u, q = checked_vector("u", u, (n, K)), checked_vector("q", q, (n,))
    has_multipliers = u is not None
    if u is None or q is None:
        u, q = np.zeros((n, K)), np.zeros(n)
        if _may_be_positive(value) and not large:
            from formulations.pc_slp import step_dual

            solution = step_dual(X, y, K, assigned, costs, box.radius).solve()
            if solution.primal:
                u[inside], q[~inside] = solution["u"], solution["q"]
    M = np.where(inside[:, None], u, q[:, None] * members)

    def clip(M: Vector) -> Vector:
        return within_shared_caps(np.maximum(M, 0.0), caps)

    bound = bound_of(X, y, M, (M > 0) & (M.sum(axis=1) < caps)[:, None], clip, box)
    residuals = _reassignment_gain(y, hinges.mid, assigned)
    if has_multipliers:
        unused = (weights.mid - M.sum(axis=1))[:, None]
        scale = max(float(value.mid), float(bound.mid)) or 2.0  # 2 is the value at W = 0
        residuals += conditions(X, y, M, unused, losses.mid[:, None], box, scale)

    def statement() -> Statement:
        """State the program with exact class weights: each cost over the sum of the costs of its class."""
        exact = np.array([Fraction(cost) for cost in costs.tolist()])
        shares = exact / np.where(inside, exact[inside].sum(), exact[~inside].sum())
        faces = X, y, box.W, box.stated_size, shares.tolist(), members, M
        return state_faces("PC-SLP", *faces, combine="worst")

    return _certificate("PC-SLP", value, bound, residuals, box, tol, large, statement)


def _hinges(X: Matrix, y: Vector, W: Vector) -> Ball:
    """Return [1 − y_i W_k·x̃_i]_+, (n, K)."""
    return (1.0 - product(lift(X), W.T).signed(y[:, None])).positive()


def class_weights(y: Vector, costs: Vector) -> Ball:
    """Return each cost over the sum of the costs of its class (n,), as balls."""
    inside = y > 0
    scaled = costs / float(costs.max())  # sums of the largest numbers must not overflow
    totals = np.where(inside, scaled[inside].sum(), scaled[~inside].sum())
    weights = scaled / totals
    # The radius is the rounding of the sum (gamma), the scaling and the division; 2**-1000 covers underflow.
    return Ball(weights, 1.01 * (gamma(len(y)) + 4 * UNIT) * weights + 2.0**-1000)


def _may_be_positive(values: Ball) -> bool:
    """Return True if one of these nonnegative numbers may be above 0."""
    return bool(values.mid.any() or values.rad.any())


def _assignment(
    X: Matrix, y: Vector, W: Vector, assignment: ArrayLike | None, u: Vector | None, u_tol: Vector
) -> NDArray[np.int64]:
    """Return the face of each negative: by `assignment`, else its largest multiplier above u_tol, else W."""
    if assignment is not None:
        return check_assignment(-y, len(W), assignment, "negative")
    best = scores(X, W).argmin(axis=1)
    return np.asarray(best if u is None else np.where(u.max(axis=1) > u_tol, u.argmax(axis=1), best))


def _reassignment_gain(y: Vector, hinges: Vector, assigned: NDArray[np.int64]) -> list[Residual]:
    """Return the residual of the assignment: how much lower a negative's smallest hinge is; [] for K = 1."""
    if hinges.shape[1] == 1:
        return []
    assigned_hinge = np.take_along_axis(hinges, np.maximum(assigned, 0)[:, None], axis=1)[:, 0]
    gain = np.where(y < 0, assigned_hinge - hinges.min(axis=1), 0.0)
    return [residual("stationarity", "assignment", gain, 1.0)]


def _certificate(
    name: str, value: Ball, bound: Ball, residuals: list[Residual], box: "BoxedFaces", tol: float,
    large: bool, statement: Callable[[], Statement],
) -> Certificate:  # fmt: skip
    """Return the certificate; a value of 0 is optimal without multipliers."""
    single, zero = len(box.W) == 1, not _may_be_positive(value) and not box.is_violated
    if zero:
        notes = ["The value is 0, which bounds every assignment."]
    else:
        notes = [] if single else ["Another assignment may have a lower optimum."]
        notes += box.notes
        if large:
            notes.append(
                "The data are too large to solve the programs for a bound; it is 0 without multipliers."
            )
    return conclude(
        name, value, Ball(0.0) if zero else bound, [*box.residuals(), *([] if zero else residuals)], tol,
        feasible=not box.is_violated,
        reached=Claim.OPTIMAL if single or zero else Claim.STATIONARY,
        scope=name if single or zero else "the fixed-assignment program",
        notes=notes, evidence=[Evidence(statement)],
    )  # fmt: skip


@dataclass(frozen=True)
class BoxedFaces:
    """Faces W (K, m+1) clipped to the box |W| ≤ radius, for which the bound is computed.

    excess (K, m+1): violation of the box by the entries before clipping, None for an infinite radius.
    is_violated: True if an excess is above the tolerance.
    """

    W: Vector
    radius: float
    excess: Vector | None
    is_violated: bool

    @classmethod
    def around(cls, W: Vector, radius: float, tol: float) -> "BoxedFaces":
        """Clip W to a box, which for an infinite radius is ten times the largest entry."""
        radius = positive("radius", radius, infinite=True)
        if np.isinf(radius):
            finite = min(10.0 * float(np.abs(W).max()), float(np.finfo(float).max))
            return cls(W, finite or 1.0, None, False)
        excess = np.abs(W) - radius
        return cls(np.clip(W, -radius, radius), float(radius), excess, bool(excess.max() > tol * radius))

    def residuals(self) -> list[Residual]:
        """Return the violation of the box by each face."""
        if self.excess is None:
            return []
        return [residual("primal", "box", self.excess.max(axis=1), self.radius)]

    @property
    def side(self) -> Vector:
        """Signs: 1 if an entry is at R, -1 if it is at -R, else 0."""
        return np.where(is_at_box(self.W, self.radius), np.sign(self.W), 0.0)

    @property
    def stated_size(self) -> dict[str, Any]:
        """The box in the notation of claim files."""
        return {"kind": "square", "factor": 0, "low": numeral(-self.radius), "high": numeral(self.radius)}

    @property
    def notes(self) -> list[str]:
        """Sentences of a certificate about the box."""
        if self.is_violated:
            return ["The faces break their box; the value is of the faces clipped to it."]
        if self.excess is None:
            return [f"The bound is on faces with entries of up to {self.radius:.4g}."]
        return ["The box holds a face: raise radius or scale the features."] if self.side.any() else []


def is_at_box(W: Vector, radius: float) -> NDArray[np.bool_]:
    """Return the mask of the entries of faces that are at R or at -R, up to rounding."""
    return np.abs(W) >= radius * (1.0 - _BOX_TOL)


def bound_of(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], clip: Callable[[Vector], Vector],
    box: BoxedFaces,
) -> Ball:  # fmt: skip
    """Return the best of three bounds: at the multipliers M (n, K), at balanced multipliers, and 0.

    free (n, K): True for multipliers strictly between their bounds, which balancing may change.
    clip: projects multipliers onto their caps.
    """
    best, feasible, lifted = Ball(0.0), clip(M), lift(X)
    for candidate in (feasible, clip(balanced(X, y, feasible, free, box))):
        imbalance = careful_transposed_product(lifted, y[:, None] * candidate)
        bound = Ball(candidate).sum() - box.radius * imbalance.absolute().sum()
        if float(bound.lower) > max(float(best.lower), 0.0):
            best = bound
    return best


def balanced(X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], box: BoxedFaces) -> Vector:
    """Change the free multipliers by the least-squares correction that makes the imbalance 0.

    Only the entries of W inside the box need balance. A solver leaves an imbalance within its tolerance,
    which lowers the bound by R per unit.
    """
    imbalance, M = pull(X, y[:, None] * M), M.copy()
    for k, is_inside in enumerate(box.side == 0):
        samples = np.flatnonzero(free[:, k])
        if samples.size and is_inside.any():
            A = (dense(lift(X[samples])) * y[samples, None]).T[is_inside]
            scale = np.abs(A).max(axis=1)
            scale[scale == 0] = 1.0
            rhs = imbalance[k, is_inside] / scale
            M[samples, k] -= np.linalg.lstsq(A / scale[:, None], rhs, rcond=None)[0]
    return M


def conditions(
    X: Matrix, y: Vector, M: Vector, unused: Vector, xi: Vector, box: BoxedFaces, scale: float
) -> list[Residual]:
    """Return the residuals of the optimality conditions: signs, balance and complementarity.

    unused, xi (n, K) or (n, 1): the caps less the multipliers, and the slacks.
    scale: to which the complementarity products are relative.
    """
    largest = float(np.abs(M).max()) or float(unused.max())
    surplus = y[:, None] * scores(X, box.W) - 1.0 + xi
    imbalance, side = pull(X, y[:, None] * M), box.side
    # The multiplier of W ≤ R is the positive part of the imbalance, that of W ≥ -R the negative part.
    unbalanced = np.where(side == 0, np.abs(imbalance), np.maximum(-side * imbalance, 0.0))
    terms = float(pull(abs(X), np.abs(M)).max()) or 1.0  # size of the terms that cancel in the imbalance
    residuals = [
        residual("sign", "margin", -M.min(axis=1), largest),
        residual("sign", "slack", -unused.min(axis=1), largest),
        residual("stationarity", "balance", unbalanced.max(axis=1), terms),
        residual("complementarity", "margin", np.abs(M * surplus).max(axis=1), scale),
        residual("complementarity", "slack", np.abs(unused * xi).max(axis=1), scale),
    ]
    if box.excess is not None:
        products = np.where(side == 0, 0.0, np.abs(imbalance) * (box.radius - np.abs(box.W)))
        residuals.append(residual("complementarity", "box", products.max(axis=1), scale))
    return residuals
