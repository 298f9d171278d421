"""Descent over faces: one step of a method after the other, from many starts, keeping the best point.

The loop is written once, and the methods of the polyhedral family supply its steps: successive linear
programs (PC-SLP), one convex program for each cell (SPLA1, the exact Polyceptron), expectation and
maximisation (PLUME). Where a step cannot raise the objective, the loop descends; the step that SPLA1's
paper takes can, so the loop keeps the best point and is patient.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from formulations.solution import Solution, Status
from polyopt.outer.starts import TIE, best_of
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Faces = NDArray[np.float64]

__all__ = ["DescentProblem", "descend", "descend_from_many_starts"]

_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT)


class DescentProblem(Protocol):
    """What the loop asks of a problem; W (K, m+1) are faces, bias last."""

    def start(self, rng: np.random.Generator) -> Faces:
        """Random faces to begin from."""

    def value(self, W: Faces) -> float:
        """The objective at W, to be minimised."""

    def step(self, W: Faces, time_limit: float | None) -> Solution:
        """The next point: primal ``W``, multipliers where there are any, its objective by :meth:`value`.

        Its status is of the step: a limit in it ends the run.
        """

    def record(self, W: Faces) -> dict[str, float]:
        """What the history is to tell of W besides the objective, such as the faces in use."""


def descend(
    problem: DescentProblem,
    W: Faces,
    *,
    max_iter: int = 100,
    tol: float = TIE,
    patience: int = 1,
    time_limit: float | None = None,
) -> Solution:
    """Step from W until the objective no longer falls.

    Parameters
    ----------
    problem : DescentProblem
        The problem.
    W : ndarray of shape (K, m+1)
        Where to begin.
    max_iter : int
        Steps at most.
    tol : float
        A step that lowers the least objective by no more than this, relative, brings nothing.
    patience : int
        Steps in a row that may bring nothing before the run has settled.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    Solution
        The best point, the start among them. ``history`` has one record per step, the start being step 0.
        A limit, or Ctrl-C, keeps the best point.
    """
    clock = Clock(time_limit)
    value = problem.value(W)
    best = Solution(Status.CONVERGED, {"W": W}, {}, value, None, "start")
    status, waited = Status.ITERATION_LIMIT, 0
    history = [{"step": 0.0, "seconds": clock.seconds, "objective": value, **problem.record(W)}]
    try:
        for number in range(1, max_iter + 1):
            left = None if time_limit is None else max(time_limit - clock.seconds, 0.0)
            point = problem.step(W, left)
            W = point["W"]
            history.append(
                {
                    "step": float(number),
                    "seconds": clock.seconds,
                    "objective": point.objective,
                    **problem.record(W),
                }
            )
            waited = 0 if point.objective < best.objective - tol * abs(best.objective) else waited + 1
            # Of equal points the later: it has its multipliers, and belongs to its own cells.
            if point.objective <= best.objective + TIE * abs(best.objective):
                best = point
            if point.status in _LIMITS or clock.is_over:
                status = point.status if point.status in _LIMITS else Status.TIME_LIMIT
                break
            if waited >= patience or point.objective == 0.0:
                status = Status.CONVERGED if point.status is Status.OPTIMAL else point.status
                break
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return replace(
        best,
        status=status,
        iterations=len(history) - 1,
        solve_time=clock.seconds,
        history=tuple(history),
    )


def descend_from_many_starts(
    problem: DescentProblem,
    *,
    n_init: int = 10,
    max_iter: int = 100,
    tol: float = TIE,
    patience: int = 1,
    time_limit: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> Solution:
    """Descend from several random starts, and keep the best end.

    Parameters
    ----------
    problem : DescentProblem
        The problem.
    n_init : int
        Number of starts.
    max_iter, tol, patience
        Of each run, as in :func:`descend`.
    time_limit : float, optional
        Seconds, for all starts together.
    seed : int
        Of the starts.
    n_jobs : int, optional
        Starts run at once, as joblib counts.

    Returns
    -------
    Solution
        The best of the runs, as :func:`polyopt.outer.starts.best_of` keeps it; ``runs`` has them all.
    """

    def run(number: int, time_left: float | None) -> Solution:
        W = problem.start(np.random.default_rng([seed, number]))
        return descend(problem, W, max_iter=max_iter, tol=tol, patience=patience, time_limit=time_left)

    return best_of(run, n_init, time_limit=time_limit, n_jobs=n_jobs)
