"""The program of a node of :mod:`polyopt.solvers.l0.tree`, kept in HiGHS: some centres on, some off.

With a = α / C, a centre that is on costs 1 whatever its a in [0, 1], one that is off has a = 0, and a free
one costs a, which is what the relaxation makes of it:

    min  #on + Σ_free a_j + C Σ w_i ξ_i   s.t.   y_i (C Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ a ≤ 1.

For any multipliers u of the rows, 0 ≤ u ≤ C w and Σ y_i u_i = 0, with r_j = C t_j (K'Yu)_j,

    #on + Σ u − Σ_on [r_j]_+ − Σ_free [r_j − 1]_+

bounds the node's scores. With a price of squares, in the place of [r_j]_+ stands the most that r a − l2 C² a²
comes to, and a free centre costs its share of a whole one (:mod:`formulations.l0_ridge`); the program is then
that of :mod:`polyopt.solvers.l0.ridge`.

The bound is evaluated from the data and lowered by its rounding (:class:`NodeBound`), so nothing depends on a
solver being right: neither on HiGHS here, nor on the steps of our own that usually spare it
(:mod:`polyopt.solvers.l0.warm`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates import expansion
from polyopt.certificates.l0 import saved as saved_by
from polyopt.certificates.rounding import Ball
from polyopt.solvers.clock import Clock
from polyopt.solvers.persistent_lp import PersistentLP, margin_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.l0_data import L0Data
    from formulations.matrices import Vector

    Marks = NDArray[np.int8]

__all__ = ["FREE", "OFF", "ON", "NodeBound", "NodeLP", "NodeSolution"]

OFF, FREE, ON = -1, 0, 1  # what a node says of a centre
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
        r_j, of the bound; with a price of squares the most that a whole centre saves.
    basis : ndarray of int8
        Where the program's solver may begin with a child. Of linear programs, where rows and columns stand,
        and which columns are on, (n + 2 p,): zeros where that is not known.
    u : ndarray of shape (n,)
        Multipliers near those of the bound, which are in balance.
    solved : bool
        Whether it is the optimum; else only `bound` and `rates` say something.
    sigma : ndarray of shape (p,), optional
        The share of a whole centre that each a counts; by default a itself.
    """

    bound: float
    a: Vector = field(repr=False)
    b: float
    rates: Ball = field(repr=False)
    basis: Marks = field(repr=False)
    u: Vector = field(repr=False)
    solved: bool
    sigma: Vector | None = field(repr=False, default=None)

    @property
    def shares(self) -> Vector:
        """What each centre counts of a whole one, shape (p,)."""
        return self.a if self.sigma is None else self.sigma

    def unpaid(self, fixed: Marks, price: float) -> float:
        """What the free centres in use would cost more, were each a whole one.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        price : float
            l2 C².
        """
        used = (fixed == FREE) & (self.a > 0.0)
        share, squares = self.shares[used], price * self.a[used] ** 2
        return float((1.0 - share - squares * (1.0 / share - 1.0)).sum())


class NodeBound:
    """What multipliers prove of the nodes of a problem.

    Parameters
    ----------
    data : L0Data
        The problem.

    Attributes
    ----------
    signed : ndarray of shape (n, p)
        C y_i K_ij t_j, by rows.
    caps : ndarray of shape (n,)
        Largest multipliers: C w, and not above it.
    columns : (ndarray, ndarray), each of shape (p,)
        Largest absolute entry of each column of `signed`, and largest error of one.
    """

    def __init__(self, data: L0Data):
        self.data = data
        self.signed = np.ascontiguousarray(data.y[:, None] * data.K * (data.C * data.centres))
        self.caps = np.nextafter(data.C * data.weights, 0.0)  # not over C w, which the product may be
        self.columns = data.C * data.column_sizes[0], data.C * data.column_sizes[1]
        self._price = Ball(data.l2) * data.C * data.C

    def of(self, fixed: Marks, u: Vector) -> tuple[float, Ball, Ball]:
        """The bound of the multipliers nearest to these that are feasible, what centres save, and they.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        u : ndarray of shape (n,)
            Any numbers.
        """
        return self._of(fixed, expansion.balanced(u, self.data.y, self.caps))

    def proves(self, fixed: Marks, u: Vector) -> float:
        """The bound of multipliers within their caps and in balance, exactly; arguments as of :meth:`of`."""
        return self._of(fixed, Ball(u))[0]

    def _of(self, fixed: Marks, u: Ball) -> tuple[float, Ball, Ball]:
        rates = expansion.rates(u.mid @ self.signed, *self.columns, u)
        if self.data.l2:
            rates = saved_by(rates, self._price)
        saved = (rates - (fixed == FREE)).positive()[fixed != OFF].sum()
        return float((float((fixed == ON).sum()) + u.sum() - saved).lower), rates, u


