"""An active-set method for the dual, and the Newton phase: this method for all samples near the margin.

The dual is max Σ φ_i(β_i) − ½ β'Kβ with Σ β_i = 0, with the kernel matrix K. Each φ_i is concave and
piecewise linear, with one-sided derivatives φ'_i. g = Kβ are the scores. β is optimal if
m = max φ'_i(β_i +) − g_i does not exceed M = min φ'_i(β_i −) − g_i; m − M is the violation (see ``state``).

Variables β_i at breakpoints of φ_i are fixed. For the free variables F, with the slopes t of φ, the dual is a
quadratic program under one equality. Its solution β_F + d and the intercept b satisfy one linear system:

    [K_FF  1] [d]   [t − g_F]
    [1'    0] [b] = [   0   ]

The step d is shortened to where the first variable meets a breakpoint; this variable is then fixed there.
After a full step, the fixed variables that violate optimality most become free. Each such change is a pivot.
The dual never decreases. If K_FF is nearly singular, a few pivots replace many pair steps (changes of two
variables, as in SMO).

Since Σ d = 0, adding one constant to all entries of K_FF does not change d; the addition avoids a singular
matrix for a kernel of low rank. If K_FF is still singular, a multiple of the identity is added, the ridge,
which is a proximal term. The step length is still optimal for K itself, and g is updated with K itself.

The Cholesky factor is computed once and then updated: the upper triangular U with
U'U = K_FF / unit + 11' + ridge I, where `unit` is the mean diagonal and the columns are in the order of F.

The phase (:class:`NewtonPhase`) is run if its estimated work is less than a fraction of the work of the
working sets (subproblems of some hundred samples) so far, and less than the work forecast for them.
The method (:class:`ActiveSet`) also finishes the subproblem of a working set if pair steps are too slow.
"""

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

# Exit codes of `_pivot`: optimal; no progress; all pivots taken; U has no space for a further variable.
_DONE, _STUCK, _GOING, _FULL = 0, 1, 2, 3


# Take at most `pivots` pivots with the factor U of the free variables; return the exit code. "!" marks arrays
# that are changed. K: kernel matrix. U: factor, with space for p free variables. F: free variables, then -1.
# ends, slopes: breakpoints of φ (k rows), and slopes between them (l = k + 1). pieces: see `_linear_pieces`
# (h = 3). counts: free variables, pivots taken (e = 2). work (v = 8), positions (c = 2): scratch.
_pivot = kernel(
    "newton_pivots",
    "K: f8 (q, q); U!: f8 (p, p); F!: i8 (p); unit: f8; ridge: f8; g!: f8 (q); beta!: f8 (q); "
    "ends: f8 (k, q); slopes: f8 (l, q); pieces!: f8 (h, q); tol: f8; pivots: i8; counts!: i8 (e); "
    "work!: f8 (v, q); positions!: i8 (c, q)",
    returns="i8",
)


