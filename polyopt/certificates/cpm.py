"""Certificates of the Convex Polytope Machine.

For a fixed assignment the machine is a convex program, and its optimum can be bounded; over the
assignments it is not convex, and nothing here bounds that. A point is called ``stationary`` when it
is optimal for its assignment and no positive sample would gain by another face: a fixed point of
alternating minimisation, and no more. One face alone has one assignment, so it can be ``optimal``.

With loss="sum" the faces are independent hinge programs without intercept on x̃ = (x, 1), each twice
the SVM of cost C/2: values and violations are doubled here. With loss="max" the faces share each
negative's slack, and its multipliers must add up to C_i at most.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.polytope import answers, check_loss, lift, natural_assignment
from formulations.recovery import as_costs, as_data, slacks
from polyopt.certificates.ascent import ascend
from polyopt.certificates.certificate import Certificate, Claim, Residual, relative_gap, residual
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.hinge import HingeProgram, certify_hinge

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.polytope import Loss

    Vector = NDArray[np.float64]

__all__ = ["certify_cpm"]

_NAME = "the Convex Polytope Machine"
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
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Ascent steps spent on the bound of each face when `alpha` is absent and X is not large.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignment and its assignment for it, within
        `tol`; with one face then ``optimal``. Otherwise ``suboptimal_by``, within the fixed
        assignment.
    """
    X, y = as_data(X, y)
    check_loss(loss)
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    n, m = X.shape
    geometry = LinearGeometry(lift(X))
    if alpha is not None:
        alpha = _matrix("alpha", alpha, (n, None))
    implied = W is None
    if W is None:
        assert alpha is not None
        W = 0.5 * _pulls(geometry, y, alpha)
    W = _matrix("W", W, (None if alpha is None else alpha.shape[1], m + 1))
    costs = as_costs(C, n)
    if assignment is None:
        assignment = natural_assignment(X, y, W)
        if alpha is not None:
            assignment = np.where(alpha.max(axis=1) > tol * costs, alpha.argmax(axis=1), assignment)
    point = _Point(geometry, y, costs, answers(y, len(W), assignment), W, alpha, implied)
    residuals: list[Residual] = []
    primal_value = point.value(loss)
    if alpha is None:
        dual_value = _bound_without_multipliers(point, loss, tol, max_iter)
    else:
        dual_value, residuals = (_check_sum if loss == "sum" else _check_max)(point, alpha, tol)
    single = len(W) == 1
    if not single:
        residuals.append(_assignment_residual(point))
    proven = relative_gap(primal_value, dual_value) <= tol and all(r.relative <= tol for r in residuals)
    reached = Claim.OPTIMAL if single else Claim.STATIONARY
    return Certificate(
        program=f"{_NAME}, loss={loss!r}",
        claim=reached if proven else Claim.SUBOPTIMAL_BY,
        primal_value=primal_value,
        dual_value=dual_value,
        residuals=tuple(residuals),
        tol=tol,
        scope=_NAME if single else "the fixed-assignment program",
        note="" if single else "Another assignment may have a lower optimum.",
    )


