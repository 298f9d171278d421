"""The solver HiGHS: options, suppression of its banner, and Ctrl-C.

The first solver in a process prints a banner (version 1.16). Ctrl-C does not interrupt a linear or quadratic
program, which ends by its time limit. An integer program may take hours, so Ctrl-C ends its branch and bound,
with the best point so far (:func:`search`).
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
    """Return the package ``highspy`` after a first run with the banner off, which silences later solvers."""
    import highspy

    # `highspy.Highs` prints the banner before its options can be set; its base class does not.
    silent_solver = highspy._Highs()  # type: ignore[attr-defined]
    silent_solver.setOptionValue("log_to_console", False)
    silent_solver.run()
    return highspy


_replacement_lock = Lock()  # held while the class highspy.Highs is replaced


def search(highs: Any, clock: Clock, run: Callable[[], Any]) -> tuple[Any, bool]:
    """Run HiGHS on an integer program until it ends, the clock is over, or Ctrl-C; it keeps its best point.

    `run` starts the solver `highs`. The solver has its own thread, because Python handles Ctrl-C in the main
    thread, between two bytecodes. In a new thread HiGHS also uses the number of threads of its options,
    even if an earlier solver in this process used another number.

    Return HiGHS's status, and True if Ctrl-C or ``clock.stop()`` (not its time limit) ended the run.
    """
    statuses: list[Any] = []
    has_ended = Event()  # Ctrl-C within Thread.join would count the thread as ended (Python 3.11)
    must_end = was_interrupted = False

    def interrupt_if_due(event: Any) -> None:
        if must_end:
            event.interrupt()

    def run_in_thread() -> None:
        try:
            statuses.append(run())
        finally:
            has_ended.set()

    highs.cbMipInterrupt.subscribe(interrupt_if_due)  # HiGHS calls it often during branch and bound
    Thread(target=run_in_thread, daemon=True).start()
    try:
        while not has_ended.wait(0.05):  # seconds between two checks of the clock
            must_end = clock.is_over
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        must_end = True
        has_ended.wait()
    return statuses[0], was_interrupted or clock.is_stopped


@contextmanager
def searches_of_cvxpy(clock: Clock) -> Iterator[list[bool]]:
    """Run the HiGHS solvers that cvxpy creates by :func:`search`; yield a list of the runs' interruptions.

    The list gets an entry for each run: True if the run was interrupted, else False. Inside the context the
    class ``highspy.Highs`` is replaced, for one thread at a time.
    """
    highspy, interrupted = quiet_highs(), list[bool]()
    with _replacement_lock:
        original = highspy.Highs

        class Searching(original):  # type: ignore[misc, valid-type]
            def run(self) -> Any:
                status, was_interrupted = search(self, clock, super().run)
                interrupted.append(was_interrupted)
                return status

        highspy.Highs = Searching
        try:
            yield interrupted
        finally:
            highspy.Highs = original
