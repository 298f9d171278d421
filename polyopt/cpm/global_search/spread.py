"""A bound on the Convex Polytope Machine in any dimension, from the spread of its faces; a tree with it.

Positives of U are not assigned yet. On each face k let the multipliers depend on who is assigned to it, as
below: a_k, moves δ_ik with vectors e_ik and sums s_ik, lengths d_ik, shares θ_ik of those that may be there,
and v_k = Σ_j a_kj y_j x̃_j + Σ_i θ_ik e_ik.

Theorem. If on each face the moves keep within the boxes all together, and Σ_i e_ik e_ik' / d_ik ⪯ I, then
every completion of the assignment costs at least

    Σ_k ( Σ_j a_kj − ¼ ‖v_k‖² ) + Σ_k Σ_i ( ½ θ_ik v_k·e_ik − ¼ θ_ik² d_ik )
        + Σ_{i∈U} min_k ( s_ik − ½ v_k·e_ik − ¼ (1 − 2 θ_ik) d_ik ),

the minimum over the faces that i may go to.

Proof. Let z_ik say whether the completion has i on face k, and τ = z − θ. On face k the multipliers
a_k + Σ_i z_ik δ_ik are feasible, and prove Σ_j a_kj + Σ_i z_ik s_ik − ¼ ‖v_k + Σ_i τ_ik e_ik‖². For any x,
by Cauchy and Schwarz, x·Σ_i τ_i e_i ≤ (Σ_i d_i τ_i²)^½ (Σ_i (x·e_i)² / d_i)^½ ≤ (Σ_i d_i τ_i²)^½ ‖x‖, so
that ‖Σ_i τ_i e_i‖² ≤ Σ_i d_i τ_i². So the square is at most ‖v_k‖² + Σ_i (2 τ_ik v_k·e_ik + τ_ik² d_ik),
and τ_ik is 1 − θ_ik or −θ_ik: add up over the faces, and take for each i the least. ∎

If no positive is assigned, all faces are alike, with shares 1/K, and the bound is that of one face. It is
that of a convex program: positive i has a face w̄ + t_i of its own, all t_i t_i' ⪯ S, for faces of mean w̄ and
spread S = (1 − 1/K) Σ_k t_k t_k' cost ‖W‖² = K ‖w̄‖² + tr S / (1 − 1/K). The bound by trial moves
(:mod:`polyopt.cpm.global_search.assignment_tree`) charges each pair of samples instead; in ten dimensions
that is several times as much.

The best shares for given multipliers are those of a convex program, and for given shares a kernel raises the
multipliers. Their mean bound is convex in the shares, and concave in the multipliers: going all the way to
the best of each in turn oscillates. So the multipliers are raised at shares that follow the best ones by a
fifth of the way, and the bound is proven with the best shares. The tree branches on the sample whose shares
cost most, and forbids a face to a sample if that raises the bound to the incumbent.

**One face.** Some samples are on the face for certain (the negatives, and the positives assigned to it:
rows j of A, y_j x̃_j), others may be (positives i that are not assigned, rows of P). Let the multipliers
depend on the latter: a_j, plus δ_ij for each i on the face, which itself has β_i. With e_i = β_i P_i +
Σ_j δ_ij A_j and s_i = β_i + Σ_j δ_ij, a set S of them on the face costs at least, by weak duality,

    Σ_j a_j + Σ_{i∈S} s_i − ¼ ‖Σ_j a_j A_j + Σ_{i∈S} e_i‖²

provided the combined changes respect the boxes, a_j + Σ_i [δ_ij]_+ ≤ C_j and a_j ≥ Σ_i [−δ_ij]_+. The
square has products of any two of S. For lengths d > 0 with Σ_i e_i e_i' / d_i ⪯ I, and any t, ‖Σ t_i e_i‖² ≤
Σ d_i t_i² (diag(d) − E E' and I − Σ e_i e_i' / d_i are positive together). So with shares θ_i and
v = Σ_j a_j A_j + Σ_i θ_i e_i the square is at most

    ‖v‖² + Σ_i [ 2 τ_i v·e_i + τ_i² d_i ],   τ_i = 1 − θ_i for i in S, −θ_i for the others,

which is a sum over samples.

For given shares a kernel maximises the mean of that bound, if i is on the face with probability θ_i,

    Φ = Σ_j a_j + Σ_i θ_i s_i − ¼ ‖v‖² − ¼ Σ_i θ_i (1 − θ_i) d_i,

a concave function, by coordinates, with a barrier for the distances to the boxes' ends and for the matrix,
μ Σ log(distance) + μ log det(I − Σ e_i e_i'/d_i). For one i, with H the inverse of that matrix without i and
ρ = e'He, the best length is a root of d (d − ρ) = μ ρ / c, c = ¼ θ (1 − θ); the loss is concave in ρ, so it
is majorised by a linear function, and a coordinate of e_i has a parabola. Most δ stay 0: only every fourth
sweep visits all of them. The bound is valid for any multipliers in their boxes; convergence affects its
tightness alone.

**Rounding.** The vectors e, v and the matrix Σ e e' / d have running error bounds; the first two raise the
squares by 2 H L + H², with H the sum of all errors of a face and L of all lengths. The matrix is shown to be
small enough by a Cholesky factor (Rump, Verification of positive definiteness, 2006).

**The shares.** On each face k let the multipliers be fixed: p_k = Σ_j a_kj A_j, sums s_ik, vectors e_ik and
lengths d_ik. With E_k the matrix of columns e_ik, D_k that of the lengths on its diagonal, M_k = D_k − E_k'
E_k and c_ik = s_ik − ½ e_ik·p_k − ¼ d_ik, the bound of all faces is, up to a
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

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.global_search.face import (
    ENTRIES_PER_CALL,
    Best,
    Samples,
    alternate,
    polished_face,
    proven_sum,
    total_cost,
)
from polyopt.linalg.rounding import ABOVE, UNIT, gamma
from polyopt.native.library import kernel
from polyopt.optim.best_first import BestFirst, OpenNode

if TYPE_CHECKING:
    Allowed = NDArray[np.bool_]


@dataclass(frozen=True)
class Options:
    """Numbers of the bound and of its tree.

    root_barriers, root_sweeps, node_barriers, node_sweeps: barriers μ of the root and of other nodes, times
        the unit, and sweeps for each; those of a node were chosen on 195 samples of german and of parkinsons.
    share_step: part of the way to the best shares, chosen on the same samples.
    min_share: share of an allowed face while multipliers are raised; chosen on 150 samples of magic.
    full_sweep_every: sweeps of which one visits every move.
    share_passes, share_ridge: passes for the best shares, and the relative addition to their curvature.
    rows_per_move: products of M with the n rows are cached if nonzero moves would cost more than so many rows
        (break-even measured on 195 samples of german).
    round_every: nodes per rounding of the shares to an incumbent.
    max_state_bytes: memory for multipliers of open nodes; beyond it nodes start from those of the root.
    """

    root_barriers: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 0.003)
    root_sweeps: int = 60
    node_barriers: tuple[float, ...] = (0.01, 0.01, 0.01, 0.003)
    node_sweeps: int = 12
    share_step: float = 0.2
    min_share: float = 1e-3
    full_sweep_every: int = 4
    share_passes: int = 30
    share_ridge: float = 1e-3
    rows_per_move: int = 4
    round_every: int = 5
    max_state_bytes: int = 1 << 28


DEFAULT = Options()


class FaceSamples(NamedTuple):
    """The samples of one face.

    A (n, d), q (n,), C (n,): those on the face for certain, their squared lengths and costs.
    P (p, d), B (p,), share (p,): those that may be on it, their costs, and shares over 0 and below 1.
    """

    A: Vector
    q: Vector
    C: Vector
    P: Vector
    B: Vector
    share: Vector


class Multipliers(NamedTuple):
    """The multipliers a (n,), δ (p, n), β (p,) of a face; e (p, d) and d (p,)."""

    a: Vector
    delta: Vector
    own: Vector
    e: Vector
    length: Vector


# Raise Φ with the barrier, in place, by the steps from `first` to before `last`: a sweep has p + 1 steps, the
# base multipliers and then each positive. The first sweep visits every move, others the nonzero ones. M (d,
# d) is the inverse of I − Σ e e'/d, and is updated; `keeps`: cache its products with the rows of A. Returns
# -1 without memory.
_raise_spread = kernel(
    "cpm_raise_spread",
    "A: f8 (n, d); q: f8 (n); C: f8 (n); P: f8 (p, d); B: f8 (p); share: f8 (p); a!: f8 (n); "
    "delta!: f8 (p, n); own!: f8 (p); e!: f8 (p, d); length!: f8 (p); M!: f8 (d, d); keeps: i8; mu: f8; "
    "first: i8; last: i8",
    returns="i8",
)

# Minimise γ over shares (F, p); pulled (F, d) are their sums of share e_i, curve (F, p) the curvature of γ.
_best_shares = kernel(
    "cpm_best_shares",
    "slope: f8 (F, p); e: f8 (F, p, d); length: f8 (F, p); times: f8 (F); allowed: b1 (F, p); "
    "share!: f8 (F, p); pulled!: f8 (F, d); curve: f8 (F, p); passes: i8; little: f8",
)


def raise_spread(
    samples: FaceSamples, spread: Multipliers, mu: float, sweeps: int, options: Options = DEFAULT
) -> None:
    """Raise Φ with the barrier μ, in place, from the interior; the first sweep visits every move."""
    (n, d), p = samples.A.shape, len(samples.share)
    keeps = np.count_nonzero(spread.delta) * d > options.rows_per_move * n * p
    M = np.linalg.inv(np.eye(d) - (spread.e / spread.length[:, None]).T @ spread.e)
    piece, steps = max(ENTRIES_PER_CALL // (2 * (n * d + d * d)), 1), (p + 1) * sweeps
    for first in range(0, steps, piece):
        if _raise_spread(*samples, *spread, M, int(keeps), mu, first, min(first + piece, steps)) < 0:
            raise MemoryError


class Proven(NamedTuple):
    """The bound of one face: a constant, and terms (p,) for each sample, on the face or off it.

    error: bound on the rounding error of the whole.
    """

    constant: float
    on: Vector
    off: Vector
    error: float


def feasible(samples: FaceSamples, spread: Multipliers) -> Multipliers:
    """Clip multipliers to their boxes, and raise lengths until Σ e e' / d ⪯ I is certain.

    The given multipliers may be any numbers, the lengths any positive ones; e and the shares are not read.
    """
    a, delta, own = np.clip(spread.a, 0.0, samples.C), spread.delta, np.clip(spread.own, 0.0, samples.B)
    for limit, part in ((samples.C - a, np.maximum(delta, 0.0)), (a, np.maximum(-delta, 0.0))):
        total = part.sum(axis=0)
        over = total * ABOVE > limit * (1.0 - 4.0 * UNIT)
        if over.any():
            shrunk = np.where(over, limit / np.maximum(total, 1e-300) * (1.0 - 1e-8), 1.0)
            delta = delta * np.where(part > 0.0, shrunk, 1.0)
    e = own[:, None] * samples.P + delta @ samples.A
    return Multipliers(a, delta, own, e, np.maximum(spread.length, 1e-300) * _length_factor(e, spread.length))


def proven_by(samples: FaceSamples, kept: Multipliers) -> Proven:
    """The bound of one face by multipliers from :func:`feasible`, for any shares, 0 and 1 included."""
    (n, d), p, share = samples.A.shape, len(kept.own), samples.share
    a, delta, own, e, length = kept
    sizes, squares = np.linalg.norm(e, axis=1), np.sqrt(samples.q)
    reach = np.abs(own) * np.linalg.norm(samples.P, axis=1) + np.abs(delta) @ squares
    first = a @ samples.A
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
    samples: FaceSamples, spread: Multipliers, mu: float, sweeps: int,
    is_over: Callable[[], bool] = lambda: False, options: Options = DEFAULT,
) -> Multipliers:  # fmt: skip
    """A copy of the multipliers, raised by :func:`raise_spread` until time is up or numbers are out of range.

    With more features than samples it works in coordinates of the space that the samples span: only products
    of samples count, and a step costs the square of the number of coordinates.
    """
    if samples.A.shape[1] > len(samples.A) + len(samples.P):
        basis = np.linalg.qr(np.vstack([samples.A, samples.P]).T)[0]
        here = samples._replace(A=samples.A @ basis, P=samples.P @ basis)
        higher = raised(here, spread._replace(e=spread.e @ basis), mu, sweeps, is_over, options)
        return higher._replace(e=higher.own[:, None] * samples.P + higher.delta @ samples.A)
    for made in range(0, sweeps, options.full_sweep_every):
        if is_over():
            return spread
        higher = Multipliers(*(part.copy() for part in spread))
        try:
            raise_spread(samples, higher, mu, min(options.full_sweep_every, sweeps - made), options)
        except np.linalg.LinAlgError:
            return spread
        if not all(np.isfinite(part).all() for part in higher):
            return spread
        spread = higher
    return spread


def interior(samples: FaceSamples, spread: Multipliers, side: Vector) -> Multipliers:
    """Move multipliers to a distance `side` (n,) from both ends of every box; raise lengths likewise."""
    a = np.clip(spread.a, side, samples.C - side)
    up, down = np.maximum(spread.delta, 0.0).sum(axis=0), np.maximum(-spread.delta, 0.0).sum(axis=0)
    room = np.minimum(
        (samples.C - a - 0.5 * side) / np.maximum(up, 1e-300), (a - 0.5 * side) / np.maximum(down, 1e-300)
    )
    delta = np.ascontiguousarray(spread.delta * np.minimum(room, 1.0))
    e = spread.own[:, None] * samples.P + delta @ samples.A
    length = np.maximum(spread.length, 1e-300)
    if len(length):
        length = length * max(1.0, 1.01 * float(np.linalg.eigvalsh(_gram(e, length))[-1]))
    return Multipliers(a, delta, spread.own.copy(), e, length)


def _gram(e: Vector, length: Vector) -> Vector:
    """Σ e e' / d, or the smaller matrix of products e_i·e_j / √(d_i d_j), with the same eigenvalues."""
    if len(e) >= e.shape[1]:
        return np.asarray((e / length[:, None]).T @ e)
    scaled = e / np.sqrt(length)[:, None]
    return np.asarray(scaled @ scaled.T)


