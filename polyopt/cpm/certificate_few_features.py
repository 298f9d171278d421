"""Certificates of Convex Polytope Machines whose faces have few features, or integer coefficients.

For a fixed assignment each face is a program over all choices of at most s features
(:mod:`formulations.cpm_faces`), and what bounds it is a search tree (:class:`SubsetTree`), evaluated anew
from the data, or where none is given the root alone: the value at some multipliers of the face of all
features, with the s largest v_j². The certificate says which.

A node says which features are in and which are out; whatever multipliers α of the face's samples keep within
their caps bound every face of at most s features that has the node's:

    Σ α − ¼ (v_b² + Σ_{j in} v_j² + the s − |in| largest v_j² of the free),        v = Σ α_i y_i x̃_i.

The two children of a node have all its faces between them, so that a node's bound is the greater of its own
and the lesser of its children's. Nothing of the search is believed: multipliers and bounds are computed anew
from the points of the tree, less their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from formulations.families import Families, margin_family
from formulations.language.arguments import real_array, tolerance, whole
from formulations.language.recovery import as_costs, as_data
from formulations.polytope import answers, lift, natural_assignment
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude
from polyopt.certificates.claims.statement import without_form
from polyopt.certificates.given import checked_faces
from polyopt.cpm.point import CpmPoint, assignment_residual
from polyopt.linalg.rounding import Ball, product, transposed_product
from polyopt.margin.certificate import certify_hinge
from polyopt.margin.dual_ascent import ascend
from polyopt.margin.geometry import LinearGeometry
from polyopt.margin.hinge_program import HingeProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, MatrixLike, Vector

    Bits = NDArray[np.bool_]

__all__ = ["FEW", "SubsetTree", "bound_of_few", "bound_of_tree", "certify_cpm_subset"]

_TREES = (
    "The bound of each face is that of a search tree over its features, every node's evaluated anew from the "
    "data."
)
_ROOT = (
    "The bound of each face is that of the root alone: the dual value with its largest squares, as many as "
    "there may be features."
)
_ELSE = "Another assignment may have a lower optimum."
_BLOCK_NODES = 64  # nodes whose multipliers are pulled together
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
    trees: A search tree for each face, as :meth:`SubsetTree.table` has it.
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
    """A lower bound for each face, over all faces with at most s features, for its assignment.

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
    """A lower bound on the cost of face k."""
    X, y, c = point.geometry.X, point.y, point.costs[:, k]
    alpha = None if point.alpha is None else point.alpha[:, k]
    if trees is not None:
        return bound_of_tree(X, y, c, s, trees[k], alpha)
    w, none = point.W[k], np.zeros(X.shape[1] - 1, dtype=bool)
    value = 0.5 * float(w @ w + c @ point.hinge[:, k])
    program = HingeProgram("a face", point.geometry, Families(margin_family(y, c / 2)), intercept=False)
    found = np.clip(2.0 * ascend(program, w, np.asarray(X @ w), value, 0.0, 2000)[0], 0.0, c)
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


@dataclass(frozen=True)
class SubsetTree:
    """For each node the feature that it branches on, its children, and a point that its multipliers are of.

    feature (nodes,): -1 at a leaf. The first node is the root.
    without, within (nodes,): the child where that feature is out, and the one where it is in, both behind
        their parent.
    w (nodes, m+1): points, the bias last,
    eps (nodes,): and their ε, positive: α_i = c_i min(max((1 − y_i w·x̃_i)/ε, 0), 1).
    """

    feature: NDArray[np.int64]
    without: NDArray[np.int64]
    within: NDArray[np.int64]
    w: Vector
    eps: Vector

    def table(self) -> Vector:
        """All of it as one array, a row for each node: feature, without, within, ε, w."""
        return np.column_stack([self.feature, self.without, self.within, self.eps, self.w]).astype(float)

    @classmethod
    def of(cls, name: str, table: ArrayLike, m: int) -> Self:
        """The tree of such an array, checked.

        table (nodes, m + 5): the array.
        ValueError: another shape, numbers that are not finite, or nodes that are no tree of these features.
        """
        found = real_array(name, table)
        columns = m + 5
        if found.ndim != 2 or len(found) < 1 or found.shape[1] != columns:
            raise ValueError(f"{name} must have {columns} columns and a row at least, not {found.shape}")
        whole, number, eps = found[:, :3], np.arange(len(found)), found[:, 3]
        inner = whole[:, 0] >= 0
        behind = (whole[:, 1:] > number[:, None]) & (whole[:, 1:] < len(found))
        fits = (whole == np.floor(whole)).all() and (whole[:, 0] < m).all() and (eps > 0).all()
        if not fits or not behind[inner].all():
            raise ValueError(f"{name} must be a tree over {m} features, each child behind its parent")
        table_of = whole.astype(np.int64)
        return cls(table_of[:, 0], table_of[:, 1], table_of[:, 2], found[:, 4:], eps)


