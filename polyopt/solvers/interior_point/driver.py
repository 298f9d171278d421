"""The loop of the interior-point solver: survey the point, stop on proof, or take a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.recovery import as_costs, as_data, best_intercept
from formulations.solution import Solution, Status
from polyopt.certificates.certificate import relative_gap
from polyopt.solvers.clock import Clock
from polyopt.solvers.decomposition.dual import Dual
from polyopt.solvers.interior_point.passes import (
    centre,
    condense,
    cost,
    direct,
    step,
    step_apart,
    target,
    weigh,
)
from polyopt.solvers.interior_point.rows import Rows
from polyopt.solvers.interior_point.system import Regulariser, System

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["solve_interior_point"]

_ITERATIONS = 200  # at most, by default; twenty to forty are usual
import os

EF = float(os.environ.get("EF", "10"))
_EASE = float(os.environ.get("EASE", "1e-7"))
_ENOUGH = 0.05  # of the gap asked for, once it is reached, is not improved upon
_STALL = 12  # iterations without progress of any kind after which a run gives up
_FIRST_SHARE = 0.9  # of the way to its end that a sample goes in the first step
_SHARE = 0.99  # of the way to the first end that all go in later ones
_CORRECTIONS = 2  # centrality corrections at most
_REACH = 0.3  # by how much a correction is to lengthen the step
_GAIN = 0.03  # by how much it has to
_NEAR, _FAR = 0.1, 10.0  # products in this range of the mean are well centred
_FULL = 0.95  # steps this long need no correction


def solve_interior_point(
    X: Any,
    y: ArrayLike,
    C: ArrayLike,
    B: float = np.inf,
    *,
    D: float | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Solution:
    """Solve the linear SVM, Sigma-SVM or Relative Margin Machine by a primal-dual interior-point method.

    The work of an iteration is that of one matrix X'DX, so m should not be much above a thousand.
    Memory: some 28 numbers per sample (18 without a bound), a block of rows, and matrices of size m.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples. float32 and CSR are used as they are; no more than a block of rows is ever copied.
    y : array_like of shape (n,)
        Labels -1 and +1; both must occur among the samples that have a cost.
    C : float or array_like of shape (n,)
        Cost per sample, finite and non-negative.
    B : float
        Bound on the outputs, positive; infinite for the SVM and the Sigma-SVM.
    D : float, optional
        Share of the output variance in the regulariser of the Sigma-SVM, within [0, 1].
    weights : array_like of shape (n,), optional
        Weights of the samples in the Sigma-SVM's mean and covariance, positive.
    tol : float
        Relative tolerance of the duality gap, and of the residuals of the optimality conditions.
    max_iter : int, optional
        Iterations at most; 200 by default.
    time_limit : float, optional
        Seconds.
    progress : callable, optional
        Called with every record of the history as it is made.

    Returns
    -------
    Solution
        ``primal`` has ``w`` (m,) and ``b`` (for centred inputs, if D is given): a point that respects
        ±B. At D = 1 with a singular covariance w has the least norm. ``duals`` has ``margin`` (alpha)
        and, for finite B, ``bound_above`` (lam) and ``bound_below`` (lam_star), feasible as they are.
        ``objective`` and ``bound`` are the primal and the dual objective at these. ``history`` has one
        record per iteration, with both values for the best points so far and the largest of the
        relative residuals (violation). A limit, or Ctrl-C, keeps the best points; a run that gets no
        nearer although it is short of `tol` ends with ``Status.INACCURATE``.

    Raises
    ------
    ValueError
        An argument of the wrong shape or value.
    """
    clock = Clock(time_limit)
    rows, y, costs = _checked(X, y, C, B)
    run = _Run(rows, y, costs, float(B), _regulariser(rows, D, weights), D is not None, tol, clock, progress)
    try:
        status = run.run(_ITERATIONS if max_iter is None else max_iter)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    return run.solution(status)


def _checked(X: Any, y: ArrayLike, C: ArrayLike, B: float) -> tuple[Rows, Vector, Vector]:
    """The data of a solve, or an error that says what is wrong with it."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, not shape {X.shape}")
    _, y = as_data(np.empty((X.shape[0], 0)), y)  # the labels alone: X is not to be copied
    costs = as_costs(C, len(y))
    if not (costs[y > 0].any() and costs[y < 0].any()):
        raise ValueError("C must be positive for samples of both classes; y or C leaves only one")
    if not B > 0:
        raise ValueError(f"B must be positive, not {B!r}")
    rows = Rows(X)
    if not np.isfinite(rows.size):
        raise ValueError("X must be finite; it has NaN or infinite values")
    return rows, y, costs


