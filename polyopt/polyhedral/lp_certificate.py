"""Certificates of the polyhedral family's linear programs: the exact Polyceptron and PC-SLP.

For a fixed assignment of the negatives both are linear programs in the box |W| ≤ R, and any multipliers
prove a bound on them. Let M_ik be the multiplier of sample i at face k, clipped to its cap, and
r_k = Σ_i M_ik y_i x̃_i the imbalance at face k. Then no faces in the box cost less than

    Σ_ik M_ik − R Σ_k ‖r_k‖_1.

The gap of faces W to this bound is Σ M (y W·x̃ − 1 + ξ) + Σ (cap − M) ξ + Σ (R |r| − r W), a sum of terms
that are never negative: complementarity of the constraints margin, slack and box. If the box does not hold a
face, r should be 0. An imbalance within a solver's tolerance costs R per unit, so it is removed first.

Neither problem is convex over the assignments; the only bound proven here for all assignments is 0. A bound
that an integer solver states is shown as stated.

Values and bounds are balls (:mod:`polyopt.linalg.rounding`), and the multipliers keep within their caps as
real numbers; the bound includes their imbalance, and its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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

MAX_PROGRAM_ENTRIES = 2_000_000  # entries of X, times faces, up to which a program is solved for a bound
_OTHERS = "Another assignment may have a lower optimum."
_ZERO = "The value is 0, which bounds every assignment."
_STATED = "The bound on all assignments is an integer solver's word; 0 alone is proven."
_LARGE = "The data are too large to solve the programs for a bound; it is 0 without multipliers."
_BOX_HOLDS = "The box holds a face: raise radius or scale the features."
_BROKEN = "The faces break their box; the value is of the faces clipped to it."


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
        Multipliers of the margin constraints. By default the dual programs are solved for them, unless the
        data are large; only their dual value, evaluated here, enters the certificate.
    assignment : array_like of int, shape (n,), optional
        The face of each negative; the entries of positives are ignored. By default the face with its largest
        multiplier or, without one, the best for W.
    radius : float
        R, the largest absolute value of an entry of W. If infinite, the bound is for faces of up to ten times
        the largest entry of W.
    global_bound : float, optional
        A bound on the optimum over all faces in the box and all assignments that an integer solver states
        (:mod:`formulations.polyceptron`). It cannot be checked here.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        ``optimal`` if the value is 0, or with one face if it attains its bound; ``stationary`` with more
        faces, if they attain the bound of their assignment and no negative gains by another face; else
        ``suboptimal_by``, for the fixed assignment. ``none`` for faces outside the box. Unless the faces are
        optimal, `global_bound` takes the place of the bound: ``solvers_word`` if the faces attain it, else
        ``suboptimal_by``, as 0 alone is proven for all assignments.
    """
    X, y = as_data(X, y)
    tol, costs = tolerance(tol), as_costs(C, len(y))
    box = FaceBox.around(checked_faces("W", W, None, X.shape[1] + 1), radius, tol)
    K = len(box.W)
    given = checked_vector("u", u, (len(y), K))
    hinges = _hinges(X, y, box.W)
    chosen = _assignment(X, y, box.W, assignment, given, tol * costs)
    caps = costs[:, None] * belonging(y, chosen, K, "all")
    value = (hinges * caps).sum() if _any(hinges.signed(caps > 0)) else Ball(0.0)
    large = given is None and X.shape[0] * X.shape[1] * K > MAX_PROGRAM_ENTRIES
    M = np.zeros_like(caps) if given is None else given
    if given is None and _any(value) and not large:
        from formulations.polyceptron import cell_dual

        program = cell_dual(X, y, costs, radius=box.radius)
        for k, cap in enumerate(caps.T):
            M[:, k] = program.set(C=cap).solve().primal.get("u", 0.0)
    bound = bound_of(X, y, M, (M > 0) & (caps - M > 0), lambda u: np.clip(u, 0.0, caps), box)
    residuals = _gain_elsewhere(y, hinges.mid, chosen)
    if given is not None:
        scale = max(float(value.mid), float(bound.mid)) or float(caps.sum())
        residuals += conditions(X, y, M, caps - M, hinges.mid, box, scale)
    name = "the exact Polyceptron"
    stated = partial(state_faces, name, X, y, box.W, box.stated_size, costs.tolist(), caps, M)
    found = _certificate(name, value, bound, residuals, box, tol, large, stated)
    if global_bound is None or (found.scope == name and found.claim is Claim.OPTIMAL):
        return found
    solver_bound = checked_number("global_bound", global_bound)
    return conclude(
        name, value, Ball(0.0), box.residuals(), tol,
        feasible=not box.broken, notes=[_STATED], stated=solver_bound,
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
        Multipliers of the positives' rows ``inside``; the entries of negatives are ignored.
    q : array_like of shape (n,), optional
        Multipliers of the negatives' rows ``outside``, given with `u`; the entries of positives are
        ignored. By default the dual program is solved for both.

    Returns
    -------
    Certificate
        As in :func:`certify_polyceptron`.
    """
    X, y = as_data(X, y)
    tol, costs = tolerance(tol), as_costs(C, len(y))
    box = FaceBox.around(checked_faces("W", W, None, X.shape[1] + 1), radius, tol)
    K, n, inside = len(box.W), len(y), y > 0
    if not (costs[inside].any() and costs[~inside].any()):
        raise ValueError("y must hold both classes, each with a positive cost: the error is a mean over each")
    if (u is None) != (q is None):
        raise ValueError("u and q must be given together, or neither")
    weights = _class_shares(y, costs)
    shares = np.maximum(weights.lower, 0.0)  # upper limits of a sample's sum of multipliers
    hinges = _hinges(X, y, box.W)
    chosen = _assignment(X, y, box.W, assignment, None, shares)
    own = np.where(inside[:, None], 1.0, belonging(y, chosen, K))
    # A sample pays once: a positive for its worst face, a negative for its own.
    misses = hinges.signed(own).max(axis=1)
    value = misses.dot(weights) if _any(misses.signed(costs > 0)) else Ball(0.0)
    large = u is None and X.shape[0] * X.shape[1] * K > MAX_PROGRAM_ENTRIES
    of_inside, of_outside = checked_vector("u", u, (n, K)), checked_vector("q", q, (n,))
    if of_inside is None or of_outside is None:
        of_inside, of_outside = np.zeros((n, K)), np.zeros(n)
        if _any(value) and not large:
            from formulations.pc_slp import step_dual

            found = step_dual(X, y, K, chosen, costs, box.radius).solve()
            if found.primal:
                of_inside[inside], of_outside[~inside] = found["u"], found["q"]
    M = np.where(inside[:, None], of_inside, of_outside[:, None] * own)

    def clip(M: Vector) -> Vector:
        return within_shared_caps(np.maximum(M, 0.0), shares)

    bound = bound_of(X, y, M, (M > 0) & (M.sum(axis=1) < shares)[:, None], clip, box)
    residuals = _gain_elsewhere(y, hinges.mid, chosen)
    if u is not None:
        unused = (weights.mid - M.sum(axis=1))[:, None]
        scale = max(float(value.mid), float(bound.mid)) or 2.0
        residuals += conditions(X, y, M, unused, misses.mid[:, None], box, scale)

    def stated() -> Statement:
        """State that a positive pays its worst face, at the exact share of its cost in its class."""
        exact = [Fraction(cost) for cost in costs.tolist()]
        labels = y.tolist()
        total = {s: sum(c for c, label in zip(exact, labels, strict=True) if label == s) for s in (-1.0, 1.0)}
        parts = [c / total[label] for c, label in zip(exact, labels, strict=True)]
        return state_faces("PC-SLP", X, y, box.W, box.stated_size, parts, own, M, combine="worst")

    return _certificate("PC-SLP", value, bound, residuals, box, tol, large, stated)


def _hinges(X: Matrix, y: Vector, W: Vector) -> Ball:
    """Return [1 − y_i W_k·x̃_i]_+, (n, K)."""
    return (1.0 - product(lift(X), W.T).signed(y[:, None])).positive()


def _class_shares(y: Vector, costs: Vector) -> Ball:
    """Return the costs over those of their class (n,), as real numbers."""
    inside = y > 0
    unit = float(costs.max())  # sums of the largest numbers must not overflow
    shrunk = costs / unit
    total = np.where(inside, shrunk[inside].sum(), shrunk[~inside].sum())
    shares = shrunk / total
    return Ball(shares, 1.01 * (gamma(len(y)) + 4 * UNIT) * shares + 2.0**-1000)


def _any(misses: Ball) -> bool:
    """Return True if any of these numbers, none of them below 0, may be above 0."""
    return bool(misses.mid.any() or misses.rad.any())


def _assignment(
    X: Matrix, y: Vector, W: Vector, assignment: ArrayLike | None, u: Vector | None, least: Vector
) -> NDArray[np.int64]:
    """Return the assignment given, or each negative's face with a multiplier over `least`, or its best."""
    if assignment is not None:
        return check_assignment(-y, len(W), assignment, "negative")
    best = scores(X, W).argmin(axis=1)
    return np.asarray(best if u is None else np.where(u.max(axis=1) > least, u.argmax(axis=1), best))


def _gain_elsewhere(y: Vector, hinge: Vector, chosen: NDArray[np.int64]) -> list[Residual]:
    """Return the decrease of a negative's hinge (n, K) at its best face; nothing for a single face."""
    if hinge.shape[1] == 1:
        return []
    own = np.take_along_axis(hinge, np.maximum(chosen, 0)[:, None], axis=1)[:, 0]
    gain = np.where(y < 0, own - hinge.min(axis=1), 0.0)
    return [residual("stationarity", "assignment", gain, 1.0)]


def _certificate(
    name: str, value: Ball, bound: Ball, residuals: list[Residual], box: FaceBox, tol: float, large: bool,
    stated: Callable[[], Statement],
) -> Certificate:  # fmt: skip
    """Conclude; a value of 0 is optimal whatever the multipliers are."""
    single, zero = len(box.W) == 1, not _any(value) and not box.broken
    notes = ["" if single else _OTHERS, *box.notes, _LARGE if large else ""]
    certificate = conclude(
        name, value, Ball(0.0) if zero else bound, [*box.residuals(), *([] if zero else residuals)], tol,
        feasible=not box.broken,
        reached=Claim.OPTIMAL if single or zero else Claim.STATIONARY,
        scope=name if single or zero else "the fixed-assignment program",
        notes=[_ZERO] if zero else notes,
    )  # fmt: skip
    return replace(certificate, evidence=(Evidence(stated),))


@dataclass(frozen=True)
class FaceBox:
    """Faces W (K, m+1), clipped to the box of a finite radius that a bound is for.

    `beyond` is the violation of the box by each entry given, None for an infinite radius; `broken` is True if
    one is more than the tolerance.
    """

    W: Vector
    radius: float
    beyond: Vector | None
    broken: bool

    @classmethod
    def around(cls, W: Vector, radius: float, tol: float) -> FaceBox:
        """Clip W to a box, which for an infinite radius is ten times the largest entry."""
        radius = positive("radius", radius, infinite=True)
        if np.isinf(radius):
            wider = min(10.0 * float(np.abs(W).max()), float(np.finfo(float).max))
            return cls(W, wider or 1.0, None, False)
        beyond = np.abs(W) - radius
        return cls(np.clip(W, -radius, radius), float(radius), beyond, bool(beyond.max() > tol * radius))

    def residuals(self) -> list[Residual]:
        """Return the violation of the box by each face."""
        if self.beyond is None:
            return []
        return [residual("primal", "box", self.beyond.max(axis=1), self.radius)]

    @property
    def side(self) -> Vector:
        """Signs: 1 if an entry is at R, -1 if it is at -R, else 0."""
        return np.where(is_at_box(self.W, self.radius), np.sign(self.W), 0.0)

    @property
    def stated_size(self) -> dict[str, Any]:
        """The box as in a claim file."""
        return {"kind": "square", "factor": 0, "low": numeral(-self.radius), "high": numeral(self.radius)}

    @property
    def notes(self) -> list[str]:
        """Sentences of a certificate about the box."""
        if self.broken:
            return [_BROKEN]
        if self.beyond is None:
            return [f"The bound is on faces with entries of up to {self.radius:.4g}."]
        return [_BOX_HOLDS] if self.side.any() else []


def is_at_box(W: Vector, radius: float) -> NDArray[np.bool_]:
    """Mark the entries of faces that are at R or at -R, but for rounding."""
    return np.abs(W) >= radius * (1.0 - 1e-9)


def bound_of(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], clip: Callable[[Vector], Vector], box: FaceBox
) -> Ball:
    """Return the best dual value at multipliers M (n, K) made feasible: as they are, balanced, or 0.

    free (n, K): True where a multiplier has room to move.
    clip: makes multipliers keep within their caps.
    """
    best, feasible, lifted = Ball(0.0), clip(M), lift(X)
    for candidate in (feasible, clip(balanced(X, y, feasible, free, box))):
        off = careful_transposed_product(lifted, y[:, None] * candidate)
        found = Ball(candidate).sum() - box.radius * off.absolute().sum()
        if float(found.lower) > max(float(best.lower), 0.0):
            best = found
    return best


