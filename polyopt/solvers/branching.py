"""What searches by branch and bound share: the value, the bound, the limits, and the records on the way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from formulations.clock import interrupted
from formulations.solution import Status

if TYPE_CHECKING:
    from polyopt.solvers.clock import Clock

__all__ = ["BranchAndBound", "OutOfTime"]

_RECORD = 0.2  # seconds between two records of the history


class OutOfTime(Exception):  # noqa: N818
    """The limit passed in the middle of a node."""


class BranchAndBound(ABC):
    """One search.

    Parameters
    ----------
    best : float
        The objective of the point it begins with.
    tol : float
        Relative gap at which to stop.
    clock : Clock
        The limit.
    max_nodes : int, optional
        Nodes at most.
    progress : callable, optional
        Called with each record of the history.

    Attributes
    ----------
    bound : float
        Of the optimum; proven.
    closed : float
        The least bound of what is not looked into any more.
    nodes, made : int
        Nodes whose children were made, and nodes that were opened.
    history : list of dict
        The records.
    """

    def __init__(
        self,
        best: float,
        tol: float,
        clock: Clock,
        max_nodes: int | None,
        progress: Callable[[dict[str, float]], None] | None,
    ):
        self.best, self.tol, self.clock, self.progress = best, tol, clock, progress
        self.most = np.inf if max_nodes is None else max_nodes
        self.bound, self.closed = 0.0, np.inf
        self.nodes = self.made = 0
        self.history: list[dict[str, float]] = []

    @property
    def enough(self) -> float:
        """A node of this bound need not be looked into."""
        return self.best * (1.0 - self.tol)

    def run(self) -> Status:
        """Search until the gap is closed or a limit is reached."""
        try:
            return self._explore()
        except KeyboardInterrupt:
            return interrupted()
        except OutOfTime:
            return Status.TIME_LIMIT

    @abstractmethod
    def _explore(self) -> Status:
        """Look into nodes; may be left by :class:`OutOfTime`."""

    def _record(self, left: int, **more: float) -> None:
        """A record from time to time, with the number of open nodes that are left."""
        now = self.clock.seconds
        if self.history and now <= self.history[-1]["seconds"] + _RECORD:
            return
        record = {"seconds": now, "objective": self.best, "bound": self.bound, "nodes": float(self.nodes)}
        self.history.append({**record, "open": float(left), **more})
        if self.progress is not None:
            self.progress(self.history[-1])
