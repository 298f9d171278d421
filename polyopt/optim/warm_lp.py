"""One linear program kept inside HiGHS, solved again and again as its upper bounds change.

min  c·x   s.t.   row_lower ≤ A x ≤ row_upper,   lower ≤ x ≤ upper

New upper bounds leave the basis dual feasible wherever a column has two finite bounds, so the dual simplex
method goes on from the last basis instead of beginning anew: a few pivots in place of thousands. Its dual
value only rises on the way, so that it can stop as soon as the minimum is known to be above a given cutoff.
The basis is thrown away where HiGHS reports an error or no verdict, and the program is solved once more from
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.language.highs import SIMPLEX, quiet_highs
from formulations.language.solution import Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import Matrix, Vector

__all__ = ["LinearSolution", "PersistentLP", "margin_rows"]

# Tighter than HiGHS's own 1e-7: what is proven of a point is measured at 1e-6, relative to its value.
_OPTIONS = {**SIMPLEX, "primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}


@dataclass(frozen=True)
class LinearSolution:
    """The answer of one solve.

    status: how it ended. SOLVED, or a limit or STALLED with a point that need be neither feasible nor
        optimal; CUT_OFF without a point, but with multipliers; INFEASIBLE, UNBOUNDED or FAILED without
        either.
    x (number of columns,): the point; nan where there is none.
    duals (number of rows,): multipliers ν of A x == r in the convention d(minimum)/dr = −ν: at least 0 where
        a row holds its upper bound, at most 0 where its lower one. Those of CUT_OFF prove a minimum above the
        cutoff, to HiGHS's tolerance; nan where there are none.
    objective: c·x; nan where there is no point.
    warm: whether the answer comes from the basis of the last solve.
    restarted: whether HiGHS failed from that basis and the program was solved once more from nothing.
    """

    status: Status
    x: Vector
    duals: Vector
    objective: float
    iterations: int
    warm: bool
    restarted: bool


class PersistentLP:
    """A linear program of which only the upper bounds of the columns change.

    cost (p,): c, to be minimised.
    A (q, p): the rows.
    row_lower, row_upper (q,): bounds of the rows; -inf and inf for none.
    lower, upper (p,): bounds of the columns; :meth:`solve` changes the upper ones.

    restarts: solves that HiGHS failed in and that were begun anew.
    ValueError: shapes that do not fit, numbers that are not finite, or too large for HiGHS (1e15 in A).

    Notes
    -----
    One thread. Pickled, it carries its numbers and no basis, and is built anew where it is loaded. Solves
    from several threads wait for each other.
    """

    def __init__(
        self,
        cost: ArrayLike,
        A: Matrix,
        row_lower: ArrayLike,
        row_upper: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
    ):
        self._A = sp.csc_array(A, dtype=float)
        q, p = self._A.shape
        self._cost = _vector("cost", cost, p)
        if not (np.isfinite(self._cost).all() and np.isfinite(self._A.data).all()):
            raise ValueError("cost and A must be finite; infinite numbers are for bounds")
        self._rows = _vector("row_lower", row_lower, q), _vector("row_upper", row_upper, q)
        self._lower, self._upper = _vector("lower", lower, p), _vector("upper", upper, p)
        self.restarts = 0
        self._build()

    def __getstate__(self) -> dict[str, Any]:
        """The numbers alone: neither HiGHS's model nor its basis can travel."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_highs", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()

    def _build(self) -> None:
        highspy = quiet_highs()
        self._lock, self._has_basis = Lock(), False
        self._highs = highspy.Highs()
        for name, value in _OPTIONS.items():
            self._highs.setOptionValue(name, value)
        if self._highs.run() == highspy.HighsStatus.kError:
            # A process keeps the number of threads that HiGHS began with in it, and refuses any other.
            self._highs.setOptionValue("threads", 0)
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = self._A.shape
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self._cost, self._lower, self._upper
        lp.row_lower_, lp.row_upper_ = self._rows
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = self._A.indptr, self._A.indices
        lp.a_matrix_.value_ = self._A.data
        if self._highs.passModel(lp) == highspy.HighsStatus.kError:
            raise ValueError("HiGHS refuses the linear program: scale A, whose entries are too large")
        self._columns = np.arange(len(self._cost), dtype=np.int32)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        rows, columns = self._A.shape
        return rows, columns

    def forget(self) -> None:
        """Drop the basis: the next solve depends on nothing that was solved before."""
        with self._lock:
            self._highs.clearSolver()
            self._has_basis = False

    def solve(
        self, *, upper: ArrayLike | None = None, time_limit: float | None = None, cutoff: float | None = None
    ) -> LinearSolution:
        """Solve with the given upper bounds, from the last basis if there is one.

        upper (p,): new upper bounds of the columns, which stay; by default those of the last solve.
        cutoff: end with CUT_OFF once the minimum is found to be above it, or that there is none. HiGHS looks
            every few pivots (the denser the rows, the more often), so that an optimum above the cutoff may be
            reached all the same. For this solve alone; one begun anew after a failure has none.
        Returns: whatever HiGHS does, its status says it.
        ValueError: bounds of another shape, or nan among the numbers given.
        """
        if cutoff is not None and np.isnan(cutoff):
            raise ValueError("cutoff must be a number or None, not nan")
        p = len(self._cost)
        with self._lock:
            if upper is not None:
                self._upper = _vector("upper", upper, p)
            if (self._lower > self._upper).any():
                return self._nothing(Status.INFEASIBLE)
            self._highs.changeColsBounds(p, self._columns, self._lower, self._upper)
            found = self._run(time_limit, cutoff, restarted=False)
            if found.status in (Status.FAILED, Status.STALLED):
                self.restarts += 1
                self._highs.clearSolver()
                self._has_basis = False
                found = self._run(time_limit, None, restarted=True)
            return found

    def _run(self, time_limit: float | None, cutoff: float | None, *, restarted: bool) -> LinearSolution:
        highs, warm = self._highs, self._has_basis
        # HiGHS's clock runs on from solve to solve.
        highs.setOptionValue("time_limit", np.inf if time_limit is None else highs.getRunTime() + time_limit)
        highs.setOptionValue("objective_bound", np.inf if cutoff is None else float(cutoff))
        returned = highs.run()
        verdict = highs.getModelStatus()
        status = _STATUSES.get(verdict.name, Status.FAILED)
        if returned.name == "kError":
            status = Status.FAILED
        solution, info = highs.getSolution(), highs.getInfo()
        self._has_basis = bool(info.basis_validity)
        if status not in _WITH_DUALS or not (solution.value_valid and solution.dual_valid):
            return self._nothing(Status.FAILED if status in _WITH_DUALS else status, restarted)
        # Where it was cut off the basis is not primal feasible yet.
        x = np.full(len(self._cost), np.nan) if status is Status.CUT_OFF else np.array(solution.col_value)
        return LinearSolution(
            status=status,
            x=x,
            duals=-np.array(solution.row_dual),
            objective=float(self._cost @ x),
            iterations=int(info.simplex_iteration_count),
            warm=warm,
            restarted=restarted,
        )

    def _nothing(self, status: Status, restarted: bool = False) -> LinearSolution:
        q, p = self._A.shape
        return LinearSolution(
            status, np.full(p, np.nan), np.full(q, np.nan), np.nan, 0, warm=False, restarted=restarted
        )


