"""What a climb says of a problem: a hyperplane that meets some samples, or a few that cannot all be met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.hard_margin_loss.climb import MET, RAY, STALLED, climb

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.hard_margin_loss_data import HardMarginLossData

    Vector = NDArray[np.float64]
    Bits = NDArray[np.bool_]

__all__ = ["Meeting", "Samples"]

_STEPS = 20  # samples taken up at most, for each that may be active


@dataclass(frozen=True)
class Meeting:
    """How a climb over some samples ended.

    Attributes
    ----------
    status : int
        MET, ABOVE, RAY or STALLED of :mod:`polyopt.solvers.hard_margin_loss.climb`.
    value : float
        ½‖w‖² of the samples `active`, as computed; infinite after a ray.
    active : ndarray of int
        The samples that hold the hyperplane, in order.
    alpha : ndarray
        Their multipliers, positive.
    """

    status: int
    value: float
    active: NDArray[np.int64]
    alpha: Vector

    @property
    def is_met(self) -> bool:
        """Whether a hyperplane was found that meets all samples."""
        return self.status == MET


class Samples:
    """The samples of a problem as climbs read them; not for several threads at once.

    Parameters
    ----------
    data : HardMarginLossData
        The problem.
    """

    def __init__(self, data: HardMarginLossData):
        n, m = data.X.shape
        self.data = data
        self.signed = data.y[:, None] * (data.X - data.centre)
        with np.errstate(over="ignore", invalid="ignore"):
            self._Q = self.signed @ self.signed.T
        if not np.isfinite(self._Q).all():
            raise ValueError(
                "the inner products of the samples overflow double precision: scale the features"
            )
        room = min(n, m + 1) + 3
        self._active, self._alpha = np.zeros(room, dtype=np.int64), np.zeros(room)
        self.margins = np.zeros(n)

    def meet(self, kept: Bits, limit: float = np.inf) -> Meeting:
        """Meet the samples `kept` with the shortest w, or show that ½‖w‖² is at least `limit`.

        Parameters
        ----------
        kept : ndarray of bool, shape (n,)
            The samples.
        limit : float
            The value at which to stop.
        """
        most = _STEPS * len(self._active)
        k, value, status = climb(
            self._Q, self.data.y, kept, limit, self._active, self._alpha, self.margins, most
        )
        if status == STALLED:
            k = 0
        used = self._alpha[:k] > 0.0
        active, alpha = self._active[:k][used], self._alpha[:k][used]
        order = np.argsort(active)
        return Meeting(status, value if status != RAY else np.inf, active[order], alpha[order])

    def hyperplane(self, found: Meeting) -> tuple[Vector, float]:
        """(w, b) of samples that are met."""
        if not found.active.size:
            return np.zeros(self.signed.shape[1]), float(np.sign(self.margins @ self.data.y) or 1.0)
        at, y = found.active, self.data.y[found.active]
        rows = self.signed[at]
        # The inner products are rounded, and so is what they say: one step of refinement from the samples.
        system = np.block([[self._Q[np.ix_(at, at)], y[:, None]], [y[None, :], np.zeros((1, 1))]])
        w, b = found.alpha @ rows, 0.0
        for _ in range(2):
            short = np.append(1.0 - rows @ w - b * y, 0.0)
            move = np.linalg.lstsq(system, short, rcond=1e-14)[0]
            w, b = w + move[:-1] @ rows, b + float(move[-1])
        return w, b - float(self.data.centre @ w)
