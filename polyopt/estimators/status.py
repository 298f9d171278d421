"""The status of a fitted estimator, and warnings about its fit."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Protocol, TypeAlias

from sklearn.exceptions import ConvergenceWarning

from formulations.language.solution import Solution, Status

FINE = (Status.SOLVED, Status.CONVERGED)
"""Statuses of a fit that no limit cut short."""

Nested: TypeAlias = "Solution | list[Nested]"


class Fitted(Protocol):
    """A fitted estimator: with a solution, or a list of those of each pair of classes or side."""

    solution_: Any


def solutions_of(estimator: Fitted) -> list[Solution]:
    """Return the solutions of a fitted estimator: one, or those of all pairs of classes and sides."""

    def flat(nested: Nested) -> list[Solution]:
        return [each for part in nested for each in flat(part)] if isinstance(nested, list) else [nested]

    return flat(estimator.solution_)


def status_of(estimator: Fitted) -> Status:
    """Return a fitted estimator's status: INTERRUPTED, or the first that is not fine, or the first."""
    statuses = [solution.status for solution in solutions_of(estimator)]
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED
    return next((status for status in statuses if status not in FINE), statuses[0])


def warn(estimator: object, text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn about a fit, at the line outside of polyopt that called it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("polyopt."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{type(estimator).__name__}: {text}", category, stacklevel=level)
