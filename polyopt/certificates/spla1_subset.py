"""Certificates of SPLA1 whose faces have few features.

For fixed cells each face is a logistic regression over all choices of at most s features
(:mod:`formulations.spla1_subset`). What bounds it is a search tree, evaluated anew from the data
(:mod:`polyopt.certificates.smooth_tree`), or where none is given its root alone. The certificate says which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from formulations.arguments import positive, tolerance, whole
from formulations.polyhedral import check_positives, hard_loss, pull, scores
from formulations.polytope import lift
from formulations.recovery import as_costs, as_data
from polyopt.certificates import smooth_tree
from polyopt.certificates.certificate import Certificate, Claim, conclude
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.cpm_subset import FEW
from polyopt.certificates.given import checked_faces
from polyopt.certificates.rounding import Ball, product, transposed_product
from polyopt.certificates.spla1 import cells_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from formulations.matrices import Matrix, MatrixLike, Vector
    from formulations.polyhedral import Positives

__all__ = ["CellLoss", "bounds_of_cells", "certify_spla1_subset"]


class CellLoss:
    """The loss of logistic regressions, each with its own weights, as certificates take it.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels, -1 and +1.
    weights : ndarray of shape (n, K)
        The weight of each sample at each face.
    """

    def __init__(self, X: Matrix, y: Vector, weights: Vector):
        self._lifted, self._y, self._weights = lift(X), y, weights

    def __call__(self, W: Vector) -> tuple[Ball, Ball]:
        """The loss of faces W (K, m+1), and their pulls (m+1, K)."""
        against = product(self._lifted, W.T).signed(-self._y[:, None])
        own = against.logistic() * self._weights  # c σ(−z)
        pulls = transposed_product(self._lifted, own.signed(self._y[:, None]))
        return (against.softplus() * self._weights).sum(), pulls


def bounds_of_cells(
    X: Matrix, y: Vector, weights: Vector, W: Vector, s: int, ridge: float,
    trees: Sequence[ArrayLike] | None,
) -> list[float]:  # fmt: skip
    """What each face costs at least, of all with at most s features, for its cell.

    Parameters
    ----------
    X, y, weights
        As of :class:`CellLoss`.
    W : ndarray of shape (K, m+1)
        Faces whose tangents are tried.
    s : int
        Features at most.
    ridge : float
        ρ.
    trees : sequence of array_like or None
        A search tree for each face; without, the root alone.

    Raises
    ------
    ValueError
        Trees of another number, or tables that are none.
    """
    K = len(W)
    if trees is not None and len(trees) != K:
        raise ValueError(f"trees must be one for each of the {K} faces, not {len(trees)}")
    found = []
    for k in range(K):
        own = np.flatnonzero(weights[:, k])
        loss = CellLoss(X[own], y[own], weights[own, k : k + 1])
        tree = None if trees is None else trees[k]
        found.append(smooth_tree.bound_of_few_faces(loss, W[k : k + 1], s, ridge, tree, f"trees[{k}]"))
    return found


@np.errstate(over="ignore", invalid="ignore")
def certify_spla1_subset(
    X: MatrixLike, y: ArrayLike, W: ArrayLike, *, max_features: int, ridge: float, C: ArrayLike = 1.0,
    positives: Positives = "cell", assignment: ArrayLike | None = None, n_faces: int | None = None,
    trees: Sequence[ArrayLike] | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of SPLA1 of at most s features each, among all such faces for their cells.

    Parameters
    ----------
    X, y, W, ridge, C, positives, assignment, n_faces, tol
        As of :func:`polyopt.certificates.spla1.certify_spla1`. A face of more features is not feasible.
    max_features : int
        s, at least 1.
    trees : sequence of array_like, optional
        A search tree for each face, as :meth:`polyopt.certificates.subset_tree.SubsetTree.table` has it.

    Returns
    -------
    Certificate
        ``stationary`` if no faces of so few features cost less for these cells, and the cells are those of W,
        within `tol`; ``optimal`` for one face of one. Otherwise ``suboptimal_by``, within the fixed cells.

    Raises
    ------
    ValueError
        Anything given that is not finite, real and of its shape, or trees that are none.
    """
    X, y = as_data(X, y)
    check_positives(positives)
    s, tol, rho = whole("max_features", max_features), tolerance(tol), positive("ridge", ridge)
    W = checked_faces("W", W, None, X.shape[1] + 1)
    least = len(W) if n_faces is None else whole("n_faces", n_faces, len(W))
    costs, single = as_costs(C, len(y)), least == 1

    def all_loss() -> float:
        return hard_loss(X, y, W, costs, rho, positives)

    cells = cells_at(X, y, W, positives, assignment, single, tol, all_loss)
    weights = costs[:, None] * cells.members
    loss, pulls = CellLoss(X, y, weights)(W)
    # The terms that cancel at the optimum, not what is left of them.
    scale = float(pull(abs(X), weights * expit(-y[:, None] * scores(X, W))).max()) or 1.0
    residuals = [smooth_tree.stationarity_of_few(W, rho * W - pulls.mid.T, scale)]
    certificate = conclude(
        f"SPLA1, positives={positives!r}, with at most {s} features a face",
        loss + (0.5 * rho) * Ball(W).square_sum(),
        Ball(np.array(bounds_of_cells(X, y, weights, W, s, rho, trees))).sum(),
        [*residuals, *cells.residuals],
        tol,
        feasible=smooth_tree.kept_features(W, s),
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="SPLA1 with so few features"
        if single
        else f"the program for {cells.which} with so few features",
        notes=[smooth_tree.ROOT if trees is None else smooth_tree.TREES, *cells.notes],
    )
    return replace(certificate, evidence=without_form(FEW))
