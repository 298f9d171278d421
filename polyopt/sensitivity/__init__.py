"""Sensitivity of a fitted estimator's optimum, from its multipliers: slopes, and the samples that hold it.

:mod:`formulations.sensitivity` has the formulas and where they come from. To be read in this order:
``frames`` (what a person calls), ``solution`` (what every slope needs of a machine), and the machines by
kind: ``hinge``, ``expansions``, ``polyhedral``. The entry of a method names its function.
"""

from polyopt.sensitivity.expansions import centre_prices
from polyopt.sensitivity.frames import binding, sensitivities

__all__ = ["binding", "centre_prices", "sensitivities"]
