"""Machines that keep their point from one solve to the next, and the order of a solve.

A solve alternates working sets (:mod:`~polyopt.margin.decomposition.loop`) to ever smaller violations with
steps of all free variables at once where these pay, until the point is optimal or a limit is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.arguments import tolerance, whole_or_none
from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Solution, Status
from polyopt.base.threads import blas_held
from polyopt.linalg.kernels import as_gram
from polyopt.margin.decomposition.cells import beta_of_cells
from polyopt.margin.decomposition.dual import Dual, balanced, recapped
from polyopt.margin.decomposition.ledger import History, Ledger
from polyopt.margin.decomposition.loop import Finish, Loop, Repairs, walk
from polyopt.margin.decomposition.point import Point, Shrinking
from polyopt.margin.decomposition.rows import SINGLE_TOL

if TYPE_CHECKING:
    from formulations.families import Families
    from formulations.language.types import Vector
    from polyopt.linalg.kernels import Gram, SampleGram

__all__ = ["Decomposition", "solve_decomposition"]

_MEGABYTE = 2.0**20  # bytes
_CELL_TOL = 0.1  # tolerance of the machine of a cell
_CELL_CACHE, _CELL_SHARE = 64.0, 1 / 8  # megabytes that it has for its rows, or this share of all
_SINGLE_TOL_RATIO = 0.8  # times the tolerance, in single precision: what its probes let pass is within it
_FIRST_AIM = 0.1  # violation from which on all free variables at once are weighed
_AIM_RATIO = 3.0  # of two violations at which they are weighed


def solve_decomposition(
    gram: Gram | Any,
    rows: Families,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    time_limit: float | None = None,
    cache_size: float = 500.0,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve the dual of a hinge-type machine by decomposition: the SVM, the Relative Margin Machine.

    Parameters
    ----------
    gram : Gram or ndarray of shape (n, n)
        Positive semidefinite Gram matrix; by blocks for large n.
    rows : Families
        Its families of rows, such as ``hinge_families(y, C, B)``; labels of both classes.
    tol, max_iter, time_limit, cache_size, progress
        As in :class:`Decomposition`.

    Returns
    -------
    Solution
        As from :meth:`Decomposition.solve`.
    """
    machine = Decomposition(gram, cache_size=cache_size, progress=progress)
    return machine.solve(rows, tol=tol, max_iter=max_iter, time_limit=time_limit)


