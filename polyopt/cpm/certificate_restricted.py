"""Certificates of Convex Polytope Machines whose faces have few features, or integer coefficients.

**Few features** (:func:`certify_cpm_subset`). For a fixed assignment of the positives the faces are
independent programs, each a minimum over all choices of at most s features (:mod:`formulations.cpm_faces`).
A node of a branch-and-bound tree (:class:`SubsetTree`) includes some features and excludes others; the
remaining ones are free. Let x̃ = (x, 1) be the samples, with label y_i and cost c_i for this face (0 if a
positive is assigned to another). Then every face of the node costs at least, for any 0 ≤ α_i ≤ c_i,

    Σ α − ¼ (v_b² + Σ_{j included} v_j² + Σ_{j largest} v_j²),        v = Σ α_i y_i x̃_i,

where v_b is the entry of the bias, and the last sum is over the s − |included| largest v_j² of the free
features. With sign constraints, v_j is replaced by 0 if it has the wrong sign. The children cover the
faces of a node, so its bound is max(own bound, min(children's bounds)). A tree stores points from which α is
recomputed, and the bounds are rounded downwards. Without a tree the bound is the root's: all are free.

**Integer coefficients** (:func:`certify_cpm_integer`). The bound is that of the continuous relaxation for the
same assignment, so the gap bounds the loss due to integrality.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.face_penalty import FacePenalty
from formulations.language.arguments import real_array, tolerance, whole, whole_or_none
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import assignment_matrix, lift, natural_assignment
from polyopt.certificates.certificate import Certificate, residual
from polyopt.certificates.claims.statement import Evidence, Statement, without_form
from polyopt.certificates.points import checked_faces
from polyopt.cpm.certificate import (
    CpmPoint,
    ascend_faces,
    assignment_residual,
    bound_of,
    conclude_for_assignment,
    condition_residuals,
    state_cpm,
)
from polyopt.cpm.penalty_term import checked_penalty, sign_residuals, thresholded_sizes
from polyopt.linalg.rounding import UNIT, Ball, product, transposed_product
from polyopt.margin.geometry import LinearGeometry

Bits = NDArray[np.bool_]

_BLOCK_NODES = 64  # nodes whose multipliers are evaluated together
_ROOT_GAP, _ROOT_ROUNDS = 1e-9, 300  # relative gap, and most rounds, of the ascent on α without a tree
_NAME, _FIXED = "the Convex Polytope Machine", "the fixed-assignment program"
_TREE_BOUNDS = "The bound of each face is that of a search tree over its features, recomputed from the data."
_ROOT_BOUNDS = (
    "The bound of each face is that of the root alone: the dual value with only the s largest squares v_j², "
    "s = {}."
)
_INTEGRALITY = (
    "The bound is that of the continuous relaxation for the same assignment: the gap bounds the loss due to "
    "integrality."
)
_NO_FORM = (  # reason why the claim, the statement that a certificate proves, cannot be written to a file
    "claim files have no format for search trees over features, nor for integers with signs: evaluate these "
    "with certificate()"
)


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_subset(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *, W: ArrayLike, max_features: int,
    alpha: ArrayLike | None = None, assignment: ArrayLike | None = None,
    trees: Sequence[ArrayLike] | None = None, penalty: FacePenalty | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces W among all faces of at most s features, for a fixed assignment and loss="sum".

    W (K, m+1): faces, the bias last. A face of more than `max_features` features is not feasible.
    alpha (n, K): column k has the multipliers of face k's program restricted to the features that W_k uses.
    assignment (n,): the face of each positive; the entries of negatives are ignored. By default the best for
        W.
    max_features: s.
    trees: a branch-and-bound tree for each face, as returned by :meth:`SubsetTree.table`.
    penalty: signs of the weights, without l1 and group. Weights of the wrong sign are set to 0 in the value;
        the residuals show them.
    Returns: ``stationary`` if, within `tol`, the faces attain their bounds and no positive has a smaller
        hinge on another face; with one face ``optimal``. Otherwise ``suboptimal_by``, for the assignment.
    """
    X, y = as_data(X, y)
    whole("max_features", max_features)
    tol = tolerance(tol)
    multipliers = None if alpha is None else checked_faces("alpha", alpha, len(y), None)
    W = checked_faces("W", W, None if multipliers is None else multipliers.shape[1], X.shape[1] + 1)
    penalty = _only_signs(penalty, X.shape[1])
    signed_W = W if penalty is None else penalty.enforce_signs(W)
    point = _point(X, y, C, signed_W, multipliers, assignment, penalty)
    residuals = [] if penalty is None else sign_residuals(penalty, W, point.W)
    residuals += [] if multipliers is None else condition_residuals(point, multipliers, own_features=True)
    note = _TREE_BOUNDS if trees is not None else _ROOT_BOUNDS.format(max_features)
    limit = f"with at most {max_features} features a face"
    return conclude_for_assignment(
        f"{_NAME} {limit}", point.value("sum"), bound_of_few(point, max_features, trees), residuals, tol,
        assignment_residual(point), f"the face {limit}" if len(W) == 1 else f"{_FIXED} {limit}", [note],
        feasible=bool(((point.W[:, :-1] != 0).sum(axis=1) <= max_features).all()),
        evidence=without_form(_NO_FORM),
    )  # fmt: skip


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_integer(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *, integers: ArrayLike, scales: ArrayLike,
    thresholds: ArrayLike, largest: int, alpha: ArrayLike, assignment: ArrayLike | None = None,
    max_features: int | None = None, trees: Sequence[ArrayLike] | None = None,
    penalty: FacePenalty | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces δ_k (p_k·x − θ_k), p_k integers, against the continuous relaxation; loss="sum".

    The continuous relaxation has real weights in place of δ_k p_k, for the same assignment.

    integers (K, m): the integers p.
    scales, thresholds (K,): δ, positive, and θ.
    largest: M: an entry of `integers` that is not an integer from −M to M is not feasible.
    alpha (n, K): multipliers of the margin constraints of the continuous relaxation.
    assignment (n,): the face of each positive. By default the best for the faces.
    max_features: largest number of features of a face.
    trees: with `max_features`, as in :func:`certify_cpm_subset`.
    penalty: signs of the integers, without l1 and group; an integer of the wrong sign is not feasible.
    Returns: ``suboptimal_by``, with a bound on the loss due to integrality, for this assignment; if that is
        within `tol`, ``stationary``, or with one face ``optimal``. ``none`` if the faces are not feasible.
    """
    X, y = as_data(X, y)
    tol, M, s = tolerance(tol), whole("largest", largest), whole_or_none("max_features", max_features)
    p = checked_faces("integers", integers, None, X.shape[1])
    K = len(p)
    scale, theta = real_array("scales", scales, (K,)), real_array("thresholds", thresholds, (K,))
    multipliers = checked_faces("alpha", alpha, len(y), K)
    W = scale[:, None] * np.column_stack([p, -theta])
    penalty = _only_signs(penalty, X.shape[1])
    point = _point(X, y, C, W, multipliers, assignment, penalty)
    bound = bound_of(point, multipliers, "sum", "total") if s is None else bound_of_few(point, s, trees)
    # Distances of p from integers, from [−M, M] and from the signs; and of the scales from positive numbers.
    violation = np.maximum(np.abs(p - np.round(p)), np.maximum(np.abs(p) - M, 0.0))
    if penalty is not None:
        violation = np.maximum(violation, -penalty.signs * p)
    max_violation, scale_violation = violation.max(axis=1), -scale * (scale <= 0)
    integrality = residual("primal", "integers", np.maximum(max_violation, scale_violation), 1.0)
    # Each entry of W = scale × integer has one rounding; its effect on the objective is bounded by:
    sizes = np.asarray(abs(point.geometry.X) @ np.abs(W).T)
    rounding = np.abs(W).sum() * (2.0 * np.abs(W).max(initial=0.0)) + (point.costs * sizes).sum()
    value = point.value("sum") + Ball(0.0, 2.0 * UNIT * float(rounding))
    has_few_features = s is None or bool(((p != 0).sum(axis=1) <= s).all())
    feasible = bool(max_violation.max() == 0 and (scale > 0).all() and has_few_features)
    name = f"{_NAME} with integers from -{M} to {M}"
    name += "" if s is None else f", at most {s} features a face"
    evidence = without_form(_NO_FORM)
    if s is None and penalty is None:
        evidence = (Evidence(partial(state_integers, point, multipliers, p, scale, theta)),)
    return conclude_for_assignment(
        name, value, bound, [integrality], tol, assignment_residual(point),
        "the continuous relaxation" + ("" if K == 1 else " for this assignment"), [_INTEGRALITY],
        feasible=feasible, evidence=evidence,
    )  # fmt: skip


def _only_signs(penalty: FacePenalty | None, m: int) -> FacePenalty | None:
    """Return the penalty, or None if it is zero; ValueError if it has more than signs."""
    penalty = checked_penalty(penalty, m)
    if penalty is not None and (penalty.l1 > 0.0 or penalty.group > 0.0):
        raise ValueError("faces with few features or integers can have signs, but no l1 or group penalty")
    return penalty


def _point(
    X: Matrix, y: Vector, C: ArrayLike, W: Vector, alpha: Vector | None, assignment: ArrayLike | None,
    penalty: FacePenalty | None,
) -> CpmPoint:  # fmt: skip
    Z = assignment_matrix(y, len(W), natural_assignment(X, y, W) if assignment is None else assignment)
    geometry, costs = LinearGeometry(lift(X)), as_costs(C, len(y))
    return CpmPoint(geometry, y, C=costs, Z=Z, W=W, alpha=alpha, implied=False, penalty=penalty)


def state_integers(point: CpmPoint, alpha: Vector, p: Vector, scale: Vector, theta: Vector) -> Statement:
    """State faces δ_k (p_k·x − θ_k) against the relaxation for their assignment, for a claim file."""
    statement = state_cpm(point, alpha)
    faces = zip(p.tolist(), scale.tolist(), theta.tolist(), strict=True)
    W = [[*(Fraction(d) * int(v) for v in integers), -Fraction(d) * Fraction(t)] for integers, d, t in faces]
    title = "the Convex Polytope Machine with integers, against its continuous relaxation"
    return replace(statement, W=W, title=title)


# -- bounds over all choices of features ------------------------------------------------------


def bound_of_few(point: CpmPoint, s: int, trees: Sequence[ArrayLike] | None) -> Ball:
    """Return a lower bound over all faces with at most s features, for the assignment.

    point: the samples and the assignment; its multipliers, if any, are tried at every node.
    trees: a branch-and-bound tree for each face; if None, the bounds are those of the roots.
    """
    X, y, K, columns = point.geometry.X, point.y, len(point.W), point.geometry.X.shape[1]
    alphas: Sequence[Vector | None] = [None] * K if point.alpha is None else list(point.alpha.T)
    if trees is None:
        alphas = list(ascend_faces(point, point.costs, _ROOT_GAP, _ROOT_ROUNDS).T)
        zero = np.zeros(1, dtype=np.int64)  # a tree of one leaf, with α = c; `alphas` are tried at it too
        checked = [SubsetTree(zero - 1, zero, zero, np.zeros((1, columns)), np.ones(1))] * K
    elif len(trees) != K:
        raise ValueError(f"trees must be one for each of the {K} faces, not {len(trees)}")
    else:
        checked = [SubsetTree.from_table(f"trees[{k}]", table, columns - 1) for k, table in enumerate(trees)]
    bounds = [
        bound_of_tree(X, y, costs, s, tree, alpha, point.penalty)
        for costs, tree, alpha in zip(point.costs.T, checked, alphas, strict=True)
    ]
    return Ball(np.array(bounds)).sum()


@dataclass(frozen=True)
class SubsetTree:
    """A branch-and-bound tree over the choices of features.

    Attributes
    ----------
    feature : ndarray of int, shape (nodes,)
        Feature on which a node branches, -1 at a leaf. The first node is the root.
    child_excluded, child_included : ndarray of int, shape (nodes,)
        Indices of the children that exclude and include the feature, larger than the parent's index.
    w, eps : ndarray of shape (nodes, m+1), (nodes,)
        A point, bias last, and a positive ε; they define the node's multipliers
        α_i = c_i min(max((1 − y_i w·x̃_i)/ε, 0), 1).
    """

    feature: NDArray[np.int64]
    child_excluded: NDArray[np.int64]
    child_included: NDArray[np.int64]
    w: Vector
    eps: Vector

    def table(self) -> Vector:
        """Return the tree as one array with a row per node: feature, child_excluded, child_included, ε, w."""
        return np.column_stack(
            [self.feature, self.child_excluded, self.child_included, self.eps, self.w]
        ).astype(float)

    @classmethod
    def from_table(cls, name: str, table: ArrayLike, m: int) -> Self:
        """Return the tree of an array (nodes, m + 5) as returned by :meth:`table`.

        ValueError: the array has another shape, is not finite, or is not a tree over m features.
        """
        rows = real_array(name, table)
        columns = m + 5
        if rows.ndim != 2 or len(rows) < 1 or rows.shape[1] != columns:
            raise ValueError(f"{name} must have {columns} columns and a row at least, not {rows.shape}")
        indices, number, eps = rows[:, :3], np.arange(len(rows)), rows[:, 3]
        is_inner = indices[:, 0] >= 0
        is_later = (indices[:, 1:] > number[:, None]) & (indices[:, 1:] < len(rows))
        is_valid = (indices == np.floor(indices)).all() and (indices[:, 0] < m).all() and (eps > 0).all()
        if not is_valid or not is_later[is_inner].all():
            raise ValueError(
                f"{name} must be a tree over {m} features, the index of each child larger than its parent's"
            )
        feature, child_excluded, child_included = indices.astype(np.int64).T
        return cls(feature, child_excluded, child_included, rows[:, 4:], eps)

    def nodes(self) -> list[tuple[int, Bits, Bits]]:
        """Return index, included and excluded features of the reachable nodes, parents before children."""
        m = self.w.shape[1] - 1
        none = np.zeros(m, dtype=bool)
        nodes = [(0, none, none)]
        for number, included, excluded in nodes:  # the list grows during the loop
            j = int(self.feature[number])
            if j < 0:
                continue
            if included[j] or excluded[j]:
                raise ValueError(f"a search tree branches on feature {j} twice on one path")
            is_j = np.arange(m) == j
            nodes.append((int(self.child_excluded[number]), included, excluded | is_j))
            nodes.append((int(self.child_included[number]), included | is_j, excluded))
        return nodes


def _sizes(v: Ball, penalty: FacePenalty | None) -> Vector:
    """Return upper bounds on |v_j| for the columns v of a matrix, with 0 for entries of the wrong sign."""
    if penalty is None:
        return v.size
    return np.vstack([thresholded_sizes(penalty, v[:-1]).size, v[-1:].size])


def bound_of_subsets(alpha: Vector, sizes: Vector, s: int, included: Bits, excluded: Bits) -> float:
    """Return the bound at α (n,) on every face of a node; -inf if it is not finite.

    sizes (m+1,): upper bounds on |v|.
    included, excluded (m,): masks of the features.
    """
    is_free = ~(included | excluded)
    n_free_used = min(s - int(included.sum()), int(is_free.sum()))
    if n_free_used < 0:
        return np.inf  # more than s features are included: the node has no face
    free = np.sort(sizes[:-1][is_free])
    used = np.concatenate([sizes[-1:], sizes[:-1][included], free[len(free) - n_free_used :]])
    bound = Ball(alpha).sum() - 0.25 * Ball(used).square_sum()
    return float(bound.lower) if np.isfinite(bound.lower) else -np.inf


@np.errstate(over="ignore", invalid="ignore")
def bound_of_tree(
    X: Matrix, y: Vector, c: Vector, s: int, tree: SubsetTree, alpha: Vector | None,
    penalty: FacePenalty | None = None,
) -> float:  # fmt: skip
    """Return a lower bound, not negative, on the cost of every face of at most s features.

    X (n, m+1): samples x̃ = (x, 1).
    y, c (n,): labels, and costs of slack, 0 for positives on other faces.
    alpha (n,): multipliers that are tried at every node, besides the node's own; clipped to [0, c].
    penalty: the signs, if there are any.
    """
    labels = np.asarray(y)[:, None]
    shared_multipliers = None
    if alpha is not None:
        clipped_alpha = np.clip(alpha, 0.0, c)
        v = transposed_product(X, (clipped_alpha * y)[:, None])
        shared_multipliers = clipped_alpha, _sizes(v, penalty)[:, 0]
    node_bounds, nodes = np.zeros(len(tree.eps)), tree.nodes()
    for first in range(0, len(nodes), _BLOCK_NODES):
        batch = nodes[first : first + _BLOCK_NODES]
        numbers = np.array([number for number, _, _ in batch])
        outputs = product(X, tree.w[numbers].T).mid
        alphas = c[:, None] * np.clip((1.0 - labels * outputs) / tree.eps[numbers], 0.0, 1.0)
        alphas = np.where(np.isfinite(alphas), alphas, 0.0)
        sizes = _sizes(transposed_product(X, alphas * labels), penalty)
        for column, (number, included, excluded) in enumerate(batch):
            bound = bound_of_subsets(alphas[:, column], sizes[:, column], s, included, excluded)
            if shared_multipliers is not None:
                bound = max(bound, bound_of_subsets(*shared_multipliers, s, included, excluded))
            node_bounds[number] = bound
    for number, _, _ in reversed(nodes):  # children before parents
        if tree.feature[number] >= 0:
            children = tree.child_excluded[number], tree.child_included[number]
            node_bounds[number] = max(node_bounds[number], min(node_bounds[child] for child in children))
    return max(float(node_bounds[0]), 0.0)
