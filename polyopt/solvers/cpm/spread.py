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

which is a sum over samples: ``polyopt.outer.cpm.spread`` adds the faces up, and has the proof.

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
E_k and c_ik = s_ik − ½ e_ik·p_k − ¼ d_ik, the bound that ``polyopt.outer.cpm.spread`` proves is, up to a
constant,

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

from polyopt.certificates.rounding import ABOVE, UNIT, gamma
from polyopt.compiled import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = [
    "WHOLE", "Fixed", "Ground", "Proven", "Spread", "best_shares", "held", "raise_spread", "raised", "within",
    "worth_of",
]  # fmt: skip

WHOLE = 4  # of so many sweeps one looks at every move
_STEPS, _MAX_ROOM_SHARE = 2, 0.9  # of Newton for a base multiplier, and how much of its room one may take
# Products of M with n rows are kept where moves that are not 0 would cost more than so many rows; near that
# 195 samples of german took as long either way.
_ROWS_PER_MOVE = 4
_MIN_RHO = 1e-12  # ρ, for which the parabola would have no end
_LENGTH_MARGIN = 1e-9  # of ρ, by which a length is larger
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


class _Work(NamedTuple):
    """What follows the multipliers while they are raised.

    What is left of the boxes (n,) above and below; v (d,); M (d, d), the inverse of the matrix, and M A_j of
    each row (n, d), or of none where it does not pay; of the sample at hand e_i's and a row's product with H
    (d,), and M e_i (d,); and the products of the rows kept with M e_i and with H e_i (n,).
    """

    up: Vector
    down: Vector
    v: Vector
    M: Vector
    rows: Vector
    He: Vector
    Hx: Vector
    Me: Vector
    of_M: Vector
    of_H: Vector


@njit(cache=True, nogil=True, error_model="numpy")
def raise_spread(ground: Ground, spread: Spread, mu: float, sweeps: int) -> None:
    """Raise Φ with the barrier, in place, by so many sweeps.

    Every box and the matrix must have room.
    """
    (n, d), p = ground.A.shape, len(ground.share)
    kept = n if _moves(spread) * d > _ROWS_PER_MOVE * n * p else 0
    work = _Work(
        ground.C - spread.a, spread.a.copy(), np.zeros(d), np.zeros((d, d)), np.zeros((kept, d)), np.zeros(d),
        np.zeros(d), np.zeros(d), np.zeros(kept), np.zeros(kept),
    )  # fmt: skip
    across = np.zeros((d, kept))
    for j in range(kept):
        for r in range(d):
            across[r, j] = ground.A[j, r]
    _begin(ground, spread, work)
    for sweep in range(sweeps):
        _matrix(spread, work.M)
        found = np.linalg.inv(work.M)
        for r in range(d):  # of a slice numba compiles for seconds how it fails
            for s in range(d):
                work.M[r, s] = found[r, s]
        for j in range(n):
            _raise_base(ground, spread, work, j, mu)
        for j in range(kept):
            _times(work.M, ground.A[j], work.rows[j])
        for i in range(p):
            _raise_one(ground, spread, work, across, i, mu, sweep % WHOLE == 0)


@njit(cache=True, error_model="numpy")
def _moves(spread: Spread) -> float:
    """How many moves are not 0."""
    count = 0.0
    for i in range(spread.delta.shape[0]):
        for j in range(spread.delta.shape[1]):
            if spread.delta[i, j] != 0.0:
                count += 1.0
    return count


@njit(cache=True, error_model="numpy")
def _begin(ground: Ground, spread: Spread, work: _Work) -> None:
    (n, d), p = ground.A.shape, len(ground.share)
    for j in range(n):
        for r in range(d):
            work.v[r] += spread.a[j] * ground.A[j, r]
    for i in range(p):
        for j in range(n):
            work.up[j] -= max(spread.delta[i, j], 0.0)
            work.down[j] -= max(-spread.delta[i, j], 0.0)
        for r in range(d):
            work.v[r] += ground.share[i] * spread.e[i, r]


@njit(cache=True, error_model="numpy")
def _matrix(spread: Spread, M: Vector) -> None:
    """I − Σ e_i e_i' / d_i."""
    d = len(M)
    for r in range(d):
        for s in range(d):
            M[r, s] = 1.0 if r == s else 0.0
    for i in range(len(spread.length)):
        for r in range(d):
            for s in range(d):
                M[r, s] -= spread.e[i, r] * spread.e[i, s] / spread.length[i]