class ActiveSet:
    """The active-set method over q samples, with β of all others fixed; changes g and beta in place.

    K (q, q): the kernel matrix of the samples.
    g, beta (q,): their scores and their entries of β.
    phi: their φ_i, with the breakpoints ``phi.ends`` and the slopes between them.
    pivots: number of pivots so far.
    """

    def __init__(self, K: Vector, g: Vector, beta: Vector, phi: Pieces, options: Options = DEFAULTS):
        self._K, self._g, self._beta, self._phi = np.ascontiguousarray(K), g, beta, phi
        self._options, self.pivots = options, 0
        self._unit = max(float(K.diagonal().mean()), np.finfo(float).tiny)
        self._ridge = options.first_ridge  # relative to the unit
        self._free = np.flatnonzero((beta != phi.ends).all(axis=0))
        self._pieces = _linear_pieces(self._free, beta, phi)

    def run(self, tol: float, max_pivots: int, clock: Clock) -> bool:
        """Pivot until the violation m − M over the q samples is within `tol`; return True if it is.

        Return False if there were `max_pivots` in all, time is over, or rounding prevents progress.
        """
        q, options = len(self._g), self._options
        while not clock.is_over and self.pivots < max_pivots:
            n = len(self._free)
            size = min(q, n + options.block_columns)  # with space for variables that become free
            U = np.zeros((size, size))
            if not self._factorise(U, clock):
                return False
            F, counts = np.full(size, -1, dtype=np.int64), np.array([n, 0])
            F[:n] = self._free
            buffers = np.empty((8, q)), np.empty((2, q), dtype=np.int64)
            while True:  # pivot with the updated factor; the clock is checked after `per_check` pivots
                per_check = 1 + int(options.work_per_check / (4.0 * n * n + q * n + q))
                exit_code = _pivot(
                    self._K, U, F, self._unit, self._ridge, self._g, self._beta, *self._phi, self._pieces,
                    tol, min(max_pivots - self.pivots, per_check), counts, *buffers,
                )  # fmt: skip
                n, taken = counts.tolist()
                self._free = F[:n].copy()
                self.pivots += taken
                if exit_code == _DONE:
                    return True
                if exit_code == _STUCK:  # a larger ridge shortens steps in directions that are rounding only
                    self._ridge *= options.ridge_factor
                if exit_code in (_STUCK, _FULL) or clock.is_over or self.pivots >= max_pivots:
                    break  # factorise again: with a larger ridge, or more columns
        return False

    def _factorise(self, U: Vector, clock: Clock) -> bool:
        """Compute `U` with the least sufficient ridge; return False if no ridge suffices, or time is over.

        L = U' is computed in place of the matrix, by blocks of columns; the clock is checked between blocks.
        """
        F, n, block = self._free, len(self._free), self._options.block_columns
        while self._ridge < self._options.max_ridge:
            L = self._K.take(F, 0).take(F, 1).T  # K is symmetric; the transpose is in LAPACK's order
            L /= self._unit
            L += 1.0
            L[np.diag_indices(n)] += self._ridge
            for start in range(0, n, block):
                if clock.is_over:
                    return False
                end = min(start + block, n)
                if start:  # subtract the products of the columns factorised before
                    L[start:, start:end] -= L[start:, :start] @ L[start:end, :start].T
                corner, failed = dpotrf(L[start:end, start:end], lower=1, clean=1)
                if failed:  # not positive definite: try a larger ridge
                    break
                L[start:end, start:end] = corner
                L[end:, start:end] = dtrsm(1.0, corner, L[end:, start:end], side=1, lower=1, trans_a=1)
            else:
                U[:n, :n] = L.T  # only the upper triangle is read
                return True
            self._ridge *= self._options.ridge_factor
        return False


def _linear_pieces(F: Samples, beta: Vector, phi: Pieces) -> Vector:
    """Return the linear piece of φ at each free variable F: slope, lower and upper breakpoint (3, q)."""
    breakpoints, slopes = phi
    piece, last = (breakpoints[:, F] < beta[F]).sum(axis=0), len(breakpoints) - 1
    pieces = np.zeros((3, len(beta)))
    pieces[0, F] = slopes[piece, F]
    pieces[1, F] = np.where(piece > 0, breakpoints[piece - 1, F], -np.inf)
    pieces[2, F] = np.where(piece <= last, breakpoints[np.minimum(piece, last), F], np.inf)
    return pieces


def solve_pivots(
    K: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float, max_pivots: int, clock: Clock,
    options: Options = DEFAULTS,
) -> int:  # fmt: skip
    """Run an :class:`ActiveSet`, changing g and beta unless they overflow; return the number of pivots."""
    active_set = ActiveSet(K, g, beta, phi, options)
    before = g.copy(), beta.copy()
    active_set.run(tol, max_pivots, clock)
    if not (np.isfinite(g).all() and np.isfinite(beta).all()):
        g[:], beta[:] = before
    return active_set.pivots


class _Estimate(NamedTuple):
    """The samples of a Newton phase, and its estimated work in multiplications."""

    samples: Samples
    setup_work: float  # work without pivots: the matrix, its factor, and scores in double precision
    pivot_work: float  # work of a pivot
    n_pivots: float  # expected number of pivots

    @property
    def work(self) -> float:
        """Work of the phase."""
        return self.setup_work + self.n_pivots * self.pivot_work


