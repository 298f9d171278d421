"""The program of a node of :mod:`polyopt.solvers.l0.tree`, kept in HiGHS: some centres on, some off.

With a = α / C, a centre that is on costs 1 whatever its a in [0, 1], one that is off has a = 0, and a free
one costs a, which is what the relaxation makes of it:

    min  #on + Σ_free a_j + C Σ w_i ξ_i   s.t.   y_i (C Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ a ≤ 1.

For any multipliers u of the rows, 0 ≤ u ≤ C w and Σ y_i u_i = 0, with r_j = C t_j (K'Yu)_j,

    #on + Σ u − Σ_on [r_j]_+ − Σ_free [r_j − 1]_+

bounds the node's scores. This is evaluated from the data and lowered by its rounding, so nothing depends on
HiGHS being right. HiGHS therefore works on the few rows and columns that matter: u_i = 0 where a row is left
out, and a column left out counts in the bound like any other. Those that would change the bound are added,
until none is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates import expansion
from polyopt.certificates.rounding import Ball
from polyopt.solvers.clock import Clock
from polyopt.solvers.persistent_lp import PersistentLP, margin_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data

    Vector = NDArray[np.float64]
    Marks = NDArray[np.int8]

__all__ = ["FREE", "OFF", "ON", "NodeLP", "NodeSolution"]

OFF, FREE, ON = -1, 0, 1  # what a node says of a centre
_LOWER, _BASIC, _UPPER = 0, 1, 2  # the values of HiGHS's HighsBasisStatus
# A row or a column this near to counting comes along when others are added, for it will soon be wanted.
_SOON = 0.3
# Beside the options of PersistentLP. What HiGHS does before its first pivot is half the time of a node.
_OPTIONS = {
    "simplex_scale_strategy": 0,
    "primal_feasibility_tolerance": 1e-8,
    "dual_feasibility_tolerance": 1e-8,
}
_UNLIMITED = 2**31 - 1  # iterations: HiGHS's own default


@dataclass(frozen=True)
class NodeSolution:
    """What the program of a node came to.

    Attributes
    ----------
    bound : float
        What u proves of every score within the node, rounding included.
    a : ndarray of shape (p,)
        α / C; meaningful where `solved`.
    b : float
        Intercept.
    rates : Ball of shape (p,)
        r_j, of the bound.
    basis : ndarray of int8 of shape (p + 1 + 2 n,)
        Statuses of a, b, ξ and the rows.
    u : ndarray of shape (n,)
        Multipliers near those of the bound, which are in balance.
    solved : bool
        Whether HiGHS came to the optimum; else only `bound` and `rates` say something.
    """

    bound: float
    a: Vector = field(repr=False)
    b: float
    rates: Ball = field(repr=False)
    basis: Marks = field(repr=False)
    u: Vector = field(repr=False)
    solved: bool


class NodeLP:
    """The program of a node, of which a new node changes bounds and costs only.

    Parameters
    ----------
    data : L0Data
        The problem.

    Attributes
    ----------
    solves : int
        Programs solved.
    """

    def __init__(self, data: L0Data):
        self.data = data
        n, p = data.K.shape
        self._signed = np.asfortranarray(data.y[:, None] * data.K * (data.C * data.centres))
        self._cost = data.C * data.weights
        self._caps = np.nextafter(self._cost, 0.0)  # not over C w, which the product may be
        self._sizes, self._errors = (data.C * of_columns for of_columns in data.column_sizes)
        # What K makes of a small error in u is large where K is: HiGHS gets all costs times this.
        self._scale = max(1.0, float(np.abs(self._signed).max(initial=0.0)))
        self.solves = 0
        self._rows, self._columns = np.arange(n), np.arange(p)
        self._whole = True
        self._build()

    def solve(
        self,
        fixed: Marks,
        basis: Marks | None,
        cutoff: float,
        clock: Clock,
        *,
        most: int | None = None,
        loss: float = 0.0,
    ) -> NodeSolution:
        """Solve the program of a node.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        basis : ndarray of int8 of shape (p + 1 + 2 n,), optional
            Where to begin; by default where the last solve ended.
        cutoff : float
            A bound of this much is enough.
        clock : Clock
            No solve goes on after its limit.
        most : int, optional
            Iterations at most, for a quick bound.
        loss : float
            What the rows and columns left out may cost the bound.
        """
        while True:
            found = self._solve(fixed, basis, cutoff, clock, most)
            if not found.solved and most is None and found.bound < cutoff and not clock.is_over:
                # HiGHS failed, or stopped at a cutoff that its multipliers do not quite prove.
                self._model.forget()
                found = self._solve(fixed, None, np.inf, clock, None)
            if not found.solved or self._whole or not self._grow(fixed, found, loss):
                return found
            basis = found.basis

    def narrow(self, found: NodeSolution) -> None:
        """Leave out the rows and columns that are far from counting in this solution."""
        y_f = self._margins(found)
        self._set(y_f < 1.0 + _SOON, found.rates.mid > 1.0 - _SOON)

    def _grow(self, fixed: Marks, found: NodeSolution, loss: float) -> bool:
        """Whether what is left out costs more than `loss`; it is then added."""
        y_f = self._margins(found)
        short = self._cost * np.maximum(1.0 - y_f, 0.0)
        short[self._rows] = 0.0
        over = np.where(fixed == OFF, 0.0, np.maximum(found.rates.mid - (fixed == FREE), 0.0))
        over[self._columns] = 0.0
        # What HiGHS itself leaves by its tolerances is no reason to go on.
        if short.sum() + over.sum() <= max(loss, 1e-7 * (1.0 + abs(found.bound))):
            return False
        rows, columns = np.zeros(len(short), dtype=bool), np.zeros(len(over), dtype=bool)
        rows[self._rows], columns[self._columns] = True, True
        self._set(rows | (y_f < 1.0 + _SOON), columns | (over > 0.0) | (found.rates.mid > 1.0 - _SOON))
        return True

    def _margins(self, found: NodeSolution) -> Vector:
        return np.asarray(self._by_columns @ found.a[self._columns] + self.data.y * found.b)

    def _set(self, rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> None:
        self._rows, self._columns = np.flatnonzero(rows), np.flatnonzero(columns)
        self._whole = bool(rows.all() and columns.all())
        self._build()

    def _build(self) -> None:
        rows, columns = self._rows, self._columns
        n, p = len(rows), len(columns)
        self._by_rows = np.ascontiguousarray(self._signed[rows])
        self._by_columns = np.asfortranarray(self._signed[:, columns])
        self._model = _Model(
            self._scale * np.concatenate([np.ones(p), [0.0], self._cost[rows]]),
            margin_rows(self._by_columns[rows], self.data.y[rows]),
            1.0,
            np.inf,
            np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
            np.concatenate([np.ones(p), np.full(n + 1, np.inf)]),
        )
        self._at = np.full(p, FREE, dtype=np.int8)
        size, whole = len(self.data.centres), len(self.data.y)
        # Where each column and then each row of HiGHS's stands in a basis of ours.
        self._places = np.concatenate([columns, [size], size + 1 + rows, size + 1 + whole + rows])

    def _solve(
        self, fixed: Marks, basis: Marks | None, cutoff: float, clock: Clock, most: int | None
    ) -> NodeSolution:
        marks = fixed[self._columns]
        changed = np.flatnonzero(marks != self._at).astype(np.int32)
        self._model.change(changed, self._scale * (marks[changed] != ON), marks[changed] != OFF)
        self._at = marks
        if basis is not None:
            self._model.begin_at(basis[self._places])
        constant = float((fixed == ON).sum())
        optimal = self._model.run(self._scale * (cutoff - constant), most, clock.left)
        self.solves += 1
        return self._read(fixed, constant, optimal)

    def _read(self, fixed: Marks, constant: float, optimal: bool) -> NodeSolution:
        data, p = self.data, len(self._columns)
        values, prices = self._model.point()
        n, a, b = len(data.y), np.zeros(len(data.centres)), 0.0
        prices = prices / self._scale if np.isfinite(prices).all() else np.zeros(len(prices))
        u = expansion.balanced(prices, data.y[self._rows], self._caps[self._rows])
        rates = expansion.rates(u.mid @ self._by_rows, self._sizes, self._errors, u)
        saved = (rates - (fixed == FREE)).positive()[fixed != OFF].sum()
        bound = float((constant + u.sum() - saved).lower)
        basis = np.zeros(len(a) + 1 + 2 * n, dtype=np.int8)
        basis[len(a) + 1 + n :] = _BASIC
        solved = optimal and bool(np.isfinite(values).all())
        if solved:
            a[self._columns] = np.clip(values[:p], 0.0, 1.0)
            b = float(values[p])
            basis[: len(a)] = np.where(a == 1.0, _UPPER, _LOWER)
            basis[len(a) + 1 + n + self._rows] = _LOWER
            basis[self._places[self._model.basic()]] = _BASIC
        multipliers = np.zeros(n)
        multipliers[self._rows] = u.mid
        return NodeSolution(bound, a, b, rates, basis, multipliers, solved)

    def proves(self, fixed: Marks, u: Vector) -> float:
        """What multipliers prove of every score within a node, rounding included.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        u : ndarray of shape (n,)
            Multipliers within their caps and in balance, exactly.
        """
        exact = Ball(u)
        rates = expansion.rates(u @ self._signed, self._sizes, self._errors, exact)
        saved = (rates - (fixed == FREE)).positive()[fixed != OFF].sum()
        return float((float((fixed == ON).sum()) + exact.sum() - saved).lower)


class _Model(PersistentLP):
    """A persistent program of which costs change as well, begun from any basis."""

    def _build(self) -> None:
        super()._build()
        for name, value in _OPTIONS.items():
            self._highs.setOptionValue(name, value)

    def change(self, columns: NDArray[np.int32], cost: ArrayLike, upper: ArrayLike) -> None:
        """Give columns, whose lower bound is 0, other costs and upper bounds."""
        if columns.size:
            size = len(columns)
            self._highs.changeColsCost(size, columns, np.asarray(cost, dtype=float))
            self._highs.changeColsBounds(size, columns, np.zeros(size), np.asarray(upper, dtype=float))

    def begin_at(self, marks: Marks) -> None:
        """Begin the next run from a basis: the statuses of the columns, then of the rows."""
        import highspy

        kinds = (
            highspy.HighsBasisStatus.kLower,
            highspy.HighsBasisStatus.kBasic,
            highspy.HighsBasisStatus.kUpper,
        )
        statuses, columns = [kinds[mark] for mark in marks.tolist()], self.shape[1]
        basis = highspy.HighsBasis()
        basis.col_status, basis.row_status, basis.valid = statuses[:columns], statuses[columns:], True
        self._highs.setBasis(basis)

    def run(self, cutoff: float, most: int | None, seconds: float | None) -> bool:
        """Run to the optimum, if neither a value of `cutoff` nor a limit comes first."""
        highs = self._highs
        highs.setOptionValue("objective_bound", cutoff)
        highs.setOptionValue("simplex_iteration_limit", _UNLIMITED if most is None else most)
        # HiGHS's clock runs on from run to run.
        highs.setOptionValue("time_limit", np.inf if seconds is None else highs.getRunTime() + seconds)
        with self._ear.hears(Clock()):
            highs.run()
        return bool(highs.getModelStatus().name == "kOptimal")

    def point(self) -> tuple[Vector, Vector]:
        """Columns and multipliers of the rows, nan where there are none."""
        q, p = self.shape
        solution = self._highs.getSolution()
        x = np.array(solution.col_value) if solution.value_valid else np.full(p, np.nan)
        prices = np.array(solution.row_dual) if solution.dual_valid else np.full(q, np.nan)
        return x, prices

    def basic(self) -> NDArray[np.intp]:
        """The basic variables: columns, then rows counted on from the columns."""
        variables = np.array(self._highs.getBasicVariables()[1], dtype=np.intp)
        return np.where(variables >= 0, variables, self.shape[1] - 1 - variables)