@njit(cache=True, error_model="numpy")
def _raise_base(ground: Ground, spread: Spread, work: _Work, j: int, mu: float) -> None:
    d = len(work.v)
    for _ in range(_STEPS):
        slope = 1.0
        for r in range(d):
            slope -= 0.5 * ground.A[j, r] * work.v[r]
        up, down = mu / work.up[j], mu / work.down[j]
        curve = 0.5 * ground.q[j] + up / work.up[j] + down / work.down[j]
        step = (slope + down - up) / curve
        step = min(max(step, -_MAX_ROOM_SHARE * work.down[j]), _MAX_ROOM_SHARE * work.up[j])
        spread.a[j] += step
        work.down[j] += step
        work.up[j] -= step
        for r in range(d):
            work.v[r] += step * ground.A[j, r]


@njit(cache=True, error_model="numpy")
def _raise_one(
    ground: Ground, spread: Spread, work: _Work, across: Vector, i: int, mu: float, whole: bool
) -> None:
    """Raise what i has of the multipliers, and give it the best length.

    H is M less what i is in it, M − part (M e)(M e)'. M follows what i becomes, in rank two, and so do its
    products with the rows, if they are kept: then H A_j takes as many steps as there are coordinates, and not
    their square.
    """
    M, Me, He, share, d = work.M, work.Me, work.He, ground.share[i], len(work.v)
    factor = 0.25 * share * (1.0 - share)
    _times(M, spread.e[i], Me)
    square = _dot(Me, spread.e[i])
    part = 1.0 / (spread.length[i] + square)
    for r in range(d):
        He[r] = (1.0 - part * square) * Me[r]
    rho = max((1.0 - part * square) * square, _MIN_RHO)
    pull = mu / (_length(rho, mu, factor) - rho)
    _along(across, Me, work.of_M)
    _raise_own(ground, spread, work, i, pull, part)
    _raise_moves(ground, spread, work, i, pull, part, mu, whole)
    square = _dot(He, spread.e[i])
    spread.length[i] = _length(max(square, _MIN_RHO), mu, factor)
    back = 1.0 / (spread.length[i] - square)
    for r in range(d):
        less, more = part * Me[r], back * He[r]
        for s in range(d):
            M[r, s] += more * He[s] - less * Me[s]
    _along(across, He, work.of_H)
    for j in range(len(work.rows)):
        less, more = part * work.of_M[j], back * work.of_H[j]
        for s in range(d):
            work.rows[j, s] += more * He[s] - less * Me[s]


@njit(cache=True, error_model="numpy")
def _along(across: Vector, x: Vector, products: Vector) -> None:
    """The products of x with the rows, of which `across` is the transpose: many numbers at once."""
    products[:] = 0.0
    for r in range(len(x)):
        for j in range(len(products)):
            products[j] += x[r] * across[r, j]


@njit(cache=True, error_model="numpy")
def _times(M: Vector, x: Vector, product: Vector) -> None:
    """M x of a symmetric M, row by row: sums along a row in this order are of many numbers at once."""
    product[:] = 0.0
    for r in range(len(x)):
        for s in range(len(x)):
            product[s] += x[r] * M[r, s]


@njit(cache=True, error_model="numpy")
def _dot(x: Vector, y: Vector) -> float:
    total = 0.0
    for r in range(len(x)):
        total += x[r] * y[r]
    return total


@njit(cache=True, error_model="numpy")
def _length(rho: float, mu: float, factor: float) -> float:
    """The root of d (d − ρ) = μ ρ / c, or what leaves the matrix some room where rounding leaves none."""
    root = 0.5 * (rho + np.sqrt(rho * rho + 4.0 * mu * rho / factor))
    return float(max(root, (1.0 + _LENGTH_MARGIN) * rho))


@njit(cache=True, error_model="numpy")
def _raise_own(ground: Ground, spread: Spread, work: _Work, i: int, pull: float, part: float) -> None:
    share, x = ground.share[i], ground.P[i]
    _times(work.M, x, work.Hx)
    taken = part * _dot(work.Me, x)
    for r in range(len(x)):
        work.Hx[r] -= taken * work.Me[r]
    slope = share * (1.0 - 0.5 * _dot(x, work.v)) - 2.0 * pull * _dot(x, work.He)
    curve = 0.5 * share * share * _dot(x, x) + 2.0 * pull * _dot(x, work.Hx)
    new = min(max(spread.own[i] + slope / curve, 0.0), ground.B[i])
    step, spread.own[i] = new - spread.own[i], new
    for r in range(len(x)):
        spread.e[i, r] += step * x[r]
        work.v[r] += step * share * x[r]
        work.He[r] += step * work.Hx[r]


