"""Alternating minimisation as a problem of rounds: solve for an assignment, reassign, and again.

If reassigning never raises the objective, and a sample moves only for a strict gain, the objective never
rises and the loop ends, because there are finitely many assignments. Where it ends depends on the start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polyopt.base.parallel import Shipped
from polyopt.optim.rounds import Problem, Round
from polyopt.optim.starts import generators_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.solution import Solution

    Assignment = NDArray[np.int64]

__all__ = ["MIN_REL_DECREASE", "AlternatingProblem", "HeldProblem"]

MIN_REL_DECREASE = 1e-6  # of the objective, for which a round may end with a gap that is open


class AlternatingProblem(Shipped, ABC):
    """A problem of :mod:`polyopt.optim.rounds` whose state is an assignment, (n,) int, -1 for none needed.

    The answer has its ``assignment`` among the primal variables.
    """

    unit = "round"

    @abstractmethod
    def solve(self, assignment: Assignment, time_limit: float | None) -> Solution:
        """The optimum for an assignment, its objective evaluated from its point."""

    @abstractmethod
    def reassign(self, point: Solution, assignment: Assignment) -> Assignment:
        """A better assignment for the point, or the same one."""

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts."""
        return generators_of(seed, count)

    def judge(self, state: Assignment) -> None:
        """None: an assignment has no point until its program is solved."""
        return

    def round(self, state: Assignment, time_limit: float | None) -> Round[Assignment]:
        """The optimum for an assignment, and the next assignment; fixed where that is the same."""
        point = self.solve(state, time_limit)
        following = self.reassign(point, state)
        moved = int((following != state).sum())
        record = {"reassigned": float(moved), "occupied": float(len(np.unique(state[state >= 0])))}
        point = replace(point, primal={**point.primal, "assignment": state})
        return Round(point, following, record, is_fixed=moved == 0)


class HeldProblem:
    """Another problem's program for an assignment that stays: one round, and it is at its end.

    problem: the problem.
    """

    unit = "round"

    def __init__(self, problem: Problem[Assignment]):
        self._problem = problem

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness, of which it needs none."""
        return self._problem.generators(seed, count)

    def start(self, rng: np.random.Generator, time_limit: float | None = None) -> Assignment:
        """A start of the problem's own, which is then held."""
        return self._problem.start(rng, time_limit)

    def judge(self, state: Assignment) -> None:
        """None: as of the problem."""
        return

    def round(self, state: Assignment, time_limit: float | None) -> Round[Assignment]:
        """The optimum for the assignment, which stays."""
        found = self._problem.round(state, time_limit)
        return replace(found, following=state, is_fixed=True)
