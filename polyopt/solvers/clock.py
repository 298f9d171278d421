"""The clock of :mod:`formulations.clock`, which programs look at too, as solvers know it."""

from __future__ import annotations

from formulations.clock import Clock, OutOfTimeError

__all__ = ["Clock", "OutOfTimeError"]
