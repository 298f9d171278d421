"""The branch and bound of :mod:`polyopt.sparse.tree.search`, kept as a tree whose leaves prove its bound.

A node has multipliers u and the centre that it decides; a leaf has multipliers, and they bound its scores as
in :mod:`polyopt.sparse.tree.node`. The search also decides centres without a node, by what multipliers say of
one centre more. Here every decision is a node: two or three times as many, of a tree that is simple to check.

Multipliers are on a grid and in balance exactly, before their bound is taken: they are short, and feasible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formulations.language.clock import Clock
from polyopt.certificates.claims.statement import numeral
from polyopt.sparse.tree import branch
from polyopt.sparse.tree import open_nodes as nodes
from polyopt.sparse.tree.node import FREE, OFF, ON, bound_of
from polyopt.sparse.tree.search import Search

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.l0_data import L0Data
    from formulations.language.types import Vector

    Marks = NDArray[np.int8]
    Whole = NDArray[np.int64]

__all__ = ["prove_by_leaves"]

_BITS = 40  # of the largest cap: the grid of the multipliers
_MAX_DEPTH = 200  # decisions one under the other, which every reader of JSON takes


class _Kept(NamedTuple):
    """An open node: as in the file, what it decides, its multipliers in units, and what they prove."""

    told: dict[str, Any]
    fixed: Marks
    u: Whole
    bound: float


def prove_by_leaves(
    data: L0Data, point: tuple[Vector, float], goal: float, max_nodes: int
) -> tuple[dict[str, Any], float]:
    """A tree as in the file, and what its leaves prove of every score.

    point (p,): A good point: coefficients and intercept.
    goal: what is to be proven. Less is, where it is above the optimum or the nodes are too few.
    max_nodes: nodes that decide, at most.
    """
    tree = _Tree(data, point, goal, max_nodes)
    return tree.root, tree.grow()


class _Tree:
    """A search of which every node is kept."""

    def __init__(self, data: L0Data, point: tuple[Vector, float], goal: float, max_nodes: int):
        self._search = Search(data, 0.0, Clock(None), max_nodes)
        self._search.offer(*point)
        self._search.memory.values[nodes.GOAL] = goal
        self._search.memory.counts[nodes.DEEPEST] = _MAX_DEPTH
        self.problem, self.y = self._search.model.problem, data.y.astype(np.int64)
        self.unit = 2.0 ** float(np.frexp(self.problem.caps.max())[1] - _BITS)
        self.root: dict[str, Any] = {}
        self._open: dict[int, _Kept] = {}  # nodes by their numbers in the search
        self._closed = np.inf  # the least bound of the other leaves

    def grow(self) -> float:
        """Decide until all leaves prove the goal, or as much as one of them can."""
        search, ended = self._search, branch.PAUSE
        search.plant()
        free = np.full(len(self.problem.sizes), FREE, dtype=np.int8)
        self._keep(self.root, free, search.root, None, self._opened(0))
        while ended not in (branch.DONE, branch.LIMIT):
            looked, made = search.memory.counts[[nodes.NODES, nodes.MADE]]
            ended = search.advance(1)
            if search.memory.counts[nodes.NODES] > looked:
                self._split(int(made))
        return float(min([self._closed, *(kept.bound for kept in self._open.values())]))

    def _opened(self, made: int) -> list[tuple[Marks, int]]:
        """Decisions and numbers of the nodes opened after so many others."""
        found = self._search.nodes
        slots = np.flatnonzero(found.number > made)
        return [(found.fixed[slot], int(found.number[slot])) for slot in slots]

    def _split(self, made: int) -> None:
        """Keep the children of the node looked into last; those that were opened have numbers over `made`."""
        looked, opened = self._search.memory.looked, self._opened(made)
        kept, j = self._open.pop(int(looked[nodes.NUMBER])), int(looked[nodes.CENTRE])
        kept.told["weight"], kept.told["ways"] = j, [{}, {}]
        sides = (OFF, nodes.OFF_PLACE), (ON, nodes.ON_PLACE)
        for told, (mark, place) in zip(kept.told["ways"], sides, strict=True):
            fixed = kept.fixed.copy()
            fixed[j] = mark
            u = nodes.state_of(self._search.model.desk, int(looked[place])).u
            self._keep(told, fixed, u, kept.u, [one for one in opened if one[0][j] == mark])

    def _keep(
        self, told: dict[str, Any], fixed: Marks, u: Vector, above: Whole | None,
        opened: list[tuple[Marks, int]],
    ) -> None:  # fmt: skip
        """Note a node's multipliers, or those above if they prove more, and whether it is open."""
        own = self._on_grid(u)
        bound = bound_of(self.problem, fixed, own * self.unit)
        of_above = -np.inf if above is None else bound_of(self.problem, fixed, above * self.unit)
        if above is not None and of_above >= bound:
            own, bound = above, of_above
        else:
            told["rows"] = {"margin": [self._changes(own, above)]}
        if opened:
            self._open[opened[0][1]] = _Kept(told, fixed, own, bound)
        else:
            self._closed = min(self._closed, bound)

    def _on_grid(self, u: Vector) -> Whole:
        """Multipliers as whole numbers of units, within their caps and in balance."""
        y, caps = self.y, np.floor(self.problem.caps / self.unit).astype(np.int64)
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
