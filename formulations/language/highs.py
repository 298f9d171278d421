"""HiGHS: options, Ctrl-C, and the banner of its first solver (1.16).

A linear or quadratic program is not interrupted: it ends by its time limit. An integer program may take
hours, so Ctrl-C ends its search as well, with the best point (:func:`search`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event, Lock, Thread
from typing import Any

from formulations.language.clock import Clock

SIMPLEX = {
    "output_flag": False,
    "solver": "simplex",
    "simplex_strategy": 1,  # dual simplex, serial
    "parallel": "off",
    "threads": 1,
    "presolve": "off",  # presolve would discard the basis
}
"""Options of a linear program that is solved repeatedly, from its last basis."""


@cache
def quiet_highs() -> Any:
    """Return the package ``highspy``, after a first solver whose banner is suppressed."""
    import highspy

    # `Highs` itself prints before an option can stop it.
    first = highspy._Highs()  # type: ignore[attr-defined]
    first.setOptionValue("log_to_console", False)
    first.run()
    return highspy


_one_at_a_time = Lock()


def search(
    highs: Any, clock: Clock, run: Callable[[], Any] | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> tuple[Any, bool]:  # fmt: skip
    """Run HiGHS on an integer program until it ends, the clock is over, or Ctrl-C; it keeps its best point.

    It runs in its own thread, because Python handles Ctrl-C in the main thread between two bytecodes. There
    HiGHS also uses the number of threads of its options, whatever the process set before. `meanwhile` is
    called while it runs, every 0.05 s.

    Return HiGHS's status, and True if Ctrl-C or a stop of the clock ended the run.
    """
    returned: list[Any] = []
    has_ended = Event()  # Ctrl-C within Thread.join would count the thread as ended (Python 3.11)
    must_end = was_interrupted = False

    def check(event: Any) -> None:
        if must_end:
            event.interrupt()

    def work() -> None:
        try:
            returned.append((run or highs.run)())
        finally:
            has_ended.set()

    highs.cbMipInterrupt.subscribe(check)
    Thread(target=work, daemon=True).start()
    try:
        is_over = False
        while not is_over:
            is_over = has_ended.wait(0.05)  # seconds
            must_end = clock.is_over
            if meanwhile is not None:
                meanwhile()
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        must_end = True
        has_ended.wait()
    return returned[0], was_interrupted or clock.is_stopped


@contextmanager
def searches_of_cvxpy(clock: Clock) -> Iterator[list[bool]]:
    """Make the HiGHS solver that cvxpy creates end as in :func:`search`.

    The class ``highspy.Highs`` is replaced meanwhile, for one thread at a time.
    """
    highspy, interrupted = quiet_highs(), list[bool]()
    with _one_at_a_time:
        usual = highspy.Highs

        class Searching(usual):  # type: ignore[misc, valid-type]
            def run(self) -> Any:
                status, was_interrupted = search(self, clock, super().run)
                interrupted.append(was_interrupted)
                return status

        highspy.Highs = Searching
        try:
            yield interrupted
        finally:
            highspy.Highs = usual
