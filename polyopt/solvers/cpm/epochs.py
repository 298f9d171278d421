"""The loop around the epochs of a stochastic method: when it measures, and when it is done.

Measuring an objective costs about as much as an epoch. It happens after the fifth epoch, then each time that
the epochs have grown by a half, and at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from formulations.clock import interrupted
from formulations.solution import Solution, Status
from polyopt.watch import tell

if TYPE_CHECKING:
    from formulations.clock import Clock
    from formulations.matrices import Vector

__all__ = ["Epochs"]

_FIRST = 5  # epochs before the objective is measured
_SPARING = 1.5  # epochs grow by this factor between two measurements
_AGREEING = 3  # measurements that must agree for a run to have settled


class Epochs(ABC):
    """Epochs over one set of samples, and the best answer among those measured.

    best (K, m+1): the answer.
    least: the least objective that was measured.
    measured: all of them.
    history: A record of each epoch.
    """

    best: Vector
    least: float
    measured: list[float]
    history: list[dict[str, float]]

    @abstractmethod
    def epoch(self, clock: Clock) -> None:
        """One pass through the samples in random order, or as much of it as time allows."""

    @abstractmethod
    def measure(self) -> None:
        """Measure, and keep the answer if it is the best."""

    def has_settled(self, tol: float) -> bool:
        """Whether the last measurements, half of the run apart, differ by no more than `tol`, relative."""
        last = self.measured[-_AGREEING:]
        return len(last) == _AGREEING and max(last) <= (1.0 + tol) * self.least

    def run(self, clock: Clock, max_iter: int, tol: float) -> Status:
        """Epochs until the measurements have settled, or a limit or Ctrl-C.

        clock: the limit.
        max_iter: epochs at most.
        """
        due = _FIRST
        try:
            for epoch in range(1, max_iter + 1):
                self.epoch(clock)
                over = clock.is_over
                if epoch >= due or epoch == max_iter or over:
                    self.measure()
                    due = max(epoch + 1, int(_SPARING * epoch))
                tell(self.history[-1])
                if over or self.has_settled(tol):
                    return Status.TIME_LIMIT if over else Status.CONVERGED
        except KeyboardInterrupt:
            self.measure()
            return interrupted()
        return Status.ITERATION_LIMIT

    def solution(self, status: Status, objective: float, solver: str, clock: Clock) -> Solution:
        """The best answer.

        status: how the run ended.
        objective: of the answer.
        solver: the method.
        clock: of the run.
        """
        return Solution(
            status=status,
            primal={"W": self.best},
            duals={},
            objective=objective,
            bound=None,
            solver=solver,
            iterations=len(self.history),
            solve_time=clock.seconds,
            history=tuple(self.history),
        )
