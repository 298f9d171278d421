"""One face of the Convex Polytope Machine for which positives may answer or not: multipliers that follow.

Of the samples on a face some are there for certain (the negatives, and the positives assigned to it: rows j
of A, y_j x̃_j), others may be (positives i that are not assigned, rows of P). Let multipliers follow who
comes: a_j, and δ_ij more for each i that is on the face, which itself has β_i. With e_i = β_i P_i + Σ_j δ_ij
A_j and s_i = β_i + Σ_j δ_ij, a set S of them on the face costs at least, by weak duality,

    Σ_j a_j + Σ_{i∈S} s_i − ¼ ‖Σ_j a_j A_j + Σ_{i∈S} e_i‖²

as long as what all together may do keeps within the boxes, a_j + Σ_i [δ_ij]_+ ≤ C_j and
a_j ≥ Σ_i [−δ_ij]_+. The square is the trouble, for it has products of any two of S. For lengths d > 0 with
Σ_i e_i e_i' / d_i ⪯ I, and any t, ‖Σ t_i e_i‖² ≤ Σ d_i t_i² (diag(d) − E E' and I − Σ e_i e_i' / d_i are
positive together). So with shares θ_i and v = Σ_j a_j A_j + Σ_i θ_i e_i the square is at most

    ‖v‖² + Σ_i [ 2 τ_i v·e_i + τ_i² d_i ],   τ_i = 1 − θ_i for i in S, −θ_i for the others,

which is a sum over samples: ``polyopt.cpm.global_search.spread`` adds the faces up, and has the proof.

This kernel raises, for given shares, what that makes in the mean, when i is on the face with share θ_i,

    Φ = Σ_j a_j + Σ_i θ_i s_i − ¼ ‖v‖² − ¼ Σ_i θ_i (1 − θ_i) d_i,

a concave function, by coordinates, with a barrier for the boxes and for the matrix, μ Σ log(room) +
μ log det(I − Σ e_i e_i'/d_i). For one i, with H the inverse of that matrix without it and ρ = e'He, the best
length is a root of d (d − ρ) = μ ρ / c, c = ¼ θ (1 − θ); and what is lost by ρ is convex in it, so that it is
at most linear: a coordinate of e_i sees a parabola. Most δ stay 0: only each fourth sweep looks at all of
them. The bound is valid for any multipliers in their boxes; convergence affects its tightness alone.

Rounding. What is computed are e, v and Σ e e' / d, off by running error bounds; the first two make the
squares larger by 2 H L + H², with H the sum of all errors of a face and L of all lengths. The matrix is shown
to be small enough by a Cholesky factor (Rump, Verification of positive definiteness, 2006).

The shares. On each face k let the multipliers be fixed: p_k = Σ_j a_kj A_j, sums s_ik, vectors e_ik and
lengths d_ik. With E_k the matrix of columns e_ik, D_k that of the lengths on its diagonal, M_k = D_k − E_k'
E_k and c_ik = s_ik − ½ e_ik·p_k − ¼ d_ik, the bound that ``polyopt.cpm.global_search.spread`` proves is, up
to a constant,

    β(θ) = −¼ Σ_k θ_k' M_k θ_k + Σ_i min_k ( c_ik + ½ (M_k θ_k)_i ).

Theorem. β is largest at the θ that minimises γ(z) = Σ_k ( c_k·z_k + ¼ z_k' M_k z_k ) over z_i ≥ 0,
Σ_k z_ik = 1 for each i, and there β(θ) = γ(θ).

Proof. M_k is positive semidefinite, as Σ_i e_i e_i'/d_i ⪯ I is the same as E'E ⪯ D. So γ is convex, and for
any θ and z, ¼ z' M z ≥ ½ z' M θ − ¼ θ' M θ: γ(z) ≥ −¼ Σ_k θ_k' M_k θ_k + Σ_ik z_ik (c_ik + ½ (M_k θ_k)_i) ≥
β(θ). At a minimiser each z_i has its weight on the faces of its least slope c_ik + ½ (M_k z_k)_i, so that
both are equalities for θ = z. ∎

A second kernel minimises γ by moving weight of one sample between two faces at a time. Any shares prove a
bound, so convergence affects its tightness alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.linalg.rounding import ABOVE, UNIT, gamma
from polyopt.native.library import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.language.types import Vector

__all__ = [
    "WHOLE", "Fixed", "Ground", "Proven", "Spread", "best_shares", "held", "raise_spread", "raised", "within",
    "worth_of",
]  # fmt: skip

WHOLE = 4  # of so many sweeps one looks at every move
# Products of M with n rows are kept where moves that are not 0 would cost more than so many rows; near that
# 195 samples of german took as long either way.
_ROWS_PER_MOVE = 4
_PIECE = 2**24  # numbers that a kernel reads in one call, about: some hundredths of a second
_RIDGE = 1e-3  # of a length, added to the curvature of the shares, which may be 0


class Ground(NamedTuple):
    """The samples of one face.

    A (n, d), their squared lengths q (n,) and costs C (n,); P (p, d), costs B (p,) and shares (p,) of those
    that may be on it, over 0 and below 1.
    """

    A: Vector
    q: Vector
    C: Vector
    P: Vector
    B: Vector
    share: Vector


class Spread(NamedTuple):
    """The multipliers: a (n,), delta (p, n), own (p,), which is β; e (p, d) and length (p,), which is d."""

    a: Vector
    delta: Vector
    own: Vector
    e: Vector
    length: Vector


# Raise a face, in place, by some steps, from `first` to before `last`: a sweep has p + 1 of them, the base
# multipliers and then each positive. The first sweep looks at every move, others at those that are not 0.
# M (d, d) is the inverse of I − Σ e e'/d, and follows; `keeps` whether its products with the rows of A do.
# Returns -1 without memory.
_raise_spread = kernel(
    "cpm_raise_spread",
    "A: f8 (n, d); q: f8 (n); C: f8 (n); P: f8 (p, d); B: f8 (p); share: f8 (p); a!: f8 (n); "
    "delta!: f8 (p, n); own!: f8 (p); e!: f8 (p, d); length!: f8 (p); M!: f8 (d, d); keeps: i8; mu: f8; "
    "first: i8; last: i8",
    returns="i8",
)

# Move shares (F, p), with pulled (F, d) their sums of share e_i, to where γ is least; curve (F, p) is its
# curvature.
_best_shares = kernel(
    "cpm_best_shares",
    "slope: f8 (F, p); e: f8 (F, p, d); length: f8 (F, p); times: f8 (F); allowed: b1 (F, p); "
    "share!: f8 (F, p); pulled!: f8 (F, d); curve: f8 (F, p); passes: i8; little: f8",
)


def raise_spread(ground: Ground, spread: Spread, mu: float, sweeps: int) -> None:
    """Raise Φ with the barrier, in place, by so many sweeps.

    Every box and the matrix must have room.
    """
    (n, d), p = ground.A.shape, len(ground.share)
    keeps = np.count_nonzero(spread.delta) * d > _ROWS_PER_MOVE * n * p
    piece = max(_PIECE // (n * d + d * d), 1)
    for sweep in range(0, sweeps, WHOLE):
        M = np.linalg.inv(np.eye(d) - (spread.e / spread.length[:, None]).T @ spread.e)
        steps = (p + 1) * min(WHOLE, sweeps - sweep)
        for first in range(0, steps, piece):
            last = min(first + piece, steps)
            if _raise_spread(*ground, *spread, M, int(keeps), mu, first, last) < 0:
                raise MemoryError


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
    """Return multipliers raised by :func:`raise_spread`; those given stay as they are.

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
        except np.linalg.LinAlgError:
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


class Fixed(NamedTuple):
    """Multipliers that are fixed, of faces in use and of one that stands for those that are alike.

    slope (F, p), c; e (F, p, d); length (F, p); times (F,), how many faces one stands for; allowed (F, p),
    who may be on it.
    """

    slope: Vector
    e: Vector
    length: Vector
    times: Vector
    allowed: NDArray[np.bool_]


def best_shares(fixed: Fixed, share: Vector, passes: int, little: float) -> None:
    """Move shares (F, p), in place, to where γ is least: all of a face that stands for several, together.

    Passes end after so many, or with one in which γ falls by no more than `little`.
    """
    pulled = np.einsum("kp,kpd->kd", share, fixed.e)
    bent = np.maximum(fixed.length - np.square(fixed.e).sum(axis=2), 0.0) + _RIDGE * fixed.length
    curve = 0.5 * bent / fixed.times[:, None]
    _best_shares(*fixed, share, pulled, curve, passes, little)
