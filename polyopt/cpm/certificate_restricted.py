"""Certificates of Convex Polytope Machines whose faces have few features, or integer coefficients.

For a fixed assignment each face is a program over all choices of at most s features
(:mod:`formulations.cpm_faces`). Its bound is that of a search tree (:class:`SubsetTree`), evaluated anew
from the data, or, if no tree is given, of the root alone: the dual value of the face of all features with the
s largest v_j² only. The certificate says which.

A node fixes some features to be in and some to be out. Any multipliers α of the face's samples within their
caps bound every face of at most s features that has the node's:

    Σ α − ¼ (v_b² + Σ_{j in} v_j² + the s − |in| largest v_j² of the free),        v = Σ α_i y_i x̃_i.

With signs, v_j is replaced by 0 if it has the wrong one. The two children of a node have all its faces
between them, so a node's bound is the greater of its own and the lesser of its children's. Multipliers and
bounds are computed anew from the points of the tree, less their rounding.

No bound is known for integer coefficients themselves: their certificate has the bound of the real program for
the same assignment, with few features or all, so the gap is what the integers have cost at most.
"""

from __future__ import annotations

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
from polyopt.certificates.certificate import Certificate, Claim, residual
from polyopt.certificates.claims.statement import Evidence, Statement, without_form
from polyopt.certificates.points import checked_faces
from polyopt.cpm.certificate import (
    CpmPoint,
    ascend_faces,
    assignment_residual,
    bound_of,
    conclude_for_assignment,
    coupled_residuals,
    face_residuals,
    state_cpm,
)
from polyopt.cpm.penalty_term import checked_penalty, cut_sizes, sign_residuals
from polyopt.linalg.rounding import UNIT, Ball, product, transposed_product
from polyopt.margin.geometry import LinearGeometry

Bits = NDArray[np.bool_]

