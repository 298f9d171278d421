"""What blocks of samples tell, the room that they work in, and where they begin."""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from formulations.families.intercept import Reaches
    from formulations.matrices import Vector

__all__ = ["CENTRAL", "Facts", "Measured", "Work", "central_slack"]

CENTRAL = 0.375
"""Products at the start, per unit of cost."""


class Facts(NamedTuple):
    """What is known of some samples before anything is solved.

    Samples and features; single products in X'DX; costs, added up; bounds without slack, added up; whether
    there are costs that pull outputs up, and down.
    """

    n: int
    m: int
    products: float
    costs: float
    bounds: float
    pulls_up: bool
    pulls_down: bool


class Measured(NamedTuple):
    """What a pass over a block finds; the first six as ``weigh`` in the passes has them.

    `size` is the sum of the sizes of beta, `cost` that of the least slacks; `M` and `pulled` are what
    :meth:`polyopt.solvers.interior_point.rows.Rows.normal` makes of beta, room and h.
    """

    gain: float
    fall: float
    products: float
    largest: float
    multiplier: float
    violation: float
    size: float
    cost: float
    reaches: Reaches
    M: Vector
    pulled: Vector


class Work(local):
    """Room to work in, for a block at a time in each thread: fresh memory would cost more than the passes."""

    owner: object = None  # whose d and V are in it, ...
    moves = 0  # ... and after how many of its moves
    _size = -1

    def of(self, block: object, n: int) -> Work:
        """The room for a block of n samples."""
        if n > self._size:
            self._all = [np.empty(n) for _ in range(3)], np.empty((n, 3)), np.empty((n, 1))
            self._size, self.owner = n, None
        if self.owner is not block:
            self.owner = None
            self.d, self.change, self.weight = (each[:n] for each in self._all[0])
            self.V, self.h = self._all[1][:n], self._all[2][:n]
        return self

    d: Vector
    V: Vector
    h: Vector
    change: Vector
    weight: Vector


def central_slack(kink: float) -> float:
    """The slack xi at f = 0 for which (xi − kink) mu = xi eta = ``CENTRAL`` cap, where mu + eta = cap.

    kink: of a family with slack.
    """
    half = 8.0 * kink + 6.0
    root = float(np.sqrt(half**2 - 96.0 * kink))
    return (half + root) / 16.0 if half > 0.0 else 6.0 * kink / (half - root)