class NewtonPhase:
    """The active-set method over all samples near the margin, in double precision, and when to run it.

    A sample is near the margin if β_i would change for a slightly different intercept. The decision compares
    estimated work in multiplications, not times, so results do not depend on the clock. `state` has β, g and
    the cached kernel rows. Samples set aside by shrinking (fixed variables left out of the working sets; the
    other samples are active) have an outdated g until ``state.update_aside()``.
    """

    def __init__(self, state: State, history: History):
        self._state, self._history, self._options = state, history, state.options
        self._rows_at_start = state.cache.computed  # kernel rows computed before this solve
        self._n_sets, self._step_work = 0, 0.0  # working sets so far, and the work of their steps and pivots
        self._phase_work = 0.0  # work of all phases so far
        self._last: tuple[float, float] | None = state.violation(), 0.0  # and work of sets, at the last call

    # -- work of the working sets -------------------------------------------------------------

    def add_set(self, size: int, steps: int, pivots: int = 0) -> None:
        """Count a working set of this size, with its pair steps, and pivots with half of its samples free."""
        self._n_sets += 1
        self._step_work += self._options.pair_step_work * steps * size
        self._step_work += pivots * self._pivot_work(size // 2, size)

    def _working_set_work(self) -> float:
        """Return the work of the working sets so far: kernel rows, steps, and a fixed work per set."""
        cache, n = self._state.cache, self._state.gram.n
        rows = (cache.computed - self._rows_at_start) * self._row_work(cache.dtype)
        per_set = self._options.set_work + self._options.set_work_per_sample * n
        return rows + self._n_sets * per_set + self._step_work

    def _forecast(self, violation: float, tol: float) -> float:
        """Return the work of working sets to reach `tol`, if the logarithm of the violation falls linearly.

        The slope is that since the last call; 0 if a phase was run, or the violation has not fallen, then.
        """
        last, self._last = self._last, (violation, self._working_set_work())
        if last is None or not tol < violation < last[0]:
            return 0.0
        return (self._last[1] - last[1]) * float(np.log(violation / tol) / np.log(last[0] / violation))

    # -- work of this phase -------------------------------------------------------------------

    def _block_work(self, rows: float, columns: float) -> float:
        """Return the work of computing a block of the kernel matrix in double precision."""
        return 2.0 * rows * columns * (self._state.gram.entry_cost + self._options.work_per_read)

    def _row_work(self, dtype: DTypeLike) -> float:
        """Return the work of computing a kernel row in this precision."""
        return self._block_work(1, self._state.gram.n) * np.dtype(dtype).itemsize / 8.0

    def _pivot_work(self, free: int, size: int) -> float:
        """Return the work of a pivot: two triangular solves, and the update of g."""
        read = self._options.work_per_read
        if free > self._options.max_cached_factor:
            read *= self._options.uncached_read_cost
        return read * (1.5 * free**2 + free * size / 4.0 + 10.0 * size)

    def _estimate(self, violation: float) -> _Estimate:
        """Estimate the work of a phase over the samples near the margin, at this violation."""
        state = self._state
        is_free = state.dual.is_free(state.beta)
        samples = state.near_margin(self._options.newton_band_ratio * abs(violation))
        size, free = len(samples), int(is_free.sum())
        factor_work = free**3 / 3.0 + 3.0 * self._options.work_per_read * free**2
        setup_work = self._block_work(size, size / 2.0) + factor_work
        if not state.is_double:  # scores are recomputed
            setup_work += self._block_work(int((state.beta != 0).sum()), size)
        n_pivots = 0.5 * float((~is_free[samples]).sum())  # half of the fixed variables become free
        return _Estimate(samples, setup_work, self._pivot_work(free, size), n_pivots)

    # -- the phase ----------------------------------------------------------------------------

    def run(self, tol: float, *, force: bool = False) -> None:
        """Run the phase if memory suffices and its work is within two limits.

        The first is a fraction of the work of the working sets so far, less the work of earlier phases; the
        second, ignored with `force`, is the work that the working sets are forecast to need.
        """
        state, history = self._state, self._history
        violation = state.violation()
        estimate = self._estimate(violation)
        samples = estimate.samples
        max_work = self._options.max_newton_cost_ratio * self._working_set_work() - self._phase_work
        if not force:
            max_work = min(max_work, self._forecast(violation, tol))
        memory = self._options.bytes_per_entry * len(samples) ** 2
        is_too_expensive = memory > state.budget or estimate.work > max_work
        if not len(samples) or is_too_expensive or history.clock.is_over:
            return
        if memory + state.cache.bytes > state.budget:  # the matrix takes the memory of the kernel rows
            state.update_aside()
            state.clear_cache()
        self._last = None  # the phase changes the violation
        if not state.is_accurate(tol):
            state.recompute_at(samples, history.clock.check)
        beta, g = state.beta[samples], state.g[samples]
        affordable = (max_work - estimate.setup_work) / estimate.pivot_work  # number of pivots
        max_pivots = int(min(affordable, history.limit - history.iteration))
        K, phi = self._matrix(samples), state.dual.phi.of(samples)
        pivots = solve_pivots(K, g, beta, phi, 0.5 * tol, max_pivots, history.clock, self._options)
        history.iteration += pivots
        self._phase_work += estimate.setup_work + pivots * estimate.pivot_work
        is_changed = beta != state.beta[samples]
        state.change(samples[is_changed], beta[is_changed])
        state.update_aside()
        state.set_scores(samples, g)  # those of the active-set method, which are more accurate
        history.record(state.violation())

    def _matrix(self, samples: Samples) -> Vector:
        """Return ``K[samples, samples]`` in double precision, from cached rows if they are complete."""
        state, cache = self._state, self._state.cache
        if state.is_double and state.all_active and cache.is_cached(samples).all():
            return gather_square(cache.table, cache.fetch(samples), samples)
        return submatrix(state.gram, samples)
