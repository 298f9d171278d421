"""Branch and bound for the L0 support vector machine, exact, on the relaxations alone.

A node says of some centres that they are on, of some that they are off (:mod:`polyopt.sparse.tree.node`); its
children decide one more, the one that raises both bounds most, found by trying a few and remembering what
each gave (reliability branching). The open node of the least bound comes first. What a node's multipliers
prove decides further centres without a solve. Where α is rounded to a pattern, its score may be a new best.

This does what an integer solver does on program (3), of half the columns and no rows that tie σ to α: a node
is a change of bounds, and some dozens of steps from its parent's basis (:mod:`polyopt.sparse.tree.pivots`).
It is compiled (:mod:`polyopt.sparse.tree.branch`); Python begins it, looks at the clock, and asks HiGHS where
the steps fail in a program.

Bounds after 30 s of computing from the same start, C = 1, RBF kernel, ionosphere, where the best score known
is 65.12: the relaxation 64.50; a master program of Benders cuts over σ, solved anew for each cut, 64.51;
HiGHS on program (3) 64.69; a tree in Python with HiGHS at the nodes 64.90. This one comes to 64.89 in 5 s.

Tried at the root of cubic kernels, without use: tighter caps of single coefficients, from programs that
maximise each among points no worse than the best known (all stayed at C); twelve rounds of Gomory's cuts (a
twentieth of the gap, where branching for as long closes a third).

Reference: Achterberg, Koch & Martin, Branching rules revisited (2005).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.arguments import tolerance
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from polyopt.sparse.point import RECORD_SECONDS, as_start, finished, idle
from polyopt.sparse.tree import basis as bases
from polyopt.sparse.tree import branch
from polyopt.sparse.tree import open_nodes as nodes
from polyopt.sparse.tree.node import FREE, OFF, ON, solve_by_highs
from polyopt.sparse.tree.quick import QuickPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data
    from formulations.language.types import Vector
    from polyopt.sparse.tree.basis import Given
    from polyopt.sparse.tree.node import Problem

    Marks = NDArray[np.int8]

__all__ = ["Search", "solve_l0_tree"]

_SLOTS = 256  # of open nodes, at first
_WORK = 3e6  # multiplications, roughly, between two looks at the clock
_BYTES = 2**28  # that open nodes may take; from then on the search goes depth first


def solve_l0_tree(
    data: L0Data,
    *,
    start: tuple[ArrayLike, float] | None = None,
    time_limit: float | None = None,
    tol: float = 1e-6,
    max_nodes: int | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve the exact program (3) of :mod:`formulations.l0` by branch and bound.

    Returns: as of :func:`polyopt.sparse.integer_program.solve_l0_milp`, but ``bound`` is what the search
        proves of every score: the least over its leaves of what multipliers prove there, evaluated from the
        data with its rounding counted against it. HiGHS is trusted with nothing. Records of ``history`` also
        have open. ITERATION_LIMIT after `max_nodes`; INACCURATE where nothing is left to decide but a gap
        remains, by the tolerances of the steps or by rounding.
    ValueError: as :func:`polyopt.sparse.integer_program.solve_l0_milp`, or numbers too large for HiGHS.
    """
    search = Search(data, tolerance(tol), Clock(time_limit), max_nodes, progress)
    if start is not None:
        search.offer(*as_start(data, start))
    return search.solution(search.run())


