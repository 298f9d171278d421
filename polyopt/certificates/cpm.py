"""Certificates of the Convex Polytope Machine.

For a fixed assignment the machine is a convex program, and its optimum can be bounded; over the
assignments it is not convex, and nothing here bounds that. A point is called ``stationary`` when it
is optimal for its assignment and no positive sample would gain by another face: a fixed point of
alternating minimisation, and no more. One face alone has one assignment, so it can be ``optimal``.

With loss="sum" the faces are independent hinge programs without intercept on x̃ = (x, 1), each twice
the SVM of cost C/2: values and violations are doubled here. With loss="max" the faces share each
negative's slack, and its multipliers must add up to C_i at most; with margin="worst" they share the
margin budget, and nothing else is different.

A search over the assignments may supply a bound on all of them (:mod:`polyopt.outer.cpm_global`). It is
not proven here, and the certificate says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.polytope import answers, check_loss, lift, natural_assignment, objective, shares
from formulations.recovery import as_costs, as_data
from polyopt.certificates.ascent import ascend
from polyopt.certificates.certificate import Certificate, Claim, Residual, relative_gap, residual
from polyopt.certificates.cpm_point import CpmPoint, bound_of, check_coupled, check_margin, pulls
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.hinge import HingeProgram, certify_hinge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.polytope import Loss
    from polyopt.certificates.cpm_point import Margin

    Vector = NDArray[np.float64]

__all__ = ["certify_cpm"]

_NAME = "the Convex Polytope Machine"
_ROUNDING = 1e-9  # relative, by which a bound may exceed the value of a point
_LARGE = 500_000  # entries of X above which the bound is sought one multiplier at a time


def certify_cpm(
    X: Any,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    *,
    W: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    assignment: ArrayLike | None = None,
    loss: Loss = "sum",
    margin: Margin = "total",
    global_bound: float | None = None,
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
        A bound on the optimum over all assignments, which a search found
        (:func:`polyopt.outer.cpm_global.solve_cpm_global`); for loss="sum" and margin="total".
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Ascent steps spent on the bound of each face when `alpha` is absent and X is not large.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignment and its assignment for it, within
        `tol`; with one face then ``optimal``. Otherwise ``suboptimal_by``, within the fixed
        assignment. With `global_bound` the point is held to that instead: ``optimal`` or
        ``suboptimal_by`` among all assignments, if what searched for the bound is right.

    Raises
    ------
    ValueError
        `global_bound` is above the value of the point, or of the one that `alpha` implies: then it
        bounds another program, or is wrong.
    """
    X, y = as_data(X, y)
    check_loss(loss)
    check_margin(margin)
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    n, m = X.shape
    geometry = LinearGeometry(lift(X))
    if alpha is not None:
        alpha = _matrix("alpha", alpha, (n, None))
    implied = W is None
    if W is None:
        assert alpha is not None
        W = _implied(geometry, y, alpha, margin)
    W = _matrix("W", W, (None if alpha is None else alpha.shape[1], m + 1))
    costs = as_costs(C, n)
    if assignment is None:
        assignment = natural_assignment(X, y, W)
        if alpha is not None:
            assignment = np.where(alpha.max(axis=1) > tol * costs, alpha.argmax(axis=1), assignment)
    point = CpmPoint(geometry, y, costs, answers(y, len(W), assignment), W, alpha, implied)
    residuals: list[Residual] = []
    primal_value = point.value(loss, margin)
    if alpha is None:
        bound = _bound_without_multipliers if margin == "total" else _worst_bound_without_multipliers
        dual_value = bound(point, loss, tol, max_iter)
    elif loss == "sum" and margin == "total":
        dual_value, residuals = _check_sum(point, alpha, tol)
    else:
        dual_value, residuals = check_coupled(point, alpha, loss, margin)
    single = len(W) == 1
    if not single:
        residuals.append(_assignment_residual(point))
    proven = relative_gap(primal_value, dual_value) <= tol and all(r.relative <= tol for r in residuals)
    reached = Claim.OPTIMAL if single else Claim.STATIONARY
    certificate = Certificate(
        program=f"{_NAME}, loss={loss!r}" + (", margin='worst'" if margin == "worst" else ""),
        claim=reached if proven else Claim.SUBOPTIMAL_BY,
        primal_value=primal_value,
        dual_value=dual_value,
        residuals=tuple(residuals),
        tol=tol,
        scope=_NAME if single else "the fixed-assignment program",
        note="" if single else "Another assignment may have a lower optimum.",
    )
    if global_bound is None:
        return certificate
    if (loss, margin) != ("sum", "total"):
        raise ValueError("global_bound is for loss='sum' and margin='total', which the search minimises")
    return _among_all_assignments(certificate, point, float(global_bound))


