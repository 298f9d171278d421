"""A run: one deadline and one Ctrl-C for a whole fit, with all its pairs, starts, folds and workers.

The first Ctrl-C raises nothing. It stops the run, all of whose clocks are over from then on, and so each part
of it ends with its best point. What does not look at a clock for a second is told by a KeyboardInterrupt. The
second Ctrl-C ends everything at once: no part of the run catches it, and the caller sees a KeyboardInterrupt.

SIGTERM does the same where :func:`raise_terminated` answers it, as it does in the commands.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from formulations.clock import CURRENT, Run, current_run
from formulations.termination import Terminated, raise_interrupted, raise_terminated

__all__ = [
    "Terminated",
    "exception_of",
    "one_run",
    "raise_terminated",
    "run_here",
    "stop_after",
    "whole_or_nothing",
]

_PATIENCE = (1.0, 1.0)  # seconds to the first KeyboardInterrupt for what looks at no clock, and to more


class _AtOnce(BaseException):
    """The second Ctrl-C. It is no KeyboardInterrupt, which solvers catch to keep their points."""

    def __init__(self, number: int):
        self.number = number


_ANSWERS: dict[int, tuple[Callable[[int, FrameType | None], object], ...]] = {
    signal.SIGINT: (signal.default_int_handler, raise_interrupted),
    signal.SIGTERM: (raise_terminated,),
}


@contextmanager
def one_run(limit: float | None = None) -> Iterator[Run]:
    """A run, or a part of the one that goes on.

    Signals are answered by the outermost run, in the main thread alone, and only where Python's own
    answer to Ctrl-C stands (and :func:`raise_terminated` for SIGTERM).

    Parameters
    ----------
    limit : float, optional
        Seconds for all that is done within; what it is a part of may end before.

    Yields
    ------
    Run
        It tells whether it was stopped.

    Raises
    ------
    KeyboardInterrupt
        After a second Ctrl-C.
    """
    outer = current_run()
    if outer is not None:
        with run_here(outer if limit is None else Run(limit, outer)) as run:
            yield run
        return
    run = Run(limit)
    try:
        with run_here(run):
            yield run
    finally:
        run.close()


@contextmanager
def run_here(run: Run) -> Iterator[Run]:
    """Be a part of a run, in whatever thread or process.

    Parameters
    ----------
    run : Run
        The run.
    """
    is_outermost = current_run() is None
    token = CURRENT.set(run)
    try:
        if is_outermost and threading.current_thread() is threading.main_thread():
            with _signals_answered(run):
                yield run
        else:
            yield run
    finally:
        CURRENT.reset(token)


@contextmanager
def _signals_answered(run: Run) -> Iterator[None]:
    signals = _Signals(run)
    try:
        signals.take()
        yield
    except _AtOnce as stop:
        raise exception_of(stop.number) from None
    finally:
        signals.give_back()


_nudging = threading.Lock()


class _Signals:
    """The answers to signals while a run goes on."""

    def __init__(self, run: Run):
        self._run, self._thread = run, threading.get_ident()
        self._is_over = False
        self._ends: threading.Event | None = None  # an event, once somebody waits for it
        self._is_nudge = False
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}

    def take(self) -> None:
        """Answer those that have the usual answers."""
        for number, answers in _ANSWERS.items():
            there = signal.getsignal(number)
            for usual in answers:
                if there is usual:
                    self._before[number] = usual
                    signal.signal(number, self._answer)

    def give_back(self) -> None:
        """Leave everything as it was."""
        self._is_over = True
        if self._ends is not None:
            self._ends.set()
        with _nudging:  # no nudge is on its way
            for number, usual in self._before.items():
                signal.signal(number, usual)

    def _answer(self, number: int, frame: FrameType | None) -> None:
        is_nudge, self._is_nudge = self._is_nudge, False
        if self._is_over:
            if not is_nudge:
                self._before[number](number, frame)
        elif is_nudge:
            raise exception_of(number)
        elif self._run.is_stopped:
            raise _AtOnce(number)
        else:
            self._run.stop(number)
            self._ends = threading.Event()
            threading.Thread(target=self._nudge, args=(number, self._ends), daemon=True).start()

    def _nudge(self, number: int, ends: threading.Event) -> None:
        """Wake what looks at no clock."""
        wait, again = _PATIENCE
        before = self._run.heard
        while not ends.wait(wait):
            heard, wait = self._run.heard, again
            is_at_work, before = heard != before, heard
            with _nudging:
                if self._is_over:
                    return
                if is_at_work or self._run.is_finishing or _is_compiling():
                    continue
                self._is_nudge = True
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(self._thread, number)
                else:
                    _thread.interrupt_main(signal.Signals(number))


@contextmanager
def whole_or_nothing() -> Iterator[None]:
    """A part of a run that is of no use unless it is whole.

    Raises
    ------
    KeyboardInterrupt
        At its end, where it was stopped.
    """
    with one_run() as run:
        yield
    if run.is_stopped:
        raise exception_of(run.signal)


def stop_after(run: Run, interrupt: KeyboardInterrupt) -> None:
    """Stop a run after an exception that asks for it.

    Parameters
    ----------
    run : Run
        The run.
    interrupt : KeyboardInterrupt
        Ctrl-C's, or :class:`Terminated`.
    """
    run.stop(signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def _is_compiling() -> bool:
    """Whether numba compiles: a kernel whose compilation was broken off is of no use to a process again."""
    compiler = sys.modules.get("numba.core.compiler_lock")
    return compiler is not None and bool(compiler.global_compiler_lock.is_locked())


def exception_of(number: int) -> KeyboardInterrupt:
    """What a signal is to those that it ends.

    Parameters
    ----------
    number : int
        The number of the signal.
    """
    return Terminated() if number == signal.SIGTERM else KeyboardInterrupt()
