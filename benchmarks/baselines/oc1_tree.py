"""The tree of OC1: as arrays, how it is grown, and how it is pruned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.baselines.oc1_split import CRITERIA, SAME, best_step, climb, impurity_of_sides

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Integers = NDArray[np.int64]

__all__ = ["Growth", "Tree", "grow", "pruned"]


@dataclass(frozen=True)
class Tree:
    """A binary tree of hyperplanes, nodes in preorder: the root first, children after their parent."""

    W: Vector  # hyperplanes, bias last; zeros at leaves
    children: Integers  # where a sample goes next, with ``W'x̃ <= 0`` and with ``W'x̃ > 0``; -1 at leaves
    counts: Vector  # weight of the classes among the training samples of each node

    @property
    def is_leaf(self) -> NDArray[np.bool_]:
        """Which nodes are leaves, shape (n_nodes,)."""
        return self.children[:, 0] < 0

    def path(self, X: Vector) -> list[tuple[Integers, Integers]]:
        """For each level, the samples that come so deep and the nodes they are at."""
        samples, nodes = np.arange(len(X)), np.zeros(len(X), dtype=np.int64)
        levels = []
        while len(samples):
            levels.append((samples, nodes))
            going = ~self.is_leaf[nodes]
            samples, nodes = samples[going], nodes[going]
            nodes = self.children[nodes, (values(X[samples], self.W[nodes]) > 0.0).astype(int)]
        return levels

    def leaves(self, X: Vector) -> Integers:
        """The leaf of each sample, shape (t,), of samples of shape (t, m) in C order."""
        found = np.zeros(len(X), dtype=np.int64)
        for samples, nodes in self.path(X):
            found[samples] = nodes
        return found

    def depths(self) -> Integers:
        """Depth of each node, shape (n_nodes,); the root's is 0."""
        depth = np.zeros(len(self.W), dtype=np.int64)
        for node in np.flatnonzero(~self.is_leaf):
            depth[self.children[node]] = depth[node] + 1
        return depth


def values(X: Vector, W: Vector) -> Vector:
    """``w'x̃`` of each sample; in one way only, so that growing and predicting agree to the last bit."""
    return (X * W[..., :-1]).sum(axis=1) + W[..., -1]


@dataclass(frozen=True)
class Growth:
    """How a tree is grown; the attributes are the estimator's parameters of these names."""

    criterion: str
    n_restarts: int
    n_jumps: int
    min_samples_split: int
    max_depth: int | None


def grow(X: Vector, codes: Integers, weights: Vector, n_classes: int, how: Growth, random: Generator) -> Tree:
    """Grow a tree until its leaves are pure or nothing lowers the impurity."""
    W: list[Vector] = []
    children: list[list[int]] = []
    counts: list[Vector] = []
    todo = [(np.arange(len(X)), 0, -1, 0)]  # samples, depth, parent, side
    while todo:
        rows, depth, parent, side = todo.pop()
        node = len(W)
        if parent >= 0:
            children[parent][side] = node
        of_class = np.bincount(codes[rows], weights[rows], minlength=n_classes)
        may_split = (
            (of_class > 0).sum() > 1
            and len(rows) >= how.min_samples_split
            and (how.max_depth is None or depth < how.max_depth)
        )
        w = _split(X[rows], codes[rows], weights[rows], n_classes, how, random) if may_split else None
        W.append(np.zeros(X.shape[1] + 1) if w is None else w)
        children.append([-1, -1])
        counts.append(of_class.astype(np.float64))
        if w is not None:
            right = values(X[rows], w) > 0.0
            todo += [(rows[right], depth + 1, node, 1), (rows[~right], depth + 1, node, 0)]
    return Tree(np.array(W), np.array(children), np.array(counts))


def _split(
    X: Vector, codes: Integers, weights: Vector, n_classes: int, how: Growth, random: Generator
) -> Vector | None:
    """The best split found, shape (m+1,), or None where none lowers the impurity."""
    n, m = X.shape
    rest = (codes, weights, n_classes, CRITERIA[how.criterion])
    least, best = impurity_of_sides(np.ones(n), *rest), None
    for feature in range(m):
        value, alpha = best_step(np.ascontiguousarray(X[:, feature]), np.ones(n), *rest)
        if value < least - SAME:
            least, best = value, np.append(np.zeros(m), alpha)
            best[feature] = 1.0
    if n < 2 * m:  # fewer samples than that say too little about an oblique split
        return best
    # The climb sees every feature in [-1, 1], so that random starts cut the data in any units.
    low, high = X.min(axis=0), X.max(axis=0)
    centre, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    half[half == 0.0] = 1.0
    columns = np.ones((m + 1, n))
    columns[:-1] = ((X - centre) / half).T
    starts = 2.0 * random.random((how.n_restarts + 1, m + 1)) - 1.0
    if best is not None:
        starts[0] = np.append(best[:-1], (best[-1] + best[:-1] @ centre) / (best[:-1] @ half))
    state = random.integers(np.iinfo(np.int64).max, size=1).astype(np.uint64)
    for a in starts:
        if least <= SAME:
            break
        climb(columns, *rest, a, how.n_jumps, state)
        w = np.append(a[:-1] / half, a[-1] - a[:-1] @ (centre / half))
        value = impurity_of_sides(values(X, w), *rest)  # as it will be met, in the units of X
        if value < least - SAME:
            least, best = value, w
    return best


def pruned(tree: Tree, X: Vector, codes: Integers, weights: Vector) -> Tree:
    """The subtree of the cost-complexity sequence with the least error on held-out samples.

    The weakest link, the node whose subtree lowers the training error least for each leaf that it
    adds, becomes a leaf, again and again: Breiman, Friedman, Olshen & Stone, 1984, chapter 3. Of
    subtrees with the same error the smallest is taken.

    `X`, `codes` and `weights` are of the held-out samples.
    """
    majority = tree.counts.argmax(axis=1)
    risk = tree.counts.sum(axis=1) - tree.counts.max(axis=1)
    error = np.zeros(len(majority))  # of each node, were it a leaf
    for samples, nodes in tree.path(X):
        np.add.at(error, nodes, weights[samples] * (codes[samples] != majority[nodes]))
    leaf = tree.is_leaf
    best, least = leaf, np.inf
    while True:
        size, below, held_out = leaf.astype(float), np.where(leaf, risk, 0.0), np.where(leaf, error, 0.0)
        for node in np.flatnonzero(~leaf)[::-1]:
            for total in (size, below, held_out):
                total[node] = total[tree.children[node]].sum()
        if held_out[0] <= least + SAME * weights.sum():
            best, least = leaf, min(least, held_out[0])
        if leaf[0]:
            return _cut(tree, best)
        link = np.where(leaf, np.inf, (risk - below) / np.maximum(size - 1.0, 1.0))
        leaf = leaf | (link <= link.min() + SAME * tree.counts[0].sum())


def _cut(tree: Tree, leaf: NDArray[np.bool_]) -> Tree:
    """The tree with those nodes made leaves, and what was under them gone."""
    kept = np.zeros(len(leaf), dtype=bool)
    kept[0] = True
    for node in np.flatnonzero(~leaf):
        kept[tree.children[node]] = kept[node]
    number = np.cumsum(kept) - 1
    children = np.where(leaf[:, None], -1, number[tree.children])
    return Tree(np.where(leaf[:, None], 0.0, tree.W)[kept], children[kept], tree.counts[kept])
