"""Best-first branch and bound: open nodes, limits, and the lower bound that the nodes prove.

The feasible set of a minimisation is split into nodes, each with a lower bound on the values in it. The
*open* nodes are those not split yet. The open node with the least bound is *expanded* (split) next: its
children are opened, or closed if their bound is at least the *cutoff*, the incumbent's value minus the
tolerance. The least bound of all leaves, open and closed, is a lower bound on the optimum whenever the search
ends: if no node is open, after a limit, or after Ctrl-C.

If open nodes take more memory than allowed, further children are explored depth first, with few open nodes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Status
from polyopt.base.progress import tell

State = TypeVar("State")


@dataclass(frozen=True)
class Options:
    """Limits of memory and of records."""

    max_open_bytes: int = 1 << 28  # memory for open nodes; beyond it the search is depth first
    seconds_between_records: float = 0.2  # minimal time between two records of the history


DEFAULT = Options()


class OpenNode(NamedTuple, Generic[State]):
    """An open node. The order of the tuples is that of exploration: least bound, largest depth, oldest."""

    bound: float  # lower bound on the node's values
    minus_depth: int
    number: int  # number of nodes opened before this one, plus 1; no two nodes have the same
    state: State  # the subclass's description of the node


class BestFirst(ABC, Generic[State]):
    """A search; a subclass keeps the incumbent, and defines its value :attr:`objective` and :meth:`expand`.

    tol: relative gap between incumbent and bound at which a node is closed; values are at least 0.
    node_bytes: memory of one open node.

    nodes: number of nodes expanded.
    heap, stack: open nodes. Those of the stack are expanded first, from its end (depth first), then those of
        the heap by their bounds.
    history: records of nodes, open nodes, bound, objective and seconds.
    """

    def __init__(self, tol: float, node_bytes: int = 1, options: Options = DEFAULT):
        self.tol, self.options = tol, options
        self.max_open = options.max_open_bytes // node_bytes
        self.heap: list[OpenNode[State]] = []
        self.stack: list[OpenNode[State]] = []
        self.nodes = self._n_opened = 0
        self._exploring = np.inf  # bound of the node that is removed but whose children are not open yet
        self._closed = np.inf  # least bound of the closed nodes
        self.history: list[dict[str, float]] = []

    @property
    @abstractmethod
    def objective(self) -> float:
        """Value of the incumbent; infinite without one."""

    @abstractmethod
    def expand(self, node: OpenNode[State]) -> Iterable[tuple[float, State]]:
        """Return bound and state of each child.

        The children need not cover the node: :meth:`close` must get the bound of each part left out.
        """

    @property
    def cutoff(self) -> float:
        """Bound at which a node is closed."""
        return self.objective * (1.0 - self.tol)

    @property
    def is_done(self) -> bool:
        """True if no node is open."""
        return not (self.heap or self.stack)

    @property
    def bound(self) -> float:
        """Lower bound on the optimum: the least of all leaves and the incumbent."""
        heap_bound = self.heap[0].bound if self.heap else np.inf
        stack_bound = min((node.bound for node in self.stack), default=np.inf)
        return float(min(heap_bound, stack_bound, self._exploring, self._closed, self.objective))

    def close(self, bound: float) -> None:
        """Record the bound of a node, or of a part of a node, that is not explored further."""
        self._closed = min(self._closed, bound)

    def push(self, children: Iterable[tuple[float, State]], depth: int = 0) -> None:
        """Open the nodes, given by bound and state, but close those with a bound of at least the cutoff."""
        opened: list[OpenNode[State]] = []
        for bound, state in children:
            if bound >= self.cutoff:
                self.close(bound)
            else:
                self._n_opened += 1
                opened.append(OpenNode(bound, -depth, self._n_opened, state))
        if self.stack or len(self.heap) >= self.max_open:
            self.stack += sorted(opened, reverse=True)  # the best child last, to be expanded next
        else:
            for node in opened:
                heappush(self.heap, node)

    def pop(self) -> OpenNode[State]:
        """Remove and return the next node."""
        node = self.stack[-1] if self.stack else self.heap[0]
        self._exploring = min(self._exploring, node.bound)  # before the node is removed, in case of Ctrl-C
        return self.stack.pop() if self.stack else heappop(self.heap)

    def step(self) -> None:
        """Expand the next node, or close it if the incumbent has improved since it was opened."""
        node = self.pop()
        if node.bound >= self.cutoff:
            self.close(node.bound)
        else:
            self.nodes += 1
            self.push(self.expand(node), 1 - node.minus_depth)
        self._exploring = np.inf

    def limit(self, clock: Clock, max_nodes: int | None) -> Status | None:
        """Return the limit that is reached, or None."""
        if max_nodes is not None and self.nodes >= max_nodes:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if clock.is_over else None

    def run(self, clock: Clock, max_nodes: int | None = None) -> Status:
        """Expand nodes until none is open or a limit is reached; Ctrl-C keeps incumbent and bound."""
        try:
            while not self.is_done:
                limit = self.limit(clock, max_nodes)
                if limit is not None:
                    return self.record(clock, limit)
                wait = self.options.seconds_between_records
                if not self.history or clock.seconds > self.history[-1]["seconds"] + wait:
                    self.record(clock)
                self.step()
            return self.record(clock)
        except KeyboardInterrupt:
            if not np.isfinite(self.objective):
                raise
            return self.record(clock, interrupted())

    def record(self, clock: Clock, status: Status = Status.SOLVED) -> Status:
        """Add a record to the history; return the status."""
        record = {
            "nodes": float(self.nodes),
            "open": float(len(self.heap) + len(self.stack)),
            "bound": self.bound,
            "objective": self.objective,
            "seconds": clock.seconds,
        }
        self.history.append(record)
        tell(record)
        return status
