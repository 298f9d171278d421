"""Branch and bound for the SVM with the hard-margin loss, exact, with combinatorial Benders' cuts.

A node says of some samples that they are given up, of some that they are met. Its bound is that of the master
program (:mod:`polyopt.solvers.hard_margin_loss.master`), whose cuts come from climbs over the samples that it
meets (:mod:`polyopt.solvers.hard_margin_loss.climb`): a climb ends with a hyperplane, which may be a new best
point, or with a few samples that cannot all be met for less than a limit. The limit is the best value known
less what the node gives up at least, so that it falls as the tree grows and as better points are found, and
cuts that said little before become sharp. Where all samples cost the same, what is given up is a multiple of
it. Children decide on the sample that the master program leaves most undecided; the open node of the least
bound comes first, after a dive.

Reference: Santana, Serrano, Schiffer & Vidal, Support vector machines with the hard-margin loss: optimal
training via combinatorial Benders' cuts, Journal of Global Optimization (2025); Codato & Fischetti,
Combinatorial Benders' cuts for mixed-integer linear programming, Operations Research 54 (2006). The falling
limit and the proof of every leaf are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import tolerance
from formulations.solution import Solution, Status
from polyopt.certificates.hard_margin_loss import least_square, proven_point
from polyopt.solvers.branching import BranchAndBound, OutOfTime
from polyopt.solvers.clock import Clock
from polyopt.solvers.hard_margin_loss.climb import STALLED
from polyopt.solvers.hard_margin_loss.cuts import Cuts
from polyopt.solvers.hard_margin_loss.master import Master, MasterSolution
from polyopt.solvers.hard_margin_loss.meeting import Meeting, Samples
from polyopt.solvers.hard_margin_loss.point import finished

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.hard_margin_loss_data import HardMarginLossData
    from formulations.matrices import Vector

    Bits = NDArray[np.bool_]

__all__ = ["Search", "solve_tree"]

_SHARES = (0.0, 0.1, 0.2, 0.3)  # samples given up by no more than this are climbed over, for cuts
_IN_A_ROW = 12  # cuts of samples not in a cut yet, from one share
_BROKEN = 1e-4  # a cut broken by less is none
_ROUNDS = (60, 12)  # of the master program, at the root and at another node
_SLOW = 0.01  # of the gap: rounds that raise the bound by less, three in a row, are the last of a node
_POOL = 50  # of the cuts known, those put back at once
_HAIR, _SHORT = 1e-9, 2e-7  # a margin that is short by more counts as not met
_BELOW = 1.0 - 2.0**-48  # differences of values are rounded


def solve_tree(
    data: HardMarginLossData,
    *,
    start: tuple[Vector, float] | None = None,
    time_limit: float | None = None,
    tol: float = 1e-6,
    max_nodes: int | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve the exact program of :mod:`formulations.hard_margin_loss` by branch and bound.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    start : (ndarray of shape (m,), float), optional
        A point (w, b) to begin from.
    time_limit : float, optional
        Seconds.
    tol : float
        Relative gap at which to stop.
    max_nodes : int, optional
        Nodes at most.
    progress : callable, optional
        Called with each record of the history.

    Returns
    -------
    Solution
        ``w`` (m,), ``b``, ``z`` (n,); the multipliers ``margin`` of the samples kept; ``bound`` is what the
        search proves of every point, with its rounding counted against it. Records of ``history`` have
        seconds, objective, bound, nodes, open and cuts. ITERATION_LIMIT after `max_nodes`; INACCURATE where
        nothing is left to decide but a gap remains, by rounding.
    """
    clock, tol = Clock(time_limit), tolerance(tol)
    search = Search(data, tol, clock, max_nodes, progress)
    if start is not None:
        search.offer(*start)
    status = search.run()
    return finished(
        data,
        (search.w, search.b),
        search.bound,
        status,
        tol=tol,
        solver=f"branch and bound, {len(search.cuts)} combinatorial Benders' cuts (HiGHS)",
        iterations=search.nodes,
        solve_time=clock.seconds,
        history=tuple(search.history),
    )


