"""Pieces of work dealt out to joblib's workers, which look at the current clock of whoever deals.

Workers in other processes know the deadline of the clock, and not that it was stopped later. What they had
not finished at Ctrl-C is lost, or done here, in no time, with the clock stopped (:func:`deal`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from formulations.language.clock import Clock, current_clock, running
from polyopt.base.progress import counted

__all__ = ["Shipped", "answers", "call_timed", "deal", "dealt", "share"]

_Task = TypeVar("_Task", bound=tuple[Any, ...])
_Result = TypeVar("_Result")


def deal(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None, what: str
) -> list[_Result]:
    """Call a function with each of some tasks.

    Tasks that Ctrl-C left out are called here then, with the clock stopped.

    n_jobs: calls made at once, as joblib counts.
    what: what a task is, for whoever watches, such as ``"pair"``.
    Returns: results, in the order of the tasks.
    """
    done = dict(counted(dealt(function, tasks, n_jobs), len(tasks), what))
    return [done[number] if number in done else function(task) for number, task in enumerate(tasks)]


def dealt(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], n_jobs: int | None
) -> Iterator[tuple[int, _Result]]:
    """The same, each result with its task's number as it comes, for a caller who counts them.

    Ctrl-C stops the current clock, and there are no more results; without a current clock it is the caller's.
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
    """What delayed calls return, each as it comes, or all at the end from a backend that cannot do so.

    Of joblib's backends Ray's and ``"multiprocessing"`` cannot.

    calls: calls of :func:`joblib.delayed`.
    in_order: in the order of the calls, otherwise in that in which they end.
    """
    if getattr(get_active_backend()[0], "supports_return_generator", False):
        order = "generator" if in_order else "generator_unordered"
        yield from Parallel(n_jobs=n_jobs, return_as=order)(calls)
    else:
        yield from Parallel(n_jobs=n_jobs)(calls)


def call_timed(clock: Clock | None, function: Callable[..., _Result], *arguments: object) -> _Result:
    """Call a function with a clock as the current one, in whatever worker; None leaves it as it is."""
    with nullcontext() if clock is None else running(clock):
        return function(*arguments)


def share(whole: Clock, number: int, count: int, n_jobs: int | None) -> float | None:
    """Seconds for one of several tasks, so that the others have as many; None without a limit.

    What tasks before it have not used is left to those after them.

    whole: the limit for all of them.
    number, count: the number of the task, from 0, and how many there are.
    """
    left = whole.left
    if left is None:
        return None
    following = count - number
    return left * min(effective_n_jobs(n_jobs), following) / following


class Shipped:
    """A problem that joblib ships to other processes, without what each process makes for itself.

    A subclass names those attributes, which in the copy have the class's values.
    """

    _own: ClassVar[tuple[str, ...]] = ("_program",)

    def __getstate__(self) -> dict[str, object]:
        """All attributes but those."""
        return {name: value for name, value in vars(self).items() if name not in self._own}
