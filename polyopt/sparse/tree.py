"""Branch and bound for the L0 support vector machine, on its relaxations.

The machine minimises the score, the number of centres used plus C times the hinge loss. A node decides for
some centres that they are on (used), for some that they are off (:mod:`polyopt.sparse.node_program`). Its
children decide one more centre, the one that increases both bounds most, found by strong branching and the
gains observed before (reliability branching). The open node with the least bound is explored next. The
multipliers of a node decide further centres without a solve (reduced-cost fixing). Rounding α to a pattern, a
set of centres, gives incumbents.

An integer solver does the same for program (3) of :mod:`formulations.l0`, with twice the columns, and rows
that link σ to α. Here a node is a change of bounds, and some dozens of pivots from its parent's basis. Nodes
take some dozens of microseconds, so the search is compiled (``native/l0_branch.c``, ``l0_open_nodes.c``);
Python starts it, checks the clock, and calls HiGHS if pivots fail.

Bounds after 30 s from the same start, C = 1, RBF kernel, ionosphere, with the best known score 65.12: the
relaxation 64.50; a master program of Benders cuts over σ 64.51; HiGHS on program (3) 64.69; a tree in Python
with HiGHS at the nodes 64.90. This search reaches 64.89 in 5 s.

Reference: Achterberg, Koch & Martin, Branching rules revisited (2005).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.l0_data import L0Data
from formulations.language.arguments import tolerance
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.base.progress import tell
from polyopt.native.library import Struct, kernel
from polyopt.sparse import node_program
from polyopt.sparse.node_program import (
    FREE,
    OFF,
    ON,
    PivotProgram,
    Problem,
    State,
    empty_state,
    pivot_program_of,
    problem_of,
    solve_by_highs,
)
from polyopt.sparse.pattern_lp import as_start, finished, trivial_intercept

if TYPE_CHECKING:
    Marks = NDArray[np.int8]
    Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Sizes of the search."""

    first_slots: int = 256  # slots for open nodes at the start
    work_per_call: float = 3e6  # approximate number of multiplications between two checks of the clock
    max_open_bytes: int = 1 << 28  # memory for open nodes; beyond it the search is depth first
    seconds_between_records: float = 0.2  # minimal time between two records of the history


DEFAULT = Options()

# Indices of Nodes.counts: nodes in the heap, on the stack, free slots, and the largest number in the heap.
HEAP, STACK, SPARE, MAX_HEAP = range(4)
# Indices of SearchState.counts: nodes expanded, nodes opened, the limit of nodes expanded, pivots, and the
# maximal number of decisions of a node; if that is not 0, each decision is a node of its own.
NODES, OPENED, MAX_NODES, STEPS, MAX_DEPTH = range(5)
# Indices of SearchState.last_node, the node expanded last: its number, the centre decided (-1 before), the
# indices in Workspace.states of its children with that centre off and on, and the number of children done.
NUMBER, CENTRE, OFF_STATE, ON_STATE, N_DONE = range(5)
# Indices of SearchState.values: the best score, its intercept, the least bound of closed nodes, the
# tolerance, and the bound at which the search ends.
BEST, BEST_B, CLOSED, TOL, GOAL = range(5)
# Indices of Workspace.states: a node, its two children, the best two so far, and one for patterns.
BASE, OFF_SIDE, ON_SIDE, BEST_OFF, BEST_ON, PATTERN = range(6)
# Exit codes of `explore`, which can be continued after PAUSED, NEED_SLOTS and PIVOTS_FAILED.
SOLVED, PAUSED, NODE_LIMIT, NEED_SLOTS, PIVOTS_FAILED = range(5)


class Nodes(Struct):
    """Open nodes in slots: decisions (fixed), bases (rows, cols, on), bounds; `spare` lists free slots."""

    signature: ClassVar[str] = (
        "fixed!: i1 (slots, p); rows!: i1 (slots, n); cols!: i1 (slots, p); on!: i1 (slots, p); "
        "bound!: f8 (slots); number!: i8 (slots); heap!: i8 (slots); stack!: i8 (slots); spare!: i8 (slots); "
        "counts!: i8 (c)"
    )


