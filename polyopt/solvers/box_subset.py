"""A face of at most s features by linear programs in a box: the exact Polyceptron's, for one assignment.

The face pays Σ c_i [1 − y_i w·x̃_i]_+ and nothing else, and no entry of w is beyond R. What multipliers u of
its margins, within 0 and c, prove of the faces of a node of a search is

    Σ u − R (|v_b| + Σ_{j in} |v_j| + the s − |in| largest |v_j| of the free),        v = Σ u_i y_i x̃_i,

and the best u are a linear program (:mod:`formulations.polyceptron_subset`). It stays in HiGHS: the node is
in the bounds of its columns, so that each goes on from the last basis.

In a wide box such a bound is that of all features that are not out: it rises only as features are left out.
Searches over 20 or 30 features mostly come to an end; beyond, a gap is often left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from formulations.matrices import is_sparse
from formulations.polytope import lift
from formulations.solution import Status
from polyopt.solvers.choices import Choices, Fitted, Proof, Relaxed
from polyopt.solvers.persistent_lp import PersistentLP

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.solvers.clock import Clock

    Bits = NDArray[np.bool_]

__all__ = ["BoxSubset", "FeatureLP"]

_ENDS = (Status.SOLVED, Status.TIME_LIMIT)
_NOTHING = 1e-10  # of a score: what a weight of less can move
_ROOM = 1.0 + 1e-12  # so that a margin of 1 is not missed by rounding
_NEAR = 1e-6  # of a margin of 1, which a solver's tolerance misses


class _Point(NamedTuple):
    """A face in the units of the box, its multipliers, and the bound of these; what it solved is `solved`."""

    w: Vector
    u: Vector
    bound: float
    solved: bool


class FeatureLP:
    """The dual of a face's linear program with features in, out and free, kept in HiGHS.

    Columns are u (n), s⁺ and s⁻ (m+1 each), λ, μ and ν (m each), and r (m), which takes whatever a feature
    that is out pulls; rows are the balance of each entry of w, and for each feature s⁺ + s⁻ ≤ λ + μ − ν.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels: +1 inside, -1 outside.
    s : int
        Features at most.
    radius : float
        R, finite.
    units : ndarray of shape (m+1,)
        What the features, and the 1 behind them, are multiplied with: powers of 2, the last one 1.
    """

    def __init__(self, X: Matrix, y: Vector, s: int, radius: float, units: Vector):
        n, m = X.shape
        self.m, self.s, self.units, self.box = m, s, units, radius / units
        lifted = lift(X) * units
        self.y, self.lifted = y, sp.csr_array(lifted) if is_sparse(X) else lifted
        signed = sp.csc_array(sp.csc_array(self.lifted * y[:, None]).T)
        one, each = sp.eye_array(m + 1, format="csc"), sp.eye_array(m, format="csc")
        held = sp.eye_array(m, m + 1, format="csc")  # no bias is chosen
        shares = sp.csc_array(-units[:m, None])
        balance = [signed, -one, one, sp.csc_array((m + 1, 1 + 2 * m)), -held.T]
        links = [sp.csc_array((m, n)), held, held, shares, -each, each, sp.csc_array((m, m))]
        A = sp.vstack([sp.hstack(balance), sp.hstack(links)], format="csc")
        bias = np.zeros(m + 1)
        bias[-1] = radius
        own = self.box[:m]
        cost = np.concatenate([-np.ones(n), bias, bias, [s * radius], own, -own, np.zeros(m)])
        rows = np.concatenate([np.zeros(m + 1), np.full(m, -np.inf)])
        self.model = PersistentLP(cost, A, rows, np.zeros(2 * m + 1), 0.0, np.inf)

    def solve(self, costs: Vector, inside: Bits, out: Bits, clock: Clock) -> _Point:
        """The best multipliers of a node, and the face of its relaxation.

        Parameters
        ----------
        costs : ndarray of shape (n,)
            c, 0 for the samples that are not in the face's program.
        inside, out : ndarray of bool, shape (m,)
            The node. Where no more than s features are not out, or more than s are in, all of these count.
        clock : Clock
            When to stop.
        """
        n, m, unit = len(costs), self.m, float(costs.max()) or 1.0
        is_choice = int(inside.sum()) < self.s < int((~out).sum())

        def free(where: Bits | bool, count: int = 1) -> Vector:
            return np.where(where, np.full(count, np.inf), 0.0)

        kept, taken = free(np.append(~out, True), m + 1), free(out, m)
        upper = np.concatenate(
            [costs / unit, kept, kept, free(is_choice), free(True, m), free(inside & is_choice, m), taken]
        )
        lower = np.concatenate([np.zeros(len(upper) - m), -taken])
        found = self.model.solve(lower, upper, time_limit=clock.left)
        if found.status not in _ENDS:  # a verdict that cannot be, as 0 is feasible and the bound is finite
            self.model.forget()
            found = self.model.solve(lower, upper, time_limit=clock.left)
        u = np.clip(np.nan_to_num(found.x[:n]), 0.0, upper[:n]) * unit
        w = np.clip(np.nan_to_num(found.duals[: m + 1]), -self.box, self.box)
        w[:m][out | (np.abs(w[:m]) <= _NOTHING * np.minimum(1.0, self.box[:m]))] = 0.0
        solved = found.status is Status.SOLVED
        return _Point(w, u, -found.objective * unit if solved else -np.inf, solved)


class BoxSubset(Choices):
    """A face of one assignment, as searches over features take it; w in its units, multipliers as proofs.

    Parameters
    ----------
    program : FeatureLP
        The linear program.
    costs : ndarray of shape (n,)
        c, 0 for the samples that are not in the face's program.
    clock : Clock
        When to stop.
    """

    def __init__(self, program: FeatureLP, costs: Vector, clock: Clock):
        super().__init__(program.m, program.s)
        self.program, self.costs, self.clock = program, costs, clock
        self._own = np.flatnonzero(costs)
        self._X, self._y = program.lifted[self._own], program.y[self._own]

    def pull(self, alpha: Vector) -> Vector:
        """What multipliers (n,) pull at the entries of w, (m+1,)."""
        return np.asarray(self._X.T @ (self._y * alpha[self._own]))

    def fit(
        self, features: ArrayLike, cutoff: float = np.inf, tol: float = 1e-9, w: Vector | None = None
    ) -> Fitted:
        """The best face of these features; arguments as of :meth:`polyopt.solvers.choices.Choices.fit`."""
        chosen = np.unique(np.asarray(features, dtype=np.int64))
        bits = np.isin(np.arange(self.m), chosen)
        found = self.program.solve(self.costs, bits, ~bits, self.clock)
        face, cost = self._priced(found.w)
        bound = max(found.bound, 0.0)
        return Fitted(chosen, face, found.u, cost, bound, Proof(found.u, 1.0, bound))

    def relax(
        self, inside: Bits, out: Bits, w: Vector, cutoff: float, share: float = 0.2, *, cold: bool = False
    ) -> Relaxed:
        """Bound a node; arguments as of :meth:`polyopt.solvers.choices.Choices.relax`."""
        found = self.program.solve(self.costs, inside, out, self.clock)
        value = found.bound if found.solved else np.inf
        return Relaxed(found.w, value, Proof(found.u, 1.0, found.bound))

    def _priced(self, w: Vector) -> tuple[Vector, float]:
        """A face and its cost; where it misses margins of 1 by rounding alone, scaled so that it has them."""
        margins = self._y * np.asarray(self._X @ w)
        least = float(margins.min(initial=np.inf))
        if 1.0 - _NEAR < least < 1.0:
            longer = w * (_ROOM / least)
            if (np.abs(longer) <= self.program.box).all():
                return longer, 0.0
        return w, float(self.costs[self._own] @ np.maximum(0.0, 1.0 - margins))
