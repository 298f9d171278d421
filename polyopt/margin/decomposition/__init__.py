"""The decomposition solver: dual (8) of the Relative Margin Machine by working sets, on any kernel.

Read in this order:

state     the program, and why it has n variables and not 3n; kernel rows; β and Kβ with its rounding; history
newton    all samples that matter at once, by an active set, if that costs less
driver    working sets and their subproblems (9); the order of a solve; repairs of rounding; warm starts

``cluster_start`` has a start for many samples.
"""

from polyopt.margin.decomposition.driver import Decomposition, solve_decomposition
from polyopt.margin.decomposition.state import Options as Options
from polyopt.margin.decomposition.state import recapped

__all__ = ["Decomposition", "recapped", "solve_decomposition"]