def _length_factor(e: Vector, length: Vector) -> float:
    """A factor of the lengths d with which Σ e e' / d ⪯ I is certain."""
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


class FixedMultipliers(NamedTuple):
    """Fixed multipliers of F faces, the last of which may stand for several that are alike.

    slope (F, p): c.
    e (F, p, d), length (F, p): as in :class:`Multipliers`.
    times (F,): number of faces that each stands for.
    allowed (F, p): the samples that may be on it.
    """

    slope: Vector
    e: Vector
    length: Vector
    times: Vector
    allowed: NDArray[np.bool_]


def best_shares(
    fixed: FixedMultipliers, share: Vector, passes: int, little: float, ridge: float = DEFAULT.share_ridge
) -> None:
    """Minimise γ over shares (F, p), in place, until a pass lowers it by no more than `little`.

    A face that stands for several has the sum of their shares.
    """
    pulled = np.einsum("kp,kpd->kd", share, fixed.e)
    bent = np.maximum(fixed.length - np.square(fixed.e).sum(axis=2), 0.0) + ridge * fixed.length
    curve = 0.5 * bent / fixed.times[:, None]
    _best_shares(*fixed, share, pulled, curve, passes, little)


class _Packed(NamedTuple):
    """A face's multipliers over all samples: places and values of the nonzero moves, and the rest."""

    spread: Multipliers
    places: NDArray[np.int32]
    moves: Vector

    @property
    def size(self) -> int:
        return sum(part.nbytes for part in (*self.spread, self.places, self.moves))

    def unpacked(self, n: int) -> Multipliers:
        """The multipliers with all moves, for n samples."""
        delta = np.zeros((len(self.spread.own), n))
        delta.ravel()[self.places] = self.moves
        return self.spread._replace(delta=delta)


