"""The linear programs of the L0 machine, one pattern after the other, and the cuts that they leave behind.

L(σ) = min Σ w_i ξ_i  s.t.  y_i (Σ_j K_ij t_j α_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ α_j ≤ C σ_j   (eq. (2) of
:mod:`formulations.l0`). This primal form is the one kept in HiGHS: σ is the upper bound of the columns α,
both bounds finite, so any basis stays dual feasible under any other σ, and the dual simplex method goes on
from it. The dual form, where σ_j = 0 opens a column of free slack in row j, took 1.5 to 2 times as long
(ionosphere, RBF, patterns as late in a cross-entropy run).

Every solved pattern leaves a cut, which bounds L at all patterns; :class:`CutPool` keeps the cuts. A search
begins from a point (:func:`as_start`) and ends with the program of its best pattern (:func:`finished`).
"""

from __future__ import annotations

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
_SUM_ROUNDING = 1e-9  # relative, more than the rounding of a sum
_GRACE_SECONDS = 0.5  # after a limit, for the program that gives the answer its multipliers


@dataclass(frozen=True)
class Options:
    """Numbers of pattern programs and of the search over them.

    max_unproven_share: share of the total weight that an optimum's own multipliers may leave unproven; beyond
        it the program is solved again from nothing.
    max_cuts: cuts in the pool, 8 p bytes each.
    patterns_per_look: patterns or flips between two looks at the cuts; not the number of workers, on which
        the work shall not depend.
    min_p, max_p: bounds of the probabilities from the relaxation: every centre may be drawn or left out.
    """

    max_unproven_share: float = 1e-7
    max_cuts: int = 256
    patterns_per_look: int = 16
    min_p: float = 0.05
    max_p: float = 0.95


OPTIONS = Options()


@dataclass(frozen=True)
class PatternSolution:
    """The solution of a pattern's program.

    status: SOLVED; INACCURATE if the bound stays short of the value; a limit; CUT_OFF if the bound is above
        the cutoff; or FAILED.
    value: the loss at alpha and b, evaluated from the data: L(σ), or more at a limit; inf without a point.
    bound: the value that u proves, evaluated from the data: L(σ) or less; 0 if HiGHS failed.
    alpha (p,): coefficients, 0 where σ is 0; nan if the program was cut off or HiGHS failed.
    b: the best intercept for alpha, the middle of several; nan as alpha.
    u (n,): multipliers of the margin constraints; zeros if HiGHS failed.
    cut: the constant and the slopes (p,) of L(σ') ≥ constant − slopes·σ', valid for every σ' whatever the
        status.
    warm: True if the answer comes from a basis of another pattern.
    """

    status: Status
    value: float
    bound: float
    alpha: Vector
    b: float
    u: Vector
    cut: tuple[float, Vector]
    iterations: int
    warm: bool


