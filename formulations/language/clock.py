"""A stop-watch with a limit, which every loop looks at.

Clocks are nested. A fit makes a clock current (:func:`running`), and every clock that is made inside it, for
a pair of classes, a start or a fold, ends no later than it does and stops when it is stopped. A loop that
finds its clock over ends with its best point.

Ctrl-C is Python's own KeyboardInterrupt. Each loop catches it at one place and keeps its best point. There it
calls :func:`interrupted`, which stops the current clock, so that the loops around it end as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import time as wall_time

from formulations.language.arguments import seconds
from formulations.language.solution import Status

_MIN_LEFT = 1e-3  # seconds that are left at least: to some solvers a limit of 0 is no limit


class OutOfTimeError(Exception):
    """The limit has passed in the middle of something that is of no use unless it is whole."""


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

    def __init__(self, limit: float | None = None, outer: Clock | None = None):
        limit = seconds(limit)
        outer = _current.get() if outer is None else outer
        self._started = time.perf_counter()
        self._until = None if limit is None else self._started + limit
        self._outermost: Clock = self if outer is None else outer._outermost
        self._stopped = False  # read of the outermost clock alone
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
        """True if it was stopped, as by Ctrl-C."""
        return self._outermost._stopped

    def stop(self) -> None:
        """Stop it, and all clocks that it is a part of."""
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

    def part(self, share: float) -> Clock:
        """Return a clock for a fraction of the seconds left; without a limit if this has none."""
        left = self.left
        return Clock(None if left is None else share * left)


def _received(until: float | None, is_stopped: bool) -> Clock:
    """Return a clock as it arrives in another process."""
    clock = Clock(None if until is None else max(until - wall_time(), 0.0))
    if is_stopped:
        clock.stop()
    return clock


_current: ContextVar[Clock | None] = ContextVar("clock", default=None)


def current_clock() -> Clock | None:
    """Return the clock that is current in this thread, if there is one."""
    return _current.get()


def is_out_of_time() -> bool:
    """Return True if the clock that is current in this thread is over."""
    clock = _current.get()
    return clock is not None and clock.is_over


def interrupted() -> Status:
    """Stop the current clock, if there is one, and return INTERRUPTED.

    A loop calls it where it has caught KeyboardInterrupt and keeps its best point.
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
