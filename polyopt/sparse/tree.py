"""Branch and bound for the L0 support vector machine, on its relaxations.

The machine minimises the score, the number of centres used plus C times the hinge loss. A node decides for
some centres that they are on (used), for some that they are off (:mod:`polyopt.sparse.node_program`), and the
open node with the least bound is expanded next (:mod:`polyopt.optim.best_first`). Its two children decide one
more centre: the one that increases both bounds most, found by strong branching and the gains observed before
(reliability branching). The multipliers of a node decide further centres without a solve (reduced-cost
fixing). Rounding α to a pattern, a set of centres, gives incumbents.

Nodes take some dozens of microseconds, so ``native/l0_tree.c`` expands several in one call: a node, then the
best of its descendants. Python keeps all other open nodes and the incumbent. If pivots fail from the basis of
the parent, they begin again from the constant classifier's; if they fail from there, the node is closed.

An integer solver does the same for program (3) of :mod:`formulations.l0`, with twice the columns, and rows
that link σ to α. Here a node is a change of bounds, and some dozens of pivots from its parent's basis.

Reference: Achterberg, Koch & Martin, Branching rules revisited (2005).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from formulations.l0_data import L0Data
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.native.library import Struct, kernel
from polyopt.optim import best_first
from polyopt.optim.best_first import BestFirst, OpenNode
from polyopt.sparse.node_program import (
    FREE,
    OPTIMAL,
    PERTURBATION,
    Marks,
    begin,
    copy_state,
    empty_state,
    pivot_program_of,
    pivot_to_optimum,
    problem_of,
)
from polyopt.sparse.pattern_lp import finished, trivial_intercept


@dataclass(frozen=True)
class Options(best_first.Options):
    """Sizes of the search; a third of any of them, or twice as much, changes its time by a fifth at most."""

    reliable_gains: int = 4  # observed gains of a centre, off and on, which make its trial superfluous
    max_trials: int = 12  # centres tried at a node
    trial_pivots: int = 40  # pivots of a trial
    max_idle_trials: int = 6  # trials in a row without a better centre that end the trials of a node
    min_rel_gain: float = 1e-3  # gain relative to the gap; a smaller one counts as this
    min_move: float = 1e-3  # least move of a centre by which an observed gain is divided
    min_share: float = 1e-9  # α/C up to which a coefficient counts as 0, as in the score of a point
    rel_rounding: float = 4e-15  # error of the bound after one more decision, relative to its terms
    pivots_per_number: float = 20.0  # pivots, for each row and column, after which a solve has failed
    rounding: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)  # thresholds of α/C over which a centre is on
    nodes_per_rounding: int = 5  # nodes between two roundings
    first_nodes: int = 3  # nodes at first that are expanded one by one, and rounded by all thresholds
    nodes_per_call: int = 5  # nodes that are expanded together
    products_per_call: float = 1e7  # products, about, after which no further node is expanded in a call


DEFAULT = Options()


class SearchState(Struct):
    """Nodes that calls of :data:`expand_nodes` leave for later ones, and work space.

    gain, n_gains (2, p): pseudo-costs: increases of the bound per unit that a centre moved off or on, summed,
        and the number of such observations.
    marks (slots, m), bounds (slots,): open nodes as ``Node.marks``, and their bounds.
    multipliers (2, n): those of the programs of the two children made last.
    point (p,): a of the best point found; its b and score are in ``values``.
    counts, values: see the indices below.
    """

    signature: ClassVar[str] = (
        "gain!: f8 (s, p); n_gains!: f8 (s, p); marks!: i1 (slots, m); bounds!: f8 (slots); fixed!: i1 (p); "
        "is_on!: i1 (p); shares!: f8 (p); worths!: f8 (p); feasible_u!: f8 (n); "
        "midpoints!: f8 (p); rates!: f8 (s, p); multipliers!: f8 (s, n); point!: f8 (p); counts!: i8 (five); "
        "values!: f8 (three); reliable_gains: i8; max_trials: i8; trial_pivots: i8; max_idle_trials: i8; "
        "max_pivots_each: i8; decides_further: i8; min_rel_gain: f8; min_move: f8; min_share: f8; "
        "rel_rounding: f8; perturbation: f8"
    )


# Indices of SearchState.counts: open nodes in ``marks``, nodes expanded in the last call, all pivots so far,
# the centre decided last, and the slot of the node whose pivots failed.
N_OPEN, EXPANDED, PIVOTS, CENTRE, FAILED_SLOT = range(5)
# Indices of SearchState.values: least bound of the parts closed since it was set, and score and intercept of
# the best point found.
CLOSED, BEST, BEST_B = range(3)

_PROGRAM = "problem: Problem; program: PivotProgram; search: SearchState; base: State; work: State"

# Solve the program of a node from the state `base`, and open it unless it is closed; 0 if the pivots failed.
open_root = kernel("l0_open_root", f"{_PROGRAM}; fixed: i1 (p); cutoff: f8", returns="i8")

# Expand the open node of the least bound in `search` until none is open, a better point is found, or a limit
# is reached. `base` has then the optimum of the node expanded last. Returns 0 if pivots failed; then the node
# that they failed in is still open.
expand_nodes = kernel("l0_expand", f"{_PROGRAM}; cutoff: f8; max_nodes: i8; max_pivots: i8", returns="i8")


class Node(NamedTuple):
    """The decisions of a node, and the basis of its program."""

    marks: Marks  # (3 p + n,) the decisions, ON, OFF or FREE; then rows, cols and on of a State
    description: Any = None  # of the node in a claim


class L0Tree(BestFirst[Node]):
    """A search for the optimum of the exact program (3) of :mod:`formulations.l0`.

    :meth:`offer` gives it incumbents, :meth:`run` expands nodes, and :meth:`solution` returns its result.

    alpha (p,), b: the incumbent.
    relaxation (n,): the relaxation's multipliers; zeros before it is solved.
    goal: bound at which a node is closed, whatever the incumbent.
    max_pivots: number of pivots at which a run ends as STALLED.
    """

    decides_further = True  # True for reduced-cost fixing

    options: Options

    def __init__(self, data: L0Data, tol: float, clock: Clock, options: Options = DEFAULT):
        n, p = data.K.shape
        super().__init__(tol, node_bytes=1024 + n + 3 * p, options=options)
        self.data, self.clock = data, clock
        self.alpha, self.b = np.zeros(p), trivial_intercept(data)
        self._score, self.goal, self.max_pivots = data.score(self.alpha, self.b), np.inf, np.inf
        self.problem = problem_of(data)
        self.program = pivot_program_of(self.problem)
        self._base = empty_state(n, p)  # of the node that is expanded
        self._work = empty_state(n, p, self._base)  # of a trial, a child or a pattern
        self._max_pivots_each = int(options.pivots_per_number * (n + p))
        slots = options.nodes_per_call + 2
        self.search = SearchState(
            np.zeros((2, p)), np.zeros((2, p)), np.zeros((slots, 3 * p + n), np.int8), np.zeros(slots),
            np.zeros(p, np.int8), np.zeros(p, np.int8), np.zeros(p), np.zeros(p), np.zeros(n), np.zeros(p),
            np.zeros((2, p)), np.zeros((2, n)), np.zeros(p), np.zeros(5, np.int64), np.full(3, np.inf),
            options.reliable_gains, options.max_trials, options.trial_pivots, options.max_idle_trials,
            self._max_pivots_each, int(self.decides_further), options.min_rel_gain, options.min_move,
            options.min_share, options.rel_rounding, PERTURBATION,
        )  # fmt: skip
        self._arrays = self.problem, self.program, self.search, self._base, self._work
        self._pivots_per_call = int(options.products_per_call / (n * p + 100))  # 100 for a pivot's overhead
        self._rounded: set[bytes] = set()  # patterns
        self._next_rounding = 0
        self.relaxation = np.zeros(n)
        self._has_root, self._max_nodes = False, np.inf

    @property
    def objective(self) -> float:
        """Score of the incumbent."""
        return self._score

    @property
    def cutoff(self) -> float:
        """Bound at which a node is closed."""
        return min(super().cutoff, self.goal)

    @property
    def bound(self) -> float:
        """Lower bound on every score."""
        return super().bound if self._has_root else 0.0

    def offer(self, alpha: Vector, b: float) -> None:
        """Make a point, clipped to its bounds, the incumbent if it is better."""
        alpha = np.clip(alpha, 0.0, self.data.C)
        alpha = np.where(self.data.support(alpha), alpha, 0.0)
        score = self.data.score(alpha, b)
        if score < self._score:
            self.alpha, self.b, self._score = alpha, b, score

    def run(self, clock: Clock, max_nodes: int | None = None) -> Status:
        """Expand nodes until none is open or a limit is reached; FAILED if the relaxation was not solved."""
        self._max_nodes = np.inf if max_nodes is None else max_nodes
        try:
            if not (self._has_root or self.solve_root(np.full(len(self.alpha), FREE, dtype=np.int8))):
                return Status.TIME_LIMIT if self.clock.is_over else Status.FAILED
            return super().run(clock, max_nodes)
        except KeyboardInterrupt:
            return interrupted()

    def limit(self, clock: Clock, max_nodes: int | None) -> Status | None:
        """Return the limit that is reached, or None."""
        is_stalled = self.search.counts[PIVOTS] >= self.max_pivots
        return Status.STALLED if is_stalled else super().limit(clock, max_nodes)

    def solve_root(self, fixed: Marks) -> bool:
        """Solve the program of the node with these decisions and open it; return True if it was solved."""
        base, search = self._base, self.search
        search.values[:] = np.inf, self._score, 0.0
        search.counts[N_OPEN] = 0
        begin(self.program, base)
        self._has_root = bool(open_root(*self._arrays, fixed, self.cutoff))
        self.relaxation = base.u.copy()
        self.push(self._opened())
        return self._has_root

    def expand(self, node: OpenNode[Node]) -> Iterator[tuple[float, Node]]:
        """Decide one more centre off and on, the same for the best descendants; return the open ones."""
        search = self.search
        search.marks[0], search.bounds[0] = node.state.marks, node.bound
        search.counts[N_OPEN] = 1
        search.values[:] = np.inf, min(self._score, search.values[BEST]), 0.0
        options = self.options
        per_call = options.nodes_per_call if self.nodes > options.first_nodes else 1
        most = int(min(per_call, self._max_nodes - self.nodes + 1))
        if not expand_nodes(*self._arrays, self.cutoff, most, self._pivots_per_call):
            self._begin_again(int(search.counts[FAILED_SLOT]))
        self.nodes += int(search.counts[EXPANDED]) - 1
        yield from self._opened()
        if self.nodes >= self._next_rounding:
            self._round(self._base.a / self.program.full_cap)

    def _begin_again(self, slot: int) -> None:
        """Give a node the constant classifier's basis; close it if the pivots failed from there."""
        search, base, p = self.search, self._base, len(self.alpha)
        begin(self.program, base)
        marks = np.concatenate([search.marks[slot, :p], base.rows, base.cols, base.on])
        if not np.array_equal(marks, search.marks[slot]):
            search.marks[slot] = marks
            return
        self.close(float(search.bounds[slot]))
        search.counts[N_OPEN] -= 1
        last = search.counts[N_OPEN]
        search.marks[slot], search.bounds[slot] = search.marks[last], search.bounds[last]

    def _opened(self) -> Iterator[tuple[float, Node]]:
        """Return bounds and nodes that a call left open; offer its point, and record what it closed."""
        search = self.search
        if search.values[BEST] < self._score:
            self.offer(self.data.C * search.point, float(search.values[BEST_B]))
        self.close(float(search.values[CLOSED]))
        for slot in range(search.counts[N_OPEN]):
            yield float(search.bounds[slot]), Node(search.marks[slot].copy())

    def solution(self, status: Status) -> Solution:
        """Return the solution of a search that ended with this status.

        The program of the best pattern is solved again. ``primal`` has alpha, b, xi and sigma, the support of
        alpha; ``duals`` has the multipliers "margin" of that program. ``objective`` is the score, evaluated
        from the data. ``bound`` is proven: the least bound of the leaves, evaluated from the data by their
        multipliers, less rounding. ``iterations`` counts nodes; records of ``history`` have seconds,
        objective, bound, nodes and open. The status is INACCURATE if all centres are decided and a gap
        remains because of the pivots' tolerances or rounding.
        """
        return finished(
            self.data, (self.alpha, self.b), self.bound, status, tol=self.tol, left=self.clock.left,
            solver="branch and bound on the relaxation (simplex)", iterations=self.nodes,
            solve_time=self.clock.seconds, history=tuple(self.history),
        )  # fmt: skip

    def _round(self, shares: Vector) -> None:
        """Solve the programs of the patterns of the larger coefficients, at some of the nodes."""
        thresholds, every = self.options.rounding, self.options.nodes_per_rounding
        if self.nodes > self.options.first_nodes:
            turn = self.nodes // every % len(thresholds)
            thresholds = thresholds[turn : turn + 1]
            self._next_rounding = self.nodes + every
        work = self._work
        for threshold in thresholds:
            pattern = shares > threshold
            if pattern.tobytes() in self._rounded:
                continue
            self._rounded.add(pattern.tobytes())
            copy_state(self._base, work)
            np.multiply(self.program.full_cap, pattern, out=self.program.cap)
            ended = pivot_to_optimum(
                self.program, work, pattern.view(np.int8), self._max_pivots_each, self.cutoff
            )
            self.search.counts[PIVOTS] += work.sizes[2] + 1
            if ended == OPTIMAL:
                shares = work.a / self.program.full_cap
                self.offer(self.data.C * shares, float(work.b_and_value[0]))
