"""The decomposition solver: dual (8) of the Relative Margin Machine by working sets, on any kernel.

In the order to read:

dual         the program, and why it has n variables and not 3n
rows         kernel rows, cached
point        β and Kβ, and how far rounding lets Kβ be relied on; the samples set aside (shrinking)
subproblem   eq. (9) over one working set, pair by pair
active_set   the same by Newton's method, where pairs crawl
ledger       the accounts of a solve: its cost in operations, its steps, limits and answer
loop         working set after working set; the start of small machines; all free variables at once; repairs
cells        the start of large machines
driver       the order of a solve; machines that go on from their last one
"""

from polyopt.margin.decomposition.driver import Decomposition, solve_decomposition
from polyopt.margin.decomposition.dual import recapped

__all__ = ["Decomposition", "recapped", "solve_decomposition"]
