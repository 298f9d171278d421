"""Certificates of PLUME whose faces have few features.

For fixed responsibilities R the convex majorant G(W; R) touches the negative log-likelihood at the W whose
responsibilities they are (:mod:`polyopt.certificates.plume`). With at most s features a face it is a program
over all choices of them (:mod:`formulations.plume_subset`), and what bounds it is a search tree over the
features of all faces, evaluated anew from the data (:mod:`polyopt.certificates.smooth_tree`), or where none
is given its root alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations import mixture
from formulations.arguments import positive, tolerance, whole
from formulations.recovery import as_costs, as_data
from polyopt.certificates import smooth_tree
from polyopt.certificates.certificate import Certificate, Claim, conclude
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.cpm_subset import FEW
from polyopt.certificates.given import checked_faces
from polyopt.certificates.plume import loss_and_slope
from polyopt.certificates.rounding import Ball

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.matrices import MatrixLike, Vector

__all__ = ["certify_plume_subset"]

_OTHERS = "Other responsibilities may have a lower optimum."


@np.errstate(over="ignore", invalid="ignore")
def certify_plume_subset(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, max_features: int, gamma: float, ridge: float,
    C: ArrayLike = 1.0, tree: ArrayLike | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of PLUME of at most s features each, among all such faces for their responsibilities.

    Parameters
    ----------
    X, y, W, gamma, C, tol
        As of :func:`polyopt.certificates.plume.certify_plume`. A face of more features is not feasible.
    max_features : int
        s, at least 1.
    ridge : float
        ρ, positive.
    tree : array_like, optional
        A search tree over the features of all faces, those of one face side by side, as
        :meth:`polyopt.certificates.subset_tree.SubsetTree.table` has it.

    Returns
    -------
    Certificate
        ``stationary`` if no faces of so few features cost less in the M-step at the responsibilities of W,
        within `tol`; with one face then ``optimal``. Otherwise ``suboptimal_by``, within that M-step.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or out of its range, or a tree that is none.
    """
    X, y = as_data(X, y)
    mixture.check_model(gamma, ridge)
    s, tol, rho = whole("max_features", max_features), tolerance(tol), positive("ridge", ridge)
    W = checked_faces("W", W, None, X.shape[1] + 1)
    costs, R = as_costs(C, len(y)), mixture.responsibilities(X, y, W, gamma)

    def loss(faces: Vector) -> tuple[Ball, Ball]:
        value, slope = loss_and_slope(X, y, faces, R, float(gamma), costs)
        return value, -slope.transposed()

    value, pulls = loss(W)
    single = len(W) == 1
    scale = mixture.turnover(X, y, W, R, gamma, costs, ridge)
    certificate = conclude(
        f"PLUME with at most {s} features a face",
        value + (0.5 * rho) * Ball(W).square_sum(),
        Ball(smooth_tree.bound_of_few_faces(loss, W, s, rho, tree)),
        [smooth_tree.stationarity_of_few(W, rho * W - pulls.mid.T, scale)],
        tol,
        feasible=smooth_tree.kept_features(W, s),
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="PLUME with so few features"
        if single
        else "the M-step at these responsibilities with so few features",
        notes=[smooth_tree.ROOT if tree is None else smooth_tree.TREES, "" if single else _OTHERS],
    )
    return replace(certificate, evidence=without_form(FEW))
