"""The best of several runs from different starts, one after the other or at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed

from formulations.solution import Solution, Status
from polyopt.solvers.clock import Clock
from polyopt.watch import counted

__all__ = ["TIE", "best_of", "generators_of"]

TIE = 1e-9  # relative difference of objectives that counts as none


def best_of(
    run: Callable[[int, float | None], Solution],
    count: int,
    *,
    time_limit: float | None = None,
    n_jobs: int | None = None,
) -> Solution:
    """Make runs 0 to `count` - 1 and keep the one with the least objective.

    Parameters
    ----------
    run : callable
        Takes the number of the run and the seconds left (None for no limit).
    count : int
        Number of runs, at least 1.
    time_limit : float, optional
        Seconds for all of them together; no run is begun after it, except the first.
    n_jobs : int, optional
        Runs made at once, as joblib counts.

    Returns
    -------
    Solution
        The best run's, the first of those that tie. ``history`` holds the records of all runs, each
        with the number of its ``start``; ``runs`` holds the runs themselves, without multipliers;
        ``iterations`` and ``solve_time`` are totals. Ctrl-C after the first run keeps the best so far.
    """
    clock = Clock(time_limit)
    runs: list[Solution] = []
    stopped: Status | None = None

    def timed(number: int) -> Solution:
        return run(number, clock.left)

    try:
        made = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(timed)(k) for k in range(count))
        for solution in counted(made, count, "start"):
            runs.append(solution)
            if solution.status is Status.INTERRUPTED:
                stopped = solution.status
                break
            if clock.is_over and len(runs) < count:
                stopped = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        if not runs:
            raise
        stopped = Status.INTERRUPTED
    least = min(solution.objective for solution in runs)
    best = next(solution for solution in runs if solution.objective <= least + TIE * abs(least))
    return replace(
        best,
        status=stopped or best.status,
        iterations=sum(solution.iterations for solution in runs),
        solve_time=clock.seconds,
        history=tuple(
            {"start": float(number), **record}
            for number, solution in enumerate(runs)
            for record in solution.history
        ),
        runs=tuple(replace(solution, duals={}) for solution in runs),
    )


def generators_of(seed: int, count: int) -> list[np.random.Generator]:
    """One source of randomness for each run, which depends on the seed and the run's number alone."""
    return [np.random.default_rng([seed, number]) for number in range(count)]
