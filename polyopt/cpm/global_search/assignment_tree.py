"""Branch and bound over the assignments of positives to faces.

A face w with the positives assigned to it costs ‖w‖² + Σ_j C_j [1 − y_j w·x̃_j]_+, the sum over these and all
negatives, where x̃ = (x, 1); the machine has K faces. The dual of a face is

    max  D(α) = Σ_j α_j − ‖w‖²,   w = ½ Σ_j α_j y_j x̃_j,   0 ≤ α_j ≤ C_j.

A node allows some faces for each positive; a positive with a single allowed face is assigned to it. The
node's multipliers, inherited from its parent, are dual feasible for the faces with the assigned positives, so
the sum of the faces' dual values is a lower bound for all complete assignments below the node. Trial moves of
the unassigned positives increase that bound (:func:`examine`). Assignments that would cost more than the
incumbent are forbidden. The faces are interchangeable: of the faces without positives only the first is
allowed, and an assignment that is forbidden there is forbidden on the others too.

**The bound.** Let some positives be assigned, and U be the set of the others. Let α_k be feasible for the
dual of face k with the negatives and its positives, and w_k its hyperplane. Putting i ∈ U on face k is a
*move* δ_ik: a change of the multipliers of i itself (from 0), of the negatives and of the positives on the
face. The move changes Σ_j α_jk y_j x̃_j by e_ik = Σ_j δ_ijk y_j x̃_j, and by itself raises the dual value
by g_ik − ¼‖e_ik‖² with g_ik = Σ_j δ_ijk (1 − y_j w_k·x̃_j).

Theorem. Let all moves together be feasible: for every face k and every j on it,
Σ_i [δ_ijk]_+ ≤ C_j − α_jk and Σ_i [−δ_ijk]_+ ≤ α_jk, and 0 ≤ δ_iik ≤ C_i. Put U in any order. Then every
completion of the assignment costs at least

    Σ_k D(α_k) + Σ_{i∈U} min_k ( g_ik − ¼‖e_ik‖² − ½ Σ_{r before i} [e_rk·e_ik]_+ ),

the minimum over the faces that are allowed for i.

Proof. Let z complete the assignment. On face k, α_k plus the moves δ_ik of all i with z_i = k is feasible for
the dual of that face, so by weak duality the cost is at least
Σ_k D(α_k + Σ_{z_i=k} δ_ik) = Σ_k [ D(α_k) + Σ_{z_i=k} g_ik − ¼‖Σ_{z_i=k} e_ik‖² ]. The square is Σ‖e_ik‖²
plus the products 2 e_rk·e_ik of pairs of samples on face k. The bound decreases if negative products are
omitted, and if positive ones are counted even if r is not on face k; assign each product to the later of the
two samples. The result is a sum over i of terms that depend on z_i only, each at least its minimum over k. ∎

A move of i's own multiplier alone, δ_iik = β_i, gives the bound with the Gram matrix of positive parts,
Σ β_i min_k (1 − w_k·x̃_i) − ¼ β'G⁺β. Moving the multipliers of the negatives as well makes the bound strong
if the classes overlap: the contributions of a positive and of the negatives around it nearly cancel in e_ik,
so the costs of such samples add up nearly in full.

The moves are computed in turn, each by coordinate ascent (:func:`polyopt.cpm.global_search.face.climb`) in
the box that the earlier moves leave, with w_k shifted by half of those e_rk that have a positive product with
the move. The increase of the bound by i is that on its cheapest face; its moves on the other faces are shrunk
to the same increase.

If all products of i with other samples are assigned to i, the same argument gives a lower bound on the
increase by i on face k while every other sample adds its own increase. If the sum exceeds the incumbent's
cost, no better assignment has i on face k.

**Rounding.** The multipliers are feasible exactly: coordinate ascent sets a multiplier to the bound itself,
and the boxes of joint moves are smaller by the rounding of their sums. Pruning uses the bounds as computed.
Every value has a running error bound, and the largest error is subtracted from the bound of the whole search.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.cpm.global_search.face import Best, Samples, proven_sum, solve_exactly, total_cost
from polyopt.native.library import Struct, kernel
from polyopt.optim.best_first import BestFirst, OpenNode, Options

MAX_SAMPLES = 500
"""Largest number of samples; with more the tree would not end."""


class Moves(Struct):
    """Trial moves of each positive to each face, from the current multipliers.

    gain (npos, K), delta (npos, K, n), e (npos, K, d): increase of D, δ_ik and e_ik of each move by itself.
    joint_delta (npos, K, n), joint_e (npos, K, d): δ_ik and e_ik of moves that are feasible together.
    up, down (K, n): distances to the upper and lower bounds that the joint moves leave.
    increase, error (npos,): the increase of the bound by each positive, and its rounding error.
    norm, norm_error (npos, K): norm of each joint_e, and a bound on the error of joint_e.
    """

    signature = (
        "gain!: f8 (p, K); delta!: f8 (p, K, n); e!: f8 (p, K, d); joint_delta!: f8 (p, K, n); "
        "joint_e!: f8 (p, K, d); up!: f8 (K, n); down!: f8 (K, n); increase!: f8 (p); norm!: f8 (p, K); "
        "norm_error!: f8 (p, K); error!: f8 (p)"
    )


def moves_for(npos: int, n: int, d: int, n_faces: int) -> Moves:
    """Allocate the moves."""
    pairs = (npos, n_faces)  # a move for each pair of a positive and a face
    return Moves(
        np.zeros(pairs), np.zeros((*pairs, n)), np.zeros((*pairs, d)), np.zeros((*pairs, n)),
        np.zeros((*pairs, d)), np.zeros((n_faces, n)), np.zeros((n_faces, n)), np.zeros(npos),
        np.zeros(pairs), np.zeros(pairs), np.zeros(npos),
    )  # fmt: skip


_try_move = kernel(
    "cpm_try_move",
    "data: Samples; caps!: f8 (n); a: f8 (n); w: f8 (d); p: i8; k: i8; moves: Moves; "
    "target: f8; out!: f8 (t)",
    returns="i8",
)


def try_move(
    data: Samples, caps: Vector, a: Vector, w: Vector, p: int, k: int, moves: Moves, target: float
) -> tuple[float, float]:
    """Compute the move of positive p to face k by itself, until it raises D by at least `target`.

    a, w, caps: multipliers of the face, their hyperplane and upper bounds. The move is written to `moves`.
    Returns: the increase of D, and a bound on its rounding error, without the error of D(a).
    """
    out = np.zeros(2)
    if _try_move(data, caps, a, w, int(p), int(k), moves, target, out) < 0:
        raise MemoryError
    gain, error = out.tolist()
    return gain, error


class Node(Struct):
    """The node that is explored: its allowed faces, multipliers and hyperplanes.

    caps (K, n): upper bounds of the multipliers, 0 for positives that are not assigned to the face.
    face, cost (npos,): the face of each positive, -1 if not assigned, and its least loss on an allowed face.
    order (r,): the positives in the order in which their moves are added up.
    results (4,): the results of :func:`examine`.
    """

    signature = (
        "allowed!: b1 (p, K); alpha!: f8 (K, n); caps!: f8 (K, n); W!: f8 (K, d); face!: i8 (p); "
        "cost!: f8 (p); order: i8 (p); results!: f8 (f)"
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
# Write the result of `with_cost`, below, to `order`; return its length.
_with_cost = kernel("cpm_paying", "data: Samples; node: Node; used: i8; order!: i8 (p)", returns="i8")


def examine(
    data: Samples, best: Best, node: Node, moves: Moves, bound: float, tol: float
) -> tuple[float, float, int, int]:
    """Bound a node, forbid and assign faces by that bound, and offer the node's faces as an incumbent.

    bound: a known lower bound for the node.
    Returns four values. bound: lower bound on the complete assignments that may cost less than the incumbent,
        infinite if there are none. base: the sum of the faces' dual values. branch: the positive to branch
        on, -1 if no unassigned positive can increase the cost. used: the number of different faces: those
        with positives, and one more if there are empty faces.
    """
    if _examine(data, best, node, moves, bound, tol) < 0:
        raise MemoryError
    bound, base, branch, used = node.results.tolist()
    return bound, base, int(branch), int(used)


def with_cost(data: Samples, node: Node, used: int) -> NDArray[np.int64]:
    """Return the unassigned positives with a loss on every allowed face: only these increase the cost."""
    order = np.empty_like(node.face)
    return order[: _with_cost(data, node, used, order)]


def refine(
    data: Samples, best: Best, node: Node, bound: float, used: int, clock: Clock
) -> tuple[float, float, int]:
    """Solve the faces of a node to high precision, after :func:`examine`, and offer them as an incumbent.

    Returns: bound, base and branch as :func:`examine`; branch is -1 if the unassigned positives cause at most
        half of the gap, so that branching would not help.
    """
    for k in range(used):
        solve_exactly(data, node.caps[k], node.alpha[k], node.W[k], clock)
    node.alpha[used:], node.W[used:] = node.alpha[used - 1], node.W[used - 1]  # empty faces are equal
    base, error = proven_sum(data, node.alpha)
    best.limits[2] = max(best.limits[2], error)  # the largest rounding error of a bound
    cost, _ = total_cost(data, node.W)
    best.offer(cost, node.W)
    order = with_cost(data, node, used)
    branch = -1
    if len(order) and node.cost[order].sum() > 0.5 * (cost - base):
        branch = int(order[node.cost[order].argmax()])
    return max(bound, base), base, branch


class Partial(NamedTuple):
    """A partial assignment."""

    allowed: NDArray[np.bool_]  # (npos, K) faces allowed for each positive
    alpha: Vector  # (K, n) multipliers of the faces


class AssignmentTree(BestFirst[Partial]):
    """Branch and bound over partial assignments."""

    def __init__(self, data: Samples, best: Best, tol: float, clock: Clock, options: Options):
        n, K = len(data.C), len(best.W)
        super().__init__(tol, node_bytes=8 * K * n + K * data.npos + 400, options=options)
        self.data, self.best, self.clock = data, best, clock
        self.push([(0.0, Partial(np.ones((data.npos, K), dtype=bool), np.zeros((K, n))))])
        self._workspace: tuple[Node, Moves] | None = None

    @property
    def objective(self) -> float:
        """Cost of the incumbent."""
        return self.best.cost

    @property
    def proven(self) -> float:
        """Lower bound on the optimum, less the rounding."""
        _, closed, error = (
            self.best.limits
        )  # least bound of nodes that kernels closed, largest rounding error
        return min(super().bound, float(closed)) - float(error)

    def expand(self, node: OpenNode[Partial]) -> list[tuple[float, Partial]]:
        """Bound a node, and branch: one child per allowed face of a positive."""
        data, best = self.data, self.best
        if self._workspace is None:  # allocated late: large data do not use this tree
            n, d = data.A.shape
            K = len(best.W)
            self._workspace = node_for(data, K, by_distance(data)), moves_for(data.npos, n, d, K)
        current, moves = self._workspace
        current.allowed[:], current.alpha[:] = node.state
        bound, base, branch, used = examine(data, best, current, moves, node.bound, self.tol)
        is_refined = branch < 0 and bound < self.cutoff  # coordinate ascent has not converged
        if is_refined:
            bound, base, branch = refine(data, best, current, bound, used, self.clock)
        if branch < 0:
            self.close(bound)
            return []
        children = []
        for k in np.flatnonzero(current.allowed[branch, :used]):
            allowed, alpha, child_bound = current.allowed.copy(), current.alpha.copy(), bound
            allowed[branch] = np.arange(len(best.W)) == k
            if not is_refined:  # the moves belong to the multipliers before `refine`
                alpha[k] += moves.delta[branch, k]
                child_bound = max(bound, base + moves.gain[branch, k])
            children.append((child_bound, Partial(allowed, alpha)))
        return children


def by_distance(data: Samples) -> NDArray[np.int64]:
    """Order the positives by distance from the mean of the negatives: central ones first."""
    inside, points = -data.A[: data.inside, :-1], data.points[:, :-1]
    if not len(inside):
        return np.arange(len(points))
    scale = inside.std(axis=0)
    distances = np.linalg.norm((points - inside.mean(axis=0)) / np.where(scale > 0, scale, 1.0), axis=1)
    return np.argsort(distances, kind="stable")
