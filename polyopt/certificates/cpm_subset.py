"""Certificates of Convex Polytope Machines whose faces have few features, or integer coefficients.

For a fixed assignment each face is a program over all choices of at most s features
(:mod:`formulations.cpm_subset`), and what bounds it is a search tree, evaluated anew from the data
(:mod:`polyopt.certificates.subset_tree`), or where none is given the root alone: the value at some
multipliers of the face of all features, with the s largest v_j². The certificate says which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import tolerance, whole
from formulations.families import Families, margin_family
from formulations.polytope import answers, lift, natural_assignment
from formulations.recovery import as_costs, as_data
from polyopt.certificates.ascent import ascend
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.cpm_point import CpmPoint, assignment_residual
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.given import checked_faces
from polyopt.certificates.hinge import certify_hinge
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.certificates.rounding import Ball, transposed_product
from polyopt.certificates.subset_tree import SubsetTree, bound_of_subsets, bound_of_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from formulations.matrices import MatrixLike, Vector

__all__ = ["FEW", "bound_of_few", "certify_cpm_subset"]

_TREES = (
    "The bound of each face is that of a search tree over its features, every node's evaluated anew from the "
    "data."
)
_ROOT = (
    "The bound of each face is that of the root alone: the dual value with its largest squares, as many as "
    "there may be features."
)
_ELSE = "Another assignment may have a lower optimum."
_ROOT_STEPS = 2000  # of ascent, for the bound of a face without a tree
FEW = (
    "faces with at most so many features are bounded by searches over their features, and claims in files "
    "have no such trees: certificate() evaluates them"
)


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_subset(
    X: MatrixLike,
    y: ArrayLike,
    C: ArrayLike = 1.0,
    *,
    W: ArrayLike,
    max_features: int,
    alpha: ArrayLike | None = None,
    assignment: ArrayLike | None = None,
    trees: Sequence[ArrayLike] | None = None,
    tol: float = 1e-6,
) -> Certificate:
    """Certify faces of at most s features each, among all such faces for their assignment; loss="sum".

    W (K, m+1): faces, the bias last. A face of more than `max_features` features is not feasible.
    alpha (n, K): multipliers of the margin rows of each face with its own features alone.
    assignment (n,): the face of each positive; the entries of negatives are ignored. By default the best for
        W.
    trees: A search tree for each face, as :meth:`polyopt.certificates.subset_tree.SubsetTree.table` has it.
    Returns: ``stationary`` if the faces cost no more than any of so few features for this assignment, and the
        assignment is the best for them, within `tol`; with one face ``optimal``. Otherwise ``suboptimal_by``,
        within the fixed assignment.
    """
    X, y = as_data(X, y)
    whole("max_features", max_features)
    tol = tolerance(tol)
    n, m = X.shape
    given = None if alpha is None else checked_faces("alpha", alpha, n, None)
    W = checked_faces("W", W, None if given is None else given.shape[1], m + 1)
    if assignment is None:
        assignment = natural_assignment(X, y, W)
    Z = answers(y, len(W), assignment)
    point = CpmPoint(LinearGeometry(lift(X)), y, as_costs(C, n), Z, W, given, False)
    residuals = [] if given is None else _residuals(point, given, tol)
    single = len(W) == 1
    if not single:
        residuals.append(assignment_residual(point))
    bounds = bound_of_few(point, max_features, trees)
    certificate = conclude(
        f"the Convex Polytope Machine with at most {max_features} features a face",
        point.value("sum"),
        Ball(np.array(bounds)).sum(),
        residuals,
        tol,
        feasible=bool(((W[:, :-1] != 0).sum(axis=1) <= max_features).all()),
        reached=Claim.OPTIMAL if single else Claim.STATIONARY,
        scope="the face with so few features"
        if single
        else "the fixed-assignment program with so few features",
        notes=[_ROOT if trees is None else _TREES, "" if single else _ELSE],
    )
    return replace(certificate, evidence=without_form(FEW))


def bound_of_few(point: CpmPoint, s: int, trees: Sequence[ArrayLike] | None) -> list[float]:
    """What each face costs at least, of all with at most s features, for its assignment.

    point: the samples and the assignment; its multipliers, if any, are those of faces with few features.
    s: features at most.
    trees: A search tree for each face; without, the root alone.
    """
    K, m = len(point.W), point.geometry.X.shape[1] - 1
    proven = _checked_trees(trees, K, m)
    return [_bound(point, k, s, proven) for k in range(K)]


def _checked_trees(trees: Sequence[ArrayLike] | None, K: int, m: int) -> list[SubsetTree] | None:
    if trees is None:
        return None
    if len(trees) != K:
        raise ValueError(f"trees must be one for each of the {K} faces, not {len(trees)}")
    return [SubsetTree.of(f"trees[{k}]", table, m) for k, table in enumerate(trees)]


def _bound(point: CpmPoint, k: int, s: int, trees: list[SubsetTree] | None) -> float:
    """What face k costs at least."""
    X, y, c = point.geometry.X, point.y, point.costs[:, k]
    alpha = None if point.alpha is None else point.alpha[:, k]
    if trees is not None:
        return bound_of_tree(X, y, c, s, trees[k], alpha)
    w, none = point.W[k], np.zeros(X.shape[1] - 1, dtype=bool)
    value = 0.5 * float(w @ w + c @ point.hinge[:, k])
    program = HingeProgram("a face", point.geometry, Families(margin_family(y, c / 2)), intercept=False)
    found = np.clip(2.0 * ascend(program, w, np.asarray(X @ w), value, 0.0, _ROOT_STEPS)[0], 0.0, c)
    return max(bound_of_subsets(found, transposed_product(X, found * y), s, none, none), 0.0)


def _residuals(point: CpmPoint, alpha: Vector, tol: float) -> list[Residual]:
    """The conditions of each face as a program in its own features."""
    found: list[Residual] = []
    for k, (w, c) in enumerate(zip(point.W, point.costs.T, strict=True)):
        used = np.append(np.flatnonzero(w[:-1]), len(w) - 1)
        own = LinearGeometry(point.geometry.X[:, used])
        program = HingeProgram("a face", own, Families(margin_family(point.y, c / 2)), intercept=False)
        certificate = certify_hinge(program, v=w[used], multipliers={"margin": alpha[:, k] / 2}, tol=tol)
        found += [replace(r, row=f"{r.row}(face {k})", value=2 * r.value) for r in certificate.residuals]
    return found
