"""Working set after working set: choose samples, fetch their kernel rows, solve, take all outputs along."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formulations.solution import Status
from polyopt.solvers.decomposition.active_set import solve_pivots
from polyopt.solvers.decomposition.dual import gains
from polyopt.solvers.decomposition.subproblem import Held, gathered, solve_pairs
from polyopt.solvers.decomposition.walk import FEW
from polyopt.solvers.decomposition.work import pair_work, pivot_work
from polyopt.solvers.decomposition.working_set import choose

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Pieces
    from formulations.matrices import Vector
    from polyopt.solvers.decomposition.finish import Finish
    from polyopt.solvers.decomposition.history import History
    from polyopt.solvers.decomposition.ledger import Ledger
    from polyopt.solvers.decomposition.point import Point
    from polyopt.solvers.decomposition.repairs import Repairs
    from polyopt.solvers.decomposition.shrinking import Shrinking

    Samples = NDArray[np.intp]

__all__ = ["Loop"]

_WORKING_SET = 512  # samples of a working set at most, ...
_SMALL_SET, _PART = 256, 8  # ... and at most so many, or this part of all samples, whichever are more
# Samples of the first working set, for machines of more than _LEAST samples that are few: fewer kernel rows.
_FIRST_SET, _LEAST = 96, 512
_MANY = 0.25  # share of a set that moved, beyond which the next one has twice as many samples
_EASE = 0.1  # a sub-problem is solved to this share of the violation outside it, ...
_PAIR_STEPS = 8  # ... or by so many pair steps for each of its samples, ...
_PIVOTS = 1_000  # ... and then by so many changes of an active set
_ENOUGH = 0.3  # share of the violation for which a working set without new kernel rows is worth while
_SHRINK_EVERY = 10  # iterations between two looks at what could be set aside
_RECORD_EVERY = 10  # iterations between two records
_FIRST_PROBE = 8  # the iteration after which single precision is probed first; then after twice as many, ...
_PROBING = 0.05  # ... where that costs no more than this share of what working sets have cost


class _View(NamedTuple):
    """What the active samples look like: who they are, their part of the point, and what they violate."""

    samples: Samples
    beta: Vector
    g: Vector
    phi: Pieces
    rise: Vector
    fall: Vector
    violation: float


class Loop:
    """The working sets of one run.

    repairs: what is done where rounding is in the way.
    finish: all free variables at once, which the loop makes room for where they are overdue.
    """

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
        self._size = _FIRST_SET if _LEAST < point.gram.n <= FEW else _WORKING_SET
        self._next_probe = _FIRST_PROBE

    def take_large_sets(self) -> None:
        """Begin with working sets of full size: what is easy is done."""
        self._size = _WORKING_SET

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
            elif self._is_due(_RECORD_EVERY) and self._finish.is_overdue():
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

    def _is_due(self, every: int) -> bool:
        return self._history.iteration % every == 0

    def _leads_nowhere(self, violation: float) -> bool:
        """Whether an output has left the range of numbers, or rounding keeps the run where it is.

        On the way, every so often, a record is made: the watch reads the dual value from it.
        """
        watch = self._repairs.watch
        if np.isnan(violation) or (violation <= self._point.rounding() and watch.has_stopped(violation)):
            return True
        return self._is_due(_RECORD_EVERY) and watch.is_idle(self._history.record(violation)["bound"])

    def _is_mended(self, violation: float) -> bool:
        """Probe single precision, where it is time and cheap; whether g had to be mended.

        In single precision a matrix may have lost its definiteness, and the dual its bound.
        """
        point = self._point
        if self._history.iteration != self._next_probe:
            return False
        self._next_probe *= 2
        if point.probe_work() > _PROBING * self._ledger.spent() or point.is_trusted(violation):
            return False
        self._repairs.mend(violation)
        return True

    def _is_shrunk(self, view: _View) -> bool:
        """Set samples aside, where it is time and rows are short; whether any were."""
        if not (self._point.rows.is_full and self._is_due(_SHRINK_EVERY)):
            return False
        return self._shrinking.set_aside(view.rise, view.fall)

    def _step(self, view: _View) -> bool:
        """Solve for one working set; False where not even the worst pair moves, its gain lost in rounding."""
        point, rows, shrinking = self._point, self._point.rows, self._shrinking
        size = min(self._size, rows.slots, max(_SMALL_SET, point.gram.n // _PART))
        chosen = choose(
            view.rise, view.fall, shrinking.last, size, rows.is_held(view.samples), _ENOUGH * view.violation
        )
        samples, beta = view.samples[chosen], view.beta[chosen]
        cost = self._solve(view, chosen, size, beta)
        moved = np.flatnonzero(beta != view.beta[chosen])
        if len(moved) > _MANY * size:
            self._size = min(2 * self._size, _WORKING_SET)
        if not len(moved):
            return False
        point.change(samples[moved], beta[moved])
        shrinking.last = chosen
        self._history.iteration += 1
        self._ledger.add_set(cost)
        return True

    def _solve(self, view: _View, chosen: Samples, size: int, beta: Vector) -> float:
        """Solve the sub-problem of these places, changing their beta; what the steps have cost."""
        rows, samples = self._point.rows, view.samples[chosen]
        slots, g, phi = rows.fetch(samples), view.g[chosen], view.phi.of(chosen)
        goal, steps = _EASE * view.violation, _PAIR_STEPS * size
        held, diagonal = Held(rows.table, slots, chosen), self._point.diagonal[samples]
        taken, _ = solve_pairs(held, diagonal, g, beta, phi, goal, size, steps)
        cost = pair_work(taken, size)
        if taken == steps:
            # K is all but singular on this set, and pairs crawl: there are better steps.
            K = gathered(rows.table, slots, chosen)
            pivots = solve_pivots(K, g, beta, phi, goal, _PIVOTS, self._history.clock)
            cost += pivots * pivot_work(size // 2, size)
        return cost
