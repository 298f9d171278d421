"""The explicit program of faces that are coupled, for an assignment, as Clarabel has it.

With A the rows y_i x̃_i, each positive at its face and each negative at all of them,

    min  Σ ‖W_k‖² (total) or r² (worst)  +  c·ξ    subject to    A_i W_k + ξ ≥ 1  [alpha],    ξ ≥ 0,
    and, for the worst,  ‖W_k‖ ≤ r,

where a negative has a ξ for each face (sum) or one for all (max). The programs themselves, with their names
and printed forms, are :func:`formulations.cpm.fixed_assignment` and
:func:`formulations.cpm_worst.fixed_assignment`; a test holds them together. Nothing rests on this answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from polyopt.solvers.clock import Clock
from polyopt.solvers.cpm.explicit_face import ask_clarabel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.cpm.coupled_rows import Faces

__all__ = ["solve_explicit_coupled"]


def solve_explicit_coupled(
    data: Faces, face: NDArray[np.int64], n_faces: int, time_limit: float | None = None
) -> tuple[Vector, Vector] | None:
    """The faces (K, d) of an assignment and their multipliers (K, n), to about 1e-10.

    Parameters
    ----------
    data : Faces
        The samples; those as given are used.
    face : ndarray of shape (npos,)
        The face of each positive, -1 for one that has none.
    n_faces : int
        K.
    time_limit : float, optional
        Seconds.

    Returns
    -------
    (ndarray, ndarray) or None
        None where Clarabel left no point.
    """
    import clarabel  # type: ignore[import-untyped]

    (A, _, C, inside), K = data.given, n_faces
    (n, d), slacks = A.shape, inside * (1 if data.shared else K)
    at = np.flatnonzero(face >= 0)
    samples = np.concatenate([np.tile(np.arange(inside), K), inside + at])
    of = np.concatenate([np.repeat(np.arange(K), inside), face[at]])
    slack = np.concatenate([np.arange(inside * K) % max(slacks, 1), slacks + np.arange(len(at))])
    count, width = len(samples), slacks + len(at)
    costs = np.concatenate([C[samples[: inside * K]][:slacks], C[inside + at]])
    each, first = np.arange(count), K * d
    rows = [np.repeat(each, d), each, count + np.arange(width)]
    columns = [(of[:, None] * d + np.arange(d)).ravel(), first + slack, first + np.arange(width)]
    values = [-A[samples].ravel(), np.full(count, -1.0), np.full(width, -1.0)]
    b, cones = [np.full(count, -1.0), np.zeros(width)], [clarabel.NonnegativeConeT(count + width)]
    last, total = count + width, first + width
    c = np.concatenate([np.zeros(first), costs])
    squares, places = np.full(first, 2.0), np.arange(first)
    if data.worst:  # (r, W_k) is in the cone
        squares, places, c = np.array([2.0]), np.array([total]), np.append(c, 0.0)
        for k in range(K):
            rows.append(last + np.arange(d + 1))
            columns.append(np.append(total, k * d + np.arange(d)))
            values.append(np.full(d + 1, -1.0))
            b.append(np.zeros(d + 1))
            cones.append(clarabel.SecondOrderConeT(d + 1))
            last += d + 1
        total += 1
    matrix = sp.csc_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(last, total)
    )
    P = sp.csc_array((squares, (places, places)), shape=(total, total))
    found = ask_clarabel(P, c, matrix, np.concatenate(b), cones, Clock(time_limit))
    if found is None:
        return None
    W, alpha = np.asarray(found.x)[:first].reshape(K, d), np.zeros((K, n))
    alpha[of, samples] = np.asarray(found.z)[:count]
    return (W, np.maximum(alpha, 0.0)) if np.isfinite(W).all() and np.isfinite(alpha).all() else None
