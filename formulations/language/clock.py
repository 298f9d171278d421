"""A stop-watch with a time limit, which every loop checks.

Clocks are nested. A fit makes a clock current (:func:`running`); clocks created inside it, for a pair of
classes, a start or a fold, have no later deadline and stop with it. A loop ends with its best point when its
clock is over.

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

_MIN_LEFT = 1e-3  # least number of seconds left: some solvers take a limit of 0 for no limit


class OutOfTimeError(Exception):
    """The time limit was reached in a computation whose partial result is useless."""


class Clock:
    """Seconds since it was made, and whether its limit has passed or it was stopped.

    A clock may be sent to another process, where it has the same deadline.

    Parameters
    ----------
    limit : float or None
        Seconds, at least 0; None for no limit.
    outer : Clock, optional
        The clock that this one is a part of; by default the current one, if there is one.

    Raises
    ------
    ValueError
        A limit that is neither a number of seconds nor None.
    """

    def __init__(self, limit: float | None = None, outer: "Clock | None" = None):
        limit = seconds(limit)
        outer = _current.get() if outer is None else outer
        self._started = time.perf_counter()
        self._until = None if limit is None else self._started + limit
        self._outermost: Clock = self if outer is None else outer._outermost
        self._stopped = False  # used in the outermost clock only
        if outer is not None and outer._until is not None:
            self._until = outer._until if self._until is None else min(self._until, outer._until)

    def __reduce__(self) -> tuple[object, ...]:
        return _received, (None if self.left is None else wall_time() + self.left, self.is_stopped)

    @property
    def seconds(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self._started

    @property
    def is_stopped(self) -> bool:
        """True if it was stopped, for example by Ctrl-C."""
        return self._outermost._stopped

    def stop(self) -> None:
        """Stop this clock and all clocks around it."""
        self._outermost._stopped = True

    @property
    def is_over(self) -> bool:
        """True if the limit has passed, or it was stopped."""
        return self._outermost._stopped or (self._until is not None and time.perf_counter() >= self._until)

    def check(self) -> None:
        """Raise :class:`OutOfTimeError` if it is over."""
        if self.is_over:
            raise OutOfTimeError

    @property
    def left(self) -> float | None:
        """Seconds until the limit, at least a millisecond; None without one."""
        if self._outermost._stopped:
            return _MIN_LEFT
        return None if self._until is None else max(self._until - time.perf_counter(), _MIN_LEFT)

    def part(self, share: float) -> "Clock":
        """Return a clock for a fraction of the seconds left; without a limit if this has none."""
        left = self.left
        return Clock(None if left is None else share * left)


def _received(until: float | None, is_stopped: bool) -> Clock:
    """Rebuild a clock in another process."""
    clock = Clock(None if until is None else max(until - wall_time(), 0.0))
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
    """Make a clock the current one of this thread."""
    token = _current.set(clock)
    try:
        yield clock
    finally:
        _current.reset(token)
