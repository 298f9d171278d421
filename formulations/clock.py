"""A stop-watch with a limit, shared by all that have a limit."""

from __future__ import annotations

import time

from formulations.arguments import seconds

__all__ = ["Clock", "OutOfTimeError"]


class OutOfTimeError(Exception):
    """The limit has passed in the middle of something that is of no use unless it is whole."""


class Clock:
    """Seconds since it was made, and whether a limit has passed.

    Parameters
    ----------
    limit : float or None
        Seconds, at least 0; None for no limit.

    Raises
    ------
    ValueError
        Anything else.
    """

    def __init__(self, limit: float | None = None):
        self._limit = seconds(limit)
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self._started

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        return self._limit is not None and self.seconds >= self._limit

    def check(self) -> None:
        """Raise :class:`OutOfTimeError` if it is."""
        if self.is_over:
            raise OutOfTimeError

    @property
    def left(self) -> float | None:
        """Seconds until the limit, at least a hair; None without one."""
        return None if self._limit is None else max(self._limit - self.seconds, 1e-3)