class PatternLP:
    """The program of a pattern, kept in HiGHS: a new pattern changes column bounds only.

    Each solve goes on from the last one's basis; which of several optima is found then depends on the solves
    before. After :meth:`prepare` each begins from the basis of the batch's mean, and the answers depend, to
    the last bit, on the batch alone: not on the order within it, nor on which worker solves what.
    """

    def __init__(self, data: L0Data, options: Options = OPTIONS):
        self.data, self.options = data, options
        self._lp: _AnchoredLP | None = None
        self._columns = np.arange(len(self.data.centres))

    def prepare(self, Sigma: ArrayLike, *, time_limit: float | None = None) -> PatternSolution:
        """Keep the columns that a batch of patterns (s, p) uses, and begin each solve from its mean.

        The mean is nearer to each pattern than they are to each other: going from neighbour to neighbour
        takes more pivots, even in the best of orders. Return the solution of the mean, whose cut is near all
        of them.
        """
        patterns = np.atleast_2d(as_patterns(Sigma, len(self.data.centres)))
        mean = patterns.mean(axis=0) if len(patterns) else np.zeros(patterns.shape[1])
        lp = self._build(np.flatnonzero(mean))
        solution = self._read(mean, lp.solve(upper=self._upper(mean), time_limit=time_limit))
        lp.drop_anchor()
        return solution

    def solve(
        self, sigma: ArrayLike, *, time_limit: float | None = None, cutoff: float | None = None
    ) -> PatternSolution:
        """Solve the program of one pattern (p,); one outside the columns prepared ends what that arranged.

        cutoff: stop as soon as L(σ) is proven to be above it: (γ − 1'σ) / C for patterns whose score S(σ) may
            be γ at most. HiGHS looks every few pivots, and may reach an optimum above it all the same. If it
            stops and the bound, evaluated from the data, is not above the cutoff, the program is solved once
            more without: CUT_OFF is a proof, and any other answer is the one without a cutoff.
        """
        pattern = as_patterns(sigma, len(self.data.centres))
        if pattern.ndim != 1:
            raise ValueError(f"sigma must be one pattern, of shape ({len(self.data.centres)},)")
        lp = self._lp
        if lp is None or np.delete(pattern, self._columns).any():
            lp = self._build(np.arange(len(pattern)))
        solution = self._read(pattern, lp.solve_from_anchor(self._upper(pattern), time_limit, cutoff))
        if cutoff is not None and solution.status is Status.CUT_OFF and solution.bound <= cutoff:
            solution = self._read(pattern, lp.solve_from_anchor(self._upper(pattern), time_limit))
        if solution.status is Status.INACCURATE and solution.warm:
            lp.forget()
            fresh = self._read(pattern, lp.solve(time_limit=time_limit))
            solution = fresh if fresh.status is not Status.FAILED else solution
        return solution

    def _build(self, columns: NDArray[np.intp]) -> _AnchoredLP:
        # In units of C: HiGHS's tolerance on a column's price is then one on what its cap saves in all.
        data, self._columns = self.data, columns
        nothing, caps = np.zeros(len(columns)), np.full(len(columns), data.C)
        self._lp = expansion_lp(
            _AnchoredLP, data.K[:, columns], data.y, data.centres[columns], caps, nothing, data.weights
        )
        return self._lp

    def _upper(self, sigma: Vector) -> Vector:
        return np.concatenate([sigma[self._columns], np.full(len(self.data.y) + 1, np.inf)])

    def _read(self, sigma: Vector, lp_solution: LinearSolution) -> PatternSolution:
        """Evaluate the point and its bound from the data."""
        data = self.data
        alpha, b, value = np.full(len(sigma), np.nan), np.nan, np.inf
        if np.isnan(lp_solution.duals).any():
            cut = 0.0, np.zeros(len(sigma))
            return PatternSolution(
                Status.FAILED, value, 0.0, alpha, b, np.zeros(len(data.y)), cut, 0, warm=False
            )
        status, u = lp_solution.status, -lp_solution.duals
        constant, slopes = cut_of(data, u)
        proven = constant - slopes.dot(sigma)
        if status is not Status.CUT_OFF:
            alpha = np.zeros(len(sigma))
            alpha[self._columns] = data.C * lp_solution.x[: len(self._columns)]
            alpha = np.clip(alpha, 0.0, data.C * sigma)
            b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
            value = data.loss(alpha, b)
        if status not in (*_LIMITS, Status.CUT_OFF):
            # Without the rounding, which another solve would not make smaller.
            unproven = (value - max(float(proven.mid), 0.0)) / float(data.weights.sum())
            is_proven = unproven <= self.options.max_unproven_share
            status = Status.SOLVED if is_proven else Status.INACCURATE
        return PatternSolution(
            status, value, max(float(proven.lower), 0.0), alpha, b, u,
            (float(constant.lower), slopes.upper), lp_solution.iterations, lp_solution.warm,
        )  # fmt: skip


class _AnchoredLP(PersistentLP):
    """A persistent program that may begin every solve from one kept basis."""

    _anchor: Any = None

    def drop_anchor(self) -> None:
        """Keep the basis of the last solve, if it left one."""
        with self._lock:
            self._anchor = self._highs.getBasis() if self._has_basis else None

    def solve_from_anchor(
        self, upper: Vector, time_limit: float | None, cutoff: float | None = None
    ) -> LinearSolution:
        """Solve with new upper bounds from the kept basis, or from the last one if none is kept."""
        if self._anchor is not None:
            with self._lock:
                # HiGHS keeps more than a basis: cleared, the answer depends on the basis alone.
                self._highs.clearSolver()
                self._highs.setBasis(self._anchor)
                self._has_basis = True
        return self.solve(upper=upper, time_limit=time_limit, cutoff=cutoff)


