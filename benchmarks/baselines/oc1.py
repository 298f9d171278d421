"""OC1, a baseline: for the papers' tables; not advertised as more.

A hyperplane ``a`` sends a sample right where ``V = a'x̃ > 0``, with ``x̃ = (x, 1)``. Moving it along a
direction r to ``a + αr`` sends a sample right where ``V + α r'x̃ > 0``, which changes at one value of
α for each sample, ``−V / r'x̃``. For a single coefficient, ``r = e_m``, the new coefficient changes
sides at ``U = (a_m x_m − V) / x_m``: eq. (1) of Murthy, Kasif & Salzberg, 1994. Sorting these
values and counting the classes on both sides between them finds the best α exactly.

Samples stand in columns here, ``columns`` of shape (m+1, n) with a last row of ones, so that a
coefficient's values are contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

if TYPE_CHECKING:
    from numpy.random import Generator
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Vector

    Integers = NDArray[np.int64]
    States = NDArray[np.uint64]

__all__ = ["ObliqueTree", "Tree", "grow", "pruned"]

ROUNDING = 1e-12  # impurities closer than this are equal


class ObliqueTree(ClassifierMixin, BaseEstimator):
    """OC1, a decision tree of hyperplanes: for the papers' tables; not advertised as more.

    Every node takes the best axis-parallel split, or a better oblique one if hill climbing finds it:
    from that split and from random hyperplanes, the coefficients are moved to their best values one
    after the other, and a few random directions are tried where no coefficient improves [1]_. A node
    with fewer than 2m samples gets an axis-parallel split. Part of the samples is held out to prune
    the tree by its cost and complexity.

    Samples of the same features and label are one sample with a weight, so that their order does not matter.

    `n_restarts` random hyperplanes are tried at each node beside the axis-parallel one, and `n_jumps` random
    directions at a local minimum; `prune` is the share of the samples held out, 0 for the full tree.

    References
    ----------
    .. [1] Murthy, Kasif & Salzberg, A System for Induction of Oblique Decision Trees, 1994. The
       coefficients are taken in sequence; 20 starts, 5 jumps and 10 % held out are its defaults.
    """

    def __init__(
        self, *, n_restarts: int = 20, n_jumps: int = 5, prune: float = 0.1, random_state: int | None = None
    ):
        self.n_restarts = n_restarts
        self.n_jumps = n_jumps
        self.prune = prune
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit the classifier to samples (n, m) and labels (n,) of two or more classes."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        rows = np.column_stack([np.asarray(X, dtype=float), codes])
        samples, counts = np.unique(rows, axis=0, return_counts=True)
        weights = counts.astype(float)
        X, codes = np.ascontiguousarray(samples[:, :-1]), samples[:, -1].astype(np.int64)

        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        random = np.random.default_rng(seed)
        order = random.permutation(len(X))
        held = np.cumsum(weights[order]) <= self.prune * weights.sum()
        grown = order[~held]
        tree = grow(X[grown], codes[grown], weights[grown], n_classes, self.n_restarts, self.n_jumps, random)
        if held.any():
            tree = pruned(tree, X[order[held]], codes[order[held]], weights[order[held]])
        self.tree_ = tree
        self.n_nodes_, self.n_leaves_ = len(tree.W), int(tree.is_leaf.sum())
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted labels (t,) of samples (t, m): the heaviest class of each leaf."""
        leaf = self.tree_.leaves(np.ascontiguousarray(X, dtype=float))
        return self.classes_[self.tree_.counts[leaf].argmax(axis=1)]


# -- the tree --------------------------------------------------------------------------------------------


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


def values(X: Vector, W: Vector) -> Vector:
    """``w'x̃`` of each sample; in one way only, so that growing and predicting agree to the last bit."""
    return (X * W[..., :-1]).sum(axis=1) + W[..., -1]


