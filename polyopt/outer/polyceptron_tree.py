"""Branch and bound over the faces of the negatives, for the exact Polyceptron.

A node decides of some negatives at which face they pay; :mod:`polyopt.solvers.polyceptron_node` bounds it.
The faces that its program ends at are an incumbent; where that costs more than the node's bound some free
negative pays more than the program knew, and the one that does most is given each face in turn, and of the
faces that no negative has yet only the first. The node with the least bound is next. Where all negatives are
decided the program is exact.

Theorem. The least bound of what is open and of what was left out is not above the optimum of the part.

Proof. Every W has an assignment in which each negative is at a face where it pays least. Faces can change
places, so that in the order of the tree's decisions a new face is the first that is not in use. That
assignment is in one of the leaves, whose bound (not below its parents', which hold for it too) is not above
what W costs. ∎
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.solvers.polyceptron_node import NodeProgram, part_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.polyceptron_node import Found

    Places = NDArray[np.int64]

__all__ = ["FaceTree"]

_BYTES = 256 * 2**20  # for open nodes


class _Open(NamedTuple):
    """An open node, in the order of exploring: least bound, then deepest (-depth), then oldest."""

    bound: float
    depth: int
    number: int
    faces: NDArray[np.int16]
    branch: int


class FaceTree:
    """A search of a part that can be left and taken up again.

    Parameters
    ----------
    program : NodeProgram
        The part's program.
    tol : float
        Relative gap at which it ends.
    offer : callable
        Takes faces (K, d) that are better for the part than those before, and what they cost it; returns what
        some faces are known to cost it at most.
    """

    def __init__(self, program: NodeProgram, tol: float, offer: Callable[[Vector, float], float]):
        self.program, self.part, self.tol, self.offer = program, program.part, tol, offer
        self.least = np.inf  # of the faces known
        self.nodes, self.made, self.at_hand, self.cut = 0, 0, np.inf, np.inf
        self.heap: list[_Open] = []
        self.stack: list[_Open] = []  # begun where there is no more room
        self.room = max(_BYTES // (2 * len(self.part.c) + 400), 1)
        self._begun = False

    @property
    def bound(self) -> float:
        """What is proven of the part; not below 0."""
        if not self._begun:
            return 0.0
        first = self.heap[0].bound if self.heap else np.inf
        return max(0.0, min([first, self.at_hand, self.cut, *(one.bound for one in self.stack)]))

    @property
    def is_done(self) -> bool:
        """Whether nothing is open that could be better by more than the tolerance."""
        return self._begun and (not (self.heap or self.stack) or self._is_cut(self.bound))

    def _is_cut(self, bound: float) -> bool:
        return bound >= self.least * (1.0 - self.tol)

    def run(self, max_nodes: int, clock: Clock) -> None:
        """Search until it is done, or for so many nodes more, or until the clock is over.

        Parameters
        ----------
        max_nodes : int
            Linear programs at most, besides those of a node's last children.
        clock : Clock
            When to stop.
        """
        if not self._begun:
            self._begin(clock)
        last = self.nodes + max_nodes
        while not (self.is_done or clock.is_over or self.nodes >= last):
            one = self.stack[-1] if self.stack else self.heap[0]
            children = self._children(one, clock)
            self.at_hand = one.bound  # an interruption must not lose it
            _ = self.stack.pop() if self.stack else heappop(self.heap)
            for child in children:
                self._keep(child)
            self.at_hand = np.inf

    def _begin(self, clock: Clock) -> None:
        self._keep(self._look(np.full(len(self.part.c), -1, dtype=np.int16), 0.0, 0, clock))
        self._begun = True

    def _keep(self, child: _Open) -> None:
        if self._is_cut(child.bound):
            self.cut = min(self.cut, child.bound)
        elif self.stack or len(self.heap) >= self.room:
            self.stack.append(child)
        else:
            heappush(self.heap, child)

    def _children(self, one: _Open, clock: Clock) -> list[_Open]:
        """The nodes that follow one, the best last; one without free negatives is what it proves."""
        if one.branch < 0:
            self.cut = min(self.cut, one.bound)
            return []
        children = []
        for k in range(min(int(one.faces.max()) + 2, self.part.n_faces)):
            faces = one.faces.copy()
            faces[one.branch] = k
            children.append(self._look(faces, one.bound, one.depth - 1, clock))
        return sorted(children, key=lambda child: child[:3], reverse=True)

    def _look(self, faces: NDArray[np.int16], least: float, depth: int, clock: Clock) -> _Open:
        """Bound a node, try its faces, and choose where it branches."""
        found = self.program.solve(faces, clock.left)
        self.nodes += 1
        self.made += 1
        value = part_value(self.part, found.W)
        if value < self.least:
            self.least = value
            self.least = min(value, self.offer(found.W, value))
        bound = max(least, found.bound)
        return _Open(bound, depth, self.made, faces, self._branch(faces, found))

    def _branch(self, faces: NDArray[np.int16], found: Found) -> int:
        """The free negative that pays most beyond what the program has of it; -1 where none is free."""
        if (faces >= 0).all():
            return -1
        pays = self.part.c * np.maximum(0.0, 1.0 + self.part.outside @ found.W.T).min(axis=1)
        return int(np.where(faces < 0, pays - 2.0 * found.t, -np.inf).argmax())
