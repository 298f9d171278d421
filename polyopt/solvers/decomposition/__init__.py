"""The decomposition solver: dual (8) of the Relative Margin Machine by working sets, on any kernel.

Read in this order. The program: ``dual`` (the program, and why it has n variables and not 3n) and ``point``
(where a run stands). A sub-problem: ``working_set`` (which samples next), ``rows`` (their kernel rows,
cached), ``subproblem`` (eq. (9), pair by pair, over the lanes of ``scan``), ``active_set`` (the same by
Newton's method, where pairs crawl) and ``factor`` (the Cholesky factor that it keeps). A run: ``work`` and
``ledger`` (what the parts cost, and what has been spent), ``history`` (its steps, limits and records, and
the answer), ``shrinking`` (who is set aside and taken back), ``watch`` and ``repairs`` (whether anything is
gained, and what is done about rounding), ``finish`` (all free variables at once, where that pays), ``walk``
(how small machines begin), ``loop`` (working set after working set) and ``run`` (these in their order). And
``cells`` (where large machines begin) and ``driver`` (what is called).
"""

from polyopt.solvers.decomposition.driver import Decomposition, solve_decomposition
from polyopt.solvers.decomposition.dual import recapped

__all__ = ["Decomposition", "recapped", "solve_decomposition"]
