"""The Convex Polytope Machine over all assignments by its mixed-integer program, for small data.

With loss="max" a negative pays for its worst face alone, and with margin="worst" all faces share a margin
budget: no face has a program of its own, and the bounds of :mod:`polyopt.cpm.global_search.search`, which are
sums over faces, do not apply. The explicit program (:mod:`formulations.cpm`) is solved by SCIP
instead. Its bound is the solver's word, not a proof.

Alternating minimisation from random starts comes first: the cost of its best point makes M small. It also
refines the faces that SCIP ends with, which are feasible to 1e-8 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.cpm import mixed_integer
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.solving import require_scip
from formulations.polytope import natural_assignment
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.optim.rounds import Stage, run_from_many_starts, run_rounds

if TYPE_CHECKING:
    from formulations.language.types import Matrix, Vector
    from formulations.polytope import Loss
    from polyopt.cpm.certificate import Margin

__all__ = ["MAX_SAMPLES", "solve_cpm_explicitly"]

MAX_SAMPLES = 200  # SCIP leaves a large gap long before


def solve_cpm_explicitly(
    X: Matrix,
    y: Vector,
    C: Vector,
    n_faces: int,
    loss: Loss,
    margin: Margin,
    *,
    tol: float = 1e-6,
    time_limit: float | None = None,
    seed: int = 0,
) -> Solution:
    """Minimise eq. (6) over the faces and over all assignments, by SCIP.

    X (n, m): samples, at most 200.
    y (n,): labels: -1 inside, +1 outside; both classes.
    C (n,): cost of slack, per sample.
    n_faces: K, at least 2: one face is a convex program.
    tol: relative gap between point and bound at which SCIP ends.
    time_limit: seconds.
    seed: of the random starts.
    Returns: ``primal`` W (K, m+1) and assignment (n,), -1 at the negatives; ``duals`` margin (n, K), and with
        margin="worst" norm (K,), of that assignment's program; ``bound``, the one that SCIP states, if any.
        ``SOLVED`` if the two are within `tol`. A limit or Ctrl-C keeps the best point.
    ModuleNotFoundError: SCIP is not installed.
    ValueError: more samples than that, or one class.
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
    upper = best.objective * (1.0 + 1e-6) if np.isfinite(best.objective) else None
    program = mixed_integer(X, y, n_faces, C, upper, loss, margin)
    options: dict[str, Any] = {"limits/gap": tol}
    try:
        found = program.solve("SCIP", time_limit=clock.left, **options)
    except KeyboardInterrupt:  # before SCIP had a point
        return _solution(best, None, interrupted(), tol, y, clock)
    if found.primal:
        assignment = natural_assignment(X, y, found["W"])
        assignment[y > 0] = found["z"].argmax(axis=1)
        refined = run_rounds(problem, assignment, time_limit=clock.left)
        if refined.objective < best.objective:
            best = refined
    return _solution(best, found, found.status, tol, y, clock)


def _solution(
    best: Solution, found: Solution | None, status: Status, tol: float, y: Vector, clock: Clock
) -> Solution:
    """The best point with SCIP's bound and status."""
    bound, value = None if found is None else found.bound, best.objective
    if bound is not None:
        bound = min(bound, value)
    is_closed = bound is not None and value - bound <= tol * abs(value)
    if is_closed:
        status = Status.SOLVED
    elif status is Status.SOLVED:
        status = Status.INACCURATE
    return Solution(
        status=status, objective=value, bound=bound, solver="scip" if found is None else found.solver,
        primal={"W": best["W"], "assignment": np.where(y > 0, best["assignment"], -1)}, duals=best.duals,
        iterations=0 if found is None else found.iterations, solve_time=clock.seconds, history=best.history,
    )  # fmt: skip
