"""Branch and bound over boxes of the faces' coefficients, for the Convex Polytope Machine in few dimensions.

With up to four features K faces have few coefficients, and a box of them is bounded by a sum over the
samples (:mod:`polyopt.solvers.cpm.box_bound`). The search cuts the box with the least bound at the
coefficient that has the largest part in what the bound loses, until no box may have better faces than the
incumbent by more than the tolerance.

Theorem. Some optimal faces are in the first box, |w_kj| ≤ √U with U the cost of the incumbent, in the order
w_10 ≤ w_20 ≤ ... ≤ w_K0 of their first coefficients.

Proof. Optimal faces cost no more than U, and ‖W‖² is a part of what they cost. Their names can be exchanged,
which changes no cost, so that they are in that order. ∎

A box is cut down to what of it can be in that order; every half is closed, so that no faces are lost.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.solvers.cpm.box_bound import box_for
from polyopt.solvers.cpm.boxes import examine_box, half

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.cpm.face import Samples
    from polyopt.solvers.cpm.tree import Best

__all__ = ["BoxSearch"]

_BYTES = 256 * 2**20  # for open boxes
_WIDER = 1.0 + 1e-9  # of the first box, for the rounding of U


class _Open(NamedTuple):
    """An open box, in the order of exploring: least bound, then deepest (-depth), then by its number."""

    bound: float
    depth: int
    number: int
    low: Vector
    high: Vector
    codes: NDArray[np.uint8]


class BoxSearch:
    """A search that can be left and taken up again.

    Parameters
    ----------
    data : Samples
        Rows y_i x̃_i (n, d), those inside first.
    best : Best
        The incumbent, which whoever has it may better in between.
    tol : float
        Relative gap at which the search ends.
    """

    def __init__(self, data: Samples, best: Best, tol: float):
        K, d = best.W.shape
        self.data, self.best, self.tol = data, best, tol
        self.room = _BYTES // (len(data.C) * K + 16 * K * d + 600)
        self.box = box_for(data, K)
        widest = np.full((K, d), _WIDER * np.sqrt(best.limits[0]))
        self.heap = [_Open(0.0, 0, 0, -widest, widest, np.zeros((len(data.C), K), dtype=np.uint8))]
        self.stack: list[_Open] = []  # begun where there is no more room
        self.boxes, self.made, self.at_hand, self.least = 0, 0, np.inf, np.inf

    @property
    def is_done(self) -> bool:
        """Whether no box is open."""
        return not (self.heap or self.stack)

    @property
    def bound(self) -> float:
        """The least bound of what is open and of what was left out."""
        first = self.heap[0].bound if self.heap else np.inf
        return float(min([first, self.at_hand, self.least, *(one.bound for one in self.stack)]))

    def look(self) -> None:
        """Look into the next box."""
        one = self.stack[-1] if self.stack else self.heap[0]
        self.at_hand = one.bound  # an interruption must not lose it
        _ = self.stack.pop() if self.stack else heappop(self.heap)
        for following in self._halves(one):
            if self.stack or len(self.heap) >= self.room:
                self.stack.append(following)
            else:
                heappush(self.heap, following)
        self.at_hand = np.inf

    def _halves(self, one: _Open) -> list[_Open]:
        """What is left to explore of a box."""
        bound, best = one.bound, self.best
        if bound < best.limits[0] * (1.0 - self.tol):
            self.boxes += 1
            found, k, j, at, codes = examine_box(
                self.data, best, self.box, one.low, one.high, one.codes, self.tol
            )
            bound = max(bound, found)
        if bound >= best.limits[0] * (1.0 - self.tol) or k < 0:
            self.least = min(self.least, bound)
            return []
        halves = []
        for upper in (False, True):
            low, high, is_empty = half(one.low, one.high, k, j, at, upper)
            if not is_empty:
                self.made += 1
                halves.append(_Open(bound, one.depth - 1, self.made, low, high, codes))
        return halves
