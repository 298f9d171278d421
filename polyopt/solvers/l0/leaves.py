"""The branch and bound of :mod:`polyopt.solvers.l0.tree`, kept as a tree whose leaves prove its bound.

A node has multipliers u and the centre that it decides; a leaf has multipliers, and they bound its scores as
in :mod:`polyopt.solvers.l0.node`. The search also decides centres without a node, by what multipliers say of
one centre more. Here every decision is a node: two or three times as many, of a tree that is simple to check.

Multipliers are on a grid and in balance exactly, before their bound is taken: they are short, and feasible.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.certificates.claims.statement import numeral
from polyopt.solvers.clock import Clock
from polyopt.solvers.l0.node import FREE
from polyopt.solvers.l0.tree import Open, Search
from polyopt.solvers.l0.warm import WarmLP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector
    from polyopt.solvers.l0.node import NodeSolution

    Marks = NDArray[np.int8]
    Whole = NDArray[np.int64]

__all__ = ["prove_by_leaves"]

_BITS = 40  # of the largest cap: the grid of the multipliers
_DEEPEST = 200  # decisions one under the other, which every reader of JSON takes


def prove_by_leaves(
    data: L0Data, point: tuple[Vector, float], goal: float, max_nodes: int
) -> tuple[dict[str, Any], float]:
    """A tree as in the file, and what its leaves prove of every score.

    Parameters
    ----------
    data : L0Data
        The problem.
    point : (ndarray of shape (p,), float)
        A good point: coefficients and intercept.
    goal : float
        What is to be proven. Less is, where it is above the optimum or the nodes are too few.
    max_nodes : int
        Nodes that decide, at most.
    """
    tree = _Tree(data, goal, max_nodes)
    tree.offer(*point)
    return tree.root, tree.grow()


class _Tree(Search):
    """A search of which every node is kept."""

    def __init__(self, data: L0Data, goal: float, max_nodes: int):
        super().__init__(data, 0.0, Clock(None), max_nodes, None)
        self.goal, self.root = goal, dict[str, Any]()
        self.lp = WarmLP(data)
        self.kept: dict[int, tuple[dict[str, Any], Whole]] = {}  # of open nodes: as in the file, multipliers
        self.caps = np.nextafter(data.C * data.weights, 0.0)  # not over C w, which the product may be
        self.unit = 2.0 ** float(np.frexp(self.caps.max())[1] - _BITS)

    @property
    def enough(self) -> float:
        """A node of this bound need not be looked into."""
        return self.goal

    def grow(self) -> float:
        """Decide until all leaves prove the goal, or as much as one of them can."""
        free = np.full(len(self.data.centres), FREE, dtype=np.int8)
        found = self.lp.solve(free, None, np.inf, self.clock)
        self._keep(self.root, free, found, None)
        while self.heap and self.heap[0].bound < self.closed and self.nodes < self.most:
            self._split(heappop(self.heap))
        return float(min([self.closed, *(one.bound for one in self.heap)]))

    def _split(self, one: Open) -> None:
        """Decide one centre: off, and on."""
        self.nodes += 1
        told, above = self.kept.pop(one.number)
        j, _ = self._choose(one)
        told["weight"], told["ways"] = j, [{}, {}]
        for on, way in enumerate(told["ways"]):
            found = self._solve(one, j, on)
            self._keep(way, self._decided(one, j, on), found, above)

    def _keep(self, told: dict[str, Any], fixed: Marks, found: NodeSolution, above: Whole | None) -> None:
        """Note a node's multipliers, those above if they prove more, and whether it is to decide."""
        u, a = self._on_grid(found.u), found.a
        bound = self.lp.bound.proves(fixed, u * self.unit)
        told.pop("rows", None)
        if above is not None and self.lp.bound.proves(fixed, above * self.unit) >= bound:
            u, bound = above, self.lp.bound.proves(fixed, above * self.unit)
        else:
            told["rows"] = {"margin": [self._changes(u, above)]}
        if bound >= self.goal:
            self.closed = min(self.closed, bound)
            return
        part = (fixed == FREE) & ((a > 0.0) & (a < 1.0) | (not found.solved))
        if not part.any() or (fixed != FREE).sum() >= _DEEPEST:
            self.closed = min(self.closed, bound)
        else:
            self.made += 1
            at = np.flatnonzero(part)
            heappush(self.heap, Open(bound, self.made, fixed, found.basis, at, a[at]))
            self.kept[self.made] = told, u

    def _on_grid(self, u: Vector) -> Whole:
        """Multipliers as whole numbers of units, within their caps and in balance."""
        y, caps = self.data.y.astype(np.int64), np.floor(self.caps / self.unit).astype(np.int64)
        found = np.clip(np.floor(u / self.unit).astype(np.int64), 0, caps)
        off = int((y * found).sum())
        heavy = np.flatnonzero((y == np.sign(off)) & (found > 0))
        # From those between their ends first, where it costs least.
        order = heavy[np.lexsort((-found[heavy], found[heavy] == caps[heavy]))]
        taken = np.minimum(np.cumsum(found[order]), abs(off))
        found[order] -= np.diff(taken, prepend=0)
        return found

    def _changes(self, u: Whole, above: Whole | None) -> dict[str, Any]:
        """The multipliers that are not as above, as in the file."""
        at = np.flatnonzero(u if above is None else u != above)
        return {"at": at.tolist(), "is": [numeral(v) for v in (u[at] * self.unit).tolist()]}