def grow(
    X: Vector, codes: Integers, weights: Vector, n_classes: int, n_restarts: int, n_jumps: int,
    random: Generator,
) -> Tree:  # fmt: skip
    """Grow a tree until its leaves are pure or nothing lowers the impurity."""
    W: list[Vector] = []
    children: list[list[int]] = []
    counts: list[Vector] = []
    todo = [(np.arange(len(X)), -1, 0)]  # samples, parent, side
    while todo:
        rows, parent, side = todo.pop()
        node = len(W)
        if parent >= 0:
            children[parent][side] = node
        of_class = np.bincount(codes[rows], weights[rows], minlength=n_classes)
        w = None
        if (of_class > 0).sum() > 1:
            w = _split(X[rows], codes[rows], weights[rows], n_classes, n_restarts, n_jumps, random)
        W.append(np.zeros(X.shape[1] + 1) if w is None else w)
        children.append([-1, -1])
        counts.append(of_class.astype(np.float64))
        if w is not None:
            right = values(X[rows], w) > 0.0
            todo += [(rows[right], node, 1), (rows[~right], node, 0)]
    return Tree(np.array(W), np.array(children), np.array(counts))


def _split(
    X: Vector, codes: Integers, weights: Vector, n_classes: int, n_restarts: int, n_jumps: int,
    random: Generator,
) -> Vector | None:  # fmt: skip
    """The best split found, shape (m+1,), or None where none lowers the impurity."""
    n, m = X.shape
    rest = (codes, weights, n_classes)
    least, best = impurity_of_sides(np.ones(n), *rest), None
    for feature in range(m):
        value, alpha = best_step(np.ascontiguousarray(X[:, feature]), np.ones(n), *rest)
        if value < least - ROUNDING:
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
    starts = 2.0 * random.random((n_restarts + 1, m + 1)) - 1.0
    if best is not None:
        starts[0] = np.append(best[:-1], (best[-1] + best[:-1] @ centre) / (best[:-1] @ half))
    state = random.integers(np.iinfo(np.int64).max, size=1).astype(np.uint64)
    for a in starts:
        if least <= ROUNDING:
            break
        climb(columns, *rest, a, n_jumps, state)
        w = np.append(a[:-1] / half, a[-1] - a[:-1] @ (centre / half))
        value = impurity_of_sides(values(X, w), *rest)  # as it will be met, in the units of X
        if value < least - ROUNDING:
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
        if held_out[0] <= least + ROUNDING * weights.sum():
            best, least = leaf, min(least, held_out[0])
        if leaf[0]:
            return _cut(tree, best)
        link = np.where(leaf, np.inf, (risk - below) / np.maximum(size - 1.0, 1.0))
        leaf = leaf | (link <= link.min() + ROUNDING * tree.counts[0].sum())


def _cut(tree: Tree, leaf: NDArray[np.bool_]) -> Tree:
    """The tree with those nodes made leaves, and what was under them gone."""
    kept = np.zeros(len(leaf), dtype=bool)
    kept[0] = True
    for node in np.flatnonzero(~leaf):
        kept[tree.children[node]] = kept[node]
    number = np.cumsum(kept) - 1
    children = np.where(leaf[:, None], -1, number[tree.children])
    return Tree(np.where(leaf[:, None], 0.0, tree.W)[kept], children[kept], tree.counts[kept])


# -- one split -------------------------------------------------------------------------------------------


def _uniform(state: States) -> float:
    """The next number from [0, 1): the upper bits of a linear congruential generator."""
    state *= np.uint64(6364136223846793005)
    state += np.uint64(1442695040888963407)
    return float(state[0] >> np.uint64(11)) * 2.0**-53


def impurity(sides: Vector) -> Any:
    """Gini impurity of a split, ``Σ_s p_s (1 − Σ_c p_sc²)``; if one side is empty, that of the node.

    `sides` (..., 2, n_classes) has the weight of each class on either side, of one split or of several.
    """
    of_side = sides.sum(axis=-1, keepdims=True)
    total = of_side.sum(axis=(-2, -1), keepdims=True)
    filled = sides > ROUNDING * total
    shares = np.divide(sides, of_side, out=np.ones_like(sides), where=filled)
    value = np.where(filled, sides * (1.0 - shares), 0.0).sum(axis=(-2, -1)) / total[..., 0, 0]
    return np.maximum(value, 0.0)


def impurity_of_sides(V: Vector, codes: Integers, weights: Vector, n_classes: int) -> float:
    """Impurity of the split into ``V > 0`` and the rest.

    `V` (n,) has the values at the hyperplane.
    """
    return float(impurity(_sides(V > 0.0, codes, weights, n_classes)))


def _sides(right: NDArray[np.bool_], codes: Integers, weights: Vector, n_classes: int) -> Vector:
    """Weight of each class on either side, (2, n_classes)."""
    return np.bincount(n_classes * right + codes, weights, 2 * n_classes).reshape(2, n_classes)


