"""Dual (8) of the Relative Margin Machine by OSQP's own interface: an independent check on fast solvers.

With a factor K = FF' the dual, here as a minimisation in multiples of a unit u of the multipliers, is

    min  ½‖z‖² − Σ α_i + B Σ (λ_i + λ*_i)
    s.t. F'β − z = 0,   α∘y − λ + λ* − β = 0 [g],   Σ β_i = 0 [b],
         0 ≤ α ≤ C,   0 ≤ λ, λ* ≤ ∞  (≤ 0 for the SVM, where B is infinite)

with u K = FF' and C in units of u. Only the linear term and the last row of bounds depend on B, so the
solver is set up once for a whole path of them. β is a variable of its own: eliminated, OSQP hardly
converges where K has full rank; and where K has low rank, z is small where K is large.

Nothing here is fast. OSQP is a first-order method, and at large C a linear kernel of low rank can take
it 100,000 iterations; what it leaves is then short of the tolerance, and its status says so.

References
----------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (8). Stellato et al., OSQP: an operator
splitting solver for quadratic programs (2020).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import scipy.sparse as sp

from formulations.arguments import at_least, tolerance, whole_or_none
from formulations.families import hinge_families
from formulations.recovery import as_costs, as_data, gram_factor
from formulations.solution import Solution, Status
from polyopt.certificates.certificate import relative_gap
from polyopt.certificates.geometry import KernelGeometry
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.solvers.clock import Clock

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.matrices import Vector

__all__ = ["OsqpDual", "solve_osqp_dual"]

_TOL = 1e-12  # asked of OSQP in the end, where polishing has not closed the gap before
# Polishing guesses the rows that hold and is exact where the guess is right, mostly long before OSQP itself
# has come to its tolerance: it is tried at each of these on the way.
_STAGES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)
_CLOSED = 1e-11  # relative gap at which nothing is left to do
_HAIR = 1e-9  # seconds: a limit of 0 is none to OSQP
_MAX_ITER = 100_000  # by default: a linear kernel at large C may take them all
_GAP = 1e-6  # relative gap up to which a point that OSQP calls solved is called so here
_SETTINGS = {
    "verbose": False,
    "polishing": True,
    "delta": 1e-8,
    "polish_refine_iter": 10,
    # Adapting its step every 50 iterations, OSQP's own choice, can go round in circles for ever.
    "adaptive_rho_interval": 500,
}


class Given(TypedDict, total=False):
    """What :meth:`OsqpDual.solve` is given by name."""

    max_iter: int | None
    time_limit: float | None
    start: Solution | None


def solve_osqp_dual(
    K: ArrayLike, y: ArrayLike, C: ArrayLike, B: float = np.inf, *, tol: float = _TOL, **given: Unpack[Given]
) -> Solution:
    """Solve the dual of the SVM (B infinite) or of the Relative Margin Machine with OSQP.

    Parameters
    ----------
    K, y, C, tol
        As in :class:`OsqpDual`.
    B
        As in :meth:`OsqpDual.solve`.
    **given
        ``max_iter``, ``time_limit`` and ``start``, as there.

    Returns
    -------
    Solution
        As from :meth:`OsqpDual.solve`.
    """
    return OsqpDual(K, y, C, tol=tol).solve(B, **given)


class OsqpDual:
    """The dual as OSQP holds it: set up once for K, y and C, and solved for any bound B.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Symmetric positive semidefinite Gram matrix.
    y : array_like of shape (n,)
        Labels -1 and +1, both present.
    C : float or array_like of shape (n,)
        Cost per sample.
    tol : float
        OSQP's absolute and relative tolerance, for the program in units of its own. It goes there by way of
        looser ones, and ends where polishing has closed the gap before.

    Raises
    ------
    ValueError
        Wrong shapes or values, or K is not symmetric positive semidefinite.
    """

    def __init__(self, K: ArrayLike, y: ArrayLike, C: ArrayLike, *, tol: float = _TOL):
        import osqp

        K, self.y = as_data(K, y)
        self.C = as_costs(C, len(self.y))
        self._tol = tolerance(tol)
        self._geometry = KernelGeometry(K)
        # Multipliers are of the order of 1/K unless their caps are smaller.
        largest = float(self._geometry.gram.diagonal().max())
        self._unit = min(1.0 / largest, self.C.max()) if largest > 0 else self.C.max()
        self._F = np.sqrt(self._unit) * gram_factor(K)
        # With w = 0 the cost is twice that of the lighter class, and at the optimum ½‖w‖² is no more; an
        # optimal b leaves some output at ±1. A bound further out is none, and OSQP slow at its price.
        lighter = min(self.C[self.y > 0].sum(), self.C[self.y < 0].sum())
        self._reach = 1.0 + 4.0 * np.sqrt(max(largest, 0.0) * lighter)
        n, r = self._F.shape
        ones, eye = np.ones(n), sp.eye_array(n)
        self._signs = np.concatenate([self.y, -ones, ones])
        families = sp.hstack([sp.diags_array(self.y), -eye, eye])
        A = sp.block_array(
            [
                [None, sp.csr_array(self._F.T), -sp.eye_array(r)],
                [families, -eye, None],
                [sp.csr_array(self._signs[None, :]), None, None],
                [sp.eye_array(3 * n), None, None],
            ],
            format="csc",
        )
        P = sp.diags_array(np.concatenate([np.zeros(4 * n), np.ones(r)]), format="csc")
        self._lower = np.zeros(A.shape[0])
        self._solver = osqp.OSQP()
        self._solver.setup(
            sp.csc_matrix(P),  # OSQP knows matrices, not sparse arrays
            self._linear(np.inf),
            sp.csc_matrix(A),
            self._lower,
            self._upper(np.inf),
            **_SETTINGS,
        )

    def solve(
        self, B: float = np.inf, *, max_iter: int | None = None, time_limit: float | None = None,
        start: Solution | None = None,
    ) -> Solution:  # fmt: skip
        """Solve for a bound B on the outputs.

        Parameters
        ----------
        B : float
            The bound, at least 0; infinite for the SVM.
        max_iter : int, optional
            Iterations of OSQP at most; 100,000 by default.
        time_limit : float, optional
            Seconds.
        start : Solution, optional
            Where to start: a solution for another bound or other costs, by this or another solver of
            this package. By default at zero.

        Returns
        -------
        Solution
            ``primal`` has ``coef`` (expansion coefficients, shape (n,)) and ``b``, scaled back within
            the bounds; ``duals`` has ``margin`` (alpha) and, for finite B, ``bound_above`` (lam) and
            ``bound_below`` (lam_star), made exactly feasible. ``objective`` and ``bound`` are the
            primal and dual objectives at these. The status is ``SOLVED`` where OSQP says solved and
            the gap between them agrees. After Ctrl-C the point is the one before this call, or zero.

        Raises
        ------
        ValueError
            B is negative or not a number.
        """
        B, max_iter = at_least("B", B, 0.0, infinite=True), whole_or_none("max_iter", max_iter)
        solver, effective = self._solver, np.inf if self._reach <= B else B
        solver.update(q=self._linear(effective), l=self._lower, u=self._upper(effective))
        solver.warm_start(*self._iterates(start, effective))
        clock, best, least = Clock(time_limit), None, np.inf
        used, spent, most = 0, 0.0, _MAX_ITER if max_iter is None else max_iter
        for tol in (*(stage for stage in _STAGES if stage > self._tol), self._tol):
            left = clock.left
            solver.update_settings(
                eps_abs=tol,
                eps_rel=tol,
                max_iter=most - used,
                time_limit=solver.constant("OSQP_INFTY") if left is None else left,
            )
            answer = self._solution(solver.solve(raise_error=False), B)
            used, spent = used + answer.iterations, spent + answer.solve_time
            gap = relative_gap(answer.objective, float(answer.bound or 0.0)) if answer.primal else np.inf
            if best is None or gap < least:
                best, least = answer, gap
            ended = answer.status not in (Status.SOLVED, Status.INACCURATE)
            if ended or least <= _CLOSED or used >= most:
                break
        assert best is not None
        # A limit on the way to the last stage is none to a point that an earlier one has proven.
        proven = best.status is Status.SOLVED and answer.status is not Status.INTERRUPTED
        status = Status.SOLVED if proven else answer.status
        return replace(best, status=status, iterations=used, solve_time=spent)

    def _linear(self, B: float) -> Vector:
        n, r = self._F.shape
        price = B if np.isfinite(B) else 0.0
        return np.concatenate([np.full(n, -1.0), np.full(2 * n, price), np.zeros(n + r)])

    def _upper(self, B: float) -> Vector:
        n, r = self._F.shape
        free = np.inf if np.isfinite(B) else 0.0
        return np.concatenate([np.zeros(r + n + 1), self.C / self._unit, np.full(2 * n, free)])

    def _iterates(self, start: Solution | None, B: float) -> tuple[Vector, Vector]:
        """Variables and multipliers of OSQP's program from the multipliers of the machine's dual."""
        n, r = self._F.shape
        if start is None or not start.primal:
            return np.zeros(4 * n + r), np.zeros(4 * n + r + 1)
        rows = ("margin", "bound_above", "bound_below")
        a = np.concatenate([start.duals.get(row, np.zeros(n)) for row in rows]) / self._unit
        beta = (self._signs * a).reshape(3, n).sum(axis=0)
        z = self._F.T @ beta
        g, b = self._F @ z, float(start["b"])
        # What is left of the gradient is what the bounds on a must hold.
        held = -(self._linear(B)[: 3 * n] + self._signs * np.tile(g + b, 3))
        return np.concatenate([a, beta, z]), np.concatenate([z, g, [b], held])

    def _solution(self, found: Any, B: float) -> Solution:
        n = len(self.y)
        info = found.info
        status = _STATUSES.get(info.status, Status.FAILED)
        times = {"build_time": info.setup_time, "solve_time": info.solve_time + info.polish_time}
        if status is Status.FAILED or not np.isfinite(found.x).all():
            return Solution(status, {}, {}, np.nan, None, "osqp", info.iter, **times)
        rows = hinge_families(self.y, self.C, B)
        program = HingeProgram("the dual", self._geometry, rows)
        Z = program.repair((self._unit * found.x[: 3 * n]).reshape(3, n)[: len(rows)])
        beta = rows.beta(Z)
        b = program.best_intercept(beta)
        f = self._geometry.scores(beta) + b
        shrink = rows.shrink(f)
        objective, bound = program.primal_value(beta, f, shrink), program.dual_value(Z)
        if status is Status.SOLVED and relative_gap(objective, bound) > _GAP:
            status = Status.INACCURATE
        return Solution(
            status=status,
            primal={"coef": shrink * beta, "b": np.array(shrink * b)},
            duals=rows.named(Z),
            objective=objective,
            bound=bound,
            solver="osqp",
            iterations=info.iter,
            **times,
        )


# The program is feasible and bounded: what else OSQP may say of it is a failure.
_STATUSES = {
    "solved": Status.SOLVED,
    "solved inaccurate": Status.INACCURATE,
    "maximum iterations reached": Status.ITERATION_LIMIT,
    "run time limit reached": Status.TIME_LIMIT,
    "interrupted": Status.INTERRUPTED,
}
