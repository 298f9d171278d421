"""The loop of the decomposition: working set, kernel rows, sub-problem, update; then all that is free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.solution import Solution, Status
from polyopt.kernels import as_gram, square
from polyopt.solvers.clock import Clock, OutOfTimeError
from polyopt.solvers.decomposition.active_set import ActiveSet
from polyopt.solvers.decomposition.cells import beta_of_cells
from polyopt.solvers.decomposition.dual import Dual, balanced, gains, recapped
from polyopt.solvers.decomposition.ledger import Ledger
from polyopt.solvers.decomposition.point import SINGLE_TOL, Point
from polyopt.solvers.decomposition.subproblem import Computed, Held, gathered, solve_pairs
from polyopt.solvers.decomposition.watch import Watch
from polyopt.solvers.decomposition.work import (
    block_work,
    factor_work,
    pair_work,
    pivot_work,
)
from polyopt.solvers.decomposition.working_set import choose
from polyopt.threads import blas_held

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Families
    from polyopt.kernels import Gram, SampleGram

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["Decomposition", "solve_decomposition"]

_WORKING_SET, _SMALL_SET, _PART = 512, 256, 8  # samples at most; of few samples so many, or this part of them
_EASE = 0.1  # a sub-problem is solved to this share of the violation outside it, ...
_PAIR_STEPS = 8  # ... or by so many pair steps for each of its samples, ...
_PIVOTS = 1_000  # ... and then by so many changes of an active set
# Samples of the first working set, for machines of more than _LEAST samples and up to _FEW; twice as many in
# the next, where more than this share of a set moved.
_FIRST_SET, _LEAST, _FEW, _MANY = 96, 512, 2_000, 0.25
# Multiplications of a kernel row up to which a machine of so few samples begins with pair steps over all of
# them; their rows and their number at most: what does not end soon ends sooner with working sets. From this
# violation on all free variables at once are exact in less time, and so to this one whatever the tolerance.
_WALK_ROW, _WALK_ROWS, _WALK_STEPS, _WALK_TOL, _EXACT = 128_000, 128, 1_000, 1e-3, 1e-8
_ENOUGH = 0.3  # share of the violation for which a working set without new kernel rows is worth while
_SHRINK_EVERY = 10  # iterations between two looks at what could be set aside
_SHRINK_TO = 0.8  # share of the active samples that may stay for that to be worth while
_GAP, _WIDEST = 10.0, 0.1  # times the tolerance, and at most: the relative gap of an optimal point
_NEARLY = 1e-3  # relative gap up to which a run that rounding ended is called nearly optimal
_RECORD_EVERY = 10  # iterations between two records
_FIRST_PROBE = 8  # the iteration after which single precision is probed first; then after twice as many, ...
_PROBING = 0.05  # ... where that costs no more than this share of what working sets have cost
_CERTAIN = 0.8  # times the tolerance, in single precision: what its probes let pass is then within it
_REFRESHES = 3  # times that g is computed anew before the rows are, too
_SWITCH = 0.1  # the violation from which on all free variables at once are weighed
_REACH = 2.0  # times the violation: the outputs within which they are looked at
_SLOW = 8.0  # times their cost, spent without them, at which they are tried wherever the point is
_SHARE = 0.5  # they may cost this share of what the working sets have cost
_CELL_TOL = 0.1  # tolerance of the machine of a cell
_CELL_CACHE, _CELL_SHARE = 2.0**26, 1 / 8  # bytes that it has for its rows, or this share
_FEW_PIVOTS = 3  # are foreseen for them, and half as many more as there are samples near a kink


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
        self._point = Point(as_gram(gram), cache_size * 2.0**20)
        self._progress = progress
        self._solved: Dual | None = None  # the last program
        self._last: Samples = np.zeros(0, dtype=np.intp)  # the last working set

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
            objectives are not known (nan). ``status`` is ``OPTIMAL`` only where the violation is within
            `tol` and the relative gap within ten times `tol` (at most 0.1), and rounding cannot hide that
            they are not; where rounding ends the run before, it is ``INACCURATE``, or ``STALLED`` where the
            relative gap is above 1e-3. A limit, or Ctrl-C, keeps the point reached.
        """
        self._clock = Clock(time_limit)
        self._limit = np.inf if max_iter is None else max_iter
        self._iteration = 0
        self._next_probe = _FIRST_PROBE
        self._ledger = Ledger(self._point)
        self._size = _FIRST_SET if _LEAST < self._point.gram.n <= _FEW else _WORKING_SET
        self._watch, self._distrusted = Watch(), 0
        self._history: list[dict[str, float]] = []
        point = self._point
        point.dual = Dual(rows)
        try:
            # Blocks of work have the threads; BLAS's own would change the last digits with their number.
            with blas_held():
                if tol < SINGLE_TOL and point.is_small:
                    self._go_double()
                point.move_to(self._first(start), self._clock.check)
                self._ledger.pace = (point.violation(), 0.0)
                self._solved = point.dual
                self._walk(tol)
                status = self._run(tol)
        except OutOfTimeError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            point.recover()
        point.bring_up_to_date()
        return self._solution(status)

    def _first(self, start: Mapping[str, Vector] | None) -> Vector:
        """β to begin with: from `start`, or from the last solve with caps that moved taken along."""
        dual = self._point.dual
        if start is not None:
            return dual.join(start)
        if self._solved is None:
            few = np.isfinite(self._limit)
            beta = None if few else beta_of_cells(self._point.gram, dual, self._solve_cell, self._clock)
            return dual.start() if beta is None else balanced(beta)
        before = self._solved.rows
        return dual.join(recapped(before.named(before.split(self._point.beta)), before, dual.rows))

    def _solve_cell(self, gram: SampleGram, dual: Dual) -> Vector:
        """β of a few of the samples, solved alone and roughly."""
        cache = max(_CELL_CACHE, self._point.budget * _CELL_SHARE) / 2.0**20
        machine = Decomposition(gram, cache_size=cache)
        found = machine.solve(dual.rows, tol=_CELL_TOL, time_limit=self._clock.left)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return machine._point.beta

    def _run(self, tol: float) -> Status:
        """Working sets to ever smaller violations, all free variables at once in between where it pays."""
        point, aim = self._point, max(tol, _SWITCH)
        while True:
            if aim < SINGLE_TOL and point.violation() > aim:
                self._go_double()
            status = self._decompose(aim)
            if status is Status.CONVERGED:  # too slowly: it may be that another method does better
                self._finish(tol, hurry=True)
                continue
            if status is Status.INACCURATE:  # rounding: all that is left is another method
                self._finish(tol, hurry=True)
                return self._end(tol) if self._is_optimal(tol) else status
            if status is not Status.OPTIMAL:
                return status
            violation, within = point.violation(), tol if point.is_double else _CERTAIN * tol
            if violation <= within and not point.is_trusted(tol, _widest_gap(tol)):
                self._mend()
            elif violation <= within and self._is_optimal(tol):
                return self._end(tol)
            elif over := self._over():
                return over
            elif violation <= 0.0:  # no pair is left to move, and what remains of the gap is rounding
                return Status.INACCURATE
            else:
                # Where only the gap is left, a tenth of the violation should close it.
                goal = within if violation > within else violation / 10
                self._finish(goal)
                aim = max(min(aim, point.violation()) / 3, goal)

    def _is_optimal(self, tol: float) -> bool:
        """Whether violation and gap are within what the tolerance allows."""
        point = self._point
        return point.violation() <= tol and point.gap() <= _widest_gap(tol)

    def _end(self, tol: float) -> Status:
        """What an end within the tolerance is called: optimal, if that can be known."""
        return Status.OPTIMAL if self._point.doubt() <= _widest_gap(tol) else Status.INACCURATE

    def _over(self) -> Status | None:
        if self._iteration >= self._limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self._clock.is_over else None

    def _walk(self, tol: float) -> None:
        """Pair steps over all samples, with kernel rows one at a time, then all free variables at once.

        That is all that many small machines need, and it leaves them exact.
        """
        point, dual = self._point, self._point.dual
        n = point.gram.n
        is_cheap = n <= _FEW and n * point.gram.width <= _WALK_ROW and np.isinf(self._limit)
        aim, violation = max(tol, _WALK_TOL), point.violation()
        factors = point.rows.factors() if is_cheap and point.is_whole and not violation <= tol else None
        if factors is None:
            return
        self._record(violation)
        beta, g = point.beta.copy(), point.g.copy()
        taken, rows = solve_pairs(
            Computed(*factors), point.diagonal, g, beta, dual.phi, aim, _WALK_ROWS, _WALK_STEPS
        )
        if np.isfinite(g).all():  # or else it left the range of numbers
            point.take(beta, g)
        point.rows.computed += rows
        self._ledger.add_set(pair_work(taken, n))
        self._iteration += 1
        self._size = _WORKING_SET
        if point.violation() <= aim:
            self._finish(min(tol, _EXACT), hurry=True)

    # -- working sets --------------------------------------------------------------------------

    def _decompose(self, tol: float) -> Status:
        """Working set after working set, until the violation over all samples is within `tol`."""
        point, dual = self._point, self._point.dual
        while True:
            rows, active = point.rows, point.rows.active
            beta, g, phi = point.beta, point.g, dual.phi
            if not point.is_whole:
                beta, g, phi = beta[active], g[active], phi.of(active)
            rise, fall, m, M = gains(g, beta, phi)
            violation = m - M
            if violation <= tol:
                if self._take_back(tol):
                    continue
                self._record(violation)
                return Status.OPTIMAL
            is_lost = np.isnan(violation)  # some output has left the range of numbers
            if is_lost or (violation <= point.rounding() and self._watch.has_stopped(violation)):
                if self._begin_anew():
                    continue
                return Status.INACCURATE
            if self._iteration % _RECORD_EVERY == 0:
                self._record(violation)
                if self._watch.is_idle(self._history[-1]["bound"]):
                    if self._begin_anew():
                        continue
                    return Status.INACCURATE
                if self._is_slow():
                    return Status.CONVERGED
            if over := self._over():
                return over
            if self._iteration == self._next_probe:
                self._next_probe *= 2
                if point.probe_work() <= _PROBING * self._ledger.spent() and not point.is_trusted(violation):
                    # In single precision a matrix may have lost its definiteness, and the dual its bound.
                    self._mend()
                    continue
            if rows.is_full and self._iteration % _SHRINK_EVERY == 0 and self._set_aside(rise, fall):
                continue
            size = min(self._size, rows.slots, max(_SMALL_SET, point.gram.n // _PART))
            chosen = choose(rise, fall, self._last, size, rows.is_held(active), _ENOUGH * violation)
            slots, part, output = rows.fetch(active[chosen]), beta[chosen], g[chosen]
            goal, steps = _EASE * violation, _PAIR_STEPS * size
            taken, _ = solve_pairs(
                Held(rows.table, slots, chosen), point.diagonal[active[chosen]], output, part,
                phi.of(chosen), goal, size, steps,
            )  # fmt: skip
            cost = pair_work(taken, size)
            if taken == steps:
                # K is all but singular on this set, and pairs crawl: there are better steps.
                K = gathered(rows.table, slots, chosen)
                pivots = self._pivot(K, active[chosen], output, part, goal, _PIVOTS)
                cost += pivots * pivot_work(size // 2, size)
            moved = np.flatnonzero(part != beta[chosen])
            if len(moved) > _MANY * size:
                self._size = min(2 * self._size, _WORKING_SET)
            if not len(moved):  # not even the worst pair: its gain is lost in rounding
                if self._begin_anew():
                    continue
                return Status.INACCURATE
            point.change(active[chosen[moved]], part[moved])
            self._last = chosen
            self._iteration += 1
            self._ledger.add_set(cost)

    def _set_aside(self, rise: Vector, fall: Vector) -> bool:
        """Go on without the samples that violate with no other; whether that is worth it."""
        needed = (rise >= fall.min()) | (fall <= rise.max())
        if not 0 < needed.sum() <= _SHRINK_TO * len(needed):
            return False
        self._set_active(self._point.rows.active[needed])
        return True

    def _take_back(self, tol: float) -> bool:
        """Bring g up to date everywhere, and the samples back that violate; whether any does."""
        point = self._point
        if point.is_whole:
            return False
        point.bring_up_to_date()
        if point.violation() <= tol:
            return False
        needed = point.needed()
        needed[point.rows.active] = True
        self._set_active(np.flatnonzero(needed))
        return True

    def _begin_anew(self) -> bool:
        """Take the rounding out of g, over all samples in double precision; whether for the first time.

        A point whose outputs have left the range of numbers is given up for that of the beginning.
        """
        point = self._point
        if not np.isfinite(point.g).all():
            point.take(point.dual.start(), np.zeros(point.gram.n))
            if point.is_double or self._watch.is_second:
                point.recompute(self._clock.check)
        if self._watch.is_second:
            return False
        self._watch = Watch(is_second=True)
        if not point.is_whole:
            self._set_active(np.arange(point.gram.n))
        point.recompute(self._clock.check) if point.is_double else self._go_double()
        return True

    def _mend(self) -> None:
        """Take the rounding out of g where it matters; where it has come back too often, out of the rows."""
        self._distrusted += 1
        if self._distrusted > _REFRESHES:
            self._go_double()
        else:
            self._point.refresh(tick=self._clock.check)

    def _go_double(self) -> None:
        if not self._point.is_double:
            self._point.go_double(self._clock.check)
            self._last = np.zeros(0, dtype=np.intp)

    def _set_active(self, active: Samples) -> None:
        self._point.bring_up_to_date()  # what is set aside must all be of one date
        self._point.rows.set_active(active)
        self._last = np.zeros(0, dtype=np.intp)  # it holds places among the active samples

    # -- all free variables at once --------------------------------------------------------------

    def _finish(self, tol: float, hurry: bool = False) -> None:
        """One working set of all samples that matter, in double precision, if there is room and it pays.

        It pays where it costs less than working sets would still take, or where these lead nowhere
        (`hurry`); and it may never cost more than a share of what they have cost.
        """
        point, before = self._point, self._point.violation()
        chosen, least, each, few = self._finish_cost(before)
        ledger = self._ledger
        ahead = ledger.rows_ahead(tol)
        allowed = _SHARE * (ledger.spent() + ahead) - ledger.finishing
        if not hurry:
            allowed = min(allowed, ledger.foreseen(before, tol) + ahead)
        room = 32.0 * len(chosen) ** 2
        ledger.mark()
        if not len(chosen) or room > point.budget or least + few * each > allowed or self._clock.is_over:
            return
        if room + point.rows.bytes > point.budget:
            point.forget_rows()
            self._last = np.zeros(0, dtype=np.intp)
        ledger.pace = None
        if not point.is_trusted(tol):
            point.refresh(chosen, self._clock.check)
        beta, g = point.beta[chosen], point.g[chosen]
        pivots = int(min((allowed - least) / each, self._limit - self._iteration))
        found = self._pivot(self._matrix(chosen), chosen, g, beta, tol / 2, pivots)
        self._iteration += found
        ledger.finishing += least + found * each
        moved = beta != point.beta[chosen]
        point.change(chosen[moved], beta[moved])
        point.bring_up_to_date()
        point.g[chosen] = g
        self._record(point.violation())

    def _matrix(self, samples: Samples) -> Vector:
        """``K[samples, samples]`` in double precision, from the rows at hand where they will do."""
        point, rows = self._point, self._point.rows
        if point.is_double and point.is_whole and rows.is_held(samples).all():
            return gathered(rows.table, rows.fetch(samples), samples)
        return square(point.gram, samples)

    def _pivot(self, K: Vector, samples: Samples, g: Vector, beta: Vector, tol: float, pivots: int) -> int:
        """Solve for these samples by an active set, changing g and beta; the pivots taken."""
        dual = self._point.dual
        machine = ActiveSet(K, g, beta, dual.phi.of(samples))
        before = g.copy(), beta.copy()
        machine.run(tol, pivots, self._clock)
        if not (np.isfinite(g).all() and np.isfinite(beta).all()):  # out of the range of numbers
            g[:], beta[:] = before
        return machine.pivots

    def _finish_cost(self, violation: float) -> tuple[Samples, float, float, float]:
        """The samples that would be looked at, their least cost, that of a pivot, and the pivots foreseen."""
        point = self._point
        is_free = point.dual.is_free(point.beta)
        chosen = point.watched(_REACH * abs(violation))
        size, width, free = len(chosen), point.gram.width, int(is_free.sum())
        least = block_work(size, size / 2.0, width) + factor_work(free)
        if not point.is_double:
            least += block_work(int((point.beta != 0).sum()), size, width)
        return chosen, least, pivot_work(free, size), _FEW_PIVOTS + float((~is_free[chosen]).sum()) / 2.0

    def _is_slow(self) -> bool:
        """Whether far more has been spent since all free variables were weighed last than they would cost."""
        point = self._point
        if not point.is_up_to_date:
            return False
        _, least, each, few = self._finish_cost(point.violation())
        return self._ledger.since_mark() > _SLOW * (least + few * each)

    # -- the answer ----------------------------------------------------------------------------

    def _record(self, violation: float) -> None:
        point = self._point
        known = point.is_up_to_date
        record = {
            "iteration": float(self._iteration),
            "seconds": self._clock.seconds,
            "violation": violation,
            **(point.values() if known else {"objective": np.nan, "bound": np.nan}),
            "rows": float(point.rows.computed),
            "hits": float(point.rows.hits),
            "active": float(len(point.rows.active)),
        }
        self._history.append(record)
        if self._progress is not None:
            self._progress(record)

    def _solution(self, status: Status) -> Solution:
        beta, g, dual = self._point.beta, self._point.g, self._point.dual
        if status is not Status.OPTIMAL or not self._history:
            self._record(self._point.violation())
        b = self._point.intercept()
        shrink = dual.rows.shrink(g + b)
        values = self._point.values()
        if status is Status.INACCURATE and not self._point.gap() <= _NEARLY:
            status = Status.STALLED
        bound = values["bound"]
        if not bound <= values["objective"] and not self._point.gap() <= _NEARLY:
            bound = 0.0  # rounding has put it above the objective: that none is below 0 is all that is known
        return Solution(
            status=status,
            primal={"coef": shrink * beta, "b": np.array(shrink * b), "f": shrink * (g + b)},
            duals=dual.rows.named(dual.rows.split(beta)),
            objective=values["objective"],
            bound=bound,
            solver="decomposition",
            iterations=self._iteration,
            solve_time=self._clock.seconds,
            history=tuple(self._history),
        )


def _widest_gap(tol: float) -> float:
    """The relative gap that an optimal point may have."""
    return min(_GAP * tol, _WIDEST)
