"""The loop of the decomposition: working set, kernel rows, sub-problem, update; then the polish."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.recovery import best_intercept
from formulations.solution import Solution, Status
from polyopt.kernels import as_gram, square
from polyopt.solvers.clock import Clock
from polyopt.solvers.decomposition.dual import Dual, recapped, slopes
from polyopt.solvers.decomposition.point import NEAR, Point
from polyopt.solvers.decomposition.polish import polish
from polyopt.solvers.decomposition.subproblem import solve_pairs
from polyopt.solvers.decomposition.working_set import choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.kernels import Gram

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["Decomposition", "solve_decomposition"]

_WORKING_SET = 512  # samples
_EASE = 0.1  # a sub-problem is solved to this share of the violation outside it, ...
_PAIR_STEPS = 100_000  # ... or to so many pair steps
_ENOUGH = 0.3  # share of the violation for which a working set without new kernel rows is worth while
_SHRINK_EVERY = 10  # iterations between two looks at what could be set aside
_SHRINK_TO = 0.8  # share of the active samples that may stay for that to be worth while
_NEARLY = 1e-3  # relative gap up to which a run that rounding ended is called nearly optimal
_RECORD_EVERY = 10  # iterations between two records
_FIRST_PROBE = 8  # the iteration after which single precision is probed first; then after twice as many
_SINGLE_TOL = 1e-5  # single precision leads no closer than this
_REFRESHES = 3  # times that g is computed anew before the rows are, too
# Newton's method is weighed from this violation on: whether it costs less than working sets would still
# take, at their pace; where less than _FINE is asked, it takes over from _DUE on whatever it costs.
_SWITCH, _DUE, _FINE = 0.3, 1e-2, 1e-4
_REACH = 0.5  # share of the violation within which outputs are watched by Newton's method
_OVERDUE = 3.0  # times its cost, spent without it, at which Newton's method is tried wherever the point is
_PER_PAIR = 30.0  # what a pair step costs per sample of the working set
# What an iteration costs besides its kernel rows, in the time of so many operations.
_OVERHEAD, _PER_SAMPLE = 5e7, 1e4


def solve_decomposition(
    gram: Gram | Any,
    y: Vector,
    C: Vector,
    B: float = np.inf,
    *,
    tol: float = 1e-3,
    max_iter: int | None = None,
    time_limit: float | None = None,
    cache_size: float = 500.0,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve the dual of the SVM (B infinite) or of the Relative Margin Machine by decomposition.

    Parameters
    ----------
    gram : Gram or ndarray of shape (n, n)
        Positive semidefinite Gram matrix; by blocks for large n.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    C : ndarray of shape (n,)
        Cost per sample.
    B : float
        Bound on the outputs.
    tol, max_iter, time_limit, cache_size, progress
        As in :class:`Decomposition`.

    Returns
    -------
    Solution
        As from :meth:`Decomposition.solve`.
    """
    machine = Decomposition(gram, y, cache_size=cache_size, progress=progress)
    return machine.solve(C, B, tol=tol, max_iter=max_iter, time_limit=time_limit)


