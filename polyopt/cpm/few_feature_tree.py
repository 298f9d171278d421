"""Branch and bound over the features of a face: the best s features, or the remaining gap.

A node includes some features and excludes others; its bound is that of
:class:`polyopt.cpm.few_feature_face.SubsetFace`. A node branches on its free feature with the largest weight.
Every node offers a face: the included features, and the largest of the free. A node with s features, or with
no more than s left, is that face alone.

The proof is stored as a tree, with the point whose multipliers bound each node: it can be checked from the
data without the search (:mod:`polyopt.cpm.certificate_restricted`).

Good faces make a small tree: swaps of single features (:func:`swap_features`), and the cross-entropy method
over patterns of features (:func:`draw_patterns`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.cpm.certificate_restricted import SubsetTree
from polyopt.optim import best_first
from polyopt.optim.best_first import BestFirst, OpenNode
from polyopt.optim.cross_entropy import cross_entropy_minimize

if TYPE_CHECKING:
    from polyopt.cpm.few_feature_face import BoundPoint, FaceFit, SubsetFace

    Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Options(best_first.Options):
    """Numbers of the search."""

    max_tree_entries: int = 1 << 22  # numbers in the stored tree; beyond it only the root is stored
    min_p: float = 0.02  # limits of the initial probabilities of drawing a feature
    max_p: float = 0.9
    max_candidates: int = 200  # features among which patterns are drawn
    swap_candidates: int = 3  # features that may join, and that may leave, in a round of swaps


DEFAULT = Options()


class Choice(NamedTuple):
    """Number of the node in the stored tree; included and excluded features; the relaxation's weights."""

    number: int
    inside: Bits
    out: Bits
    w: Vector


class SubsetSearch(BestFirst[Choice]):
    """The search for the best s features of a face; `best` is the best face so far."""

    def __init__(self, face: SubsetFace, tol: float, clock: Clock, options: Options = DEFAULT):
        super().__init__(0.5 * tol, 2 * face.m + 8 * (face.m + 1) + 200, options)
        self.face, self.clock, self.numbers = face, clock, options
        self.best: FaceFit | None = None
        self._exploring = 0.0  # the root, until it is bounded
        self.z = np.full(face.m, face.s / face.m)
        self._seen: dict[bytes, float] = {}
        self._tree: list[list[int]] = []  # feature, child without, child within
        self._points: list[tuple[Vector, float]] = []

    @property
    def objective(self) -> float:
        """Cost of the best face."""
        return np.inf if self.best is None else self.best.objective

    def offer(self, features: ArrayLike) -> float:
        """Try a face of at most s features; return its cost, approximate if the best face costs less."""
        chosen = np.unique(np.asarray(features, dtype=np.int64))
        key = chosen.tobytes()
        if key not in self._seen:
            self._fit(chosen)
        return self._seen[key]

    def _fit(self, chosen: NDArray[np.int64], w: Vector | None = None) -> FaceFit:
        """Fit a face of given features, from w or else from the best one."""
        start = w if w is not None or self.best is None else self.best.w
        fit = self.face.fit(chosen, self.cutoff, tol=2e-3 * self.tol, w=start)
        self._seen[fit.features.tobytes()] = fit.objective
        if self.best is None or fit.objective < self.best.objective:
            self.best = fit
        return fit

    def begin(self) -> None:
        """Bound the root, and try the face that it suggests."""
        face, none = self.face, np.zeros(self.face.m, dtype=bool)
        if face.s >= face.m:  # there is no choice
            fit = self._fit(np.arange(face.m))
            self._grow(fit.bound_point)
            self.close(fit.bound)
            self._exploring = np.inf
            return
        relaxed = face.relax(none, none, np.zeros(face.m + 1), np.inf, rel_gap=1e-3, cold=True)
        root = Choice(self._grow(relaxed.bound_point), none, none, relaxed.w)
        size = np.abs(relaxed.w[: face.m])
        self.z = size / max(float(size.max(initial=0.0)), 1e-300)
        self.push([(max(0.0, relaxed.bound_point.bound), root)])
        self._exploring = np.inf
        self.offer(self._largest(relaxed.w, none, none))

    def search(
        self, max_nodes: int, pause: Callable[[SubsetSearch], None] | None = None, after: int = 0
    ) -> Status:
        """Search until the gap is closed, or until there are `max_nodes` nodes.

        `pause` is called once, after `after` nodes if the gap is open; it may offer faces.
        """
        first = min(after, max_nodes)
        status = self.run(self.clock, first)
        if status is Status.ITERATION_LIMIT and pause is not None and first == after:
            pause(self)
        if status is Status.ITERATION_LIMIT:
            status = self.run(self.clock, max_nodes)
        return status

    def expand(self, node: OpenNode[Choice]) -> list[tuple[float, Choice]]:
        """Include and exclude the free feature with the largest weight."""
        self.nodes += 1  # two nodes are bounded
        number, inside, out, w = node.state
        free = np.flatnonzero(~(inside | out))
        j = int(free[np.argmax(np.abs(w[free]))])
        children, numbers = [], []
        for is_in in (False, True):
            sides = inside.copy(), out.copy()
            sides[0 if is_in else 1][j] = True
            bound, child = self._child(node, *sides)
            numbers.append(child.number)
            if (~(child.inside | child.out)).any():
                children.append((bound, child))
            else:
                self.close(bound)
        if self._tree:
            self._tree[number][:] = [j, *numbers]
        return children

    def _child(self, node: OpenNode[Choice], inside: Bits, out: Bits) -> tuple[float, Choice]:
        """Bound a child."""
        face, cut, w = self.face, self.cutoff, node.state.w
        last = face.sole_support(inside, out)
        if last is not None:
            fit = self._fit(last, w)
            bound = max(node.bound, fit.bound_point.bound, fit.bound)
            return bound, Choice(self._grow(fit.bound_point), inside, ~inside, w)
        out, w = face.excluded(inside, out), w.copy()
        w[: face.m][out] = 0.0
        relaxed = face.relax(inside, out, w, cut)
        if relaxed.bound_point.bound < cut:
            self.offer(self._largest(relaxed.w, inside, out))
        bound = max(node.bound, relaxed.bound_point.bound)
        return bound, Choice(self._grow(relaxed.bound_point), inside, out, relaxed.w)

    def _largest(self, w: Vector, inside: Bits, out: Bits) -> NDArray[np.int64]:
        """Return the included features and the largest of the free, s features."""
        return self.face.top_s(np.where(inside, np.inf, np.where(out, -1.0, np.abs(w[: self.face.m]))))

    def _grow(self, point: BoundPoint) -> int:
        """Add a node to the stored tree; return its number, -1 if the tree has become too large."""
        if self._points and not self._tree:
            return -1
        if len(self._tree) * len(point.w) > self.numbers.max_tree_entries:
            self._tree, self._points = [], self._points[:1]
            return -1
        self._tree.append([-1, -1, -1])
        self._points.append((point.w, point.eps))
        return len(self._tree) - 1

    @property
    def tree(self) -> SubsetTree:
        """The proof: the tree, or only the root if the tree became too large."""
        table = np.array(self._tree or [[-1, -1, -1]], dtype=np.int64)
        w = np.array([w for w, _ in self._points]).reshape(len(table), -1)
        eps = np.array([eps for _, eps in self._points])
        return SubsetTree(table[:, 0], table[:, 1], table[:, 2], w, eps)


