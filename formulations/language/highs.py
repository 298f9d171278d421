"""HiGHS: options, Ctrl-C, and the first solver, which would print its name among the answers (1.16).

A linear or quadratic program is not broken off: it ends by its time limit. An integer program may take
hours, so its search ends by Ctrl-C as well, with the best point (:func:`search`).
"""

from __future__ import annotations

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
    "presolve": "off",  # it would begin without the basis
}
"""Options of a linear program that is solved again and again, from the basis that it had."""


@cache
def quiet_highs() -> Any:
    """Return the package ``highspy``, after the first solver, whose banner is not printed."""
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
    """Run HiGHS on an integer program until its end, the clock's, or Ctrl-C; it then has its best point.

    It runs in a thread of its own: Python answers Ctrl-C in the main thread alone, between two of its lines.
    There HiGHS also takes the number of threads of its options, whatever was set before in the process.
    `meanwhile` is called every now and then while it runs.

    Return HiGHS's status, and True if Ctrl-C or a stop of the clock ended the run.
    """
    returned: list[Any] = []
    has_ended = Event()  # Ctrl-C within Thread.join would count the thread as ended (Python 3.11)
    is_asked = was_interrupted = False

    def look(event: Any) -> None:
        if is_asked:
            event.interrupt()

    def work() -> None:
        try:
            returned.append((run or highs.run)())
        finally:
            has_ended.set()

    highs.cbMipInterrupt.subscribe(look)
    Thread(target=work, daemon=True).start()
    try:
        is_over = False
        while not is_over:
            is_over = has_ended.wait(0.05)  # seconds between two looks at the clock
            is_asked = clock.is_over
            if meanwhile is not None:
                meanwhile()
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        is_asked = True
        has_ended.wait()
    return returned[0], was_interrupted or clock.is_stopped


@contextmanager
def searches_of_cvxpy(clock: Clock) -> Iterator[list[bool]]:
    """Let HiGHS, as cvxpy makes and runs it inside, end as in :func:`search`.

    cvxpy makes its solver itself, so the class that it makes is another one meanwhile, for one thread at a
    time.
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
