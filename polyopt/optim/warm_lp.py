"""A linear program kept in HiGHS, and solved repeatedly with other upper bounds from a warm start.

min  c·x   s.t.   row_lower ≤ A x ≤ row_upper,   lower ≤ x ≤ upper

If every column has two finite bounds, the last basis stays dual feasible for new upper bounds, so the dual
simplex method continues from it: a few pivots instead of thousands. Its dual value never decreases, so it can
stop as soon as the minimum is known to be above a cutoff. If HiGHS reports an error or an unknown status, the
program is solved again without the basis.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from formulations.language.highs import SIMPLEX, quiet_highs
from formulations.language.solution import Status
from formulations.language.types import Matrix, Vector

# Tighter than the default 1e-7 of HiGHS: certificates measure relative gaps of 1e-6.
_OPTIONS = {**SIMPLEX, "primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}


@dataclass(frozen=True)
class LinearSolution:
    """The result of one solve.

    status: SOLVED; a limit or STALLED, with a point that may be neither feasible nor optimal; CUT_OFF, with
        multipliers only; INFEASIBLE, UNBOUNDED or FAILED, with neither point nor multipliers.
    x (p,): the point; nan if there is none.
    duals (q,): multipliers ν of the rows; nan if there are none. ν_i = −d(minimum)/d(bound of row i): ≥ 0 at
        the upper bound of row i, ≤ 0 at its lower bound. After CUT_OFF they prove, to HiGHS's tolerance, that
        the minimum is above the cutoff.
    objective: c·x; nan if there is no point.
    iterations: number of simplex iterations.
    warm: True if the solve started from the last basis, and did not fail. Without a point or multipliers
        `warm` is False and `iterations` 0, also after a warm start.
    """

    status: Status
    x: Vector
    duals: Vector
    objective: float
    iterations: int
    warm: bool


class PersistentLP:
    """A linear program with q rows and p columns; only the upper bounds of the columns change.

    ValueError for numbers that are not finite or too large for HiGHS (1e15).
    A solve uses one thread; calls from several threads are serialised. HiGHS's model cannot be pickled.
    """

    def __init__(
        self, cost: ArrayLike, A: Matrix, row_lower: ArrayLike, row_upper: ArrayLike, lower: ArrayLike,
        upper: ArrayLike,
    ):  # fmt: skip
        self._A = sp.csc_array(A, dtype=float)
        q, p = self._A.shape
        self._cost = _vector(cost, p)
        if not (np.isfinite(self._cost).all() and np.isfinite(self._A.data).all()):
            raise ValueError("cost and A must be finite; infinite numbers are for bounds")
        self._lower, self._upper = _vector(lower, p), _vector(upper, p)
        self._columns = np.arange(p, dtype=np.int32)
        highspy = quiet_highs()
        self._lock, self._has_basis = Lock(), False
        self._highs = highspy.Highs()
        for name, value in _OPTIONS.items():
            self._highs.setOptionValue(name, value)
        # Run the empty model: an error means that another model of this process has another number of
        # threads, which HiGHS does not allow; 0 takes that number.
        if self._highs.run() == highspy.HighsStatus.kError:
            self._highs.setOptionValue("threads", 0)
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = q, p
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self._cost, self._lower, self._upper
        lp.row_lower_, lp.row_upper_ = _vector(row_lower, q), _vector(row_upper, q)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = self._A.indptr, self._A.indices
        lp.a_matrix_.value_ = self._A.data
        if self._highs.passModel(lp) == highspy.HighsStatus.kError:
            raise ValueError("HiGHS refuses the linear program: scale A, whose entries are too large")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        rows, columns = self._A.shape
        return rows, columns

    @property
    def basis(self) -> Any:
        """HiGHS's basis of the last solve; None if there is none."""
        with self._lock:
            return self._highs.getBasis() if self._has_basis else None

    def forget(self) -> None:
        """Drop the basis, so that the next solve does not depend on earlier ones."""
        with self._lock:
            self._highs.clearSolver()
            self._has_basis = False

    def solve(
        self, *, upper: ArrayLike | None = None, time_limit: float | None = None, cutoff: float | None = None,
        basis: Any = None,
    ) -> LinearSolution:  # fmt: skip
        """Solve with the given upper bounds, from `basis`, or else from the last basis if there is one.

        basis: a :attr:`basis` of this program; the result then depends on no other solve.
        upper (p,): new upper bounds, also for later solves; by default those of the last solve.
        cutoff: end with CUT_OFF once the minimum is known to be above it. HiGHS checks this every few pivots,
            so it may still return an optimum above the cutoff. A restart without the basis, made
            after a failure, has no cutoff, and the whole `time_limit` again.
        """
        p = len(self._cost)
        with self._lock:
            if basis is not None:
                self._highs.clearSolver()
                self._highs.setBasis(basis)
                self._has_basis = True
            if upper is not None:
                self._upper = _vector(upper, p)
            if (self._lower > self._upper).any():
                return self._without_point(Status.INFEASIBLE)
            self._highs.changeColsBounds(p, self._columns, self._lower, self._upper)
            solution = self._run(time_limit, cutoff)
            if solution.status in (Status.FAILED, Status.STALLED):
                self._highs.clearSolver()
                self._has_basis = False
                solution = self._run(time_limit, None)
            return solution

    def _run(self, time_limit: float | None, cutoff: float | None) -> LinearSolution:
        """Call HiGHS once, and translate its status and solution."""
        highs, warm = self._highs, self._has_basis
        # HiGHS's clock is not reset between solves.
        highs.setOptionValue("time_limit", np.inf if time_limit is None else highs.getRunTime() + time_limit)
        highs.setOptionValue("objective_bound", np.inf if cutoff is None else float(cutoff))
        outcome = highs.run()
        model_status = highs.getModelStatus()
        status = _STATUSES.get(model_status.name, Status.FAILED)
        if outcome.name == "kError":
            status = Status.FAILED
        solution, info = highs.getSolution(), highs.getInfo()
        self._has_basis = bool(info.basis_validity)
        if status not in _WITH_DUALS or not (solution.value_valid and solution.dual_valid):
            return self._without_point(Status.FAILED if status in _WITH_DUALS else status)
        # After a cutoff the basis is not primal feasible yet.
        x = np.full(len(self._cost), np.nan) if status is Status.CUT_OFF else np.array(solution.col_value)
        return LinearSolution(
            status, x, -np.array(solution.row_dual), float(self._cost @ x), int(info.simplex_iteration_count),
            warm,
        )  # fmt: skip

    def _without_point(self, status: Status) -> LinearSolution:
        q, p = self._A.shape
        return LinearSolution(status, np.full(p, np.nan), np.full(q, np.nan), np.nan, 0, warm=False)


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
    """Return the matrix [signed, y, I] of the margin constraints y_i (Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1.

    The columns are the coefficients a, the intercept b and the slacks ξ.
    signed (n, p): y_i K_ij t_j, with the kernel matrix K and a sign and scale t_j of each coefficient.
    """
    n, p = signed.shape
    if signed.all():  # no zeros to remove
        indices = np.tile(np.arange(n, dtype=np.int32), p), np.arange(p + 1, dtype=np.int32) * n
        block = sp.csc_array((signed.ravel(order="F"), *indices), shape=(n, p))
    else:
        block = sp.csc_array(signed)
    return sp.hstack([block, sp.csc_array(y[:, None]), sp.eye_array(n, format="csc")], format="csc")


def _vector(values: ArrayLike, size: int) -> Vector:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype=float), (size,)))
