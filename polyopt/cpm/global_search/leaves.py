"""A tree whose leaves prove a bound on all assignments, to be written in the file of a claim.

The search of :mod:`polyopt.cpm.global_search.search` leaves out assignments by bounds that take pages to
state. This one proves what it found by the plainest bound there is: at a node some positives are at a face,
the others are left out, which cost 0 or more, and multipliers of the faces bound what is left. Its nodes are
more, but as few as can be: the point is known, so that only what is worth less is to be shut out, and a node
branches on the sample whose faces raise the bound most, found by trying (the product of the gains:
Achterberg, Koch & Martin, Branching rules revisited, 2005). For 426 samples of wdbc that is 3,337 leaves in
place of 30,000.

Multipliers are rounded to a grid before their bound is taken: they are short, and within their caps exactly.
The bounds are safe from rounding (:func:`polyopt.cpm.global_search.face.dual_error`); the checker takes them
anew, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.language.types import dense
from formulations.polytope import lift
from polyopt.certificates.claims.statement import Evidence, numeral, without_form
from polyopt.cpm.certificate import state_choice
from polyopt.cpm.global_search.bound import moves_for, try_move
from polyopt.cpm.global_search.face import UNIT, Samples, caps_of, climb, dual_error, dual_value, hyperplane
from polyopt.cpm.global_search.tree import MOST_SAMPLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.solution import Solution
    from formulations.language.types import MatrixLike, Vector
    from formulations.polytope import Loss
    from polyopt.certificates.claims.statement import Statement
    from polyopt.cpm.certificate import Margin

    Assignment = NDArray[np.int64]

__all__ = ["evidence_of", "prove_by_leaves"]

_MAX_DEPTH = 200  # decisions one under the other, which every reader of JSON takes
_NO_PRICES = (
    "this bound has no claim to be saved: it is one at prices of the positives (duals['price'] of the "
    "solution), for which the cost of one face at these prices is bounded over boxes of its coefficients. "
    "The checker knows trees over assignments, of which one that proves as much would be too large"
)
_NO_SPREAD = (
    "this bound has no claim to be saved: it is one by the spread of the faces, of more samples than a tree "
    "over assignments has an end for, and the checker knows such trees alone"
)


def evidence_of(
    X: MatrixLike, y: Vector, C: Vector, found: Solution, tol: float, *, loss: Loss, margin: Margin
) -> tuple[Evidence, ...]:
    """How it is stated that no assignment is worth less than what a search proved.

    X, y, C, found, tol, loss, margin: as of :func:`polyopt.cpm.certificate.certify_cpm_search`. The bound
        that is stated need not be closer to the value than half of `tol`, relative, even where the search
        proved more.
    Returns: one; none where the faces are coupled, whose bound is a solver's. That of a bound at prices which
        no tree of 1,000 nodes proves says why it has no file, and so does that of more than 500 samples.
    """
    if (loss, margin) != ("sum", "total"):
        return ()
    goal = min(float(found.bound or 0.0), float(found.objective) * (1.0 - 0.5 * tol))
    if len(y) > MOST_SAMPLES:
        return without_form(_NO_PRICES if "price" in found.duals else _NO_SPREAD)
    at_prices = "price" in found.duals
    return (Evidence(cache(partial(_state, dense(X), y, C, found["W"], goal, at_prices))),)


def _state(X: Vector, y: Vector, C: Vector, W: Vector, goal: float, at_prices: bool) -> Statement:
    # Where prices proved the bound, a tree mostly has millions of nodes, or some dozens.
    tree, proven = prove_by_leaves(X, y, C, len(W), goal, 1_000 if at_prices else 20_000)
    if at_prices and proven < goal:
        raise ValueError(_NO_PRICES)
    return state_choice(X, y, W, C, tree, proven)


def prove_by_leaves(
    X: Vector, y: Vector, C: Vector, n_faces: int, goal: float, max_nodes: int = 20_000
) -> tuple[dict[str, Any], float]:
    """A tree as in the file, and what its leaves prove.

    X (n, m): samples.
    y, C (n,): labels -1 and +1, costs.
    n_faces: K.
    goal: what is to be proven. Less is, where it is above the optimum or the tree would be too large.
    max_nodes: nodes that branch, at most; 20,000 are some 20 MB in the file.
    """
    tree = _Tree(X, y, C, n_faces, goal)
    return tree.root, tree.grow(max_nodes)


@dataclass(order=True, frozen=True)
class _Open:
    """A node that may branch, in the order of bounds: what it has in the file, who is where, multipliers."""

    bound: float
    number: int
    told: dict[str, Any] = field(compare=False)
    face: Assignment = field(compare=False)
    alpha: Vector = field(compare=False)
    above: Vector = field(compare=False)  # multipliers of the node above
    fine: bool = field(default=False, compare=False)  # whether they are as good as can be


class _Tree:
    """The tree as it grows; positives are counted from 0, as the kernels have them."""

    def __init__(self, X: Vector, y: Vector, C: Vector, n_faces: int, goal: float):
        self.order = np.argsort(y, kind="stable")
        A = np.ascontiguousarray(lift(X)[self.order] * y[self.order, None])
        self.data = Samples(A, (A * A).sum(axis=1), C[self.order].astype(float), int((y < 0).sum()))
        self.npos, self.n_faces, self.goal = len(y) - self.data.inside, n_faces, goal
        self.moves = moves_for(self.npos, len(A), A.shape[1], n_faces)
        # Multipliers have 30 bits of their caps.
        self.grid = 2.0 ** (np.frexp(np.where(self.data.C > 0.0, self.data.C, 1.0))[1] - 30)
        self.root: dict[str, Any] = {"rows": {}}
        self.heap: list[_Open] = []
        self.room = 2**28 // (16 * n_faces * len(y))  # nodes that may branch, in 256 MiB
        self.proven = np.inf  # the least bound of what is not looked into any more
        self.made = self.nodes = 0

    def grow(self, max_nodes: int) -> float:
        """Branch until all leaves prove the goal, or as much as one of them can."""
        nobody, nothing = np.full(self.npos, -1), np.zeros((self.n_faces, len(self.data.C)))
        self._open(self.root, nobody, nothing.copy(), nothing, list(range(self.n_faces)))
        while self.heap and self.heap[0].bound < self.proven:
            if self.nodes >= max_nodes or len(self.heap) >= self.room:
                break
            self._branch(heappop(self.heap))
        return float(min([self.proven, *(one.bound for one in self.heap)]))

    def _branch(self, one: _Open) -> None:
        """Put a positive on every face that it may go to."""
        chosen = self._choose(one) if (one.face >= 0).sum() < _MAX_DEPTH else None
        if chosen is None and not one.fine:
            every = list(range(self.n_faces))
            self._keep(replace(self._raised(one, every, sweeps=20_000, least=1e-9), fine=True))
        elif chosen is None:
            self.proven = min(self.proven, one.bound)
        else:
            p, used = chosen
            self.nodes += 1
            one.told["sample"], one.told["ways"] = int(self.order[self.data.inside + p]), []
            for k in range(used):
                face, alpha, told = one.face.copy(), one.alpha.copy(), dict[str, Any]()
                face[p] = k
                alpha[k] += self.moves.delta[p, k]
                one.told["ways"].append(told)
                self._open(told, face, alpha, one.alpha, [k])

    def _open(
        self, told: dict[str, Any], face: Assignment, alpha: Vector, above: Vector, changed: list[int]
    ) -> None:
        """A new node: its multipliers raised at the faces that changed, their bound, what the file has."""
        self.made += 1
        one = _Open(-np.inf, self.made, told, face, alpha, above)
        self._keep(self._raised(one, changed, sweeps=200, least=1e-4))

    def _keep(self, one: _Open) -> None:
        """Branch on it later, unless it proves enough."""
        if one.bound >= self.goal:
            self.proven = min(self.proven, one.bound)
        else:
            heappush(self.heap, one)

    def _raised(self, one: _Open, faces: list[int], *, sweeps: int, least: float) -> _Open:
        """The node with better multipliers at some faces, in place.

        sweeps: at most.
        least: share of what is missing by which a sweep must raise the bound for another to follow.
        """
        data, alpha, zero = self.data, one.alpha, np.zeros(len(self.data.C))
        missing = max(self.goal - self._bound(alpha), 1e-6 * self.goal) / self.n_faces
        for k in faces:
            caps, w = np.zeros_like(zero), np.zeros(data.A.shape[1])
            caps_of(data, one.face, k, caps)
            np.clip(alpha[k], 0.0, caps, out=alpha[k])
            hyperplane(data, alpha[k], w)
            climb(data, zero, caps, alpha[k], w, sweeps, np.inf, least * missing)
            alpha[k] = np.minimum(np.round(alpha[k] / self.grid) * self.grid, caps)
        bound = self._bound(alpha)
        if bound < 0.0:  # by rounding alone; no multipliers at all prove more
            alpha[:], bound = 0.0, 0.0
        rows = [self._changes(a, b) for a, b in zip(alpha, one.above, strict=True)]
        one.told["rows"] = {"margin": rows}
        return replace(one, bound=bound)

    def _bound(self, alpha: Vector) -> float:
        """What multipliers within their caps prove, less all rounding."""
        found, w = [], np.zeros(self.data.A.shape[1])
        for a in alpha:
            hyperplane(self.data, a, w)
            value = dual_value(a, w)
            found.append(value - dual_error(self.data, a, w) - (self.n_faces + 4) * UNIT * abs(value))
        total = float(sum(found))
        return total if np.isfinite(total) else -np.inf

    def _changes(self, alpha: Vector, above: Vector) -> dict[str, Any]:
        """The multipliers of a face that are not as above, as in the file."""
        at = np.flatnonzero(alpha != above)
        at = at[np.argsort(self.order[at])]
        return {"at": self.order[at].tolist(), "is": [numeral(v) for v in alpha[at].tolist()]}

    def _choose(self, one: _Open) -> tuple[int, int] | None:
        """The positive to branch on, with its moves, and to how many faces; None if the bound cannot rise."""
        data, used = self.data, min(self.n_faces, int(one.face.max(initial=-1)) + 2)
        W = np.zeros((self.n_faces, data.A.shape[1]))
        for k in range(used):
            hyperplane(data, one.alpha[k], W[k])
        hinge = np.maximum(0.0, 1.0 - data.A[data.inside :] @ W[:used].T).min(axis=1, initial=np.inf)
        cost = np.where(one.face < 0, data.C[data.inside :] * hinge, 0.0)
        tried = np.argsort(-cost, kind="stable")[:20]  # those that pay most
        chosen, most, missing = None, -1.0, self.goal - one.bound
        for p in tried[cost[tried] > 0.0].tolist():
            gain = 1.0
            for k in range(used):
                caps = np.zeros(len(data.C))
                caps_of(data, one.face, k, caps)
                raised, _ = try_move(data, caps, one.alpha[k], W[k], p, k, self.moves, missing)
                gain *= min(max(raised / missing, 1e-6), 1.0)
            if gain > most:
                chosen, most = (p, used), gain
        return chosen
