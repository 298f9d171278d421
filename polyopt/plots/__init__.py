"""Pictures of classifiers: boundary, faces, polytopes, multipliers, metrics, probabilities, runs of solvers.

Each function returns a new :class:`matplotlib.figure.Figure`. A notebook shows it; save it with
``figure.savefig``.
"""

from typing import Any

from polyopt.plots.boundary import decision_boundary, whitening
from polyopt.plots.optimality import conditions, multipliers
from polyopt.plots.polytope import face_weights, polytope_slices
from polyopt.plots.runs import convergence, gaps, path

__all__ = [
    "conditions", "convergence", "decision_boundary", "face_weights", "gaps", "multipliers", "path",
    "polytope_slices", "whitening",
]  # fmt: skip

_REMOVED = {
    "decision_boundaries": "decision_boundary(machines, X, y)",
    "polytope_plane": "polytope_slices(machine, X, y)",
    "CertificateDisplay": "conditions(machine)",
    "DualsDisplay": "multipliers(machine)",
    "FacesDisplay": "face_weights(machine), polytope_slices(machine, X, y)",
}


def __getattr__(name: str) -> Any:
    if name in _REMOVED:
        raise ImportError(f"polyopt.plots has no {name} any more: call {_REMOVED[name]}")
    raise AttributeError(f"module 'polyopt.plots' has no attribute {name!r}")
