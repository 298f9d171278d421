"""Pictures of classifiers: decision boundary and faces, multipliers by sample, runs of solvers.

Each function returns a :class:`matplotlib.figure.Figure`; save it with ``figure.savefig``.
"""

from polyopt.plots.boundary import decision_boundary
from polyopt.plots.convergence import convergence
from polyopt.plots.multipliers import multipliers

__all__ = ["convergence", "decision_boundary", "multipliers"]
