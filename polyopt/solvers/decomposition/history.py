"""How far a run has come: its steps and seconds, their limits, its records, and the answer made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from formulations.solution import Solution, Status

if TYPE_CHECKING:
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.decomposition.point import Point

__all__ = ["History"]

_NEARLY = 1e-3  # relative gap up to which a run that rounding ended is called nearly optimal


class History:
    """The record of a run.

    point: where the run stands.
    clock: its seconds, and their limit.
    limit: working sets, and steps with all free variables at once, at most.
    progress: called with every record as it is made.

    iteration: working sets and steps so far.
    """

    def __init__(
        self, point: Point, clock: Clock, limit: float, progress: Callable[[dict[str, float]], None] | None
    ):
        self._point, self._progress = point, progress
        self.clock, self.limit, self.iteration = clock, limit, 0
        self._records: list[dict[str, float]] = []

    def over(self) -> Status | None:
        """The limit that is reached, if one is."""
        if self.iteration >= self.limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.clock.is_over else None

    def record(self, violation: float) -> dict[str, float]:
        """Make a record of the point, whose violation this is; the objectives where they are known."""
        point = self._point
        known = point.is_up_to_date
        record = {
            "iteration": float(self.iteration),
            "seconds": self.clock.seconds,
            "violation": violation,
            **(point.values() if known else {"objective": np.nan, "bound": np.nan}),
            "rows": float(point.rows.computed),
            "hits": float(point.rows.hits),
            "active": float(len(point.rows.active)),
        }
        self._records.append(record)
        if self._progress is not None:
            self._progress(record)
        return record

    def answer(self, status: Status) -> Solution:
        """The point, scaled back within the bounds where the tolerance left it outside, and how it ended."""
        point, beta, g, dual = self._point, self._point.beta, self._point.g, self._point.dual
        if status is not Status.SOLVED or not self._records:
            self.record(point.violation())
        b = point.intercept()
        shrink = dual.rows.shrink(g + b)
        values = point.values()
        if status is Status.INACCURATE and not point.gap() <= _NEARLY:
            status = Status.STALLED
        bound = values["bound"]
        if not bound <= values["objective"] and not point.gap() <= _NEARLY:
            bound = 0.0  # rounding has put it above the objective: that none is below 0 is all that is known
        return Solution(
            status=status,
            primal={"coef": shrink * beta, "b": np.array(shrink * b), "f": shrink * (g + b)},
            duals=dual.rows.named(dual.rows.split(beta)),
            objective=values["objective"],
            bound=bound,
            solver="decomposition",
            iterations=self.iteration,
            solve_time=self.clock.seconds,
            history=tuple(self._records),
        )
