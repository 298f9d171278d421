"""Alternating minimisation: solve for a fixed assignment, reassign, and again, from many starts.

The loop is written once; a problem supplies its three steps. Where reassigning never raises the
objective and a sample is moved only for a strict gain, the objective never rises and the loop ends,
as there are finitely many assignments; the point it ends at depends on the start.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from formulations.solution import Solution, Status
from polyopt.outer.starts import TIE, best_of
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Assignment = NDArray[np.int64]

__all__ = ["AlternatingProblem", "LooseningProblem", "alternate", "alternate_from_many_starts"]

_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT)


class AlternatingProblem(Protocol):
    """What the loop asks of a problem. An assignment is (n,) int, -1 where a sample needs none."""

    def start(self, rng: np.random.Generator) -> Assignment:
        """A random assignment to begin from."""

    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        """The optimum for an assignment, its objective evaluated from its point."""

    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """A better assignment for the point, or the same one."""


@runtime_checkable
class LooseningProblem(AlternatingProblem, Protocol):
    """A problem that can improve a start before the first round."""

    def loosen(self, assignment: Assignment, time_limit: float | None) -> Assignment:
        """A better assignment to begin from; the objective may rise on the way."""


def alternate(
    problem: AlternatingProblem,
    assignment: Assignment,
    *,
    max_iter: int = 100,
    time_limit: float | None = None,
) -> Solution:
    """Alternate from one assignment until nothing moves.

    Parameters
    ----------
    problem : AlternatingProblem
        The problem.
    assignment : ndarray of int, shape (n,)
        Where to begin.
    max_iter : int
        Rounds at most.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Solution
        The best round's point, with its ``assignment`` among the primal variables. ``history`` has
        one record per round. A limit, or Ctrl-C after the first round, keeps the best point.
    """
    clock = Clock(time_limit)
    best: Solution | None = None
    kept, status = assignment, Status.ITERATION_LIMIT
    history: list[dict[str, float]] = []
    try:
        for number in range(1, max_iter + 1):
            left = None if time_limit is None else max(time_limit - clock.seconds, 0.0)
            point = problem.solve(assignment, left)
            least = np.inf if best is None else best.objective
            # Each round lowers the objective, but for what the solver is off by: then the run is over.
            stalled = best is not None and point.objective >= least - TIE * abs(least)
            if best is None or point.objective <= least + TIE * abs(least):
                best, kept = point, assignment
            following = problem.reassign(point, assignment)
            moved = int((following != assignment).sum())
            history.append(
                {
                    "round": float(number),
                    "seconds": clock.seconds,
                    "objective": point.objective,
                    "reassigned": float(moved),
                    "occupied": float(len(np.unique(assignment[assignment >= 0]))),
                }
            )
            if point.status in _LIMITS:
                status = point.status
                break
            if moved == 0 or stalled:
                status = Status.CONVERGED if point.status is Status.OPTIMAL else point.status
                break
            if clock.is_over:
                status = Status.TIME_LIMIT
                break
            assignment = following
    except KeyboardInterrupt:
        if best is None:
            raise
        status = Status.INTERRUPTED
    assert best is not None
    return replace(
        best,
        status=status,
        primal={**best.primal, "assignment": kept},
        iterations=len(history),
        solve_time=clock.seconds,
        history=tuple(history),
    )


def alternate_from_many_starts(
    problem: AlternatingProblem,
    *,
    n_init: int = 20,
    max_iter: int = 100,
    time_limit: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Solution:
    """Alternate from several random starts, loosened where the problem can, and keep the best end.

    Parameters
    ----------
    problem : AlternatingProblem
        The problem.
    n_init : int
        Number of starts.
    max_iter : int
        Rounds at most, per start.
    time_limit : float, optional
        Seconds, for all starts together. The first round of the first start is always made.
    seed : int
        Of the starts.
    n_jobs : int, optional
        Starts run at once, as joblib counts.

    Returns
    -------
    Solution
        The best of the runs, as :func:`polyopt.outer.starts.best_of` keeps it; ``runs`` has them all.
    """
    rng = np.random.default_rng(seed)
    starts = [problem.start(rng) for _ in range(n_init)]

    def run(number: int, time_left: float | None) -> Solution:
        clock, begin = Clock(time_left), starts[number]
        if isinstance(problem, LooseningProblem):
            begin = problem.loosen(begin, time_left)
        left = None if time_left is None else max(time_left - clock.seconds, 0.0)
        return alternate(problem, begin, max_iter=max_iter, time_limit=left)

    return best_of(run, n_init, time_limit=time_limit, n_jobs=n_jobs)
