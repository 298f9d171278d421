"""A bound on the Convex Polytope Machine in any dimension, from the spread of its faces; a tree of them.

Positives of U are not assigned yet. On each face k let multipliers follow who comes, as
:mod:`polyopt.cpm.global_search.spread_bound` has it: a_k, moves δ_ik with vectors e_ik and sums s_ik, lengths
d_ik, shares θ_ik of those that may be there, and v_k = Σ_j a_kj y_j x̃_j + Σ_i θ_ik e_ik.

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

As all faces are alike where nobody is assigned, with shares 1/K, the bound there is that of one face. It is
that of a convex program: positive i has a face w̄ + t_i of its own, all t_i t_i' ⪯ S, for faces of mean w̄ and
spread S = (1 − 1/K) Σ_k t_k t_k' cost ‖W‖² = K ‖w̄‖² + tr S / (1 − 1/K). So few dimensions are worth as much
as many samples: a face must be far from the mean for someone, and not all can be. The bound by trial moves
(:mod:`polyopt.cpm.global_search.bound`) charges each pair of samples instead; in ten dimensions that is
several times as much.

The shares that make the most of given multipliers are known (:mod:`polyopt.cpm.global_search.spread_bound`),
and for given shares a kernel raises the multipliers (:mod:`polyopt.cpm.global_search.spread_bound`). What
this proves in the mean is convex in the shares, and concave in the multipliers: going all the way to the best
of each in turn goes round in circles, with bounds that fall. So the multipliers are raised at shares that
follow the best ones by a fifth of the way; the bound is proven with the best ones.

The tree branches on the sample whose shares cost most, and forbids a face to a sample where that raises the
bound to the incumbent.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.cpm.global_search.face import dual_error, dual_value, hyperplane, price, settle_in_time
from polyopt.cpm.global_search.polish import polished_face
from polyopt.cpm.global_search.spread_bound import (
    Fixed,
    Ground,
    Spread,
    best_shares,
    held,
    raised,
    within,
    worth_of,
)
from polyopt.linalg.rounding import UNIT, gamma

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.language.clock import Clock
    from formulations.language.types import Vector
    from polyopt.cpm.global_search.face import Samples
    from polyopt.cpm.global_search.tree import Best

    Allowed = NDArray[np.bool_]

__all__ = ["SpreadSearch"]

# Barriers of a root and of another node, times the unit, and sweeps each. Those of a node, and the step to
# the best shares, were chosen on 195 samples of german and 195 of parkinsons, two faces.
_ROOT_BARRIERS, _ROOT_SWEEPS = (0.3, 0.1, 0.03, 0.01, 0.003), 60
_NODE_BARRIERS, _NODE_SWEEPS = (0.01, 0.01, 0.01, 0.003), 12
_SHARE_STEP = 0.2  # of the way to the best shares
_MIN_SHARE = 1e-3  # of an allowed face, while multipliers are raised; chosen on one draw of 150 of magic


class _Packed(NamedTuple):
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


def _packed(spread: Spread) -> _Packed:
    """A face's multipliers in few bytes."""
    places = np.flatnonzero(spread.delta).astype(np.int32)
    return _Packed(spread._replace(delta=np.zeros((0, 0))), places, spread.delta.ravel()[places])


class _State(NamedTuple):
    """Multipliers of a node: faces, shares (npos, K), and who had to be on each."""

    faces: list[_Packed]
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


