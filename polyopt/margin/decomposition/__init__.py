"""The decomposition solver: the dual of kernel machines by working sets, as in SMO, for any kernel.

The program is dual (8) of Shivaswamy & Jebara, Relative Margin Machines (2008), or another dual of families
of constraints with finite costs, such as that of the SVM. Read in this order:

state     the dual in n variables instead of 3n; the cache of kernel rows; the iterate β with Kβ; the history
newton    an active-set method for the dual over some samples; the Newton phase, over all near the margin
driver    working sets and their subproblems; the loop of a solve; precision and restarts; warm starts

``cluster_start`` computes an initial point for many samples under an RBF kernel.
"""

from polyopt.margin.decomposition.driver import Decomposition, solve_decomposition
from polyopt.margin.decomposition.state import Options as Options

__all__ = ["Decomposition", "solve_decomposition"]
