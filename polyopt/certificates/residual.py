"""By how much a point misses one optimality condition, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Residual", "residual"]


@dataclass(frozen=True)
class Residual:
    """The largest violation of one optimality condition.

    Attributes
    ----------
    condition : str
        ``"primal"``, ``"sign"``, ``"stationarity"`` or ``"complementarity"``.
    row : str
        The row or variable the condition belongs to.
    value : float
        The violation in its own units.
    relative : float
        The violation over the scale of the quantities compared; this is what a tolerance is held to.
    worst : int or None
        The index of the sample (or coordinate) where it is worst; None for a single condition, and
        where there is no violation at all.
    """

    condition: str
    row: str
    value: float
    relative: float
    worst: int | None = None

    @property
    def label(self) -> str:
        """Condition, row and worst index in one word, such as ``"sign of alpha[17]"``."""
        where = "" if self.worst is None else f"[{self.worst}]"
        return f"{self.condition} of {self.row}{where}"


def residual(condition: str, row: str, violation: NDArray[Any], scale: float) -> Residual:
    """The worst entry of a vector of violations (positive parts count), relative to `scale`; 0: no scale."""
    flat = np.atleast_1d(violation).ravel()
    at = int(np.argmax(flat))  # the first NaN, where there is one
    value = flat[at] if np.isnan(flat[at]) else max(float(flat[at]), 0.0) + 0.0  # never -0.0
    worst = at if not value <= 0 and flat.size > 1 else None
    return Residual(condition, row, float(value), float(value / scale if scale > 0 else value), worst)
