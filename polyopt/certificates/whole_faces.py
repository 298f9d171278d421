"""Certificates of SPLA1, PLUME and the exact Polyceptron whose faces are whole numbers times a scale.

Nothing bounds the machine of whole numbers itself: what is proven is how much they can have cost. The bound
is that of the real program for the same cells, responsibilities or assignment, of all features or of so few a
face: by the tangent of its loss at real faces (:mod:`polyopt.certificates.smooth_tree`), or for the
Polyceptron by its multipliers. The gap to it is at least what the real faces would save.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations import mixture
from formulations.arguments import positive, real_array, tolerance, whole, whole_or_none
from formulations.polyhedral import belonging, check_positives, scores
from formulations.polytope import lift
from formulations.recovery import as_costs, as_data
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.given import checked_faces
from polyopt.certificates.plume import loss_and_slope
from polyopt.certificates.polyhedral_lp import certify_polyceptron
from polyopt.certificates.rounding import UNIT, Ball
from polyopt.certificates.smooth_tree import bound_of_few_faces
from polyopt.certificates.spla1_subset import CellLoss, bounds_of_cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from formulations.matrices import Matrix, MatrixLike, Vector
    from formulations.polyhedral import Positives

__all__ = ["certify_plume_integer", "certify_polyceptron_integer", "certify_spla1_integer"]

_LOSS = "The bound is that of the real program for the same {}: whole numbers have cost no more than the gap."
_FORM = (
    "whole numbers with a smooth loss are bounded at real faces, and claims in files have no such faces: "
    "certificate() evaluates them"
)


class _Numbers(NamedTuple):
    """Whole numbers as faces (K, m+1), how far they are from what is allowed, and whether they are."""

    W: Vector
    off: Residual
    allowed: bool


@np.errstate(over="ignore", invalid="ignore")
def certify_spla1_integer(
    X: MatrixLike, y: ArrayLike, *, integers: ArrayLike, scales: ArrayLike, thresholds: ArrayLike,
    largest: int, real: ArrayLike, ridge: float, C: ArrayLike = 1.0, positives: Positives = "cell",
    n_faces: int | None = None, max_features: int | None = None, trees: Sequence[ArrayLike] | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces δ_k (p_k·x − θ_k) of SPLA1, of whole p_k, against the real ones of the same cells.

    Parameters
    ----------
    X, y, C, ridge, positives, n_faces, tol
        As of :func:`polyopt.certificates.spla1.certify_spla1`; the cells are those of the faces.
    integers : array_like of shape (K, m)
        The numbers p.
    scales, thresholds : array_like of shape (K,)
        δ, positive, and θ.
    largest : int
        M: a number beyond −M to M, or one that is not whole, is not feasible.
    real : array_like of shape (K, m+1)
        Faces whose tangents are the bound: the best real ones for these cells.
    max_features, trees
        As of :func:`polyopt.certificates.spla1_subset.certify_spla1_subset`; without a limit there are none.

    Returns
    -------
    Certificate
        ``suboptimal_by`` what whole numbers can have cost at most, for these cells; where that is within
        `tol`, ``stationary``, or with one face ``optimal``. ``none`` for numbers that are not allowed.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or trees that are none.
    """
    X, y = as_data(X, y)
    check_positives(positives)
    rho, s = positive("ridge", ridge), whole_or_none("max_features", max_features)
    numbers = _checked(X, integers, scales, thresholds, whole("largest", largest), s)
    W, costs = numbers.W, as_costs(C, len(y))
    at = checked_faces("real", real, len(W), X.shape[1] + 1)
    least = len(W) if n_faces is None else whole("n_faces", n_faces, len(W))
    members = belonging(y, np.argmin(scores(X, W), axis=1), len(W), positives)
    weights = costs[:, None] * members
    loss, _ = CellLoss(X, y, weights)(W)
    bounds = bounds_of_cells(X, y, weights, at, X.shape[1] if s is None else s, rho, trees)
    value = loss + (0.5 * rho) * Ball(W).square_sum() + _moved(X, W, costs, rho)
    single, M = least == 1, whole("largest", largest)
    return _concluded("SPLA1", "cells", value, sum(bounds), numbers, M, s, single, tol)