class _Node:
    """A node: its multipliers and shares, begun with those of its parent, and what they prove.

    allowed (npos, K): the faces that each positive may be on; face (npos,): its face, -1 if that is open;
    undecided: the positives whose face is open. ``offered`` faces differ: those in use and the first of the
    others, which are all alike. The node proves ``bound``, and extra (undecided, K) more if one of them is on
    a face; price (undecided,) is the loss of the bound by each open face. The unit of barriers is the
    incumbent's cost over the number of barriers of all faces.
    """

    def __init__(self, data: Samples, allowed: Allowed, parent: _State, unit: float, *, is_root: bool):
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
    def state(self) -> _State:
        """What children begin from."""
        faces = [_packed(face) for face in self.faces]
        faces += faces[-1:] * (self.n_faces - self.offered)
        return _State(faces, self.share, self.face)

    def _shares(self, share: Vector) -> Vector:
        share = np.where(self.allowed, np.maximum(share, _MIN_SHARE), 0.0)
        if self.used < share.shape[1]:  # those not in use are alike
            share[:, self.used :] = share[:, self.used :].mean(axis=1, keepdims=True)
        total = share.sum(axis=1, keepdims=True)
        return np.asarray(share / np.where(total > 0.0, total, 1.0))

    def _with(self, parent: _Packed, came: NDArray[np.int64]) -> Spread:
        """The multipliers of a face to which some have come, whose moves are then made."""
        spread = parent.unpacked(len(self.data.C))
        a, inside = spread.a.copy(), self.data.inside
        a += spread.delta[came].sum(axis=0)
        a[inside + came] += spread.own[came]
        return spread._replace(a=a)

    def raise_all(self, enough: float, is_over: Callable[[], bool]) -> None:
        """Raise the multipliers and move the shares, by some rounds, until the bound is enough."""
        barriers, sweeps = (_ROOT_BARRIERS, _ROOT_SWEEPS) if self.is_root else (_NODE_BARRIERS, _NODE_SWEEPS)
        for barrier in barriers:
            faces = [self._raised(k, barrier * self.unit, sweeps, is_over) for k in range(self.offered)]
            best = self._best_shares(faces)
            self._prove(faces, best)
            self.share = self._shares(self.share + _SHARE_STEP * (best - self.share))
            if self.bound >= enough or is_over():
                break

    def _raised(self, k: int, mu: float, sweeps: int, is_over: Callable[[], bool]) -> _Face:
        """Face k, raised at its shares."""
        data, spread = self.data, self.faces[k]
        moving = np.flatnonzero((self.face < 0) & self.allowed[:, k])
        rows = np.r_[np.arange(data.inside), data.inside + np.flatnonzero(self.face == k)]
        ground = Ground(
            data.A[rows], data.q[rows], data.C[rows], data.A[data.inside + moving],
            data.C[data.inside + moving], self.share[moving, k].copy(),
        )  # fmt: skip
        given = Spread(
            spread.a[rows], spread.delta[np.ix_(moving, rows)], spread.own[moving], spread.e[moving],
            spread.length[moving],
        )  # fmt: skip
        kept = held(ground, raised(ground, within(ground, given, 1e-6 * ground.C), mu, sweeps, is_over))
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
        best_shares(Fixed(slope, e, length, self.times, allowed), share, 30, 0.1 * self.unit)
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


class _Open(NamedTuple):
    """An open node, in the order of exploring: least bound, then deepest (-depth), then oldest."""

    bound: float
    depth: int
    number: int
    allowed: Allowed
    parent: _State


