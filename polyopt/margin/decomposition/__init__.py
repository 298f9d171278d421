"""The decomposition solver: dual (8) of the Relative Margin Machine by working sets, on any kernel.

Read in this order:

state          the program, and why it has n variables and not 3n; β and Kβ with its rounding; the history
cache          kernel rows
working_set    the choice of samples, and the subproblem (9), pair by pair
newton         all samples that matter at once, by an active set, if that costs less
driver         the order of a solve; repairs of rounding; warm starts

``options`` has the numbers, and ``cluster_start`` a start for many samples.
"""

from polyopt.margin.decomposition.driver import Decomposition, solve_decomposition
from polyopt.margin.decomposition.options import Options as Options
from polyopt.margin.decomposition.state import recapped

__all__ = ["Decomposition", "recapped", "solve_decomposition"]
