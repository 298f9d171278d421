"""Branch and bound over the assignments of positives to faces.

A node allows some faces to each positive; a positive with a single face left is assigned to it. Its
multipliers, kept from its parent, are feasible for the faces with the assigned positives, so the sum of the
faces' dual values bounds all its completions, and trial moves of the other positives raise that bound.
Assignments that would cost more than the incumbent are forbidden. The faces are interchangeable: among those
without positives only the first is allowed, and an assignment that is forbidden there is forbidden on the
others too.

**The bound.** Let some positives be assigned, U be the others, and α_k be feasible for the dual of face k
with the samples assigned to it, w_k = ½ Σ_j α_jk y_j x̃_j. Putting i ∈ U on face k is a *move* δ_ik: a change
of the multipliers of i itself (from 0), of the negatives and of the positives on the face. It changes
Σ_j α_jk y_j x̃_j by e_ik = Σ_j δ_ijk y_j x̃_j, and by itself raises the dual value by g_ik − ¼‖e_ik‖² with
g_ik = Σ_j δ_ijk (1 − y_j w_k·x̃_j).

Theorem. Let the moves keep within the boxes all together: for every face k and every j on it,
Σ_i [δ_ijk]_+ ≤ C_j − α_jk and Σ_i [−δ_ijk]_+ ≤ α_jk, and 0 ≤ δ_iik ≤ C_i. Put U in any order. Then every
completion of the assignment costs at least

    Σ_k D(α_k) + Σ_{i∈U} min_k ( g_ik − ¼‖e_ik‖² − ½ Σ_{r before i} [e_rk·e_ik]_+ ),

the minimum over the faces that i may go to.

Proof. Let z complete the assignment. On face k, α_k plus the moves δ_ik of the i with z_i = k is within
the box, whichever they are, hence feasible for the dual of that face, and by weak duality the cost is at
least Σ_k D(α_k + Σ_{z_i=k} δ_ik) = Σ_k [ D(α_k) + Σ_{z_i=k} g_ik − ¼‖Σ_{z_i=k} e_ik‖² ]. In the square,
Σ‖e_ik‖² stands alone, and of the products 2 e_rk·e_ik of two samples on one face those below zero may be
left out, and the others be counted whether or not r is on that face too: each is charged to the later of
the two. What is left is a sum over i of a term that depends on z_i only, at least its minimum over k. ∎

A move of i's own multiplier alone, δ_iik = β_i, gives the bound with the Gram matrix of positive parts,
Σ β_i min_k (1 − w_k·x̃_i) − ¼ β'G⁺β. Letting the negatives move as well is what makes it strong where the
classes overlap: a positive among negatives is held by them on whichever face, e_ik is small, and the
costs of such samples add up nearly in full.

The moves are found in turn: the box left by the moves before, and w_k shifted by half of those e_rk that
have a positive product with it, make a problem for ``climb``. The increase of the bound by i is that of its
cheapest face, and its moves on the other faces are shrunk to that increase.

The same products, all charged to i, give a lower bound on the increase by i on face k, if every other sample
adds its increase. If the bound then exceeds the cost of the incumbent, no better assignment has i on k.

**Rounding.** The multipliers keep within their boxes exactly: a climb sets a multiplier to the end of its
box, and joint moves have boxes that are smaller by the rounding of their sums. Decisions are made by the
bounds as computed. Running error bounds are kept beside every value, and the largest of these errors is
subtracted from the bound of the whole search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.global_search.face import Best, Samples, proven_sum, solve_exactly, total_cost
from polyopt.native.library import Struct, kernel
from polyopt.optim.best_first import BestFirst, OpenNode, Options

MAX_SAMPLES = 500
"""Samples beyond which a search through assignments would not end."""


class Moves(Struct):
    """Trial moves of positive p to face k, from the current multipliers.

    gain (npos, K), delta (npos, K, n), pull (npos, K, d): gain, δ_ik and e_ik of each move by itself.
    taken (npos, K, n), shared (npos, K, d): δ_ik and e_ik of the moves that keep within the boxes together.
    up, down (K, n): distances to the boxes' ends that these leave.
    added, error (npos,): the increase of the bound by each positive, and its rounding error.
    length, blur (npos, K): length of each shared vector, and a bound on its error.
    """

    signature = (
        "gain!: f8 (p, K); delta!: f8 (p, K, n); pull!: f8 (p, K, d); taken!: f8 (p, K, n); "
        "shared!: f8 (p, K, d); up!: f8 (K, n); down!: f8 (K, n); added!: f8 (p); length!: f8 (p, K); "
        "blur!: f8 (p, K); error!: f8 (p)"
    )


def moves_for(npos: int, n: int, d: int, n_faces: int) -> Moves:
    """Allocate the moves."""
    pairs = (npos, n_faces)
    return Moves(
        np.zeros(pairs), np.zeros((*pairs, n)), np.zeros((*pairs, d)), np.zeros((*pairs, n)),
        np.zeros((*pairs, d)), np.zeros((n_faces, n)), np.zeros((n_faces, n)), np.zeros(npos),
        np.zeros(pairs), np.zeros(pairs), np.zeros(npos),
    )  # fmt: skip


_try_move = kernel(
    "cpm_try_move",
    "data: Samples; caps!: f8 (n); a: f8 (n); w: f8 (d); p: i8; k: i8; moves: Moves; "
    "enough: f8; out!: f8 (t)",
    returns="i8",
)


def try_move(
    data: Samples, caps: Vector, a: Vector, w: Vector, p: int, k: int, moves: Moves, enough: float
) -> tuple[float, float]:
    """Move positive p to face k by itself, until the gain is `enough`.

    Returns the gain and its rounding error besides that of D(a).
    """
    out = np.zeros(2)
    if _try_move(data, caps, a, w, int(p), int(k), moves, enough, out) < 0:
        raise MemoryError
    gain, error = out.tolist()
    return gain, error


class Node(Struct):
    """The node that is explored: its allowed faces, multipliers, boxes and hyperplanes.

    face, cost (npos,): the face of each positive, -1 if not assigned, and its least loss on an allowed face.
    order (r,): the positives in the order in which their moves are added up.
    found (4,): the results of :func:`examine`.
    """

    signature = (
        "allowed!: b1 (p, K); alpha!: f8 (K, n); caps!: f8 (K, n); W!: f8 (K, d); face!: i8 (p); "
        "cost!: f8 (p); order: i8 (p); found!: f8 (f)"
    )


def node_for(data: Samples, n_faces: int, order: NDArray[np.int64]) -> Node:
    """Allocate a node."""
    (n, d), npos = data.A.shape, len(order)
    return Node(
        np.ones((npos, n_faces), dtype=np.bool_), np.zeros((n_faces, n)), np.zeros((n_faces, n)),
        np.zeros((n_faces, d)), np.zeros(npos, dtype=np.int64), np.zeros(npos), order, np.zeros(4),
    )  # fmt: skip


_examine = kernel(
    "cpm_examine", "data: Samples; best: Best; node: Node; moves: Moves; bound: f8; tol: f8", returns="i8"
)
_paying = kernel("cpm_paying", "data: Samples; node: Node; used: i8; order!: i8 (p)", returns="i8")

# The first of the positives in order, at least one, with the largest cost less its increase of the bound.
largest = kernel("cpm_branch_on", "cost: f8 (p); added: f8 (p); order: i8 (r)", returns="i8")


def examine(
    data: Samples, best: Best, node: Node, moves: Moves, bound: float, tol: float
) -> tuple[float, float, int, int]:
    """Bound a node, forbid and assign faces that follow from the bound, and try its faces as an incumbent.

    Returns bound: of the completions that may cost less than the incumbent; infinite if there is none.
    Returns base: the sum of the dual values.
    Returns branch: the positive to branch on; -1 if no positive left can raise the cost.
    Returns used: the number of different faces.
    """
    if _examine(data, best, node, moves, bound, tol) < 0:
        raise MemoryError
    bound, base, branch, used = node.found.tolist()
    return bound, base, int(branch), int(used)


def paying(data: Samples, node: Node, used: int) -> NDArray[np.int64]:
    """Return unassigned positives with a positive cost on every allowed face: only they raise the bound."""
    order = np.empty_like(node.face)
    return order[: _paying(data, node, used, order)]


def refine(
    data: Samples, best: Best, node: Node, bound: float, used: int, clock: Clock
) -> tuple[float, float, int]:
    """Solve the faces of a node exactly, after :func:`examine`, and try them as an incumbent.

    Returns bound and base as :func:`examine`, and the positive to branch on: -1 if the remaining positives
    cost little, or only rounding separates bound and incumbent.
    """
    for k in range(used):
        solve_exactly(data, node.caps[k], node.alpha[k], node.W[k], clock)
    node.alpha[used:], node.W[used:] = node.alpha[used - 1], node.W[used - 1]
    base, error = proven_sum(data, node.alpha)
    best.limits[2] = max(best.limits[2], error)
    cost = total_cost(data, node.W, np.zeros(len(node.face), np.int64))
    best.offer(cost, node.W)
    order = paying(data, node, used)
    # Positives that cost less than half of the gap are not the reason for it.
    is_short = len(order) and node.cost[order].sum() > 0.5 * (cost - base)
    branch = largest(node.cost, np.zeros_like(node.cost), order) if is_short else -1
    return max(bound, base), base, branch


class Partial(NamedTuple):
    """A partial assignment: allowed faces (npos, K), and multipliers (K, n)."""

    allowed: NDArray[np.bool_]
    alpha: Vector


class AssignmentTree(BestFirst[Partial]):
    """The search through partial assignments."""

    def __init__(self, data: Samples, best: Best, tol: float, clock: Clock, options: Options):
        n, K = len(data.C), len(best.W)
        super().__init__(tol, 8 * K * n + K * data.npos + 400, options)
        self.data, self.best, self.clock = data, best, clock
        self.push([(0.0, Partial(np.ones((data.npos, K), dtype=bool), np.zeros((K, n))))])
        self._work: tuple[Node, Moves] | None = None

    @property
    def objective(self) -> float:
        """Cost of the incumbent."""
        return self.best.cost

    @property
    def proven(self) -> float:
        """Lower bound on the optimum, less the rounding."""
        _, closed, error = self.best.limits
        return min(super().bound, float(closed)) - float(error)

    def expand(self, node: OpenNode[Partial]) -> list[tuple[float, Partial]]:
        """Bound a node, and put the positive to branch on on each of its faces."""
        data, best = self.data, self.best
        if self._work is None:  # allocated late: data too large for this tree never need it
            n, d = data.A.shape
            K = len(best.W)
            self._work = node_for(data, K, by_distance(data)), moves_for(data.npos, n, d, K)
        at, moves = self._work
        at.allowed[:], at.alpha[:] = node.state
        bound, base, branch, used = examine(data, best, at, moves, node.bound, self.tol)
        exact = branch < 0 and bound < self.cutoff
        if exact:  # coordinate ascent did not get far enough
            bound, base, branch = refine(data, best, at, bound, used, self.clock)
        if branch < 0:
            self.close(bound)
            return []
        children = []
        for k in np.flatnonzero(at.allowed[branch, :used]):
            allowed, alpha, least = at.allowed.copy(), at.alpha.copy(), bound
            allowed[branch] = np.arange(len(best.W)) == k
            if not exact:  # the moves are those of the multipliers before
                alpha[k] += moves.delta[branch, k]
                least = max(bound, base + moves.gain[branch, k])
            children.append((least, Partial(allowed, alpha)))
        return children


def by_distance(data: Samples) -> NDArray[np.int64]:
    """Order the positives by their distance from the mean of the negatives: central ones cost on any face."""
    inside, points = -data.A[: data.inside, :-1], data.points[:, :-1]
    if not len(inside):
        return np.arange(len(points))
    scale = inside.std(axis=0)
    far = np.linalg.norm((points - inside.mean(axis=0)) / np.where(scale > 0, scale, 1.0), axis=1)
    return np.argsort(far, kind="stable")