def _among_all_assignments(certificate: Certificate, point: CpmPoint, bound: float) -> Certificate:
    """The certificate with the bound that a search found, refused where the vectors disprove it."""
    X, y = point.geometry.X[:, :-1], point.y
    value = objective(X, y, point.W, point.C)
    least = value
    if point.alpha is not None:
        implied = _implied(point.geometry, y, point.alpha, "total")
        least = min(least, objective(X, y, implied, point.C))
    if not bound <= least + _ROUNDING * abs(least):
        raise ValueError(
            f"global_bound must be at most {least:.10g}, which a point at hand attains, not {bound!r}: "
            "a bound on another program (other data, C or n_faces), or a wrong one"
        )
    bound = min(bound, value)
    close = relative_gap(value, bound) <= certificate.tol
    sound = all(r.relative <= certificate.tol for r in certificate.residuals)
    return replace(
        certificate,
        claim=Claim.OPTIMAL if close and sound else Claim.SUBOPTIMAL_BY,
        primal_value=value,
        dual_value=bound,
        scope=_NAME,
        note="The bound comes from a search over all assignments, not from these vectors.",
    )


def _implied(geometry: LinearGeometry, y: Vector, alpha: Vector, margin: Margin) -> Vector:
    """The faces W that belong to alpha; 0 where a face's share of the worst-case margin is."""
    v = pulls(geometry, y, alpha)
    if margin == "worst":
        theta = shares(v)[:, None]
        v = np.divide(v, theta, out=np.zeros_like(v), where=theta > 0)
    return 0.5 * v


def _matrix(name: str, values: ArrayLike, shape: tuple[int | None, int | None]) -> Vector:
    matrix = np.asarray(values, dtype=float)
    fits = matrix.ndim == 2 and all(
        want in (None, have) for want, have in zip(shape, matrix.shape, strict=True)
    )
    if not fits or not np.isfinite(matrix).all():
        wanted = " x ".join("K" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must be finite, of shape {wanted}; its shape is {matrix.shape}")
    return matrix


def _assignment_residual(point: CpmPoint) -> Residual:
    """By how much a positive's hinge would fall on its best face."""
    hinge, positive = point.hinge, point.y > 0
    gain = np.where(positive, (hinge * point.Z).sum(axis=1) - hinge.min(axis=1), 0.0)
    return residual("stationarity", "assignment", gain, 1.0)


def _check_sum(point: CpmPoint, alpha: Vector, tol: float) -> tuple[float, list[Residual]]:
    """One hinge program per face; their bounds add up."""
    bound, residuals = 0.0, []
    for k, (w, costs) in enumerate(zip(point.W, point.costs.T, strict=True)):
        v = None if point.implied else w
        certificate = certify_hinge(_face(point, costs), v=v, alpha=alpha[:, k] / 2, tol=tol)
        bound += 2 * certificate.dual_value
        residuals += [replace(r, row=f"{r.row}(face {k})", value=2 * r.value) for r in certificate.residuals]
    return bound, residuals


def _bound_without_multipliers(point: CpmPoint, loss: Loss, tol: float, max_iter: int) -> float:
    """The sum of the faces' bounds, each by ascent on its own dual.

    With loss="max" they are made independent: the largest hinge of a negative is at least any
    weighted mean of its hinges, so its cost may be split between the faces, here between those that
    it violates most.
    """
    parts, hinge = point.Z, point.hinge
    if loss == "max":
        worst = hinge >= hinge.max(axis=1, keepdims=True) - 1e-6
        parts = np.where((point.y < 0)[:, None], worst / worst.sum(axis=1, keepdims=True), point.Z)
    X, costs = point.geometry.X, point.C[:, None] * parts
    if X.shape[0] * X.shape[1] > _LARGE:
        from polyopt.certificates.coordinate import climb

        alpha = climb(
            X[:, :-1],
            point.y,
            costs if loss == "max" else point.C,
            len(point.W),
            point.Z.argmax(axis=1),
            point.value(loss),
            tol,
        )
        return float(alpha.sum() - 0.25 * (pulls(point.geometry, point.y, alpha) ** 2).sum())
    bound = 0.0
    for w, face_costs in zip(point.W, costs.T, strict=True):
        program, f = _face(point, face_costs), point.geometry.scores(w)
        dual = ascend(program, w, f, program.primal_value(w, f), tol, max_iter)
        bound += 2 * program.dual_value(program.repair(dual))
    return bound


def _worst_bound_without_multipliers(point: CpmPoint, loss: Loss, tol: float, max_iter: int) -> float:
    """The dual program's value, at its solution made feasible; the coupled faces leave no simpler way."""
    from formulations.cpm_worst import fixed_assignment_dual

    X, y, Z = point.geometry.X[:, :-1], point.y, point.Z
    found = fixed_assignment_dual(X, y, len(point.W), Z.argmax(axis=1), point.C, loss).solve()
    alpha = found["alpha"] if found.primal else np.zeros_like(Z)
    return bound_of(point, alpha, loss, "worst")


def _face(point: CpmPoint, costs: Vector) -> HingeProgram:
    return HingeProgram("a face", point.geometry, point.y, costs / 2, intercept=False)
