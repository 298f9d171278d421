"""Which samples next: the worst violators, and part of the last set.

A sample violates upwards by φ'(β_i+) − g_i − M and downwards by m − φ'(β_i−) + g_i, whichever of the
three families the slope belongs to. Half of a set are the samples that entered the last one latest:
they are likely to move again, and their kernel rows are at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["choose"]


def choose(rise: Vector, fall: Vector, last: Samples, size: int) -> Samples:
    """The next working set.

    Parameters
    ----------
    rise, fall : ndarray of shape (n,)
        ``φ'(β+) − g`` and ``φ'(β−) − g``.
    last : ndarray of int
        The last working set, in the order its samples entered.
    size : int
        Samples at most.

    Returns
    -------
    ndarray of int
        Samples without repetition: those that stay first, then the new ones.
    """
    keep = last[-(size // 2) :]
    taken = np.zeros(len(rise), dtype=bool)
    taken[keep] = True
    fresh = (size - len(keep)) // 2
    upward = _largest(np.where(taken, -np.inf, rise), fresh, fall.min())
    taken[upward] = True
    downward = _largest(np.where(taken, -np.inf, -fall), fresh, -rise.max())
    return np.concatenate([keep, upward, downward])


def _largest(values: Vector, count: int, floor: float) -> Samples:
    """Where up to `count` of the largest values lie, all of them above the floor."""
    if count < len(values):
        places = np.argpartition(-values, count)[:count]
    else:
        places = np.arange(len(values))
    return places[values[places] > floor]
