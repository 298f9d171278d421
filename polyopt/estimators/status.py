"""The end of a fit: its status, the limits of its parts, and the warnings about it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from sklearn.exceptions import ConvergenceWarning

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Solution, Status
from polyopt.base.parallel import time_share

FINE = (Status.SOLVED, Status.CONVERGED)
"""Status of a fit that came to its own end."""

Nested: TypeAlias = "Solution | list[Nested]"


class Fitted(Protocol):
    """A fitted estimator: with a solution, or a list of those of each pair of classes or side."""

    solution_: Any


def solutions_of(estimator: Fitted) -> list[Solution]:
    """Return the solutions of a fitted estimator: one, or those of all pairs of classes and sides."""
    found, left = [], [estimator.solution_]
    while left:
        each = left.pop(0)
        if isinstance(each, list):
            left = [*each, *left]
        else:
            found.append(each)
    return found


def status_of(estimator: Fitted) -> Status:
    """Return the status of a fitted estimator; of several solutions, that of the first which fell short.

    An interrupted one comes before all others.
    """
    found = [solution.status for solution in solutions_of(estimator)]
    if Status.INTERRUPTED in found:
        return Status.INTERRUPTED
    return next((status for status in found if status not in FINE), found[0])


def warn(estimator: object, text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn about a fit, at the line outside of polyopt that called it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("polyopt."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{type(estimator).__name__}: {text}", category, stacklevel=level)


@dataclass(frozen=True)
class Part:
    """One of several machines that are fitted as parts of another one, such as those of pairs of classes.

    Attributes
    ----------
    what : str
        Name of a part in progress messages, such as ``"pair"``.
    number, count : int
        Its number, from 0, and the number of parts.
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
        """Fit the machine within, in its share of the time; an interruption is noted in its status."""
        own = getattr(machine, "time_limit", None)
        limit = time_share(self.whole, self.number, self.count, self.n_jobs)
        if limit is not None:
            machine.time_limit = limit
        try:
            with running(self.whole), machine._heard(f", {self.what} {self.number + 1} of {self.count}"):
                yield
        finally:
            if limit is not None:
                machine.time_limit = own
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
            warn(machine, str(Status.INTERRUPTED))
        return
    solved = sum(all(found.status in FINE for found in solutions_of(pair)) for pair in pairs)
    if solved < len(pairs):
        rest = f"{solved} of {len(pairs)} pairs of classes were solved, the others are as far as they came"
        warn(machine, f"{Status.INTERRUPTED} {rest}.")
