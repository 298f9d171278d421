"""One solve: what is done in which order, until the point is optimal or nothing leads closer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formulations.solution import Status
from polyopt.solvers.decomposition.finish import Finish
from polyopt.solvers.decomposition.ledger import Ledger
from polyopt.solvers.decomposition.loop import Loop
from polyopt.solvers.decomposition.point import SINGLE_TOL
from polyopt.solvers.decomposition.repairs import Repairs
from polyopt.solvers.decomposition.walk import walk

if TYPE_CHECKING:
    from polyopt.solvers.decomposition.history import History
    from polyopt.solvers.decomposition.point import Point
    from polyopt.solvers.decomposition.shrinking import Shrinking

__all__ = ["CERTAIN", "Run"]

_GAP, _WIDEST = 10.0, 0.1  # times the tolerance, and at most: the relative gap of an optimal point
CERTAIN = 0.8  # times the tolerance, in single precision: what its probes let pass is then within it
_SWITCH = 0.1  # the violation from which on all free variables at once are weighed, ...
_NARROWER = 3.0  # ... and again whenever it has fallen to one in so many
_CLOSING = 10.0  # where only the gap is left, the violation divided by this should close it


class Run:
    """One solve.

    point: where it begins.
    shrinking: the active samples.
    history: where its steps are counted and limited.

    ledger: its accounts.
    repairs: what it does about rounding.
    """

    def __init__(self, point: Point, shrinking: Shrinking, history: History):
        self._point, self._history = point, history
        self.ledger = Ledger(point)
        self.repairs = Repairs(point, shrinking, history.clock)
        self._finish = Finish(point, history, self.ledger, shrinking)
        self._loop = Loop(point, history, self.ledger, shrinking, self.repairs, self._finish)

    def solve(self, tol: float) -> Status:
        """Go on from the point; how it ended."""
        self.ledger.pace = (self._point.violation(), 0.0)
        if walk(self._point, self._history, self.ledger, self._finish, tol):
            self._loop.take_large_sets()
        return self._alternate(tol)

    def _alternate(self, tol: float) -> Status:
        """Working sets to ever smaller violations, all free variables at once in between where it pays."""
        point, aim = self._point, max(tol, _SWITCH)
        while True:
            if aim < SINGLE_TOL and point.violation() > aim:
                self.repairs.go_double()
            status = self._loop.run(aim)
            if status is Status.CONVERGED:  # too slowly: it may be that another method does better
                self._finish.run(tol, hurry=True)
                continue
            if status is Status.INACCURATE:  # rounding: all that is left is another method
                self._finish.run(tol, hurry=True)
                return self._end(tol) if self._is_optimal(tol) else status
            if status is not Status.SOLVED:
                return status
            violation, within = point.violation(), tol if point.is_double else CERTAIN * tol
            if violation <= within and not point.is_trusted(tol, _widest_gap(tol)):
                self.repairs.mend(tol)
            elif violation <= within and self._is_optimal(tol):
                return self._end(tol)
            elif over := self._history.over():
                return over
            elif violation <= 0.0:  # no pair is left to move, and what remains of the gap is rounding
                return Status.INACCURATE
            else:
                goal = within if violation > within else violation / _CLOSING
                self._finish.run(goal)
                aim = max(min(aim, point.violation()) / _NARROWER, goal)

    def _is_optimal(self, tol: float) -> bool:
        """Whether violation and gap are within what the tolerance allows."""
        point = self._point
        return point.violation() <= tol and point.gap() <= _widest_gap(tol)

    def _end(self, tol: float) -> Status:
        """What an end within the tolerance is called: optimal, if that can be known."""
        return Status.SOLVED if self._point.doubt() <= _widest_gap(tol) else Status.INACCURATE


def _widest_gap(tol: float) -> float:
    """The relative gap that an optimal point may have."""
    return min(_GAP * tol, _WIDEST)
