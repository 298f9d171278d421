"""Branch and bound for the L0 support vector machine, on its relaxations.

The machine minimises the score, the number of centres used plus C times the hinge loss. A node decides for
some centres that they are on (used), for some that they are off (:mod:`polyopt.sparse.node_program`), and the
open node with the least bound is expanded next (:mod:`polyopt.optim.best_first`). Its two children decide one
more centre: the one that increases both bounds most, found by strong branching and the gains observed before
(reliability branching). The multipliers of a node decide further centres without a solve (reduced-cost
fixing). Rounding α to a pattern, a set of centres, gives incumbents.

An integer solver does the same for program (3) of :mod:`formulations.l0`, with twice the columns, and rows
that link σ to α. Here a node is a change of bounds, and some dozens of pivots from its parent's basis.

Reference: Achterberg, Koch & Martin, Branching rules revisited (2005).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.l0_data import L0Data
from formulations.language.arguments import tolerance
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.optim import best_first
from polyopt.optim.best_first import BestFirst, OpenNode
from polyopt.sparse.node_program import (
    FAILED,
    FREE,
    OFF,
    ON,
    OPTIMAL,
    PERTURBATION,
    State,
    begin,
    bound_of,
    copy_state,
    empty_state,
    load,
    pivot_program_of,
    pivot_to_optimum,
    problem_of,
    solve_by_highs,
)
from polyopt.sparse.pattern_lp import as_start, finished, trivial_intercept

if TYPE_CHECKING:
    Marks = NDArray[np.int8]


@dataclass(frozen=True)
class Options(best_first.Options):
    """Sizes of the search; a third of any of them, or twice as much, changes its time by a fifth at most."""

    reliable_gains: int = 4  # gains of a centre observed on each side from which on it is not tried
    max_trials: int = 12  # centres tried at a node
    trial_pivots: int = 40  # pivots of a trial
    max_idle_trials: int = 6  # centres in a row that are no better, after which the best is taken
    min_rel_gain: float = 1e-3  # gain relative to the gap; a smaller one counts as this
    pivots_per_number: int = 20  # pivots for each row and column after which HiGHS solves a program
    rounding: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)  # thresholds of α/C over which a centre is on
    nodes_per_rounding: int = 5  # nodes between two roundings


DEFAULT = Options()
_BOUND_ROUNDING = 4e-15  # of a bound of one centre more, relative to its terms


class Node(NamedTuple):
    """The decisions of a node, and the basis of its program."""

    fixed: "Marks"  # (p,) ON, OFF or FREE
    rows: "Marks"  # (n,) position of each multiplier: AT_ZERO, INSIDE or AT_CAP
    cols: "Marks"  # (p,) position of each coefficient
    on: "Marks"  # (p,) 1 for the columns with the cost of a centre that is on
    description: Any = None  # by :meth:`L0Tree.describe`


def solve_l0_tree(
    data: L0Data, *, start: tuple[ArrayLike, float] | None = None, time_limit: float | None = None,
    tol: float = 1e-6, max_nodes: int | None = None, options: Options = DEFAULT,
) -> Solution:  # fmt: skip
    """Solve the exact program (3) of :mod:`formulations.l0` by branch and bound.

    `start` (alpha, b) is the first incumbent. In the end the program of the best pattern is solved again.

    Returns: ``primal`` has alpha, b, xi and sigma, the support of alpha; ``duals`` has the multipliers
        "margin" of that pattern's program. ``objective`` is the score, evaluated from the data. ``bound`` is
        proven: the least bound of the leaves, evaluated from the data by their multipliers, less rounding.
        ``iterations`` counts nodes; records of ``history`` have seconds, objective, bound, nodes and open.
        ITERATION_LIMIT after `max_nodes`; INACCURATE if all centres are decided and a gap remains because of
        the pivots' tolerances or rounding.
    """
    search = L0Tree(data, tolerance(tol), Clock(time_limit), options)
    if start is not None:
        search.offer(*as_start(data, start))
    return search.solution(search.run(search.clock, max_nodes))


class L0Tree(BestFirst[Node]):
    """A search.

    alpha (p,), b: the incumbent.
    relaxation (n,): the relaxation's multipliers; zeros before it is solved.
    goal: bound at which a node is closed, whatever the incumbent.
    pivots, max_pivots: number of pivots so far, and the number at which a run ends as STALLED.
    """

    decides_further = True  # True for reduced-cost fixing
    max_depth: float = np.inf  # number of decisions of a node that is closed

    options: Options

    def __init__(self, data: L0Data, tol: float, clock: Clock, options: Options = DEFAULT):
        n, p = data.K.shape
        super().__init__(tol, node_bytes=1024 + n + 3 * p, options=options)
        self.data, self.clock = data, clock
        self.alpha, self.b = np.zeros(p), trivial_intercept(data)
        self._score, self.goal = data.score(self.alpha, self.b), np.inf
        self.pivots, self.max_pivots = 0, np.inf
        self.problem = problem_of(data)
        self.program = pivot_program_of(self.problem)
        self._base = empty_state(n, p)  # of the node that is expanded
        self._work = empty_state(n, p, self._base)  # of a trial, a child or a pattern
        self._is_on = np.zeros(p, dtype=bool)  # room for the centres that are on
        self._max_pivots_each = options.pivots_per_number * (n + p)
        self._rates = np.zeros((2, p))  # bounds on the rates of the multipliers evaluated last
        # Pseudo-costs: the sum of the increases of the bound per unit that a centre moved off or on, and the
        # number of such observations.
        self._gain, self._n_gains = np.zeros((2, p)), np.zeros((2, p))
        self._total_gain, self._n_total = np.zeros(2), np.zeros(2)  # over all centres
        self._rounded: set[bytes] = set()  # patterns
        self.relaxation = np.zeros(n)
        self._has_root = False

    @property
    def objective(self) -> float:
        """Score of the incumbent."""
        return self._score

    @property
    def cutoff(self) -> float:
        """Bound at which a node is closed."""
        return min(super().cutoff, self.goal)

    def offer(self, alpha: Vector, b: float) -> None:
        """Make a point the incumbent if it is better."""
        score = self.data.score(alpha, b)
        if score < self._score:
            self.alpha, self.b, self._score = alpha, b, score

    def run(self, clock: Clock, max_nodes: int | None = None) -> Status:
        """Expand nodes until none is open or a limit is reached; FAILED if the relaxation was not solved."""
        try:
            if not self._has_root:
                free = np.full(len(self.alpha), FREE, dtype=np.int8)
                begin(self.program, self._base)
                ended, bound = self._solve(self._base, free, np.inf)
                self.relaxation = self._base.u.copy()
                children = self._opened(None, -1, free, self._base, ended, max(bound, 0.0))
                if ended != OPTIMAL:
                    return Status.TIME_LIMIT if self.clock.is_over else Status.FAILED
                self.push(children)
                self._has_root = True
            return super().run(clock, max_nodes)
        except KeyboardInterrupt:
            return interrupted()

    @property
    def bound(self) -> float:
        """Lower bound on every score."""
        return super().bound if self._has_root else 0.0

    def limit(self, clock: Clock, max_nodes: int | None) -> Status | None:
        """Return the limit that is reached, or None."""
        return Status.STALLED if self.pivots >= self.max_pivots else super().limit(clock, max_nodes)

    def expand(self, node: OpenNode[Node]) -> Iterator[tuple[float, Node]]:
        """Decide one more centre off and on, and return the children that are not closed."""
        fixed, base = node.state.fixed, self._base
        base.rows[:], base.cols[:], base.on[:] = node.state.rows, node.state.cols, node.state.on
        if load(self.program, base) and self._pivot(base, fixed, np.inf) == OPTIMAL:
            shares = base.a / self.program.full_cap
        else:
            self._solve_by_highs(base, fixed)
            shares = base.a / self.program.full_cap
            begin(self.program, base)
        self._round(shares)
        j, share = self._choose(fixed, shares, node.bound)
        for side, mark in enumerate((OFF, ON)):
            child = fixed.copy()
            child[j] = mark
            copy_state(base, self._work)
            ended, bound = self._solve(self._work, child, self.cutoff)
            self._learn(side, j, share, bound - node.bound, self.cutoff - node.bound)
            yield from self._opened(node.state, j, child, self._work, ended, max(bound, node.bound))

    def describe(self, parent: Node | None, j: int, fixed: "Marks", u: Vector) -> Any:
        """Return a description of a child of `parent` by the centre j, with multipliers u (n,)."""

    def solution(self, status: Status) -> Solution:
        """Return the solution of a search that ended with this status."""
        return finished(
            self.data, (self.alpha, self.b), self.bound, status, tol=self.tol, left=self.clock.left,
            solver="branch and bound on the relaxation (simplex)", iterations=self.nodes,
            solve_time=self.clock.seconds, history=tuple(self.history),
        )  # fmt: skip

    # -- the program of a node ---------------------------------------------------------------

    def _pivot(self, state: State, fixed: "Marks", cutoff: float, most: int | None = None) -> int:
        """Pivot towards the optimum of a node's program; return OPTIMAL, STOPPED or FAILED."""
        np.multiply(self.program.full_cap, fixed != OFF, out=self.program.cap)
        np.equal(fixed, ON, out=self._is_on)
        most = self._max_pivots_each if most is None else most
        # The perturbation of the program must not hide that the cutoff is missed.
        ended = pivot_to_optimum(
            self.program, state, self._is_on.view(np.int8), most, cutoff + 4.0 * PERTURBATION * abs(cutoff)
        )
        self.pivots += int(state.sizes[2]) + 1
        return int(ended)

    def _solve(self, state: State, fixed: "Marks", cutoff: float) -> tuple[int, float]:
        """Solve a child's program from its parent's state; return how that ended, and the proven bound.

        STOPPED if the bound is at least the cutoff, else OPTIMAL; FAILED if HiGHS failed, too.
        """
        for goal in dict.fromkeys((cutoff, np.inf)):  # again if it stops at a value that is not quite proven
            ended = self._pivot(state, fixed, goal)
            bound = bound_of(self.problem, fixed, state.u, self._rates)
            if ended == OPTIMAL or bound >= cutoff:
                return ended, bound
        ended = self._solve_by_highs(state, fixed)
        return ended, bound_of(self.problem, fixed, state.u, self._rates)

    def _solve_by_highs(self, state: State, fixed: "Marks") -> int:
        """Solve a program whose pivots failed.

        The state has HiGHS's point and multipliers, and the basis of the constant classifier.
        """
        is_solved, a, b, u = solve_by_highs(self.problem, fixed, self.clock.left)
        begin(self.program, state)
        state.u[:], state.a[:], state.b_and_value[0] = u, a * self.program.full_cap, b
        return OPTIMAL if is_solved else FAILED

    def _opened(
        self, parent: Node | None, j: int, fixed: "Marks", state: State, ended: int, bound: float
    ) -> list[tuple[float, Node]]:
        """Return bound and node of a solved program, or close it if there is nothing left to decide."""
        description = self.describe(parent, j, fixed, state.u)
        free = np.flatnonzero(fixed == FREE)
        shares = state.a[free] / self.program.full_cap[free]
        if ended == OPTIMAL:
            used = shares[shares > 0.0]
            # Rounding the coefficients up costs what the centres in use have not paid yet.
            if bound + (1.0 - used).sum() < self._score * (1.0 + 1e-6):
                self._offer(state)
        if bound < self.cutoff and len(fixed) - len(free) < self.max_depth:
            is_left = self._decide_further(fixed, free, bound) if self.decides_further else True
            if (is_left & ((ended != OPTIMAL) | ((shares > 0.0) & (shares < 1.0)))).any():
                rows, cols, on = (marks.copy() for marks in (state.rows, state.cols, state.on))
                return [(bound, Node(fixed, rows, cols, on, description))]
        self.close(bound)
        return []

    def _decide_further(self, fixed: "Marks", free: NDArray[np.intp], bound: float) -> NDArray[np.bool_]:
        """Decide centres whose other side the multipliers prove to be no better; return which are left free.

        On, a centre costs 1 and saves its rate at most; off, it saves 1.
        """
        least, most = self._rates[:, free]
        rounding = _BOUND_ROUNDING * (abs(bound) + np.maximum(np.abs(least), np.abs(most)) + 2.0)
        bound_on = bound + 1.0 - np.maximum(most, 0.0) - rounding
        bound_off = bound + least - 1.0 - rounding
        cutoff = self.cutoff
        is_off, is_on = bound_on >= cutoff, bound_off >= cutoff
        is_decided = is_off | is_on
        if is_decided.any():
            fixed[free[is_on]], fixed[free[is_off]] = ON, OFF
            self.close(np.where(is_off, bound_on, bound_off)[is_decided].min())
        return ~is_decided

    # -- branching ---------------------------------------------------------------------------

    def _choose(self, fixed: "Marks", shares: Vector, bound: float) -> tuple[int, float]:
        """Return the centre that raises both bounds most, and its share α/C.

        Promising centres are tried on both sides until their gains are reliable.
        """
        options, gap = self.options, self.cutoff - bound
        free = np.flatnonzero(fixed == FREE)
        shares = np.minimum(np.maximum(shares[free], 0.0), 1.0)
        is_split = (shares > 0.0) & (shares < 1.0)
        if is_split.any():
            free, shares = free[is_split], shares[is_split]
        # The expected gain of a centre per unit that it moves is that observed, or else all centres' mean.
        counts, means = self._n_gains[:, free], self._total_gain / np.maximum(self._n_total, 1.0)
        own_means = self._gain[:, free] / np.maximum(counts, 1.0)
        per_unit = np.where(counts > 0.0, own_means, np.where(means > 0.0, means, 1.0)[:, None])
        worths = self._worth(per_unit * [shares, 1.0 - shares], gap)
        n_observed, order = counts.min(axis=0), np.argsort(-worths, kind="stable")
        best, best_worth, trials, idle = order[0], -1.0, 0, 0
        for k in order:
            worth = worths[k]
            if n_observed[k] < options.reliable_gains and trials < options.max_trials:
                trials += 1
                gains = [self._try(fixed, int(free[k]), side, float(shares[k]), bound) for side in (0, 1)]
                if np.inf in gains:
                    best = k
                    break
                worth = self._worth(np.array(gains), gap)
            idle += 1
            if worth > best_worth:
                best, best_worth, idle = k, worth, 0
            if idle >= options.max_idle_trials:
                break
        return int(free[best]), float(shares[best])

    def _worth(self, gains: Vector, gap: float) -> Vector:
        """Return the product of the gains off and on, each clipped to the gap."""
        off, on = np.minimum(np.maximum(gains, self.options.min_rel_gain * gap), gap)
        return off * on

    def _try(self, fixed: "Marks", j: int, side: int, share: float, bound: float) -> float:
        """Return the gain by some pivots with one more centre decided; infinite if that closes the node."""
        child = fixed.copy()
        child[j] = (OFF, ON)[side]
        copy_state(self._base, self._work)
        cutoff = self.cutoff
        if self._pivot(self._work, child, cutoff, self.options.trial_pivots) == FAILED:
            return 0.0
        gain = float(self._work.b_and_value[1]) - bound
        self._learn(side, j, share, gain, cutoff - bound)
        is_closed = gain >= cutoff - bound and bound_of(self.problem, child, self._work.u) >= cutoff
        return np.inf if is_closed else gain

    def _learn(self, side: int, j: int, share: float, gain: float, gap: float) -> None:
        """Remember by how much deciding a centre raises the bound, for each unit that it moves."""
        per_unit = min(max(gain, 0.0), gap) / max(1.0 - share if side else share, 1e-3)
        self._gain[side, j] += per_unit
        self._n_gains[side, j] += 1.0
        self._total_gain[side] += per_unit
        self._n_total[side] += 1.0

    # -- incumbents --------------------------------------------------------------------------

    def _offer(self, state: State) -> None:
        """Offer the point of a state."""
        alpha = self.data.C * np.clip(state.a / self.program.full_cap, 0.0, 1.0)
        self.offer(np.where(self.data.support(alpha), alpha, 0.0), float(state.b_and_value[0]))

    def _round(self, shares: Vector) -> None:
        """Solve the programs of the patterns of the larger coefficients, at some of the nodes."""
        thresholds, every = self.options.rounding, self.options.nodes_per_rounding
        if self.nodes > 3:
            turn = self.nodes // every % len(thresholds)
            thresholds = thresholds[turn : turn + 1] if self.nodes % every == 0 else ()
        for threshold in thresholds:
            pattern = np.where(shares > threshold, ON, OFF).astype(np.int8)
            if pattern.tobytes() in self._rounded:
                continue
            self._rounded.add(pattern.tobytes())
            copy_state(self._base, self._work)
            if self._pivot(self._work, pattern, self.cutoff) == OPTIMAL:
                self._offer(self._work)
