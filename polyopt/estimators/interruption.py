"""Limits of the parts of a fit, and what a fit that was interrupted says of itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt.base.parallel import share
from polyopt.estimators.status import FINE, solutions_of

__all__ = ["Part", "broken_off", "note_interruption", "warn_of_interruption"]


@dataclass(frozen=True)
class Part:
    """One of the machines of which another one is made, as a part of its fit.

    Attributes
    ----------
    what : str
        What such a machine is, for whoever watches, such as ``"pair"``.
    number, count : int
        Its number, from 0, and how many there are.
    whole : Clock
        The limit for all of them.
    n_jobs : int, optional
        Machines fitted at once, as joblib counts.
    """

    what: str
    number: int
    count: int
    whole: Clock
    n_jobs: int | None

    @contextmanager
    def of_fit(self, machine: Any) -> Iterator[None]:
        """The machine is fitted within, told apart, and in its share of the time; it says why it ended."""
        heard = machine._heard(f", {self.what} {self.number + 1} of {self.count}")
        limit = share(self.whole, self.number, self.count, self.n_jobs)
        with running(self.whole), heard, _limited(machine, limit):
            yield
        note_interruption(machine)


def note_interruption(machine: Any) -> bool:
    """Stop the clock after a fit that Ctrl-C ended, and return True if the fit fell short by that.

    A fit that began with the clock stopped may know only that its time was over: its status is changed here.
    The machine is one of two classes.
    """
    clock, solutions = current_clock(), solutions_of(machine)
    if clock is None:
        return False
    if any(found.status is Status.INTERRUPTED for found in solutions):
        clock.stop()
    if not clock.is_stopped or all(found.status in FINE for found in solutions):
        return False
    noted = [replace(s, status=Status.INTERRUPTED) if s.status not in FINE else s for s in solutions]
    machine.solution_ = noted if isinstance(machine.solution_, list) else noted[0]
    return True


@contextmanager
def broken_off() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of a RuntimeError if the clock is stopped: there is no point."""
    try:
        yield
    except RuntimeError:
        clock = current_clock()
        if clock is None or not clock.is_stopped:
            raise
        raise KeyboardInterrupt from None


def warn_of_interruption(machine: Any) -> None:
    """Warn, once for a whole fit, that it was interrupted, and of how much is solved."""
    pairs = getattr(machine, "estimators_", None) if len(machine.classes_) > 2 else None
    if pairs is None:
        if any(found.status is Status.INTERRUPTED for found in solutions_of(machine)):
            _warn(machine, str(Status.INTERRUPTED))
        return
    solved = sum(all(found.status in FINE for found in solutions_of(pair)) for pair in pairs)
    if solved < len(pairs):
        what = f"{solved} of {len(pairs)} pairs of classes were solved, the others are as far as they came"
        _warn(machine, f"{Status.INTERRUPTED} {what}.")


@contextmanager
def _limited(machine: Any, limit: float | None) -> Iterator[None]:
    """With another limit than the machine was told; None leaves its own."""
    if limit is None:
        yield
        return
    told, machine.time_limit = machine.time_limit, limit
    try:
        yield
    finally:
        machine.time_limit = told


def _warn(machine: Any, text: str) -> None:
    warnings.warn(f"{type(machine).__name__}: {text}", ConvergenceWarning, stacklevel=4 + machine._frames)
