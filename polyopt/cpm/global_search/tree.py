"""Branch and bound over the assignments of positives to faces: one node, in compiled code.

A node is a set of faces allowed to each positive; one that has a single face left is assigned to it.
Its multipliers, kept from its parent, are feasible for the faces with what is assigned, so the sum of
the faces' dual values bounds all its completions, and :mod:`polyopt.cpm.global_search.bound` adds what the
others cost at least. What would cost more than the incumbent is forbidden.

Decisions are made by the bounds as computed. How far they may be off is kept beside them, and the largest of
these errors is taken off the bound of the whole search.

The faces are alike: of those that answer for nobody yet only the first is offered, and what is
forbidden there is forbidden on the others too, as their names could be exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.cpm.global_search.bound import Moves
from polyopt.cpm.global_search.face import Best, Samples
from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["MOST_SAMPLES", "Best", "Node", "examine", "largest", "node_for", "paying"]

MOST_SAMPLES = 500  # beyond, no search through assignments would end


class Node(Struct):
    """The node at hand.

    allowed (npos, K), alpha and caps (K, n), W (K, d); the face of each positive, or -1, and what it
    costs at least by itself, (npos,); the positives in the order in which their moves are added up; and what
    :func:`examine` found (4,).
    """

    signature = (
        "allowed!: b1 (p, K); alpha!: f8 (K, n); caps!: f8 (K, n); W!: f8 (K, d); face!: i8 (p); "
        "cost!: f8 (p); order: i8 (p); found!: f8 (f)"
    )
    allowed: NDArray[np.bool_]
    alpha: Vector
    caps: Vector
    W: Vector
    face: NDArray[np.int64]
    cost: Vector
    order: NDArray[np.int64]
    found: Vector


def node_for(data: Samples, n_faces: int, order: NDArray[np.int64]) -> Node:
    """Room for the node at hand."""
    (n, d), npos = data.A.shape, len(order)
    return Node(
        np.ones((npos, n_faces), dtype=np.bool_), np.zeros((n_faces, n)), np.zeros((n_faces, n)),
        np.zeros((n_faces, d)), np.zeros(npos, dtype=np.int64), np.zeros(npos), order, np.zeros(4),
    )  # fmt: skip


_examine = kernel(
    "cpm_examine", "data: Samples; best: Best; node: Node; moves: Moves; bound: f8; tol: f8", returns="i8"
)
_paying = kernel("cpm_paying", "data: Samples; node: Node; used: i8; order!: i8 (p)", returns="i8")

# Of the positives in order, which is not empty, the first of those with the largest cost over what is added.
largest = kernel("cpm_branch_on", "cost: f8 (p); added: f8 (p); order: i8 (r)", returns="i8")


def examine(
    data: Samples, best: Best, node: Node, moves: Moves, bound: float, tol: float
) -> tuple[float, float, int, int]:
    """Bound the node at hand, forbid and assign what follows, and try its faces as an incumbent.

    Returns bound: of all its completions that may cost less than the incumbent; infinite if there is none.
    Returns base: the sum of the dual values.
    Returns branch: the positive to branch on; -1 if none of those left can raise the cost.
    Returns used: how many faces are offered.
    """
    if _examine(data, best, node, moves, bound, tol) < 0:
        raise MemoryError
    bound, base, branch, used = node.found.tolist()
    return bound, base, int(branch), int(used)


def paying(data: Samples, node: Node, used: int) -> NDArray[np.int64]:
    """Positives not assigned that pay on every face allowed, with their cost: only they raise the bound."""
    order = np.empty_like(node.face)
    return order[: _paying(data, node, used, order)]
