"""What a climb says of a problem: a hyperplane that meets some samples, or a few that cannot all be met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.hard_margin_loss.climb import MET, RAY, STALLED, climb

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.hard_margin_loss_data import HardMarginLossData
    from formulations.matrices import Vector

    Bits = NDArray[np.bool_]

__all__ = ["Meeting", "Samples"]

_SIZES = (1e-100, 1e100)  # of inner products: their squares and quotients are still numbers
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
        size = float(np.abs(self._Q).max())
        if size != 0.0 and not _SIZES[0] < size < _SIZES[1]:
            raise ValueError(
                f"inner products of samples of the order of {size:.3g} are beyond double precision: scale "
                "the features"
            )
        # In units of a power of two, which rounds nothing: climbs do not depend on the samples' scale.
        self._unit = 2.0 ** np.round(0.5 * np.log2(size)) if size != 0.0 else 1.0
        self.signed, self._Q = self.signed / self._unit, self._Q / self._unit**2
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
        square = self._unit**2
        k, value, status = climb(
            self._Q, self.data.y, kept, limit * square, self._active, self._alpha, self.margins, most
        )
        if status == STALLED:
            k = 0
        used = self._alpha[:k] > 0.0
        active, alpha = self._active[:k][used], self._alpha[:k][used] / square
        order = np.argsort(active)
        return Meeting(status, value / square if status != RAY else np.inf, active[order], alpha[order])

    def hyperplane(self, found: Meeting) -> tuple[Vector, float]:
        """(w, b) of samples that are met."""
        if not found.active.size:
            return np.zeros(self.signed.shape[1]), float(np.sign(self.margins @ self.data.y) or 1.0)
        at, y = found.active, self.data.y[found.active]
        rows = self.signed[at]
        # The inner products are rounded, and so is what they say: one step of refinement from the samples.
        system = np.block([[self._Q[np.ix_(at, at)], y[:, None]], [y[None, :], np.zeros((1, 1))]])
        w, b = (found.alpha * self._unit**2) @ rows, 0.0
        for _ in range(2):
            short = np.append(1.0 - rows @ w - b * y, 0.0)
            move = np.linalg.lstsq(system, short, rcond=1e-14)[0]
            w, b = w + move[:-1] @ rows, b + float(move[-1])
        w = w / self._unit
        return w, b - float(self.data.centre @ w)
