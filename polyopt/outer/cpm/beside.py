"""What runs beside the tree over assignments: boxes of coefficients, and the spread of the faces.

Each is a search of its own with a bound of its own on the same incumbent; the largest bound counts. The tree
has the first nodes alone, as many as the constants say, or a tenth of the time. Then who is ahead gets more
turns. Without a limit in seconds turns are counted, so that the same seed makes the same search; with one,
that of the spread has half of the time as long as it is ahead, four fifths where the others' gap is more
than twice its own, and a tenth where it is behind. So a case that the tree proves by itself may take up to
twice as long, and up to five times where it was far behind before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyopt.outer.cpm.boxes import BoxSearch
from polyopt.outer.cpm.spread import SpreadSearch

if TYPE_CHECKING:
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.cpm.face import Samples
    from polyopt.solvers.cpm.tree import Best

__all__ = ["Beside"]

_ALONE, _BOXES = 200, 4  # nodes before boxes, and boxes for each beyond; 20 were slower on four small sets
_MORE = 40  # times as many boxes where they are ahead of assignments and prices
# Nodes of the tree for each turn of the spread, times the dimension of a face, as its nodes take longer; how
# many such turns before its first, so that what the tree proves soon takes no longer (with 3 of them 60
# samples of pima took twice as long, with 100 a fifth more); and times as many nodes where it is behind.
_NODES, _FIRST, _RARELY = 2, 100, 10
# Of the time, where there is a limit: far ahead, with so many times less of a gap; ahead; behind.
_MOST, _TIMES, _SHARE, _LITTLE = 0.8, 2.0, 0.5, 0.1


class Beside:
    """The searches beside the tree.

    Parameters
    ----------
    data, best, tol
        As of :class:`polyopt.outer.cpm.boxes.BoxSearch`.
    clock : Clock
        Running.
    jobs : int
        Nodes of the spread looked into at once.
    boxes : bool
        Whether there are boxes, for which features must be few.

    Attributes
    ----------
    boxes : BoxSearch or None
        Over boxes.
    spread : SpreadSearch
        Over assignments, bounded by the spread.
    """

    def __init__(self, data: Samples, best: Best, tol: float, clock: Clock, jobs: int = 1, *, boxes: bool):
        self.boxes = BoxSearch(data, best, tol) if boxes else None
        self.spread = SpreadSearch(data, best, tol, jobs)
        self._nodes, self._since, self._spent = _NODES * data.A.shape[1], clock.seconds, 0.0

    @property
    def bound(self) -> float:
        """The larger of the bounds."""
        return max(self.spread.bound, 0.0 if self.boxes is None else self.boxes.bound)

    def turn(self, nodes: int, others: float, clock: Clock) -> bool:
        """A turn for each; whether one of them ended, which proves the incumbent.

        Parameters
        ----------
        nodes : int
            Nodes of the tree by now.
        others : float
            What is proven without these searches.
        clock : Clock
            When there is to be no other turn.
        """
        if self.boxes is not None and nodes > _ALONE:
            ahead = self.boxes.bound > max(others, self.spread.bound)
            for _ in range(_BOXES * _MORE if ahead else _BOXES):
                if self.boxes.is_done or clock.is_over:
                    break
                self.boxes.look()
            if self.boxes.is_done:
                return True
        if self._has_turn(nodes, others, clock):
            before = clock.seconds
            self.spread.look(clock)
            self._spent += clock.seconds - before
        return self.spread.is_done and self.spread.closes

    def _has_turn(self, nodes: int, others: float, clock: Clock) -> bool:
        """Whether it is the turn of the spread."""
        if self.spread.is_done or clock.is_over:
            return False
        since = clock.seconds - self._since
        is_late = clock.left is not None and since > _LITTLE * (since + clock.left)
        if nodes < _FIRST * self._nodes and not is_late:
            return False
        ahead = self.spread.nodes > 0 and self.spread.bound >= others
        if clock.left is None:
            return nodes >= self._nodes * (1 if ahead else _RARELY) * self.spread.nodes
        best = float(self.spread.best.limits[0])
        far = best - others > _TIMES * (best - self.spread.bound)
        share = (_MOST if far else _SHARE) if ahead else _LITTLE
        return self.spread.nodes == 0 or self._spent <= share * since
