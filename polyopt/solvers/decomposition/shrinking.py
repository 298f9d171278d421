"""Which samples take part: those that violate with no other are set aside, and taken back where they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.decomposition.point import Point

    Samples = NDArray[np.intp]

__all__ = ["Shrinking"]

_SHRINK_TO = 0.8  # share of the active samples that may stay for setting the others aside to be worth while


class Shrinking:
    """The active samples of a point, and the last working set among them.

    point: where the run stands.

    last: the last working set, as places among the active samples.
    """

    def __init__(self, point: Point):
        self._point = point
        self.last: Samples
        self.forget_last()

    def set_aside(self, rise: Vector, fall: Vector) -> bool:
        """Go on without the samples that violate with no other; whether that is worth it."""
        needed = (rise >= fall.min()) | (fall <= rise.max())
        if not 0 < needed.sum() <= _SHRINK_TO * len(needed):
            return False
        self.set_active(self._point.rows.active[needed])
        return True

    def take_back(self, tol: float) -> bool:
        """Bring g up to date everywhere, and the samples back that violate; whether any does."""
        point = self._point
        if point.is_whole:
            return False
        point.bring_up_to_date()
        if point.violation() <= tol:
            return False
        needed = point.needed()
        needed[point.rows.active] = True
        self.set_active(np.flatnonzero(needed))
        return True

    def take_all_back(self) -> None:
        """Go on with every sample."""
        if not self._point.is_whole:
            self.set_active(np.arange(self._point.gram.n))

    def set_active(self, active: Samples) -> None:
        """Go on with these samples."""
        self._point.bring_up_to_date()  # what is set aside must all be of one date
        self._point.rows.set_active(active)
        self.forget_last()

    def forget_last(self) -> None:
        """Let the next working set be all new: the last one's rows are gone, or its places are others'."""
        self.last = np.zeros(0, dtype=np.intp)
