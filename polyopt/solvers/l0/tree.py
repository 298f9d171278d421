"""Branch and bound for the L0 support vector machine, exact, on the relaxations alone.

A node says of some centres that they are on, of some that they are off (:mod:`polyopt.solvers.l0.node`); its
children decide one more, the one that raises both bounds most, found by trying a few and remembering what
each gave (reliability branching). The open node of the least bound comes first. What a node's multipliers
prove decides further centres without a solve. Where α is rounded to a pattern, its score may be a new best.

The search is that of :mod:`polyopt.solvers.l0.grown`, the same one compiled. The one here is for proofs that
are to be written down, and goes on where a compiled step fails.

This does what an integer solver does on program (3), of half the columns and no rows that tie σ to α: a node
is a change of bounds, and some dozens of steps from its parent's basis (:mod:`polyopt.solvers.l0.warm`).

Bounds after 30 s of computing from the same start, C = 1, RBF kernel, ionosphere, where the best score known
is 65.12: the relaxation 64.50; a master program of Benders cuts over σ, solved anew for each cut, 64.51;
HiGHS on program (3) 64.69; this, with HiGHS at the nodes, 64.90. With steps of our own it comes to 64.89 in
5 s.

Tried at the root of cubic kernels, without use: tighter caps of single coefficients, from programs that
maximise each among points no worse than the best known (all stayed at C); twelve rounds of Gomory's cuts (a
twentieth of the gap, where branching for as long closes a third).

Reference: Achterberg, Koch & Martin, Branching rules revisited (2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import tolerance
from formulations.families import best_intercept
from formulations.solution import Solution, Status
from polyopt.solvers.branching import BranchAndBound, OutOfTime
from polyopt.solvers.clock import Clock
from polyopt.solvers.l0.compiled import CompiledSearch
from polyopt.solvers.l0.grown import EVERY as _EVERY
from polyopt.solvers.l0.grown import LITTLE, PATIENCE, PIVOTS, RELIABLE, TRIES
from polyopt.solvers.l0.grown import ROUNDING as _ROUNDING
from polyopt.solvers.l0.node import FREE, OFF, ON
from polyopt.solvers.l0.point import as_start, finished, idle
from polyopt.solvers.l0.warm import WarmLP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector
    from polyopt.solvers.l0.node import NodeSolution

    Marks = NDArray[np.int8]

__all__ = ["Open", "Search", "ended", "solve_l0_tree"]

_ALIKE = 1e-6  # of a score: its rounding
_FIRST = 20  # nodes at which each rounding is tried; then one of them at every fifth

_BYTES = 2**28  # that open nodes may take


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

    Parameters
    ----------
    data, start, time_limit, tol, progress
        As in :func:`polyopt.solvers.l0.milp.solve_l0_milp`.
    max_nodes : int, optional
        Nodes at most.

    Returns
    -------
    Solution
        As of :func:`polyopt.solvers.l0.milp.solve_l0_milp`, but ``bound`` is what the search proves of every
        score: the least over its leaves of what multipliers prove there, evaluated from the data with its
        rounding counted against it. HiGHS is trusted with nothing. Records of ``history`` also have open.
        ITERATION_LIMIT after `max_nodes`; INACCURATE where nothing is left to decide but a gap remains, by
        HiGHS's tolerances or by rounding.

    Raises
    ------
    ValueError
        As :func:`polyopt.solvers.l0.milp.solve_l0_milp`, or numbers too large for HiGHS.
    """
    search = CompiledSearch(data, tolerance(tol), Clock(time_limit), max_nodes, progress)
    if start is not None:
        search.offer(*as_start(data, start))
    return ended(search, search.run())


def ended(search: Search | CompiledSearch, status: Status) -> Solution:
    """The solution of a search that has run.

    Parameters
    ----------
    search : Search or CompiledSearch
        The search; where a program was lost to it, one in Python goes on.
    status : Status
        How it ended.
    """
    data, clock, model = search.data, search.clock, None
    if isinstance(search, CompiledSearch):
        model = search.model
        if search.lost:
            search = Search.after(search)
            status = search.run()
    solve_time = clock.seconds
    return finished(
        data,
        (search.alpha, search.b),
        search.bound,
        status,
        tol=search.tol,
        left=clock.left,
        model=model,
        solver="branch and bound on the relaxation (simplex)",
        iterations=search.nodes,
        solve_time=solve_time,
        history=tuple(search.history),
    )


