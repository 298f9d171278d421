"""A node of branch and bound whose faces are coupled: its dual raised, and its faces tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.compiled import njit
from polyopt.solvers.cpm.coupled import AS_THEY_ARE, BALANCED, price_coupled, raise_coupled, settle_coupled
from polyopt.solvers.cpm.coupled_rows import Faces, keep, of_face, scale_faces
from polyopt.solvers.cpm.face import UNIT, dual_error, dual_value, hyperplane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.cpm.face import Best, Samples

__all__ = ["CoupledNode", "aim", "coupled_node_for", "prove_coupled", "solve_coupled", "try_coupled"]

_MOST = 400  # sweeps; beyond, an interior point is sooner there
_AHEAD = 0.2  # of the way to the shares that those not assigned would make; seen on some sets
_LEAST_SHARE = 1e-3  # of a face, over K
_ROOM = 1e-12  # of a shared cap, that is left for the roundings of sums


class CoupledNode(NamedTuple):
    """The node at hand: as :class:`polyopt.solvers.cpm.tree.Node`, with W as the scaled rows have it.

    Besides the faces themselves (K, d), their shares, the numbers s_k, and the shares to go towards, (K,).
    """

    allowed: NDArray[Any]
    alpha: Vector
    caps: Vector
    W: Vector
    face: NDArray[Any]
    cost: Vector
    order: NDArray[Any]
    faces: Vector
    theta: Vector
    scale: Vector
    target: Vector


def coupled_node_for(data: Samples, n_faces: int, order: NDArray[Any]) -> CoupledNode:
    """Room for the node at hand."""
    (n, d), npos = data.A.shape, len(order)
    return CoupledNode(
        np.ones((npos, n_faces), dtype=np.bool_),
        np.zeros((n_faces, n)),
        np.zeros((n_faces, n)),
        np.zeros((n_faces, d)),
        np.zeros(npos, dtype=np.int64),
        np.zeros(npos),
        order,
        np.zeros((n_faces, d)),
        np.ones(n_faces),
        np.ones(n_faces),
        np.zeros(n_faces),
    )


@njit(cache=True)
def solve_coupled(
    data: Faces, node: CoupledNode, used: int, sweeps: int, least: float
) -> tuple[float, float]:
    """Raise the multipliers of all faces; return the dual value, and how far it may be off."""
    sweeps = min(sweeps, _MOST)
    raise_coupled(data, node.face, used, node.alpha, node.faces, node.theta, sweeps, least, BALANCED)
    if data.worst and node.target[0] > 0.0:
        whole = 0.0
        for k in range(len(node.theta)):
            part = min(k, used - 1)  # those not in use are alike
            node.theta[k] = node.theta[part]
            if k < used:
                node.theta[k] = (1.0 - _AHEAD) * node.theta[k] + _AHEAD * node.target[k]
            whole += node.theta[k]
        for k in range(len(node.theta)):
            node.theta[k] /= whole
        raise_coupled(data, node.face, used, node.alpha, node.faces, node.theta, sweeps, least, AS_THEY_ARE)
    return prove_coupled(data, node)


@njit(cache=True)
def prove_coupled(data: Faces, node: CoupledNode) -> tuple[float, float]:
    """What multipliers and shares prove, and how far that may be off; the caps of moves are set."""
    K, n = node.alpha.shape
    scale_faces(data, node.theta, node.scale)
    total, error = 0.0, 0.0
    for k in range(K):
        hyperplane(of_face(data, k), node.alpha[k], node.W[k])
        value = dual_value(node.alpha[k], node.W[k])
        total += value
        error += dual_error(of_face(data, k), node.alpha[k], node.W[k]) + (K + 4) * UNIT * abs(value)
        for i in range(n):
            cap = data.C[i]
            if i >= data.inside:
                cap = data.C[i] if node.face[i - data.inside] == k else 0.0
            elif data.shared:
                taken = 0.0
                for other in range(K):
                    taken += node.alpha[other, i]
                cap = node.alpha[k, i] + max(0.0, (1.0 - _ROOM) * data.C[i] - taken)
            node.caps[k, i] = cap
    return total, error


@njit(cache=True)
def try_coupled(data: Faces, best: Best, node: CoupledNode, tol: float) -> None:
    """Keep the node's faces if they are the best so far, and what alternating makes of them."""
    found = np.zeros(len(node.face), np.int64)
    J = price_coupled(data, node.faces, found)
    if best.limits[0] > J:
        keep(best, node.faces, J)
        W = node.faces.copy()
        J = settle_coupled(data, found, W, 1e-3 * tol * J)
        if best.limits[0] > J:
            keep(best, W, J)


@njit(cache=True)
def aim(data: Faces, node: CoupledNode, shared: Vector, order: NDArray[Any], used: int) -> None:
    """Set the shares that the pulls of the faces would have if everybody came to each face in part."""
    K, d = node.faces.shape
    total = 0.0
    pull = np.empty(d)
    for k in range(used):
        for j in range(d):
            pull[j] = 2.0 * node.theta[k] * node.faces[k, j]
        for p in order:
            if node.allowed[p, k]:
                count = 0
                for other in range(K):
                    if node.allowed[p, other]:
                        count += 1
                for j in range(d):
                    pull[j] += shared[p, k, j] / (node.scale[k] * count)
        square = 0.0
        for j in range(d):
            square += pull[j] * pull[j]
        node.target[k] = np.sqrt(square)
        total += node.target[k] * (K - used + 1 if k == used - 1 else 1)
    for k in range(used):
        node.target[k] = max(node.target[k] / total, _LEAST_SHARE / K) if total > 0.0 else 1.0 / K
    for k in range(used, K):
        node.target[k] = node.target[used - 1]
