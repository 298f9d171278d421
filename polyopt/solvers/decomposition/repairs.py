"""What is done about rounding in g: it is computed anew, in double precision at the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.decomposition.watch import Watch

if TYPE_CHECKING:
    from polyopt.solvers.clock import Clock
    from polyopt.solvers.decomposition.point import Point
    from polyopt.solvers.decomposition.shrinking import Shrinking

__all__ = ["Repairs"]

_REFRESHES = 3  # times that g is computed anew before the kernel rows are, too


class Repairs:
    """The repairs of one run.

    point: what is repaired.
    shrinking: its active samples.
    clock: looked at in the course of long products.

    watch: whether the run still gets anywhere, since it began or began anew.
    """

    def __init__(self, point: Point, shrinking: Shrinking, clock: Clock):
        self._point, self._shrinking, self._clock = point, shrinking, clock
        self.watch, self._mended = Watch(), 0

    def begin_anew(self) -> bool:
        """Take the rounding out of g, over all samples in double precision; whether for the first time.

        A point whose outputs have left the range of numbers is given up for that of the beginning.
        """
        point = self._point
        if not np.isfinite(point.g).all():
            point.take(point.dual.start(), np.zeros(point.gram.n))
            if self.watch.is_second:  # else it is done below
                point.recompute(self._clock.check)
        if self.watch.is_second:
            return False
        self.watch = Watch(is_second=True)
        self._shrinking.take_all_back()
        point.recompute(self._clock.check) if point.is_double else self.go_double()
        return True

    def mend(self, tol: float) -> None:
        """Take the rounding out of g where it matters; out of the rows, where it has come back too often."""
        self._mended += 1
        if self._mended > _REFRESHES:
            self.go_double()
        else:
            self._point.refresh(tol, self._clock.check)

    def go_double(self) -> None:
        """Continue in double precision."""
        if not self._point.is_double:
            self._point.go_double(self._clock.check)
            self._shrinking.forget_last()