class SearchState(Struct):
    """State of a search between calls.

    a (p,): the best point.
    gain, n_gains (2, p): pseudo-costs: increases of the bound per unit that a centre moved off or on, and the
        number of such observations.
    tried: hashes of the patterns rounded to last.
    last_node, counts, values: see the indices above.
    """

    signature: ClassVar[str] = (
        "a!: f8 (p); gain!: f8 (s, p); n_gains!: f8 (s, p); tried!: i8 (hashes); last_node!: i8 (five); "
        "counts!: i8 (m); values!: f8 (seven)"
    )


class Workspace(Struct):
    """Work space.

    fixed, marks (p,): decisions of the current node, and the centres that are on.
    fractions (p,): coefficients of its point, divided by their caps.
    rates (2, p): lower and upper bounds on the rate of each centre.
    addresses: addresses of the six states.
    """

    signature: ClassVar[str] = (
        "fixed!: i1 (p); marks!: i1 (p); marked!: i1 (p); sigma!: i1 (p); before!: i1 (p); "
        "fractions!: f8 (p); worths!: f8 (p); point!: f8 (p); rates!: f8 (s, p); multipliers!: f8 (n); "
        "outputs!: f8 (n); addresses: i8 (six)"
    )
    states: list[State]


def empty_nodes(n: int, p: int, slots: int, max_heap: int) -> Nodes:
    """Allocate free slots; beyond `max_heap` nodes in the heap the search goes depth first."""
    return Nodes(
        np.zeros((slots, p), np.int8), np.zeros((slots, n), np.int8), np.zeros((slots, p), np.int8),
        np.zeros((slots, p), np.int8), np.zeros(slots), np.zeros(slots, np.int64), np.zeros(slots, np.int64),
        np.zeros(slots, np.int64), np.arange(slots)[::-1].copy(), np.array([0, 0, slots, max_heap]),
    )  # fmt: skip


def enlarged(nodes: Nodes, slots: int) -> Nodes:
    """Copy the nodes into more slots."""
    old = len(nodes.bound)
    new = empty_nodes(nodes.rows.shape[1], nodes.fixed.shape[1], slots, int(nodes.counts[MAX_HEAP]))
    for name in ("fixed", "rows", "cols", "on", "bound", "number", "heap", "stack"):
        getattr(new, name)[:old] = getattr(nodes, name)
    n_new, n_free = slots - old, int(nodes.counts[SPARE])
    new.spare[:n_free], new.spare[n_free : n_free + n_new] = nodes.spare[:n_free], np.arange(old, slots)
    new.counts[:] = nodes.counts
    new.counts[SPARE] += n_new
    return new


def new_search_state(p: int, best: float, tol: float, max_nodes: int) -> SearchState:
    """Return the state of a new search, with an incumbent of score `best`."""
    return SearchState(
        np.zeros(p), np.zeros((2, p)), np.zeros((2, p)), np.zeros(256, np.int64), np.zeros(5, np.int64),
        np.array([0, 0, max_nodes, 0, 0]), np.array([best, np.nan, np.inf, tol, np.inf]),
    )  # fmt: skip


def new_workspace(n: int, p: int) -> Workspace:
    """Allocate work space."""
    first = empty_state(n, p)
    states = [first, *(empty_state(n, p, first) for _ in range(PATTERN))]
    workspace = Workspace(
        *(np.zeros(p, np.int8) for _ in range(5)), *(np.zeros(p) for _ in range(3)), np.zeros((2, p)),
        np.zeros(n), np.zeros(n), np.array([state.address for state in states]),
    )  # fmt: skip
    workspace.states = states
    return workspace


