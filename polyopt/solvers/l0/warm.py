"""The program of a node, from the basis of another: steps of our own, and HiGHS where they fail.

What a node proves is told by :mod:`polyopt.solvers.l0.node`, whose program this is. The steps are those of
:mod:`polyopt.solvers.l0.pivots`; a child takes some dozens of them, a tenth of a node's time in HiGHS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.l0 import basis as bases
from polyopt.solvers.l0 import pivots
from polyopt.solvers.l0.basis import Given
from polyopt.solvers.l0.node import FREE, OFF, ON, NodeBound, NodeLP, NodeSolution

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.l0_data import L0Data
    from polyopt.solvers.clock import Clock

    Marks = NDArray[np.int8]

__all__ = ["WarmLP", "given_of"]

_APART = 1e-8  # by which costs and caps are changed, so that no two steps tie
_STEPS = 500  # between two looks at the clock
_MOST = 20  # steps for each row and column, after which HiGHS is asked
_NEAR = 1e-9  # what a row may be off its margin


def given_of(bound: NodeBound) -> Given:
    """The program of a problem's nodes, with costs and caps so little off that no two steps tie.

    Parameters
    ----------
    bound : NodeBound
        Of the problem; what it proves is for the true costs.
    """
    signed, data = bound.signed, bound.data
    n, p = signed.shape
    # In units in which a column's largest entry is between 1 and 2; powers of two, which round nothing.
    sizes = np.abs(signed).max(axis=0, initial=0.0)
    units = np.ldexp(1.0, np.where(sizes > 0.0, np.frexp(sizes)[1] - 1, 0))
    rng = np.random.default_rng(0)
    scaled = signed / units
    return Given(
        scaled, np.ascontiguousarray(scaled.T), data.y.astype(float),
        bound.caps * (1.0 - _APART * rng.random(n)), np.ones(n), np.zeros(p), units,
        (np.ones(p) + _APART * rng.random(p)) / units, _APART * rng.random(p) / units, _NEAR,
    )  # fmt: skip


class WarmLP:
    """The programs of the nodes of one tree.

    Parameters
    ----------
    data : L0Data
        The problem.

    Attributes
    ----------
    solves, failures : int
        Programs solved, and those of them that HiGHS had to solve.
    """

    def __init__(self, data: L0Data):
        self.solves = self.failures = 0
        self.bound = NodeBound(data)
        self._given = given_of(self.bound)
        n, p = data.K.shape
        self._work, self._base = bases.empty_state(n, p), bases.empty_state(n, p)
        self._based: Marks | None = None  # the basis that the base was made from
        self._highs: NodeLP | None = None

    def solve(
        self,
        fixed: Marks,
        basis: Marks | None,
        cutoff: float,
        clock: Clock,
        *,
        most: int | None = None,
    ) -> NodeSolution:
        """Solve the program of a node.

        Parameters
        ----------
        fixed : ndarray of int8 of shape (p,)
            ON, OFF or FREE, each centre.
        basis : ndarray of int8, optional
            Where to begin: the basis of an answer of this; by default the constant classifier.
        cutoff : float
            A bound of this much is enough.
        clock : Clock
            No solve goes on after its limit.
        most : int, optional
            Steps at most, for a quick bound.
        """
        self.solves += 1
        self._given.cap[:] = np.where(fixed == OFF, 0.0, self._given.full)
        on = (fixed == ON).astype(np.int8)
        if not self._begin(basis, fixed):
            return self._by_highs(fixed, cutoff, clock, most)
        # The costs are not quite those of the bound.
        enough = cutoff + 4.0 * _APART * abs(cutoff)
        left = _MOST * sum(self._given.A.shape) if most is None else most
        while True:
            ended = pivots.pivot_to_optimum(self._given, self._work, on, min(left, _STEPS), enough)
            left -= _STEPS
            if ended != pivots.STOPPED or self._work.rest[1] >= enough or left <= 0 or clock.is_over:
                break
        if ended == pivots.FAILED or (ended == pivots.STOPPED and left <= 0 and most is None):
            return self._by_highs(fixed, cutoff, clock, most)
        found = self._read(fixed, ended == pivots.OPTIMAL)
        if found.solved or found.bound >= cutoff or most is not None or clock.is_over:
            return found
        return self.solve(fixed, found.basis, np.inf, clock)  # stopped at what is not quite proven

    def _begin(self, basis: Marks | None, fixed: Marks) -> bool:
        """Make the state to begin from; whether there is one."""
        given, base, work = self._given, self._base, self._work
        n, p = given.A.shape
        if basis is not None and not ((basis[n + p :] == 1) & (fixed == FREE)).any():
            if basis is not self._based:
                self._based = None
                base.rows[:], base.cols[:], base.on[:] = np.split(basis, [n, n + p])
                if not bases.load(given, base):
                    return self._from_nothing()
                self._based = basis
            bases.copy(base, work)
            return True
        return self._from_nothing()

    def _from_nothing(self) -> bool:
        return bases.begin(self._given, self._work)

    def _read(self, fixed: Marks, solved: bool) -> NodeSolution:
        """The answer, with what its multipliers prove, evaluated from the data."""
        work = self._work
        bound, rates, u = self.bound.of(fixed, work.u)
        basis = np.concatenate([work.rows, work.cols, work.on])
        a, b = np.clip(work.a / self._given.full, 0.0, 1.0), float(work.rest[0])
        return NodeSolution(bound, a, b, rates, basis, u.mid, solved)

    def _by_highs(self, fixed: Marks, cutoff: float, clock: Clock, most: int | None) -> NodeSolution:
        self.failures += 1
        if self._highs is None:
            self._highs = NodeLP(self.bound)
        return self._highs.solve(fixed, cutoff, clock, most=most)
