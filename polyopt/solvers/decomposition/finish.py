"""All free variables at once: Newton's method over the samples that matter, where it pays.

What it would cost is weighed against what working sets have cost and would still cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.kernels import square
from polyopt.solvers.decomposition.active_set import solve_pivots
from polyopt.solvers.decomposition.subproblem import gathered
from polyopt.solvers.decomposition.work import block_work, factor_work, pivot_work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.decomposition.history import History
    from polyopt.solvers.decomposition.ledger import Ledger
    from polyopt.solvers.decomposition.point import Point
    from polyopt.solvers.decomposition.shrinking import Shrinking

    Samples = NDArray[np.intp]

__all__ = ["Finish"]

_REACH = 2.0  # times the violation: samples that would move if the intercept did by so much are looked at
_SHARE = 0.5  # of what the working sets have cost: what all free variables at once may cost
_SLOW = 8.0  # times their cost, spent without them, at which they are tried wherever the point is
_FEW_PIVOTS = 3  # are foreseen for them, ...
_PER_KINK = 0.5  # ... and so many more for each of their samples at a kink
_BYTES = 4 * 8.0  # for an entry of their matrix: itself, its factor, and two copies on the way to that
_WITHIN = 0.5  # share of the tolerance to which they are solved


class _Estimate(NamedTuple):
    """The samples that would be looked at, their least cost, that of a pivot, and the pivots foreseen."""

    samples: Samples
    least: float
    each: float
    pivots: float

    @property
    def total(self) -> float:
        return self.least + self.pivots * self.each


class Finish:
    """One working set of all samples that matter, in double precision.

    point: where the run stands.
    history, ledger: its steps and limits, and its accounts.
    shrinking: its active samples.
    """

    def __init__(self, point: Point, history: History, ledger: Ledger, shrinking: Shrinking):
        self._point, self._history, self._ledger, self._shrinking = point, history, ledger, shrinking

    def run(self, tol: float, hurry: bool = False) -> None:
        """Solve for all samples that matter, if there is room and it pays.

        It pays where it costs less than working sets would still take, or where these lead nowhere
        (`hurry`); and it may never cost more than a share of what they have cost.
        """
        point, ledger, history = self._point, self._ledger, self._history
        before = point.violation()
        cost = self._estimate(before)
        chosen = cost.samples
        ahead = ledger.rows_ahead(tol)
        allowed = _SHARE * (ledger.spent() + ahead) - ledger.finishing
        if not hurry:
            allowed = min(allowed, ledger.foreseen(before, tol) + ahead)
        room = _BYTES * len(chosen) ** 2
        ledger.mark()
        if not len(chosen) or room > point.budget or cost.total > allowed or history.clock.is_over:
            return
        if room + point.rows.bytes > point.budget:
            point.forget_rows()
            self._shrinking.forget_last()
        ledger.pace = None
        if not point.is_trusted(tol):
            point.compute(chosen, history.clock.check)
        beta, g = point.beta[chosen], point.g[chosen]
        pivots = int(min((allowed - cost.least) / cost.each, history.limit - history.iteration))
        found = solve_pivots(
            self._matrix(chosen), g, beta, point.dual.phi.of(chosen), _WITHIN * tol, pivots, history.clock
        )
        history.iteration += found
        ledger.finishing += cost.least + found * cost.each
        moved = beta != point.beta[chosen]
        point.change(chosen[moved], beta[moved])
        point.bring_up_to_date()
        point.put(chosen, g)
        history.record(point.violation())

    def is_overdue(self) -> bool:
        """Whether far more has been spent since all free variables were weighed last than they would cost."""
        point = self._point
        if not point.is_up_to_date:
            return False
        return self._ledger.since_mark() > _SLOW * self._estimate(point.violation()).total

    def _estimate(self, violation: float) -> _Estimate:
        point = self._point
        is_free = point.dual.is_free(point.beta)
        chosen = point.watched(_REACH * abs(violation))
        size, width, free = len(chosen), point.gram.width, int(is_free.sum())
        least = block_work(size, size / 2.0, width) + factor_work(free)
        if not point.is_double:
            least += block_work(int((point.beta != 0).sum()), size, width)
        pivots = _FEW_PIVOTS + float((~is_free[chosen]).sum()) * _PER_KINK
        return _Estimate(chosen, least, pivot_work(free, size), pivots)

    def _matrix(self, samples: Samples) -> Vector:
        """``K[samples, samples]`` in double precision, from the rows at hand where they will do."""
        point, rows = self._point, self._point.rows
        if point.is_double and point.is_whole and rows.is_held(samples).all():
            return gathered(rows.table, rows.fetch(samples), samples)
        return square(point.gram, samples)
