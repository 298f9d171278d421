"""Certificates of the Convex Polytope Machine with hard margins, programs (1) to (5), for an assignment.

A face is given by its direction: for any length its margin is ζ_k = min_i y_i W_k·x̃_i / ‖W_k‖ over the
samples that it answers for, and the face of (3) to (5) has the norm 1/ζ_k. So are multipliers.
With v_k = Σ_i α_ik y_i x̃_i and a_k = Σ_i α_ik, any α ≥ 0 proves

    ζ_k ≤ ‖v_k‖ / a_k                       a face, so Σ_k ζ_k ≤ Σ_k ‖v_k‖ / a_k and
                                            Σ_k 1/ζ_k² ≥ Σ_k a_k² / ‖v_k‖²
    min_k ζ_k ≤ Σ_k ‖v_k‖ / Σ_k a_k         the worst case,

since a_k ζ_k ≤ Σ_i α_ik y_i W_k·x̃_i = W_k·v_k ≤ ‖v_k‖ where ‖W_k‖ = 1. At an optimum they are equal, the
face points along v_k, and a sample with a multiplier has the face's margin. Where v_k = 0 exactly, which is
checked in rational arithmetic, no face separates: (3) to (5) are infeasible.

(2) as printed, where negatives have one face each, has the certificate of its optimality conditions alone
(:func:`polyopt.certificates.kkt.certify_program`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import Families, margin_family
from formulations.language.arguments import one_of, tolerance
from formulations.language.recovery import as_data
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import assignment_matrix, lift, margin_weights, natural_assignment
from polyopt.certificates.certificate import (
    Certificate,
    Claim,
    Residual,
    conclude,
    conclude_infeasible,
    residual,
)
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.points import checked_faces
from polyopt.cpm.certificate import Margin
from polyopt.linalg.rounding import ABOVE, Ball, product, transposed_product
from polyopt.margin.certificate import HingeProgram, find_ray
from polyopt.margin.geometry import LinearGeometry

Measure = Literal["norms", "margins"]

_NAME = "the Convex Polytope Machine with hard margins"
_BY_DIRECTION = (
    "hard margins are certified by the directions of faces and of multipliers, and claims in files are of "
    "faces that have a length"
)


def certify_cpm_hard(
    X: MatrixLike,
    y: ArrayLike,
    *,
    W: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    assignment: ArrayLike | None = None,
    margin: Margin = "total",
    measure: Measure = "norms",
    tol: float = 1e-6,
) -> Certificate:
    """Certify faces with hard margins, programs (1) to (5) of Kantchelian et al. (2014), for an assignment.

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        The training data.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    W : array_like of shape (K, m+1), optional
        Faces, the bias last, of any length: each is scaled to its margin. By default what `alpha` implies.
    alpha : array_like of shape (n, K), optional
        Multipliers, non-negative, of any scale. At least one of `W` and `alpha` is needed; without `alpha`
        the dual program is solved for them.
    assignment : array_like of int, shape (n,), optional
        The face of each positive. By default the best one for `W`, or the one whose multiplier is largest.
    margin : {"total", "worst"}
        Whether all faces count, or the one with the least margin.
    measure : {"norms", "margins"}
        The value: "norms", (4)-(5), Σ ‖W_k‖² or max ‖W_k‖² at margins of 1; "margins", (1) to (3), Σ ζ_k
        or min ζ_k at norms of 1, which is maximised.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        ``stationary`` if the faces are optimal for the assignment, within `tol`; with one face ``optimal``.
        ``infeasible`` if the multipliers of a face are a ray, proven in rational arithmetic.

    Raises
    ------
    ValueError
        Neither `W` nor `alpha`, or anything given that is not finite, real and of its shape.
    """
    X, y = as_data(X, y)
    one_of("margin", margin, ("total", "worst"))
    one_of("measure", measure, ("norms", "margins"))
    tol = tolerance(tol)
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    n, m = X.shape
    given = None if alpha is None else checked_faces("alpha", alpha, n, None)
    faces = None if W is None else checked_faces("W", W, None if given is None else given.shape[1], m + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        point = _point(X, y, faces, given, assignment, margin)
        found = _certificate(point, given is not None, margin, measure, tol)
    return replace(found, evidence=without_form(_BY_DIRECTION))


@dataclass(frozen=True)
class _Point:
    """Faces and multipliers with their data, values and bounds as balls."""

    X: Matrix  # lifted
    y: Vector
    Z: Vector
    W: Vector
    alpha: Vector
    implied: bool  # W is what alpha implies
    least: Ball  # min_i y_i W_k·x̃_i, (K,)
    lengths: Ball  # ‖W_k‖
    pulls: Vector  # v_k
    pull_lengths: Ball  # ‖v_k‖, of the multipliers made feasible
    weights: Ball  # a_k, of the same


def _point(
    X: Matrix, y: Vector, W: Vector | None, alpha: Vector | None, assignment: ArrayLike | None, margin: Margin
) -> _Point:
    implied = W is None
    if W is not None:
        K, natural = len(W), natural_assignment(X, y, W)
    else:
        assert alpha is not None
        K, natural = alpha.shape[1], alpha.argmax(axis=1)
    Z = assignment_matrix(y, K, natural if assignment is None else assignment)
    if alpha is None:
        alpha = _solve_dual(X, y, Z, margin)
    alpha = _in_unit(alpha, axis=None)
    lifted = lift(X)
    feasible = np.where(Z > 0, np.maximum(alpha, 0.0), 0.0)
    pulled = transposed_product(lifted, feasible * y[:, None])
    pulls = np.asarray(lifted.T @ (alpha * y[:, None])).T
    W = _in_unit(pulls if W is None else W, axis=1)
    outputs = product(lifted, W.T).signed(y[:, None])
    least = -Ball(np.where(Z > 0, -outputs.mid, -np.inf), np.where(Z > 0, outputs.rad, 0.0)).max(axis=0)
    return _Point(
        lifted, y, Z, W, alpha, implied, least, _lengths(Ball(W.T)), pulls,
        _lengths(pulled), Ball(feasible).sum(axis=0),
    )  # fmt: skip


def _in_unit(vectors: Vector, axis: int | None) -> Vector:
    """Scale vectors by powers of 2, which round nothing, to largest entries of about 1.

    Entries whose squares would vanish become 0: in a face they are rounding, and fewer multipliers give a
    weaker bound.
    """
    exponent = np.frexp(np.abs(vectors).max(axis=axis, initial=0.0, keepdims=True))[1]
    found = np.ldexp(vectors, -exponent)
    return np.where(np.abs(found) < 1e-100, 0.0, found)


def _lengths(columns: Ball) -> Ball:
    """Return the norms of the columns, at any scale."""
    exponent = np.frexp(columns.size.max(axis=0))[1]
    found = Ball(np.ldexp(columns.mid, -exponent), np.ldexp(columns.rad, -exponent)).norm(axis=0)
    return Ball(np.ldexp(found.mid, exponent), np.ldexp(found.rad, exponent))


def _solve_dual(X: Matrix, y: Vector, Z: Vector, margin: Margin) -> Vector:
    """Return multipliers from the dual of (2), which always has an optimum; 0 if no solver left any."""
    from formulations import cpm_margins

    make = cpm_margins.total_dual if margin == "total" else cpm_margins.worst_dual
    found = make(X, y, Z.shape[1], Z.argmax(axis=1)).solve()
    alpha = found.primal.get("alpha", np.zeros_like(Z))
    return np.where(alpha > 1e-9 * np.abs(alpha).max(initial=0.0), alpha, 0.0)


def _certificate(point: _Point, given: bool, margin: Margin, measure: Measure, tol: float) -> Certificate:
    residuals = [_separation(point)]
    if given:
        residuals += _conditions(point, margin)
    if any(_is_ray(point, k) for k in range(len(point.W))):
        return conclude_infeasible(_NAME, np.inf, residuals, tol)
    reached, most = _margins(point, margin), _most(point, margin)
    value = _stated(*reached, measure)
    bound = _stated(*most, measure)
    single, separates = len(point.W) == 1, bool((point.least.lower > 0.0).all())
    notes = ["" if separates else "A face does not separate the samples that it answers for."]
    notes += [] if single else ["Another assignment may be better."]
    found = conclude(
        f"{_NAME}, {margin} margin",
        value,
        bound,
        residuals,
        tol,
        feasible=separates,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope=_NAME if single else "the fixed-assignment program",
        notes=notes,
    )
    if measure == "norms":
        return found
    return replace(found, primal_value=-found.primal_value, dual_value=-found.dual_value, sense="maximise")


def _margins(point: _Point, margin: Margin) -> tuple[Vector, Vector]:
    """Return the faces' margins, or the least of them: as computed, and lower bounds."""
    ends = _ratio(point.least.mid, point.lengths.mid), _ratio(point.least.lower, point.lengths.upper) / ABOVE
    ends = ends[0], np.where(ends[1] > 0.0, ends[1], 0.0)
    return ends if margin == "total" else (ends[0].min(keepdims=True), ends[1].min(keepdims=True))


