"""Certificates of Convex Polytope Machines whose faces are whole numbers times a scale.

Nothing bounds the machine of whole numbers itself: what is proven is how much they can have cost. The bound
is that of the real program for the same assignment, of all features or of so few a face, and the gap to it is
at least what the real faces would save.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import real_array, tolerance, whole, whole_or_none
from formulations.language.recovery import as_costs, as_data
from formulations.polytope import answers, lift, natural_assignment
from polyopt.certificates.certificate import Certificate, Claim, conclude, residual
from polyopt.certificates.claims.statement import Evidence, without_form
from polyopt.certificates.points import checked_faces
from polyopt.cpm.certificate_few_features import FEW, bound_of_few
from polyopt.cpm.claim import state_integers
from polyopt.cpm.point import CpmPoint, assignment_residual, bound_of
from polyopt.linalg.rounding import UNIT, Ball
from polyopt.margin.geometry import LinearGeometry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from formulations.language.types import MatrixLike, Vector

__all__ = ["certify_cpm_integer"]

_LOSS = (
    "The bound is that of the real program for the same assignment: whole numbers have cost no more than the "
    "gap."
)
_ELSE = "Another assignment may have a lower optimum."


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_integer(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    *,
    integers: ArrayLike,
    scales: ArrayLike,
    thresholds: ArrayLike,
    largest: int,
    alpha: ArrayLike,
    assignment: ArrayLike | None = None,
    max_features: int | None = None,
    trees: Sequence[ArrayLike] | None = None,
    tol: float = 1e-6,
) -> Certificate:
    """Certify faces δ_k (p_k·x − θ_k) of whole p_k against the real ones of the same assignment; loss="sum".

    integers (K, m): the numbers p.
    scales, thresholds (K,): δ, positive, and θ.
    largest: M: a number beyond −M to M, or one that is not whole, is not feasible.
    alpha (n, K): multipliers of the real program's margin rows.
    assignment (n,): the face of each positive. By default the best for the faces.
    max_features: features of each face at most.
    trees: with `max_features`, as of :func:`polyopt.cpm.certificate_few_features.certify_cpm_subset`.
    Returns: ``suboptimal_by`` what whole numbers can have cost at most, for this assignment; where that is
        within `tol`, ``stationary``, or with one face ``optimal``. ``none`` for numbers that are not allowed.
    """
    X, y = as_data(X, y)
    tol, M, s = tolerance(tol), whole("largest", largest), whole_or_none("max_features", max_features)
    n, m = X.shape
    p = checked_faces("integers", integers, None, m)
    K = len(p)
    scale, theta = real_array("scales", scales, (K,)), real_array("thresholds", thresholds, (K,))
    given = checked_faces("alpha", alpha, n, K)
    W = scale[:, None] * np.column_stack([p, -theta])
    if assignment is None:
        assignment = natural_assignment(X, y, W)
    costs = as_costs(C, n)
    point = CpmPoint(LinearGeometry(lift(X)), y, costs, answers(y, K, assignment), W, given, False)
    if s is None:
        bound = bound_of(point, given, "sum", "total")
    else:
        bound = Ball(np.array(bound_of_few(point, s, trees))).sum()
    off, few = np.abs(p - np.round(p)), (p != 0).sum(axis=1)
    beyond = np.maximum(off, np.maximum(np.abs(p) - M, 0.0)).max(axis=1)
    residuals = [residual("primal", "integers", np.maximum(beyond, -scale * (scale <= 0)), 1.0)]
    single = K == 1
    if not single:
        residuals.append(assignment_residual(point))
    # W is what the numbers make but for one rounding of each entry.
    moved = 2.0 * UNIT * float(np.abs(W).sum() * (2.0 * np.abs(W).max(initial=0.0)) + _reach(point, W))
    certificate = conclude(
        f"the Convex Polytope Machine with whole numbers from -{M} to {M}"
        + ("" if s is None else f", at most {s} features a face"),
        point.value("sum") + Ball(0.0, moved),
        bound,
        residuals,
        tol,
        feasible=bool(beyond.max() == 0 and (scale > 0).all() and (s is None or (few <= s).all())),
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="the real program" if single else "the real program for this assignment",
        notes=[_LOSS, "" if single else _ELSE],
    )
    if s is not None:
        return replace(certificate, evidence=without_form(FEW))
    if certificate.claim is Claim.NONE:
        return certificate
    stated = partial(state_integers, point, given, p, scale, theta, M)
    return replace(certificate, evidence=(Evidence(stated),))


def _reach(point: CpmPoint, W: Vector) -> float:
    """The largest change of all losses, relative to a relative change of the faces' entries."""
    sizes = np.asarray(abs(point.geometry.X) @ np.abs(W).T)
    return float((point.costs * sizes).sum())
