"""Certificates of the union of polytopes.

For fixed assignments the machine is a convex program, which falls into one for each face: its optimum is
bounded as that of one Convex Polytope Machine with loss="sum" is, whose costs differ from face to face. Over
the assignments it is not convex, and nothing here bounds that. A point is ``stationary`` when it is optimal
for its assignments, no sample inside would pay less in another piece, and no sample outside less on another
face of a piece. One piece of one face has one assignment, so it can be ``optimal``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import tolerance, whole
from formulations.polytope import lift
from formulations.recovery import as_costs, as_data
from formulations.union import best_faces, best_pieces, check_pieces, per_piece, union_answers
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.faces import state_cpm
from polyopt.certificates.claims.statement import Evidence
from polyopt.certificates.coordinate_climb import climb
from polyopt.certificates.cpm import check_faces, climbed_faces
from polyopt.certificates.cpm_point import CpmPoint, bound_of, pulls
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.given import checked_faces

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector

    Integers = NDArray[np.int64]

__all__ = ["certify_cpm_union"]

_NAME = "the union of polytopes"
_LARGE = 500_000  # entries of X above which the bound is sought one multiplier at a time
_OTHERS = "Other assignments may have a lower optimum."


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_union(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    *,
    pieces: ArrayLike,
    W: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    inside: ArrayLike | None = None,
    outside: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> Certificate:
    """Certify a point of the union of polytopes (:mod:`formulations.cpm_union`).

    Parameters
    ----------
    X : array_like or CSR of shape (n, m)
        The training data.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample.
    pieces : array_like of int, shape (K,)
        The piece of each face, from 0; faces of a piece side by side.
    W : array_like of shape (K, m+1), optional
        Faces, the bias last. By default what `alpha` implies.
    alpha : array_like of shape (n, K), optional
        Multipliers of the margin rows, non-negative. At least one of `W` and `alpha` is needed; without
        `alpha` a dual bound is built.
    inside : array_like of int, shape (n,), optional
        The piece of each sample inside; the entries of others are ignored. By default the best for W.
    outside : array_like of int, shape (n, D), optional
        For each sample outside a face of every piece; the entries of others are ignored. By default the best
        for W.
    tol : float
        Relative tolerance for the gap and for every residual.
    max_iter : int
        Ascent steps spent on the bound of each face when `alpha` is absent and X is not large.

    Returns
    -------
    Certificate
        ``stationary`` if the point is optimal for its assignments and they for it, within `tol`; with one
        piece of one face then ``optimal``. Otherwise ``suboptimal_by``, within the fixed assignments.

    Raises
    ------
    ValueError
        Neither `W` nor `alpha`, or anything given that is not finite, real and of its shape.
    """
    X, y = as_data(X, y)
    if W is None and alpha is None:
        raise ValueError("a certificate needs a primal point (W), multipliers (alpha), or both")
    tol, max_iter, kinds = tolerance(tol), whole("max_iter", max_iter, 0), check_pieces(pieces)
    n, m = X.shape
    geometry, implied = LinearGeometry(lift(X)), W is None
    given = None if alpha is None else checked_faces("alpha", alpha, n, len(kinds))
    if W is None:
        assert given is not None
        W = 0.5 * pulls(geometry, y, given)
    W = checked_faces("W", W, len(kinds), m + 1)
    outputs = np.asarray(geometry.X @ W.T)
    Z = union_answers(
        y, kinds, best_pieces(outputs, kinds) if inside is None else inside,
        best_faces(outputs, kinds) if outside is None else outside,
    )  # fmt: skip
    point = CpmPoint(geometry, y, as_costs(C, n), Z, W, given, implied)
    residuals: list[Residual] = []
    if given is None:
        used = _multipliers_by_ascent(point, kinds, tol, max_iter)
        dual_value = bound_of(point, used, "sum", "total")
    else:
        used = given
        dual_value, residuals = check_faces(point, given, tol)
    single = len(kinds) == 1
    if not single:
        residuals += _assignment_residuals(point, kinds)
    certificate = conclude(
        _NAME, point.value("sum"), dual_value, residuals, tol,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope=_NAME if single else "the program for these assignments",
        notes=[] if single else [_OTHERS],
    )  # fmt: skip
    return replace(certificate, evidence=(Evidence(partial(state_cpm, point, used)),))


def _assignment_residuals(point: CpmPoint, pieces: Integers) -> list[Residual]:
    """By how much a sample's hinges would fall in its best piece, or on its best faces."""
    hinge, within = point.hinge, point.y < 0
    own = (hinge * point.Z).sum(axis=1)
    inside = own - per_piece(hinge, pieces, np.add).min(axis=1)
    outside = own - per_piece(hinge, pieces, np.minimum).sum(axis=1)
    return [
        residual("stationarity", "pieces", np.where(within, inside, 0.0), 1.0),
        residual("stationarity", "faces", np.where(within, 0.0, outside), 1.0),
    ]


def _multipliers_by_ascent(point: CpmPoint, pieces: Integers, tol: float, max_iter: int) -> Vector:
    """Multipliers that ascent on the dual of each face finds."""
    X, costs = point.geometry.X, point.costs
    if X.shape[0] * X.shape[1] <= _LARGE:
        return climbed_faces(point, costs, tol, max_iter)
    # The faces of a piece see its own samples inside, and all of those outside, each on one of them.
    alpha = np.zeros_like(costs)
    for d in range(int(pieces[-1]) + 1):
        faces = np.flatnonzero(pieces == d)
        rows = np.flatnonzero(costs[:, faces].any(axis=1))
        own = point.Z[np.ix_(rows, faces)]
        value = float((point.W[faces] ** 2).sum() + (costs[:, faces] * point.hinge[:, faces]).sum())
        alpha[np.ix_(rows, faces)] = climb(
            X[rows][:, :-1], point.y[rows], point.C[rows], len(faces), own.argmax(axis=1), value, tol
        )
    return alpha
