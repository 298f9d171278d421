"""Branch and bound over the features of a face: the best s, or the gap that is left.

A node says of some features that they are in and of others that they are out; its bound is that of
:class:`polyopt.cpm.few_feature_face.SubsetFace`. The node of the least bound is next, and its free feature
with the largest weight is put in and left out. Every node offers a face: what is in, and the largest of the
free. A node with s features in, or with no more than s left, is that face alone.

What is proven is kept as a tree, with the point whose multipliers bound each node: whoever has the data can
check it without the search (:mod:`polyopt.cpm.certificate_restricted`).

Good faces make a small tree: swaps of single features (:func:`swap_features`), and the cross-entropy method
over patterns of features (:func:`draw_patterns`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from formulations.language.solution import Status
from polyopt.base.progress import tell
from polyopt.cpm.certificate_restricted import SubsetTree
from polyopt.optim.cross_entropy import cross_entropy_minimize

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.clock import Clock
    from formulations.language.types import Vector
    from polyopt.cpm.few_feature_face import Fitted, Proof, SubsetFace

    Bits = NDArray[np.bool_]

__all__ = ["SubsetSearch", "draw_patterns", "swap_features"]

_MAX_TREE_ENTRIES = 1 << 22  # numbers in the tree that is kept; beyond, the root alone is
_MIN_P, _MAX_P = 0.02, 0.9  # first probabilities of drawing a feature: none is left out, none always drawn


@dataclass(order=True, frozen=True)
class _Open:
    """An open node, in the order of exploring: the least bound, then the youngest."""

    bound: float
    age: int
    number: int = field(compare=False)
    inside: Bits = field(compare=False)
    out: Bits = field(compare=False)
    w: Vector = field(compare=False)


class SubsetSearch:
    """The search for the best s features of a face.

    face: the face.
    tol: relative gap at which the search ends.
    clock: when to end.

    best: the best face so far.
    bound: what no face of at most s features costs less than.
    nodes: nodes bounded.
    history: A record for each fifth of a second: nodes, open, bound, objective, seconds.
    """

    def __init__(self, face: SubsetFace, tol: float, clock: Clock):
        self.face, self.tol, self.clock = face, tol, clock
        self.best: Fitted | None = None
        self.bound, self.nodes, self.history = 0.0, 0, list[dict[str, float]]()
        self.z = np.full(face.m, face.s / face.m)
        self._heap: list[_Open] = []
        # The least bounds of what is closed, and of what is at work.
        self._closed, self._at_hand = np.inf, np.inf
        self._seen: dict[bytes, float] = {}
        self._tree: list[list[int]] = []  # feature, child without, child within
        self._points: list[tuple[Vector, float]] = []

    # -- faces ---------------------------------------------------------------------------------

    def offer(self, features: ArrayLike) -> float:
        """Try a face of at most s features; return what it costs, roughly where the best costs less."""
        chosen = np.unique(np.asarray(features, dtype=np.int64))
        key = chosen.tobytes()
        if key not in self._seen:
            self._fit(chosen)
        return self._seen[key]

    def _fit(self, chosen: NDArray[np.int64], w: Vector | None = None) -> Fitted:
        """The face of some features, begun with w or else with the best one."""
        near = w if w is not None or self.best is None else self.best.w
        found = self.face.fit(chosen, self._cut, tol=1e-3 * self.tol, w=near)
        self._seen[found.features.tobytes()] = found.objective
        if self.best is None or found.objective < self.best.objective:
            self.best = found
        return found

    @property
    def _cut(self) -> float:
        """The bound that closes a node."""
        return np.inf if self.best is None else self.best.objective * (1.0 - 0.5 * self.tol)

    # -- the search ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Bound the root, and try the face that it suggests."""
        face, none = self.face, np.zeros(self.face.m, dtype=bool)
        if face.s >= face.m:  # there is no choice
            found = self._fit(np.arange(face.m))
            self._grow(found.proof, is_root=True)
            self._closed = found.bound
            self._settle()
            return
        relaxed = face.relax(none, none, np.zeros(face.m + 1), np.inf, share=1e-3, cold=True)
        self._enter(relaxed.proof, 0.0, none, none, relaxed.w)
        size = np.abs(relaxed.w[: face.m])
        self.z = size / max(float(size.max(initial=0.0)), 1e-300)
        self.offer(self._largest(relaxed.w, none, none))
        self._settle()

    def run(
        self, max_nodes: int, pause: Callable[[SubsetSearch], None] | None = None, after: int = 0
    ) -> Status:
        """Search until the gap is closed, or until there are so many nodes.

        max_nodes: nodes in all.
        pause: called once, when there are `after` nodes and the gap is open; it may offer faces.
        after: of `pause`.
        """
        while self._heap and self._heap[0].bound < self._cut:
            if pause is not None and self.nodes >= after:
                pause(self)
                pause = None
                continue
            if self.clock.is_over:
                return self._record(Status.TIME_LIMIT)
            if self.nodes >= max_nodes:
                return self._record(Status.ITERATION_LIMIT)
            if not self.history or self.clock.seconds > self.history[-1]["seconds"] + 0.2:
                self._record()
            one = heappop(self._heap)
            self._at_hand = one.bound
            self._branch(one)
            self._at_hand = np.inf
        return self._record(Status.SOLVED)

    def _branch(self, one: _Open) -> None:
        free = np.flatnonzero(~(one.inside | one.out))
        j = int(free[np.argmax(np.abs(one.w[free]))])
        numbers = []
        for is_in in (False, True):
            inside, out = one.inside.copy(), one.out.copy()
            (inside if is_in else out)[j] = True
            numbers.append(self._child(one, inside, out))
        if self._tree:
            self._tree[one.number][:] = [j, *numbers]

    def _child(self, one: _Open, inside: Bits, out: Bits) -> int:
        """Bound a child; return its number in the tree."""
        face, cut = self.face, self._cut
        self.nodes += 1
        last = face.only(inside, out)
        if last is not None:
            found = self._fit(last, one.w)
            bound = max(one.bound, found.proof.bound, found.bound)
            self._closed = min(self._closed, bound)
            return self._grow(found.proof)
        out, w = face.closed(inside, out), one.w.copy()
        w[: face.m][out] = 0.0
        relaxed = face.relax(inside, out, w, cut)
        if relaxed.proof.bound < cut:
            self.offer(self._largest(relaxed.w, inside, out))
        return self._enter(relaxed.proof, one.bound, inside, out, relaxed.w)

    def _enter(self, proof: Proof, least: float, inside: Bits, out: Bits, w: Vector) -> int:
        """Make a node open, or close it; return its number in the tree."""
        number, bound = self._grow(proof, len(self._tree) == 0 and self.nodes == 0), max(least, proof.bound)
        if bound >= self._cut or not (~(inside | out)).any():
            self._closed = min(self._closed, bound)
        else:
            heappush(self._heap, _Open(bound, -self.nodes, number, inside, out, w))
        return number

    def _largest(self, w: Vector, inside: Bits, out: Bits) -> NDArray[np.int64]:
        """What is in, and the largest of the free, s features."""
        return self.face.largest(np.where(inside, np.inf, np.where(out, -1.0, np.abs(w[: self.face.m]))))

    # -- what is proven ------------------------------------------------------------------------

    def _settle(self) -> None:
        first = self._heap[0].bound if self._heap else np.inf
        cost = np.inf if self.best is None else self.best.objective
        self.bound = max(self.bound, min(first, self._closed, self._at_hand, cost))

    def _record(self, status: Status = Status.SOLVED) -> Status:
        self._settle()
        record = {
            "nodes": float(self.nodes),
            "open": float(len(self._heap)),
            "bound": self.bound,
            "objective": np.inf if self.best is None else self.best.objective,
            "seconds": self.clock.seconds,
        }
        self.history.append(record)
        tell(record)
        return status

    def stop(self) -> None:
        """Take note of the bound after an interruption."""
        self._record()

    def _grow(self, proof: Proof, is_root: bool = False) -> int:
        """A further node of the tree that is kept; -1 where it is kept no more."""
        if not self._tree and not is_root:
            return -1
        if len(self._tree) * len(proof.w) > _MAX_TREE_ENTRIES:
            self._tree, self._points = [], self._points[:1]
            return -1
        self._tree.append([-1, -1, -1])
        self._points.append((proof.w, proof.eps))
        return len(self._tree) - 1

    @property
    def tree(self) -> SubsetTree:
        """The proof: the tree, or where that became too large the root alone."""
        table = np.array(self._tree or [[-1, -1, -1]], dtype=np.int64)
        w = np.array([point for point, _ in self._points]).reshape(len(table), -1)
        eps = np.array([each for _, each in self._points])
        return SubsetTree(table[:, 0], table[:, 1], table[:, 2], w, eps)


