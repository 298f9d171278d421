"""Working set after working set: choose samples, fetch their kernel rows, solve, take all outputs along.

A sample violates upwards by φ'(β_i+) − g_i − M and downwards by m − φ'(β_i−) + g_i, whichever of the
three families the slope belongs to. A working set has the worst violators, and half of it are the samples
that entered the last one latest: they are likely to move again, and their kernel rows are at hand.

Three parts stand beside the working sets. :func:`walk` begins small machines with pair steps over all
samples, with kernel rows computed one at a time. :class:`Finish` solves for all free variables at once by
Newton's method where that costs less than working sets have cost and would still cost; after a walk it leaves
many small machines exact. And :class:`Repairs` computes g anew where rounding has spoilt it, in double
precision at the last; :class:`Watch` sees whether the run still gets anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.language.solution import Status
from polyopt.linalg.kernels import square
from polyopt.margin.decomposition.active_set import solve_pivots
from polyopt.margin.decomposition.dual import gains
from polyopt.margin.decomposition.ledger import block_work, factor_work, pair_work, pivot_work
from polyopt.margin.decomposition.subproblem import Computed, Held, gathered, solve_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Pieces
    from formulations.language.clock import Clock
    from formulations.language.types import Vector
    from polyopt.margin.decomposition.ledger import History, Ledger
    from polyopt.margin.decomposition.point import Point, Shrinking

    Samples = NDArray[np.intp]

__all__ = ["IDLE", "Finish", "Loop", "Repairs", "Watch", "choose", "walk"]

_WORKING_SET = 512  # samples of a working set at most
_WORKING_SET_SMALL = 256  # the same for at most eight times as many samples; in between an eighth of all
_SUBPROBLEM_REL_TOL = 0.1  # violation left in a sub-problem, relative to that of the whole
_PAIR_STEPS = 8  # pair steps of a sub-problem at most, for each of its samples; then pivots go on
_PIVOTS = 1_000  # pivots of a sub-problem at most
_LOOK_EVERY = 10  # iterations between two records, and two looks at what could be set aside
_WALK_SAMPLES = 2_000  # samples at most for a walk
# Multiplications of a kernel row at most. The working sets of a machine of a thousand samples cost more in
# dispatch than in arithmetic; 325 small machines took 0.85 of scikit-learn's time with this start.
_WALK_ROW = 128_000
# Kernel rows and pair steps at most: what does not end soon ends sooner with working sets.
_WALK_ROWS, _WALK_STEPS = 128, 1_000
_WALK_TOL = 1e-3  # violation from which on all free variables at once are exact in less time
_REACH = 2.0  # times the violation: samples that would move if the intercept did by so much are looked at
_MAX_COST_RATIO = 0.5  # cost of all free variables at once, relative to that of the working sets
_OVERDUE_COST_RATIO = 8.0  # cost of working sets since all free variables were weighed, relative to theirs
_BYTES_PER_ENTRY = 4 * 8.0  # of their matrix: itself, its factor, and two copies on the way to that
_MAX_IDLE_SETS = 10  # working sets in which rounding must let the violation fall
_CLOSER_RATIO = 0.9  # of two violations, the second of which counts as a fall
IDLE, _RISE = 200, 1e-14  # records in which the dual value must rise by this share: every step raises it
_MAX_REFRESHES = 3  # times that g is computed anew before the kernel rows are, too


class _View(NamedTuple):
    """The active samples, their part of the point, their slopes less g, and the violation."""

    samples: Samples
    beta: Vector
    g: Vector
    phi: Pieces
    rise: Vector
    fall: Vector
    violation: float


class Loop:
    """The working sets of one run; it stops for `finish` once that phase is overdue."""

    def __init__(
        self,
        point: Point,
        history: History,
        ledger: Ledger,
        shrinking: Shrinking,
        repairs: Repairs,
        finish: Finish,
    ):
        self._point, self._history, self._ledger = point, history, ledger
        self._shrinking, self._repairs, self._finish = shrinking, repairs, finish
        self._size = min(_WORKING_SET, max(_WORKING_SET_SMALL, point.gram.n // 8))
        self._next_probe = 8

    def run(self, tol: float) -> Status:
        """Go on until the violation over all samples is within `tol`.

        Returns: ``SOLVED`` where it is; ``CONVERGED`` where it falls so slowly that all free variables at
            once may do better; ``INACCURATE`` where rounding lets nothing improve, though the run began anew;
            or the limit that was reached.
        """
        while True:
            view = self._view()
            if view.violation <= tol:
                if not self._shrinking.take_back(tol):
                    self._history.record(view.violation)
                    return Status.SOLVED
            elif self._leads_nowhere(view.violation):
                if not self._repairs.begin_anew():
                    return Status.INACCURATE
            elif self._is_due() and self._finish.is_overdue():
                return Status.CONVERGED
            elif over := self._history.over():
                return over
            elif self._is_mended(view.violation) or self._is_shrunk(view):
                continue
            elif not self._step(view) and not self._repairs.begin_anew():
                return Status.INACCURATE

    def _view(self) -> _View:
        point, samples = self._point, self._point.rows.active
        beta, g, phi = point.beta, point.g, point.dual.phi
        if not point.is_whole:
            beta, g, phi = beta[samples], g[samples], phi.of(samples)
        rise, fall, m, M = gains(g, beta, phi)
        return _View(samples, beta, g, phi, rise, fall, m - M)

    def _is_due(self) -> bool:
        return self._history.iteration % _LOOK_EVERY == 0

    def _leads_nowhere(self, violation: float) -> bool:
        """Return True if an output has overflowed, or if rounding keeps the run where it is.

        Every few iterations a record is made, from which the watch reads the dual value.
        """
        watch = self._repairs.watch
        if np.isnan(violation) or (violation <= self._point.rounding() and watch.has_stopped(violation)):
            return True
        return self._is_due() and watch.is_idle(self._history.record(violation)["bound"])

    def _is_mended(self, violation: float) -> bool:
        """Probe single precision after 8 iterations, 16, 32, ...; return True if g had to be mended.

        In single precision a matrix may have lost its definiteness, and the dual its bound.
        """
        point = self._point
        if self._history.iteration != self._next_probe:
            return False
        self._next_probe *= 2
        if point.is_trusted(violation):
            return False
        self._repairs.mend(violation)
        return True

    def _is_shrunk(self, view: _View) -> bool:
        """Set samples aside at set times if the cache is full; return True if any were."""
        if not (self._point.rows.is_full and self._is_due()):
            return False
        return self._shrinking.set_aside(view.rise, view.fall)

    def _step(self, view: _View) -> bool:
        """Solve for one working set; False where not even the worst pair moves, its gain lost in rounding."""
        point, rows, shrinking = self._point, self._point.rows, self._shrinking
        size = min(self._size, rows.slots)
        chosen = choose(view.rise, view.fall, shrinking.last, size)
        samples, beta = view.samples[chosen], view.beta[chosen]
        cost = self._solve(view, chosen, size, beta)
        moved = np.flatnonzero(beta != view.beta[chosen])
        if not len(moved):
            return False
        point.change(samples[moved], beta[moved])
        shrinking.last = chosen
        self._history.iteration += 1
        self._ledger.add_set(cost)
        return True

    def _solve(self, view: _View, chosen: Samples, size: int, beta: Vector) -> float:
        """Solve the sub-problem of these places, changing their beta; return the cost of the steps."""
        rows, samples = self._point.rows, view.samples[chosen]
        slots, g, phi = rows.fetch(samples), view.g[chosen], view.phi.of(chosen)
        goal, steps = _SUBPROBLEM_REL_TOL * view.violation, _PAIR_STEPS * size
        held, diagonal = Held(rows.table, slots, chosen), self._point.diagonal[samples]
        taken, _ = solve_pairs(held, diagonal, g, beta, phi, goal, size, steps)
        cost = pair_work(taken, size)
        if taken == steps:
            # K is all but singular on this set, and pairs crawl: there are better steps.
            K = gathered(rows.table, slots, chosen)
            pivots = solve_pivots(K, g, beta, phi, goal, _PIVOTS, self._history.clock)
            cost += pivots * pivot_work(size // 2, size)
        return cost


def choose(rise: Vector, fall: Vector, last: Samples, size: int) -> Samples:
    """The next working set.

    rise, fall (n,): ``φ'(β+) − g`` and ``φ'(β−) − g``.
    last: the last working set, in the order its samples entered.
    size: samples at most.
    Returns: samples without repetition: those that stay first, then the new ones.
    """
    keep = last[-(size // 2) :]
    open_ = np.ones(len(rise), dtype=bool)
    open_[keep] = False
    return np.concatenate([keep, _violators(rise, fall, open_, size - len(keep))])


def _violators(rise: Vector, fall: Vector, allowed: NDArray[np.bool_], count: int) -> Samples:
    """The worst violators among the samples allowed: half of them upwards, half downwards."""
    upward = _largest(np.where(allowed, rise, -np.inf), count // 2, fall.min())
    allowed[upward] = False
    downward = _largest(np.where(allowed, -fall, -np.inf), count // 2, -rise.max())
    allowed[upward] = True
    return np.concatenate([upward, downward])


def _largest(values: Vector, count: int, floor: float) -> Samples:
    """Places of up to `count` of the largest values above the floor."""
    places = np.argpartition(-values, count)[:count] if count < len(values) else np.arange(len(values))
    return places[values[places] > floor]


def walk(point: Point, history: History, ledger: Ledger, finish: Finish, tol: float) -> None:
    """Begin with pair steps over all samples if rows are cheap.

    finish: the phase after these steps.
    tol: the violation asked of the run.
    """
    n = point.gram.n
    is_cheap = n <= _WALK_SAMPLES and n * point.gram.width <= _WALK_ROW and np.isinf(history.limit)
    aim, violation = max(tol, _WALK_TOL), point.violation()
    factors = point.rows.factors() if is_cheap and point.is_whole and not violation <= tol else None
    if factors is None:
        return
    history.record(violation)
    beta, g = point.beta.copy(), point.g.copy()
    taken, rows = solve_pairs(
        Computed(*factors), point.diagonal, g, beta, point.dual.phi, aim, _WALK_ROWS, _WALK_STEPS
    )
    if np.isfinite(g).all():  # or else it left the range of numbers
        point.take(beta, g)
    point.rows.computed += rows
    ledger.add_set(pair_work(taken, n))
    history.iteration += 1
    if point.violation() <= aim:
        finish.run(min(tol, 1e-8), hurry=True)  # hardly dearer than to the tolerance


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
    """One working set of all samples that matter, in double precision."""

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
        allowed = _MAX_COST_RATIO * (ledger.spent() + ahead) - ledger.finishing
        if not hurry:
            allowed = min(allowed, ledger.foreseen(before, tol) + ahead)
        room = _BYTES_PER_ENTRY * len(chosen) ** 2
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
            self._matrix(chosen), g, beta, point.dual.phi.of(chosen), 0.5 * tol, pivots, history.clock
        )
        history.iteration += found
        ledger.finishing += cost.least + found * cost.each
        moved = beta != point.beta[chosen]
        point.change(chosen[moved], beta[moved])
        point.bring_up_to_date()
        point.put(chosen, g)
        history.record(point.violation())

    def is_overdue(self) -> bool:
        """Return True if working sets have cost far more since the last weighing than this phase would."""
        point = self._point
        if not point.is_up_to_date:
            return False
        return self._ledger.since_mark() > _OVERDUE_COST_RATIO * self._estimate(point.violation()).total

    def _estimate(self, violation: float) -> _Estimate:
        point = self._point
        is_free = point.dual.is_free(point.beta)
        chosen = point.watched(_REACH * abs(violation))
        size, width, free = len(chosen), point.gram.width, int(is_free.sum())
        least = block_work(size, size / 2.0, width) + factor_work(free)
        if not point.is_double:
            least += block_work(int((point.beta != 0).sum()), size, width)
        kinks = float((~is_free[chosen]).sum())  # every other one is left
        return _Estimate(chosen, least, pivot_work(free, size), 0.5 * kinks)

    def _matrix(self, samples: Samples) -> Vector:
        """``K[samples, samples]`` in double precision, from the rows at hand where they will do."""
        point, rows = self._point, self._point.rows
        if point.is_double and point.is_whole and rows.is_held(samples).all():
            return gathered(rows.table, rows.fetch(samples), samples)
        return square(point.gram, samples)


class Repairs:
    """The repairs of one run.

    watch: the progress of the run since it began, or began anew.
    """

    def __init__(self, point: Point, shrinking: Shrinking, clock: Clock):
        self._point, self._shrinking, self._clock = point, shrinking, clock
        self.watch, self._mended = Watch(), 0

    def begin_anew(self) -> bool:
        """Take the rounding out of g, over all samples in double precision; return False the second time.

        A point whose outputs have left the range of numbers is given up for that of the beginning.
        """
        point = self._point
        if not np.isfinite(point.g).all():
            point.take(point.dual.start(), np.zeros(point.gram.n))
            if self.watch.is_second:  # else it is done below
                point.recompute(self._clock.check)
        if self.watch.is_second:
            return False
        self.watch = Watch(is_second=True)
        self._shrinking.take_all_back()
        point.recompute(self._clock.check) if point.is_double else self.go_double()
        return True

    def mend(self, tol: float) -> None:
        """Take the rounding out of g where it matters; out of the rows, where it has come back too often."""
        self._mended += 1
        if self._mended > _MAX_REFRESHES:
            self.go_double()
        else:
            self._point.refresh(tol, self._clock.check)

    def go_double(self) -> None:
        """Continue in double precision."""
        if not self._point.is_double:
            self._point.go_double(self._clock.check)
            self._shrinking.forget_last()


class Watch:
    """Detection of a run that rounding has stopped: neither the violation falls nor the dual value rises.

    is_second: True if the run has begun anew once.
    """

    def __init__(self, is_second: bool = False):
        self.is_second = is_second
        self._least, self._idle = np.inf, 0
        self._best, self._flat = -np.inf, 0

    def has_stopped(self, violation: float) -> bool:
        """Return True if the violation has stopped falling; called once for each working set."""
        closer = violation < _CLOSER_RATIO * self._least
        self._least = violation if closer else self._least
        self._idle = 0 if closer else self._idle + 1
        return self._idle >= _MAX_IDLE_SETS

    def is_idle(self, bound: float) -> bool:
        """Return True if the dual value of the records has stopped rising; nan if samples are set aside."""
        if np.isfinite(bound):
            has_risen = not bound <= self._best + _RISE * abs(self._best)
            self._best = max(bound, self._best)
            self._flat = 0 if has_risen else self._flat + 1
        return self._flat >= IDLE
