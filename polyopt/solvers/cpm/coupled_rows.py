"""Samples as each of some coupled faces has them: the faces apart, for shares of what couples them.

With the multipliers, shares θ_k and pulls v_k of :mod:`polyopt.solvers.cpm.coupled` let s_k = 1/√θ_k. Then
Σ a − ¼ Σ_k ‖v_k‖²/θ_k is the sum of the dual values that faces of their own have for the rows s_k y_i x̃_i
(:mod:`polyopt.solvers.cpm.face`), whose hyperplanes w'_k stand for W_k = s_k w'_k. So the theorem of
:mod:`polyopt.solvers.cpm.bound` on moves of single samples holds of these rows, face by face: its proof asks
that all moves made together are feasible, and multiplies out one square for each face.

For loss="max" the room C_j − Σ_k a_jk of a negative j is shared: the moves of i take max_k [δ_ijk]_+ of it,
as i comes to one face, so that the moves of all i together keep within it, whichever faces they come to.

Rounding. Any s_k will do for which Σ 1/s_k² ≤ 1; what is computed are s_k y_i x̃_i with one more rounding of
each entry, for which the running error bounds of :mod:`polyopt.solvers.cpm.face` and
:mod:`polyopt.solvers.cpm.bound` have room: they count two roundings more for each sum than are made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload

from polyopt.compiled import njit
from polyopt.solvers.cpm.face import Best, Moves, Samples

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["Faces", "faces_for", "is_shared", "keep", "of_face", "scale_faces", "take_room"]

_ABOVE = 1.0 + 1e-14  # times 1/√θ, so that the shares that belong to it add up to less than 1


class Faces(NamedTuple):
    """Samples as each face has them.

    A (K, n, d), rows s_k y_i x̃_i; q (K, n), their squared lengths; C (n,), costs; inside, how many are
    negatives, which come first. Whether negatives pay for their worst face (`shared`) and the longest face
    alone is paid for (`worst`); and the samples as given.
    """

    A: Vector
    q: Vector
    C: Vector
    inside: int
    shared: bool
    worst: bool
    given: Samples


def faces_for(given: Samples, n_faces: int, shared: bool, worst: bool) -> Faces:
    """Room for the rows of each face."""
    n, d = given.A.shape
    A, q = np.empty((n_faces, n, d)), np.empty((n_faces, n))
    return Faces(A, q, given.C, given.inside, shared, worst, given)


def of_face(data: Samples | Faces, k: int) -> Samples:
    """The samples as face k has them, of :class:`Faces` or of :class:`~polyopt.solvers.cpm.face.Samples`."""
    return Samples(data.A[k], data.q[k], data.C, data.inside) if isinstance(data, Faces) else data


def is_shared(data: Samples | Faces) -> bool:
    """Whether a negative has one slack for all faces."""
    return isinstance(data, Faces) and data.shared


@overload(of_face, strict=False)
def _of_face(data: Any, k: int) -> Any:
    if data.instance_class is Faces:
        return lambda data, k: Samples(data.A[k], data.q[k], data.C, data.inside)
    return lambda data, k: data


@overload(is_shared, strict=False)
def _is_shared(data: Any) -> Any:
    if data.instance_class is Faces:
        return lambda data: data.shared
    return lambda data: False


@njit(cache=True)
def scale_faces(data: Faces, theta: Vector, scale: Vector) -> None:
    """Set the rows of each face for these shares, and the numbers s_k that they are multiplied by."""
    n, d = data.given.A.shape
    for k in range(len(theta)):
        scale[k] = _ABOVE / np.sqrt(theta[k]) if data.worst else 1.0
        for i in range(n):
            square = 0.0
            for j in range(d):
                data.A[k, i, j] = scale[k] * data.given.A[i, j]
                square += data.A[k, i, j] * data.A[k, i, j]
            data.q[k, i] = square


@njit(cache=True)
def keep(best: Best, W: Vector, J: float) -> None:
    """Make faces the incumbent."""
    best.limits[0] = J
    for k in range(W.shape[0]):
        for j in range(W.shape[1]):
            best.W[k, j] = W[k, j]


@njit(cache=True)
def take_room(moves: Moves, p: int, used: int, inside: int) -> None:
    """Leave on every face what the face on which p takes most leaves of the room of a negative."""
    for k in range(used, len(moves.up)):
        for j in range(inside):
            moves.taken[p, k, j] = 0.0
    for j in range(inside):
        least = moves.up[0, j]
        for k in range(1, used):
            least = min(least, moves.up[k, j])
        for k in range(used):
            moves.up[k, j] = least
