"""Pictures of classifiers: boundary, faces, polytopes, multipliers, metrics, probabilities, runs of solvers.

Each function returns a :class:`matplotlib.figure.Figure`; save it with ``figure.savefig``.
"""

from polyopt.plots.boundary import decision_boundaries, decision_boundary
from polyopt.plots.convergence import convergence
from polyopt.plots.face_weights import face_weights
from polyopt.plots.multipliers import multipliers
from polyopt.plots.polytope import polytope_plane, polytope_slices
from polyopt.plots.reliability import reliability
from polyopt.plots.whitening import whitening

__all__ = [
    "convergence",
    "decision_boundaries",
    "decision_boundary",
    "face_weights",
    "multipliers",
    "polytope_plane",
    "polytope_slices",
    "reliability",
    "whitening",
]
