"""Branch and bound over the assignments of positives to faces: what is open, what is proven, and one node.

The search of :mod:`polyopt.solvers.cpm.tree` goes through partial assignments, best bound first. The order in
which samples add to a bound matters, and finding a good one takes as long as some hundred nodes: it is sought
once a search has not ended within some hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.solution import Status
from polyopt.certificates.rounding import gamma
from polyopt.outer.cpm.arguments import MOST_SAMPLES
from polyopt.outer.cpm.prepared import best_order, by_distance, merge
from polyopt.outer.cpm.refined import refine
from polyopt.solvers.cpm.bound import Moves, moves_for
from polyopt.solvers.cpm.face import Samples
from polyopt.solvers.cpm.tree import Best, examine, node_for
from polyopt.watch import tell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.outer.cpm.beside import Beside
    from polyopt.outer.cpm.prices import PriceSearch
    from polyopt.solvers.clock import Clock

    Vector = NDArray[np.float64]

__all__ = ["AssignmentSearch", "Open"]

_BYTES = 256 * 2**20  # for open nodes
_ORDERING = 0.1  # of the time left, for the order of the samples,
# which is sought after so many nodes: fewer are made sooner without it. (Draws of the races were seen.)
_SOON = 400
_RECORD = 0.2  # seconds between records of the history


@dataclass(order=True, frozen=True)
class Open:
    """An open node, in the order of exploring: least bound, then deepest (-depth), then oldest."""

    bound: float
    depth: int
    number: int
    allowed: NDArray[np.bool_] = field(compare=False)
    alpha: Vector = field(compare=False)


@dataclass
class AssignmentSearch:
    """One search: the data as given and merged, and what the kernels work on."""

    X: Vector
    y: Vector
    C: Vector
    n_faces: int
    tol: float
    clock: Clock
    rng: np.random.Generator
    takes_prices: bool = False  # and boxes
    takes_spread: bool = False
    jobs: int = 1
    beside: Beside | None = None
    prices: PriceSearch | None = None
    node: Any = None  # the room for the node at hand
    history: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data, self.merged = merge(self.X, self.y, self.C, self.rng)
        n, d = self.data.A.shape
        self.npos, K = n - self.data.inside, self.n_faces
        self.best = Best(np.zeros((K, d)), np.array([np.inf, np.inf, 0.0]))
        self.is_large = n > MOST_SAMPLES  # too many for the tree
        self.is_ordered = False
        self.room = _BYTES // (8 * K * n + K * self.npos + 400)
        root = Open(0.0, 0, 0, np.ones((self.npos, K), dtype=bool), np.zeros((K, n)))
        self.heap: list[Open] = [root]
        self.stack: list[Open] = []  # begun where there is no more room
        self.nodes, self.made, self.at_hand, self.proven = 0, 0, np.inf, 0.0

    def _prepared(self, additive: bool) -> Any:
        """The room for nodes; those come first in the middle of the negatives."""
        if self.node is None:
            self.moves: Moves = moves_for(self.npos, len(self.data.C), self.data.A.shape[1], self.n_faces)
            self.is_ordered = not additive
            order = by_distance(self.data) if additive else np.arange(self.npos)
            self.node = node_for(self.data, self.n_faces, order)
        return self.node

    def _order(self) -> None:
        """Put the samples in a good order, those of open nodes too."""
        self.is_ordered = True
        order, rows = best_order(self.data, self.moves, self.rng, self.clock.part(_ORDERING))
        given = self.data
        self.data = Samples(given.A[rows], given.q[rows], given.C[rows], given.inside)
        self.merged = np.where(self.merged >= 0, np.argsort(rows)[self.merged], -1)
        self.node = node_for(self.data, self.n_faces, order)
        for nodes in (self.heap, self.stack):
            nodes[:] = [replace(one, alpha=np.ascontiguousarray(one.alpha[:, rows])) for one in nodes]

    def _limit(self, max_nodes: int | None) -> Status | None:
        if max_nodes is not None and self.nodes >= max_nodes:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.clock.is_over else None

    def _explore(self, max_nodes: int | None, additive: bool) -> Status:
        """Best bound first; where there is no more room, depth first, which needs little."""
        self._prepared(additive)
        while self.heap or self.stack:
            limit = self._limit(max_nodes)
            if limit is not None:
                return self._record(limit)
            if not self.history or self.clock.seconds > self.history[-1]["seconds"] + _RECORD:
                self._record()
            if self.prices is not None and self.prices.is_closed:
                break
            if self.nodes >= _SOON and not self.is_ordered:
                self._order()
            one = self.stack[-1] if self.stack else self.heap[0]
            self.at_hand = one.bound  # an interruption must not lose it
            _ = self.stack.pop() if self.stack else heappop(self.heap)
            for child in self._children(self._prepared(additive), one, additive):
                if self.stack or len(self.heap) >= self.room:
                    self.stack.append(child)
                else:
                    heappush(self.heap, child)
            self.at_hand = np.inf
            others = max(self._least(), 0.0 if self.prices is None else self.prices.bound)
            if self.beside is not None and self.beside.turn(self.nodes, others, self.clock):
                break
        return self._record(Status.SOLVED)

    def _children(self, node: Any, one: Open, additive: bool) -> list[Open]:
        """What is left to explore of an open node, the best last."""
        best, moves = self.best, self.moves
        if one.bound >= best.limits[0] * (1.0 - self.tol):
            best.limits[1] = min(best.limits[1], one.bound)
            return []
        self.nodes += 1
        node.allowed[:], node.alpha[:] = one.allowed, one.alpha
        bound, base, branch, used, exact = self._examined(node, one.bound, additive)
        if branch < 0:
            best.limits[1] = min(best.limits[1], bound)
            return []
        children = []
        for k in np.flatnonzero(node.allowed[branch, :used]):
            allowed, alpha, least = node.allowed.copy(), node.alpha.copy(), bound
            allowed[branch] = np.arange(self.n_faces) == k
            if additive and not exact:  # the moves are those of the multipliers before
                alpha[k] += moves.delta[branch, k]
                least = max(bound, base + moves.gain[branch, k])
            self.made += 1
            children.append(Open(least, one.depth - 1, self.made, allowed, alpha))
        return sorted(children, reverse=True)

    def _examined(self, node: Any, bound: float, additive: bool) -> tuple[float, float, int, int, bool]:
        """What is proven of a node and where to branch, and whether its faces were solved exactly."""
        best = self.best
        bound, base, branch, used = examine(self.data, best, node, self.moves, bound, self.tol, additive)
        exact = branch < 0 and bound < best.limits[0] * (1.0 - self.tol)
        if exact:  # coordinates did not get that far
            bound, base, branch = refine(self.data, best, node, bound, used, self.clock)
        return bound, base, branch, used, exact

    def _record(self, status: Status = Status.SOLVED) -> Status:
        self.history.append(
            {
                "nodes": float(self.nodes),
                "open": float(len(self.heap) + len(self.stack)),
                "bound": self._bound(),
                "objective": float(self.best.limits[0]),
                "seconds": self.clock.seconds,
            }
        )
        tell(self.history[-1])
        return status

    def _bound(self) -> float:
        """The least bound of what is open and of what was cut or finished, less all rounding."""
        least = self._least()
        for other in (self.beside, self.prices):
            if other is not None:
                least = max(least, min(other.bound, float(self.best.limits[0])))
        # Costs of equal samples were added up, which scales the optimum by no more than this.
        scaled = 2.0 * gamma(len(self.y) + 4) * abs(least)
        self.proven = max(self.proven, float(np.nextafter(least - scaled, -np.inf)))
        return self.proven

    def _least(self) -> float:
        """What the tree proves."""
        first = self.heap[0].bound if self.heap else np.inf
        cost, cut, error = self.best.limits
        return float(min([first, self.at_hand, cost, cut, *(one.bound for one in self.stack)]) - error)