def swap_features(search: SubsetSearch) -> None:
    """Exchange one feature of the best face for another as long as one of a few tries lowers its cost.

    The first to join are those with the largest |v_j|, the slope of the cost in their weights; the first to
    leave have the smallest weights.

    search: with a best face.
    """
    face = search.face
    while not search.clock.is_over:
        best = search.best
        if best is None:
            return
        slope = np.abs(face.pull(best.alpha)[: face.m])
        slope[best.features] = -1.0
        for joining, leaving in _pairs(best, slope, face):
            if slope[joining] >= 0.0:
                search.offer(np.append(best.features[best.features != leaving], joining))
            if search.best is not best:
                break
        else:
            return


def _pairs(best: Fitted, slope: Vector, face: SubsetFace) -> list[tuple[int, int]]:
    """Who joins and who leaves (-1: nobody), in the order in which exchanges are tried."""
    joining = np.argsort(-slope, kind="stable")[:3]
    own = best.features
    leaving = own[np.argsort(np.abs(best.w[own]), kind="stable")[:3]]
    if len(own) < face.s:
        leaving = np.append(leaving, -1)  # there is room for one more
    ranks = sorted(product(range(len(joining)), range(len(leaving))), key=sum)
    return [(int(joining[a]), int(leaving[b])) for a, b in ranks]


