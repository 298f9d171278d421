"""The L0 machine's global optimum, by branch and bound or by an integer solver, and the tree of its claim.

:func:`solve_globally` uses the tree of :mod:`polyopt.sparse.tree`. :func:`solve_integer_program` uses an
integer solver, whose bound cannot be checked; afterwards a small tree tries to prove the optimum or to find a
better point. :func:`prove_by_leaves` builds the tree for the file of a claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

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
from polyopt.optim.best_first import OpenNode
from polyopt.optim.starts import TIE
from polyopt.sparse import tree
from polyopt.sparse.node_program import OFF, ON, Marks, bound_of
from polyopt.sparse.one_norm import solve_relaxation
from polyopt.sparse.pattern_lp import finished
from polyopt.sparse.tree import CENTRE, EXPANDED, L0Tree, Node


@dataclass(frozen=True)
class Options:
    """Sizes of the trees."""

    tree_gap: float = 5e-7  # relative gap: half of a certificate's 1e-6; the other half is for rounding
    first_pivots: float = 1e5  # pivots before the cross-entropy method; on 20 to 150 samples as dear as it
    first_time: float = 0.15  # fraction of the time limit for the first pivots
    search_time: float = 0.9  # fraction of the remaining time that the cross-entropy method may take
    exact_gap: float = 1e-9  # relative gap of an integer program solved from scratch, and its tolerance
    pruned_gap: float = 1e-6  # relative gap of its pruned point up to which that is still optimal
    check_nodes: int = 500  # nodes of the tree that checks an integer solver
    claim_nodes: int = 5000  # nodes of a claim's tree
    claim_depth: int = 200  # depth of a claim's tree, which every reader of JSON accepts
    claim_bits: int = 40  # bits of a claim's multiplier, relative to the largest upper bound


DEFAULT = Options()


def solve_globally(
    data: L0Data, search: Callable[[float | None], Solution], clock: Clock, *,
    known: tuple[Vector, float] | None = None, options: Options = DEFAULT,
) -> tuple[Solution, float | None]:  # fmt: skip
    """Solve by branch and bound; if that takes long, call the cross-entropy method for a good incumbent.

    A small problem is often solved in less time than the cross-entropy method takes. So the tree comes first,
    for a number of pivots; if it is not finished, it continues with the better of both incumbents.

    search: the cross-entropy method, a function of its time limit in seconds or None.
    known: a point (alpha, b); the result is at least as good.
    Returns: the solution, and the lower bound on every score that the tree proves.
    """
    tree = L0Tree(data, options.tree_gap, Clock(clock.left))
    if known is not None:
        tree.offer(*known)
    tree.max_pivots = options.first_pivots
    status = tree.run(clock.part(options.first_time))
    relaxation, relaxation_bound = tree.relaxation, 0.0
    if status not in (Status.SOLVED, Status.INTERRUPTED):
        start = search(clock.part(options.search_time).left)
        tree.offer(start["alpha"], float(start["b"]))
        relaxation, relaxation_bound = start["relaxation"], float(start.bound or 0.0)
        tree.max_pivots = np.inf
        status = Status.INTERRUPTED if start.status is Status.INTERRUPTED else tree.run(tree.clock)
    solution = tree.solution(status)
    bound = min(max(float(solution.bound or 0.0), relaxation_bound), solution.objective)
    return replace(solution, duals={**solution.duals, "relaxation": relaxation}, bound=bound), bound


def solve_integer_program(
    data: L0Data, clock: Clock, start: Solution | None = None, *,
    known: tuple[Vector, float] | None = None, options: Options = DEFAULT,
) -> tuple[Solution, float | None]:  # fmt: skip
    """Solve the program of :mod:`formulations.l0` by an integer solver; a small tree then checks its point.

    start: a point of the program, with the relaxation's multipliers and bound; HiGHS begins from it. Without
        a start the preferred solver is used, and the relaxation is solved.
    known: a point (alpha, b); the result is at least as good.
    Returns: the best of all points, with the larger of the solver's bound and the relaxation's; and the bound
        on every score that the tree proves, None if there was no time for it.
    """
    from formulations import l0

    program = l0.mixed_integer(data.K, data.y, data.C, data.weights, data.centres)
    history: list[dict[str, float]] = []

    def record(point: Solution) -> None:
        bound = float(point.bound or 0.0)
        history.append({"seconds": clock.seconds, "objective": point.objective, "bound": bound})

    if start is None:
        result = program.solve(time_limit=clock.left, mip_rel_gap=options.exact_gap)
        relaxation = solve_relaxation(data, time_limit=clock.left)
        bound, multipliers = relaxation.bound, relaxation["margin"]
    else:
        record(start)
        tell(history[-1])
        result, point = start, {name: start[name] for name in program.variables}
        if start.status is not Status.INTERRUPTED:
            result = program.solve(
                "HIGHS", time_limit=clock.left, start=point, mip_rel_gap=options.tree_gap,
                mip_feasibility_tolerance=options.exact_gap,
            )  # fmt: skip
        bound, multipliers = start.bound, start["relaxation"]
    tree = L0Tree(data, options.tree_gap, Clock(clock.left))
    if known is not None:
        tree.offer(*known)
    for solution in (result, start):
        if solution is not None and solution.primal:
            tree.offer(solution["alpha"], float(solution["b"]))
    status, score, proven = result.status, tree.objective, None
    bound, solver = max(float(result.bound or 0.0), float(bound or 0.0)), result.solver
    if not (clock.is_over or status is Status.INTERRUPTED):
        tree_status, proven = tree.run(tree.clock, options.check_nodes), tree.bound
        if tree.objective < score * (1.0 - TIE):
            status = Status.SOLVED if tree_status is Status.SOLVED else Status.CONVERGED
            bound, solver = proven, f"{solver}; then a better point by branch and bound"
    pruned = finished(
        data, (tree.alpha, tree.b), bound, status, tol=options.pruned_gap, left=clock.left,
        solver=solver, iterations=result.iterations, build_time=result.build_time,
        solve_time=result.solve_time,
    )  # fmt: skip
    record(pruned)
    duals = {**pruned.duals, "relaxation": multipliers}
    return replace(pruned, duals=duals, history=tuple(history)), proven


def evidence_of(
    data: L0Data, X: Matrix, kernel: Kernel, alpha: Vector, b: float, u: Vector, goal: float
) -> Evidence:
    """Return the evidence, a tree, that no score is below `goal`, or below a smaller bound if nodes run out.

    alpha, b, u are the point, and the multipliers of its pattern; the goal may be an integer solver's bound.
    """
    alpha = np.where(data.support(alpha), np.clip(alpha, 0.0, data.C), 0.0)
    point = X, data.y, data.C, data.weights, kernel, alpha, b

    def state() -> Statement:
        return state_l0(*point, *prove_by_leaves(data, (alpha, b), goal, DEFAULT.claim_nodes))

    return Evidence(cache(state), fixed=partial(state_pattern, *point, u))


def prove_by_leaves(
    data: L0Data, point: tuple[Vector, float], goal: float, max_nodes: int
) -> tuple[dict[str, Any], float]:
    """Return a tree in the file's format, and the bound of its leaves on every score.

    The search is that of :mod:`polyopt.sparse.tree` from a good point (alpha, b), but every decision about a
    centre is a node: there are two or three times as many nodes, and the tree is simple to check. Multipliers
    are rounded to a grid, exactly balanced (Σ y_i u_i = 0), before they are evaluated. The bound is below
    `goal` if that is above the optimum, or `max_nodes` nodes that branch do not suffice.
    """
    tree = _ClaimTree(data)
    tree.offer(*point)
    tree.goal = goal
    if tree.run(tree.clock, max_nodes) is Status.INTERRUPTED:
        raise KeyboardInterrupt
    return tree.nodes_seen[0].entry, min(node.bound for node in tree.nodes_seen if "ways" not in node.entry)


class _Seen(NamedTuple):
    """A node in the file's format."""

    entry: dict[str, Any]
    u: NDArray[np.int64]  # (n,) multipliers in units of the grid
    bound: float  # that these prove


