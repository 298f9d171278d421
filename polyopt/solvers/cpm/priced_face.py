"""One face of the Convex Polytope Machine at prices of the positives, by alternating: good, unproven."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.compiled import njit
from polyopt.operands import put
from polyopt.solvers.cpm.face import Samples, climb, hyperplane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["priced_face"]

_ROUNDS, _FACE_SWEEPS, _FACE = 30, np.int64(300), 1e-9  # of alternating, each, and the gain of all costs


@njit(cache=True)
def priced_face(
    data: Samples, prices: Vector, answers: NDArray[np.bool_]
) -> tuple[Vector, NDArray[np.bool_]]:
    """The face for the positives that it is to answer for, then for those that gain by it, until they stay.

    data: the samples.
    prices (npos,): λ.
    answers (npos,): which positives it begins with.
    Returns w (d,): the face.
    Returns answers (npos,): which positives it was made for.
    """
    n, d = data.A.shape
    a, w, caps, zero = np.zeros(n), np.zeros(d), data.C.copy(), np.zeros(n)
    answers = answers.copy()
    following = answers.copy()
    for _ in range(_ROUNDS):
        put(following, answers)
        for i in range(data.inside, n):
            caps[i] = data.C[i] if answers[i - data.inside] else 0.0
            a[i] = min(a[i], caps[i])
        hyperplane(data, a, w)
        climb(data, zero, caps, a, w, _FACE_SWEEPS, np.inf, _FACE * data.C.sum())
        moved = False
        for i in range(data.inside, n):
            r = 1.0
            for j in range(d):
                r -= data.A[i, j] * w[j]
            gains = data.C[i] * max(r, 0.0) < prices[i - data.inside]
            following[i - data.inside] = gains
            moved = moved or gains != answers[i - data.inside]
        if not moved:
            break
    return w, answers