class Decomposition:
    """A decomposition solver that keeps its point and its kernel rows from one solve to the next.

    Parameters
    ----------
    gram : Gram or ndarray of shape (n, n)
        Positive semidefinite Gram matrix.
    cache_size : float
        Megabytes (2^20 bytes) for kernel rows, and for the matrix of all free variables at the end.
    progress : callable, optional
        Called with every record of the history as it is made.
    """

    def __init__(
        self,
        gram: Gram | Any,
        *,
        cache_size: float = 500.0,
        progress: Callable[[dict[str, float]], None] | None = None,
    ):
        self._point = Point(as_gram(gram), cache_size * _MEGABYTE)
        self._shrinking = Shrinking(self._point)
        self._progress = progress
        self._solved: Dual | None = None  # the last program

    def solve(
        self,
        rows: Families,
        *,
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        start: Mapping[str, Vector] | None = None,
    ) -> Solution:
        """Solve for these families of rows, from the point of the last solve.

        Parameters
        ----------
        rows : Families
            The families of rows of the machine, such as ``hinge_families(y, C, B)``; finite costs.
        tol : float
            Largest violation m - M of the optimality conditions, in units of the outputs. The relative
            duality gap must be within ten times `tol`, and within 0.1, as well: where large costs make a
            small violation dear, the run goes on.
        max_iter : int, optional
            Working sets, and steps with all free variables at once, at most.
        time_limit : float, optional
            Seconds.
        start : mapping of str to ndarray of shape (n,), optional
            Multipliers to start from, by family; by default those of the last solve, or zeros. They need not
            be feasible.

        Returns
        -------
        Solution
            ``primal`` has ``coef`` (expansion coefficients, shape (n,)), ``b`` and ``f`` (the outputs of
            the training samples, shape (n,)), scaled back within the bounds where the tolerance left them
            outside. ``duals`` has the multipliers of each family. ``objective`` is the primal objective and
            ``bound`` the dual one.
            ``history`` has records of both, the violation, the kernel rows computed so far, the rows
            found in the cache (hits) and the samples not set aside (active); while some are, the
            objectives are not known (nan). ``status`` is ``SOLVED`` only where the violation is within
            `tol` and the relative gap within ten times `tol` (at most 0.1), and rounding cannot hide that
            they are not; where rounding ends the run before, it is ``INACCURATE``, or ``STALLED`` where the
            relative gap is above 1e-3. A limit, or Ctrl-C, keeps the point reached.
        """
        clock, tol = Clock(time_limit), tolerance(tol)
        most = whole_or_none("max_iter", max_iter)
        history = History(self._point, clock, np.inf if most is None else most, self._progress)
        run = self._run = Run(self._point, self._shrinking, history)
        point = self._point
        point.dual = Dual(rows)
        try:
            # Blocks of work have the threads; BLAS's own would change the last digits with their number.
            with blas_held():
                if tol < SINGLE_TOL and point.is_small:
                    run.repairs.go_double()
                point.move_to(self._first(start, history), clock.check)
                self._solved = point.dual
                status = run.solve(tol)
        except OutOfTimeError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = interrupted()
            point.recover()
        point.bring_up_to_date()
        return history.answer(status)

    def _first(self, start: Mapping[str, Vector] | None, history: History) -> Vector:
        """β to begin with: from `start`, or from the last solve with caps that moved taken along."""
        dual = self._point.dual
        if start is not None:
            return dual.join(start)
        if self._solved is None:
            if np.isfinite(history.limit):
                return dual.start()

            def solve_cell(gram: SampleGram, dual: Dual) -> Vector:
                return self._solve_cell(gram, dual, history.clock)

            beta = beta_of_cells(self._point.gram, dual, solve_cell, history.clock)
            return dual.start() if beta is None else balanced(beta)
        before = self._solved.rows
        return dual.join(recapped(before.named(before.split(self._point.beta)), before, dual.rows))

    def _solve_cell(self, gram: SampleGram, dual: Dual, clock: Clock) -> Vector:
        """β of a few of the samples, solved alone and roughly."""
        cache = max(_CELL_CACHE, self._point.budget / _MEGABYTE * _CELL_SHARE)
        machine = Decomposition(gram, cache_size=cache)
        found = machine.solve(dual.rows, tol=_CELL_TOL, time_limit=clock.left)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return machine._point.beta


class Run:
    """One solve.

    ledger: its cost.
    repairs: the remedies against rounding.
    """

    def __init__(self, point: Point, shrinking: Shrinking, history: History):
        self._point, self._history = point, history
        self.ledger = Ledger(point)
        self.repairs = Repairs(point, shrinking, history.clock)
        self._finish = Finish(point, history, self.ledger, shrinking)
        self._loop = Loop(point, history, self.ledger, shrinking, self.repairs, self._finish)

    def solve(self, tol: float) -> Status:
        """Go on from the point; return the status reached."""
        self.ledger.pace = (self._point.violation(), 0.0)
        walk(self._point, self._history, self.ledger, self._finish, tol)
        return self._alternate(tol)

    def _alternate(self, tol: float) -> Status:
        """Working sets to ever smaller violations, all free variables at once in between where it pays."""
        point, aim = self._point, max(tol, _FIRST_AIM)
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
            violation, within = point.violation(), tol if point.is_double else _SINGLE_TOL_RATIO * tol
            if violation <= within and not point.is_trusted(tol, _widest_gap(tol)):
                self.repairs.mend(tol)
            elif violation <= within and self._is_optimal(tol):
                return self._end(tol)
            elif over := self._history.over():
                return over
            elif violation <= 0.0:  # no pair is left to move, and what remains of the gap is rounding
                return Status.INACCURATE
            else:
                goal = within if violation > within else violation / _AIM_RATIO
                self._finish.run(goal)
                aim = max(min(aim, point.violation()) / _AIM_RATIO, goal)

    def _is_optimal(self, tol: float) -> bool:
        """Return True if violation and gap are within what the tolerance allows."""
        point = self._point
        return point.violation() <= tol and point.gap() <= _widest_gap(tol)

    def _end(self, tol: float) -> Status:
        """Status of an end within the tolerance: optimal if rounding cannot hide that it is not."""
        return Status.SOLVED if self._point.doubt() <= _widest_gap(tol) else Status.INACCURATE


def _widest_gap(tol: float) -> float:
    """The relative gap that an optimal point may have."""
    return min(10.0 * tol, 0.1)
