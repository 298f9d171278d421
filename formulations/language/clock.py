"""A stop-watch with a time limit, which every loop checks.

Clocks are nested. A fit makes a clock the current one (:func:`running`); clocks created inside it, for a pair
of classes, a start or a fold, have no later deadline and are stopped together with it. A loop ends with its
best point when its clock is over.

Ctrl-C raises KeyboardInterrupt. Each loop catches it in one place, keeps its best point and calls
:func:`interrupted`, which stops the current clock, so that the enclosing loops end as well.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import time as wall_time

from formulations.language.arguments import seconds
from formulations.language.solution import Status


class OutOfTimeError(Exception):
    """The time limit was reached in a computation whose partial result is useless."""


class Clock:
    """The seconds since its construction, a deadline, and a flag for a stop before it.

    `limit` is in seconds, None for no limit; `outer` is the clock inside which this one is created, by
    default the current one. A clock may be sent to another process, where it has the same deadline.
    """

    def __init__(self, limit: float | None = None, outer: "Clock | None" = None):
        limit = seconds(limit)
        outer = _current.get() if outer is None else outer
        self._started = time.perf_counter()
        deadlines = [] if limit is None else [self._started + limit]
        if outer is not None and outer._deadline is not None:
            deadlines.append(outer._deadline)
        self._deadline: float | None = min(deadlines, default=None)
        self._outermost: Clock = self if outer is None else outer._outermost
        self._stopped = False  # used in the outermost clock only

    def __reduce__(self) -> tuple[object, ...]:  # processes have only the wall time in common
        return _rebuilt, (None if self.left is None else wall_time() + self.left, self.is_stopped)

    @property
    def seconds(self) -> float:
        """Seconds since the construction."""
        return time.perf_counter() - self._started

    @property
    def is_stopped(self) -> bool:
        """True if the clock was stopped, for example by Ctrl-C."""
        return self._outermost._stopped

    def stop(self) -> None:
        """Stop this clock and all others inside the same outermost clock."""
        self._outermost._stopped = True

    @property
    def is_over(self) -> bool:
        """True if the deadline has passed, or the clock was stopped."""
        return self.is_stopped or (self._deadline is not None and time.perf_counter() >= self._deadline)

    def check(self) -> None:
        """Raise :class:`OutOfTimeError` if the clock is over."""
        if self.is_over:
            raise OutOfTimeError

    @property
    def left(self) -> float | None:
        """Seconds until the deadline, at least a millisecond, also after a stop; None without a deadline."""
        least = 1e-3  # some solvers take a limit of 0 for no limit
        if self.is_stopped:
            return least
        return None if self._deadline is None else max(self._deadline - time.perf_counter(), least)

    def part(self, fraction: float) -> "Clock":
        """Return a clock for a fraction of the seconds left, or without a limit if this clock has none."""
        left = self.left
        return Clock(None if left is None else fraction * left)


def _rebuilt(deadline: float | None, is_stopped: bool) -> Clock:
    """Rebuild a clock in another process; the deadline is a wall time."""
    clock = Clock(None if deadline is None else max(deadline - wall_time(), 0.0))
    if is_stopped:
        clock.stop()
    return clock


_current: ContextVar[Clock | None] = ContextVar("clock", default=None)


def current_clock() -> Clock | None:
    """Return the current clock of this thread, or None."""
    return _current.get()


def is_out_of_time() -> bool:
    """Return True if the current clock of this thread is over."""
    clock = _current.get()
    return clock is not None and clock.is_over


def interrupted() -> Status:
    """Stop the current clock, if there is one, and return INTERRUPTED.

    A loop calls it after it has caught KeyboardInterrupt.
    """
    clock = _current.get()
    if clock is not None:
        clock.stop()
    return Status.INTERRUPTED


@contextmanager
def running(clock: Clock) -> Iterator[Clock]:
    """Make a clock the current one of this thread inside the context."""
    token = _current.set(clock)
    try:
        yield clock
    finally:
        _current.reset(token)
