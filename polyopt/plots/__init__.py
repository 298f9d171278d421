"""Pictures of classifiers: boundary, faces, polytopes, multipliers, metrics, probabilities, runs of solvers.

Each function returns a new :class:`matplotlib.figure.Figure`. A notebook shows it; save it with
``figure.savefig``.
"""

from polyopt.plots.boundary import decision_boundary, whitening
from polyopt.plots.optimality import conditions, multipliers
from polyopt.plots.polytope import face_weights, polytope_slices
from polyopt.plots.runs import convergence, gaps, path

__all__ = [
    "conditions", "convergence", "decision_boundary", "face_weights", "gaps", "multipliers", "path",
    "polytope_slices", "whitening",
]  # fmt: skip
