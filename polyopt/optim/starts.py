"""The best of several runs from different starts, one after the other or at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from joblib import delayed

from formulations.language.clock import Clock, current_clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.parallel import answers, call_timed
from polyopt.base.progress import counted, current_listener, heard_by

__all__ = ["TIE", "best_of", "continued", "generators_of", "number_of_best"]

TIE = 1e-9  # relative difference of objectives that counts as none


def best_of(
    run: Callable[[int, float | None], Solution],
    count: int,
    *,
    time_limit: float | None = None,
    n_jobs: int | None = None,
) -> Solution:
    """Make runs 0 to `count` - 1 and keep the one with the least objective.

    run: takes the number of the run and the seconds left (None for no limit).
    count: number of runs, at least 1.
    time_limit: seconds for all of them together; no run is begun after it, except the first.
    n_jobs: runs made at once, as joblib counts.
    Returns: the best run's, the first of those that tie. ``history`` holds the records of all runs, each with
        the number of its ``start``; ``runs`` holds the runs themselves, without multipliers; ``iterations``
        and ``solve_time`` are totals. Ctrl-C after the first run keeps the best so far.
    """
    clock = Clock(time_limit)
    runs, stopped = _runs(run, count, clock, n_jobs)
    if clock.is_stopped:
        stopped = Status.INTERRUPTED
    best = runs[number_of_best(runs)]
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


def number_of_best(runs: Sequence[Solution]) -> int:
    """The number of the run with the least objective, the first of those that tie."""
    least = min(solution.objective for solution in runs)
    return next(k for k, solution in enumerate(runs) if solution.objective <= least + TIE * abs(least))


def continued(
    history: Sequence[dict[str, float]], unit: str, start: int, made: int, seconds: float
) -> list[dict[str, float]]:
    """The records of a run that went on from start `start`, after `made` iterations and so many seconds.

    `unit` is the name of the iterations' numbers.
    """
    return [
        {**record, "start": float(start), unit: float(made + number), "seconds": seconds + record["seconds"]}
        for number, record in enumerate(history, 1)
    ]


def _runs(
    run: Callable[[int, float | None], Solution], count: int, clock: Clock, n_jobs: int | None
) -> tuple[list[Solution], Status | None]:
    """The runs that were made, and why no more were."""
    here, listener, runs = current_clock(), current_listener(), list[Solution]()

    def timed(number: int) -> Solution:
        with heard_by(listener):
            return call_timed(here, run, number, clock.left)

    made = answers((delayed(timed)(number) for number in range(count)), n_jobs)
    try:
        for solution in counted(made, count, "start"):
            runs.append(solution)
            if solution.status is Status.INTERRUPTED:
                return runs, solution.status
            if clock.is_over and len(runs) < count:
                return runs, Status.TIME_LIMIT
    except KeyboardInterrupt:
        if not runs:
            raise
        return runs, interrupted()
    return runs, None


def generators_of(seed: int, count: int) -> list[np.random.Generator]:
    """One source of randomness for each run, which depends on the seed and the run's number alone."""
    return [np.random.default_rng([seed, number]) for number in range(count)]