def best_step(V: Vector, r: Vector, codes: Integers, weights: Vector, n_classes: int) -> tuple[float, float]:
    """The least impurity of the splits ``V + α r > 0`` over all α, and the first α that has it.

    `V` (n,) has the values at the hyperplane, `r` what a unit of α adds to them.
    """
    start = _sides(np.where(r == 0.0, V > 0.0, r < 0.0), codes, weights, n_classes)  # at α = −∞
    movers = np.flatnonzero(r)
    least = float(impurity(start))
    if not len(movers):
        return least, 0.0
    with np.errstate(over="ignore"):
        crossings = -V[movers] / r[movers]
    order = np.argsort(crossings)
    movers, crossings = movers[order], crossings[order]
    first, last = crossings[0], crossings[-1]
    best = first - (1.0 + abs(first))
    if not np.isfinite(best):
        least, best = np.inf, 0.0
    # After each crossing its sample is on the other side.
    changes = np.zeros((len(movers) + 1, 2, n_classes))
    changes[0] = start
    at, gains = np.arange(1, len(movers) + 1), (r[movers] > 0.0).astype(int)
    changes[at, gains, codes[movers]] = weights[movers]
    changes[at, 1 - gains, codes[movers]] = -weights[movers]
    values_after = impurity(changes.cumsum(axis=0)[1:])
    with np.errstate(invalid="ignore", over="ignore"):
        alphas = np.append(0.5 * crossings[:-1] + 0.5 * crossings[1:], last + (1.0 + abs(last)))
        alphas[:-1] = np.where(alphas[:-1] <= crossings[:-1], crossings[1:], alphas[:-1])
    differ = np.append(crossings[1:] != crossings[:-1], True)
    values_after[~(differ & np.isfinite(alphas))] = np.inf
    place = 0
    while (better := np.flatnonzero(values_after[place:] < least - ROUNDING)).size:
        place += int(better[0])
        least, best = float(values_after[place]), float(alphas[place])
    return least, best


def move(
    V: Vector, r: Vector, current: float, patience: float, codes: Integers, weights: Vector, n_classes: int,
    state: States,
) -> tuple[float, float]:  # fmt: skip
    """Move to the best α if that is better, or as good and the lot falls so; return α and impurity.

    `V` and `state` are changed; `patience` is the probability of a move that changes nothing.
    """
    value, alpha = best_step(V, r, codes, weights, n_classes)
    if value >= current - ROUNDING and _uniform(state) >= patience:
        return 0.0, current
    moved = V + alpha * r
    value = impurity_of_sides(moved, codes, weights, n_classes)
    if value > current + ROUNDING:  # samples as close to a crossing as rounding is
        return 0.0, current
    V[:] = moved
    return alpha, value


def climb(
    columns: Vector, codes: Integers, weights: Vector, n_classes: int, a: Vector, n_jumps: int, state: States
) -> float:
    """Improve a hyperplane until neither its coefficients nor jumps do; return its impurity.

    Step 1 perturbs the coefficients in turn until a round improves nothing. The probability of a move
    that changes nothing is 1 at first and falls by 0.1 with each. Step 2 tries up to `n_jumps` random
    directions; one that improves leads back to step 1.

    `columns` (m+1, n) has the samples in columns, with a last row of ones; the hyperplane `a` and the
    `state` of the random numbers are changed.
    """
    V = a @ columns
    current = impurity_of_sides(V, codes, weights, n_classes)
    patience = 1.0
    while current > ROUNDING:
        improved = True
        while improved and current > ROUNDING:
            before = current
            for m in range(len(a)):
                earlier = current
                alpha, current = move(V, columns[m], current, patience, codes, weights, n_classes, state)
                a[m] += alpha
                if current < earlier - ROUNDING:
                    patience = 1.0
                elif alpha != 0.0:
                    patience = max(patience - 0.1, 0.0)
            improved = current < before - ROUNDING
        for _ in range(n_jumps):
            direction = np.array([2.0 * _uniform(state) - 1.0 for _ in a])
            earlier = current
            alpha, current = move(V, direction @ columns, current, 0.0, codes, weights, n_classes, state)
            a += alpha * direction
            improved = current < earlier - ROUNDING
            if improved:
                break
        if not improved:
            break
    return current