def balanced(X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], box: FaceBox) -> Vector:
    """Move the free multipliers as little as balances every entry of W that is not at the box.

    A solver leaves an imbalance within its tolerance, which costs R per unit: much, with large features.
    """
    off, M = pull(X, y[:, None] * M), M.copy()
    for k, rows in enumerate(box.side == 0):
        at = np.flatnonzero(free[:, k])
        if at.size and rows.any():
            chosen = lift(X[at])
            terms = (dense(chosen) * y[at, None]).T[rows]
            size = np.abs(terms).max(axis=1)
            size[size == 0] = 1.0
            M[at, k] -= np.linalg.lstsq(terms / size[:, None], off[k, rows] / size, rcond=None)[0]
    return M


def conditions(
    X: Matrix, y: Vector, M: Vector, unused: Vector, xi: Vector, box: FaceBox, scale: float
) -> list[Residual]:
    """Return signs, imbalance beyond the box's multipliers, and complementarity, relative to `scale`.

    unused, xi (n, K) or (n, 1): the caps less the multipliers, and the slacks.
    """
    largest = float(np.abs(M).max()) or float(unused.max())
    surplus = y[:, None] * scores(X, box.W) - 1.0 + xi
    off, side = pull(X, y[:, None] * M), box.side
    # At R an imbalance off > 0 is the box's multiplier, at -R off < 0; between them none is.
    unexplained = np.where(side == 0, np.abs(off), np.maximum(-side * off, 0.0))
    cancelled = float(pull(abs(X), np.abs(M)).max()) or 1.0  # the terms, not their sum
    found = [
        residual("sign", "margin", -M.min(axis=1), largest),
        residual("sign", "slack", -unused.min(axis=1), largest),
        residual("stationarity", "balance", unexplained.max(axis=1), cancelled),
        residual("complementarity", "margin", np.abs(M * surplus).max(axis=1), scale),
        residual("complementarity", "slack", np.abs(unused * xi).max(axis=1), scale),
    ]
    if box.beyond is not None:
        lost = np.where(side == 0, 0.0, np.abs(off) * (box.radius - np.abs(box.W)))
        found.append(residual("complementarity", "box", lost.max(axis=1), scale))
    return found
