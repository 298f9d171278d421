"""How a fit ended."""

from __future__ import annotations

from typing import Any

from formulations.solution import Status

__all__ = ["status_of"]


def status_of(estimator: Any) -> Status:
    """How the solver of a fitted estimator ended; of several pairs of classes, the first that fell short.

    Parameters
    ----------
    estimator : estimator
        A fitted one.
    """
    solutions = estimator.solution_ if isinstance(estimator.solution_, list) else [estimator.solution_]
    fine = (Status.OPTIMAL, Status.CONVERGED)
    return next((s.status for s in solutions if s.status not in fine), solutions[0].status)
