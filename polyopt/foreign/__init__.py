"""Solutions of other packages, and how far they are from the optimum, proven.

In the order to read: ``answer`` (what a package answered, in our terms), ``libsvm``, ``liblinear`` and
``polytope`` (model files and fitted objects), ``tables`` (coefficients in JSON, CSV and numpy's files),
``problems`` (cvxpy), ``reading`` (which of them it is), ``multipliers`` (our own, where none came along)
and ``certify``.
"""

from polyopt.foreign.certify import PROGRAMS, certify_solution

__all__ = ["PROGRAMS", "certify_solution"]
