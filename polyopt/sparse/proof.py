"""Proof of the L0 machine's optimum: by an integer solver, or by branch and bound of our own.

The bound of an integer solver cannot be checked, so a small tree of our own looks for a proof, or for a
better point. For the file of a claim a tree is kept whose leaves prove the bound (:func:`prove_by_leaves`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.l0_data import L0Data
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Matrix, Vector
from polyopt.base.progress import tell
from polyopt.certificates.claims.statement import Evidence, Statement, numeral
from polyopt.linalg.kernels import Kernel
from polyopt.margin.claim import state_l0, state_pattern
from polyopt.optim.starts import TIE
from polyopt.sparse import tree
from polyopt.sparse.node_program import FREE, OFF, ON, bound_of
from polyopt.sparse.one_norm import solve_relaxation
from polyopt.sparse.point import as_start, finished, idle
from polyopt.sparse.tree import L0Tree, solve_l0_tree

if TYPE_CHECKING:
    Marks = NDArray[np.int8]
    Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Options:
    """Numbers of the proofs.

    tree_gap: relative gap of a tree: half of a certificate's 1e-6, which leaves the other half to rounding.
    first_steps, first_time: pivots of a tree before the cross-entropy method is asked for a point, and their
        share of a time limit: on 20 to 150 samples about as long as that method takes.
    check_nodes: nodes of a tree that checks an integer solver.
    claim_nodes, claim_depth, claim_bits: of the tree of a claim: nodes, decisions one under the other, which
        every reader of JSON accepts, and bits of a multiplier relative to the largest cap.
    """

    tree_gap: float = 5e-7
    first_steps: int = 100_000
    first_time: float = 0.15
    check_nodes: int = 500
    claim_nodes: int = 5000
    claim_depth: int = 200
    claim_bits: int = 40


DEFAULT = Options()


def solve_globally(
    data: L0Data,
    search: Callable[[float | None], Solution],
    clock: Clock,
    *,
    share: float = 0.9,
    known: tuple[NDArray[np.float64], float] | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
    options: Options = DEFAULT,
) -> tuple[Solution, float | None]:
    """Prove the optimum by branch and bound; if that takes long, first look for a good point.

    A small problem is often solved in less time than the search for a point takes. So the tree comes first,
    for a number of pivots; if it is still open, it goes on from the better of its point and the search's.

    search: returns the solution of the cross-entropy method, given its seconds, None for no limit.
    share: share of the remaining time that the search may take.
    known: a point (alpha, b) that the answer is to be no worse than.
    Returns: the solution, and the bound of every score that the tree proves.
    """
    ours = L0Tree(data, options.tree_gap, Clock(clock.left), None, progress)
    if known is not None:
        ours.offer(*as_start(data, known))
    ours.pause(options.first_steps, None if clock.left is None else options.first_time * clock.left)
    status, relaxation, below = ours.run(), ours.root, 0.0
    if status not in (Status.SOLVED, Status.INTERRUPTED):
        start = search(None if clock.left is None else share * clock.left)
        ours.offer(*as_start(data, (start["alpha"], float(start["b"]))))
        relaxation, below = start["relaxation"], float(start.bound or 0.0)
        ours.pause(np.inf, None)
        status = Status.INTERRUPTED if start.status is Status.INTERRUPTED else ours.run()
    found = ours.solution(status)
    bound = min(max(float(found.bound or 0.0), below), found.objective)
    return replace(found, duals={**found.duals, "relaxation": relaxation}, bound=bound), bound


def solve_integer_program(
    data: L0Data, clock: Clock, start: Solution | None = None, options: Options = DEFAULT
) -> tuple[Solution, float | None]:
    """Solve the program of :mod:`formulations.l0` by an integer solver, then the program of its pattern.

    start: a point of the program, with the relaxation's multipliers and bound; HiGHS begins from it. Without
        a start the preferred solver is taken, and the relaxation is solved.
    Returns: the better of the solver's point and `start`, with the larger of the solver's bound and the
        relaxation's, and the bound of every score that a small tree proves; None if there was no time for it.
    """
    from formulations import l0

    program = l0.mixed_integer(data.K, data.y, data.C, data.weights, data.centres)
    history: list[dict[str, float]] = []

    def record(point: Solution) -> None:
        bound = float(point.bound or 0.0)
        history.append({"seconds": clock.seconds, "objective": point.objective, "bound": bound})
        tell(history[-1])

    if start is None:
        found = program.solve(time_limit=clock.left, mip_rel_gap=1e-9)
        relaxation = solve_relaxation(data, time_limit=clock.left)
        bound, multipliers = relaxation.bound, relaxation["margin"]
    else:
        record(start)
        point = {name: start[name] for name in program.variables}
        found = program.solve(
            "HIGHS", time_limit=clock.left, start=point, mip_rel_gap=options.tree_gap,
            mip_feasibility_tolerance=1e-9,
        )  # fmt: skip
        bound, multipliers = start.bound, start["relaxation"]
    points = [(np.zeros(len(data.centres)), idle(data))]
    for solution in (found, start):
        if solution is not None and solution.primal:
            points.append(as_start(data, (solution["alpha"], float(solution["b"]))))
    pruned = finished(
        data, min(points, key=lambda point: data.score(*point)),
        max(float(found.bound or 0.0), float(bound or 0.0)), found.status, tol=1e-6, left=clock.left,
        solver=found.solver, iterations=found.iterations, build_time=found.build_time,
        solve_time=found.solve_time,
    )  # fmt: skip
    record(pruned)
    whole = replace(pruned, duals={**pruned.duals, "relaxation": multipliers}, history=tuple(history))
    return _checked(data, whole, clock, options)


def better_of(data: L0Data, found: Solution, point: tuple[NDArray[np.float64], float]) -> Solution:
    """The solution, with the other point (alpha, b) if that has a lower score."""
    alpha, b = as_start(data, point)
    if data.score(alpha, b) >= found.objective * (1.0 - TIE):
        return found
    better = finished(
        data, (alpha, b), float(found.bound or 0.0), found.status, tol=TIE, solver=found.solver,
        iterations=found.iterations, build_time=found.build_time, solve_time=found.solve_time,
        history=found.history,
    )  # fmt: skip
    return replace(better, duals={**found.duals, **better.duals})


def _checked(data: L0Data, found: Solution, clock: Clock, options: Options) -> tuple[Solution, float | None]:
    """An integer solver's answer, after a small tree has looked for a proof, or for a better point."""
    if clock.is_over or found.status is Status.INTERRUPTED:
        return found, None
    ours = solve_l0_tree(
        data, start=(found["alpha"], float(found["b"])), time_limit=clock.left, tol=options.tree_gap,
        max_nodes=options.check_nodes,
    )  # fmt: skip
    if ours.objective >= found.objective * (1.0 - TIE):
        return found, ours.bound
    better = replace(
        found,
        status=Status.CONVERGED if ours.status is not Status.SOLVED else ours.status,
        primal=ours.primal,
        duals={**found.duals, **ours.duals},
        objective=ours.objective,
        bound=ours.bound,
        solver=f"{found.solver}; then a better point by {ours.solver}",
    )
    return better, ours.bound