_STATUSES = {
    "kOptimal": Status.SOLVED,
    "kInfeasible": Status.INFEASIBLE,
    "kUnbounded": Status.UNBOUNDED,
    "kTimeLimit": Status.TIME_LIMIT,
    "kIterationLimit": Status.ITERATION_LIMIT,
    "kObjectiveBound": Status.CUT_OFF,
    "kUnknown": Status.STALLED,
}
_WITH_DUALS = (
    Status.SOLVED, Status.TIME_LIMIT, Status.ITERATION_LIMIT, Status.STALLED, Status.CUT_OFF,
)  # fmt: skip


def margin_rows(signed: Vector, y: Vector) -> sp.csc_array:
    """The rows ``signed a + y b + ξ`` of a sparse expansion: columns a, then b, then ξ.

    signed (n, p): ``y_i K_ij t_j``, times the unit of the coefficients.
    """
    n, p = signed.shape
    if signed.all():  # nothing to look for
        places = np.tile(np.arange(n, dtype=np.int32), p), np.arange(p + 1, dtype=np.int32) * n
        block = sp.csc_array((signed.ravel(order="F"), *places), shape=(n, p))
    else:
        block = sp.csc_array(signed)
    return sp.hstack([block, sp.csc_array(y[:, None]), sp.eye_array(n, format="csc")], format="csc")


def _vector(name: str, values: ArrayLike, size: int) -> Vector:
    given = np.asarray(values, dtype=float)
    if given.shape not in ((), (size,)):
        raise ValueError(f"{name} must be a number or of shape ({size},), not of shape {given.shape}")
    if np.isnan(given).any():
        raise ValueError(f"{name} must not be nan; it is at {int(np.argmax(np.isnan(given)))}")
    return np.ascontiguousarray(np.broadcast_to(given, (size,)))
