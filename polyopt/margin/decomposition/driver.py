"""The decomposition method: working sets for decreasing violations, with Newton phases in between.

The dual is max Σ φ_i(β_i) − ½ β'Kβ with Σ β_i = 0, where φ_i is concave and piecewise linear, and each of its
pieces belongs to the multiplier of one family of constraints (see ``state``). g = Kβ are the scores, and
m − M is the violation, with m = max φ'(β_i+) − g_i and M = min φ'(β_i−) − g_i over the samples. A Newton
phase (``newton``) is an active-set method over all samples near the margin. Samples in no violating pair may
be set aside (shrinking); the others are active.

:class:`Decomposition` is the solver, which retains its point and its kernel rows for the next solve; ``_Run``
is one solve. A solve ends when the point is optimal within the tolerance, at a limit, or when rounding
prevents progress. Kernel rows are in single precision first. If the rounding of g matters, g is recomputed in
double precision (a refresh); after some refreshes, kernel rows are in double precision too.

Working sets
------------
The subproblem (9) of Shivaswamy & Jebara is the dual over a working set of samples, with all other β_i fixed.
Sample i violates optimality by φ'(β_i+) − g_i − M if β_i may increase, and by m − φ'(β_i−) + g_i if it may
decrease. A working set has the samples with the largest violations of both kinds; half of it are samples of
the last set, because they are likely to change again and their kernel rows are cached.

A subproblem is solved by pair steps, as in SMO: the first variable has the largest derivative φ'(β_i+) − g_i,
the second the largest increase of the dual to second order (Fan, Chen & Lin 2005). A pair moves to the
optimum on its line or to the next breakpoint of either φ; beyond it, the multiplier of another family
changes. Kernel rows are gathered when they are first needed. The steps are in
polyopt/native/decomposition.inc.

References
----------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (9). Fan, Chen & Lin, Working Set Selection Using
Second Order Information for Training Support Vector Machines (2005).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.families import Families, Pieces
from formulations.language.arguments import tolerance, whole_or_none
from formulations.language.clock import Clock, OutOfTimeError, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.base.threads import single_threaded_blas
from polyopt.linalg.kernels import Gram, SampleGram, Samples, as_gram
from polyopt.margin.decomposition.cluster_start import beta_of_clusters
from polyopt.margin.decomposition.newton import NewtonPhase, solve_pivots
from polyopt.margin.decomposition.state import (
    DEFAULTS,
    Dual,
    History,
    Options,
    State,
    balanced,
    derivatives,
    gather_square,
    recapped,
)  # fmt: skip
from polyopt.native.library import kernel

_LANES = 8  # samples of a vector register: rows are padded to a multiple
_MEGABYTE = 2.0**20  # bytes

# Take up to `steps` pair steps, which change g and beta ("!" marks arrays that are written to); counts =
# (steps taken, kernel rows read). K, inverse_curvature, work and row_of are work arrays for w = q rounded up
# to a multiple of 8: kernel rows, inverse curvatures of their pairs, further numbers, each sample's row.
_solve_pairs = kernel(
    "solve_pairs_held",
    "table: T (s, n); slots: i8 (q); positions: i8 (q); diagonal: f8 (q); g!: f8 (q); beta!: f8 (q); "
    "ends: f8 (k, q); slopes: f8 (l, q); tol: f8; steps: i8; K!: T (r, w); inverse_curvature!: f4 (r, w); "
    "work!: f8 (v, w); row_of!: i8 (q); counts!: i8 (e)",
    T="f8 f4",
)


def select_working_set(rise: Vector, fall: Vector, last: Samples, size: int) -> Samples:
    """Return the positions of up to `size` samples: half of them from the `last` set, then violating ones.

    rise, fall (n,): the derivatives φ'(β+) − g and φ'(β−) − g.
    """
    chosen = last[-(size // 2) :]
    count = (size - len(chosen)) // 2  # of each kind
    for values, upper in ((-rise, -fall.min()), (fall.copy(), rise.max())):
        values[chosen] = np.inf
        least = np.argpartition(values, count)[:count] if count < len(values) else np.arange(len(values))
        chosen = np.concatenate([chosen, least[values[least] < upper]])
    return chosen


class CachedRows(NamedTuple):
    """Cached kernel rows: the row of sample r of a working set is ``table[slots[r], positions]``."""

    table: NDArray[Any]
    slots: Samples
    positions: Samples


def solve_pairs(
    source: CachedRows, diagonal: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float,
    max_rows: int, max_steps: int,
) -> tuple[int, int]:  # fmt: skip
    """Take pair steps until m − M ≤ tol, changing beta and g (q,); return the numbers of steps and rows.

    At most `max_steps` steps are taken, and at most `max_rows` rows of the kernel matrix are read.
    """
    q = len(g)
    shape = max(1, min(q, max_rows)), -(-q // _LANES) * _LANES
    K, inverse_curvature = np.empty(shape, source[0].dtype), np.empty(shape, np.float32)
    work, row_of, counts = np.empty((3, shape[1])), np.empty(q, np.int64), np.empty(2, np.int64)
    _solve_pairs(*source, diagonal, g, beta, *phi, tol, max_steps, K, inverse_curvature, work, row_of, counts)
    taken, read = counts.tolist()
    return taken, read


def solve_decomposition(
    gram: Gram | Any, families: Families, *, tol: float = 1e-3, max_iter: int | None = None,
    time_limit: float | None = None, cache_size: float = 500.0, options: Options = DEFAULTS,
) -> Solution:  # fmt: skip
    """Solve one program by :class:`Decomposition`, whose method ``solve`` describes the arguments."""
    machine = Decomposition(gram, cache_size=cache_size, options=options)
    return machine.solve(families, tol=tol, max_iter=max_iter, time_limit=time_limit)


class Decomposition:
    """A decomposition solver that retains its point and its kernel rows from one solve to the next.

    gram: a positive semidefinite Gram matrix (n, n), as an array or by blocks.
    cache_size: megabytes (2^20 bytes) for kernel rows, and for the matrix of the Newton phase.
    """

    def __init__(self, gram: Gram | Any, *, cache_size: float = 500.0, options: Options = DEFAULTS):
        self._state = State(as_gram(gram), cache_size * _MEGABYTE, options)
        self._solved: Dual | None = None  # the last program

    def solve(
        self, families: Families, *, tol: float = 1e-3, max_iter: int | None = None,
        time_limit: float | None = None,
    ) -> Solution:  # fmt: skip
        """Solve for families of constraints with finite costs, such as ``hinge_families(y, C, B)``.

        tol: largest violation m − M of the optimality conditions, in units of the outputs. The relative
            duality gap must also be within ten times `tol`, and within 0.1: with large costs a small
            violation may leave a large gap.
        max_iter: largest number of working sets and pivots of Newton phases together.

        In the solution, ``primal`` has the expansion coefficients ``coef`` (n,), ``b`` and the outputs ``f``
        (n,), scaled to satisfy the bounds without slack. ``history`` has objectives (nan while samples are
        set aside), violation, kernel rows computed and found in the cache, and active samples. If rounding
        ends the run, the status is INACCURATE, or STALLED for a relative gap above 1e-3. At a limit, or after
        Ctrl-C, the solution is the last point.
        """
        clock, tol = Clock(time_limit), tolerance(tol)
        limit = whole_or_none("max_iter", max_iter)
        state = self._state
        history = History(state, clock, np.inf if limit is None else limit)
        state.set_program(families)
        try:
            # Blocks of work use the threads; those of BLAS would change the last digits with their number.
            with single_threaded_blas():
                # A small machine starts in double precision if single precision cannot reach `tol`.
                if tol < state.options.min_single_violation and state.is_small:
                    state.use_double(clock.check)
                state.move_to(self._start(history), clock.check)
                self._solved = state.dual
                status = _Run(state, history, tol).solve()
        except OutOfTimeError:
            status = Status.TIME_LIMIT
        except KeyboardInterrupt:
            status = interrupted()
            state.recover()
        state.update_aside()
        return history.solution(status)

    def _start(self, history: History) -> Vector:
        """Return the initial β: from the last solve, or from clusters; else as near to 0 as possible."""
        dual = self._state.dual
        if self._solved is not None:
            old = self._solved.families
            return dual.join(recapped(old.named(old.split(self._state.beta)), old, dual.families))
        if np.isfinite(history.limit):  # the working sets of clusters do not count
            return dual.initial_beta()

        def solve_cluster(gram: SampleGram, part: Dual) -> Vector:  # returns β of the cluster
            options = self._state.options
            cache = max(64.0, self._state.budget / _MEGABYTE / 8)
            machine = Decomposition(gram, cache_size=cache, options=options)
            solution = machine.solve(part.families, tol=options.cluster_tol, time_limit=history.clock.left)
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            return machine._state.beta

        beta = beta_of_clusters(self._state.gram, dual, solve_cluster, history.clock, self._state.options)
        return dual.initial_beta() if beta is None else balanced(beta)


class _View(NamedTuple):
    """The active samples with their entries of the iterate, and the violation."""

    samples: Samples
    beta: Vector
    g: Vector
    phi: Pieces
    rise: Vector  # φ'(β+) − g
    fall: Vector  # φ'(β−) − g
    violation: float  # m − M = max rise − min fall


class _Run:
    """One solve.

    tol: largest violation m − M at the end.
    has_restarted: True if :meth:`restart` was called before, because rounding prevented progress.
    """

    def __init__(self, state: State, history: History, tol: float):
        self._state, self._history, self._tol = state, history, tol
        self._options, self._clock = state.options, history.clock
        self._newton = NewtonPhase(state, history)
        self.has_restarted, self._stall_detector = False, StallDetector(state.options)
        self._refreshes = 0  # number of refreshes so far
        # True if no phase to 1e-8 is left to be run: small machines are solved beyond the tolerance.
        self._is_polished = tol <= 1e-8 or np.isfinite(history.limit) or not state.is_small
        self._next_rounding_check = 8  # iteration at which the rounding of g is measured next
        min_size, max_size = self._options.min_working_set, self._options.max_working_set
        self._set_size = min(max_size, max(min_size, state.gram.n // 8))

    @property
    def _max_gap(self) -> float:
        """Largest relative gap of an optimal point."""
        return min(10.0 * self._tol, 0.1)

    def solve(self) -> Status:
        """Alternate working sets, for decreasing violations, with Newton phases; return the status."""
        state, options, tol = self._state, self._options, self._tol
        target = max(tol, options.first_newton_violation)  # violation at which working sets stop next
        while True:
            if target < options.min_single_violation and state.violation() > target:
                state.use_double(self._clock.check)
            status = self._run_working_sets(target)
            if status is Status.INACCURATE:  # rounding stops the working sets: a last Newton phase
                self._newton.run(tol, force=True)
                return self._final_status() if self._is_optimal() else status
            if status is not Status.SOLVED:
                return status
            # The violation is within `target`. Rows in single precision need some distance from `tol`.
            violation, required = state.violation(), tol
            if not state.is_double:
                required *= options.single_violation_ratio
            if violation <= required and not state.is_accurate(tol, self._max_gap):
                self._refresh(tol)
            elif violation <= required and self._is_optimal():
                if self._is_polished:
                    return self._final_status()
                self._is_polished = True
                self._newton.run(min(tol, 1e-8), force=True)  # of a small machine hardly more work than `tol`
            elif limit := self._history.reached_limit():
                return limit
            elif violation <= 0.0:  # no pair can move, and the remaining gap is rounding
                return Status.INACCURATE
            else:  # the violation or, if it is within `required`, the gap is too large: set the next target
                ratio = options.newton_violation_ratio
                min_target = required if violation > required else violation / ratio
                self._newton.run(min_target)
                target = max(min(target, state.violation()) / ratio, min_target)

    def _is_optimal(self) -> bool:
        """Return True if the violation and the relative gap are within their tolerances."""
        return self._state.violation() <= self._tol and self._state.gap() <= self._max_gap

    def _final_status(self) -> Status:
        """Return SOLVED, or INACCURATE if rounding errors of the objective may exceed the allowed gap."""
        return Status.SOLVED if self._state.relative_rounding() <= self._max_gap else Status.INACCURATE

    # -- working sets -------------------------------------------------------------------------

    def _run_working_sets(self, target: float) -> Status:
        """Solve working sets until the violation over all samples is within `target`.

        Return SOLVED if the violation is within `target`, INACCURATE if rounding prevents progress even after
        a restart, or the limit reached.
        """
        state = self._state
        while True:
            view = self._view()
            is_due = self._history.iteration % self._options.sets_per_record == 0  # a record, and shrinking
            if view.violation <= target:
                if not state.unshrink(target):  # no sample that was set aside violates optimality
                    return Status.SOLVED
            elif self._is_stuck(view.violation, is_due):
                if not self.restart():
                    return Status.INACCURATE
            elif limit := self._history.reached_limit():
                return limit
            elif self._refresh_if_due(view.violation) or (is_due and self._shrink_if_full(view)):
                continue  # with a new view: g, or the active samples, have changed
            elif not self._step(view) and not self.restart():
                return Status.INACCURATE

    def _view(self) -> _View:
        """Return the view of the active samples."""
        state, samples = self._state, self._state.cache.active
        beta, g, phi = state.beta, state.g, state.dual.phi
        if state.all_active:
            rise, fall, m, M = state.derivatives()
        else:
            beta, g, phi = beta[samples], g[samples], phi.of(samples)
            rise, fall, m, M = derivatives(g, beta, phi)
        return _View(samples, beta, g, phi, rise, fall, m - M)

    def _shrink_if_full(self, view: _View) -> bool:
        """Set samples aside if the cache is full; return True if any were."""
        return self._state.cache.is_full and self._state.shrink(view.rise, view.fall)

    def _step(self, view: _View) -> bool:
        """Solve for one working set and set β; return False if β does not change, because of rounding."""
        state = self._state
        size = min(self._set_size, state.cache.capacity)
        chosen = select_working_set(view.rise, view.fall, state.last_set, size)
        samples, beta = view.samples[chosen], view.beta[chosen]
        self._solve(view, chosen, size, out_beta=beta)
        moved = np.flatnonzero(beta != view.beta[chosen])
        if not len(moved):
            return False
        state.change(samples[moved], beta[moved])
        state.last_set = chosen
        self._history.iteration += 1
        return True

    def _solve(self, view: _View, chosen: Samples, size: int, out_beta: Vector) -> None:
        """Solve the subproblem of the samples at the chosen positions; `out_beta` is their β, and changes."""
        cache, options, samples = self._state.cache, self._options, view.samples[chosen]
        slots, g, phi = cache.fetch(samples), view.g[chosen], view.phi.of(chosen)
        target = options.subproblem_violation_ratio * view.violation
        max_steps, pivots = options.max_pair_steps_per_sample * size, 0
        source, diagonal = CachedRows(cache.table, slots, chosen), self._state.diagonal[samples]
        taken, _ = solve_pairs(source, diagonal, g, out_beta, phi, target, size, max_steps)
        if taken == max_steps:  # K is nearly singular on this set: Newton's method is faster than pairs
            K = gather_square(cache.table, slots, chosen)
            pivots = solve_pivots(K, g, out_beta, phi, target, options.max_pivots, self._clock, options)
        self._newton.add_set(size, taken, pivots)

    # -- rounding -----------------------------------------------------------------------------

    def _is_stuck(self, violation: float, is_due: bool) -> bool:
        """Return True if a score has overflowed or rounding prevents progress; add a record if due."""
        detector = self._stall_detector
        if np.isnan(violation) or (violation <= self._state.rounding() and detector.is_idle(violation)):
            return True
        return is_due and detector.is_flat(self._history.record(violation)["bound"])

    def _refresh_if_due(self, violation: float) -> bool:
        """Measure the rounding of g after 8 working sets, 16, 32, ...; return True if g was recomputed.

        The check does not wait for the end: in single precision K may be indefinite, and the dual unbounded.
        """
        if self._history.iteration != self._next_rounding_check:
            return False
        self._next_rounding_check *= 2
        if self._state.is_accurate(violation):
            return False
        self._refresh(violation)
        return True

    def _refresh(self, tol: float) -> None:
        """Recompute g where its rounding matters; after a few times, use kernel rows in double precision."""
        self._refreshes += 1
        if self._refreshes > self._options.max_refreshes:
            self._state.use_double(self._clock.check)
        else:
            self._state.refresh(tol, self._clock.check)

    def restart(self) -> bool:
        """Recompute g of all samples in double precision; return False if this was done before.

        If a score has overflowed, the initial point replaces the iterate.
        """
        state = self._state
        if not np.isfinite(state.g).all():
            state.set_point(state.dual.initial_beta(), np.zeros(state.gram.n))
            if self.has_restarted:  # else g is recomputed below
                state.recompute(self._clock.check)
        if self.has_restarted:
            return False
        self.has_restarted, self._stall_detector = True, StallDetector(self._options)
        state.activate_all()
        if state.is_double:
            state.recompute(self._clock.check)
        else:
            state.use_double(self._clock.check)
        return True


class StallDetector:
    """Detection of a run that rounding has stopped: the violation or the dual value does not improve."""

    def __init__(self, options: Options):
        self._options = options
        self._least_violation, self._idle_sets = np.inf, 0
        self._best_bound, self._flat_records = -np.inf, 0

    def is_idle(self, violation: float) -> bool:
        """Return True if the violation has stopped falling; call it once for each working set."""
        if violation < 0.9 * self._least_violation:
            self._least_violation, self._idle_sets = violation, 0
        else:
            self._idle_sets += 1
        return self._idle_sets >= self._options.max_idle_sets

    def is_flat(self, bound: float) -> bool:
        """Return True if the dual value `bound` has stopped rising; call it once for each record.

        An unknown value is nan, and changes nothing.
        """
        if np.isfinite(bound):
            has_risen = not bound <= self._best_bound + 1e-14 * abs(self._best_bound)
            self._best_bound = max(bound, self._best_bound)
            self._flat_records = 0 if has_risen else self._flat_records + 1
        return self._flat_records >= self._options.max_flat_records
