"""The decomposition solver: dual (8) of the Relative Margin Machine by working sets, on any kernel.

Read in this order: ``dual`` (the program, and why it has n variables and not 3n), ``working_set``
(which samples next), ``rows`` (their kernel rows, cached), ``subproblem`` (eq. (9), pair by pair),
``active_set`` (the same by Newton's method, where pairs crawl), ``work`` and ``ledger`` (what the parts
cost, and what has been spent), ``watch`` (whether anything is gained), ``point`` (where the run stands),
``cells`` (where large ones begin) and ``driver`` (the loop, and all free variables at once at its end).
"""

from polyopt.solvers.decomposition.driver import Decomposition, solve_decomposition
from polyopt.solvers.decomposition.dual import recapped

__all__ = ["Decomposition", "recapped", "solve_decomposition"]
