"""Whether a run still gets anywhere, where rounding may keep it from doing so."""

from __future__ import annotations

import numpy as np

__all__ = ["IDLE", "Watch"]

_PATIENCE, _CLOSER = 10, 0.9  # working sets in which rounding must let the violation fall to this share
IDLE, _RISE = 200, 1e-14  # records in which the dual value must rise by this share: every step raises it


class Watch:
    """Whether the violation still falls, and whether the dual value rises.

    is_second: whether the run has begun anew once.
    """

    def __init__(self, is_second: bool = False):
        self.is_second = is_second
        self._least, self._idle = np.inf, 0
        self._best, self._flat = -np.inf, 0

    def has_stopped(self, violation: float) -> bool:
        """Ask once for each working set."""
        closer = violation < _CLOSER * self._least
        self._least = violation if closer else self._least
        self._idle = 0 if closer else self._idle + 1
        return self._idle >= _PATIENCE

    def is_idle(self, bound: float) -> bool:
        """Ask with the dual value of every record, which is none while samples are set aside."""
        if np.isfinite(bound):
            has_risen = not bound <= self._best + _RISE * abs(self._best)
            self._best = max(bound, self._best)
            self._flat = 0 if has_risen else self._flat + 1
        return self._flat >= IDLE
