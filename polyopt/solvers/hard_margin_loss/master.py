"""The master program: which samples are given up, as far as the cuts tell; a linear program kept in HiGHS.

min  θ + Σ C_i z_i + P e   s.t.   θ/V_j + Σ_{S_j} z_i + e ≥ 1,   Σ_{S_j} z_i + e ≥ 1 (where θ < V_j is known)
0 ≤ z ≤ 1,   0 ≤ θ,   0 ≤ e ≤ 1

in units of the largest C_i, so that neither costs nor samples of another scale reach HiGHS's tolerances.
A node of the tree fixes some z at 0 or 1. With the price P of e no cut can make the program infeasible, so
that multipliers always prove what there is to prove. They are evaluated here from the cuts: HiGHS is trusted
with nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.clock import Clock
from formulations.highs import SIMPLEX, quiet_highs
from formulations.native import Ear
from polyopt.certificates.rounding import gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.hard_margin_loss.cuts import Cuts

    Bits = NDArray[np.bool_]
    Places = NDArray[np.int64]

__all__ = ["Master", "MasterSolution"]

_STEEP = 1e9  # of θ's entry in a row: a cut of a value so far below the costs says nothing
_ABOVE_ALL = 1.0 - 2.0**-50  # a product is rounded
_PRICE = 2.0  # of e, in units of the best value known
_SPARE = 200  # rows that are not tight, from which on these are taken out


@dataclass(frozen=True)
class MasterSolution:
    """A point of the master program, and what its multipliers prove.

    Attributes
    ----------
    z : ndarray of shape (n,)
        How much of each sample is given up.
    theta : float
        θ.
    bound : float
        Of the objective, in this node; proven.
    given_up : float
        Of Σ C_i z_i alone, in this node; proven.
    """

    z: Vector
    theta: float
    bound: float
    given_up: float


class Master:
    """The linear program, with those cuts in it that some node needed.

    Parameters
    ----------
    costs : ndarray of shape (n,)
        C_i.
    cuts : Cuts
        All cuts known, to be extended by the caller.
    """

    def __init__(self, costs: Vector, cuts: Cuts):
        highspy = quiet_highs()
        self._unit = float(costs.max())
        self._costs, self._cuts, n = costs / self._unit, cuts, len(costs)
        self._highs = highspy.Highs()
        self._ear = Ear(self._highs)
        for name, value in SIMPLEX.items():
            self._highs.setOptionValue(name, value)
        if self._highs.run() == highspy.HighsStatus.kError:
            self._highs.setOptionValue("threads", 0)  # a process keeps the number that HiGHS began with
        none = np.empty(0, dtype=np.int32), np.empty(0)
        for cost in self._costs:
            self._highs.addCol(float(cost), 0.0, 1.0, 0, *none)
        self._highs.addCol(1.0, 0.0, np.inf, 0, *none)
        self._highs.addCol(1.0, 0.0, 1.0, 0, *none)
        self._columns = np.arange(n + 2, dtype=np.int32)
        self.rows: list[tuple[int, bool]] = []  # of each row, its cut and whether it is the sharp form
        self._there: set[tuple[int, bool]] = set()
        self.solves = 0

    def add(self, cut: int, sharp: bool) -> bool:
        """Put a cut into the program, with θ or in the sharp form; False if it is there, or says nothing."""
        steep = 0.0 if sharp else self._unit / float(self._cuts.values[cut])
        if (cut, sharp) in self._there or steep > _STEEP:
            return False
        n, members = len(self._costs), self._cuts.sets[cut].astype(np.int32)
        places, entries = np.append(members, n + 1), np.ones(len(members) + 1)
        if not sharp:
            places, entries = np.append(places, n), np.append(entries, steep)
        order = np.argsort(places)
        self._highs.addRow(1.0, np.inf, len(places), places[order].astype(np.int32), entries[order])
        self.rows.append((cut, sharp))
        self._there.add((cut, sharp))
        return True

    def solve(self, low: Bits, high: Bits, limit: float, clock: Clock) -> MasterSolution | None:
        """Solve the program of a node; None where HiGHS has no multipliers.

        Parameters
        ----------
        low, high : ndarray of bool, shape (n,)
            Bounds of z: those given up, and those not met for certain.
        limit : float
            What θ is known to be less than in this node; sharp rows of lower values are left out of it.
        clock : Clock
            When time is up, HiGHS stops.
        """
        n, highs, most = len(self._costs), self._highs, limit / self._unit
        price = _PRICE * (most + float(self._costs.sum()))
        highs.changeColCost(n + 1, price)
        highs.changeColsBounds(n + 2, self._columns, np.append(low, [0.0, 0.0]), np.append(high, [most, 1.0]))
        values = self._cuts.values
        applies = np.array([not sharp or values[cut] >= limit for cut, sharp in self.rows], dtype=bool)
        if self.rows:
            lower = np.where(applies, 1.0, -np.inf)
            places = np.arange(len(self.rows), dtype=np.int32)
            highs.changeRowsBounds(len(places), places, lower, np.full(len(places), np.inf))
        seconds = np.inf if clock.left is None else highs.getRunTime() + clock.left
        highs.setOptionValue("time_limit", seconds)
        with self._ear.hears(Clock()):
            highs.run()
        self.solves += 1
        solution = highs.getSolution()
        if not (solution.value_valid and solution.dual_valid):
            highs.clearSolver()
            return None
        x = np.array(solution.col_value)
        duals = np.where(applies, np.maximum(np.array(solution.row_dual), 0.0), 0.0)
        proven = self._proven(duals, low, high, most, price)
        bound, given_up = (max(each, 0.0) * self._unit * _ABOVE_ALL for each in proven)
        theta = max(float(x[n]), 0.0) * self._unit
        return MasterSolution(np.clip(x[:n], low, high), theta, bound, given_up)

    def _proven(
        self, duals: Vector, low: Bits, high: Bits, limit: float, price: float
    ) -> tuple[float, float]:
        """Bounds by multipliers, in units: of the objective, and of Σ C_i z_i from the sharp rows alone.

        For multipliers λ ≥ 0 the least of the Lagrangian over the box of z, θ and e is Σ λ plus, for each
        column, the lesser of its reduced cost times either bound.
        """
        used = np.flatnonzero(duals)
        if not used.size:
            return float(self._costs @ low) * (1.0 - 1e-12), float(self._costs @ low) * (1.0 - 1e-12)
        cuts = np.array([self.rows[j][0] for j in used], dtype=np.int64)
        sharp = np.array([self.rows[j][1] for j in used], dtype=bool)
        sets, lam = [self._cuts.sets[j] for j in cuts], duals[used]
        places, lengths = np.concatenate(sets), [len(one) for one in sets]
        n, count = len(self._costs), len(used)
        found = []
        for weight in (lam, np.where(sharp, lam, 0.0)):
            pulled = np.bincount(places, np.repeat(weight, lengths), minlength=n)
            reduced = self._costs - pulled
            total = float(weight.sum())
            of_z = np.minimum(reduced * low, reduced * high)
            of_theta = 1.0 - float(np.where(sharp, 0.0, weight) @ (self._unit / self._cuts.values[cuts]))
            own = total + float(of_z.sum()) + min(of_theta * limit, 0.0) + min(price - total, 0.0)
            size = total + float((self._costs + pulled).sum()) + (1.0 + abs(of_theta)) * limit + price
            found.append(own - 4.0 * gamma(n + count + 8) * size)
        return found[0], found[1]

    def tidy(self) -> None:
        """Take rows that are not tight at the last point out, where there are many."""
        if len(self.rows) < 2 * len(self._costs) + _SPARE:
            return
        duals = np.array(self._highs.getSolution().row_dual)
        idle = np.flatnonzero(np.abs(duals) <= 0.0).astype(np.int32)
        self._highs.deleteRows(len(idle), idle)
        gone = set(idle.tolist())
        self._there -= {self.rows[j] for j in gone}
        self.rows = [row for j, row in enumerate(self.rows) if j not in gone]
