"""Interleaved timing: one round of everybody, then the next, so that noise falls on all alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median


def race(
    entrants: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each entrant over interleaved rounds, after one round that is not counted.

    With ``time.process_time`` for a clock they are seconds of the processor, which other work on the
    machine disturbs less; to be used where everybody runs on one thread.
    """
    seconds: dict[str, list[float]] = {name: [] for name in entrants}
    for counted in range(-1, rounds):
        for name, call in entrants.items():
            started = clock()
            call()
            if counted >= 0:
                seconds[name].append(clock() - started)
    return {name: median(values) for name, values in seconds.items()}