def bound_of_subsets(alpha: Vector, v: Ball, s: int, inside: Bits, out: Bits) -> float:
    """The bound at α on every face that has these features in and those out; -inf where it is no number.

    alpha (n,): multipliers within their caps.
    v (m+1,): σ α_i y_i x̃_i.
    s: features at most.
    inside, out (m,): the node.
    """
    sizes = v.size
    left = min(s - int(inside.sum()), int((~(inside | out)).sum()))
    if left < 0:
        return np.inf  # no face has so many
    free = np.sort(sizes[:-1][~(inside | out)])
    taken = np.concatenate([sizes[-1:], sizes[:-1][inside], free[len(free) - left :]])
    found = Ball(alpha).sum() - 0.25 * Ball(taken).square_sum()
    return float(found.lower) if np.isfinite(found.lower) else -np.inf


@np.errstate(over="ignore", invalid="ignore")
def bound_of_tree(X: Matrix, y: Vector, c: Vector, s: int, tree: SubsetTree, alpha: Vector | None) -> float:
    """A lower bound, not negative, on the cost of every face of at most s features.

    X (n, m+1): samples with a 1 behind each.
    y, c (n,): labels, and costs, 0 where another face answers.
    s: features at most.
    alpha (n,): further multipliers, clipped to their caps; every node may use them.
    """
    m, signed = X.shape[1] - 1, np.asarray(y)[:, None]
    given = None if alpha is None else np.clip(alpha, 0.0, c)
    common = None if given is None else (given, transposed_product(X, given * y))
    own = np.zeros(len(tree.eps))
    nodes = _nodes_of(tree, m)
    for first in range(0, len(nodes), _BLOCK_NODES):
        some = nodes[first : first + _BLOCK_NODES]
        at = np.array([number for number, _, _ in some])
        outputs = product(X, tree.w[at].T).mid
        alphas = c[:, None] * np.clip((1.0 - signed * outputs) / tree.eps[at], 0.0, 1.0)
        alphas = np.where(np.isfinite(alphas), alphas, 0.0)
        pulled = transposed_product(X, alphas * signed)
        for place, (number, inside, out) in enumerate(some):
            own[number] = bound_of_subsets(alphas[:, place], pulled[:, place], s, inside, out)
            if common is not None:
                own[number] = max(own[number], bound_of_subsets(*common, s, inside, out))
    for number, _, _ in reversed(nodes):
        if tree.feature[number] >= 0:
            below = min(own[tree.without[number]], own[tree.within[number]])
            own[number] = max(own[number], below)
    return max(float(own[0]), 0.0)


def _nodes_of(tree: SubsetTree, m: int) -> list[tuple[int, Bits, Bits]]:
    """The nodes that can be come to, parents before children: numbers, features in and features out."""
    none = np.zeros(m, dtype=bool)
    found = [(0, none, none)]
    for number, inside, out in found:  # which grows on the way
        j = int(tree.feature[number])
        if j < 0:
            continue
        if inside[j] or out[j]:
            raise ValueError(f"a search tree branches on feature {j} twice on one path")
        with_j = np.arange(m) == j
        found.append((int(tree.without[number]), inside, out | with_j))
        found.append((int(tree.within[number]), inside | with_j, out))
    return found