class CutPool:
    """Cuts L(σ) ≥ constant − slopes·σ, the largest of which bounds L(σ) at a pattern that is not solved yet.

    In a full pool, a new cut takes the place of the one that was last the largest, or was last added, longest
    ago.
    """

    def __init__(self, data: L0Data, options: Options = OPTIONS):
        self.constants, self.slopes = np.empty(0), np.empty((0, len(data.centres)))
        self._max_cuts = options.max_cuts
        self._last_of_use, self._now = np.empty(0, dtype=np.int64), 0

    def add(self, constant: float, slopes: Vector) -> None:
        """Add a cut, such as the ``cut`` of a :class:`PatternSolution`."""
        self._now += 1
        if len(self.constants) < self._max_cuts:
            self.constants = np.append(self.constants, constant)
            self.slopes = np.vstack([self.slopes, slopes])
            self._last_of_use = np.append(self._last_of_use, self._now)
            return
        at = int(self._last_of_use.argmin())
        self.constants[at], self.slopes[at], self._last_of_use[at] = constant, slopes, self._now

    def bounds(self, Sigma: ArrayLike) -> Vector:
        """Bound L(σ) of each pattern (s, p) from below, by at least 0."""
        patterns = np.atleast_2d(as_patterns(Sigma, self.slopes.shape[1]))
        if not len(self.constants):
            return np.zeros(len(patterns))
        values = self.constants - patterns @ self.slopes.T
        best = values.argmax(axis=1)
        self._now += 1
        self._last_of_use[best] = self._now
        return np.maximum(values[np.arange(len(best)), best], 0.0)


def as_start(data: L0Data, start: tuple[ArrayLike, float]) -> tuple[Vector, float]:
    """Return a start, pruned and clipped to its box; ValueError for another shape or infinite numbers."""
    alpha, b = np.asarray(start[0], dtype=float), float(start[1])
    if alpha.shape != data.centres.shape or not (np.isfinite(alpha).all() and np.isfinite(b)):
        raise ValueError(
            f"start must be (alpha, b), finite, alpha of shape {data.centres.shape}, not of {alpha.shape}"
        )
    alpha = np.clip(alpha, 0.0, data.C)
    return np.where(data.support(alpha), alpha, 0.0), b


def finished(
    data: L0Data, point: tuple[Vector, float], bound: float, status: Status, *, tol: float,
    left: float | None = None, **run: Any,
) -> Solution:  # fmt: skip
    """Solve the program of the pattern of a search's best point (alpha, b) again; return the solution.

    SOLVED becomes INACCURATE if the relative gap between score and bound is above `tol`. `left` are the
    seconds left, which may be passed by half a second; `run` are further fields of the solution.
    """
    clock = Clock(None if left is None else left + _GRACE_SECONDS)
    (alpha, b), lp = point, PatternLP(data)
    while True:
        pattern = data.support(alpha)
        solution = lp.prepare(pattern, time_limit=clock.left)
        has_point = solution.status is not Status.FAILED
        if has_point and data.score(solution.alpha, solution.b) <= data.score(alpha, b):
            alpha, b = solution.alpha, solution.b
        # If the support has shrunk, its own program counts.
        if (data.support(alpha) == pattern).all() or clock.is_over:
            break
    alpha = np.where(pattern, alpha, 0.0)
    score, nothing = data.score(alpha, b), np.zeros(len(pattern))
    lighter = min(float(data.weights[data.y == side].sum()) for side in (-1.0, 1.0))
    # Without a centre the score is twice the lighter class, but for rounding.
    if score > 2.0 * data.C * lighter * (1.0 - _SUM_ROUNDING) and data.score(nothing, idle(data)) < score:
        alpha, b, pattern = nothing, idle(data), nothing > 0.0  # HiGHS failed
        score = data.score(alpha, b)
    bound = min(float(bound), score) if bound > 0.0 else 0.0  # nan counts as 0
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


def idle(data: L0Data) -> float:
    """Return the best intercept without any centre."""
    plus, minus = (float(data.weights[data.y == side].sum()) for side in (1.0, -1.0))
    if min(plus, minus) > 0.0 and abs(plus - minus) > _SUM_ROUNDING * max(plus, minus):
        return 1.0 if plus > minus else -1.0
    return best_intercept(np.zeros(len(data.y)), data.y, data.weights)