@njit(cache=True, error_model="numpy")
def _raise_moves(
    ground: Ground, spread: Spread, work: _Work, i: int, pull: float, part: float, mu: float, whole: bool
) -> None:
    """Raise the moves of i, all of them or those that are not 0: most of the time is spent here.

    So the loops are written out: a call for each pair costs more than what it computes.
    """
    A, q, share, delta, e = ground.A, ground.q, ground.share[i], spread.delta, spread.e
    v, rows, Me, He, Hx, up, down = work.v, work.rows, work.Me, work.He, work.Hx, work.up, work.down
    M, d, kept = work.M, len(v), len(rows) > 0
    for j in range(len(A)):
        old = delta[i, j]
        if old == 0.0 and not whole:
            continue
        along, bent = 0.0, 0.0
        for r in range(d):
            along += A[j, r] * v[r]
            bent += A[j, r] * He[r]
        slope = share * (1.0 - 0.5 * along) - 2.0 * pull * bent
        if old == 0.0 and slope * up[j] <= mu and -slope * down[j] <= mu:
            continue  # it stays there, whatever the curve
        for s in range(d):
            Hx[s] = rows[j, s] if kept else 0.0
        if not kept:
            for r in range(d):
                for s in range(d):
                    Hx[s] += A[j, r] * M[r, s]
        taken, square = 0.0, 0.0
        for r in range(d):
            taken += part * A[j, r] * Me[r]
        for r in range(d):
            Hx[r] -= taken * Me[r]
            square += A[j, r] * Hx[r]
        curve = 0.5 * share * share * q[j] + 2.0 * pull * square
        above, below = up[j] + max(old, 0.0), down[j] + max(-old, 0.0)
        at_zero, new = slope + curve * old, 0.0
        if at_zero * above > mu:
            new = _into(at_zero, curve, above, mu)
        elif -at_zero * below > mu:
            new = -_into(-at_zero, curve, below, mu)
        if new != old:
            step = new - old
            delta[i, j] = new
            up[j], down[j] = above - max(new, 0.0), below - max(-new, 0.0)
            for r in range(d):
                e[i, r] += step * A[j, r]
                v[r] += step * share * A[j, r]
                He[r] += step * Hx[r]


@njit(cache=True, error_model="numpy")
def _into(slope: float, curve: float, room: float, mu: float) -> float:
    """Where slope·t − ½ curve t² + μ log(room − t) is largest, which is above 0."""
    middle, excess = slope + curve * room, slope * room - mu
    root = np.sqrt(max(middle * middle - 4.0 * curve * excess, 0.0))
    return float(2.0 * excess / (middle + root))


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


@njit(cache=True)
def best_shares(fixed: Fixed, share: Vector, passes: int, little: float) -> None:
    """Move shares (F, p), in place, to where γ is least: all of a face that stands for several, together.

    Passes end after so many, or with one in which γ falls by no more than `little`.
    """
    n_faces, p, d = fixed.e.shape
    pulled, curve = np.zeros((n_faces, d)), np.zeros((n_faces, p))
    for k in range(n_faces):
        for i in range(p):
            square = 0.0
            for r in range(d):
                pulled[k, r] += share[k, i] * fixed.e[k, i, r]
                square += fixed.e[k, i, r] * fixed.e[k, i, r]
            bent = max(fixed.length[k, i] - square, 0.0) + _RIDGE * fixed.length[k, i]
            curve[k, i] = 0.5 * bent / fixed.times[k]
    for _ in range(passes):
        fallen = 0.0
        for i in range(p):
            for _ in range(n_faces - 1):
                gained = _move(fixed, share, pulled, curve, i)
                fallen += gained
                if gained == 0.0:
                    break
        if fallen <= little:
            break


@njit(cache=True)
def _move(fixed: Fixed, share: Vector, pulled: Vector, curve: Vector, i: int) -> float:
    """Move weight of i from its face of the largest slope to that of the least; by how much γ falls."""
    n_faces, _, d = fixed.e.shape
    low, high, least, largest = -1, -1, np.inf, -np.inf
    for k in range(n_faces):
        if fixed.allowed[k, i]:
            along = fixed.length[k, i] * share[k, i]
            for r in range(d):
                along -= fixed.e[k, i, r] * pulled[k, r]
            slope = fixed.slope[k, i] + 0.5 * along / fixed.times[k]
            if slope < least:
                low, least = k, slope
            if share[k, i] > 0.0 and slope > largest:
                high, largest = k, slope
    if low < 0 or high < 0 or low == high:
        return 0.0
    bent = curve[low, i] + curve[high, i]
    step = share[high, i]
    if largest - least < step * bent:
        step = (largest - least) / bent
    share[high, i] -= step
    share[low, i] += step
    for r in range(d):
        pulled[high, r] -= step * fixed.e[high, i, r]
        pulled[low, r] += step * fixed.e[low, i, r]
    return step * (largest - least) - 0.5 * step * step * bent
