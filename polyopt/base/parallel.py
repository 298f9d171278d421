"""Tasks for joblib's workers, under the current clock of the caller.

Workers in other processes know the deadline of the clock, and not that it was stopped later. Tasks that they
had not finished at Ctrl-C are lost, or done by the caller, in no time, with the clock stopped (:func:`deal`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from formulations.language.clock import Clock, current_clock, running
from polyopt.base.progress import counted

_Task = TypeVar("_Task", bound=tuple[Any, ...])
_Result = TypeVar("_Result")


def deal(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None, what: str
) -> list[_Result]:
    """Return the results of a function for each task, in order; `what` names a task in progress messages.

    The caller itself does the tasks that Ctrl-C left out, with the clock stopped.
    """
    done = dict(counted(dealt(function, tasks, n_jobs), len(tasks), what))
    return [done[number] if number in done else function(task) for number, task in enumerate(tasks)]


def dealt(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None
) -> Iterator[tuple[int, _Result]]:
    """Yield the number and the result of each task as it ends.

    Ctrl-C stops the current clock, and there are no more results; without a clock it is raised.
    """
    clock = current_clock()
    # The fields of a task are sent apart: Dask's backend sends an array once to all calls that have it.
    calls = (
        delayed(call_timed)(clock, _numbered, function, number, type(task), *task)
        for number, task in enumerate(tasks)
    )
    try:
        yield from answers(calls, n_jobs, in_order=False)
    except KeyboardInterrupt:
        if clock is None:
            raise
        clock.stop()


def _numbered(
    function: Callable[[Any], _Result], number: int, made: Callable[..., Any], *fields: Any
) -> tuple[int, _Result]:
    return number, function(made(*fields))


def answers(calls: Iterable[Any], n_jobs: int | None, *, in_order: bool = True) -> Generator[Any]:
    """Yield the results of calls of :func:`joblib.delayed`, in order or as they end.

    From a backend that cannot do so (Ray's, ``"multiprocessing"``) all come at the end.
    """
    if getattr(get_active_backend()[0], "supports_return_generator", False):
        order = "generator" if in_order else "generator_unordered"
        yield from Parallel(n_jobs=n_jobs, return_as=order)(calls)
    else:
        yield from Parallel(n_jobs=n_jobs)(calls)


def call_timed(clock: Clock | None, function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function with a clock as the current one; None leaves it as it is."""
    with nullcontext() if clock is None else running(clock):
        return function(*arguments)


def share(whole: Clock, number: int, count: int, n_jobs: int | None) -> float | None:
    """Return the seconds for task `number` of `count`: an equal share of the time left, or None."""
    left = whole.left
    if left is None:
        return None
    following = count - number
    return left * min(effective_n_jobs(n_jobs), following) / following


class Shipped:
    """Base of a problem that joblib pickles without the attributes ``_own``, which each process makes."""

    _own: ClassVar[tuple[str, ...]] = ("_program",)

    def __getstate__(self) -> dict[str, object]:
        """Return all attributes but those."""
        return {name: value for name, value in vars(self).items() if name not in self._own}
