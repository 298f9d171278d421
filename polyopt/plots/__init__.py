"""Pictures of classifiers: boundary, faces, polytopes, multipliers, metrics, probabilities, runs of solvers.

Each function draws on a :class:`matplotlib.figure.Figure` of its own and gives it back, or on the axes given
as ``ax``, and gives those back. A notebook shows the figure; save it with ``figure.savefig``. None is made
with pyplot: no window opens, and no figure has to be closed. The displays do the same in scikit-learn's way.
"""

from polyopt.plots.boundary import decision_boundaries, decision_boundary, whitening
from polyopt.plots.displays import CertificateDisplay, DualsDisplay, FacesDisplay
from polyopt.plots.optimality import conditions, multipliers
from polyopt.plots.polytope import face_weights, polytope_plane, polytope_slices
from polyopt.plots.reliability import reliability
from polyopt.plots.runs import convergence, gaps, path

__all__ = [
    "CertificateDisplay",
    "DualsDisplay",
    "FacesDisplay",
    "conditions",
    "convergence",
    "decision_boundaries",
    "decision_boundary",
    "face_weights",
    "gaps",
    "multipliers",
    "path",
    "polytope_plane",
    "polytope_slices",
    "reliability",
    "whitening",
]
