"""One node of :mod:`polyopt.outer.cpm.spread`: its multipliers and its shares, raised in turn.

For fixed shares the kernel raises what the faces prove in the mean; for fixed multipliers the best shares are
those of :mod:`polyopt.solvers.cpm.spread_shares`, which the bound is proven with. What the mean comes to is
convex in the shares, and concave in the multipliers: going all the way to the best of each in turn goes round
in circles, with bounds that fall. So the multipliers are raised at shares that follow the best ones by a
fifth of the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.certificates.rounding import gamma
from polyopt.solvers.cpm.spread import Ground, Spread, everyone
from polyopt.solvers.cpm.spread_bound import held, raised, within, worth_of
from polyopt.solvers.cpm.spread_shares import Fixed, best_shares

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.cpm.face import Samples

    Allowed = NDArray[np.bool_]

__all__ = ["SIDE", "Node", "Packed", "State", "packed"]

SIDE = 1e-6  # of its cost: the room that a multiplier's box keeps
# Barriers of a root and of another node, times the unit, and sweeps each. Those of a node, and how far shares
# follow, were chosen on 195 samples of german and 195 of parkinsons, two faces.
_ROOT, _ROOT_SWEEPS = (0.3, 0.1, 0.03, 0.01, 0.003), 60
_NODE, _NODE_SWEEPS = (0.01, 0.01, 0.01, 0.003), 12
_FOLLOW = 0.2  # of the way to the best shares
_LEAST_SHARE = (
    1e-3  # of a face that is allowed, while multipliers are raised; chosen on one draw of 150 of magic
)
_PASSES, _LITTLE = 30, 0.1  # over the shares, and of the unit: what ends them


class Packed(NamedTuple):
    """A face's Spread over all samples, without its moves; most are 0: places and values of the others."""

    spread: Spread
    places: NDArray[np.int32]
    moves: Vector

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.nbytes for part in (*self.spread, self.places, self.moves))

    def unpacked(self, n: int) -> Spread:
        """With all moves, of so many samples."""
        delta = np.zeros((len(self.spread.own), n))
        delta.ravel()[self.places] = self.moves
        return self.spread._replace(delta=delta)


def packed(spread: Spread) -> Packed:
    """A face's multipliers in few bytes."""
    places = np.flatnonzero(spread.delta).astype(np.int32)
    return Packed(spread._replace(delta=np.zeros((0, 0))), places, spread.delta.ravel()[places])


class State(NamedTuple):
    """Multipliers of a node: faces, shares (npos, K), and who had to be on each."""

    faces: list[Packed]
    share: Vector
    face: NDArray[np.int64]

    @property
    def size(self) -> int:
        """Bytes, of faces that are the same one once."""
        return self.share.nbytes + sum({id(face): face.size for face in self.faces}.values())


class _Face(NamedTuple):
    """A face as raised: its samples, what of them is open, and the multipliers that hold."""

    ground: Ground
    moving: NDArray[np.int64]
    kept: Spread