class _ClaimTree(L0Tree):
    """A search that records all of its nodes."""

    decides_further = False

    def __init__(self, data: L0Data):
        super().__init__(data, 0.0, Clock(None), tree.Options(nodes_per_call=1))
        self.y = data.y.astype(np.int64)
        self.unit = 2.0 ** float(np.frexp(self.problem.caps.max())[1] - DEFAULT.claim_bits)  # of the grid
        self.nodes_seen: list[_Seen] = []

    def solve_root(self, fixed: Marks) -> bool:
        """Solve, open and record the root."""
        is_solved = super().solve_root(fixed)
        described = self._describe(None, -1, fixed, self.relaxation)
        self.heap = [node._replace(state=node.state._replace(description=described)) for node in self.heap]
        return is_solved

    def expand(self, node: OpenNode[Node]) -> Iterator[tuple[float, Node]]:
        """Decide one more centre off and on; record both children."""
        opened = list(super().expand(node))
        if not self.search.counts[EXPANDED]:  # the pivots failed: the node itself is open, or closed
            yield from ((bound, same._replace(description=node.state.description)) for bound, same in opened)
            return
        j, p = int(self.search.counts[CENTRE]), len(self.alpha)
        described = []
        for mark, u in zip((OFF, ON), self.search.multipliers, strict=True):
            fixed = node.state.marks[:p].copy()
            fixed[j] = mark
            described.append(self._describe(node.state.description, j, fixed, u))
        for bound, child in opened:
            if np.count_nonzero(child.marks[:p]) < DEFAULT.claim_depth:
                yield bound, child._replace(description=described[int(child.marks[j] == ON)])
            else:
                self.close(bound)

    def _describe(self, parent: _Seen | None, j: int, fixed: Marks, u: Vector) -> _Seen:
        """Record a child, with the multipliers of the larger bound: its own or those of `parent`."""
        units, entry = self._on_grid(u), dict[str, Any]()
        bound = bound_of(self.problem, fixed, units * self.unit)
        if parent is None:
            entry["rows"] = {"margin": [self._changes(units, np.zeros_like(units))]}
        else:
            parent.entry["weight"] = j
            entry = parent.entry.setdefault("ways", [{}, {}])[int(fixed[j] == ON)]
            parent_bound = bound_of(self.problem, fixed, parent.u * self.unit)
            if bound > parent_bound:
                entry["rows"] = {"margin": [self._changes(units, parent.u)]}
            else:  # multipliers that the entry does not have are its parent's
                units, bound = parent.u, parent_bound
        self.nodes_seen.append(_Seen(entry, units, bound))
        return self.nodes_seen[-1]

    def _on_grid(self, u: Vector) -> NDArray[np.int64]:
        """Round multipliers down to integer units within their bounds, with Σ y_i u_i = 0."""
        y, caps = self.y, np.floor(self.problem.caps / self.unit).astype(np.int64)
        units = np.clip(np.floor(u / self.unit).astype(np.int64), 0, caps)
        imbalance = int((y * units).sum())
        larger = np.flatnonzero((y == np.sign(imbalance)) & (units > 0))  # of the class with the larger sum
        # Reduce multipliers between their bounds first: this lowers the dual value least.
        order = larger[np.lexsort((-units[larger], units[larger] == caps[larger]))]
        reduction = np.minimum(np.cumsum(units[order]), abs(imbalance))
        units[order] -= np.diff(reduction, prepend=0)
        return units

    def _changes(self, u: NDArray[np.int64], parent_u: NDArray[np.int64]) -> dict[str, Any]:
        """Return the multipliers that differ from the parent's, of the root from 0, in the file's format."""
        changed = np.flatnonzero(u != parent_u)
        return {"at": changed.tolist(), "is": [numeral(v) for v in (u[changed] * self.unit).tolist()]}
