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
from polyopt.solvers.cpm.spread import WHOLE, Ground, Spread, raise_spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.matrices import Vector

__all__ = ["Proven", "held", "raised", "within", "worth_of"]


class Proven(NamedTuple):
    """What one face adds to the bound: a number, and for each sample that may be on it more, on it or not.

    ``error`` is how far all of it together may be above the truth.
    """

    constant: float
    on: Vector
    off: Vector
    error: float


def held(ground: Ground, spread: Spread) -> Spread:
    """Return multipliers clipped to their boxes, with lengths for which Σ e e' / d ⪯ I is certain.

    The multipliers given may be any numbers, the lengths any above 0; e and the shares are not read.
    """
    a, delta, own = np.clip(spread.a, 0.0, ground.C), spread.delta, np.clip(spread.own, 0.0, ground.B)
    for limit, part in ((ground.C - a, np.maximum(delta, 0.0)), (a, np.maximum(-delta, 0.0))):
        total = part.sum(axis=0)
        over = total * ABOVE > limit * (1.0 - 4.0 * UNIT)
        if over.any():
            shrunk = np.where(over, limit / np.maximum(total, 1e-300) * (1.0 - 1e-8), 1.0)
            delta = delta * np.where(part > 0.0, shrunk, 1.0)
    e = own[:, None] * ground.P + delta @ ground.A
    return Spread(a, delta, own, e, np.maximum(spread.length, 1e-300) * _largest(e, spread.length))


def worth_of(ground: Ground, kept: Spread) -> Proven:
    """Return what multipliers from :func:`held` prove of a face, at any shares of `ground`, 0 and 1 too."""
    (n, d), p, share = ground.A.shape, len(kept.own), ground.share
    a, delta, own, e, length = kept
    sizes, squares = np.linalg.norm(e, axis=1), np.sqrt(ground.q)
    reach = np.abs(own) * np.linalg.norm(ground.P, axis=1) + np.abs(delta) @ squares
    first = a @ ground.A
    v = first + share @ e
    long = np.linalg.norm(v) + sizes.sum() + a @ squares
    off_by = ABOVE * gamma(n + p + 8) * (a @ squares + reach.sum() + np.linalg.norm(first) + sizes.sum())
    pulled = e @ v
    on = own + delta.sum(axis=1) - 0.5 * pulled - 0.25 * (1.0 - 2.0 * share) * length
    off = 0.5 * share * pulled - 0.25 * share**2 * length
    size = a.sum() + np.abs(own).sum() + np.abs(delta).sum() + long * long + length.sum()
    error = ABOVE * (0.25 * off_by * (2.0 * long + off_by) + 2.0 * gamma(n + p + d + 20) * size)
    return Proven(float(a.sum() - 0.25 * (v @ v)), on, off, float(error))


def raised(
    ground: Ground, spread: Spread, mu: float, sweeps: int, is_over: Callable[[], bool] = lambda: False
) -> Spread:
    """What :func:`polyopt.solvers.cpm.spread.raise_spread` makes of multipliers, which stay as they are.

    Where numbers are too far apart for a step in double precision, or time is up, it ends as far as it got.
    With more features than samples it works in coordinates of the space that the samples span: all that it
    computes are products of samples, and a step takes the square of the number of coordinates.
    """
    if ground.A.shape[1] > len(ground.A) + len(ground.P):
        basis = np.linalg.qr(np.vstack([ground.A, ground.P]).T)[0]
        here = ground._replace(A=ground.A @ basis, P=ground.P @ basis)
        higher = raised(here, spread._replace(e=spread.e @ basis), mu, sweeps, is_over)
        return higher._replace(e=higher.own[:, None] * ground.P + higher.delta @ ground.A)
    for made in range(0, sweeps, WHOLE):
        if is_over():
            return spread
        higher = Spread(*(part.copy() for part in spread))
        try:
            raise_spread(ground, higher, mu, min(WHOLE, sweeps - made))
        except (ZeroDivisionError, np.linalg.LinAlgError):
            return spread
        if not all(np.isfinite(part).all() for part in higher):
            return spread
        spread = higher
    return spread


def within(ground: Ground, spread: Spread, side: Vector) -> Spread:
    """Return multipliers with room `side` (n,) at both ends of every box, lengths with room in the matrix."""
    a = np.clip(spread.a, side, ground.C - side)
    up, down = np.maximum(spread.delta, 0.0).sum(axis=0), np.maximum(-spread.delta, 0.0).sum(axis=0)
    room = np.minimum(
        (ground.C - a - 0.5 * side) / np.maximum(up, 1e-300), (a - 0.5 * side) / np.maximum(down, 1e-300)
    )
    delta = np.ascontiguousarray(spread.delta * np.minimum(room, 1.0))
    e = spread.own[:, None] * ground.P + delta @ ground.A
    length = np.maximum(spread.length, 1e-300)
    if len(length):
        length = length * max(1.0, 1.01 * float(np.linalg.eigvalsh(_gram(e, length))[-1]))
    return Spread(a, delta, spread.own.copy(), e, length)


def _gram(e: Vector, length: Vector) -> Vector:
    """Σ e e' / d, or the smaller matrix of products e_i·e_j / √(d_i d_j), which has the same eigenvalues."""
    if len(e) >= e.shape[1]:
        return np.asarray((e / length[:, None]).T @ e)
    scaled = e / np.sqrt(length)[:, None]
    return np.asarray(scaled @ scaled.T)


def _largest(e: Vector, length: Vector) -> float:
    """A number such that Σ e e' / d, with lengths d that are as many times larger, is at most I."""
    if len(e) == 0:
        return 1.0
    matrix = _gram(e, length)
    matrix, d = 0.5 * (matrix + matrix.T), len(matrix)
    off_by = ABOVE * gamma(max(e.shape) + 8) * float((np.square(e).sum(axis=1) / length).sum())
    most = float(np.linalg.eigvalsh(matrix)[-1])
    for more in (1e-10, 1e-6, 1.0):
        bound = max(most, 0.0) * (1.0 + more) + 1e-300
        try:
            np.linalg.cholesky(bound * np.eye(d) - matrix)
        except np.linalg.LinAlgError:
            continue
        return (bound * (1.0 + 8.0 * (d + 4) ** 2 * UNIT) + off_by) * (1.0 + 8.0 * UNIT)
    return np.inf