def swap_features(search: SubsetSearch) -> None:
    """Exchange one feature of the best face for another as long as one of a few tries lowers its cost.

    The features with the largest |v_j|, the slope of the cost in their weights, join first; those with the
    smallest weights leave first.
    """
    face = search.face
    while not search.clock.is_over:
        best = search.best
        if best is None:
            return
        slope = np.abs(face.pull(best.alpha)[: face.m])
        slope[best.features] = -1.0
        for joining, leaving in _swaps(best, slope, face, search.numbers.swap_candidates):
            if slope[joining] >= 0.0:
                search.offer(np.append(best.features[best.features != leaving], joining))
            if search.best is not best:
                break
        else:
            return


def _swaps(best: FaceFit, slope: Vector, face: SubsetFace, count: int) -> list[tuple[int, int]]:
    """Return pairs of a joining and a leaving feature (-1: none), in the order of the tries."""
    joining = np.argsort(-slope, kind="stable")[:count]
    features = best.features
    leaving = features[np.argsort(np.abs(best.w[features]), kind="stable")[:count]]
    if len(features) < face.s:
        leaving = np.append(leaving, -1)  # there is room for one more
    ranks = sorted(product(range(len(joining)), range(len(leaving))), key=sum)
    return [(int(joining[a]), int(leaving[b])) for a, b in ranks]


def draw_patterns(search: SubsetSearch, seed: int) -> None:
    """Offer faces by the cross-entropy method over patterns of features, from the relaxation's weights.

    A pattern of more than s features stands for the s with the largest weights of its face.
    """
    face, best, numbers = search.face, search.best, search.numbers
    if best is None:
        return
    order = np.argsort(-search.z, kind="stable")
    candidates = np.union1d(order[: numbers.max_candidates], best.features)
    p = np.clip(search.z[candidates], numbers.min_p, numbers.max_p)
    p = np.clip(p * min(1.0, 1.5 * face.s / p.sum()), numbers.min_p, numbers.max_p)
    pruned: dict[bytes, Bits] = {}

    def score(pattern: Bits) -> float:
        chosen = candidates[pattern]
        if len(chosen) > face.s:
            sizes = np.zeros(face.m)
            sizes[chosen] = np.abs(face.fit(chosen, tol=1e-2).w[chosen])
            chosen = face.top_s(sizes)
        pruned[pattern.tobytes()] = np.isin(candidates, chosen)
        return search.offer(chosen)

    def improve(pattern: Bits, value: float) -> tuple[Bits, float]:
        return pruned[pattern.tobytes()], value

    cross_entropy_minimize(
        score, len(candidates), p0=p, n_samples=40, rho=0.15, max_iter=10, patience=3,
        incumbents=np.isin(candidates, best.features)[None, :], improve=improve, random_state=seed,
        time_limit=search.clock.left,
    )  # fmt: skip
