"""A search tree over the features of a face as a proof: what it is, and what it proves for the data at hand.

A node says which features are in and which are out; whatever multipliers α of the face's samples keep within
their caps bound every face of at most s features that has the node's (:mod:`formulations.cpm_subset`):

    Σ α − ¼ (v_b² + Σ_{j in} v_j² + the s − |in| largest v_j² of the free),        v = Σ α_i y_i x̃_i.

The two children of a node have all its faces between them, so that a node's bound is the greater of its own
and the lesser of its children's. Nothing of the search is believed: multipliers and bounds are computed anew
from the points of the tree, less their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from formulations.arguments import real_array
from polyopt.certificates.rounding import Ball, product, transposed_product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, Vector

    Bits = NDArray[np.bool_]

__all__ = ["SubsetTree", "bound_of_subsets", "bound_of_tree"]

_AT_ONCE = 64  # nodes whose multipliers are pulled together
_LEAD = 4  # columns of the table before those of w


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
        columns = m + 1 + _LEAD
        if found.ndim != 2 or len(found) < 1 or found.shape[1] != columns:
            raise ValueError(f"{name} must have {columns} columns and a row at least, not {found.shape}")
        whole, number, eps = found[:, :3], np.arange(len(found)), found[:, 3]
        inner = whole[:, 0] >= 0
        behind = (whole[:, 1:] > number[:, None]) & (whole[:, 1:] < len(found))
        fits = (whole == np.floor(whole)).all() and (whole[:, 0] < m).all() and (eps > 0).all()
        if not fits or not behind[inner].all():
            raise ValueError(f"{name} must be a tree over {m} features, each child behind its parent")
        table_of = whole.astype(np.int64)
        return cls(table_of[:, 0], table_of[:, 1], table_of[:, 2], found[:, _LEAD:], eps)


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
    """What every face of at most s features costs at least, 0 or more.

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
    for first in range(0, len(nodes), _AT_ONCE):
        some = nodes[first : first + _AT_ONCE]
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
