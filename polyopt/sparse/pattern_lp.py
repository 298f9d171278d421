"""The linear program of a pattern of the L0 machine, solved for many patterns, and the cuts of its solutions.

A pattern σ (p,) of zeros and ones selects the centres that may be used. Its least hinge loss is

    L(σ) = min Σ w_i ξ_i  s.t.  y_i (Σ_j K_ij t_j α_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ α_j ≤ C σ_j,

eq. (2) of :mod:`formulations.l0`, and its score S(σ) = 1'σ + C L(σ). HiGHS keeps this primal form
(:class:`PatternLP`): only the upper bounds of α depend on σ, and both bounds are finite, so every basis stays
dual feasible and the dual simplex method continues from it. The dual program took 1.5 to 2 times as long
(ionosphere, RBF, patterns late in a cross-entropy run).

Every solution gives a cut, a lower bound on L at all patterns; :class:`CutPool` keeps the cuts. A search
ends with the program of its best pattern (:func:`finished`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import best_intercept
from formulations.l0_data import L0Data, as_patterns
from formulations.language.clock import Clock
from formulations.language.recovery import slacks
from formulations.language.solution import Solution, Status
from formulations.language.types import Vector
from polyopt.optim.warm_lp import LinearSolution, PersistentLP
from polyopt.sparse.certificate import cut_of
from polyopt.sparse.one_norm import expansion_lp

_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT)


@dataclass(frozen=True)
class Options:
    """Sizes and tolerances of pattern programs and of the search over patterns."""

    max_unproven_share: float = 1e-7  # gap, relative to the total weight, for which a warm start is trusted
    max_cuts: int = 256  # cuts in the pool, 8 p bytes each
    patterns_per_look: int = 16  # between two screenings by cuts; the same for any number of threads
    min_p: float = 0.05  # least initial probability of a centre, so that each may be drawn
    max_p: float = 0.95  # largest one, so that each may be left out


OPTIONS = Options()


@dataclass(frozen=True)
class PatternSolution:
    """The solution of a pattern's program; value and bound are evaluated from the data.

    The status is SOLVED; INACCURATE if the bound is below the value; a limit; CUT_OFF if the bound is above
    the cutoff; or FAILED.
    """

    status: Status
    value: float  # the loss at alpha and b: L(σ), or more at a limit; inf without a point
    bound: float  # the dual value of u: L(σ) or less; 0 if HiGHS failed
    alpha: Vector  # (p,) coefficients, 0 where σ is 0; nan if the program was cut off or HiGHS failed
    b: float  # the best intercept for alpha, the midpoint if it is not unique; nan if alpha is
    u: Vector  # (n,) multipliers of the margin constraints; zeros if HiGHS failed
    cut: tuple[float, Vector]  # constant and slopes (p,) of L(σ') ≥ constant − slopes·σ', for every σ'
    iterations: int
    warm: bool  # True if the solve started from the basis of another pattern


class PatternLP:
    """The program of a pattern, kept in HiGHS: a new pattern changes column bounds only.

    By default a solve starts from the last basis, so which of several optima is found depends on the earlier
    solves. After :meth:`prepare` every solve starts from the basis of the batch's mean; the results then
    depend on the batch only, to the last bit, and not on the order of the patterns or on the threads.
    """

    def __init__(self, data: L0Data):
        self.data = data
        self._lp: PersistentLP | None = None
        self._anchor: Any = None  # basis from which every solve starts; None: from the last one
        self._columns = np.arange(len(self.data.centres))  # centres in the program

    def prepare(self, Sigma: ArrayLike, *, time_limit: float | None = None) -> PatternSolution:
        """Solve the program of a batch's mean pattern; later solves start from its basis. Sigma is (s, p).

        The program then has only the columns that the batch uses. Starting from the mean takes fewer pivots
        than going from pattern to pattern, even in the best order.
        """
        patterns = np.atleast_2d(as_patterns(Sigma, len(self.data.centres)))
        mean = patterns.mean(axis=0) if len(patterns) else np.zeros(patterns.shape[1])
        lp = self._build(np.flatnonzero(mean))
        solution = self._read(mean, lp.solve(upper=self._upper(mean), time_limit=time_limit))
        self._anchor = lp.basis
        return solution

    def solve(
        self, sigma: ArrayLike, *, time_limit: float | None = None, cutoff: float | None = None
    ) -> PatternSolution:
        """Solve the program of one pattern (p,).

        If it uses columns that :meth:`prepare` left out, the program is built again with all columns.

        cutoff: stop as soon as L(σ) is proven to be above it: (γ − 1'σ) / C if only scores up to γ matter.
            HiGHS checks this every few pivots, and may still return an optimum above it. If it stops, but the
            bound evaluated from the data is not above the cutoff, the program is solved again without a
            cutoff. So CUT_OFF is a proof, and any other result is the same as without a cutoff.
        """
        pattern = as_patterns(sigma, len(self.data.centres))
        if pattern.ndim != 1:
            raise ValueError(f"sigma must be one pattern, of shape ({len(self.data.centres)},)")
        lp = self._lp
        if lp is None or np.delete(pattern, self._columns).any():
            lp = self._build(np.arange(len(pattern)))
        run: dict[str, Any] = {"upper": self._upper(pattern), "time_limit": time_limit}
        solution = self._read(pattern, lp.solve(**run, basis=self._anchor, cutoff=cutoff))
        if cutoff is not None and solution.status is Status.CUT_OFF and solution.bound <= cutoff:
            solution = self._read(pattern, lp.solve(**run, basis=self._anchor))
        if solution.status is Status.INACCURATE and solution.warm:
            lp.forget()
            fresh = self._read(pattern, lp.solve(**run))
            solution = fresh if fresh.status is not Status.FAILED else solution
        return solution

    def _build(self, columns: NDArray[np.intp]) -> PersistentLP:
        """Build the program of these columns, scaled by C: HiGHS's dual tolerance is then one on the loss."""
        data, self._columns = self.data, columns
        no_cost, caps = np.zeros(len(columns)), np.full(len(columns), data.C)
        self._lp = expansion_lp(
            data.K[:, columns], data.y, data.centres[columns], caps, no_cost, data.weights
        )
        self._anchor = None
        return self._lp

    def _upper(self, sigma: Vector) -> Vector:
        """Return the upper bounds for a pattern: σ_j of each α_j / C; none of b and the slacks."""
        return np.concatenate([sigma[self._columns], np.full(len(self.data.y) + 1, np.inf)])

    def _read(self, sigma: Vector, lp_solution: LinearSolution) -> PatternSolution:
        """Evaluate value, bound and cut of HiGHS's solution from the data."""
        data = self.data
        alpha, b, value = np.full(len(sigma), np.nan), np.nan, np.inf
        if np.isnan(lp_solution.duals).any():
            cut = 0.0, np.zeros(len(sigma))
            return PatternSolution(
                Status.FAILED, value, 0.0, alpha, b, np.zeros(len(data.y)), cut, 0, warm=False
            )
        status, u = lp_solution.status, -lp_solution.duals
        constant, slopes = cut_of(data, u)
        dual_value = constant - slopes.dot(sigma)
        if status is not Status.CUT_OFF:
            alpha = np.zeros(len(sigma))
            alpha[self._columns] = data.C * lp_solution.x[: len(self._columns)]
            alpha = np.clip(alpha, 0.0, data.C * sigma)
            b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
            value = data.loss(alpha, b)
        if status not in (*_LIMITS, Status.CUT_OFF):
            # The gap to the midpoint of the bound: its rounding error would be the same after another solve.
            unproven = (value - max(float(dual_value.mid), 0.0)) / float(data.weights.sum())
            is_proven = unproven <= OPTIONS.max_unproven_share
            status = Status.SOLVED if is_proven else Status.INACCURATE
        return PatternSolution(
            status, value, max(float(dual_value.lower), 0.0), alpha, b, u,
            (float(constant.lower), slopes.upper), lp_solution.iterations, lp_solution.warm,
        )  # fmt: skip


class CutPool:
    """Cuts L(σ) ≥ constant − slopes·σ; the largest cut is a lower bound on L(σ).

    In a full pool a new cut replaces the oldest one.
    """

    def __init__(self, data: L0Data):
        self.constants = np.full(OPTIONS.max_cuts, -np.inf)
        self.slopes = np.zeros((OPTIONS.max_cuts, len(data.centres)))
        self._n_added = 0

    def add(self, constant: float, slopes: Vector) -> None:
        """Add a cut, such as the ``cut`` of a :class:`PatternSolution`."""
        place = self._n_added % OPTIONS.max_cuts
        self.constants[place], self.slopes[place] = constant, slopes
        self._n_added += 1

    def bounds(self, Sigma: ArrayLike) -> Vector:
        """Return a lower bound, at least 0, on L(σ) of each pattern (s, p)."""
        patterns = np.atleast_2d(as_patterns(Sigma, self.slopes.shape[1]))
        used = slice(min(self._n_added, OPTIONS.max_cuts))
        values = self.constants[used] - patterns @ self.slopes[used].T
        return np.asarray(values.max(axis=1, initial=0.0))


def finished(
    data: L0Data, point: tuple[Vector, float], bound: float, status: Status, *, tol: float,
    left: float | None = None, **run: Any,
) -> Solution:  # fmt: skip
    """Solve the program of the best point's pattern again, and return the solution of the search.

    point: the best point (alpha, b).
    bound: lower bound on every score; nan counts as 0.
    tol: relative gap above which SOLVED becomes INACCURATE.
    left: seconds left; half a second more may be used.
    run: further fields of the solution.
    """
    clock = Clock(None if left is None else left + 0.5)
    alpha, b = point
    lp = PatternLP(data)
    while True:
        pattern = data.support(alpha)
        solution = lp.prepare(pattern, time_limit=clock.left)
        has_point = solution.status is not Status.FAILED
        if has_point and data.score(solution.alpha, solution.b) <= data.score(alpha, b):
            alpha, b = solution.alpha, solution.b
        # If the solution uses fewer centres than its pattern, solve the program of these.
        if (data.support(alpha) == pattern).all() or clock.is_over:
            break
    alpha = np.where(pattern, alpha, 0.0)  # entries that `support` counts as 0
    zeros = np.zeros(len(pattern))
    if data.score(zeros, trivial_intercept(data)) < data.score(alpha, b):  # no program was solved
        alpha, b, pattern = zeros, trivial_intercept(data), zeros > 0.0
    score = data.score(alpha, b)
    bound = min(float(bound), score) if bound > 0.0 else 0.0
    if status is Status.SOLVED and score - bound > tol * score:
        status = Status.INACCURATE
    primal = {
        "alpha": alpha,
        "b": np.array(b),
        "xi": slacks(data.outputs(alpha, b), data.y),
        "sigma": pattern.astype(float),
    }
    run["solve_time"] += clock.seconds
    return Solution(status, primal, {"margin": solution.u}, score, bound, **run)


def trivial_intercept(data: L0Data) -> float:
    """Return the best intercept b of the constant classifier f = b."""
    plus, minus = (float(data.weights[data.y == side].sum()) for side in (1.0, -1.0))
    is_tied = abs(plus - minus) <= 1e-9 * max(plus, minus)  # up to the rounding of the sums
    if min(plus, minus) > 0.0 and not is_tied:
        return 1.0 if plus > minus else -1.0
    return best_intercept(np.zeros(len(data.y)), data.y, data.weights)
