"""What a solve has cost so far, in operations, and what working sets would still cost."""

from __future__ import annotations

import numpy as np

from polyopt.solvers.decomposition.point import SINGLE_TOL, Point
from polyopt.solvers.decomposition.work import row_work, set_work

__all__ = ["Ledger"]


class Ledger:
    """The accounts of a solve.

    point: the point, which counts its kernel rows.

    sets: working sets so far.
    steps: what their pair steps and pivots have cost.
    finishing: what all free variables at once have cost.
    pace: the violation, and what had been spent, when they were weighed last.
    """

    def __init__(self, point: Point):
        self._point, self._rows_before, self._at_finish = point, point.rows.computed, 0.0
        self.sets, self.steps, self.finishing = 0, 0.0, 0.0
        self.pace: tuple[float, float] | None = None

    def add_set(self, steps: float) -> None:
        """A working set, whose steps cost so much."""
        self.sets, self.steps = self.sets + 1, self.steps + steps

    def spent(self) -> float:
        """What working sets have cost: their kernel rows, their steps, and the rest."""
        gram, rows = self._point.gram, self._point.rows
        computed = (rows.computed - self._rows_before) * row_work(gram, rows.dtype)
        return computed + self.sets * set_work(gram.n) + self.steps

    def mark(self) -> None:
        """All free variables are weighed now."""
        self._at_finish = self.spent()

    def since_mark(self) -> float:
        """What working sets have cost since then."""
        return self.spent() - self._at_finish

    def rows_ahead(self, tol: float) -> float:
        """What working sets will pay for rows in double precision, where they need them for `tol`."""
        if self._point.is_double or tol >= SINGLE_TOL:
            return 0.0
        return int((self._point.beta != 0).sum()) * row_work(self._point.gram, np.float64)

    def foreseen(self, violation: float, tol: float) -> float:
        """What working sets would still cost, at their pace since they were asked last."""
        last, self.pace = self.pace, (violation, self.spent())
        if last is None or not 0.0 < violation < last[0]:
            return 0.0
        pace = float(np.log(last[0]) - np.log(violation))
        if pace <= 0.0:  # they differ by rounding alone
            return 0.0
        return (self.pace[1] - last[1]) * float(np.log(violation / tol)) / pace
