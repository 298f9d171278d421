"""Branch and bound over the assignments of positives to faces: one node, in compiled code.

A node is a set of faces allowed to each positive; one that has a single face left is assigned to it.
Its multipliers, kept from its parent, are feasible for the faces with what is assigned, so the sum of
the faces' dual values bounds all its completions, and :mod:`polyopt.solvers.cpm.bound` adds what the
others cost at least. What would cost more than the incumbent is forbidden.

Decisions are made by the bounds as computed. How far they may be off is kept beside them, and the largest of
these errors is taken off the bound of the whole search.

The faces are alike: of those that answer for nobody yet only the first is offered, and what is
forbidden there is forbidden on the others too, as their names could be exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.compiled import njit
from polyopt.solvers.cpm.bound import add_up, cost_on, try_move
from polyopt.solvers.cpm.face import (
    UNIT,
    Best,
    Moves,
    Samples,
    caps_of,
    climb,
    dual_error,
    dual_value,
    hyperplane,
    price,
    settle,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["MOST_SAMPLES", "Best", "Node", "examine", "largest", "node_for", "paying"]

MOST_SAMPLES = 500  # beyond, no search through assignments would end

# A node's faces are solved coarsely, and finely where that leaves nothing to branch on: sweeps at most, and
# the least gain for which another is made, a share of the distance to the incumbent.
_SWEEPS, _FINE_SWEEPS = 200, 20_000
_REL_GAIN, _FINE_REL_GAIN = 1e-4, 1e-7


class Node(NamedTuple):
    """The node at hand.

    allowed (npos, K), alpha and caps (K, n), W (K, d); the face of each positive, or -1, and what it
    costs at least by itself, (npos,); and the positives in the order in which their moves are added up.
    """

    allowed: NDArray[Any]
    alpha: Vector
    caps: Vector
    W: Vector
    face: NDArray[Any]
    cost: Vector
    order: NDArray[Any]


def node_for(data: Samples, n_faces: int, order: NDArray[Any]) -> Node:
    """Room for the node at hand."""
    (n, d), npos = data.A.shape, len(order)
    return Node(
        np.ones((npos, n_faces), dtype=np.bool_),
        np.zeros((n_faces, n)),
        np.zeros((n_faces, n)),
        np.zeros((n_faces, d)),
        np.zeros(npos, dtype=np.int64),
        np.zeros(npos),
        order,
    )


@njit(cache=True)
def examine(
    data: Samples, best: Best, node: Node, moves: Moves, bound: float, tol: float
) -> tuple[float, float, int, int]:
    """Bound the node at hand, forbid and assign what follows, and try its faces as an incumbent.

    Returns bound: of all its completions that may cost less than the incumbent; infinite if there is none.
    Returns base: the sum of the dual values.
    Returns branch: the positive to branch on; -1 if none of those left can raise the cost.
    Returns used: how many faces are offered.
    """
    fine = False
    while True:
        used, opens = _assign(node)
        cut = best.limits[0] * (1.0 - tol)
        goal = max(cut - bound, tol * cut) / len(node.W)
        sweeps, gain = (_FINE_SWEEPS, _FINE_REL_GAIN) if fine else (_SWEEPS, _REL_GAIN)
        base, error = _solve_faces(data, node, used, sweeps, gain * goal)
        best.limits[2] = max(best.limits[2], error)
        bound = max(bound, base)
        _try_incumbent(data, best, node, tol)
        cut = best.limits[0] * (1.0 - tol)
        if bound >= cut:
            return bound, base, -1, used
        order = paying(data, node, used)
        if len(order) == 0:
            if fine:
                return bound, base, -1, used
            fine = True  # the incumbent is all but found: close the gap, or find who pays after all
            continue
        verdict = _try_moves(data, best, node, moves, order, used, opens, base, error, cut)
        if verdict == _CLOSED:
            return np.inf, base, -1, used
        if verdict == _ASSIGNED:
            continue
        total = add_up(data, node.caps, node.alpha, node.W, moves, node.allowed, order, used, cut - base)
        bound = max(bound, base + total)
        for p in order:
            error += moves.error[p]
        best.limits[2] = max(best.limits[2], error)
        if bound >= cut:
            return bound, base, -1, used
        verdict = _forbid_jointly(data, best, node, moves, order, used, opens, base + total, error, cut)
        if verdict == _CLOSED:
            return np.inf, base, -1, used
        if verdict == _ASSIGNED:
            continue
        # What a branch adds for certain is the cost of one move, of which the bound has a part already.
        return bound, base, largest(node.cost, moves.added, order), used


@njit(cache=True)
def _assign(node: Node) -> tuple[int, bool]:
    """Note who is assigned where; return how many faces are offered, and whether the last is empty."""
    npos, K = node.allowed.shape
    used = 0
    for p in range(npos):
        node.face[p] = -1
        count = 0
        for k in range(K):
            if node.allowed[p, k]:
                count += 1
                node.face[p] = k
        if count > 1:
            node.face[p] = -1
        used = max(used, node.face[p] + 1)
    return min(K, used + 1), used < K


@njit(cache=True)
def _solve_faces(data: Samples, node: Node, used: int, sweeps: int, least: float) -> tuple[float, float]:
    """Raise the multipliers of each face; return the sum of all dual values, and how far it may be off.

    The faces from `used` on answer for nobody, like the one before them, of which they are copies.
    """
    K, n = node.alpha.shape
    zero, total, error = np.zeros(n), 0.0, 0.0
    for k in range(K):
        if k < used:
            caps_of(data, node.face, k, node.caps[k])
            hyperplane(data, node.alpha[k], node.W[k])
            climb(data, zero, node.caps[k], node.alpha[k], node.W[k], sweeps, np.inf, least)
            hyperplane(data, node.alpha[k], node.W[k])  # anew, for the rounding of many small steps
        else:
            for i in range(n):
                node.alpha[k, i], node.caps[k, i] = node.alpha[used - 1, i], node.caps[used - 1, i]
            for j in range(data.A.shape[1]):
                node.W[k, j] = node.W[used - 1, j]
        value = dual_value(node.alpha[k], node.W[k])
        total += value
        error += dual_error(data, node.alpha[k], node.W[k]) + (K + 4) * UNIT * abs(value)
    return total, error


@njit(cache=True)
def _try_incumbent(data: Samples, best: Best, node: Node, tol: float) -> None:
    """Keep the node's faces if they are the best so far, and what alternating makes of them."""
    found = np.zeros(len(node.face), np.int64)
    J = price(data, node.W, found)
    if best.limits[0] > J:
        _keep(best, node.W, J)
        W = node.W.copy()
        J = settle(data, found, W, 1e-3 * tol * J)
        if best.limits[0] > J:
            _keep(best, W, J)


