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

    from formulations.matrices import Vector

    Samples = NDArray[np.intp]

__all__ = ["choose"]

_FEW = 32  # kernel rows that BLAS computes in hardly less time than it takes to read the samples


def choose(
    rise: Vector, fall: Vector, last: Samples, size: int, held: NDArray[np.bool_], enough: float
) -> Samples:
    """The next working set.

    rise, fall (n,): ``φ'(β+) − g`` and ``φ'(β−) − g``.
    last: the last working set, in the order its samples entered.
    size: samples at most.
    held (n,): whose kernel rows are at hand.
    enough: the violation among those at hand for which a few new rows can wait.
    Returns: samples without repetition: those that stay first, then the new ones.
    """
    keep = last[-(size // 2) :]
    open_ = np.ones(len(rise), dtype=bool)
    open_[keep] = False
    fresh = _violators(rise, fall, open_, size - len(keep))
    missing = len(fresh) - int(held[fresh].sum())
    at_hand = rise[held].max(initial=-np.inf) - fall[held].min(initial=np.inf)
    if 0 < missing < _FEW and at_hand > enough:
        # A few rows cost as much time as many: they can wait while those at hand violate enough.
        fresh = _violators(rise, fall, open_ & held, size - len(keep))
    return np.concatenate([keep, fresh])


def _violators(rise: Vector, fall: Vector, allowed: NDArray[np.bool_], count: int) -> Samples:
    """The worst violators among the samples allowed: half of them upwards, half downwards."""
    upward = _largest(np.where(allowed, rise, -np.inf), count // 2, fall.min())
    allowed[upward] = False
    downward = _largest(np.where(allowed, -fall, -np.inf), count // 2, -rise.max())
    allowed[upward] = True
    return np.concatenate([upward, downward])


def _largest(values: Vector, count: int, floor: float) -> Samples:
    """Where up to `count` of the largest values lie, all of them above the floor."""
    places = np.argpartition(-values, count)[:count] if count < len(values) else np.arange(len(values))
    return places[values[places] > floor]
