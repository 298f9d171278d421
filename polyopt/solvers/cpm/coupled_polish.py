"""Coupled faces from nearly the best multipliers to the last digits: Newton's method on who is on the margin.

An interior point leaves multipliers right to six digits or so. Which of them are 0, or at their caps,
is plain then; the others belong to samples on their margins. With v_k = Σ_i a_ik y_i x̃_i and u_k = v_k/‖v_k‖
the faces are W_k = ½ v_k (total) or r u_k with 2 r = Σ ‖v_k‖ (worst); and what is left to solve are

    1 − y_i W_k·x̃_i = μ_i    for a multiplier in between,    Σ_k a_ik = C_i    where a negative has several

of them at its shared cap, at whose price μ_i they are, 0 else. Nothing rests on how far it comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.cpm.coupled import SAFE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.cpm.coupled_rows import Faces

    Bits = NDArray[np.bool_]

__all__ = ["polished_coupled"]

_TINY = 1e-5  # of a cap: a multiplier so near to 0 or to it is there
_STEPS = 4


def polished_coupled(data: Faces, W: Vector, alpha: Vector, caps: Vector) -> tuple[Vector, Vector]:
    """Multipliers (K, n) that fit their faces, and these (K, d).

    Parameters
    ----------
    data : Faces
        The samples; those as given are used.
    W, alpha : ndarray of shape (K, d) and (K, n)
        Nearly the best. A face that nothing pulls stays as it is.
    caps : ndarray of shape (K, n)
        The caps of the multipliers, each by itself.
    """
    A, tight = data.given.A, np.zeros(alpha.shape[1], dtype=bool)
    alpha = np.where(alpha <= _TINY * caps, 0.0, np.where(alpha >= (1.0 - _TINY) * caps, caps, alpha))
    between = (alpha > 0.0) & (alpha < caps)
    if data.shared:
        tight[: data.inside] = (alpha.sum(axis=0) >= (1.0 - _TINY) * data.C)[: data.inside]
        alone = tight & (between.sum(axis=0) == 1)
        alpha[:, alone] = np.where(between[:, alone], caps[:, alone], 0.0)
        between[:, alone] = False
        tight &= between.any(axis=0)
    pulls = np.linalg.norm(alpha @ A, axis=1)
    held = pulls > _TINY * pulls.sum()
    between &= held[:, None]
    price, r = np.zeros(len(data.C)), 0.5 * float(pulls.sum())
    first = _faces(data, W, alpha, held)
    for i in np.flatnonzero(tight):
        price[i] = max((1.0 - A[i] @ first[k] for k in np.flatnonzero(between[:, i])), default=0.0)
    for _ in range(_STEPS):
        moved = _step(data, alpha, between, tight, price, r, held)
        if moved is None:
            break
        alpha, price, r = moved
    return np.clip(alpha, 0.0, caps), _faces(data, W, np.clip(alpha, 0.0, caps), held)


def _faces(data: Faces, W: Vector, alpha: Vector, held: Bits) -> Vector:
    """The faces that multipliers make; those that nothing pulls as they are, where the longest counts."""
    v = alpha @ data.given.A
    if not data.worst:
        return np.asarray(0.5 * v)
    pulls = np.linalg.norm(v, axis=1)
    made = 0.5 * pulls.sum() * v / np.where(pulls > 0.0, pulls, 1.0)[:, None]
    return np.where(held[:, None], made, W)


def _step(
    data: Faces, alpha: Vector, between: Bits, tight: Bits, price: Vector, r: float, held: Bits
) -> tuple[Vector, Vector, float] | None:
    """One step of Newton's method for the multipliers in between, the prices, and r."""
    A, at, (of, who) = data.given.A, np.flatnonzero(tight), np.nonzero(between)
    count, d = len(of), A.shape[1]
    if count == 0:
        return None
    v = alpha @ A
    pulls = np.where(held, np.linalg.norm(v, axis=1), 1.0)
    u = v / pulls[:, None]
    size = count + len(at) + 1
    J, left = np.zeros((size, size)), np.zeros(size)
    for k in range(len(alpha)):
        mine = np.flatnonzero(of == k)
        bend = 0.5 * np.eye(d) if not data.worst else r / pulls[k] * (np.eye(d) - np.outer(u[k], u[k]))
        rows = A[who[mine]]
        J[np.ix_(mine, mine)] = -rows @ bend @ rows.T
        face = 0.5 * v[k] if not data.worst else r * u[k]
        left[mine] = 1.0 - rows @ face - price[who[mine]]
        if data.worst:
            J[mine, -1], J[-1, mine] = -rows @ u[k], rows @ u[k]
    J[-1, -1] = -2.0 if data.worst else 1.0
    left[-1] = np.linalg.norm(v, axis=1).sum() - 2.0 * r if data.worst else 0.0
    for number, i in enumerate(at):
        J[:count, count + number] = np.where(who == i, -1.0, 0.0)
        J[count + number, :count] = np.where(who == i, 1.0, 0.0)
        left[count + number] = alpha[:, i].sum() - data.C[i] * (1.0 - SAFE)
    try:
        move = np.linalg.lstsq(J, -left, rcond=1e-12)[0]
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(move).all():
        return None
    alpha, price = alpha.copy(), price.copy()
    alpha[of, who] += move[:count]
    price[at] += move[count:-1]
    return alpha, price, r + float(move[-1]) if data.worst else r