@njit(cache=True)
def _keep(best: Best, W: Vector, J: float) -> None:
    """Make faces the incumbent."""
    best.limits[0] = J
    for k in range(W.shape[0]):
        for j in range(W.shape[1]):
            best.W[k, j] = W[k, j]


@njit(cache=True)
def paying(data: Samples, node: Node, used: int) -> NDArray[Any]:
    """Positives not assigned that pay on every face allowed, with their cost: only they raise the bound."""
    order, count = np.empty(len(node.face), np.int64), 0
    for p in node.order:
        if node.face[p] >= 0:
            continue
        least = np.inf
        for k in range(used):
            if node.allowed[p, k]:
                hinge = 1.0
                for j in range(data.A.shape[1]):
                    hinge -= data.A[data.inside + p, j] * node.W[k, j]
                least = min(least, hinge)
        if least > 0.0:
            node.cost[p] = data.C[data.inside + p] * least
            order[count] = p
            count += 1
    return order[:count]


@njit(cache=True)
def largest(cost: Vector, added: Vector, order: NDArray[Any]) -> int:
    """Of the positives in `order` the first of those with the largest cost over what is added."""
    chosen = order[0]
    for p in order:
        if cost[p] - added[p] > cost[chosen] - added[chosen]:
            chosen = p
    return int(chosen)


_OPEN, _ASSIGNED, _CLOSED = 0, 1, 2  # what forbidding led to


@njit(cache=True)
def _try_moves(
    data: Samples, best: Best, node: Node, moves: Moves, order: NDArray[Any], used: int, opens: bool,
    base: float, error: float, cut: float,
) -> int:  # fmt: skip
    """Try every move by itself, and forbid those that cost too much."""
    verdict = _OPEN
    for p in order:
        node.cost[p] = np.inf
        for k in range(used):
            if node.allowed[p, k]:
                cost, off = try_move(data, node.caps[k], node.alpha[k], node.W[k], p, k, moves, cut - base)
                best.limits[2] = max(best.limits[2], error + off + 4.0 * UNIT * (base + abs(cost)))
                if base + cost < cut:
                    node.cost[p] = min(node.cost[p], cost)
                else:
                    best.limits[1] = min(best.limits[1], base + cost)
                    _forbid(node, p, k, used, opens)
        verdict = max(verdict, _after(node, p, used, opens))
        if verdict == _CLOSED:
            break
    return verdict


@njit(cache=True)
def _forbid_jointly(
    data: Samples, best: Best, node: Node, moves: Moves, order: NDArray[Any], used: int, opens: bool,
    bound: float, error: float, cut: float,
) -> int:  # fmt: skip
    """Forbid the moves that cost too much together with what all others add to the bound."""
    verdict = _OPEN
    for p in order:
        for k in range(used):
            if node.allowed[p, k]:
                cost, off = cost_on(data, node.alpha[k], node.W[k], moves, order, p, k)
                total = bound - moves.added[p] + cost
                best.limits[2] = max(best.limits[2], error + off + 4.0 * UNIT * (bound + abs(cost)))
                if total >= cut:
                    best.limits[1] = min(best.limits[1], total)
                    _forbid(node, p, k, used, opens)
        verdict = max(verdict, _after(node, p, used, opens))
        if verdict == _CLOSED:
            break
    return verdict


@njit(cache=True)
def _forbid(node: Node, p: int, k: int, used: int, opens: bool) -> None:
    """Take face k from positive p, and with the first empty face all the others."""
    if opens and k == used - 1:
        for other in range(k, node.allowed.shape[1]):
            node.allowed[p, other] = False
    else:
        node.allowed[p, k] = False


@njit(cache=True)
def _after(node: Node, p: int, used: int, opens: bool) -> int:
    """Whether positive p has one face left, or none.

    Nobody is assigned to an empty face here: who opens it is for the branching to choose.
    """
    left, last = 0, -1
    for k in range(used):
        if node.allowed[p, k]:
            left += 1
            last = k
    if left == 0:
        return _CLOSED
    return _ASSIGNED if left == 1 and not (opens and last == used - 1) else _OPEN
