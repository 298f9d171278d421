"""Interleaved timing: one round of everybody, then the next, so that noise falls on all alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

__all__ = ["race"]


def race(entrants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each entrant over interleaved rounds, after one round that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in entrants}
    for counted in range(-1, rounds):
        for name, call in entrants.items():
            started = time.perf_counter()
            call()
            if counted >= 0:
                seconds[name].append(time.perf_counter() - started)
    return {name: median(values) for name, values in seconds.items()}
