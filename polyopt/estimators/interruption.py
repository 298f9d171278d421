"""Limits of the parts of a fit, and what a fit that was interrupted says of itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from sklearn.exceptions import ConvergenceWarning

from formulations.clock import current_run
from formulations.runs import exception_of
from formulations.solution import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.solution import Solution

__all__ = ["broken_off", "limited", "note_interruption", "warn_of_interruption"]


class _Fitted(Protocol):
    """A machine that was fitted, and its classes."""

    solution_: Solution | list[Solution]
    classes_: NDArray[Any]


class _Limited(Protocol):
    """A machine that may be given a limit."""

    time_limit: float | None


_FINE = (Status.OPTIMAL, Status.CONVERGED)


def note_interruption(machine: _Fitted) -> bool:
    """Say of a fit that ended in a run that was stopped why it ended, if it fell short.

    Its solver may know only that its time was over. A solver that answered Ctrl-C itself stops the run here.

    Parameters
    ----------
    machine : estimator
        Fitted to two classes.

    Returns
    -------
    bool
        Whether it was interrupted.
    """
    run = current_run()
    solutions = _solutions(machine)
    if run is None:
        return False
    if any(found.status is Status.INTERRUPTED for found in solutions) and not run.is_stopped:
        run.stop()
    short = [found for found in solutions if found.status not in _FINE]
    if not run.is_stopped or not short:
        return False
    noted = [replace(s, status=Status.INTERRUPTED) if s.status not in _FINE else s for s in solutions]
    machine.solution_ = noted if isinstance(machine.solution_, list) else noted[0]
    return True


@contextmanager
def broken_off() -> Iterator[None]:
    """What finds no point in a run that was stopped was interrupted, and did not fail.

    Raises
    ------
    KeyboardInterrupt
        In place of the error.
    """
    try:
        yield
    except RuntimeError:
        run = current_run()
        if run is None or not run.is_stopped:
            raise
        raise exception_of(run.signal) from None


def warn_of_interruption(machine: _Fitted) -> None:
    """Warn, once for a whole fit, that it was interrupted, and of how much is solved.

    Parameters
    ----------
    machine : estimator
        Fitted.
    """
    pairs = getattr(machine, "estimators_", None) if len(machine.classes_) > 2 else None
    if pairs is None:
        if any(found.status is Status.INTERRUPTED for found in _solutions(machine)):
            _warn(machine, str(Status.INTERRUPTED))
        return
    solved = sum(all(found.status in _FINE for found in _solutions(pair)) for pair in pairs)
    if solved < len(pairs):
        what = f"{solved} of {len(pairs)} pairs of classes were solved, the others are as far as they came"
        _warn(machine, f"{Status.INTERRUPTED} {what}.")


@contextmanager
def limited(machine: _Limited, limit: float | None) -> Iterator[None]:
    """With another limit than the machine was told, for one fit.

    Parameters
    ----------
    machine : estimator
        The machine.
    limit : float or None
        Seconds; None leaves its own.
    """
    if limit is None:
        yield
        return
    told, machine.time_limit = machine.time_limit, limit
    try:
        yield
    finally:
        machine.time_limit = told


def _solutions(machine: _Fitted) -> list[Solution]:
    found = machine.solution_
    return found if isinstance(found, list) else [found]


def _warn(machine: Any, text: str) -> None:
    warnings.warn(f"{type(machine).__name__}: {text}", ConvergenceWarning, stacklevel=4)
