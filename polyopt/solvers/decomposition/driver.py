"""The loop of the decomposition: working set, kernel rows, sub-problem, update; then the polish."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.recovery import best_intercept
from formulations.solution import Solution, Status
from polyopt.kernels import MatrixGram, chunks, square, stream
from polyopt.solvers.clock import Clock
from polyopt.solvers.decomposition.dual import Dual, recapped, slopes
from polyopt.solvers.decomposition.polish import polish
from polyopt.solvers.decomposition.rows import Rows
from polyopt.solvers.decomposition.subproblem import solve_pairs
from polyopt.solvers.decomposition.working_set import choose

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from polyopt.kernels import Gram

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["Decomposition", "solve_decomposition"]

_WORKING_SET = 512  # samples
_DOUBLE = 2000  # up to so many samples, double precision throughout: the rows cost next to nothing
_SINGLE_TOL = 1e-5  # single precision leads no closer than this
_SWITCH = 0.3  # the violation from which on Newton's method may take over
_NEAR = 0.05  # samples whose outputs are so near to where they would count are watched by the polish
_NEWTON_PAYS = 1e-4  # to reach less than this, Newton's method pays whatever it costs, ...
_DUE = 1e-2  # ... from this violation on; before, and otherwise, when it costs no more than what was done
_OVERHEAD = 5e7  # what an iteration costs besides its kernel rows, in the time of so many operations
_REACH = 0.5
_MUCH = 0.3  # share of the violation for which a working set without new kernel rows is worth while
_EASE = 0.1  # a sub-problem is solved to this share of the violation outside it
_PAIR_STEPS = 100_000  # pair steps in one sub-problem
_SHRINK_EVERY = 10  # iterations between two looks at what could be set aside
_RECORD_EVERY = 10  # iterations between two records
_REFRESHES = 3  # times that g is computed anew before the rows are, too
_PROBE = 128  # samples whose outputs are computed in double precision to measure the rounding


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
        self.gram: Gram = MatrixGram(gram) if isinstance(gram, np.ndarray) else gram
        self.y = np.asarray(y, dtype=float)
        self._budget = cache_size * 2.0**20
        self._progress = progress
        self._diagonal = np.ascontiguousarray(self.gram.diagonal())
        self._dual = Dual(self.y, np.zeros(self.gram.n))
        self._is_fresh = True
        self._beta, self._g = np.zeros(self.gram.n), np.zeros(self.gram.n)
        self._rows = self._new_rows(
            np.float32 if self.gram.n > _DOUBLE and self.gram.is_single() else np.float64
        )

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
        self._limit = np.inf if max_iter is None else max_iter
        self._iteration = 0
        self._history: list[dict[str, float]] = []
        last, self._dual = self._dual, Dual(self.y, C, B)
        try:
            self._move_to(self._first_point(last, start))
            status = self._run(tol)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        self._bring_back()
        return self._solution(status)

    # -- the point -----------------------------------------------------------------------------

    def _first_point(self, last: Dual, start: tuple[Vector, Vector, Vector] | None) -> Vector:
        """β to begin with: from `start`, or from the last solve with caps that moved taken along."""
        dual = self._dual
        if start is not None:
            return dual.join(*start)
        if self._is_fresh:
            return dual.start()
        alpha, lam, lam_star = last.split(self._beta)
        return dual.join(recapped(alpha, last.C, dual.C), lam, lam_star)

    def _move_to(self, beta: Vector) -> None:
        """Go to β, and g = Kβ with it."""
        self._set_active(np.arange(self.gram.n))
        change = beta - self._beta
        self._g += self._product(np.flatnonzero(change), change)
        self._beta, self._is_fresh = beta, False
        self._settled = beta.copy()

    def _product(self, samples: Samples, change: Vector) -> Vector:
        """What a change of these samples' β adds to g over the active samples, through the cache."""
        total = np.zeros(len(self._rows.active))
        for part in chunks(samples, self._rows.slots):
            self._rows.fetch(part)
            total += self._rows.combine(part, change[part])
        return total

    def _new_rows(self, dtype: DTypeLike) -> Rows:
        rows = Rows(self.gram, self._budget, dtype)
        self._last = np.zeros(0, dtype=np.intp)
        return rows

    def _set_active(self, active: Samples) -> None:
        if len(active) != len(self._rows.active) or (active != self._rows.active).any():
            self._rows.set_active(active)
            self._last = np.zeros(0, dtype=np.intp)

    def _bring_back(self) -> None:
        """Compute g where it was left behind, for the samples that are set aside."""
        aside = np.setdiff1d(np.arange(self.gram.n), self._rows.active, assume_unique=True)
        change = self._beta - self._settled
        moved = np.flatnonzero(change)
        if len(aside) and len(moved):
            panel, weights = self.gram.panel(moved, self._rows.dtype), change[moved].astype(self._rows.dtype)
            for part in chunks(aside):
                self._g[part] += panel.rows(part) @ weights
        self._settled = self._beta.copy()

    # -- the loop ------------------------------------------------------------------------------

    def _run(self, tol: float) -> Status:
        """Working sets down to a violation at which Newton's method pays, then that; until within `tol`."""
        aim, distrusted = max(tol, _SWITCH), 0
        while True:
            if aim < _SINGLE_TOL:
                self._go_double()
            status = self._decompose(aim)
            if status is not Status.OPTIMAL:
                return status
            if not self._is_trusted(tol if aim == tol else aim):
                distrusted += 1
                self._refresh() if distrusted <= _REFRESHES else self._go_double()
            elif self._violation() <= tol:
                return Status.OPTIMAL
            elif self._violation() <= self._rounding():
                return Status.INACCURATE
            elif over := self._over():
                return over
            elif not self._polish(tol):
                aim = max(aim / 3, tol)

    def _over(self) -> Status | None:
        if self._iteration >= self._limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self._clock.is_over else None

    def _violation(self) -> float:
        m, M = self._dual.violation(self._beta, self._g)
        return m - M

    def _rounding(self) -> float:
        """The violation under which double precision cannot see: outputs are sums of terms of this size."""
        return 4.0 * float(np.finfo(float).eps * np.abs(self._beta).sum() * self._diagonal.max())

    def _decompose(self, tol: float) -> Status:
        """Working set after working set, until the violation over all samples is within `tol`."""
        dual, rows = self._dual, self._rows
        while True:
            active = rows.active
            beta, g = self._beta[active], self._g[active]
            lo, hi, y = dual.lo[active], dual.hi[active], dual.y[active]
            up, down = slopes(beta, lo, hi, y, dual.B)
            rise, fall = up - g, down - g
            m, M = float(rise.max()), float(fall.min())
            if m - M <= max(tol, self._rounding()):
                if len(active) < self.gram.n and self._take_back(tol):
                    continue
                self._record(self._violation())
                return Status.OPTIMAL
            if self._iteration % _RECORD_EVERY == 0:
                self._record(m - M)
            if over := self._over():
                return over
            if rows.is_full and self._iteration % _SHRINK_EVERY == 0 and self._set_aside(rise, fall, m, M):
                continue
            size, enough = min(_WORKING_SET, rows.slots), max(_MUCH * (m - M), tol)
            chosen = choose(rise, fall, self._last, size, rows.is_held(active), enough)
            slots = rows.fetch(active[chosen])
            part, ease = beta[chosen], max(_EASE * (m - M), tol / 2)
            solve_pairs(
                rows.table, slots, chosen, self._diagonal[active[chosen]], g[chosen], part,
                lo[chosen], hi[chosen], y[chosen], dual.B, ease, _PAIR_STEPS,
            )  # fmt: skip
            change = part - beta[chosen]
            moved = np.flatnonzero(change)
            self._g[active] += rows.combine(active[chosen[moved]], change[moved])
            self._beta[active[chosen]] = part
            if len(active) == self.gram.n:
                self._settled[active[chosen]] = part
            self._last = chosen
            self._iteration += 1

    def _set_aside(self, rise: Vector, fall: Vector, m: float, M: float) -> bool:
        """Go on without the samples that violate with no other; whether that is worth it."""
        needed = (rise >= M) | (fall <= m)
        if needed.sum() > 0.8 * len(needed):
            return False
        self._set_active(self._rows.active[needed])
        return True

    def _take_back(self, tol: float) -> bool:
        """Bring g up to date everywhere, and those samples back that violate; whether any does."""
        self._bring_back()
        rise, fall, _ = self._gains()
        m, M = float(rise.max()), float(fall.min())
        if m - M <= tol:
            return False
        needed = (rise >= M) | (fall <= m)
        needed[self._rows.active] = True
        self._set_active(np.flatnonzero(needed))
        return True

    # -- precision -----------------------------------------------------------------------------

    def _is_trusted(self, tol: float) -> bool:
        """Whether rounding in g is too small to matter within `tol`, measured on some samples.

        An error matters where it is more than a tenth of `tol`, unless the output lies so far from
        where it would count that it cannot get there.
        """
        if self._rows.dtype == np.float64:
            return True
        rise, fall, middle = self._gains()
        far = np.minimum(middle - rise, fall - middle)
        worst = np.argsort(far)[: _PROBE // 2]
        spread = np.linspace(0, self.gram.n - 1, _PROBE // 2).astype(np.intp)
        probe, support = np.union1d(worst, spread), np.flatnonzero(self._beta)
        exact = self.gram.panel(probe, np.float64).rows(support).T @ self._beta[support]
        return bool((np.abs(exact - self._g[probe]) <= np.maximum(tol / 10, far[probe] / 5)).all())

    def _refresh(self) -> None:
        """Compute g in double precision where it is near enough to matter; rows stay single.

        From here on, single precision has to carry only what β still changes.
        """
        near, support = self._watched(_NEAR), np.flatnonzero(self._beta)
        panel = self.gram.panel(support, np.float64)
        for part in chunks(near):
            self._g[part] = panel.rows(part) @ self._beta[support]

    def _gains(self) -> tuple[Vector, Vector, float]:
        """φ'(β+) − g, φ'(β−) − g, and the middle between m and M: an intercept."""
        up, down = slopes(self._beta, self._dual.lo, self._dual.hi, self.y, self._dual.B)
        rise, fall = up - self._g, down - self._g
        return rise, fall, float(rise.max() + fall.min()) / 2

    def _watched(self, near: float) -> Samples:
        """The samples that have a β, or would have one if the intercept moved by `near`."""
        rise, fall, middle = self._gains()
        return np.flatnonzero((self._beta != 0) | (rise > middle - near) | (fall < middle + near))

    def _go_double(self) -> None:
        """Continue in double precision, with g computed anew."""
        if self._rows.dtype == np.float64:
            return
        computed, hits = self._rows.computed, self._rows.hits
        self._rows = self._new_rows(np.float64)
        self._rows.computed, self._rows.hits = computed, hits
        self._g = stream(self.gram, self._beta)
        self._settled = self._beta.copy()

    def _polish(self, tol: float) -> bool:
        """Newton's method on the samples that matter; whether it had room and brought anything."""
        dual, before = self._dual, self._violation()
        watched = self._watched(max(_NEAR, _REACH * before))
        up, down = slopes(self._beta, dual.lo, dual.hi, self.y, dual.B)
        free = int((up == down).sum())
        room = 8.0 * (len(watched) ** 2 + 1.25 * free**2)
        due = tol < _NEWTON_PAYS and before < _DUE
        if room > self._budget or (not due and self._newton_work(len(watched), free) > self._work()):
            return False
        if room + self._rows.bytes > self._budget:
            self._rows = self._new_rows(self._rows.dtype)
        K = square(self.gram, watched)
        beta = self._beta[watched]
        g = K @ beta
        self._iteration += polish(K, beta, g, dual, watched, tol, self._clock, self._limit - self._iteration)
        del K
        change = np.zeros(self.gram.n)
        change[watched] = beta - self._beta[watched]
        self._set_active(np.arange(self.gram.n))
        self._g += self._product(np.flatnonzero(change), change)
        self._beta[watched], self._g[watched] = beta, g
        self._settled = self._beta.copy()
        self._record(self._violation())
        return self._violation() < 0.5 * before

    def _work(self) -> float:
        """Arithmetic so far, in floating-point operations of double precision."""
        return self._rows.computed * self.gram.n * self.gram.width + self._iteration * _OVERHEAD

    def _newton_work(self, watched: int, free: int) -> float:
        """Arithmetic of Newton's method: a block of the kernel, and some two factorisations."""
        return 2.0 * watched**2 * self.gram.width + 2.0 * free**3 / 3.0

    # -- the answer ----------------------------------------------------------------------------

    def _record(self, violation: float) -> None:
        values = {"objective": np.nan, "bound": np.nan}
        if len(self._rows.active) == self.gram.n or np.array_equal(self._settled, self._beta):
            values = self._dual.values(self._beta, self._g)
        record = {
            "iteration": float(self._iteration),
            "seconds": self._clock.seconds,
            "violation": violation,
            **values,
            "rows": float(self._rows.computed),
            "hits": float(self._rows.hits),
            "active": float(len(self._rows.active)),
        }
        self._history.append(record)
        if self._progress is not None:
            self._progress(record)

    def _solution(self, status: Status) -> Solution:
        dual = self._dual
        if status is not Status.OPTIMAL or not self._history:
            self._record(self._violation())
        b = best_intercept(self._g, self.y, dual.C, dual.B)
        shrink = dual.shrink(self._g + b)
        names = ("margin", "bound_above", "bound_below") if np.isfinite(dual.B) else ("margin",)
        values = dual.values(self._beta, self._g)
        return Solution(
            status=status,
            primal={"coef": shrink * self._beta, "b": np.array(shrink * b), "f": shrink * (self._g + b)},
            duals=dict(zip(names, dual.split(self._beta), strict=False)),
            objective=values["objective"],
            bound=values["bound"],
            solver="decomposition",
            iterations=self._iteration,
            solve_time=self._clock.seconds,
            history=tuple(self._history),
        )