class Decomposition:
    """A decomposition solver that keeps its point and its kernel rows from one solve to the next.

    Parameters
    ----------
    gram : Gram or ndarray of shape (n, n)
        Positive semidefinite Gram matrix.
    y : ndarray of shape (n,)
        Labels -1 and +1, both present.
    cache_size : float
        Megabytes (2^20 bytes) for kernel rows and for Newton's method.
    progress : callable, optional
        Called with every record of the history as it is made.
    """

    def __init__(
        self,
        gram: Gram | Any,
        y: Vector,
        *,
        cache_size: float = 500.0,
        progress: Callable[[dict[str, float]], None] | None = None,
    ):
        self._point = Point(as_gram(gram), np.asarray(y, dtype=float), cache_size * 2.0**20)
        self._progress = progress
        self._is_fresh = True
        self._last: Samples = np.zeros(0, dtype=np.intp)  # the last working set

    def solve(
        self,
        C: Vector,
        B: float = np.inf,
        *,
        tol: float = 1e-3,
        max_iter: int | None = None,
        time_limit: float | None = None,
        start: tuple[Vector, Vector, Vector] | None = None,
    ) -> Solution:
        """Solve for these costs and this bound, from the point of the last solve.

        Parameters
        ----------
        C : ndarray of shape (n,)
            Cost per sample.
        B : float
            Bound on the outputs; infinite for the SVM.
        tol : float
            Largest violation m - M of the optimality conditions, in units of the outputs. From 1e-2
            downwards Newton's method does the last part, if `cache_size` has room for it.
        max_iter : int, optional
            Working sets and Newton steps at most.
        time_limit : float, optional
            Seconds.
        start : tuple of ndarray, optional
            alpha, lam and lam_star to start from, each of shape (n,); by default those of the last
            solve, or zeros. They need not be feasible.

        Returns
        -------
        Solution
            ``primal`` has ``coef`` (expansion coefficients, shape (n,)), ``b`` and ``f`` (the outputs of
            the training samples, shape (n,)), scaled back within ±B where the tolerance left them
            outside. ``duals`` has ``margin`` (alpha) and, for finite B, ``bound_above`` (lam) and
            ``bound_below`` (lam_star). ``objective`` is the primal objective and ``bound`` the dual one.
            ``history`` has records of both, the violation, the kernel rows computed so far, the rows
            found in the cache (hits) and the samples not set aside (active); while some are, the
            objectives are not known (nan). A limit, or Ctrl-C, keeps the point reached.
        """
        self._clock = Clock(time_limit)
        self._tol = tol
        self._limit = np.inf if max_iter is None else max_iter
        self._iteration = 0
        self._next_probe = _FIRST_PROBE
        self._pair_steps = self._work_at_newton = 0.0
        self._pace: tuple[float, float] | None = (
            None  # violation, and work done, when Newton was weighed last
        )
        self._history: list[dict[str, float]] = []
        point = self._point
        last, point.dual = point.dual, Dual(point.dual.y, C, B)
        try:
            point.move_to(self._first(last, start))
            self._is_fresh = False
            status = self._run(tol)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
            # It may have come between β and g, or while a row was written.
            point.forget_rows()
            point.recompute()
        point.bring_up_to_date()
        return self._solution(status)

    def _first(self, last: Dual, start: tuple[Vector, Vector, Vector] | None) -> Vector:
        """β to begin with: from `start`, or from the last solve with caps that moved taken along."""
        dual = self._point.dual
        if start is not None:
            return dual.join(*start)
        if self._is_fresh:
            return dual.start()
        alpha, lam, lam_star = last.split(self._point.beta)
        return dual.join(recapped(alpha, last.C, dual.C), lam, lam_star)

    def _run(self, tol: float) -> Status:
        """Working sets down to a violation at which Newton's method pays, then that; until within `tol`."""
        point, aim, distrusted = self._point, max(tol, _SWITCH), 0
        while True:
            if aim < _SINGLE_TOL:
                self._go_double()
            status = self._decompose(aim)
            if status is Status.CONVERGED:  # not there, but Newton's method would have cost less
                self._polish(tol, overdue=True)
                continue
            if status is not Status.OPTIMAL:
                return status
            violation = point.violation()
            if not point.is_trusted(max(aim, tol) if violation > tol else tol):
                distrusted += 1
                point.refresh() if distrusted <= _REFRESHES else self._go_double()
            elif violation <= tol:
                return Status.OPTIMAL
            elif violation <= point.rounding():
                return Status.INACCURATE
            elif over := self._over():
                return over
            elif not self._polish(tol):
                aim = max(aim / 3, tol)

    def _over(self) -> Status | None:
        if self._iteration >= self._limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self._clock.is_over else None

    # -- working sets --------------------------------------------------------------------------

    def _decompose(self, tol: float) -> Status:
        """Working set after working set, until the violation over all samples is within `tol`."""
        point, dual = self._point, self._point.dual
        while True:
            rows, active = point.rows, point.rows.active
            beta, g = point.beta[active], point.g[active]
            lo, hi, y = dual.lo[active], dual.hi[active], dual.y[active]
            up, down = slopes(beta, lo, hi, y, dual.B)
            rise, fall = up - g, down - g
            violation = float(rise.max() - fall.min())
            if violation <= max(tol, point.rounding()):
                if self._take_back(tol):
                    continue
                self._record(violation)
                return Status.OPTIMAL
            if self._iteration % _RECORD_EVERY == 0:
                self._record(violation)
                if self._newton_is_overdue():
                    return Status.CONVERGED
            if over := self._over():
                return over
            if self._iteration == self._next_probe:
                self._next_probe *= 2
                if not point.is_trusted(violation):
                    # In single precision a matrix may have lost its definiteness, and the dual its bound.
                    self._go_double()
                    continue
            if rows.is_full and self._iteration % _SHRINK_EVERY == 0 and self._set_aside(rise, fall):
                continue
            size, enough = min(_WORKING_SET, rows.slots), max(_ENOUGH * violation, self._tol)
            chosen = choose(rise, fall, self._last, size, rows.is_held(active), enough)
            slots, part = rows.fetch(active[chosen]), beta[chosen]
            self._pair_steps += size * solve_pairs(
                rows.table, slots, chosen, point.diagonal[active[chosen]], g[chosen], part,
                lo[chosen], hi[chosen], y[chosen], dual.B, max(_EASE * violation, self._tol / 2), _PAIR_STEPS,
            )  # fmt: skip
            moved = np.flatnonzero(part != beta[chosen])
            if not len(moved):  # not even the worst pair: its gain is lost in rounding
                return Status.INACCURATE
            point.change(active[chosen[moved]], part[moved])
            self._last = chosen
            self._iteration += 1

    def _set_aside(self, rise: Vector, fall: Vector) -> bool:
        """Go on without the samples that violate with no other; whether that is worth it."""
        needed = (rise >= fall.min()) | (fall <= rise.max())
        if needed.sum() > _SHRINK_TO * len(needed):
            return False
        self._set_active(self._point.rows.active[needed])
        return True

    def _take_back(self, tol: float) -> bool:
        """Bring g up to date everywhere, and the samples back that violate; whether any does."""
        point = self._point
        if point.is_whole:
            return False
        point.bring_up_to_date()
        if point.violation() <= max(tol, point.rounding()):
            return False
        needed = point.needed()
        needed[point.rows.active] = True
        self._set_active(np.flatnonzero(needed))
        return True

    def _go_double(self) -> None:
        if not self._point.is_double:
            self._point.go_double()
            self._last = np.zeros(0, dtype=np.intp)

    def _set_active(self, active: Samples) -> None:
        self._point.bring_up_to_date()  # what is set aside must all be of one date
        self._point.rows.set_active(active)
        self._last = np.zeros(0, dtype=np.intp)  # it holds places among the active samples

    # -- Newton's method -----------------------------------------------------------------------

    def _polish(self, tol: float, overdue: bool = False) -> bool:
        """Newton's method on the samples that matter; whether it had room, paid, and brought anything."""
        point, before = self._point, self._point.violation()
        watched, free = self._newton_size(before)
        room = 8.0 * (len(watched) ** 2 + 1.25 * free**2)
        due = overdue or (tol < _FINE and before < _DUE)
        pays = self._newton_work(len(watched), free) <= self._foreseen(before, tol)
        if room > point.budget or not (due or pays):
            return False
        if room + point.rows.bytes > point.budget:
            point.forget_rows()
            self._last = np.zeros(0, dtype=np.intp)
        self._work_at_newton, self._pace = self._work(), None
        K = square(point.gram, watched)
        beta = point.beta[watched]
        g = K @ beta
        self._iteration += polish(
            K, beta, g, point.dual, watched, tol, self._clock, self._limit - self._iteration
        )
        del K
        moved = beta != point.beta[watched]
        point.change(watched[moved], beta[moved])
        point.bring_up_to_date()
        point.g[watched] = g
        self._record(point.violation())
        return point.violation() < 0.5 * before

    def _work(self) -> float:
        """Arithmetic so far without kernel rows, in floating-point operations of double precision.

        Hardly any rows are still to come once Newton's method is weighed.
        """
        each = _OVERHEAD + _PER_SAMPLE * self._point.gram.n
        return self._iteration * each + self._pair_steps * _PER_PAIR

    def _foreseen(self, violation: float, tol: float) -> float:
        """Arithmetic that working sets would still need, at their pace since they were asked last."""
        last, self._pace = self._pace, (violation, self._work())
        if last is None or last[0] <= violation:
            return 0.0
        return (self._pace[1] - last[1]) * np.log(violation / tol) / np.log(last[0] / violation)

    def _newton_is_overdue(self) -> bool:
        """Whether far more has been spent since Newton's method was tried last than it would cost."""
        point = self._point
        if not point.is_up_to_date:
            return False
        watched, free = self._newton_size(point.violation())
        spent = self._work() - self._work_at_newton
        return 8.0 * max(len(watched), free) ** 2 < point.budget and spent > _OVERDUE * self._newton_work(
            len(watched), free
        )

    def _newton_size(self, violation: float) -> tuple[Samples, int]:
        """The samples that Newton's method would watch, and how many are free."""
        point = self._point
        free = (point.beta != point.dual.lo) & (point.beta != point.dual.hi)
        return point.watched(max(NEAR, _REACH * violation)), int(free.sum())

    def _newton_work(self, watched: int, free: int) -> float:
        """Arithmetic of Newton's method: a block of the kernel, and some two factorisations."""
        return 2.0 * watched**2 * self._point.gram.width + 2.0 * free**3 / 3.0

    # -- the answer ----------------------------------------------------------------------------

    def _record(self, violation: float) -> None:
        point = self._point
        known = point.is_up_to_date
        record = {
            "iteration": float(self._iteration),
            "seconds": self._clock.seconds,
            "violation": violation,
            **(point.dual.values(point.beta, point.g) if known else {"objective": np.nan, "bound": np.nan}),
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
        b = best_intercept(g, dual.y, dual.C, dual.B)
        shrink = dual.shrink(g + b)
        names = ("margin", "bound_above", "bound_below") if np.isfinite(dual.B) else ("margin",)
        values = dual.values(beta, g)
        gap = values["objective"] - values["bound"]
        if status is Status.INACCURATE and gap > _NEARLY * abs(values["bound"]):
            status = Status.STALLED
        return Solution(
            status=status,
            primal={"coef": shrink * beta, "b": np.array(shrink * b), "f": shrink * (g + b)},
            duals=dict(zip(names, dual.split(beta), strict=False)),
            objective=values["objective"],
            bound=values["bound"],
            solver="decomposition",
            iterations=self._iteration,
            solve_time=self._clock.seconds,
            history=tuple(self._history),
        )
