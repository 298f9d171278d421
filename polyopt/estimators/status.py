"""How a fit ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from formulations.language.solution import Solution, Status

Nested: TypeAlias = "Solution | list[Nested]"

__all__ = ["FINE", "Fitted", "Nested", "solutions_of", "status_of"]

FINE = (Status.SOLVED, Status.CONVERGED)
"""How a fit ends that came to its own end."""


class Fitted(Protocol):
    """A fitted estimator: with the solver's answer, or a list with those of each pair of classes or side."""

    solution_: Any


def solutions_of(estimator: Fitted) -> list[Solution]:
    """The solver's answers: one, or those of each pair of classes and of each side, one after the other.

    estimator: A fitted one.
    """
    return list(_flat(estimator.solution_))


def _flat(found: Nested) -> Iterator[Solution]:
    if isinstance(found, list):
        for one in found:
            yield from _flat(one)
    else:
        yield found


def status_of(estimator: Fitted) -> Status:
    """How the solver of a fitted estimator ended; of several pairs of classes, the first that fell short.

    One that was interrupted comes before all others.

    estimator: A fitted one.
    """
    solutions = solutions_of(estimator)
    if any(s.status is Status.INTERRUPTED for s in solutions):
        return Status.INTERRUPTED
    return next((s.status for s in solutions if s.status not in FINE), solutions[0].status)