@dataclass(order=True, frozen=True)
class _Open:
    """An open node: its bound, its bounds of z, what it gives up at least, and the sample to decide."""

    bound: float
    number: int
    low: Bits = field(compare=False)
    high: Bits = field(compare=False)
    given_up: float = field(compare=False)
    sample: int = field(compare=False)


class Search(BranchAndBound):
    """One search: the best point, the cuts, the open nodes."""

    def __init__(
        self,
        data: HardMarginLossData,
        tol: float,
        clock: Clock,
        max_nodes: int | None,
        progress: Callable[[dict[str, float]], None] | None,
    ):
        super().__init__(data.at_most(), tol, clock, max_nodes, progress)
        self.data = data
        self.w, self.b = data.idle()
        self.unit = float(data.costs[0]) if np.ptp(data.costs) == 0.0 else 0.0
        self.samples, self.cuts = Samples(data), Cuts(len(data.y))
        self.master = Master(data.costs, self.cuts)
        self.heap: list[_Open] = []
        self.at: _Open | None = None  # the node that is looked into
        self.root = np.full(len(data.y), 0.5)  # z at the root, when its cuts are in

    def offer(self, w: Vector, b: float) -> None:
        """Keep a point if it is the best so far; what is kept is certain to meet what it says."""
        w, b = proven_point(self.data, w, b)
        value = self.data.value(w, b)
        if value < self.best:
            self.w, self.b, self.best = w, b, value

    def _explore(self) -> Status:
        n = len(self.data.y)
        self.heap, self.at = [], None  # a second run begins at the root again, with the cuts of the first
        self.at = self._looked_into(np.zeros(n, dtype=bool), np.ones(n, dtype=bool), 0.0, 0.0, _ROUNDS[0])
        while self.at is not None or self.heap:
            if self.at is None:
                self.at = heappop(self.heap)
            if self._update() >= self.enough:
                break
            if self.clock.is_over:
                return Status.TIME_LIMIT
            if self.nodes >= self.most:
                return Status.ITERATION_LIMIT
            children = self._children(self.at)
            self.at = None  # not before: an interruption must not lose it
            if children:
                self.at = min(children)
                for child in children:
                    if child is not self.at:
                        heappush(self.heap, child)
        self.at = None
        self._update()
        return Status.SOLVED

    def _update(self) -> float:
        """The bound, as it stands; a record from time to time."""
        open_nodes = ([self.at] if self.at is not None else []) + self.heap[:1]
        least = min((node.bound for node in open_nodes), default=np.inf)
        self.bound = max(self.bound, min(least, self.closed, self.best) * _BELOW)
        self._record(len(self.heap), cuts=float(len(self.cuts)))
        return self.bound

    def _children(self, one: _Open) -> list[_Open]:
        """What is left to decide of an open node, once one sample more is decided."""
        if one.bound >= self.enough:
            self.closed = min(self.closed, one.bound)
            return []
        self.nodes += 1
        children = []
        for given_up in (False, True):
            low, high = one.low.copy(), one.high.copy()
            low[one.sample] = high[one.sample] = given_up
            found = self._looked_into(low, high, one.bound, one.given_up, _ROUNDS[1])
            if found is not None:
                children.append(found)
        self.master.tidy()
        return children

    def _looked_into(self, low: Bits, high: Bits, bound: float, given_up: float, rounds: int) -> _Open | None:
        """A node, once its master program has all the cuts that are worth it; None where it is closed."""
        slow, point, last = 0, None, None
        for number in range(rounds):
            if self.clock.is_over:
                raise OutOfTime
            limit = self.best - given_up
            if limit <= 0.0 or bound >= self.enough:
                break
            point = self.master.solve(low, high, limit, self.clock)
            if point is None:
                break
            if self.nodes == 0:
                self.root = point.z
            before = bound
            given_up = max(given_up, self._rounded_up(point.given_up))
            bound = max(bound, point.bound, given_up)
            if bound >= self.enough:
                break
            slow = slow + 1 if bound - before < _SLOW * (self.best - bound) else 0
            added, last = self._cut(point, low, high, self.best - given_up)
            if not added or (slow >= 3 and number >= 3):
                break
        bound = max(bound, given_up)
        if last is not None and last.is_met and not high[last.active].any():
            # All that holds the hyperplane is met for certain, so that ½‖w‖² is no less anywhere in the node.
            bound = max(bound, (given_up + least_square(self.data, last.active, last.alpha)) * _BELOW)
        if bound >= self.enough:
            self.closed = min(self.closed, bound)
            return None
        sample = self._choose(point, last, low, high)
        if sample < 0:
            self.closed = min(self.closed, bound)
            return None
        self.made += 1
        return _Open(bound, self.made, low, high, given_up, sample)

    def _rounded_up(self, given_up: float) -> float:
        """The least that Σ C_i z_i can be, if it is at least `given_up`."""
        if self.unit == 0.0:
            return max(given_up, 0.0)
        return max(float(np.ceil(given_up / self.unit - _HAIR)), 0.0) * self.unit * (1.0 - 2.0**-50)

    def _choose(self, point: MasterSolution | None, last: Meeting | None, low: Bits, high: Bits) -> int:
        """The sample to decide: the one least decided, or one that holds the hyperplane; -1 for none."""
        free = ~low & high
        if not free.any():
            return -1
        if point is not None:
            undecided = np.where(free, np.minimum(point.z, 1.0 - point.z) * self.data.costs, 0.0)
            if undecided.max() > _HAIR * self.data.costs.max():
                return int(undecided.argmax())
        if last is not None and last.active.size:
            at = np.where(free[last.active], last.alpha, 0.0)
            if at.max() > 0.0:
                return int(last.active[at.argmax()])
            return -1  # what holds the hyperplane is decided: no descendant is below this node's bound
        return int(np.flatnonzero(free)[0])

    def _cut(self, point: MasterSolution, low: Bits, high: Bits, limit: float) -> tuple[bool, Meeting | None]:
        """Cuts that the point breaks, put into the master program; and the climb over all that it meets."""
        at, short = self.cuts.broken(point.z, point.theta, limit)
        worst = at[np.argsort(-short, kind="stable")[:_POOL]]
        added = [
            self._put(int(j), limit)
            for j in worst[short[np.argsort(-short, kind="stable")[:_POOL]] > _BROKEN]
        ]
        if any(added):
            return True, None
        first: Meeting | None = None
        new = False
        for share in _SHARES:
            kept = (point.z <= share + _HAIR) & ~low
            for turn in range(_IN_A_ROW):
                found = self.samples.meet(kept, limit)
                if found.status == STALLED:
                    break
                if found.is_met and self._promises(found):
                    self.offer(*self.samples.hyperplane(found))
                if share == 0.0 and turn == 0:
                    first = found
                if not self._broken_by(found, point, limit):
                    break
                new = self._put(self._noted(found), limit) or new
                if found.is_met:
                    break
                kept[found.active] = False
        return new, first

    def _promises(self, found: Meeting) -> bool:
        """Whether the hyperplane just found is as good as the best, as far as its margins as computed say."""
        lost = float(self.data.costs[self.samples.margins < 1.0 - _SHORT].sum())
        return found.value + lost <= self.best * (1.0 + _HAIR)

    def _broken_by(self, found: Meeting, point: MasterSolution, limit: float) -> bool:
        """Whether the samples that hold the hyperplane make a cut that the point breaks."""
        if not found.active.size or found.value <= 0.0:
            return False
        share = 0.0 if found.value >= limit else point.theta / found.value
        return bool(1.0 - point.z[found.active].sum() - share > _BROKEN)

    def _noted(self, found: Meeting) -> int:
        value = least_square(self.data, found.active, found.alpha)
        return self.cuts.add(found.active, max(value, 1e-300))

    def _put(self, cut: int, limit: float) -> bool:
        return self.master.add(cut, bool(self.cuts.values[cut] >= limit))
