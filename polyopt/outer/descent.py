"""Descent over faces as a problem of rounds: one step of a method after the other.

The methods of the polyhedral family supply the steps: successive linear programs (PC-SLP), one convex program
for each cell (SPLA1, the exact Polyceptron), expectation and maximisation (PLUME). Where a step cannot raise
the objective, the loop descends; the step that SPLA1's paper takes can, so its runs are patient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from formulations.solution import Solution, Status
from polyopt.jobs import Shipped
from polyopt.outer.rounds import Round
from polyopt.outer.starts import generators_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Faces = NDArray[np.float64]

__all__ = ["DescentProblem"]


class DescentProblem(Shipped, ABC):
    """A problem of :mod:`polyopt.outer.rounds` whose state are faces W (K, m+1), bias last.

    Its objective is never negative.
    """

    unit = "step"

    @abstractmethod
    def value(self, W: Faces) -> float:
        """The objective at W, to be minimised."""

    @abstractmethod
    def step(self, W: Faces, time_limit: float | None) -> Solution:
        """The next point: primal ``W``, multipliers where there are any, its objective by :meth:`value`.

        Its status is of the step: a limit in it ends the run.
        """

    @abstractmethod
    def record(self, W: Faces) -> dict[str, float]:
        """What the history records of W besides the objective, such as the number of faces in use."""

    def generators(self, seed: int, count: int) -> list[np.random.Generator]:
        """Sources of randomness for `count` starts."""
        return generators_of(seed, count)

    def judge(self, state: Faces) -> Round[Faces] | None:
        """The faces as a point; None where only faces that a step has made are one."""
        point = Solution(Status.CONVERGED, {"W": state}, {}, self.value(state), None, "start")
        return Round(point, state, self.record(state))

    def round(self, state: Faces, time_limit: float | None) -> Round[Faces]:
        """A step; an objective of 0 is the least there is."""
        point = self.step(state, time_limit)
        W = point["W"]
        return Round(point, W, self.record(W), is_fixed=point.objective == 0.0)
