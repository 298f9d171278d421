"""Multipliers for the bound of a polytope's certificate, by coordinate ascent on large data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import relative_gap
from polyopt.certificates.coordinate import FaceAscent
from polyopt.rows import as_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Matrix, Vector

    Integers = NDArray[np.int64]

__all__ = ["climb"]


def climb(
    X: Matrix,
    y: Vector,
    costs: ArrayLike,
    n_faces: int,
    assignment: Integers,
    primal_value: float,
    tol: float,
    *,
    max_rounds: int = 30,
) -> Vector:
    """Multipliers of the faces of a polytope that come near their optimum, for its bound.

    X, y: samples (n, m) and labels -1 and +1.
    costs (n,) or (n, K): cost of a sample's slack, on every face or on each.
    n_faces: K.
    assignment (n,): the face that answers for each positive; entries of negatives are ignored.
    primal_value: an upper bound on the optimum; the climb ends within `tol` of it, or of the optimum.
    tol: relative gap asked.
    max_rounds: scans of all samples at most.
    Returns (n, K): feasible multipliers: ``Σ α − ¼ Σ_k ‖Σ_i α_ik y_i x̃_i‖²`` is a lower bound on the
        optimum.
    """
    given = np.asarray(costs, dtype=float)
    caps = np.broadcast_to(given[:, None] if given.ndim == 1 else given, (len(y), n_faces))
    ascent = FaceAscent(as_rows(X), y, caps, assignment)
    ascent.sweep(times=2)
    for _ in range(max_rounds):
        ascent.scan()
        least = min(float(ascent.primal.sum()), primal_value)
        if relative_gap(least, float(ascent.dual.sum())) <= tol:
            break
        ascent.climb(tol)
    return ascent.alpha
