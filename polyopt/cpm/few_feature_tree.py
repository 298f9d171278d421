"""Branch and bound over the features of a face: the best s features, or the remaining gap.

A node includes some features, excludes others, and leaves the rest free; its bound is that of a relaxation
(:class:`polyopt.cpm.few_feature_face.SubsetFace`). The search (:class:`SubsetSearch`) expands the node of the
least bound, and branches on its free feature with the largest weight. A child is closed if its bound is at
least the *cutoff*, the incumbent's cost less the tolerance; otherwise it is open. At every node a candidate
is fitted: a face of the included features and of the free ones with the largest weights. A node with s
features included, or with at most s not excluded, has only one choice of features, and is solved by its fit.

The proof is stored as a tree, with the point whose multipliers bound each node: it can be checked from the
data without the search (:mod:`polyopt.cpm.certificate_restricted`).

Swaps of single features (:func:`swap_features`) improve the incumbent, which makes the tree small.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.certificate_restricted import SubsetTree
from polyopt.optim.best_first import BestFirst, OpenNode

if TYPE_CHECKING:
    from polyopt.cpm.few_feature_face import BoundPoint, FaceFit, SubsetFace

    Bits = NDArray[np.bool_]


_SWAP_CANDIDATES = 3  # features that may be added, and removed, in a round of swaps


class Choice(NamedTuple):
    """A node of the search."""

    number: int  # index in the stored tree
    included: Bits  # mask (m,) of the included features
    excluded: Bits  # mask (m,) of the excluded features
    w: Vector  # solution (m+1,) of the relaxation


class SubsetSearch(BestFirst[Choice]):
    """The search for the best s features of a face; `best` is the incumbent."""

    def __init__(self, face: SubsetFace, tol: float, clock: Clock):
        node_bytes = 2 * face.m + 8 * (face.m + 1) + 200  # two masks, w, and objects
        super().__init__(0.5 * tol, node_bytes)  # half of tol for the cutoff
        self.face, self.clock = face, clock
        self.best: FaceFit | None = None
        self._exploring = 0.0  # bound of the nodes in work: at first the root, whose cost is at least 0
        self._costs: dict[bytes, float] = {}  # costs of the faces fitted so far, by their features
        self._tree: list[list[int]] = []  # per node: feature, child that excludes it, child that includes it
        self._points: list[tuple[Vector, float]] = []  # per node: w and ε of its BoundPoint

    @property
    def objective(self) -> float:
        """Cost of the incumbent."""
        return np.inf if self.best is None else self.best.objective

    def offer(self, features: ArrayLike) -> float:
        """Fit a face of at most s features; return its cost, rough if its bound exceeds the cutoff."""
        features = np.unique(np.asarray(features, dtype=np.int64))
        key = features.tobytes()
        if key not in self._costs:
            self._fit(features)
        return self._costs[key]

    def _fit(self, features: NDArray[np.int64], w: Vector | None = None) -> FaceFit:
        """Fit a face, starting from w or else the incumbent, and update the incumbent."""
        if w is None and self.best is not None:
            w = self.best.w
        fit = self.face.fit(features, self.cutoff, tol=2e-3 * self.tol, w=w)
        self._costs[fit.features.tobytes()] = fit.objective
        if self.best is None or fit.objective < self.best.objective:
            self.best = fit
        return fit

    def begin(self) -> None:
        """Bound the root, and fit the face that its relaxation suggests."""
        face, no_features = self.face, np.zeros(self.face.m, dtype=bool)
        if face.s >= face.m:  # all features are allowed
            fit = self._fit(np.arange(face.m))
            self._store(fit.bound_point)
            self.close(fit.bound)  # the root is the only node
            self._exploring = np.inf
            return
        w, bound_point = face.relax(
            no_features, no_features, np.zeros(face.m + 1), np.inf, rel_gap=1e-3, cold=True
        )
        root = Choice(self._store(bound_point), no_features, no_features, w)
        self.push([(max(0.0, bound_point.bound), root)])
        self._exploring = np.inf  # no node is in work
        self.offer(self._largest(w, no_features, no_features))

    def expand(self, node: OpenNode[Choice]) -> list[tuple[float, Choice]]:
        """Branch on the free feature with the largest weight: exclude it, include it."""
        self.nodes += 1  # two nodes are bounded, of which BestFirst has counted one
        number, included, excluded, w = node.state
        free = np.flatnonzero(~(included | excluded))
        j = int(free[np.argmax(np.abs(w[free]))])
        is_j = np.arange(len(included)) == j
        children, child_numbers = [], []
        for masks in ((included, excluded | is_j), (included | is_j, excluded)):
            bound, child = self._child(node, *masks)
            child_numbers.append(child.number)
            if not (child.included | child.excluded).all():  # some features are free
                children.append((bound, child))
            else:
                self.close(bound)
        self._tree[number][:] = [j, *child_numbers]
        return children

    def _child(self, node: OpenNode[Choice], included: Bits, excluded: Bits) -> tuple[float, Choice]:
        """Bound a child by its relaxation, or by its fit if it has only one choice of features."""
        face, cutoff, w = self.face, self.cutoff, node.state.w
        support = face.sole_support(included, excluded)
        if support is not None:
            fit = self._fit(support, w)
            bound = max(node.bound, fit.bound_point.bound, fit.bound)
            return bound, Choice(self._store(fit.bound_point), included, ~included, w)
        excluded, w = face.exclude_rest(included, excluded), w.copy()
        w[: face.m][excluded] = 0.0
        w, bound_point = face.relax(included, excluded, w, cutoff)
        if bound_point.bound < cutoff:
            self.offer(self._largest(w, included, excluded))
        bound = max(node.bound, bound_point.bound)
        return bound, Choice(self._store(bound_point), included, excluded, w)

    def _largest(self, w: Vector, included: Bits, excluded: Bits) -> NDArray[np.int64]:
        """Return s features: the included ones, and the free ones with the largest weights."""
        return self.face.top_s(np.where(included, np.inf, np.where(excluded, -1.0, np.abs(w[: self.face.m]))))

    def _store(self, point: BoundPoint) -> int:
        """Add a node to the stored tree; return its number."""
        self._tree.append([-1, -1, -1])  # a leaf, until it is expanded
        self._points.append((point.w, point.eps))
        return len(self._tree) - 1

    @property
    def tree(self) -> SubsetTree:
        """The stored tree."""
        table = np.array(self._tree, dtype=np.int64)
        w = np.array([w for w, _ in self._points]).reshape(len(table), -1)
        eps = np.array([eps for _, eps in self._points])
        return SubsetTree(table[:, 0], table[:, 1], table[:, 2], w, eps)


def swap_features(search: SubsetSearch) -> None:
    """Exchange features of the incumbent one by one, as long as one of a few candidate swaps lowers its cost.

    Candidates to add have the largest |v_j|, the gradient of the loss in their weights; candidates to remove
    have the smallest weights.
    """
    face = search.face
    while not search.clock.is_over:
        best = search.best
        if best is None:
            return
        gradient = np.abs(face.signed_sum(best.alpha)[: face.m])
        gradient[best.features] = -1.0
        for added, removed in _swaps(best, gradient, face):
            if gradient[added] >= 0.0:
                search.offer(np.append(best.features[best.features != removed], added))
            if search.best is not best:
                break
        else:
            return


def _swaps(best: FaceFit, gradient: Vector, face: SubsetFace) -> list[tuple[int, int]]:
    """Return pairs of a feature to add and one to remove (-1: none), most promising first."""
    added = np.argsort(-gradient, kind="stable")[:_SWAP_CANDIDATES]
    features = best.features
    removed = features[np.argsort(np.abs(best.w[features]), kind="stable")[:_SWAP_CANDIDATES]]
    if len(features) < face.s:
        removed = np.append(removed, -1)
    ranks = sorted(product(range(len(added)), range(len(removed))), key=sum)
    return [(int(added[a]), int(removed[b])) for a, b in ranks]
