"""The accounts of a solve: its steps, limits, records and answer; its cost, so far and still to come.

Costs are counted in operations as BLAS does them, and not timed, so that an answer does not depend on the
clock or on the load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.language.solution import Solution, Status
from polyopt.margin.decomposition.rows import SINGLE_TOL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

    from formulations.language.clock import Clock
    from polyopt.linalg.kernels import Gram
    from polyopt.margin.decomposition.point import Point

__all__ = [
    "History",
    "Ledger",
    "block_work",
    "factor_work",
    "pair_work",
    "pivot_work",
    "row_work",
    "set_work",
]

_PER_READ = 16.0  # operations that BLAS does in the time in which it reads a number from memory
_REL_GAP_INACCURATE = 1e-3  # largest relative gap of a run that rounding ended; above it the run has stalled


class History:
    """The record of a run.

    limit: working sets, and steps with all free variables at once, at most.
    progress: called with every record as it is made.

    iteration: working sets and steps so far.
    """

    def __init__(
        self, point: Point, clock: Clock, limit: float, progress: Callable[[dict[str, float]], None] | None
    ):
        self._point, self._progress = point, progress
        self.clock, self.limit, self.iteration = clock, limit, 0
        self._records: list[dict[str, float]] = []

    def over(self) -> Status | None:
        """The limit that is reached, if one is."""
        if self.iteration >= self.limit:
            return Status.ITERATION_LIMIT
        return Status.TIME_LIMIT if self.clock.is_over else None

    def record(self, violation: float) -> dict[str, float]:
        """Make a record of the point, whose violation this is; the objectives where they are known."""
        point = self._point
        known = point.is_up_to_date
        record = {
            "iteration": float(self.iteration),
            "seconds": self.clock.seconds,
            "violation": violation,
            **(point.values() if known else {"objective": np.nan, "bound": np.nan}),
            "rows": float(point.rows.computed),
            "hits": float(point.rows.hits),
            "active": float(len(point.rows.active)),
        }
        self._records.append(record)
        if self._progress is not None:
            self._progress(record)
        return record

    def answer(self, status: Status) -> Solution:
        """The point, scaled back within the bounds where the tolerance left it outside, and how it ended."""
        point, beta, g, dual = self._point, self._point.beta, self._point.g, self._point.dual
        if status is not Status.SOLVED or not self._records:
            self.record(point.violation())
        b = point.intercept()
        shrink = dual.rows.shrink(g + b)
        values = point.values()
        if status is Status.INACCURATE and not point.gap() <= _REL_GAP_INACCURATE:
            status = Status.STALLED
        bound = values["bound"]
        if not bound <= values["objective"] and not point.gap() <= _REL_GAP_INACCURATE:
            bound = 0.0  # rounding has put it above the objective: that none is below 0 is all that is known
        return Solution(
            status=status,
            primal={"coef": shrink * beta, "b": np.array(shrink * b), "f": shrink * (g + b)},
            duals=dual.rows.named(dual.rows.split(beta)),
            objective=values["objective"],
            bound=bound,
            solver="decomposition",
            iterations=self.iteration,
            solve_time=self.clock.seconds,
            history=tuple(self._records),
        )


class Ledger:
    """The accounts of a solve.

    sets: working sets so far.
    steps: cost of their pair steps and pivots.
    finishing: cost of the steps of all free variables at once.
    pace: the violation, and the cost so far, when these were weighed last.
    """

    def __init__(self, point: Point):
        self._point, self._rows_before, self._at_finish = point, point.rows.computed, 0.0
        self.sets, self.steps, self.finishing = 0, 0.0, 0.0
        self.pace: tuple[float, float] | None = None

    def add_set(self, steps: float) -> None:
        """Count a working set, and the cost of its steps."""
        self.sets, self.steps = self.sets + 1, self.steps + steps

    def spent(self) -> float:
        """Cost of the working sets so far: kernel rows, steps, and the rest."""
        gram, rows = self._point.gram, self._point.rows
        computed = (rows.computed - self._rows_before) * row_work(gram, rows.dtype)
        return computed + self.sets * set_work(gram.n) + self.steps

    def mark(self) -> None:
        """Note that all free variables are weighed now."""
        self._at_finish = self.spent()

    def since_mark(self) -> float:
        """Cost of the working sets since :meth:`mark`."""
        return self.spent() - self._at_finish

    def rows_ahead(self, tol: float) -> float:
        """Cost of the rows in double precision that working sets will need for `tol`."""
        if self._point.is_double or tol >= SINGLE_TOL:
            return 0.0
        return int((self._point.beta != 0).sum()) * row_work(self._point.gram, np.float64)

    def foreseen(self, violation: float, tol: float) -> float:
        """Cost of the working sets still to come, at the pace since the last call."""
        last, self.pace = self.pace, (violation, self.spent())
        if last is None or not 0.0 < violation < last[0]:
            return 0.0
        pace = float(np.log(last[0]) - np.log(violation))
        if pace <= 0.0:  # they differ by rounding alone
            return 0.0
        return (self.pace[1] - last[1]) * float(np.log(violation / tol)) / pace


def block_work(rows: float, columns: float, width: int) -> float:
    """A block of the kernel matrix whose entries cost `width` multiplications each."""
    return 2.0 * rows * columns * (width + _PER_READ)


def row_work(gram: Gram, dtype: DTypeLike) -> float:
    """A whole kernel row in this precision."""
    return block_work(1, gram.n, gram.width) * np.dtype(dtype).itemsize / 8.0


def set_work(samples: int) -> float:
    """Choosing a working set from so many samples, and taking their outputs along."""
    return 5e7 + 1e4 * samples


def pair_work(steps: float, size: int) -> float:
    """So many pair steps in a working set of this size."""
    return 30.0 * steps * size


def factor_work(free: int) -> float:
    """Cholesky's factor of a matrix of this size, and the copies that it needs."""
    return free**3 / 3.0 + 3.0 * _PER_READ * free**2


def pivot_work(free: int, size: int) -> float:
    """A change of the active set: two triangular solves, and its share of the outputs' update."""
    read = _PER_READ if free <= 400 else 3.0 * _PER_READ  # the factor leaves the processor's cache
    return read * (1.5 * free**2 + free * size / 4.0 + 10.0 * size)