@np.errstate(over="ignore", invalid="ignore")
def certify_plume_integer(
    X: MatrixLike, y: ArrayLike, *, integers: ArrayLike, scales: ArrayLike, thresholds: ArrayLike,
    largest: int, real: ArrayLike, gamma: float, ridge: float, C: ArrayLike = 1.0,
    max_features: int | None = None, tree: ArrayLike | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces δ_k (p_k·x − θ_k) of PLUME, of whole p_k, against real ones at their responsibilities.

    Parameters
    ----------
    X, y, C, gamma, tol
        As of :func:`polyopt.certificates.plume.certify_plume`; the responsibilities are those of the faces.
    ridge : float
        ρ, positive.
    integers, scales, thresholds, largest, real
        As of :func:`certify_spla1_integer`, for the M-step at these responsibilities.
    max_features, tree
        As of :func:`polyopt.certificates.plume_subset.certify_plume_subset`; without a limit there is none.

    Returns
    -------
    Certificate
        As of :func:`certify_spla1_integer`.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or a tree that is none.
    """
    X, y = as_data(X, y)
    mixture.check_model(gamma, ridge)
    rho, s = positive("ridge", ridge), whole_or_none("max_features", max_features)
    numbers = _checked(X, integers, scales, thresholds, whole("largest", largest), s)
    W, costs = numbers.W, as_costs(C, len(y))
    at = checked_faces("real", real, len(W), X.shape[1] + 1)
    R = mixture.responsibilities(X, y, W, gamma)

    def loss(faces: Vector) -> tuple[Ball, Ball]:
        value, slope = loss_and_slope(X, y, faces, R, float(gamma), costs)
        return value, -slope.transposed()

    bound = bound_of_few_faces(loss, at, X.shape[1] if s is None else s, rho, tree)
    value = loss(W)[0] + (0.5 * rho) * Ball(W).square_sum() + _moved(X, W, (1.0 + 2.0 * gamma) * costs, rho)
    return _concluded(
        "PLUME", "responsibilities", value, bound, numbers, whole("largest", largest), s, len(W) == 1, tol
    )


@np.errstate(over="ignore", invalid="ignore")
def certify_polyceptron_integer(
    X: MatrixLike, y: ArrayLike, *, integers: ArrayLike, scales: ArrayLike, thresholds: ArrayLike,
    largest: int, u: ArrayLike, C: ArrayLike = 1.0, assignment: ArrayLike | None = None, radius: float = 1e4,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces δ_k (p_k·x − θ_k) of the exact Polyceptron, of whole p_k, against the real ones.

    Parameters
    ----------
    X, y, C, assignment, radius, tol
        As of :func:`polyopt.certificates.certify_polyceptron`.
    integers, scales, thresholds, largest
        As of :func:`certify_spla1_integer`.
    u : array_like of shape (n, K)
        Multipliers of the real program for this assignment.

    Returns
    -------
    Certificate
        As of :func:`certify_spla1_integer`, for the assignment.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape.
    """
    X, y = as_data(X, y)
    M = whole("largest", largest)
    numbers, costs = _checked(X, integers, scales, thresholds, M, None), as_costs(C, len(y))
    W = numbers.W
    real = certify_polyceptron(X, y, W, C=costs, u=u, assignment=assignment, radius=radius, tol=tol)
    value, single = Ball(real.primal_value) + _moved(X, W, costs, 0.0), len(W) == 1
    found = _concluded(
        "the exact Polyceptron", "assignments of the negatives", value, real.dual_value,
        numbers._replace(allowed=numbers.allowed and real.claim is not Claim.NONE), M, None, single, tol,
    )  # fmt: skip
    return replace(found, evidence=real.evidence)


def _checked(
    X: Matrix, integers: ArrayLike, scales: ArrayLike, thresholds: ArrayLike, M: int, s: int | None
) -> _Numbers:
    p = checked_faces("integers", integers, None, X.shape[1])
    scale, theta = real_array("scales", scales, (len(p),)), real_array("thresholds", thresholds, (len(p),))
    off = np.maximum(np.abs(p - np.round(p)), np.maximum(np.abs(p) - M, 0.0)).max(axis=1)
    few = s is None or ((p != 0).sum(axis=1) <= s).all()
    return _Numbers(
        scale[:, None] * np.column_stack([p, -theta]),
        residual("primal", "integers", np.maximum(off, -scale * (scale <= 0)), 1.0),
        bool(off.max() == 0 and (scale > 0).all() and few),
    )


def _moved(X: Matrix, W: Vector, slopes: Vector, rho: float) -> Ball:
    """What the value can change by, as W is what the numbers make but for one rounding of each entry."""
    reach = float((slopes[:, None] * np.asarray(abs(lift(X)) @ np.abs(W).T)).sum())
    return Ball(0.0, 2.0 * UNIT * (rho * float((W * W).sum()) + reach) * (1.0 + 1e-9))


def _concluded(
    name: str, fixed: str, value: Ball, bound: float, numbers: _Numbers, M: int, s: int | None, single: bool,
    tol: float,
) -> Certificate:  # fmt: skip
    certificate = conclude(
        f"{name} with whole numbers from -{M} to {M}"
        + ("" if s is None else f", at most {s} features a face"),
        value,
        Ball(bound, 8.0 * UNIT * abs(bound)),
        [numbers.off],
        tolerance(tol),
        feasible=numbers.allowed,
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="the real program" if single else f"the real program for these {fixed}",
        notes=[_LOSS.format(fixed), "" if single else f"Other {fixed} may have a lower optimum."],
    )
    return replace(certificate, evidence=without_form(_FORM))
