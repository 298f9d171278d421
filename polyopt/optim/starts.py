"""The best of several runs from different starts (multistart), one after the other or in parallel."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from joblib import delayed

from formulations.language.clock import Clock, current_clock, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.parallel import call_timed, iter_joblib
from polyopt.base.progress import counted, current_listener, records_to

TIE = 1e-9
"""Relative difference below which two objectives count as equal."""


def best_of(
    run: Callable[[int, float | None], Solution], count: int, *, time_limit: float | None = None,
    n_jobs: int | None = None,
) -> Solution:  # fmt: skip
    """Make runs 0 to `count` - 1, at least one, and return the one with the least objective.

    run: a function of the run's number and the seconds left (None for no limit) that returns its solution.
    time_limit: seconds for all runs together; after them no run begins, except the first.
    n_jobs: number of parallel runs, as joblib counts.
    Returns: the best run, the first if several tie. ``history`` has the records of all runs, each with the
        number of its ``start``; ``runs`` has the runs themselves, without multipliers; ``iterations`` and
        ``solve_time`` are totals. Ctrl-C after the first run keeps the best so far.
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
    """Return the number of the run with the least objective, the first if several tie."""
    least = min(solution.objective for solution in runs)
    return next(k for k, solution in enumerate(runs) if solution.objective <= least + TIE * abs(least))


def continued(
    history: Sequence[dict[str, float]], unit: str, offset: int, seconds: float, **entries: float
) -> list[dict[str, float]]:
    """Return the history of a run that continues another one after `offset` iterations and `seconds`.

    Numbers of iterations and seconds are those since the beginning of the other run.
    unit: the key of the iteration's number in a record. entries: further entries of each record.
    """
    return [
        {**record, **entries, unit: float(offset + number), "seconds": seconds + record["seconds"]}
        for number, record in enumerate(history, 1)
    ]


def _runs(
    run: Callable[[int, float | None], Solution], count: int, clock: Clock, n_jobs: int | None
) -> tuple[list[Solution], Status | None]:
    """Make the runs; return the runs, and the status if a limit or Ctrl-C stopped them."""
    outer_clock, listener, runs = current_clock(), current_listener(), list[Solution]()

    def timed(number: int) -> Solution:
        # Clock and listener belong to a thread: pass them on to joblib's workers.
        with records_to(listener):
            return call_timed(outer_clock, run, number, clock.left)

    solutions = iter_joblib((delayed(timed)(number) for number in range(count)), n_jobs)
    try:
        for solution in counted(solutions, count, "start"):
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
    """Return one random generator per run, determined by the seed and the run's number."""
    return [np.random.default_rng([seed, number]) for number in range(count)]
