"""The Newton phase: the dual over all samples that matter at once, by an active set.

Between its kinks φ is linear, so with the variables at kinks fixed there the dual is a quadratic under one
equality, and its optimum over the free variables F is one linear system:

    [K_FF  1] [d]   [t − g_F]
    [1'    0] [b] = [   0   ]        t the slopes of φ there.

The step d ends where the first variable meets a kink: it is fixed there, and leaves the factor of K_FF. After
a whole step the worst violators at kinks join the factor. So the dual never falls, and a few systems suffice
where pair steps are slow because K_FF is nearly singular.

As Σ d = 0, the same constant may be added to all of K_FF, which avoids a singular factor for a kernel of low
rank. If K_FF is still singular, a small multiple of the identity is added, a proximal term: the step length
is the best for K itself, and the gradient is updated with K itself.

The Cholesky factor is computed once, and updated when variables become free or fixed: the upper triangular U
with U'U = K_FF / unit + 1 + ridge I, its columns in the order of F.

The phase runs if it costs less than working sets have cost, and would still cost (:class:`NewtonPhase`). The
same active set finishes subproblems of working sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from formulations.families import Pieces
from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.linalg.kernels import Samples, submatrix
from polyopt.margin.decomposition.state import DEFAULTS, History, Options, State, gather_square
from polyopt.native.library import kernel

_DONE, _STUCK, _GOING = 0, 1, 2  # ends of pivots as in C; any other is a factor without space for a variable
_BYTES_PER_ENTRY = 4 * 8.0  # of the matrix: itself, its factor, and two copies during the factorisation

# Up to so many pivots from the factor U of the free variables F; `numbers` has their count before and after,
# and the pivots taken. `room` (8, q) and `places` (2, q) are work arrays. Returns the end.
_pivot = kernel(
    "newton_pivots",
    "K: f8 (q, q); U!: f8 (p, p); F!: i8 (p); unit: f8; ridge: f8; g!: f8 (q); beta!: f8 (q); "
    "ends: f8 (k, q); slopes: f8 (l, q); pieces!: f8 (h, q); tol: f8; pivots: i8; numbers!: i8 (e); "
    "room!: f8 (v, q); places!: i8 (c, q)",
    returns="i8",
)


class ActiveSet:
    """The dual over q samples with all others fixed; g and beta are changed in place.

    K (q, q): the kernel between the samples.
    g, beta (q,): their part of Kβ over all samples, and of β.
    pivots: taken so far.
    """

    def __init__(self, K: Vector, g: Vector, beta: Vector, phi: Pieces, options: Options = DEFAULTS):
        self._K, self._g, self._beta, self._phi = np.ascontiguousarray(K), g, beta, phi
        self._options, self.pivots = options, 0
        self._unit = max(float(K.diagonal().mean()), np.finfo(float).tiny)
        self._ridge = options.first_ridge  # in this unit, as the constant added
        self._free = np.flatnonzero((beta != phi.ends).all(axis=0))
        self._pieces = _pieces(self._free, beta, phi)

    def run(self, tol: float, pivots: int, clock: Clock) -> bool:
        """Pivot until the violation over the q samples is within `tol`; return True if it is.

        It may end before: after so many pivots, by the clock, or if rounding prevents progress.
        """
        q, options = len(self._g), self._options
        while not clock.is_over and self.pivots < pivots:
            n = len(self._free)
            size = min(q, n + options.block_columns)
            U = np.zeros((size, size))
            if not self._factorise(U, clock):
                return False
            F, numbers = np.full(size, -1, dtype=np.int64), np.array([n, 0])
            F[:n] = self._free
            work = np.empty((8, q)), np.empty((2, q), dtype=np.int64)
            while True:
                per_check = 1 + int(options.work_per_check / (4.0 * n * n + q * n + q))
                end = _pivot(
                    self._K, U, F, self._unit, self._ridge, self._g, self._beta, *self._phi, self._pieces,
                    tol, min(pivots - self.pivots, per_check), numbers, *work,
                )  # fmt: skip
                n, taken = numbers.tolist()
                self._free = F[:n].copy()
                self.pivots += taken
                if end == _DONE:
                    return True
                if end == _STUCK:  # shorten steps in directions that are rounding only
                    self._ridge *= options.ridge_factor
                if end != _GOING or clock.is_over or self.pivots >= pivots:
                    break
        return False

    def _factorise(self, U: Vector, clock: Clock) -> bool:
        """Put the factor of K_FF into U with the least ridge that works; False if none does in time.

        Columns are factorised in blocks, so that no call takes long.
        """
        F, n, block = self._free, len(self._free), self._options.block_columns
        while self._ridge < self._options.max_ridge:
            L = self._K.take(F, 0).take(F, 1).T  # symmetric, and so in LAPACK's order
            L /= self._unit
            L += 1.0
            L[np.diag_indices(n)] += self._ridge
            for start in range(0, n, block):
                if clock.is_over:
                    return False
                end = min(start + block, n)
                if start:
                    L[start:, start:end] -= L[start:, :start] @ L[start:end, :start].T
                corner, failed = dpotrf(L[start:end, start:end], lower=1, clean=1)
                if failed:
                    break
                L[start:end, start:end] = corner
                L[end:, start:end] = dtrsm(1.0, corner, L[end:, start:end], side=1, lower=1, trans_a=1)
            else:
                U[:n, :n] = L.T  # only the upper triangle is read
                return True
            self._ridge *= self._options.ridge_factor
        return False


def _pieces(F: Samples, beta: Vector, phi: Pieces) -> Vector:
    """Slope and ends of the pieces of φ in which these variables are, shape (3, q)."""
    ends, slopes = phi
    piece, last = (ends[:, F] < beta[F]).sum(axis=0), len(ends) - 1
    found = np.zeros((3, len(beta)))
    found[0, F] = slopes[piece, F]
    found[1, F] = np.where(piece > 0, ends[piece - 1, F], -np.inf)
    found[2, F] = np.where(piece <= last, ends[np.minimum(piece, last), F], np.inf)
    return found


def solve_pivots(
    K: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float, pivots: int, clock: Clock,
    options: Options = DEFAULTS,
) -> int:  # fmt: skip
    """Solve for q samples by an active set, changing g and beta; return the pivots taken.

    g and beta are restored if they overflow.
    """
    active_set = ActiveSet(K, g, beta, phi, options)
    before = g.copy(), beta.copy()
    active_set.run(tol, pivots, clock)
    if not (np.isfinite(g).all() and np.isfinite(beta).all()):
        g[:], beta[:] = before
    return active_set.pivots


class _Estimate(NamedTuple):
    """The samples of a phase, and the work that it is expected to take."""

    samples: Samples
    fixed: float  # work without pivots
    pivot: float  # work of a pivot
    pivots: float  # number of pivots

    @property
    def total(self) -> float:
        """Work of the phase."""
        return self.fixed + self.pivots * self.pivot


class NewtonPhase:
    """One active set over all samples that matter, in double precision, and the work that decides on it."""

    def __init__(self, state: State, history: History):
        self._state, self._history, self._options = state, history, state.options
        self._rows_before, self._sets, self._steps = state.cache.computed, 0, 0.0
        self._phase_work = 0.0  # work of this phase
        self._work_at_estimate = 0.0  # work of the working sets when the phase was last considered
        self._last_forecast: tuple[float, float] | None = (
            None  # violation, and work so far, at the last forecast
        )

    # -- work of the working sets -------------------------------------------------------------

    def add_set(self, size: int, steps: int, pivots: int = 0) -> None:
        """Count a working set of this size, with its pair steps and pivots."""
        self._sets += 1
        self._steps += 30.0 * steps * size + pivots * self._pivot_work(size // 2, size)

    def start_forecast(self) -> None:
        """Begin to measure how fast working sets reduce the violation."""
        self._last_forecast = self._state.violation(), 0.0

    def _working_set_work(self) -> float:
        """Work of the working sets so far: kernel rows, steps, and 1e4 operations a sample for the rest."""
        cache, n = self._state.cache, self._state.gram.n
        rows = (cache.computed - self._rows_before) * self._row_work(cache.dtype)
        return rows + self._sets * (5e7 + 1e4 * n) + self._steps

    def _double_rows_ahead(self, tol: float) -> float:
        """Work of the rows in double precision that working sets will need for `tol`."""
        state = self._state
        if state.is_double or tol >= self._options.min_single_violation:
            return 0.0
        return int((state.beta != 0).sum()) * self._row_work(np.float64)

    def _forecast(self, violation: float, tol: float) -> float:
        """Work of the working sets to come, at the pace since the last forecast; 0 if unknown."""
        last, self._last_forecast = self._last_forecast, (violation, self._working_set_work())
        if last is None or not 0.0 < violation < last[0]:
            return 0.0
        fall = float(np.log(last[0]) - np.log(violation))
        if fall <= 0.0:  # they differ by rounding only
            return 0.0
        return (self._last_forecast[1] - last[1]) * float(np.log(violation / tol)) / fall

    # -- work of this phase -------------------------------------------------------------------

    def _block_work(self, rows: float, columns: float) -> float:
        return 2.0 * rows * columns * (self._state.gram.entry_cost + self._options.work_per_read)

    def _row_work(self, dtype: DTypeLike) -> float:
        return self._block_work(1, self._state.gram.n) * np.dtype(dtype).itemsize / 8.0

    def _pivot_work(self, free: int, size: int) -> float:
        """Work of two triangular solves, and of the outputs' update."""
        read = self._options.work_per_read * (1.0 if free <= 400 else 3.0)  # the factor leaves the cache
        return read * (1.5 * free**2 + free * size / 4.0 + 10.0 * size)

    def _estimate(self, violation: float) -> _Estimate:
        state = self._state
        is_free = state.dual.is_free(state.beta)
        samples = state.near_margin(self._options.newton_reach * abs(violation))
        size, free = len(samples), int(is_free.sum())
        factor = free**3 / 3.0 + 3.0 * self._options.work_per_read * free**2
        fixed = self._block_work(size, size / 2.0) + factor
        if not state.is_double:
            fixed += self._block_work(int((state.beta != 0).sum()), size)
        kinks = float((~is_free[samples]).sum())  # every second one becomes free
        return _Estimate(samples, fixed, self._pivot_work(free, size), 0.5 * kinks)

    # -- the phase ----------------------------------------------------------------------------

    def is_overdue(self) -> bool:
        """Return True if working sets have cost far more than this phase would since it was considered."""
        state = self._state
        if not state.is_up_to_date:
            return False
        estimate = self._estimate(state.violation()).total
        return self._working_set_work() - self._work_at_estimate > self._options.overdue_cost_ratio * estimate

    def run(self, tol: float, *, force: bool = False) -> None:
        """Solve for all samples that matter, if memory allows and it costs less than working sets to come.

        force: run even if working sets might cost less. In any case the phase may only cost a share of the
            work of working sets.
        """
        state, history = self._state, self._history
        before = state.violation()
        estimate = self._estimate(before)
        samples, ahead = estimate.samples, self._double_rows_ahead(tol)
        allowed = self._options.max_newton_cost_ratio * (self._working_set_work() + ahead) - self._phase_work
        if not force:
            allowed = min(allowed, self._forecast(before, tol) + ahead)
        memory = _BYTES_PER_ENTRY * len(samples) ** 2
        self._work_at_estimate = self._working_set_work()
        is_too_expensive = memory > state.budget or estimate.total > allowed
        if not len(samples) or is_too_expensive or history.clock.is_over:
            return
        if memory + state.cache.bytes > state.budget:
            state.update_all()
            state.clear_cache()
        self._last_forecast = None
        if not state.is_accurate(tol):
            state.recompute_at(samples, history.clock.check)
        beta, g = state.beta[samples], state.g[samples]
        limit = int(min((allowed - estimate.fixed) / estimate.pivot, history.limit - history.iteration))
        K, phi = self._matrix(samples), state.dual.phi.of(samples)
        pivots = solve_pivots(K, g, beta, phi, 0.5 * tol, limit, history.clock, self._options)
        history.iteration += pivots
        self._phase_work += estimate.fixed + pivots * estimate.pivot
        moved = beta != state.beta[samples]
        state.change(samples[moved], beta[moved])
        state.update_all()
        state.set_outputs(samples, g)
        history.record(state.violation())

    def _matrix(self, samples: Samples) -> Vector:
        """``K[samples, samples]`` in double precision, from cached rows if they are complete."""
        state, cache = self._state, self._state.cache
        if state.is_double and state.is_whole and cache.is_cached(samples).all():
            return gather_square(cache.table, cache.fetch(samples), samples)
        return submatrix(state.gram, samples)