def draw_patterns(search: SubsetSearch, seed: int) -> None:
    """Offer faces by the cross-entropy method over patterns of features, from the relaxation's weights.

    A pattern of more than s features stands for the s with the largest weights of its face.

    search: with a best face.
    seed: of the patterns drawn.
    """
    face, best = search.face, search.best
    if best is None:
        return
    order = np.argsort(-search.z, kind="stable")
    candidates = np.union1d(order[:200], best.features)
    p = np.clip(search.z[candidates], _MIN_P, _MAX_P)
    p = np.clip(p * min(1.0, 1.5 * face.s / p.sum()), _MIN_P, _MAX_P)
    pruned: dict[bytes, Bits] = {}

    def score(pattern: Bits) -> float:
        chosen = candidates[pattern]
        if len(chosen) > face.s:
            sizes = np.zeros(face.m)
            sizes[chosen] = np.abs(face.fit(chosen, tol=1e-2).w[chosen])
            chosen = face.largest(sizes)
        pruned[pattern.tobytes()] = np.isin(candidates, chosen)
        return search.offer(chosen)

    def improve(pattern: Bits, value: float) -> tuple[Bits, float]:
        return pruned[pattern.tobytes()], value

    cross_entropy_minimize(
        score, len(candidates), p0=p, n_samples=40, rho=0.15, max_iter=10, patience=3,
        incumbents=np.isin(candidates, best.features)[None, :], improve=improve, random_state=seed,
        time_limit=search.clock.left,
    )  # fmt: skip