def _most(point: _Point, margin: Margin) -> tuple[Vector, Vector]:
    """Return the upper bounds on the margins from the multipliers: as computed, and at most."""
    v, a = point.pull_lengths, point.weights
    if margin == "worst":
        v, a = Ball([v.sum().mid], [v.sum().rad]), Ball([a.sum().mid], [a.sum().rad])
    return _ratio(v.mid, a.mid), _ratio(v.upper, a.lower) * ABOVE


def _ratio(above: Vector, below: Vector) -> Vector:
    """Return the quotients; infinity if the divisor is not positive."""
    found: Vector = np.divide(above, below, out=np.full(len(above), np.inf), where=below > 0.0)
    return found


def _stated(margins: Vector, surely: Vector, measure: Measure) -> Ball:
    """Return the minimised value, with a radius that covers the value at `surely`."""
    with np.errstate(divide="ignore"):
        value, safe = (
            float(np.sum(-each if measure == "margins" else 1.0 / np.square(np.maximum(each, 0.0))))
            for each in (margins, surely)
        )
    if not (np.isfinite(value) and np.isfinite(safe)):
        return Ball(safe)
    return Ball(value, abs(safe - value) * ABOVE)


def _separation(point: _Point) -> Residual:
    """Return the largest distance of a sample on the wrong side of a face that answers for it."""
    return residual("primal", "margin", -_ratio(point.least.mid, point.lengths.mid), 1.0)


