"""Sensitivity of a fitted estimator's optimum, from its multipliers: slopes, and the samples that hold it.

:mod:`formulations.sensitivity` has the formulas and where they come from. ``frames`` has the functions that a
person calls, ``slopes`` one for each machine, which the entry of its method names.
"""

from polyopt.sensitivity.frames import binding, sensitivities
from polyopt.sensitivity.slopes import centre_prices

__all__ = ["binding", "centre_prices", "sensitivities"]
