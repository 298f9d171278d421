"""The compiled search of :mod:`polyopt.solvers.l0.grown`: Python begins it and looks at the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import as_patterns
from formulations.solution import Status
from polyopt.certificates.l0 import cut_of
from polyopt.solvers.branching import BranchAndBound
from polyopt.solvers.l0 import basis as bases
from polyopt.solvers.l0 import grown
from polyopt.solvers.l0 import grown_nodes as nodes
from polyopt.solvers.l0.grown_bound import problem_of
from polyopt.solvers.l0.lp import UNPROVEN, PatternLP, PatternSolution
from polyopt.solvers.l0.node import FREE, OFF, ON, NodeBound
from polyopt.solvers.l0.point import idle
from polyopt.solvers.l0.warm import given_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.l0.basis import Given
    from polyopt.solvers.l0.grown_bound import Problem

    Marks = NDArray[np.int8]

__all__ = ["CompiledSearch", "QuickPattern"]

_SLOTS = 256  # of open nodes, at first
_WORK = 3e6  # multiplications, roughly, between two looks at the clock
_BYTES = 2**28  # that open nodes may take
_ENDS = {
    grown.DONE: Status.SOLVED,
    grown.LIMIT: Status.ITERATION_LIMIT,
    grown.LOST: Status.FAILED,
}


class CompiledSearch(BranchAndBound):
    """One search: what compiled code works on.

    Parameters
    ----------
    data : L0Data
        The problem.
    tol, clock, max_nodes, progress
        Of :class:`polyopt.solvers.branching.BranchAndBound`.

    Attributes
    ----------
    alpha, b : ndarray of shape (p,), float
        The best point.
    root : ndarray of shape (n,)
        The relaxation's multipliers; zeros before it is solved.
    lost : bool
        Whether a program could not be solved, so that another search must go on (:meth:`left`).
    """

    def __init__(
        self, data: L0Data, tol: float, clock: Clock, max_nodes: int | None,
        progress: Callable[[dict[str, float]], None] | None,
    ):  # fmt: skip
        n, p = data.K.shape
        self.data, self.alpha, self.b = data, np.zeros(p), idle(data)
        super().__init__(data.score(self.alpha, self.b), tol, clock, max_nodes, progress)
        self.root, self.lost, self._pause = np.zeros(n), False, (np.inf, np.inf)
        self.model = QuickPattern(data)
        room = _BYTES // (64 + n + 3 * p)
        self._most_slots = room + p + 4  # and those of a dive
        self._nodes = nodes.nodes_of(n, p, min(_SLOTS, self._most_slots), room)
        most = np.iinfo(np.int64).max if max_nodes is None else max_nodes
        self._memory = nodes.memory_of(p, self.best, tol, most)
        self._steps = max(int(_WORK / (n * p + 100)), 1)
        self._is_planted = False

    def offer(self, alpha: Vector, b: float) -> None:
        """Keep a point if it is the best so far."""
        score = self.data.score(alpha, b)
        if score < self.best:
            self.alpha, self.b, self.best = alpha, b, score
            self._memory.values[nodes.BEST] = score

    def pause(self, steps: float, seconds: float | None) -> None:
        """Let :meth:`run` end with STALLED after so many steps or seconds in all, to be called again.

        Parameters
        ----------
        steps : float
            Steps of the simplex method.
        seconds : float, optional
            Seconds since the search was begun.
        """
        self._pause = steps, np.inf if seconds is None else seconds

    def left(self) -> Iterator[tuple[float, Marks, Marks]]:
        """The open nodes: bounds, what each decides, and its basis as of :mod:`polyopt.solvers.l0.warm`."""
        found = self._nodes
        heap, stack = found.heap[: found.counts[nodes.HEAP]], found.stack[: found.counts[nodes.STACK]]
        for slot in (*heap.tolist(), *stack.tolist()):
            basis = np.concatenate([found.rows[slot], found.cols[slot], found.on[slot]])
            yield float(found.bound[slot]), found.fixed[slot].copy(), basis

    def _explore(self) -> Status:
        if not self._is_planted and not self._plant():
            self.lost = True
            return Status.FAILED
        while True:
            self._read()
            if self.clock.is_over:
                return Status.TIME_LIMIT
            left = self._pause[0] - int(self._memory.counts[nodes.STEPS])
            if left <= 0 or self.clock.seconds >= self._pause[1]:
                return Status.STALLED
            ended = int(grown.grow(*self._state, int(min(self._steps, left))))
            if ended in _ENDS:
                self._read()
                self.lost = ended == grown.LOST
                return _ENDS[ended]
            if ended == grown.FULL:
                slots = min(2 * len(self._nodes.bound), self._most_slots)
                self._nodes = nodes.enlarged(self._nodes, slots)

    @property
    def _state(self) -> tuple[Problem, Given, nodes.Nodes, nodes.Memory, nodes.Desk]:
        return self.model.problem, self.model.given, self._nodes, self._memory, self.model.desk

    def _plant(self) -> bool:
        if not self.model.begin():
            return False
        free = np.full(len(self.data.centres), FREE, dtype=np.int8)
        self._is_planted = bool(grown.plant(*self._state, free))
        if self._is_planted:
            self.root = nodes.base_of(self.model.desk).u.copy()
        return self._is_planted

    def _read(self) -> None:
        """What compiled code has found so far; a record from time to time."""
        values, counts = self._memory.values, self._memory.counts
        self.nodes, self.made = int(counts[nodes.NODES]), int(counts[nodes.MADE])
        if values[nodes.BEST] < self.best:
            self.offer(self.data.C * self._memory.a, float(values[nodes.INTERCEPT_AT]))
        self.closed = float(values[nodes.CLOSED])
        self.bound = max(self.bound, float(grown.proven(self._nodes, self._memory)))
        self._record(int(self._nodes.counts[: nodes.SPARE].sum()))


class QuickPattern:
    """The programs of patterns by steps of our own, and where these fail by HiGHS.

    Parameters
    ----------
    data : L0Data
        The problem.
    """

    def __init__(self, data: L0Data):
        n, p = data.K.shape
        bound = NodeBound(data)
        self.data, self.given = data, given_of(bound)
        self.problem, self.desk = problem_of(bound), nodes.desk_of(n, p)

    def begin(self) -> bool:
        """Put the constant classifier's basis on the desk; whether there is one."""
        self.given.cap[:] = self.given.full
        return bases.begin(self.given, nodes.base_of(self.desk))

    def prepare(self, sigma: ArrayLike, *, time_limit: float | None = None) -> PatternSolution:
        """The program of a pattern; as :meth:`polyopt.solvers.l0.lp.PatternLP.prepare` of one pattern."""
        data, at = self.data, nodes.base_of(self.desk)
        pattern = as_patterns(sigma, len(data.centres))
        fixed = np.where(pattern > 0.0, ON, OFF).astype(np.int8)
        best = nodes.memory_of(len(fixed), np.inf, 0.0, 0)
        none = nodes.nodes_of(len(data.y), len(fixed), 1, 0)
        if self.begin() and grown.plant(self.problem, self.given, none, best, self.desk, fixed):
            # The multipliers of that basis at the true costs, which those of the steps are a little off.
            true = self.given._replace(
                h=self.problem.caps, free=1.0 / self.given.full, paid=np.zeros_like(self.given.paid)
            )
            u = at.u.copy()
            u = at.u if bases.load(true, at) else u
            alpha = data.C * best.a
            b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
            u = np.minimum(u / data.C, data.weights)
            constant, slopes = cut_of(data, u)
            proves, value = constant - slopes.dot(pattern), data.loss(alpha, b)
            if value - max(float(proves.mid), 0.0) <= UNPROVEN * float(data.weights.sum()):
                return PatternSolution(
                    Status.SOLVED, value, max(float(proves.lower), 0.0), alpha, b, u,
                    (float(constant.lower), slopes.upper), int(best.counts[nodes.STEPS]),
                    warm=False, restarted=False,
                )  # fmt: skip
        return PatternLP(data).prepare(sigma, time_limit=time_limit)
