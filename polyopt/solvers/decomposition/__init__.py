"""The decomposition solver: dual (8) of the Relative Margin Machine by working sets, on any kernel.

Read in this order: ``dual`` (the program, and why it has n variables and not 3n), ``working_set``
(which samples next), ``rows`` (their kernel rows, cached), ``subproblem`` (eq. (9), pair by pair),
``polish`` (Newton's method once the free variables are known), ``newton_work`` (what it may cost) and
``driver`` (the loop).
"""

from polyopt.solvers.decomposition.driver import Decomposition, solve_decomposition
from polyopt.solvers.decomposition.dual import recapped

__all__ = ["Decomposition", "recapped", "solve_decomposition"]
