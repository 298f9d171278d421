"""Pictures of classifiers: boundary, faces, polytopes, multipliers, metrics, probabilities, runs of solvers.

Each function draws on a :class:`matplotlib.figure.Figure` of its own and gives it back, or on the axes given
as ``ax``, and gives those back. A notebook shows the figure; save it with ``figure.savefig``. None is made
with pyplot: no window opens, and no figure has to be closed.
"""

from typing import Any

from polyopt.plots.boundary import decision_boundaries, decision_boundary, whitening
from polyopt.plots.optimality import conditions, multipliers
from polyopt.plots.polytope import face_weights, polytope_plane, polytope_slices
from polyopt.plots.reliability import reliability
from polyopt.plots.runs import convergence, gaps, path

__all__ = [
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

_REMOVED = {
    "CertificateDisplay": "conditions(machine)",
    "DualsDisplay": "multipliers(machine)",
    "FacesDisplay": "face_weights(machine), polytope_slices(machine, X, y) or polytope_plane(machine, X, y)",
}


def __getattr__(name: str) -> Any:
    if name in _REMOVED:
        raise ImportError(f"polyopt.plots has no {name} any more: call {_REMOVED[name]}")
    raise AttributeError(f"module 'polyopt.plots' has no attribute {name!r}")