def evidence_of(
    data: L0Data, X: Matrix, kernel: Kernel, alpha: NDArray[np.float64], b: float,
    u: NDArray[np.float64], goal: float,
) -> Evidence:  # fmt: skip
    """The statement that no score is below `goal`, or less if the nodes do not suffice, by a tree's leaves.

    alpha, b, u are the point, and the multipliers of its pattern; an integer solver may have stated the goal.
    """
    alpha = np.where(data.support(alpha), np.clip(alpha, 0.0, data.C), 0.0)
    pattern = partial(state_pattern, X, data.y, data.C, data.weights, kernel, alpha, b, u)
    return Evidence(cache(partial(_state, data, X, kernel, alpha, b, goal)), fixed=pattern)


def _state(
    data: L0Data, X: Matrix, kernel: Kernel, alpha: NDArray[np.float64], b: float, goal: float
) -> Statement:
    grown, bound = prove_by_leaves(data, (alpha, b), goal, DEFAULT.claim_nodes)
    return state_l0(X, data.y, data.C, data.weights, kernel, alpha, b, grown, bound)


class _Kept(NamedTuple):
    """An open node: its part of the file, decisions, multipliers in units, and bound."""

    entry: dict[str, Any]
    fixed: Marks
    u: Whole
    bound: float


def prove_by_leaves(
    data: L0Data, point: tuple[Vector, float], goal: float, max_nodes: int
) -> tuple[dict[str, Any], float]:
    """A tree in the form of the file, and the bound of its leaves on every score.

    It is the search of :mod:`polyopt.sparse.tree` from a good point (alpha, b), except that every decision is
    a node: two or three times as many, of a tree that is simple to check. Multipliers are rounded to a grid,
    in balance exactly, before they are evaluated. The bound is below `goal` if that is above the optimum, or
    `max_nodes` nodes that branch do not suffice.
    """
    grown = _ClaimTree(data, point, goal, max_nodes)
    return grown.root, grown.grow()


