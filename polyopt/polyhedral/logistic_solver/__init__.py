"""Logistic polytopes: descent on the smoothed objective, then Newton's method for the assignment.

Read the files in this order: ``smooth`` (the objective with soft maxima, its slope and its curvature),
``descend`` (from a start to a good point, by L-BFGS-B, by the L-BFGS of ``quasi_newton``, or by proximal
steps with a price of groups), ``eliminate`` (from there to fewer weights), ``polish`` (to a stationary point,
by Newton's method at sharper and sharper maxima, with a bound).
"""

from polyopt.polyhedral.logistic_solver.descend import descend
from polyopt.polyhedral.logistic_solver.eliminate import eliminate, numbers_of, sizes_down_to
from polyopt.polyhedral.logistic_solver.polish import polish
from polyopt.polyhedral.logistic_solver.smooth import FaceLoss, Units, bound

__all__ = ["FaceLoss", "Units", "bound", "descend", "eliminate", "numbers_of", "polish", "sizes_down_to"]
