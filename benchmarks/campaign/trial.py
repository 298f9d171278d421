"""One trial: a machine fitted and certified under watch, and what came of it as one word.

The words, from bad to good: *false* (a claim that the truth refutes), *traceback* (an exception that is no
sentence), *overrun* (later than the limit by more than a second and 5 %), *refused* (in a sentence), *silent*
(a true claim of less than optimal, no warning), *warned* (such a claim with a warning) and *optimal*.
"""

from __future__ import annotations

import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.campaign.judge import Untruth, sentence_of

__all__ = ["OUTCOMES", "TimedOut", "Trial", "attempt", "overran", "patience", "watch"]

OUTCOMES = ("optimal", "warned", "silent", "refused", "false", "traceback", "overrun")
_GRACE, _SHARE = 1.0, 0.05
PATIENCE = 12.0  # seconds of the processor past the limit after which a run is stopped


class TimedOut(BaseException):
    """A run that did not come back; not an Exception, so that nobody on the way takes it for one."""


@dataclass
class Trial:
    """What came of a machine on a problem."""

    machine: str
    outcome: str = "silent"
    kinds: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    claim: str = ""
    words: str = ""
    seconds: float = 0.0

    def add(self, found: list[Untruth]) -> None:
        """Note claims that are not true."""
        for one in found:
            self.outcome = "false"
            self.kinds.append(one.kind)
            self.details.append(one.detail)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Stop runs `seconds` past their limits while this lasts."""
    global PATIENCE
    before, PATIENCE = PATIENCE, seconds
    try:
        yield
    finally:
        PATIENCE = before


@contextmanager
def watch(limit: float) -> Iterator[None]:
    """Stop what takes more than `limit` seconds of the processor; only the main thread can."""

    def stop(number: int, frame: Any) -> None:
        raise TimedOut

    try:
        before = signal.signal(signal.SIGPROF, stop)
    except (ValueError, AttributeError):  # not the main thread, or not a system with such timers
        yield
        return
    signal.setitimer(signal.ITIMER_PROF, limit, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attempt(machine: str, act: Callable[[], tuple[str, list[Untruth]]], limit: float | None = None) -> Trial:
    """Run a trial.

    `act` fits, certifies and judges: it returns the claim's name and the claims that are not true.
    """
    trial = Trial(machine)
    started = time.process_time()
    with warnings.catch_warnings(record=True) as heard, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            with watch((limit or 10.0) * (1 + _SHARE) + _GRACE + PATIENCE):
                claim, found = act()
        except TimedOut:
            trial.outcome, trial.kinds, trial.details = "overrun", ["did not end"], [""]
            return trial
        except Exception as error:
            _refused(trial, error)
            return trial
        finally:
            trial.seconds = time.process_time() - started
    trial.claim = claim
    told = any(issubclass(w.category, UserWarning) for w in heard)
    trial.outcome = "optimal" if claim in ("OPTIMAL", "STATIONARY") else "warned" if told else "silent"
    trial.add(found)
    if trial.kinds == ["overrun"]:
        trial.outcome = "overrun"
    return trial


def overran(seconds: float, limit: float) -> list[Untruth]:
    """Whether a fit took longer than its limit allows, by the processor's time."""
    if seconds <= limit * (1 + _SHARE) + _GRACE:
        return []
    return [Untruth("overrun", f"{seconds:.2f} s of the processor, the limit {limit:g} s")]


def _refused(trial: Trial, error: Exception) -> None:
    words = sentence_of(error)
    if words is not None:
        trial.outcome, trial.kinds, trial.details = "refused", [], [words]
        return
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "polyopt" in f.filename or "formulations" in f.filename]
    place = f"{ours[-1].filename.rsplit('/', 1)[-1]}:{ours[-1].name}" if ours else "the checker"
    trial.outcome = "traceback"
    trial.kinds = [f"{type(error).__name__} in {place}"]
    trial.details = [str(error)[:300]]
