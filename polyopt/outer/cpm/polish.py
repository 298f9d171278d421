"""A face of the Convex Polytope Machine on small dense data, solved as exactly as double precision allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.cpm.explicit_face import solve_explicit_face
from polyopt.solvers.cpm.face import Samples, caps_of, climb_in_time, dual_value, hyperplane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock

    Vector = NDArray[np.float64]

__all__ = ["face_cost", "polished_face"]

_POLISH = 100_000  # sweeps
_GRACE = 0.2  # seconds past a limit that a face may take
_LOSS = 1e-9  # of the bound, relative, that is given for multipliers which fit their hyperplane


def polished_face(
    data: Samples, face: NDArray[np.int64], k: int, little: float, clock: Clock
) -> tuple[Vector, Vector]:
    """Multipliers (n,) and hyperplane (d,) of a face for an assignment.

    Parameters
    ----------
    data : Samples
        The samples.
    face : ndarray of shape (npos,)
        The face of each positive.
    k : int
        The face.
    little : float
        A gap that is small enough for coordinates to have been as good as an interior point.
    clock : Clock
        Its limit may be passed by a little.
    """
    a, w, caps = np.zeros(len(data.C)), np.zeros(data.A.shape[1]), np.zeros(len(data.C))
    caps_of(data, face, k, caps)
    climb_in_time(data, caps, a, w, _POLISH, 1e-15 * data.C.sum(), clock)
    hyperplane(data, a, w)
    value = face_cost(data, caps, w)
    if caps.any() and value - dual_value(a, w) > little:
        # Badly scaled data, on which coordinates are slow and an interior point is not. Its multipliers
        # come with its hyperplane, as each must fit the other, unless they prove less.
        signs = np.where(np.arange(len(a)) < data.inside, -1.0, 1.0)
        left = clock.left
        limit = None if left is None else max(left, _GRACE)
        found = solve_explicit_face(data.A * signs[:, None], signs, caps, limit)
        if found is not None and face_cost(data, caps, found["w"]) < value:
            w = found["w"]
            exact, implied = np.clip(found.duals["margin"], 0.0, caps), np.empty_like(w)
            hyperplane(data, exact, implied)
            if dual_value(exact, implied) > dual_value(a, 0.5 * a @ data.A) - _LOSS * value:
                a = exact
    return a, w


def face_cost(data: Samples, costs: Vector, w: Vector) -> float:
    """What a face costs by itself, for the `costs` (n,) of those it answers for."""
    return float(w @ w + costs @ np.maximum(0.0, 1.0 - data.A @ w))
