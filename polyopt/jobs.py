"""Pieces of work dealt out to joblib's workers, all of them a part of one run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import Field, fields, is_dataclass
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from formulations.clock import Run, current_run
from formulations.runs import run_here, stop_after
from polyopt.watch import counted

__all__ = ["answers", "call_in_run", "deal", "dealt", "share"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def deal(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None, what: str
) -> list[_Result]:
    """Call a function with each of some tasks.

    Workers know the run that goes on here, and end when it is over. Tasks that an interruption left out are
    called here then, in a run that is over.

    Parameters
    ----------
    function : callable
        Takes a task.
    tasks : sequence
        The tasks.
    n_jobs : int, optional
        Calls made at once, as joblib counts.
    what : str
        What a task is, for whoever watches, such as ``"pair"``.

    Returns
    -------
    list
        Results, in the order of the tasks.
    """
    done = dict(counted(dealt(function, tasks, n_jobs), len(tasks), what))
    return [done[number] if number in done else function(task) for number, task in enumerate(tasks)]


def dealt(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None
) -> Iterator[tuple[int, _Result]]:
    """The same, each result with its task's number as it comes, for a caller who counts them.

    After Ctrl-C that no call answered there are no more.

    Parameters
    ----------
    function, tasks, n_jobs
        As of :func:`deal`.
    """
    run = current_run()
    try:
        yield from _results(run, function, tasks, n_jobs)
    except KeyboardInterrupt as interrupt:
        if run is None:
            raise
        stop_after(run, interrupt)
    except BrokenExecutor:  # Ctrl-C in a terminal comes to idle workers too, which die of it
        if run is None or not run.is_stopped:
            raise


def _results(
    run: Run | None, function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None
) -> Iterator[tuple[int, _Result]]:
    calls = (
        delayed(call_in_run)(run, _numbered, function, number, *_apart(task))
        for number, task in enumerate(tasks)
    )
    yield from answers(calls, n_jobs, in_order=False)


def answers(calls: Iterable[Any], n_jobs: int | None, *, in_order: bool = True) -> Generator[Any]:
    """What delayed calls return, each as it comes, or all at the end from a backend that cannot do so.

    Of joblib's backends Ray's and ``"multiprocessing"`` cannot.

    Parameters
    ----------
    calls : iterable
        Calls, of :func:`joblib.delayed`.
    n_jobs : int, optional
        Calls made at once, as joblib counts.
    in_order : bool, default=True
        In the order of the calls, otherwise in that in which they end.
    """
    if getattr(get_active_backend()[0], "supports_return_generator", False):
        order = "generator" if in_order else "generator_unordered"
        yield from Parallel(n_jobs=n_jobs, return_as=order)(calls)
    else:
        yield from Parallel(n_jobs=n_jobs)(calls)


def _apart(task: Any) -> tuple[Any, ...]:
    """A task as it is sent: Dask's backend sends an array once to all calls that have it as an argument."""
    if is_dataclass(task) and not isinstance(task, type) and all(map(_is_place, fields(task))):
        return (type(task), *(getattr(task, field.name) for field in fields(task)))
    return (type(task), *task) if hasattr(task, "_fields") else (None, task)


def _is_place(field: Field[Any]) -> bool:
    """Whether a field is one of the arguments, by its place, that make its dataclass again."""
    return field.init and not field.kw_only


def _numbered(
    function: Callable[[Any], _Result], number: int, made: Callable[..., Any] | None, *task: Any
) -> tuple[int, _Result]:
    return number, function(task[0] if made is None else made(*task))


def call_in_run(run: Run | None, function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function as a part of a run, in whatever worker.

    Parameters
    ----------
    run : Run or None
        The run; None for none.
    function : callable
        The function.
    *arguments : object
        What it takes.
    """
    if run is None:
        return function(*arguments)
    with run_here(run):
        return function(*arguments)


def share(whole: Run, number: int, count: int, n_jobs: int | None) -> float | None:
    """Seconds for one of several tasks, so that the others have as many; None without a limit.

    What tasks before it have not used is left to those after them.

    Parameters
    ----------
    whole : Run
        The limit for all of them.
    number, count : int
        The number of the task, from 0, and how many there are.
    n_jobs : int, optional
        Tasks at once, as joblib counts.
    """
    left = whole.left
    if left is None:
        return None
    following = count - number
    return left * min(effective_n_jobs(n_jobs), following) / following