def _matrix(name: str, values: ArrayLike, shape: tuple[int | None, int | None]) -> Vector:
    matrix = np.asarray(values, dtype=float)
    fits = matrix.ndim == 2 and all(
        want in (None, have) for want, have in zip(shape, matrix.shape, strict=True)
    )
    if not fits or not np.isfinite(matrix).all():
        wanted = " x ".join("K" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must be finite, of shape {wanted}; its shape is {matrix.shape}")
    return matrix


@dataclass(frozen=True)
class _Point:
    """A point to certify, with its data: W (K, m+1), alpha (n, K) or None, Z (n, K)."""

    geometry: LinearGeometry
    y: Vector
    C: Vector
    Z: Vector
    W: Vector
    alpha: Vector | None
    implied: bool  # W is what alpha implies

    @cached_property
    def hinge(self) -> Vector:
        """[1 − y_i W_k·x̃_i]_+, shape (n, K)."""
        return slacks(np.asarray(self.geometry.X @ self.W.T), self.y[:, None])

    @property
    def costs(self) -> Vector:
        """C_i Z_ik, shape (n, K)."""
        return self.C[:, None] * self.Z

    def value(self, loss: Loss) -> float:
        """The objective for the assignment."""
        hinge = self.hinge * self.Z
        paid = (
            np.where(self.y < 0, hinge.max(axis=1), hinge.sum(axis=1)) if loss == "max" else hinge.sum(axis=1)
        )
        return float((self.W**2).sum() + self.C @ paid)


def _pulls(geometry: LinearGeometry, y: Vector, alpha: Vector) -> Vector:
    """Σ_i α_ik y_i x̃_i for every face, shape (K, m+1)."""
    return np.asarray(geometry.X.T @ (alpha * y[:, None])).T


def _assignment_residual(point: _Point) -> Residual:
    """By how much a positive's hinge would fall on its best face."""
    hinge, positive = point.hinge, point.y > 0
    gain = np.where(positive, (hinge * point.Z).sum(axis=1) - hinge.min(axis=1), 0.0)
    return residual("stationarity", "assignment", gain, 1.0)


def _check_sum(point: _Point, alpha: Vector, tol: float) -> tuple[float, list[Residual]]:
    """One hinge program per face; their bounds add up."""
    bound, residuals = 0.0, []
    for k, (w, costs) in enumerate(zip(point.W, point.costs.T, strict=True)):
        v = None if point.implied else w
        certificate = certify_hinge(_face(point, costs), v=v, alpha=alpha[:, k] / 2, tol=tol)
        bound += 2 * certificate.dual_value
        residuals += [replace(r, row=f"{r.row}(face {k})", value=2 * r.value) for r in certificate.residuals]
    return bound, residuals


def _check_max(point: _Point, alpha: Vector, tol: float) -> tuple[float, list[Residual]]:
    """One program, its multipliers clipped to their caps and then shrunk to a negative's shared one."""
    feasible = np.clip(alpha, 0.0, point.costs)
    total = feasible.sum(axis=1)
    feasible *= np.divide(point.C, total, out=np.ones_like(total), where=total > point.C)[:, None]
    bound = float(feasible.sum() - 0.25 * (_pulls(point.geometry, point.y, feasible) ** 2).sum())
    return bound, _residuals_max(point, alpha)


def _bound_without_multipliers(point: _Point, loss: Loss, tol: float, max_iter: int) -> float:
    """The sum of the faces' bounds, each by ascent on its own dual.

    With loss="max" they are made independent: the largest hinge of a negative is at least any
    weighted mean of its hinges, so its cost may be split between the faces, here between those that
    it violates most.
    """
    shares, hinge = point.Z, point.hinge
    if loss == "max":
        worst = hinge >= hinge.max(axis=1, keepdims=True) - 1e-6
        shares = np.where((point.y < 0)[:, None], worst / worst.sum(axis=1, keepdims=True), point.Z)
    X, costs = point.geometry.X, point.C[:, None] * shares
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
        return float(alpha.sum() - 0.25 * (_pulls(point.geometry, point.y, alpha) ** 2).sum())
    bound = 0.0
    for w, face_costs in zip(point.W, costs.T, strict=True):
        program, f = _face(point, face_costs), point.geometry.scores(w)
        dual = ascend(program, w, f, program.primal_value(w, f), tol, max_iter)
        bound += 2 * program.dual_value(program.repair(dual))
    return bound


def _face(point: _Point, costs: Vector) -> HingeProgram:
    return HingeProgram("a face", point.geometry, point.y, costs / 2, intercept=False)


def _residuals_max(point: _Point, alpha: Vector) -> list[Residual]:
    """The optimality conditions of the program whose negatives have one slack for all faces."""
    y, negative = point.y[:, None], point.y < 0
    largest = float(np.abs(alpha).max()) or float(point.C.max())
    xi = np.where(negative[:, None], point.hinge.max(axis=1, keepdims=True), point.hinge)
    surplus = y * np.asarray(point.geometry.X @ point.W.T) - 1.0 + xi
    pulls = _pulls(point.geometry, point.y, alpha)
    # The faces share multipliers, and one that needs none is zero but for what the others' rounding is.
    weight = max(
        float(np.abs(2 * point.W).max()),
        float(np.abs(pulls).max()),
        1e-8 * max(point.geometry.pull_scale(column * point.y) for column in alpha.T),
    )
    found = []
    for k in range(len(point.W)):
        found.append(residual("sign", f"margin(face {k})", -alpha[:, k], largest))
        if not point.implied:
            found.append(residual("stationarity", f"w(face {k})", np.abs(2 * point.W[k] - pulls[k]), weight))
        found.append(
            residual("complementarity", f"margin(face {k})", np.abs(alpha[:, k] * surplus[:, k]), largest)
        )
    beta = np.where(negative[:, None], (point.C - alpha.sum(axis=1))[:, None], point.costs - alpha)
    found.append(residual("sign", "slack", -beta.min(axis=1), largest))
    found.append(residual("complementarity", "slack", np.abs(beta * xi).max(axis=1), largest))
    return found
