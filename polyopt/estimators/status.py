"""The status of a fitted estimator, and warnings about its fit."""

import sys
import warnings
from typing import Any, TypeAlias

from sklearn.exceptions import ConvergenceWarning

from formulations.language.solution import Solution, Status

FINE = (Status.SOLVED, Status.CONVERGED)
"""Statuses of a complete fit, which no limit ended."""

Nested: TypeAlias = "Solution | list[Nested]"


def solutions_of(estimator: Any) -> list[Solution]:
    """Return all solutions of a fitted estimator: one, or one for each pair of classes and each side."""

    def flat(nested: "Nested") -> list[Solution]:
        return [s for part in nested for s in flat(part)] if isinstance(nested, list) else [nested]

    return flat(estimator.solution_)


def status_of(estimator: Any) -> Status:
    """Return the status of a fitted estimator.

    It is INTERRUPTED if one of its solutions is, else the first status that is not in FINE, else the first.
    """
    statuses = [solution.status for solution in solutions_of(estimator)]
    if Status.INTERRUPTED in statuses:
        return Status.INTERRUPTED
    return next((status for status in statuses if status not in FINE), statuses[0])


def warn(estimator: object, text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Issue a warning about a fit, located at the calling line outside of polyopt."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("polyopt."):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"{type(estimator).__name__}: {text}", category, stacklevel=level)
