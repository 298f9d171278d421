"""The linear programs of the L0 machine, one pattern after the other, and the bounds that they leave behind.

L(σ) = min Σ w_i ξ_i  s.t.  y_i (Σ_j K_ij t_j α_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ α_j ≤ C σ_j   (eq. (2) of
:mod:`formulations.l0`). This primal form is the one kept in HiGHS: σ is the upper bound of the columns α,
both bounds finite, so any basis stays dual feasible under any other σ, and the dual simplex method goes on
from it. The dual form, where σ_j = 0 opens a column of free slack in row j, took 1.5 to 2 times as long
(ionosphere, RBF, patterns as late in a cross-entropy run).

Every solved pattern leaves a cut, which bounds L at all patterns; :class:`CutPool` keeps the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import as_patterns
from formulations.language.solution import Status
from polyopt.optim.warm_lp import PersistentLP, margin_rows
from polyopt.sparse.certificate import cut_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data
    from formulations.language.types import Vector
    from polyopt.optim.warm_lp import LinearSolution


__all__ = ["UNPROVEN", "CutPool", "PatternLP", "PatternSolution"]


# An optimum whose own multipliers leave more than this share of the total weight unproven is solved again.
UNPROVEN = 1e-7
_MAX_CUTS = 256  # cuts that a pool keeps; each takes 8 p bytes
_LIMITS = (Status.TIME_LIMIT, Status.ITERATION_LIMIT)


@dataclass(frozen=True)
class PatternSolution:
    """The solution of a pattern's program.

    status: SOLVED; INACCURATE where the bound stays short of the value; a limit; CUT_OFF where the bound is
        above the cutoff given; or FAILED.
    value: the loss at alpha and b, evaluated from the data: L(σ), or more where a limit was reached; inf
        where the program was cut off or HiGHS failed.
    bound: what u proves, evaluated from the data: L(σ) or less, above the cutoff where one cut the program
        off; 0 where HiGHS failed.
    alpha (p,): coefficients, 0 where σ is 0; nan where the program was cut off or HiGHS failed.
    b: the best intercept for alpha, in the middle where there are several; nan where alpha is.
    u (n,): multipliers of the margin rows; zeros where HiGHS failed.
    cut (p,): the constant and the slopes of L(σ') ≥ constant − slopes·σ', valid for every σ', whatever the
        status.
    warm: whether the answer comes from a basis of another pattern.
    restarted: whether HiGHS failed from that basis and the program was solved once more from nothing.
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
    restarted: bool


class PatternLP:
    """The program of a pattern, kept in HiGHS, of which a new pattern changes column bounds only.

    data: the problem, kept as an attribute of that name.

    Notes
    -----
    Each solve goes on from the last one's basis. Where an optimum is not unique, which one is found then
    depends on what was solved before. After :meth:`prepare` each begins from the basis of the batch's mean,
    and the answers depend, to the last bit, on the batch alone: not on the order within it, nor on what was
    solved before, nor on which worker solves what.
    """

    def __init__(self, data: L0Data):
        self.data = data
        self._lp: _AnchoredLP | None = None
        self._columns = np.arange(len(self.data.centres))

    def prepare(self, Sigma: ArrayLike, *, time_limit: float | None = None) -> PatternSolution:
        """Get ready for a batch of patterns: keep the columns that it uses, begin each solve from its mean.

        The mean is nearer to each than they are to each other: going from neighbour to neighbour takes more
        pivots, even in the best of orders, and makes each answer depend on the others.

        Sigma (m, p): the patterns, all of them even where a worker solves only some.
        time_limit: seconds, for the program of the mean.
        Returns: of the mean pattern, whose entries are between 0 and 1. Its cut is near all of the batch.
        """
        patterns = np.atleast_2d(as_patterns(Sigma, len(self.data.centres)))
        mean = patterns.mean(axis=0) if len(patterns) else np.zeros(patterns.shape[1])
        lp = self._build(np.flatnonzero(mean))
        found = self._read(mean, lp.solve(upper=self._upper(mean), time_limit=time_limit))
        lp.drop_anchor()
        return found

    def solve(
        self, sigma: ArrayLike, *, time_limit: float | None = None, cutoff: float | None = None
    ) -> PatternSolution:
        """Solve the program of one pattern.

        sigma (p,): the pattern, 1 where a centre may be used. One outside the columns of the last
            :meth:`prepare` ends what that arranged.
        cutoff: stop as soon as L(σ) is proven to be above it: (γ − 1'σ) / C for patterns whose score S(σ) may
            be γ at most. HiGHS looks every few pivots, and may reach an optimum above it all the same. Where
            it stops and the bound, evaluated from the data, is not above the cutoff, the program is solved
            once more without: CUT_OFF is a proof, and any other answer is the one without a cutoff.
        Returns: whatever HiGHS does, its status says it; nothing is raised.
        ValueError: sigma is not a pattern, or cutoff is nan.
        """
        pattern = as_patterns(sigma, len(self.data.centres))
        if pattern.ndim != 1:
            raise ValueError(f"sigma must be one pattern, of shape ({len(self.data.centres)},)")
        lp = self._lp
        if lp is None or np.delete(pattern, self._columns).any():
            lp = self._build(np.arange(len(pattern)))
        found = self._read(pattern, lp.solve_from_anchor(self._upper(pattern), time_limit, cutoff))
        if cutoff is not None and found.status is Status.CUT_OFF and found.bound <= cutoff:
            found = self._read(pattern, lp.solve_from_anchor(self._upper(pattern), time_limit))
        if found.status is Status.INACCURATE and found.warm:
            lp.forget()
            again = self._read(pattern, lp.solve(time_limit=time_limit), restarted=True)
            found = again if again.status is not Status.FAILED else found
        return found

    def _build(self, columns: NDArray[np.intp]) -> _AnchoredLP:
        """The model of the given columns of K: α / C of these, b, ξ."""
        data, n, p = self.data, len(self.data.y), len(columns)
        # In units of C: HiGHS's tolerance on a column's price is then one on what its cap saves in all.
        signed = data.y[:, None] * data.K[:, columns] * (data.C * data.centres[columns])
        self._columns = columns
        self._lp = _AnchoredLP(
            np.concatenate([np.zeros(p + 1), data.weights]),
            margin_rows(signed, data.y),
            1.0,
            np.inf,
            np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
            np.concatenate([np.zeros(p), np.full(n + 1, np.inf)]),
        )
        return self._lp

    def _upper(self, sigma: Vector) -> Vector:
        return np.concatenate([sigma[self._columns], np.full(len(self.data.y) + 1, np.inf)])

    def _read(self, sigma: Vector, found: LinearSolution, restarted: bool = False) -> PatternSolution:
        """The point and its bound, evaluated from the data."""
        data, restarted = self.data, restarted or found.restarted
        if np.isnan(found.duals).any():
            nothing = np.full(len(sigma), np.nan), np.nan, np.zeros(len(data.y)), (0.0, np.zeros(len(sigma)))
            return PatternSolution(Status.FAILED, np.inf, 0.0, *nothing, 0, warm=False, restarted=restarted)
        status, u = found.status, -found.duals
        constant, slopes = cut_of(data, u)
        proves = constant - slopes.dot(sigma)
        bound = max(float(proves.lower), 0.0)
        if status is Status.CUT_OFF:
            alpha, b, value = np.full(len(sigma), np.nan), np.nan, np.inf
        else:
            alpha = np.zeros(len(sigma))
            alpha[self._columns] = data.C * found.x[: len(self._columns)]
            alpha = np.clip(alpha, 0.0, data.C * sigma)
            b = best_intercept(data.outputs(alpha, 0.0), data.y, data.weights)
            value = data.loss(alpha, b)
        if status not in (*_LIMITS, Status.CUT_OFF):
            # Rounding apart, which another solve would not make smaller.
            proven = value - max(float(proves.mid), 0.0) <= UNPROVEN * float(data.weights.sum())
            status = Status.SOLVED if proven else Status.INACCURATE
        return PatternSolution(
            status,
            value,
            bound,
            alpha,
            b,
            u,
            (float(constant.lower), slopes.upper),
            found.iterations,
            warm=found.warm and not restarted,
            restarted=restarted,
        )


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
        """Solve with new upper bounds from the kept basis, or from the last one where none is kept."""
        if self._anchor is not None:
            with self._lock:
                # What HiGHS keeps besides a basis goes as well: the answer shall depend on the basis alone.
                self._highs.clearSolver()
                self._highs.setBasis(self._anchor)
                self._has_basis = True
        return self.solve(upper=upper, time_limit=time_limit, cutoff=cutoff)


class CutPool:
    """Bounds on L(σ) for patterns that are not solved yet.

    Every cut L(σ) ≥ constant − slopes·σ is valid for every σ (:func:`polyopt.sparse.certificate.cut_of`), so
    the largest counts. When the pool is full, a new cut takes the place of the one that was last the largest,
    or was last added, longest ago.

    constants (number of cuts,): the constants.
    slopes (number of cuts, p): the slopes, never negative.
    """

    def __init__(self, data: L0Data):
        self.constants, self.slopes = np.empty(0), np.empty((0, len(data.centres)))
        self._last_of_use, self._now = np.empty(0, dtype=np.int64), 0

    def add(self, constant: float, slopes: Vector) -> None:
        """Add a cut.

        slopes (p,): the slopes; ``pool.add(*solution.cut)`` adds what a :class:`PatternSolution` proves.
        """
        self._now += 1
        same = np.flatnonzero(np.abs(self.constants - constant) <= 1e-12 * abs(constant))
        if same.size and (self.slopes[same] == slopes).all(axis=1).any():
            return
        if len(self.constants) < _MAX_CUTS:
            self.constants = np.append(self.constants, constant)
            self.slopes = np.vstack([self.slopes, slopes])
            self._last_of_use = np.append(self._last_of_use, self._now)
            return
        at = int(self._last_of_use.argmin())
        self.constants[at], self.slopes[at], self._last_of_use[at] = constant, slopes, self._now

    def bounds(self, Sigma: ArrayLike) -> Vector:
        """Bounds from below on L(σ) of each pattern, at least 0.

        Sigma (m, p): the patterns.
        Returns (m,).
        """
        patterns = np.atleast_2d(as_patterns(Sigma, self.slopes.shape[1]))
        if not len(self.constants):
            return np.zeros(len(patterns))
        values = self.constants - patterns @ self.slopes.T
        best = values.argmax(axis=1)
        self._now += 1
        self._last_of_use[best] = self._now
        return np.maximum(values[np.arange(len(best)), best], 0.0)