# Return the slot of the next node, -1 if none is open.
next_node = kernel("l0_first_open", "nodes: Nodes", returns="i8")
# Remove a node, the first of the heap or any of the stack, and free its slot.
remove_node = kernel("l0_close", "nodes: Nodes; slot: i8")
# Return the proven lower bound on every score.
lower_bound = kernel("l0_proven", "nodes: Nodes; search: SearchState", returns="f8")

_SEARCH = "problem: Problem; program: PivotProgram; nodes: Nodes; search: SearchState; workspace: Workspace"

# Solve a node's program from the first state of the workspace, and open the node; return 1 if it was solved,
# else 0. The state then has the multipliers. If all centres are decided, the point is tried as incumbent.
solve_root = kernel("l0_plant", f"{_SEARCH}; decided!: i1 (p)", returns="i8")

# Open a node whose program was solved elsewhere, or not at all. State number `index` of the workspace has a
# basis to start from, multipliers, a and b; `bound` is a known lower bound of the node.
adopt = kernel("l0_adopt", f"{_SEARCH}; decided!: i1 (p); index: i8; bound: f8; is_solved: i8")

# Expand nodes until none is open, a limit is reached, or `steps` pivots are made; the current node is
# always completed. Returns SOLVED, PAUSED, NODE_LIMIT, NEED_SLOTS, or PIVOTS_FAILED in the first open node,
# whose progress is in ``search_state.last_node``.
explore = kernel("l0_grow", f"{_SEARCH}; steps: i8", returns="i8")


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
    search = L0Tree(data, tolerance(tol), Clock(time_limit), max_nodes, options)
    if start is not None:
        search.offer(*as_start(data, start))
    return search.solution(search.run())


