"""A bound on the Convex Polytope Machine in any dimension, from the spread of its faces; a tree of them.

Positives of U are not assigned yet. On each face k let multipliers follow who comes, as
:mod:`polyopt.solvers.cpm.spread` has it: a_k, moves δ_ik with vectors e_ik and sums s_ik, lengths d_ik,
shares θ_ik of those that may be there, and v_k = Σ_j a_kj y_j x̃_j + Σ_i θ_ik e_ik.

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
(:mod:`polyopt.solvers.cpm.bound`) charges each pair of samples instead; in ten dimensions that is several
times as much.

The shares that make the most of some multipliers are known (:mod:`polyopt.solvers.cpm.spread_shares`), and
:mod:`polyopt.outer.cpm.spread_node` raises both in turn. The tree branches on the sample whose shares cost
most, and forbids a face to a sample where that raises the bound to the incumbent.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.certificates.rounding import UNIT
from polyopt.outer.cpm.polish import polished_face
from polyopt.outer.cpm.spread_node import Node, State, packed
from polyopt.solvers.cpm.face import dual_error, dual_value, hyperplane, price, settle_in_time
from polyopt.solvers.cpm.spread import Spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.solvers.clock import Clock
    from polyopt.solvers.cpm.face import Samples
    from polyopt.solvers.cpm.tree import Best

    Allowed = NDArray[np.bool_]

__all__ = ["SpreadSearch"]

_BYTES = 2**28  # for the multipliers of open nodes
_FIRST = 0.01  # of its cost: the first multiplier of a sample
_EVERY = 5  # nodes: of so many one is rounded to an assignment


class _Open(NamedTuple):
    """An open node, in the order of exploring: least bound, then deepest (-depth), then oldest."""

    bound: float
    depth: int
    number: int
    allowed: Allowed
    parent: State


class SpreadSearch:
    """A search that can be left and taken up again.

    Parameters
    ----------
    data, best, tol
        As of :class:`polyopt.outer.cpm.boxes.BoxSearch`.
    jobs : int
        Nodes looked into at once, in threads.

    Attributes
    ----------
    nodes : int
        Nodes looked into.
    """

    def __init__(self, data: Samples, best: Best, tol: float, jobs: int = 1):
        self.data, self.best, self.tol, self.jobs = data, best, tol, jobs
        (n, d), K = data.A.shape, len(best.W)
        self.npos, self.n_faces = n - data.inside, K
        size = float(best.limits[0]) / (2 * n * K)
        a = np.minimum(0.5 * data.C, size)
        a[data.inside :] = 0.0
        own = np.minimum(_FIRST * data.C[data.inside :], size)
        lengths = own**2 * data.q[data.inside :] * 2 * max(self.npos, 1)
        first = Spread(a, np.zeros((self.npos, n)), own, np.zeros((self.npos, d)), lengths)
        share = np.full((self.npos, K), 1.0 / K)
        self.root = State([packed(first)] * K, share, np.full(self.npos, -1))
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

    def _raised(self, one: _Open, clock: Clock) -> Node | None:
        """A node with its multipliers raised, unless it proves enough as it is."""
        if one.bound >= self._enough:
            return None
        node = Node(self.data, one.allowed, one.parent, self.unit, is_root=one.number == 0)
        node.raise_all(self._enough, lambda: clock.is_over)
        return node

    def _children(self, one: _Open, node: Node | None, clock: Clock) -> list[_Open]:
        """What is left to explore of a node."""
        if node is None:
            self.least = min(self.least, one.bound)
            return []
        self.nodes += 1
        if self.nodes % _EVERY == 1:
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
        state = node.state if self.kept < _BYTES else self.root
        at = int(node.price.argmax())
        children = []
        for k in np.flatnonzero(allowed[open_[at]][: node.offered]):
            mask = allowed.copy()
            mask[open_[at]] = np.arange(self.n_faces) == k
            self.made += 1
            children.append(_Open(float(there[at, k]), one.depth - 1, self.made, mask, state))
        return children

    def _round(self, node: Node, clock: Clock) -> None:
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