_BLOCK_NODES = 64  # nodes whose multipliers are evaluated together
_NO_FORM = (
    "faces with at most so many features are bounded by searches over their features, and claims in files "
    "have no such trees, nor whole numbers with signs: certificate() evaluates them"
)


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_subset(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *, W: ArrayLike, max_features: int,
    alpha: ArrayLike | None = None, assignment: ArrayLike | None = None,
    trees: Sequence[ArrayLike] | None = None, penalty: FacePenalty | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces of at most s features each, among all such faces for their assignment; loss="sum".

    W (K, m+1): faces, the bias last. A face of more than `max_features` features is not feasible.
    alpha (n, K): multipliers of the margin rows of each face with its own features alone.
    assignment (n,): the face of each positive; the entries of negatives are ignored. By default the best for
        W.
    trees: a search tree for each face, as :meth:`SubsetTree.table` has it.
    penalty: signs of the weights, without l1 and group. Faces are valued without weights of the wrong sign.
    Returns: ``stationary`` if the faces cost no more than any of so few features for this assignment, and the
        assignment is the best for them, within `tol`; with one face ``optimal``. Otherwise ``suboptimal_by``,
        within the fixed assignment.
    """
    X, y = as_data(X, y)
    whole("max_features", max_features)
    tol = tolerance(tol)
    given = None if alpha is None else checked_faces("alpha", alpha, len(y), None)
    W = checked_faces("W", W, None if given is None else given.shape[1], X.shape[1] + 1)
    penalty = _only_signs(penalty, X.shape[1])
    point = _point(X, y, C, W if penalty is None else penalty.allowed(W), given, assignment)
    if penalty is None:
        residuals = [] if given is None else face_residuals(point, given, tol, own_features=True)
    else:
        point = replace(point, penalty=penalty)
        residuals = sign_residuals(penalty, W, point.W)
        residuals += [] if given is None else coupled_residuals(point, given, own_features=True)
    note = (
        "The bound of each face is that of a search tree over its features, every node's evaluated anew from "
        "the data."
    )
    if trees is None:
        note = (
            "The bound of each face is that of the root alone: the dual value with its largest squares, as "
            "many as there may be features."
        )
    program = "the face" if len(W) == 1 else "the fixed-assignment program"
    certificate = conclude_for_assignment(
        len(W), assignment_residual(point),
        f"the Convex Polytope Machine with at most {max_features} features a face",
        point.value("sum"), Ball(np.array(bound_of_few(point, max_features, trees))).sum(), residuals, tol,
        f"{program} with so few features", (note,),
        feasible=bool(((point.W[:, :-1] != 0).sum(axis=1) <= max_features).all()),
    )  # fmt: skip
    return replace(certificate, evidence=without_form(_NO_FORM))


@np.errstate(over="ignore", invalid="ignore")
def certify_cpm_integer(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, *, integers: ArrayLike, scales: ArrayLike,
    thresholds: ArrayLike, largest: int, alpha: ArrayLike, assignment: ArrayLike | None = None,
    max_features: int | None = None, trees: Sequence[ArrayLike] | None = None,
    penalty: FacePenalty | None = None, tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify faces δ_k (p_k·x − θ_k), p_k integers, against the real ones of their assignment; loss="sum".

    integers (K, m): the numbers p.
    scales, thresholds (K,): δ, positive, and θ.
    largest: M: a number that is not an integer from −M to M is not feasible.
    alpha (n, K): multipliers of the real program's margin rows.
    assignment (n,): the face of each positive. By default the best for the faces.
    max_features: features of each face at most.
    trees: with `max_features`, as of :func:`certify_cpm_subset`.
    penalty: signs of the integers, without l1 and group; an integer of the wrong sign is not feasible.
    Returns: ``suboptimal_by`` what integers can have cost at most, for this assignment; if that is within
        `tol`, ``stationary``, or with one face ``optimal``. ``none`` for numbers that are not allowed.
    """
    X, y = as_data(X, y)
    tol, M, s = tolerance(tol), whole("largest", largest), whole_or_none("max_features", max_features)
    p = checked_faces("integers", integers, None, X.shape[1])
    K = len(p)
    scale, theta = real_array("scales", scales, (K,)), real_array("thresholds", thresholds, (K,))
    given = checked_faces("alpha", alpha, len(y), K)
    W = scale[:, None] * np.column_stack([p, -theta])
    penalty = _only_signs(penalty, X.shape[1])
    point = replace(_point(X, y, C, W, given, assignment), penalty=penalty)
    if s is None:
        bound = bound_of(point, given, "sum", "total")
    else:
        bound = Ball(np.array(bound_of_few(point, s, trees))).sum()
    off = np.maximum(np.abs(p - np.round(p)), np.maximum(np.abs(p) - M, 0.0))
    if penalty is not None:
        off = np.maximum(off, -penalty.signs * p)
    beyond = off.max(axis=1)
    # W is the product of scale and numbers up to one rounding of each entry.
    sizes = np.asarray(abs(point.geometry.X) @ np.abs(W).T)
    change = np.abs(W).sum() * (2.0 * np.abs(W).max(initial=0.0)) + (point.costs * sizes).sum()
    certificate = conclude_for_assignment(
        K, assignment_residual(point), f"the Convex Polytope Machine with whole numbers from -{M} to {M}"
        + ("" if s is None else f", at most {s} features a face"),
        point.value("sum") + Ball(0.0, 2.0 * UNIT * float(change)), bound,
        [residual("primal", "integers", np.maximum(beyond, -scale * (scale <= 0)), 1.0)], tol,
        "the real program" if K == 1 else "the real program for this assignment",
        ("The bound is that of the real program for the same assignment: whole numbers have cost no more "
         "than the gap.",),
        feasible=bool(
            beyond.max() == 0 and (scale > 0).all() and (s is None or ((p != 0).sum(axis=1) <= s).all())
        ),
    )  # fmt: skip
    if s is not None or penalty is not None:
        return replace(certificate, evidence=without_form(_NO_FORM))
    if certificate.claim is Claim.NONE:
        return certificate
    return replace(
        certificate, evidence=(Evidence(partial(state_integers, point, given, p, scale, theta, M)),)
    )


def _only_signs(penalty: FacePenalty | None, m: int) -> FacePenalty | None:
    penalty = checked_penalty(penalty, m)
    if penalty is not None and (penalty.l1 > 0.0 or penalty.group > 0.0):
        raise ValueError("faces with few features or integers can have signs, but no l1 or group penalty")
    return penalty


def _point(
    X: Matrix, y: Vector, C: ArrayLike, W: Vector, alpha: Vector | None, assignment: ArrayLike | None
) -> CpmPoint:
    Z = assignment_matrix(y, len(W), natural_assignment(X, y, W) if assignment is None else assignment)
    return CpmPoint(LinearGeometry(lift(X)), y, as_costs(C, len(y)), Z, W, alpha, False)


def state_integers(
    point: CpmPoint, alpha: Vector, p: Vector, scale: Vector, theta: Vector, M: int
) -> Statement:
    """State faces with the scores ``scale (p x - theta)`` against the real ones of their assignment."""
    found = state_cpm(point, alpha)
    rows = zip(p.tolist(), scale.tolist(), theta.tolist(), strict=True)
    W = [[*(Fraction(d) * int(v) for v in numbers), -Fraction(d) * Fraction(t)] for numbers, d, t in rows]
    size = {**found.program["size"], "whole": M}
    title = "the Convex Polytope Machine with whole numbers, next to the real one"
    return replace(found, W=W, title=title, program={**found.program, "size": size})


# -- bounds over all choices of features ------------------------------------------------------


def bound_of_few(point: CpmPoint, s: int, trees: Sequence[ArrayLike] | None) -> list[float]:
    """Return a lower bound for each face, over all faces with at most s features, for its assignment.

    point: the samples and the assignment; its multipliers, if any, are those of faces with few features.
    trees: a search tree for each face; without, the root alone.
    """
    X, y, K, m = point.geometry.X, point.y, len(point.W), point.geometry.X.shape[1] - 1
    if trees is None:
        none = np.zeros(m, dtype=bool)
        ascended = np.clip(ascend_faces(point, point.costs, 0.0, 2000), 0.0, point.costs)
        sizes = _sizes(transposed_product(X, ascended * y[:, None]), point.penalty)
        return [max(bound_of_subsets(ascended[:, k], sizes[:, k], s, none, none), 0.0) for k in range(K)]
    if len(trees) != K:
        raise ValueError(f"trees must be one for each of the {K} faces, not {len(trees)}")
    checked = [SubsetTree.of(f"trees[{k}]", table, m) for k, table in enumerate(trees)]
    alphas = [None] * K if point.alpha is None else point.alpha.T
    return [
        bound_of_tree(X, y, point.costs[:, k], s, tree, alpha, point.penalty)
        for k, (tree, alpha) in enumerate(zip(checked, alphas, strict=True))
    ]


@dataclass(frozen=True)
class SubsetTree:
    """A tree of choices of features.

    Attributes
    ----------
    feature : ndarray of int, shape (nodes,)
        Feature that a node branches on, -1 at a leaf. The first node is the root.
    without, within : ndarray of int, shape (nodes,)
        The child whose faces do not have the feature, and the one whose faces have it, both behind their
        parent.
    w, eps : ndarray of shape (nodes, m+1), (nodes,)
        A point, bias last, and its ε, positive, for the multipliers
        α_i = c_i min(max((1 − y_i w·x̃_i)/ε, 0), 1).
    """

    feature: NDArray[np.int64]
    without: NDArray[np.int64]
    within: NDArray[np.int64]
    w: Vector
    eps: Vector

    def table(self) -> Vector:
        """Return the tree as one array, a row for each node: feature, without, within, ε, w."""
        return np.column_stack([self.feature, self.without, self.within, self.eps, self.w]).astype(float)

    @classmethod
    def of(cls, name: str, table: ArrayLike, m: int) -> Self:
        """Return the tree of such an array (nodes, m + 5).

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
        feature, without, within = whole.astype(np.int64).T
        return cls(feature, without, within, found[:, 4:], eps)

    def nodes(self) -> list[tuple[int, Bits, Bits]]:
        """Return the reachable nodes, parents before children: number, features in and features out."""
        m = self.w.shape[1] - 1
        none = np.zeros(m, dtype=bool)
        found = [(0, none, none)]
        for number, inside, out in found:  # the list grows during the loop
            j = int(self.feature[number])
            if j < 0:
                continue
            if inside[j] or out[j]:
                raise ValueError(f"a search tree branches on feature {j} twice on one path")
            with_j = np.arange(m) == j
            found.append((int(self.without[number]), inside, out | with_j))
            found.append((int(self.within[number]), inside | with_j, out))
        return found


def _sizes(v: Ball, penalty: FacePenalty | None) -> Vector:
    """Return upper bounds on |v| (m+1, any number), with 0 for v of the wrong sign."""
    if penalty is None:
        return v.size
    return np.vstack([cut_sizes(penalty, v[:-1]).size, v[-1:].size])


def bound_of_subsets(alpha: Vector, sizes: Vector, s: int, inside: Bits, out: Bits) -> float:
    """Return the bound at α (n,) on every face of a node; -inf if it is not a number.

    sizes (m+1,): |v| at most; inside, out (m,): the node.
    """
    left = min(s - int(inside.sum()), int((~(inside | out)).sum()))
    if left < 0:
        return np.inf  # no face has so many
    free = np.sort(sizes[:-1][~(inside | out)])
    taken = np.concatenate([sizes[-1:], sizes[:-1][inside], free[len(free) - left :]])
    found = Ball(alpha).sum() - 0.25 * Ball(taken).square_sum()
    return float(found.lower) if np.isfinite(found.lower) else -np.inf


@np.errstate(over="ignore", invalid="ignore")
def bound_of_tree(
    X: Matrix, y: Vector, c: Vector, s: int, tree: SubsetTree, alpha: Vector | None,
    penalty: FacePenalty | None = None,
) -> float:  # fmt: skip
    """Return a lower bound, not negative, on the cost of every face of at most s features.

    X (n, m+1): samples with a 1 behind each.
    y, c (n,): labels, and costs, 0 if another face answers.
    alpha (n,): further multipliers, clipped to their caps; every node may use them.
    penalty: the signs, if there are any.
    """
    signed = np.asarray(y)[:, None]
    given = None if alpha is None else np.clip(alpha, 0.0, c)
    common = None
    if given is not None:
        common = given, _sizes(transposed_product(X, (given * y)[:, None]), penalty)[:, 0]
    own, nodes = np.zeros(len(tree.eps)), tree.nodes()
    for first in range(0, len(nodes), _BLOCK_NODES):
        some = nodes[first : first + _BLOCK_NODES]
        at = np.array([number for number, _, _ in some])
        outputs = product(X, tree.w[at].T).mid
        alphas = c[:, None] * np.clip((1.0 - signed * outputs) / tree.eps[at], 0.0, 1.0)
        alphas = np.where(np.isfinite(alphas), alphas, 0.0)
        sizes = _sizes(transposed_product(X, alphas * signed), penalty)
        for place, (number, inside, out) in enumerate(some):
            own[number] = bound_of_subsets(alphas[:, place], sizes[:, place], s, inside, out)
            if common is not None:
                own[number] = max(own[number], bound_of_subsets(*common, s, inside, out))
    for number, _, _ in reversed(nodes):
        if tree.feature[number] >= 0:
            below = min(own[tree.without[number]], own[tree.within[number]])
            own[number] = max(own[number], below)
    return max(float(own[0]), 0.0)
