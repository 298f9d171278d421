"""The Convex Polytope Machine over all assignments by a mixed-integer program in SCIP, for small data.

With loss="max" a negative has the loss of its worst face only, and with margin="worst" the largest norm of a
face is penalised: the objective is not a sum over faces, so the bounds of
:mod:`polyopt.cpm.global_search.search` do not apply. SCIP solves the explicit program of
:mod:`formulations.cpm` instead. Its bound is not proven independently.

Alternating minimisation from random starts comes first: its cost is an upper bound, which makes the big-M
constants small. It also refines SCIP's faces, which are feasible to 1e-8 only.
"""

from typing import Any

import numpy as np

from formulations.cpm import mixed_integer
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.solving import require_scip
from formulations.language.types import Matrix, Vector
from formulations.polytope import Loss, Margin, natural_assignment
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds

MAX_SAMPLES = 200
"""Maximal number of samples; SCIP leaves a large gap long before."""


def solve_cpm_explicitly(
    X: Matrix, y: Vector, C: Vector, n_faces: int, loss: Loss, margin: Margin, *, tol: float = 1e-6,
    time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Minimise the machine's objective over the faces and over all assignments, by SCIP.

    There are at most 200 samples in all, with the class -1 inside the polytope, and at least two faces,
    because one face is a convex program. ModuleNotFoundError if SCIP is not installed.

    Returns: ``primal`` W (K, m+1) and assignment (n,), -1 at the negatives; ``duals`` margin (n, K), and with
        margin="worst" norm (K,), of that assignment's program; ``bound`` that SCIP states, if any. The status
        is ``SOLVED`` if the relative gap is within `tol`. A limit or Ctrl-C keeps the best point.
    """
    if len(y) > MAX_SAMPLES:
        raise ValueError(
            f"loss={loss!r} with margin={margin!r} is solved over all assignments for up to {MAX_SAMPLES} "
            f"samples, not {len(y)}: use alternating minimisation from many starts (solver='exact'), or "
            "loss='sum' with margin='total'"
        )
    require_scip()
    clock = Clock(time_limit)
    problem = PolytopeProblem(X, y, C, n_faces, loss, margin)
    best = run_from_many_starts(
        [Stage(problem)], n_init=20, time_limit=clock.part(0.2).left, seed=seed, n_jobs=1
    )
    if best.status is Status.INTERRUPTED:
        return _solution(best, None, best.status, tol, y, clock)
    upper_bound = best.objective * (1.0 + 1e-6) if np.isfinite(best.objective) else None
    program = mixed_integer(X, y, n_faces, C, upper_bound, loss, margin)
    options: dict[str, Any] = {"limits/gap": tol}
    try:
        solution = program.solve("SCIP", time_limit=clock.left, **options)
    except KeyboardInterrupt:  # before SCIP had a point
        return _solution(best, None, interrupted(), tol, y, clock)
    if solution.primal:
        assignment = natural_assignment(X, y, solution["W"])
        assignment[y > 0] = solution["z"].argmax(axis=1)
        refined = run_rounds(problem, assignment, time_limit=clock.left)
        if refined.objective < best.objective:
            best = refined
    return _solution(best, solution, solution.status, tol, y, clock)


def _solution(
    best: Solution, by_scip: Solution | None, status: Status, tol: float, y: Vector, clock: Clock
) -> Solution:
    """Return the best point with SCIP's bound, and the status that follows from both."""
    bound, value = None if by_scip is None else by_scip.bound, best.objective
    if bound is not None:
        bound = min(bound, value)
    is_closed = bound is not None and value - bound <= tol * abs(value)
    if is_closed:
        status = Status.SOLVED
    elif status is Status.SOLVED:
        status = Status.INACCURATE
    return Solution(
        status=status, objective=value, bound=bound, solver="scip" if by_scip is None else by_scip.solver,
        primal={"W": best["W"], "assignment": np.where(y > 0, best["assignment"], -1)}, duals=best.duals,
        iterations=0 if by_scip is None else by_scip.iterations, solve_time=clock.seconds,
        history=best.history,
    )  # fmt: skip