def _regulariser(rows: Rows, D: float | None, weights: ArrayLike | None) -> Regulariser:
    """R; and the rows are centred: on the Sigma-SVM's mean, or, if dense, for the sake of precision."""
    counts = np.ones(rows.n) if weights is None else np.asarray(weights, dtype=float)
    if counts.shape != (rows.n,) or not np.isfinite(counts).all() or not (counts > 0).all():
        raise ValueError(f"weights must be positive and of shape ({rows.n},), not {weights!r}")
    shares = (counts / counts.sum())[:, None]
    if D is None:
        if not rows.is_sparse:
            rows.shift = rows.pull(shares)[:-1, 0]
        return Regulariser(rows.m)
    if not 0.0 <= D <= 1.0:
        raise ValueError(f"D must lie in [0, 1], not {D!r}")
    rows.shift = rows.pull(shares)[:-1, 0]
    Sigma = rows.normal(shares[:, 0], shares)[0][:-1, :-1]
    # What rounding leaves of a constant feature must not pass for a small variance.
    constant = Sigma.diagonal() <= rows.rounding * rows.shift**2
    Sigma[constant] = Sigma[:, constant] = 0.0
    return Regulariser(rows.m, (1.0 - D) * np.eye(rows.m) + D * Sigma)


class _Run:
    """The state of a run: the point, and the best primal and dual points so far."""

    def __init__(
        self,
        rows: Rows,
        y: Vector,
        C: Vector,
        B: float,
        regulariser: Regulariser,
        is_centred: bool,
        tol: float,
        clock: Clock,
        progress: Callable[[dict[str, float]], None] | None,
    ):
        self.rows, self.y, self.C, self.B, self.regulariser = rows, y, C, B, regulariser
        self._is_centred, self.tol, self._clock, self._progress = is_centred, tol, clock, progress
        self._dual, self._mean = Dual(y, C, B), float(C.mean())
        n, families = len(y), 4 if np.isfinite(B) else 2
        self._ease, self._residual = _EASE / self._mean, np.inf
        self._measure = 2.0 * float(C.sum()) + (families - 2.0) * n * self._mean
        self.v, self.f = np.zeros(rows.m + 1), np.zeros(n)
        self.Z, self.T = np.zeros((families, n)), np.ones((families, n))
        # At f = 0 this point is central and meets every row.
        self.Z[0], self.Z[1], self.T[0], self.T[1] = 0.75 * C, 0.25 * C, 0.5, 1.5
        if families == 4:
            self.Z[2:], self.T[2:] = 0.375 * self._mean / B, B
        self.dZ, self.dT, self.aim = np.zeros_like(self.Z), np.zeros_like(self.Z), np.zeros_like(self.Z)
        self._d, self._V, self._h = np.empty(n), np.empty((n, 2)), np.empty((n, 1))
        self.objective, self.best_v = float(C.sum()), self.v.copy()
        self.bound, self.best_beta = 0.0, np.zeros(n)
        self.history: list[dict[str, float]] = []

    # -- the loop ------------------------------------------------------------------------------

    def run(self, max_iter: int) -> Status:
        least = np.full(3, np.inf)  # gap, violation and distance to the end, each the best so far
        stale = 0
        while True:
            now = np.array(self._survey())
            if (now[:2] <= self.tol).all():
                return Status.OPTIMAL
            stale = 0 if (now < 0.9 * least).any() else stale + 1
            least = np.minimum(least, now)
            if stale > _STALL or not np.isfinite(now).all():
                return Status.INACCURATE
            if len(self.history) > max_iter:
                return Status.ITERATION_LIMIT
            if self._clock.is_over:
                return Status.TIME_LIMIT
            try:
                self._advance()
            except np.linalg.LinAlgError:
                return Status.INACCURATE

    def _survey(self) -> tuple[float, float, float]:
        """Look at the point: both objectives, the residuals, and the normal matrix for the next step.

        Returns the relative gap of the best points so far, the largest residual, and mu.
        """
        y, rows, regulariser = self.y, self.rows, self.regulariser
        gain, gain_of_repair, products, largest, multiplier, violation = weigh(
            y, self.C, self.f, self.B, self._ease, self.Z, self.T, self._d, self._V
        )
        self.M, pulled = rows.normal(self._d, self._V)
        w, gradient = self.v[:-1], regulariser.gradient(self.v[:-1])
        self._left = pulled[:, 0] - np.append(gradient, 0.0)
        self.mu = products / self._measure
        shrink = self._dual.shrink(self.f)
        value = shrink**2 * regulariser.energy(w) + cost(y, self.C, self.f, shrink)
        # The multipliers are repaired to sum beta = 0 by shares of the room that each of them has.
        imbalance, room = pulled[-1]
        share = imbalance / max(room, abs(imbalance), np.finfo(float).tiny)
        c = pulled[:-1, 0] - share * pulled[:-1, 1]
        bound = (
            gain - share * gain_of_repair - regulariser.conjugate(c) if abs(imbalance) <= room else -np.inf
        )
        size = max(
            np.abs(gradient).max(initial=0.0),
            np.abs(c).max(initial=0.0),
            1e-8 * rows.size * float(np.abs(self._V[:, 0]).sum()),
            1e-4 * regulariser.unit * np.sqrt(2.0 * value),
        )
        residual = float(np.abs(c - gradient).max(initial=0.0)) / size
        if relative_gap(value, bound) <= self.tol < residual and residual > 0.5 * self._residual:
            self._ease *= EF
        self._residual = residual
        violation = max(violation, residual, largest / multiplier)
        is_optimal = max(relative_gap(value, bound), violation) <= self.tol
        if value < self.objective or is_optimal:
            self.objective, self.best_v = value, self.v.copy()
        if bound > self.bound or is_optimal:
            self.bound, self.best_beta = bound, self._V[:, 0] - share * self._V[:, 1]
        self._record(violation)
        return relative_gap(self.objective, self.bound), violation, self.mu

    def _advance(self) -> None:
        """A step from the point that was surveyed last."""
        Z, T, dZ, dT, aim = self.Z, self.T, self.dZ, self.dT, self.aim
        system = System(self.regulariser, self.M)
        if len(self.history) == 1:
            self._aim(self.mu, 0.0)
            dv, df, _, _, _ = self._direction(system)
            step_apart(_FIRST_SHARE, Z, T, dZ, dT)
            self.v, self.f = self.v + dv, self.f + df
            return
        self._aim(0.0, 0.0)
        _, _, length, linear, square = self._direction(system)
        length = min(length, 1.0)
        left = 1.0 + (length * linear + length**2 * square) / (self.mu * self._measure)
        mu = max(left**3 * self.mu, _ENOUGH * self.tol * self.objective / self._measure)
        self._aim(mu, 1.0)
        dv, df, length, _, _ = self._direction(system)
        for _ in range(_CORRECTIONS):
            if length >= _FULL:
                break
            before = aim.copy()
            centre(self.C, self._mean, mu, Z, T, dZ, dT, min(length + _REACH, 1.0), _NEAR, _FAR, aim)
            dv2, df2, longer, _, _ = self._direction(system)
            if longer < length + _GAIN:
                aim[:] = before
                direct(self.y, self.C, self.f, self.B, self._ease, Z, T, aim, df, dZ, dT)
                break
            dv, df, length = dv2, df2, longer
        length = min(_SHARE * length, 1.0)
        step(length, Z, T, dZ, dT)
        self.v, self.f = self.v + length * dv, self.f + length * df

    def _aim(self, mu: float, second: float) -> None:
        target(self.C, self._mean, mu, self.Z, self.T, self.dZ, self.dT, second, self.aim)

    def _direction(self, system: System) -> tuple[Vector, Vector, float, float, float]:
        """Solve for what is aimed at: the changes of (w, b) and f, with what `direct` tells of the rest."""
        point = (self.y, self.C, self.f, self.B, self._ease, self.Z, self.T, self.aim)
        condense(*point, self._h)
        dv = system.solve(self._left + self.rows.pull(self._h)[:, 0])
        df = self.rows.scores(dv)
        return dv, df, *direct(*point, df, self.dZ, self.dT)

    def _record(self, violation: float) -> None:
        record = {
            "iteration": float(len(self.history)),
            "seconds": self._clock.seconds,
            "violation": violation,
            "objective": self.objective,
            "bound": self.bound,
        }
        self.history.append(record)
        if self._progress is not None:
            self._progress(record)

    # -- the answer ----------------------------------------------------------------------------

    def solution(self, status: Status) -> Solution:
        """The best points, with the intercept that is best for w."""
        y, C, B, regulariser = self.y, self.C, self.B, self.regulariser
        w, b = regulariser.least(self.best_v[:-1]), float(self.best_v[-1])
        g = self.rows.scores(np.append(w, 0.0))
        options = []
        for intercept in (best_intercept(g, y, C, B), b):
            shrink = self._dual.shrink(g + intercept)
            value = shrink**2 * regulariser.energy(w) + cost(y, C, g + intercept, shrink)
            options.append((value, shrink, intercept))
        objective, shrink, b = min(options)
        families = self._dual.split(self.best_beta)
        alpha, lam, lam_star = families
        names = ("margin", "bound_above", "bound_below") if np.isfinite(B) else ("margin",)
        c = self.rows.pull(self.best_beta[:, None])[:-1, 0]
        bound = float(alpha.sum()) - regulariser.conjugate(c)
        if np.isfinite(B):
            bound -= B * float(lam.sum() + lam_star.sum())
        if not self._is_centred:
            b -= float(self.rows.shift @ w)
        return Solution(
            status=status,
            primal={"w": shrink * w, "b": np.array(shrink * b)},
            duals=dict(zip(names, families, strict=False)),
            objective=objective,
            bound=bound,
            solver="interior-point",
            iterations=max(len(self.history) - 1, 0),
            solve_time=self._clock.seconds,
            history=tuple(self.history),
        )