def _conditions(point: _Point, margin: Margin) -> list[Residual]:
    """Return sign, direction and complementarity of the multipliers, each in units of its own face."""
    alpha, v, found = point.alpha, point.pulls, []
    lengths, largest = np.linalg.norm(v, axis=1), float(np.abs(alpha).max()) or 1.0
    theta = np.ones(len(v)) if margin == "total" else margin_weights(v)
    off = np.where(point.Z > 0, 0.0, np.abs(alpha))
    outputs = point.y[:, None] * np.asarray(point.X @ point.W.T)
    for k, (w, scale) in enumerate(zip(point.W, point.lengths.mid, strict=True)):
        found.append(residual("sign", f"margin(face {k})", np.maximum(-alpha[:, k], off[:, k]), largest))
        along = v[k] / (lengths[k] or 1.0)
        if not point.implied:
            found.append(
                residual("stationarity", f"w(face {k})", theta[k] * np.abs(w / (scale or 1.0) - along), 1.0)
            )
        beyond = (outputs[:, k] - point.least.mid[k]) / (abs(float(point.least.mid[k])) or 1.0)
        used = np.abs(alpha[:, k] * beyond) * (point.Z[:, k] > 0)
        found.append(residual("complementarity", f"margin(face {k})", used, largest))
    if margin == "worst":
        zeta = _ratio(point.least.mid, point.lengths.mid)
        spare = theta * (1.0 - zeta.min() / np.where(zeta > 0.0, zeta, np.inf))
        found.append(residual("complementarity", "norm", spare, 1.0))
    return found


def _is_ray(point: _Point, k: int) -> bool:
    """Test if the multipliers of face k are a ray, so that no face separates its samples."""
    own = point.Z[:, k] > 0
    alpha = np.where(own, np.maximum(point.alpha[:, k], 0.0), 0.0)
    rows = Families(margin_family(point.y, np.where(own, np.inf, 0.0)))
    program = HingeProgram("a face", LinearGeometry(point.X), rows, intercept=False)
    return find_ray(program, alpha[None, :]) is not None