class NodeLP:
    """The program of a node in HiGHS, of which a new node changes bounds and costs only.

    Parameters
    ----------
    bound : NodeBound
        Of the problem.
    """

    def __init__(self, bound: NodeBound):
        self._bound, data = bound, bound.data
        n, p = data.K.shape
        cost = data.C * data.weights
        # What K makes of a small error in u is large where K is: HiGHS gets all costs times this.
        self._scale = max(1.0, float(np.abs(bound.signed).max(initial=0.0)))
        self._model = _Model(
            self._scale * np.concatenate([np.ones(p), [0.0], cost]),
            margin_rows(bound.signed, data.y),
            1.0,
            np.inf,
            np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
            np.concatenate([np.ones(p), np.full(n + 1, np.inf)]),
        )
        self._at = np.full(p, FREE, dtype=np.int8)

    def solve(self, fixed: Marks, cutoff: float, clock: Clock, *, most: int | None = None) -> NodeSolution:
        """Solve the program of a node, from where the last solve ended.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        cutoff : float
            A bound of this much is enough.
        clock : Clock
            No solve goes on after its limit.
        most : int, optional
            Iterations at most, for a quick bound.
        """
        found = self._solve(fixed, cutoff, clock, most)
        if not found.solved and most is None and found.bound < cutoff and not clock.is_over:
            # HiGHS failed, or stopped at a cutoff that its multipliers do not quite prove.
            self._model.forget()
            found = self._solve(fixed, np.inf, clock, None)
        return found

    def _solve(self, fixed: Marks, cutoff: float, clock: Clock, most: int | None) -> NodeSolution:
        changed = np.flatnonzero(fixed != self._at).astype(np.int32)
        self._model.change(changed, self._scale * (fixed[changed] != ON), fixed[changed] != OFF)
        self._at = fixed.copy()
        optimal = self._model.run(self._scale * (cutoff - (fixed == ON).sum()), most, clock.left)
        values, prices = self._model.point()
        n, p = self._bound.data.K.shape
        u = prices / self._scale if np.isfinite(prices).all() else np.zeros(n)
        bound, rates, multipliers = self._bound.of(fixed, u)
        solved = optimal and bool(np.isfinite(values).all())
        a, b = (np.clip(values[:p], 0.0, 1.0), float(values[p])) if solved else (np.zeros(p), 0.0)
        return NodeSolution(bound, a, b, rates, np.zeros(n + 2 * p, np.int8), multipliers.mid, solved)


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

    def run(self, cutoff: float, most: int | None, seconds: float | None) -> bool:
        """Run to the optimum, if neither a value of `cutoff` nor a limit comes first."""
        highs = self._highs
        highs.setOptionValue("objective_bound", cutoff)
        highs.setOptionValue("simplex_iteration_limit", _UNLIMITED if most is None else most)
        # HiGHS's clock runs on from run to run.
        highs.setOptionValue("time_limit", np.inf if seconds is None else highs.getRunTime() + seconds)
        highs.run()
        return bool(highs.getModelStatus().name == "kOptimal")

    def point(self) -> tuple[Vector, Vector]:
        """Columns and multipliers of the rows, nan where there are none."""
        q, p = self.shape
        solution = self._highs.getSolution()
        x = np.array(solution.col_value) if solution.value_valid else np.full(p, np.nan)
        prices = np.array(solution.row_dual) if solution.dual_valid else np.full(q, np.nan)
        return x, prices