class Search:
    """One search: what compiled code works on.

    tol: relative gap at which to stop.

    alpha, b, best (p,): the best point, and its score.
    bound: of the optimum; proven.
    root (n,): the relaxation's multipliers; zeros before it is solved.
    """

    def __init__(
        self,
        data: L0Data,
        tol: float,
        clock: Clock,
        max_nodes: int | None = None,
        progress: Callable[[dict[str, float]], None] | None = None,
    ):
        n, p = data.K.shape
        self.data, self.tol, self.clock, self.progress = data, tol, clock, progress
        self.alpha, self.b = np.zeros(p), idle(data)
        self.best, self.bound = data.score(self.alpha, self.b), 0.0
        self.history: list[dict[str, float]] = []
        self.root, self._pause = np.zeros(n), (np.inf, np.inf)
        self.model = QuickPattern(data)
        room = _BYTES // (64 + n + 3 * p)
        self._most_slots = room + p + 4  # and those of a dive
        self.nodes = nodes.nodes_of(n, p, min(_SLOTS, self._most_slots), room)
        most = np.iinfo(np.int64).max if max_nodes is None else max_nodes
        self.memory = nodes.memory_of(p, self.best, tol, most)
        self._steps = max(int(_WORK / (n * p + 100)), 1)
        self._is_planted = False

    def offer(self, alpha: Vector, b: float) -> None:
        """Keep a point if it is the best so far."""
        score = self.data.score(alpha, b)
        if score < self.best:
            self.alpha, self.b, self.best = alpha, b, score
            self.memory.values[nodes.BEST] = score

    def pause(self, steps: float, seconds: float | None) -> None:
        """Let :meth:`run` end with STALLED after so many steps or seconds in all, to be called again.

        steps: steps of the simplex method.
        seconds: seconds since the search was begun.
        """
        self._pause = steps, np.inf if seconds is None else seconds

    def run(self) -> Status:
        """Search until the gap is closed or a limit is reached."""
        try:
            if not self._is_planted and not self.plant():
                return Status.TIME_LIMIT if self.clock.is_over else Status.FAILED
            while True:
                self._read()
                if self.clock.is_over:
                    return Status.TIME_LIMIT
                left = self._pause[0] - int(self.memory.counts[nodes.STEPS])
                if left <= 0 or self.clock.seconds >= self._pause[1]:
                    return Status.STALLED
                ended = self.advance(int(min(self._steps, left)))
                if ended in (branch.DONE, branch.LIMIT):
                    self._read()
                    return Status.SOLVED if ended == branch.DONE else Status.ITERATION_LIMIT
        except KeyboardInterrupt:
            return Status.INTERRUPTED

    def plant(self) -> bool:
        """Solve and open the first node; whether it was solved."""
        free = np.full(len(self.data.centres), FREE, dtype=np.int8)
        self._is_planted = self.model.begin() and bool(branch.plant(*self._state, free))
        if not self._is_planted:
            self._is_planted = self._adopt(free, nodes.BASE, 0.0)
            self._read()
        self.root = nodes.state_of(self.model.desk, nodes.BASE).u.copy()
        return self._is_planted

    def advance(self, steps: int) -> int:
        """Look into nodes for so many steps, at least one; how that ended, as of ``branch.grow``."""
        ended = int(branch.grow(*self._state, steps))
        if ended == branch.FULL:
            slots = min(2 * len(self.nodes.bound), self._most_slots)
            self.nodes = nodes.enlarged(self.nodes, slots)
        elif ended == branch.LOST:
            self._make_good()
        return ended

    def solution(self, status: Status) -> Solution:
        """The solution of a search that has run, and ended with a status."""
        solve_time = self.clock.seconds
        return finished(
            self.data,
            (self.alpha, self.b),
            self.bound,
            status,
            tol=self.tol,
            left=self.clock.left,
            model=self.model,
            solver="branch and bound on the relaxation (simplex)",
            iterations=int(self.memory.counts[nodes.NODES]),
            solve_time=solve_time,
            history=tuple(self.history),
        )

    @property
    def _state(self) -> tuple[Problem, Given, nodes.Nodes, nodes.Memory, nodes.Desk]:
        return self.model.problem, self.model.given, self.nodes, self.memory, self.model.desk

    def _make_good(self) -> None:
        """Open the children of the first open node that the steps failed in, by HiGHS."""
        slot, looked = int(nodes.first_open(self.nodes)), self.memory.looked
        fixed, least = self.nodes.fixed[slot].copy(), float(self.nodes.bound[slot])
        if looked[nodes.CENTRE] < 0:
            _, a, _, _ = solve_by_highs(self.model.problem, fixed, self.clock.left)
            free = np.flatnonzero(fixed == FREE)
            looked[nodes.CENTRE] = free[np.abs(a[free] - 0.5).argmin()]
            looked[nodes.OFF_PLACE], looked[nodes.ON_PLACE] = nodes.OFF_SIDE, nodes.ON_SIDE
            self.memory.counts[nodes.NODES] += 1
        for mark, place in ((OFF, nodes.OFF_PLACE), (ON, nodes.ON_PLACE))[looked[nodes.DONE_SIDES] :]:
            child = fixed.copy()
            child[looked[nodes.CENTRE]] = mark
            self._adopt(child, int(looked[place]), least)
        nodes.close(self.nodes, slot)  # not before: an interruption must not lose it

    def _adopt(self, fixed: Marks, place: int, least: float) -> bool:
        """Solve a node by HiGHS and open it, to begin from the constant classifier; whether it was solved."""
        is_solved, a, b, u = solve_by_highs(self.model.problem, fixed, self.clock.left)
        at = nodes.state_of(self.model.desk, place)
        bases.begin(self.model.given, at)
        at.u[:], at.a[:], at.rest[0] = u, a * self.model.given.full, b
        branch.adopt(*self._state, fixed, place, least, is_solved)
        return is_solved

    def _read(self) -> None:
        """Read the state of the compiled search; add a record from time to time."""
        values = self.memory.values
        if values[nodes.BEST] < self.best:
            self.offer(self.data.C * self.memory.a, float(values[nodes.INTERCEPT_AT]))
        self.bound = max(self.bound, float(nodes.proven(self.nodes, self.memory)))
        now = self.clock.seconds
        if self.history and now <= self.history[-1]["seconds"] + RECORD_SECONDS:
            return
        record = {
            "seconds": now,
            "objective": self.best,
            "bound": self.bound,
            "nodes": float(self.memory.counts[nodes.NODES]),
            "open": float(self.nodes.counts[: nodes.SPARE].sum()),
        }
        self.history.append(record)
        if self.progress is not None:
            self.progress(record)