@dataclass(order=True, frozen=True)
class Open:
    """An open node: its bound, what is decided, and the centres that its program uses in part."""

    bound: float
    number: int
    fixed: Marks = field(compare=False)
    basis: Marks = field(compare=False)
    at: NDArray[np.intp] = field(compare=False)
    parts: Vector = field(compare=False)


class Search(BranchAndBound):
    """One search: the best point, the open nodes, and what branching on each centre gave so far."""

    def __init__(
        self,
        data: L0Data,
        tol: float,
        clock: Clock,
        max_nodes: int | None,
        progress: Callable[[dict[str, float]], None] | None,
    ):
        n, p = data.K.shape
        self.data, self.alpha, self.b = data, np.zeros(p), idle(data)
        super().__init__(data.score(self.alpha, self.b), tol, clock, max_nodes, progress)
        self.heap: list[Open] = []
        self.stack: list[Open] = []  # begun where there is no more room
        self.gain, self.seen = np.zeros((2, p)), np.zeros((2, p))  # rows: off, on
        self.tried: set[bytes] = set()
        self.room = _BYTES // (1600 + 2 * (n + p))

    @classmethod
    def after(cls, other: CompiledSearch) -> Search:
        """A search that goes on where the compiled one had to stop."""
        most = None if np.isinf(other.most) else int(other.most)
        search = cls(other.data, other.tol, other.clock, most, other.progress)
        search.offer(other.alpha, other.b)
        search.bound, search.closed, search.nodes = other.bound, other.closed, other.nodes
        search.history = other.history
        for bound, fixed, basis in other.left():
            search.made += 1
            at = np.flatnonzero(fixed == FREE)
            heappush(search.heap, Open(bound, search.made, fixed, basis, at, np.full(len(at), 0.5)))
        return search

    def offer(self, alpha: Vector, b: float | None = None) -> None:
        """Keep a point, with the best intercept if none is given, if it is the best so far."""
        data = self.data
        if b is None:
            alpha = np.where(data.support(alpha), alpha, 0.0)
            b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
        score = data.score(alpha, b)
        if score < self.best:
            self.alpha, self.b, self.best = alpha, b, score

    def _explore(self) -> Status:
        self.lp = WarmLP(self.data)
        if not self.heap:
            free = np.full(len(self.data.centres), FREE, dtype=np.int8)
            root = self.lp.solve(free, None, np.inf, self.clock)
            self.bound = max(root.bound, 0.0)
            if not root.solved:
                return Status.TIME_LIMIT if self.clock.is_over else Status.FAILED
            for node in self._opened(free, root, 0.0):
                self.heap.append(node)
        while self._update() < self.enough and (self.heap or self.stack):
            if self.clock.is_over:
                return Status.TIME_LIMIT
            if self.nodes >= self.most:
                return Status.ITERATION_LIMIT
            one = self.stack[-1] if self.stack else self.heap[0]
            children = sorted(self._children(one), reverse=True)
            if self.stack:
                self.stack.pop()
            else:
                heappop(self.heap)  # not before: an interruption must not lose it
            for child in children:
                if self.stack or len(self.heap) >= self.room:
                    self.stack.append(child)
                else:
                    heappush(self.heap, child)
        self._update()
        return Status.SOLVED

    def _update(self) -> float:
        """The bound, as it stands; a record from time to time."""
        least = min((node.bound for node in (*self.stack, *self.heap[:1])), default=np.inf)
        self.bound = max(self.bound, min(least, self.closed, self.best))
        self._record(len(self.heap) + len(self.stack))
        return self.bound

    def _opened(self, fixed: Marks, found: NodeSolution, least: float) -> list[Open]:
        """The open node of a solved program, if there is anything left to decide in it."""
        bound = max(found.bound, least)
        # Its support, once paid for, is worth as much; what is certainly no better need not be evaluated.
        if found.solved and bound + found.unpaid(fixed) < self.best * (1.0 + _ALIKE):
            self.offer(self.data.C * found.a)
        if bound >= self.enough:
            self.closed = min(self.closed, bound)
            return []
        # What the multipliers say of one centre more: on, it costs 1 and saves its rate at most.
        then = np.stack(
            [
                (found.rates - 1.0 + found.bound).lower,
                (1.0 - found.rates.positive() + found.bound).lower,
            ]
        )
        shut = (then >= self.enough) & (fixed == FREE)
        if shut.any():
            self.closed = min(self.closed, float(then[shut].min()))
        fixed = np.where(shut[1], OFF, np.where(shut[0], ON, fixed)).astype(np.int8)
        part = (fixed == FREE) & (found.a > 0.0) & (found.a < 1.0)
        if not found.solved:  # any centre will do
            part = fixed == FREE
        at = np.flatnonzero(part)
        if not at.size:  # a leaf
            self.closed = min(self.closed, bound)
            return []
        self.made += 1
        return [Open(bound, self.made, fixed, found.basis, at, found.a[at])]

    def _children(self, one: Open) -> list[Open]:
        """What is left to decide of an open node, once one centre more is decided."""
        if one.bound >= self.enough:
            self.closed = min(self.closed, one.bound)
            return []
        self.nodes += 1
        j, sides = self._choose(one)
        children = []
        for on in sides:
            found = self._solve(one, j, on)
            children += self._opened(self._decided(one, j, on), found, one.bound)
            if found.solved:
                self._round(found)
        return children

    def _choose(self, one: Open) -> tuple[int, tuple[int, ...]]:
        """The centre to decide, and which of off (0) and on (1) may have scores under the best."""
        gap = self.enough - one.bound
        share = np.stack([one.parts, 1.0 - one.parts])
        all_seen = np.maximum(self.seen.sum(axis=1), 1.0)
        usual = np.where(self.seen.sum(axis=1) > 0, self.gain.sum(axis=1) / all_seen, 1.0)
        gain, seen = self.gain[:, one.at], self.seen[:, one.at]
        expected = share * np.where(seen > 0, gain / np.maximum(seen, 1.0), usual[:, None])
        worth = np.clip(expected, LITTLE * gap, gap).prod(axis=0)
        chosen, most, tries, since = int(one.at[worth.argmax()]), -1.0, 0, 0
        for i in np.argsort(-worth, kind="stable"):
            j, value = int(one.at[i]), float(worth[i])
            if seen[:, i].min() < RELIABLE and tries < TRIES:
                tries += 1
                bounds = [self._solve(one, j, on, most=PIVOTS).bound for on in (0, 1)]
                shut = [on for on in (0, 1) if bounds[on] >= self.enough]
                if shut:
                    self.closed = min(self.closed, *(bounds[on] for on in shut))
                    return j, tuple(on for on in (0, 1) if on not in shut)
                value = float(np.clip(np.subtract(bounds, one.bound), LITTLE * gap, gap).prod())
            since += 1
            if value > most:
                chosen, most, since = j, value, 0
            if since >= PATIENCE:
                break
        return chosen, (0, 1)

    def _learn(self, one: Open, j: int, on: int, rise: float) -> None:
        """Remember by how much deciding a centre raises the bound, for each unit that it moves."""
        part = float(one.parts[one.at == j][0])
        moved = 1.0 - part if on else part
        self.gain[on, j] += min(max(rise, 0.0), self.enough - one.bound) / max(moved, 1e-3)
        self.seen[on, j] += 1.0

    def _decided(self, one: Open, j: int, on: int) -> Marks:
        fixed = one.fixed.copy()
        fixed[j] = ON if on else OFF
        return fixed

    def _solve(self, one: Open, j: int, on: int, most: int | None = None) -> NodeSolution:
        """Solve the program of a node with one centre more decided."""
        found = self.lp.solve(self._decided(one, j, on), one.basis, self.enough, self.clock, most=most)
        if self.clock.is_over:
            raise OutOfTime
        self._learn(one, j, on, found.bound - one.bound)
        return found

    def _round(self, found: NodeSolution) -> None:
        """Try the patterns of the larger coefficients: all at the first nodes, then one now and then."""
        if self.nodes > _FIRST and self.nodes % _EVERY:
            return
        rounding = _ROUNDING if self.nodes <= _FIRST else (_ROUNDING[self.nodes // _EVERY % len(_ROUNDING)],)
        for least in rounding:
            sigma = found.a > least
            key = np.packbits(sigma).tobytes()
            if key in self.tried:
                continue
            self.tried.add(key)
            fixed = np.where(sigma, ON, OFF).astype(np.int8)
            self.offer(self.data.C * self.lp.solve(fixed, found.basis, self.enough, self.clock).a)