def _packed(spread: Multipliers) -> _Packed:
    """Pack the multipliers of a face."""
    places = np.flatnonzero(spread.delta).astype(np.int32)
    return _Packed(spread._replace(delta=np.zeros((0, 0))), places, spread.delta.ravel()[places])


class State(NamedTuple):
    """Multipliers of a node's faces, shares (npos, K), and assigned faces (npos,)."""

    faces: list[_Packed]
    share: Vector
    face: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Bytes; equal faces count once."""
        return self.share.nbytes + sum({id(face): face.size for face in self.faces}.values())


class _Face(NamedTuple):
    """A raised face: its samples, the positives that may be on it, and feasible multipliers."""

    samples: FaceSamples
    moving: NDArray[np.int64]
    kept: Multipliers


class SpreadNode:
    """A node: its multipliers and shares, started from its parent's, and their bound.

    The unit of barriers is the incumbent's cost over the number of barriers of all faces.

    face (npos,): the face of each positive, -1 if it is undecided.
    undecided: the positives without a face.
    used, offered: the number of faces with positives, and of different faces: the others are all alike.
    bound: the bound of the node.
    extra (undecided, K): its increase if a positive is on a face.
    loss (undecided,): decrease of the bound because the face of a positive is undecided.
    """

    def __init__(
        self, data: Samples, allowed: Allowed, parent: State, unit: float, *, is_root: bool,
        options: Options = DEFAULT,
    ):  # fmt: skip
        self.data, self.allowed, self.unit, self.is_root = data, allowed, unit, is_root
        self.options = options
        K, counts = allowed.shape[1], allowed.sum(axis=1)
        self.n_faces = K
        self.face = np.where(counts == 1, allowed.argmax(axis=1), -1)
        self.used = int(self.face.max(initial=-1)) + 1
        self.offered = min(K, self.used + 1)
        self.times = np.ones(self.offered)
        if self.used < K:
            self.times[-1] = K - self.used
        self.undecided = np.flatnonzero(self.face < 0)
        self.share = self._normalised(parent.share)
        came = np.flatnonzero((parent.face < 0) & (self.face >= 0))
        self.faces = [self._with(parent.faces[k], came[self.face[came] == k]) for k in range(self.offered)]
        self.bound, self.extra, self.loss = -np.inf, np.zeros((0, K)), np.zeros(0)

    @property
    def state(self) -> State:
        """The state that children start from."""
        faces = [_packed(face) for face in self.faces]
        faces += faces[-1:] * (self.n_faces - self.offered)
        return State(faces, self.share, self.face)

    def _normalised(self, share: Vector) -> Vector:
        share = np.where(self.allowed, np.maximum(share, self.options.min_share), 0.0)
        if self.used < share.shape[1]:  # unused faces are alike
            share[:, self.used :] = share[:, self.used :].mean(axis=1, keepdims=True)
        total = share.sum(axis=1, keepdims=True)
        return np.asarray(share / np.where(total > 0.0, total, 1.0))

    def _with(self, parent: _Packed, came: NDArray[np.int64]) -> Multipliers:
        """The multipliers of a face after the moves of the positives that are newly assigned to it."""
        spread = parent.unpacked(len(self.data.C))
        a, inside = spread.a.copy(), self.data.inside
        a += spread.delta[came].sum(axis=0)
        a[inside + came] += spread.own[came]
        return spread._replace(a=a)

    def raise_all(self, enough: float, is_over: Callable[[], bool]) -> None:
        """Raise the multipliers and move the shares until the bound is enough or the barriers are used up."""
        options = self.options
        barriers, sweeps = options.node_barriers, options.node_sweeps
        if self.is_root:
            barriers, sweeps = options.root_barriers, options.root_sweeps
        for barrier in barriers:
            faces = [self._raised(k, barrier * self.unit, sweeps, is_over) for k in range(self.offered)]
            best = self._best_shares(faces)
            self._prove(faces, best)
            self.share = self._normalised(self.share + options.share_step * (best - self.share))
            if self.bound >= enough or is_over():
                break

    def _raised(self, k: int, mu: float, sweeps: int, is_over: Callable[[], bool]) -> _Face:
        """Raise face k at its shares."""
        data, spread = self.data, self.faces[k]
        moving = np.flatnonzero((self.face < 0) & self.allowed[:, k])
        rows = np.r_[np.arange(data.inside), data.inside + np.flatnonzero(self.face == k)]
        samples = FaceSamples(
            data.A[rows], data.q[rows], data.C[rows], data.A[data.inside + moving],
            data.C[data.inside + moving], self.share[moving, k].copy(),
        )  # fmt: skip
        given = Multipliers(
            spread.a[rows], spread.delta[np.ix_(moving, rows)], spread.own[moving], spread.e[moving],
            spread.length[moving],
        )  # fmt: skip
        start = interior(samples, given, 1e-6 * samples.C)
        kept = feasible(samples, raised(samples, start, mu, sweeps, is_over, self.options))
        n, npos = len(data.C), len(self.face)
        a, delta, own = np.zeros(n), np.zeros((npos, n)), np.zeros(npos)
        e, length = np.zeros_like(data.A[data.inside :]), np.ones(npos)
        a[rows], own[moving], e[moving], length[moving] = kept.a, kept.own, kept.e, kept.length
        delta[np.ix_(moving, rows)] = kept.delta
        self.faces[k] = Multipliers(a, delta, own, e, length)
        return _Face(samples, moving, kept)

    def _best_shares(self, faces: list[_Face]) -> Vector:
        """The shares (npos, K) with the best bound for the multipliers."""
        some, best = self.undecided, self.share.copy()
        if not len(some) or self.offered == 1:  # alike faces have equal shares
            return best
        e = np.array([face.e[some] for face in self.faces])
        length = np.array([face.length[some] for face in self.faces])
        sums = np.array([face.own[some] + face.delta[some].sum(axis=1) for face in self.faces])
        first = np.array([face.kept.a @ face.samples.A for face in faces])
        slope = sums - 0.5 * np.einsum("kid,kd->ki", e, first) - 0.25 * length
        allowed = np.ascontiguousarray(self.allowed[some, : self.offered].T)
        share = np.ascontiguousarray(best[some, : self.offered].T) * self.times[:, None]
        fixed, options = FixedMultipliers(slope, e, length, self.times, allowed), self.options
        best_shares(fixed, share, options.share_passes, 0.1 * self.unit, options.share_ridge)
        alike = np.minimum(np.arange(self.n_faces), self.offered - 1)
        best[some] = (share / self.times[:, None])[alike].T
        return best

    def _prove(self, faces: list[_Face], share: Vector) -> None:
        """Add up the bounds of the faces, at these shares."""
        npos, K = share.shape
        constant, error = 0.0, 0.0
        on = np.full((npos, K), np.inf)
        off, lengths = np.zeros((npos, K)), np.zeros((npos, K))
        for k, (samples, moving, kept) in enumerate(faces):
            times = int(self.times[k])  # unused faces are alike
            proven = proven_by(samples._replace(share=share[moving, k]), kept)
            constant += times * proven.constant
            error += times * proven.error
            alike = np.s_[k : k + times]
            on[moving, alike] = proven.on[:, None]
            off[moving, alike] = proven.off[:, None]
            lengths[moving, alike] = kept.length[:, None]
        some = self.undecided
        least = on[some].min(axis=1)
        total = constant + least.sum() + off[some].sum()
        size = abs(constant) + np.abs(least).sum() + np.abs(off[some]).sum()
        bound = float(total - error - 2.0 * gamma(npos * (K + 1) + 2 * K + 8) * size)
        if bound > self.bound:
            self.bound, self.extra = bound, on[some] - least[:, None]
        self.loss = (self.share * (1.0 - self.share) * lengths)[some].sum(axis=1)


class Open(NamedTuple):
    """An open node: allowed faces (npos, K), and the state of its parent."""

    allowed: Allowed
    parent: State


class SpreadSearch(BestFirst[Open]):
    """The tree; `jobs` nodes are explored in parallel threads."""

    def __init__(
        self, data: Samples, best: Best, tol: float, clock: Clock, jobs: int = 1, options: Options = DEFAULT
    ):
        super().__init__(tol)
        self.data, self.best, self.clock, self.jobs, self.numbers = data, best, clock, jobs, options
        (n, d), K, npos = data.A.shape, len(best.W), data.npos
        size = best.cost / (2 * n * K)
        a = np.minimum(0.5 * data.C, size)
        a[data.inside :] = 0.0
        own = np.minimum(0.01 * data.C[data.inside :], size)
        lengths = own**2 * data.q[data.inside :] * 2 * max(npos, 1)
        first = _packed(Multipliers(a, np.zeros((npos, n)), own, np.zeros((npos, d)), lengths))
        self.root = State([first] * K, np.full((npos, K), 1.0 / K), np.full(npos, -1))
        self.state_bytes = 0  # of all open nodes
        self.push([(0.0, Open(np.ones((npos, K), dtype=bool), self.root))])

    @property
    def objective(self) -> float:
        """Cost of the incumbent."""
        return self.best.cost

    @property
    def closes(self) -> bool:
        """True if the bound is within the tolerance of the incumbent."""
        return self.bound >= self.cutoff

    @property
    def unit(self) -> float:
        """The incumbent's cost over the number of barriers of all faces."""
        n, d = self.data.A.shape
        return self.best.cost / (len(self.best.W) * (2 * n + d))

    def push(self, children: Iterable[tuple[float, Open]], depth: int = 0) -> None:
        """Make nodes open, and count their memory."""
        made, cutoff = list(children), self.cutoff
        self.state_bytes += sum(state.parent.size for bound, state in made if bound < cutoff)
        super().push(made, depth)

    def take(self) -> OpenNode[Open]:
        """Remove and return the next node."""
        node = super().take()
        self.state_bytes -= node.state.parent.size
        return node

    def step(self) -> None:
        """Explore the next nodes, as many as there are jobs."""
        if self.jobs == 1:
            super().step()
            return
        nodes = [self.take() for _ in range(min(self.jobs, len(self.heap)))]
        below = [node for node in nodes if node.bound < self.cutoff]
        self.close(min((node.bound for node in nodes if node.bound >= self.cutoff), default=np.inf))
        with ThreadPoolExecutor(self.jobs) as pool:  # not joblib's, which is polled every 10 ms
            found = list(pool.map(self._raised, below))
        for node, made in zip(below, found, strict=True):
            self.nodes += 1
            self.push(self._children(node, made), 1 - node.minus_depth)
        self._exploring = np.inf

    def expand(self, node: OpenNode[Open]) -> list[tuple[float, Open]]:
        """Bound a node and branch."""
        return self._children(node, self._raised(node))

    def _raised(self, node: OpenNode[Open]) -> SpreadNode:
        """A node with its multipliers raised."""
        made = SpreadNode(
            self.data, *node.state, self.unit, is_root=node.minus_depth == 0, options=self.numbers
        )
        made.raise_all(self.cutoff, lambda: self.clock.is_over)
        return made

    def _children(self, node: OpenNode[Open], made: SpreadNode) -> list[tuple[float, Open]]:
        """Forbid faces by the bound, and branch on the positive whose shares cost most."""
        best, undecided, cutoff = self.best, made.undecided, self.cutoff
        if self.nodes % self.numbers.round_every == 1:  # the faces with the largest shares
            W, face = np.zeros_like(best.W), made.share.argmax(axis=1)
            best.offer(alternate(self.data, face, W, 1e-4 * self.tol * best.cost, self.clock), W)
            cutoff = self.cutoff
        bound = max(node.bound, made.bound)
        if bound >= cutoff or not len(undecided):
            self.close(bound if bound >= cutoff else max(bound, self._solved(made.face)))
            return []
        there = np.maximum(bound, made.bound + made.extra)  # with positive i on face k
        allowed = node.state.allowed.copy()
        shut = allowed[undecided] & (there >= cutoff)
        if shut.any():
            self.close(float(there[shut].min()))
            allowed[undecided] &= ~shut
        state = made.state if self.state_bytes < self.numbers.max_state_bytes else self.root
        at, children = int(made.loss.argmax()), []
        for k in np.flatnonzero(allowed[undecided[at]][: made.offered]):
            mask = allowed.copy()
            mask[undecided[at]] = np.arange(len(best.W)) == k
            children.append((float(there[at, k]), Open(mask, state)))
        return children

    def _solved(self, face: NDArray[np.int64]) -> float:
        """Solve the faces of a complete assignment; return their bound."""
        K = len(self.best.W)
        small = 0.1 * self.tol * self.best.cost / K
        faces = [polished_face(self.data, face, k, small, self.clock) for k in range(K)]
        W = np.array([w for _, w in faces])
        self.best.offer(total_cost(self.data, W, np.zeros_like(face)), W)
        value, error = proven_sum(self.data, np.array([a for a, _ in faces]))
        return value - error