class SpreadSearch:
    """A search that can be left and taken up again.

    data: rows y_i x̃_i (n, d), those inside first.
    best: the incumbent, which others may better in between.
    tol: relative gap at which the search ends.
    jobs: nodes looked into at once, in threads.

    nodes: nodes looked into.
    """

    def __init__(self, data: Samples, best: Best, tol: float, jobs: int = 1):
        self.data, self.best, self.tol, self.jobs = data, best, tol, jobs
        (n, d), K = data.A.shape, len(best.W)
        self.npos, self.n_faces = n - data.inside, K
        size = float(best.limits[0]) / (2 * n * K)
        a = np.minimum(0.5 * data.C, size)
        a[data.inside :] = 0.0
        own = np.minimum(0.01 * data.C[data.inside :], size)
        lengths = own**2 * data.q[data.inside :] * 2 * max(self.npos, 1)
        first = Spread(a, np.zeros((self.npos, n)), own, np.zeros((self.npos, d)), lengths)
        share = np.full((self.npos, K), 1.0 / K)
        self.root = _State([_packed(first)] * K, share, np.full(self.npos, -1))
        everywhere = np.ones((self.npos, K), dtype=bool)
        self.heap = [_Open(0.0, 0, 0, everywhere, self.root)]
        self.nodes, self.made, self.at_hand, self.least = 0, 0, np.inf, np.inf
        self.kept = self.root.size  # bytes of the states of open nodes

    @property
    def is_done(self) -> bool:
        """Whether no node is open."""
        return not self.heap

    @property
    def closes(self) -> bool:
        """Whether what is proven is within the tolerance of the incumbent."""
        return self.bound >= self._enough

    @property
    def bound(self) -> float:
        """The least bound of what is open and of what was left out."""
        return float(min(self.heap[0].bound if self.heap else np.inf, self.at_hand, self.least))

    def look(self, clock: Clock) -> int:
        """Look into the nodes of the least bounds, as many as there are jobs; how many there were."""
        least = self.heap[0].bound
        ones = [heappop(self.heap) for _ in range(min(self.jobs, len(self.heap)))]
        self.at_hand = least  # an interruption must not lose them
        self.kept -= sum(one.parent.size for one in ones)
        raised = partial(self._raised, clock=clock)
        if len(ones) > 1:
            with ThreadPoolExecutor(
                len(ones)
            ) as pool:  # joblib's threads are asked every hundredth of a second
                nodes = list(pool.map(raised, ones))
        else:
            nodes = [raised(ones[0])]
        for one, node in zip(ones, nodes, strict=True):
            for child in self._children(one, node, clock):
                heappush(self.heap, child)
                self.kept += child.parent.size
        self.at_hand = np.inf
        return len(ones)

    @property
    def unit(self) -> float:
        """The incumbent over the number of barriers of all faces."""
        n, d = self.data.A.shape
        return float(self.best.limits[0]) / (self.n_faces * (2 * n + d))

    @property
    def _enough(self) -> float:
        return float(self.best.limits[0]) * (1.0 - self.tol)

    def _raised(self, one: _Open, clock: Clock) -> _Node | None:
        """A node with its multipliers raised, unless it proves enough as it is."""
        if one.bound >= self._enough:
            return None
        node = _Node(self.data, one.allowed, one.parent, self.unit, is_root=one.number == 0)
        node.raise_all(self._enough, lambda: clock.is_over)
        return node

    def _children(self, one: _Open, node: _Node | None, clock: Clock) -> list[_Open]:
        """What is left to explore of a node."""
        if node is None:
            self.least = min(self.least, one.bound)
            return []
        self.nodes += 1
        if self.nodes % 5 == 1:
            self._round(node, clock)
        bound = max(one.bound, node.bound)
        if bound >= self._enough:
            self.least = min(self.least, bound)
            return []
        open_ = node.undecided
        if not len(open_):
            self.least = min(self.least, max(bound, self._exact(node.face, clock)))
            return []
        there = np.maximum(bound, node.bound + node.extra)  # of i on k
        allowed = one.allowed.copy()
        shut = allowed[open_] & (there >= self._enough)
        if shut.any():
            self.least = min(self.least, float(there[shut].min()))
            allowed[open_] &= ~shut
        state = node.state if self.kept < 2**28 else self.root
        at = int(node.price.argmax())
        children = []
        for k in np.flatnonzero(allowed[open_[at]][: node.offered]):
            mask = allowed.copy()
            mask[open_[at]] = np.arange(self.n_faces) == k
            self.made += 1
            children.append(_Open(float(there[at, k]), one.depth - 1, self.made, mask, state))
        return children

    def _round(self, node: _Node, clock: Clock) -> None:
        """Each positive on the face with its largest share, and what alternating makes of it."""
        face, W = node.share.argmax(axis=1), np.zeros_like(self.best.W)
        cost = settle_in_time(self.data, face, W, 1e-4 * self.tol * self.best.limits[0], clock)
        if cost < self.best.limits[0]:
            self.best.limits[0], self.best.W[:] = cost, W

    def _exact(self, face: NDArray[np.int64], clock: Clock) -> float:
        """What the faces of a whole assignment cost at least; they are tried as an incumbent."""
        data, total, W = self.data, 0.0, np.zeros_like(self.best.W)
        little = 0.1 * self.tol * float(self.best.limits[0]) / self.n_faces
        for k in range(self.n_faces):
            a, W[k] = polished_face(data, face, k, little, clock)
            w = np.empty_like(W[k])
            hyperplane(data, a, w)
            value = dual_value(a, w)
            total += value - dual_error(data, a, w) - (self.n_faces + 4) * UNIT * abs(value)
        cost = price(data, W, np.zeros(self.npos, dtype=np.int64))
        if cost < self.best.limits[0]:
            self.best.limits[0], self.best.W[:] = cost, W
        return total
