"""Tasks for joblib's workers, under the current clock (:mod:`formulations.language.clock`) of the caller.

A clock is the time limit of a run; long loops check whether it is over, or stopped by Ctrl-C. Worker
processes receive the clock's deadline, but not a later stop of the clock. On Ctrl-C :func:`run_tasks` drops
unfinished tasks, and runs them in this process with the clock stopped, so that each ends as soon as it checks
the clock.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from formulations.language.clock import Clock, current_clock, running
from polyopt.base.progress import counted

_Task = TypeVar("_Task", bound=tuple[Any, ...])
_Result = TypeVar("_Result")


def run_tasks(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None, task_name: str
) -> list[_Result]:
    """Return the results of a function for each task, in order.

    task_name: name of a task in progress messages.
    On Ctrl-C stop the current clock, and run the unfinished tasks in this process; if there is no clock,
    re-raise KeyboardInterrupt.
    """
    clock, results = current_clock(), dict[int, _Result]()
    # The fields of a task are separate arguments: Dask's backend then sends an array of several tasks once.
    calls = (
        delayed(call_timed)(clock, _run_numbered, function, number, type(task), *task)
        for number, task in enumerate(tasks)
    )
    try:
        for number, result in counted(iter_joblib(calls, n_jobs, in_order=False), len(tasks), task_name):
            results[number] = result
    except KeyboardInterrupt:
        if clock is None:
            raise
        clock.stop()
    return [results[number] if number in results else function(task) for number, task in enumerate(tasks)]


def _run_numbered(
    function: Callable[[Any], _Result], number: int, task_type: Callable[..., Any], *fields: Any
) -> tuple[int, _Result]:
    return number, function(task_type(*fields))


def iter_joblib(calls: Iterable[Any], n_jobs: int | None, *, in_order: bool = True) -> Generator[Any]:
    """Yield the results of calls of :func:`joblib.delayed`, in order or as they end.

    A backend without generators (Ray's, ``"multiprocessing"``) yields all results at the end.
    """
    if getattr(get_active_backend()[0], "supports_return_generator", False):
        order = "generator" if in_order else "generator_unordered"
        yield from Parallel(n_jobs=n_jobs, return_as=order)(calls)
    else:
        yield from Parallel(n_jobs=n_jobs)(calls)


def call_timed(clock: Clock | None, function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function with `clock` as the current clock, or with no change of the clock if it is None."""
    with nullcontext() if clock is None else running(clock):
        return function(*arguments)


def time_share(clock: Clock, number: int, count: int, n_jobs: int | None) -> float | None:
    """Return the seconds for task `number` of `count` if the remaining tasks share the time left equally.

    Return None without a time limit.
    """
    seconds_left = clock.left
    if seconds_left is None:
        return None
    remaining = count - number
    return seconds_left * min(effective_n_jobs(n_jobs), remaining) / remaining
