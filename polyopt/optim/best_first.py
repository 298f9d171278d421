"""Best-first branch and bound: open nodes, limits, and the lower bound that the nodes prove.

A search for a least value splits a set of candidates into nodes. Each node has a lower bound on the values in
it. The open node of the least bound is explored next: its children are made open, or closed if their bound
reaches the cutoff, which is the incumbent's value less the tolerance. The least bound of all leaves, open and
closed, bounds the optimum from below whenever the search ends: once no node is open, after a limit, and after
Ctrl-C.

Once open nodes take more memory than allowed, further children are explored depth first, which needs little.
"""

from __future__ import annotations

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
    """Numbers of a search.

    max_open_bytes: memory for open nodes; beyond it the search goes depth first.
    seconds_between_records: least time between two records of the history.
    """

    max_open_bytes: int = 1 << 28
    seconds_between_records: float = 0.2


DEFAULT = Options()


class OpenNode(NamedTuple, Generic[State]):
    """An open node. Nodes are explored by least bound, then largest depth, then age."""

    bound: float
    minus_depth: int
    number: int
    state: State


class BestFirst(ABC, Generic[State]):
    """The open nodes of a search; a subclass has the incumbent's value and :meth:`expand`.

    tol: relative gap between incumbent and bound at which a node is closed. Values are at least 0.
    node_bytes: memory of one open node.

    nodes: number of nodes expanded.
    history: records of nodes, open nodes, bound, objective and seconds.
    """

    def __init__(self, tol: float, node_bytes: int = 1, options: Options = DEFAULT):
        self.tol, self.options = tol, options
        self.max_open = options.max_open_bytes // node_bytes
        self.heap: list[OpenNode[State]] = []
        self.stack: list[OpenNode[State]] = []
        self.nodes = self._made = 0
        self._exploring = self._closed = np.inf  # least bounds of nodes at work, and of closed ones
        self.history: list[dict[str, float]] = []

    @property
    @abstractmethod
    def objective(self) -> float:
        """Value of the incumbent; infinite without one."""

    @abstractmethod
    def expand(self, node: OpenNode[State]) -> Iterable[tuple[float, State]]:
        """Return bound and state of the children to be explored, in the order of their numbers.

        The bounds of all other parts of the node go to :meth:`close`.
        """

    @property
    def cutoff(self) -> float:
        """Bound from which a node is closed."""
        return self.objective * (1.0 - self.tol)

    @property
    def is_done(self) -> bool:
        """True if no node is open."""
        return not (self.heap or self.stack)

    @property
    def bound(self) -> float:
        """Lower bound on the optimum: the least of all leaves and the incumbent."""
        first = self.heap[0].bound if self.heap else np.inf
        deep = min((node.bound for node in self.stack), default=np.inf)
        return float(min(first, deep, self._exploring, self._closed, self.objective))

    def close(self, bound: float) -> None:
        """Note the bound of a node, or a part of one, that is not explored further."""
        self._closed = min(self._closed, bound)

    def push(self, children: Iterable[tuple[float, State]], depth: int = 0) -> None:
        """Make nodes open, or close those whose bound reaches the cutoff."""
        made: list[OpenNode[State]] = []
        for bound, state in children:
            if bound >= self.cutoff:
                self.close(bound)
            else:
                self._made += 1
                made.append(OpenNode(bound, -depth, self._made, state))
        if self.stack or len(self.heap) >= self.max_open:
            self.stack += sorted(made, reverse=True)
        else:
            for node in made:
                heappush(self.heap, node)

    def take(self) -> OpenNode[State]:
        """Remove and return the next node."""
        node = self.stack[-1] if self.stack else self.heap[0]
        self._exploring = min(self._exploring, node.bound)  # first, so that an interruption does not lose it
        return self.stack.pop() if self.stack else heappop(self.heap)

    def step(self) -> None:
        """Explore the next node."""
        node = self.take()
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
        """Explore nodes until none is open or a limit is reached; Ctrl-C keeps incumbent and bound."""
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
