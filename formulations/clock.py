"""A stop-watch with a limit, shared by all that have a limit, and the run that they are a part of.

A run is what a person started: a fit with all its pairs of classes, starts, folds and workers. It has a
deadline and can be stopped; :mod:`formulations.runs` begins one. Within it every :class:`Clock` is over once
the run is, so that whatever looks at a clock ends with its best point.

Limits are for computing: seconds that happen once on a machine, as those of compilation, are left out
(:func:`leave_out`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import time as wall_time

from formulations.arguments import seconds

__all__ = ["Clock", "OutOfTimeError", "Run", "current_run", "leave_out", "run_is_over"]

_HAIR = 1e-3  # seconds that are left at least: a limit of 0 is none to some solvers
_LOOK = 0.05  # seconds between two looks at a file

_left_out = 0.0  # seconds of this process that count against no limit
_leaving_out = threading.Lock()


def leave_out(passed: float) -> None:
    """Let seconds that have passed count against no limit, in all threads of this process.

    Parameters
    ----------
    passed : float
        Wall-clock seconds up to now that were not spent on the computation, as those of compilation.
    """
    global _left_out
    with _leaving_out:
        _left_out += passed


def _now() -> float:
    """Seconds on the clock of this process that count against limits."""
    return time.perf_counter() - _left_out


class OutOfTimeError(Exception):
    """The limit has passed in the middle of something that is of no use unless it is whole."""


class _Stop:
    """Whether a run was stopped, and by which signal: known to all threads, and by a file to other processes.

    The file is made when the run is first sent to another process, and is there once the run is stopped.
    """

    def __init__(self, file: str = ""):
        self._number, self._file, self._folder, self._looked = 0, file, "", -_LOOK
        self.heard = 0  # how often somebody looked since it was stopped
        self.finishing = 0  # parts at work that are short, and to be whole

    @property
    def number(self) -> int:
        """The number of the signal; 0 while there was none."""
        if not self._number and self._file and not self._folder:
            now = time.perf_counter()
            if now >= self._looked + _LOOK:
                self._looked = now
                if os.path.exists(self._file):
                    self._number = int(Path(self._file).read_text(encoding="ascii") or 2)
        return self._number

    def set(self, number: int) -> None:
        """Stop the run."""
        self._number = self._number or number
        self._write()

    def share(self) -> str:
        """The file by which another process knows."""
        if not self._file:
            self._folder = tempfile.mkdtemp(prefix="polyopt-run-")
            self._file = os.path.join(self._folder, "stopped")
            if self._number:
                self._write()
        return self._file

    def _write(self) -> None:
        if self._folder:
            Path(self._file).write_text(str(self._number), encoding="ascii")

    def close(self) -> None:
        """Remove the file, at the end of the run."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


class Run:
    """What a person started: it ends at its deadline, or when it is stopped.

    It may be sent to another process, where it has the same deadline and hears that it was stopped.

    Parameters
    ----------
    limit : float or None
        Seconds, at least 0; None for no limit.
    outer : Run, optional
        The run that this one is a part of.

    Raises
    ------
    ValueError
        Another limit.
    """

    def __init__(self, limit: float | None = None, outer: Run | None = None):
        limit = seconds(limit)
        self._until = None if limit is None else _now() + limit
        self._stop: _Stop = _Stop() if outer is None else outer._stop
        if outer is not None and outer._until is not None:
            self._until = outer._until if self._until is None else min(self._until, outer._until)

    def __reduce__(self) -> tuple[object, ...]:
        until = None if self._until is None else wall_time() + self._until - _now()
        return _received, (until, self._stop.share())

    @property
    def signal(self) -> int:
        """The number of the signal that stopped it; 0 while there was none."""
        return self._stop.number

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped, as by Ctrl-C."""
        if self._stop.number == 0:
            return False
        self._stop.heard += 1
        return True

    @property
    def heard(self) -> int:
        """How often somebody has looked since it was stopped."""
        return self._stop.heard

    @property
    def is_finishing(self) -> bool:
        """Whether something is at work in it that is short, and to be whole."""
        return self._stop.finishing > 0

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """What is done within is short and is to be whole: of all signals only a second one breaks it off."""
        self._stop.finishing += 1
        try:
            yield
        finally:
            self._stop.finishing -= 1

    @property
    def is_over(self) -> bool:
        """Whether it was stopped, or its deadline has passed."""
        return self.is_stopped or (self._until is not None and _now() >= self._until)

    @property
    def left(self) -> float | None:
        """Seconds until the deadline, at least a hair; None without one."""
        if self.is_stopped:
            return _HAIR
        return None if self._until is None else max(self._until - _now(), _HAIR)

    def stop(self, number: int = 2) -> None:
        """Stop it, and all that it is a part of.

        Parameters
        ----------
        number : int
            The number of the signal that asks for it; Ctrl-C's by default.
        """
        self._stop.set(number)

    def close(self) -> None:
        """Remove what it needed to be heard by other processes."""
        self._stop.close()


def _received(until: float | None, file: str) -> Run:
    """A run, as it is in another process than its own."""
    run = Run(None if until is None else max(until - wall_time(), 0.0))
    run._stop = _Stop(file)
    return run


CURRENT: ContextVar[Run | None] = ContextVar("run", default=None)


def current_run() -> Run | None:
    """The run that goes on in this thread, if there is one."""
    return CURRENT.get()


def run_is_over() -> bool:
    """Whether the run that goes on in this thread, if any, was stopped or has passed its deadline."""
    run = CURRENT.get()
    return run is not None and run.is_over


class Clock:
    """Seconds since it was made, and whether a limit has passed, its own or the run's.

    Seconds that are left out, as those of compilation, do not count.

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
        self._started = _now()
        self._run = CURRENT.get()

    @property
    def seconds(self) -> float:
        """Seconds since the clock was made, without those that are left out."""
        return _now() - self._started

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed, or the run is over."""
        if self._limit is not None and self.seconds >= self._limit:
            return True
        return self._run is not None and self._run.is_over

    def check(self) -> None:
        """Raise :class:`OutOfTimeError` if it is."""
        if self.is_over:
            raise OutOfTimeError

    @property
    def left(self) -> float | None:
        """Seconds until the limit or the run's end, at least a hair; None without either."""
        own = None if self._limit is None else max(self._limit - self.seconds, _HAIR)
        of_run = None if self._run is None else self._run.left
        if own is None or of_run is None:
            return of_run if own is None else own
        return min(own, of_run)

    def part(self, share: float) -> Clock:
        """A clock for a share, from 0 to 1, of the seconds left; without a limit where this has none."""
        left = self.left
        return Clock(None if left is None else share * left)