class Node:
    """A node at hand.

    Parameters
    ----------
    data : Samples
        The samples.
    allowed : ndarray of bool, shape (npos, K)
        Which faces each positive may be on.
    parent : State
        What it begins with.
    unit : float
        The incumbent over the number of barriers of all faces.
    is_root : bool
        Whether its multipliers are first ones.

    Attributes
    ----------
    face : ndarray of int, shape (npos,)
        The face of each positive, -1 where that is open; ``undecided`` are the latter.
    offered : int
        How many faces differ: those in use and the first of the others, which are all alike.
    bound : float
        What is proven,
    extra : ndarray of shape (undecided, K)
        and how much more where one of them is on a face.
    price : ndarray of shape (undecided,)
        What each of them costs the bound by being open.
    """

    def __init__(self, data: Samples, allowed: Allowed, parent: State, unit: float, *, is_root: bool):
        self.data, self.allowed, self.unit, self.is_root = data, allowed, unit, is_root
        K, counts = allowed.shape[1], allowed.sum(axis=1)
        self.n_faces = K
        self.face = np.where(counts == 1, allowed.argmax(axis=1), -1)
        self.used = int(self.face.max(initial=-1)) + 1
        self.offered = min(K, self.used + 1)
        self.times = np.ones(self.offered)
        if self.used < K:
            self.times[-1] = K - self.used
        self.undecided = np.flatnonzero(self.face < 0)
        self.share = self._shares(parent.share)
        came = np.flatnonzero((parent.face < 0) & (self.face >= 0))
        self.faces = [self._with(parent.faces[k], came[self.face[came] == k]) for k in range(self.offered)]
        self.bound, self.extra, self.price = -np.inf, np.zeros((0, K)), np.zeros(0)

    @property
    def state(self) -> State:
        """What children begin from."""
        faces = [packed(face) for face in self.faces]
        faces += faces[-1:] * (self.n_faces - self.offered)
        return State(faces, self.share, self.face)

    def _shares(self, share: Vector) -> Vector:
        share = np.where(self.allowed, np.maximum(share, _LEAST_SHARE), 0.0)
        if self.used < share.shape[1]:  # those not in use are alike
            share[:, self.used :] = share[:, self.used :].mean(axis=1, keepdims=True)
        total = share.sum(axis=1, keepdims=True)
        return np.asarray(share / np.where(total > 0.0, total, 1.0))

    def _with(self, parent: Packed, came: NDArray[np.int64]) -> Spread:
        """The multipliers of a face to which some have come, whose moves are then made."""
        spread = parent.unpacked(len(self.data.C))
        a, inside = spread.a.copy(), self.data.inside
        a += spread.delta[came].sum(axis=0)
        a[inside + came] += spread.own[came]
        return spread._replace(a=a)

    def raise_all(self, enough: float, is_over: Callable[[], bool]) -> None:
        """Raise the multipliers and move the shares, by some rounds, until the bound is enough."""
        barriers, sweeps = (_ROOT, _ROOT_SWEEPS) if self.is_root else (_NODE, _NODE_SWEEPS)
        for barrier in barriers:
            faces = [self._raised(k, barrier * self.unit, sweeps, is_over) for k in range(self.offered)]
            best = self._best_shares(faces)
            self._prove(faces, best)
            self.share = self._shares(self.share + _FOLLOW * (best - self.share))
            if self.bound >= enough or is_over():
                break

    def _raised(self, k: int, mu: float, sweeps: int, is_over: Callable[[], bool]) -> _Face:
        """Face k, raised at its shares."""
        data, spread = self.data, self.faces[k]
        moving = np.flatnonzero((self.face < 0) & self.allowed[:, k])
        rows = np.r_[np.arange(data.inside), data.inside + np.flatnonzero(self.face == k)]
        ground = Ground(
            data.A[rows], data.q[rows], data.C[rows], data.A[data.inside + moving],
            data.C[data.inside + moving], self.share[moving, k].copy(), everyone(len(moving), len(rows)),
        )  # fmt: skip
        given = Spread(
            spread.a[rows], spread.delta[np.ix_(moving, rows)], spread.own[moving], spread.e[moving],
            spread.length[moving],
        )  # fmt: skip
        kept = held(ground, raised(ground, within(ground, given, SIDE * ground.C), mu, sweeps, is_over))
        n, npos = len(data.C), len(self.face)
        a, delta, own = np.zeros(n), np.zeros((npos, n)), np.zeros(npos)
        e, length = np.zeros_like(data.A[data.inside :]), np.ones(npos)
        a[rows], own[moving], e[moving], length[moving] = kept.a, kept.own, kept.e, kept.length
        delta[np.ix_(moving, rows)] = kept.delta
        self.faces[k] = Spread(a, delta, own, e, length)
        return _Face(ground, moving, kept)

    def _best_shares(self, faces: list[_Face]) -> Vector:
        """The shares (npos, K) that make the most of the multipliers."""
        some, best = self.undecided, self.share.copy()
        if not len(some) or self.offered == 1:  # faces that are all alike have equal shares
            return best
        e = np.array([face.e[some] for face in self.faces])
        length = np.array([face.length[some] for face in self.faces])
        sums = np.array([face.own[some] + face.delta[some].sum(axis=1) for face in self.faces])
        first = np.array([face.kept.a @ face.ground.A for face in faces])
        slope = sums - 0.5 * np.einsum("kid,kd->ki", e, first) - 0.25 * length
        allowed = np.ascontiguousarray(self.allowed[some, : self.offered].T)
        share = np.ascontiguousarray(best[some, : self.offered].T) * self.times[:, None]
        best_shares(Fixed(slope, e, length, self.times, allowed), share, _PASSES, _LITTLE * self.unit)
        alike = np.minimum(np.arange(self.n_faces), self.offered - 1)
        best[some] = (share / self.times[:, None])[alike].T
        return best

    def _prove(self, faces: list[_Face], share: Vector) -> None:
        """Add the faces up, at these shares."""
        npos, K = share.shape
        constant, error = 0.0, 0.0
        on = np.full((npos, K), np.inf)
        off, lengths = np.zeros((npos, K)), np.zeros((npos, K))
        for k, (ground, moving, kept) in enumerate(faces):
            times = int(self.times[k])  # all that are not in use are like the first
            proven = worth_of(ground._replace(share=share[moving, k]), kept)
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
        self.price = (self.share * (1.0 - self.share) * lengths)[some].sum(axis=1)