class L0Tree:
    """A search.

    alpha (p,), b, best: the incumbent, and its score.
    bound: proven lower bound on the optimum.
    root (n,): the relaxation's multipliers; zeros before it is solved.
    """

    def __init__(
        self, data: L0Data, tol: float, clock: Clock, max_nodes: int | None = None, options: Options = DEFAULT
    ):
        n, p = data.K.shape
        self.data, self.tol, self.clock = data, tol, clock
        self.alpha, self.b = np.zeros(p), trivial_intercept(data)
        self.best, self.bound = data.score(self.alpha, self.b), 0.0
        self.history: list[dict[str, float]] = []
        self.root, self.problem = np.zeros(n), problem_of(data)
        self.program, self.workspace = pivot_program_of(self.problem), new_workspace(n, p)
        max_heap = options.max_open_bytes // (64 + n + 3 * p)
        self._max_slots = max_heap + p + 4  # with those of a depth-first descent
        self.nodes = empty_nodes(n, p, min(options.first_slots, self._max_slots), max_heap)
        max_nodes = np.iinfo(np.int64).max if max_nodes is None else max_nodes
        self.search_state = new_search_state(p, self.best, tol, max_nodes)
        self._steps = max(int(options.work_per_call / (n * p + 100)), 1)
        self._has_root = False
        self._seconds_between_records = options.seconds_between_records

    def offer(self, alpha: Vector, b: float) -> None:
        """Make a point the incumbent if it is better."""
        score = self.data.score(alpha, b)
        if score < self.best:
            self.alpha, self.b, self.best = alpha, b, score
            self.search_state.values[BEST] = score

    def run(self, max_steps: float = np.inf, clock: Clock | None = None) -> Status:
        """Search until the gap is closed or a limit is reached; STALLED after so many pivots or `clock`."""
        try:
            if not self._has_root and not self.solve_root():
                return Status.TIME_LIMIT if self.clock.is_over else Status.FAILED
            while True:
                self._read()
                if self.clock.is_over:
                    return Status.TIME_LIMIT
                left = max_steps - int(self.search_state.counts[STEPS])
                if left <= 0 or (clock is not None and clock.is_over):
                    return Status.STALLED
                exit_code = self.advance(int(min(self._steps, left)))
                if exit_code in (SOLVED, NODE_LIMIT):
                    self._read()
                    return Status.SOLVED if exit_code == SOLVED else Status.ITERATION_LIMIT
        except KeyboardInterrupt:
            return Status.INTERRUPTED

    def solve_root(self) -> bool:
        """Solve and open the root; return True if it was solved."""
        free = np.full(len(self.data.centres), FREE, dtype=np.int8)
        self._has_root = node_program.begin(self.program, self.workspace.states[BASE]) and bool(
            solve_root(*self._state, free)
        )
        if not self._has_root:
            self._has_root = self._adopt(free, BASE, 0.0)
            self._read()
        self.root = self.workspace.states[BASE].u.copy()
        return self._has_root

    def advance(self, steps: int) -> int:
        """Expand nodes for so many pivots, at least one node; return the exit code of ``explore``."""
        exit_code = int(explore(*self._state, steps))
        if exit_code == NEED_SLOTS:
            slots = min(2 * len(self.nodes.bound), self._max_slots)
            self.nodes = enlarged(self.nodes, slots)
        elif exit_code == PIVOTS_FAILED:
            self._expand_by_highs()
        return exit_code

    def solution(self, status: Status) -> Solution:
        """Return the solution of a search that ended with this status."""
        solve_time = self.clock.seconds
        return finished(
            self.data, (self.alpha, self.b), self.bound, status, tol=self.tol, left=self.clock.left,
            solver="branch and bound on the relaxation (simplex)",
            iterations=int(self.search_state.counts[NODES]), solve_time=solve_time,
            history=tuple(self.history),
        )  # fmt: skip

    @property
    def _state(self) -> tuple[Problem, PivotProgram, Nodes, SearchState, Workspace]:
        return self.problem, self.program, self.nodes, self.search_state, self.workspace

    def _expand_by_highs(self) -> None:
        """Solve and open the children of the next node by HiGHS, because its pivots failed."""
        slot, last_node = int(next_node(self.nodes)), self.search_state.last_node
        fixed, bound = self.nodes.fixed[slot].copy(), float(self.nodes.bound[slot])
        if last_node[CENTRE] < 0:
            _, a, _, _ = solve_by_highs(self.problem, fixed, self.clock.left)
            free = np.flatnonzero(fixed == FREE)
            last_node[CENTRE] = free[np.abs(a[free] - 0.5).argmin()]
            last_node[OFF_STATE], last_node[ON_STATE] = OFF_SIDE, ON_SIDE
            self.search_state.counts[NODES] += 1
        for mark, index in ((OFF, OFF_STATE), (ON, ON_STATE))[last_node[N_DONE] :]:
            child = fixed.copy()
            child[last_node[CENTRE]] = mark
            self._adopt(child, int(last_node[index]), bound)
        remove_node(self.nodes, slot)  # last, so that Ctrl-C does not lose the node

    def _adopt(self, fixed: "Marks", index: int, bound: float) -> bool:
        """Solve a node by HiGHS, and open it with the constant classifier's basis; True if it was solved."""
        is_solved, a, b, u = solve_by_highs(self.problem, fixed, self.clock.left)
        state = self.workspace.states[index]
        node_program.begin(self.program, state)
        state.u[:], state.a[:], state.b_and_value[0] = u, a * self.program.full_cap, b
        adopt(*self._state, fixed, index, bound, is_solved)
        return is_solved

    def _read(self) -> None:
        """Read incumbent and bound of the compiled search; add a record to the history if it is time."""
        values = self.search_state.values
        if values[BEST] < self.best:
            self.offer(self.data.C * self.search_state.a, float(values[BEST_B]))
        self.bound = max(self.bound, float(lower_bound(self.nodes, self.search_state)))
        now = self.clock.seconds
        if self.history and now <= self.history[-1]["seconds"] + self._seconds_between_records:
            return
        expanded, opened = self.search_state.counts[NODES], self.nodes.counts[:SPARE].sum()
        record = {"seconds": now, "objective": self.best, "bound": self.bound}
        self.history.append({**record, "nodes": float(expanded), "open": float(opened)})
        tell(self.history[-1])
