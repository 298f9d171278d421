"""What multipliers that follow the assignment prove of one face, with all rounding.

The multipliers are those of :mod:`polyopt.solvers.cpm.spread`; the faces are added up in
``polyopt.outer.cpm.spread``, where the proof is.

Rounding. What is computed are e, v and Σ e e' / d, off by running error bounds; the first two make the
squares larger by 2 H L + H², with H the sum of all errors of a face and L of all lengths. The matrix is shown
to be small enough by a Cholesky factor (Rump, Verification of positive definiteness, 2006).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.certificates.rounding import ABOVE, UNIT, gamma
from polyopt.solvers.cpm.spread import Ground, Spread

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["Proven", "prove_face"]


class Proven(NamedTuple):
    """What one face adds to the bound: a number, and for each sample that may be on it more, on it or not.

    ``error`` is how far all of it together may be above the truth.
    """

    constant: float
    on: Vector
    off: Vector
    error: float


def prove_face(ground: Ground, spread: Spread) -> tuple[Proven, Spread]:
    """What multipliers prove of a face, and the multipliers, held to their boxes, with the lengths that do.

    Parameters
    ----------
    ground : Ground
        Its samples.
    spread : Spread
        Any numbers; lengths above 0. Of ``e`` nothing is read.
    """
    a, delta, own = np.clip(spread.a, 0.0, ground.C), spread.delta, np.clip(spread.own, 0.0, ground.B)
    for limit, part in ((ground.C - a, np.maximum(delta, 0.0)), (a, np.maximum(-delta, 0.0))):
        total = part.sum(axis=0)
        over = total * ABOVE > limit * (1.0 - 4.0 * UNIT)
        if over.any():
            shrunk = np.where(over, limit / np.maximum(total, 1e-300) * (1.0 - 1e-8), 1.0)
            delta = delta * np.where(part > 0.0, shrunk, 1.0)
    (n, d), p = ground.A.shape, len(own)
    e = own[:, None] * ground.P + delta @ ground.A
    sizes, squares = np.linalg.norm(e, axis=1), np.sqrt(ground.q)
    reach = np.abs(own) * np.linalg.norm(ground.P, axis=1) + np.abs(delta) @ squares
    length = np.maximum(spread.length, 1e-300) * _largest(e, spread.length)
    first, v = a @ ground.A, a @ ground.A + ground.share @ e
    long = np.linalg.norm(v) + sizes.sum() + a @ squares
    off_by = ABOVE * gamma(n + p + 8) * (a @ squares + reach.sum() + np.linalg.norm(first) + sizes.sum())
    pulled, share = e @ v, ground.share
    on = own + delta.sum(axis=1) - 0.5 * pulled - 0.25 * (1.0 - 2.0 * share) * length
    off = 0.5 * share * pulled - 0.25 * share**2 * length
    size = a.sum() + np.abs(own).sum() + np.abs(delta).sum() + long * long + length.sum()
    error = ABOVE * (0.25 * off_by * (2.0 * long + off_by) + 2.0 * gamma(n + p + d + 20) * size)
    proven = Proven(float(a.sum() - 0.25 * (v @ v)), on, off, float(error))
    return proven, Spread(a, delta, own, e, length)


def _largest(e: Vector, length: Vector) -> float:
    """A number such that Σ e e' / d, with lengths d that are as many times larger, is at most I."""
    p, d = e.shape
    if p == 0:
        return 1.0
    matrix = (e / length[:, None]).T @ e
    matrix = 0.5 * (matrix + matrix.T)
    off_by = ABOVE * gamma(p + 6) * float((np.square(e).sum(axis=1) / length).sum())
    most = float(np.linalg.eigvalsh(matrix)[-1])
    for more in (1e-10, 1e-6, 1.0):
        bound = max(most, 0.0) * (1.0 + more) + 1e-300
        try:
            np.linalg.cholesky(bound * np.eye(d) - matrix)
        except np.linalg.LinAlgError:
            continue
        return (bound * (1.0 + 8.0 * (d + 4) ** 2 * UNIT) + off_by) * (1.0 + 8.0 * UNIT)
    return np.inf
