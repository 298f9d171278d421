"""How a fit ended."""

from __future__ import annotations

from typing import Protocol

from formulations.solution import Solution, Status

__all__ = ["Fitted", "status_of"]


class Fitted(Protocol):
    """A fitted estimator: with the solver's answer, or one for each pair of classes."""

    solution_: Solution | list[Solution]


def status_of(estimator: Fitted) -> Status:
    """How the solver of a fitted estimator ended; of several pairs of classes, the first that fell short.

    One that was interrupted comes before all others.

    Parameters
    ----------
    estimator : estimator
        A fitted one.
    """
    solutions = estimator.solution_ if isinstance(estimator.solution_, list) else [estimator.solution_]
    if any(s.status is Status.INTERRUPTED for s in solutions):
        return Status.INTERRUPTED
    fine = (Status.OPTIMAL, Status.CONVERGED)
    return next((s.status for s in solutions if s.status not in fine), solutions[0].status)