class _ClaimTree:
    """A search that keeps all of its nodes."""

    def __init__(self, data: L0Data, point: tuple[Vector, float], goal: float, max_nodes: int):
        self._search = L0Tree(data, 0.0, Clock(None), max_nodes)
        self._search.offer(*point)
        self._search.memory.values[tree.GOAL] = goal
        self._search.memory.counts[tree.MAX_DEPTH] = DEFAULT.claim_depth
        self.problem, self.y = self._search.problem, data.y.astype(np.int64)
        self.unit = 2.0 ** float(np.frexp(self.problem.caps.max())[1] - DEFAULT.claim_bits)
        self.root: dict[str, Any] = {}
        self._open: dict[int, _Kept] = {}  # nodes by their numbers in the search
        self._closed = np.inf  # the least bound of the other leaves

    def grow(self) -> float:
        """Branch until all leaves prove the goal, or as much as they can."""
        search, ended = self._search, tree.PAUSED
        search.solve_root()
        free = np.full(len(self.problem.sizes), FREE, dtype=np.int8)
        self._keep(self.root, free, search.root, None, self._opened(0))
        while ended not in (tree.SOLVED, tree.NODE_LIMIT):
            looked, made = search.memory.counts[[tree.NODES, tree.MADE]]
            ended = search.advance(1)
            if search.memory.counts[tree.NODES] > looked:
                self._split(int(made))
        return float(min([self._closed, *(kept.bound for kept in self._open.values())]))

    def _opened(self, made: int) -> list[tuple[Marks, int]]:
        """Decisions and numbers of the open nodes with larger numbers than `made`."""
        found = self._search.nodes
        slots = np.flatnonzero(found.number > made)
        return [(found.fixed[slot], int(found.number[slot])) for slot in slots]

    def _split(self, made: int) -> None:
        """Keep the children of the node expanded last; those that are open have numbers over `made`."""
        looked, opened = self._search.memory.looked, self._opened(made)
        kept, j = self._open.pop(int(looked[tree.NUMBER])), int(looked[tree.CENTRE])
        kept.entry["weight"], kept.entry["ways"] = j, [{}, {}]
        sides = (OFF, tree.OFF_PLACE), (ON, tree.ON_PLACE)
        for entry, (mark, place) in zip(kept.entry["ways"], sides, strict=True):
            fixed = kept.fixed.copy()
            fixed[j] = mark
            u = self._search.desk.states[int(looked[place])].u
            self._keep(entry, fixed, u, kept.u, [one for one in opened if one[0][j] == mark])

    def _keep(
        self, entry: dict[str, Any], fixed: Marks, u: Vector, above: Whole | None,
        opened: list[tuple[Marks, int]],
    ) -> None:  # fmt: skip
        """Note a node's multipliers, or its parent's if they prove more, and whether it is open."""
        own = self._on_grid(u)
        bound = bound_of(self.problem, fixed, own * self.unit)
        of_above = -np.inf if above is None else bound_of(self.problem, fixed, above * self.unit)
        if above is not None and of_above >= bound:
            own, bound = above, of_above
        else:
            entry["rows"] = {"margin": [self._changes(own, above)]}
        if opened:
            self._open[opened[0][1]] = _Kept(entry, fixed, own, bound)
        else:
            self._closed = min(self._closed, bound)

    def _on_grid(self, u: Vector) -> Whole:
        """Multipliers in whole units, within their caps and in balance."""
        y, caps = self.y, np.floor(self.problem.caps / self.unit).astype(np.int64)
        found = np.clip(np.floor(u / self.unit).astype(np.int64), 0, caps)
        off = int((y * found).sum())
        heavy = np.flatnonzero((y == np.sign(off)) & (found > 0))
        # Those between their bounds first, at the least cost.
        order = heavy[np.lexsort((-found[heavy], found[heavy] == caps[heavy]))]
        taken = np.minimum(np.cumsum(found[order]), abs(off))
        found[order] -= np.diff(taken, prepend=0)
        return found

    def _changes(self, u: Whole, above: Whole | None) -> dict[str, Any]:
        """The multipliers that differ from the parent's, in the form of the file."""
        at = np.flatnonzero(u if above is None else u != above)
        return {"at": at.tolist(), "is": [numeral(v) for v in (u[at] * self.unit).tolist()]}
