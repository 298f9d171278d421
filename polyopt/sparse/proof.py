"""Proof of the L0 machine's optimum: by an integer solver, or by branch and bound of our own.

What an integer solver states of the optimum cannot be checked, so a small tree of our own looks for the
proof, or for a better point.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from polyopt.certificates.claims.statement import Evidence
from polyopt.margin.claim import state_l0, state_pattern
from polyopt.optim.starts import TIE
from polyopt.sparse.integer_program import solve_l0_milp
from polyopt.sparse.one_norm import solve_relaxation
from polyopt.sparse.point import as_start, finished
from polyopt.sparse.tree.leaves import prove_by_leaves
from polyopt.sparse.tree.search import Search, solve_l0_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.l0_data import L0Data
    from formulations.language.types import Matrix
    from polyopt.certificates.claims.statement import Statement
    from polyopt.linalg.kernels import Kernel

    Proven = tuple[Solution, float | None]

__all__ = ["better_of", "evidence_of", "prove", "solve_explicitly", "solve_globally"]

# Relative gap of a tree: half of a certificate's 1e-6, which leaves the other half to rounding.
_TREE_GAP = 5e-7
# Steps that a tree makes without a point of the cross-entropy method, and the share of a time limit for them:
# on 20 to 150 samples about as long as that method takes.
_FIRST_STEPS, _FIRST_TIME = 100_000, 0.15


def prove(
    data: L0Data,
    start: Solution,
    clock: Clock,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> tuple[Solution, float | None]:
    """Solve the exact program from a point by the integer program in HiGHS.

    start: the point to begin from, with the relaxation's multipliers and bound.
    clock: when time is up, the best point is the answer.
    Returns solution: the best point; its bound is HiGHS's word.
    Returns searched: what a small tree proves of every score; None where there was no time for it.
    """
    found = solve_l0_milp(data, **_begun_at(start, clock), progress=progress)
    found = replace(
        found,
        duals={**found.duals, "relaxation": start["relaxation"]},
        bound=max(float(found.bound or 0.0), float(start.bound or 0.0)),
    )
    return _checked(data, found, clock)


def solve_globally(
    data: L0Data,
    search: Callable[[float | None], Solution],
    clock: Clock,
    *,
    share: float = 0.9,
    known: tuple[NDArray[np.float64], float] | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> tuple[Solution, float | None]:
    """Prove the optimum by branch and bound, and look for a good point where that takes long.

    A small problem is often solved in less time than the search for a point takes. The tree therefore goes
    first, for a number of steps; if it is open then the point of the search is asked for, and it goes on with
    whichever is better.

    search: given its seconds, or None for as many as it needs, the solution of the cross-entropy method.
    clock: when time is up, the best point is the answer.
    share: of the time left, that the search may take.
    known (p,): A point, alpha and b, that the answer is to be no worse than.
    Returns searched: what the tree proves of every score.
    """
    tree = Search(data, _TREE_GAP, Clock(clock.left), None, progress)
    if known is not None:
        tree.offer(*as_start(data, known))
    tree.pause(_FIRST_STEPS, None if clock.left is None else _FIRST_TIME * clock.left)
    status, relaxation, below = tree.run(), tree.root, 0.0
    if status not in (Status.SOLVED, Status.INTERRUPTED):
        start = search(None if clock.left is None else share * clock.left)
        tree.offer(*as_start(data, (start["alpha"], float(start["b"]))))
        relaxation, below = start["relaxation"], float(start.bound or 0.0)
        tree.pause(np.inf, None)
        status = Status.INTERRUPTED if start.status is Status.INTERRUPTED else tree.run()
    found = tree.solution(status)
    bound = min(max(float(found.bound or 0.0), below), found.objective)
    return replace(found, duals={**found.duals, "relaxation": relaxation}, bound=bound), bound


def solve_explicitly(data: L0Data, clock: Clock) -> tuple[Solution, float | None]:
    """Solve the program of :mod:`formulations.l0` as it stands, then that of its pattern."""
    from formulations import l0

    program = l0.mixed_integer(data.K, data.y, data.C, data.weights, data.centres)
    found = program.solve(time_limit=clock.left, mip_rel_gap=1e-9)
    relaxation = solve_relaxation(data, time_limit=clock.left)
    nothing = {"alpha": np.zeros(len(data.centres)), "b": np.zeros(())}
    point = found.primal or nothing
    pruned = finished(
        data,
        (np.clip(point["alpha"], 0.0, data.C), float(point["b"])),
        max(float(found.bound or 0.0), float(relaxation.bound or 0.0)),
        found.status,
        tol=1e-6,
        left=clock.left,
        solver=found.solver,
        iterations=found.iterations,
        build_time=found.build_time,
        solve_time=found.solve_time,
    )
    whole = replace(pruned, duals={**pruned.duals, "relaxation": relaxation["margin"]})
    return _checked(data, whole, clock)


def better_of(data: L0Data, found: Solution, point: tuple[NDArray[np.float64], float]) -> Solution:
    """The solution with the other point (alpha, b) in it, if that has a lower score."""
    alpha, b = as_start(data, point)
    if data.score(alpha, b) >= found.objective * (1.0 - TIE):
        return found
    better = finished(
        data, (alpha, b), float(found.bound or 0.0), found.status, tol=TIE, solver=found.solver,
        iterations=found.iterations, build_time=found.build_time, solve_time=found.solve_time,
        history=found.history,
    )  # fmt: skip
    return replace(better, duals={**found.duals, **better.duals})


def _begun_at(point: Solution, clock: Clock) -> dict[str, Any]:
    """The start, the time and the gap of a search over patterns that goes on from a point."""
    return {"start": (point["alpha"], float(point["b"])), "time_limit": clock.left, "tol": _TREE_GAP}


def _checked(data: L0Data, found: Solution, clock: Clock) -> Proven:
    """An integer solver's answer, once a small tree has looked for the proof, or for a better point."""
    if clock.is_over or found.status is Status.INTERRUPTED:
        return found, None
    ours = solve_l0_tree(data, **_begun_at(found, clock), max_nodes=500)
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
    """The statement that no score is less than some number, by the leaves of a tree begun at the point.

    alpha, b, u: the point, and the multipliers of its pattern.
    goal: what is to be proven, by so many nodes as there may be; an integer solver may have stated it.
    """
    alpha = np.where(data.support(alpha), np.clip(alpha, 0.0, data.C), 0.0)
    pattern = partial(state_pattern, X, data.y, data.C, data.weights, kernel, alpha, b, u)
    return Evidence(cache(partial(_state, data, X, kernel, alpha, b, goal)), fixed=pattern)


def _state(
    data: L0Data, X: Matrix, kernel: Kernel, alpha: NDArray[np.float64], b: float, goal: float
) -> Statement:
    tree, bound = prove_by_leaves(data, (alpha, b), goal, 5000)
    return state_l0(X, data.y, data.C, data.weights, kernel, alpha, b, tree, bound)
