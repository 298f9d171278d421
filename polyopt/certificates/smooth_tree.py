"""What a search tree over the features of faces proves where their loss is smooth.

The loss L(W) of faces W (K, m+1) is convex, and ρ/2 ‖W‖² is paid besides. L is at least its tangent plane at
any W, so that with the pulls P, the negative of its slope there, faces of at most s features each that have
the features of a node in, and none of those that are out, cost at least

    L(W) + P·W − 1/(2ρ) Σ_k (P_kb² + Σ_{j in} P_kj² + the s − |in| largest P_kj² of the free).

Nothing of a search is believed (:mod:`polyopt.certificates.subset_tree`): loss and pulls are computed anew at
the points of its tree, less their rounding. Without a tree the points given have the bound of its root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import Residual, residual
from polyopt.certificates.rounding import UNIT, Ball
from polyopt.certificates.subset_tree import SubsetTree, nodes_of, proven_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Vector

    Bits = NDArray[np.bool_]
    # Of faces (K, m+1): the loss without its ridge, and the pulls (m+1, K), the negative of its slope.
    SmoothLoss = Callable[[Vector], tuple[Ball, Ball]]

__all__ = ["ROOT", "TREES", "bound_of_few_faces", "kept_features", "stationarity_of_few"]

TREES = (
    "The bound is that of search trees over the features, every node's evaluated anew from the data and the "
    "tangent of the loss at its point."
)
ROOT = (
    "The bound is that of the root alone: the tangent of the loss with its largest squares, as many as there "
    "may be features."
)


@np.errstate(over="ignore", invalid="ignore")
def bound_of_few_faces(
    loss: SmoothLoss, W: Vector, s: int, ridge: float, table: ArrayLike | None, name: str = "tree"
) -> float:
    """What faces of at most s features each cost at least, 0 or more.

    Parameters
    ----------
    loss : callable
        Takes faces (K, m+1) to their convex loss without its ridge, and to their pulls (m+1, K), the negative
        of its slope.
    W : ndarray of shape (K, m+1)
        Faces whose tangent every node may use; the number of faces is theirs.
    s : int
        Features at most, of each face.
    ridge : float
        ρ, positive.
    table : array_like or None
        A search tree over the K m features, those of one face side by side; without one the root alone.
    name : str
        What the caller calls it.

    Raises
    ------
    ValueError
        A table that is no tree of these features.
    """
    K, m = len(W), W.shape[1] - 1
    common = _tangent(loss, W)
    none = np.zeros(K * m, dtype=bool)
    if table is None:
        return max(_bound(*common, s, ridge, none, none), 0.0)
    tree = SubsetTree.of(name, table, K * m, K)
    nodes, own = nodes_of(tree, K * m), np.full(len(tree.eps), -np.inf)
    for number, inside, out in nodes:
        at = tree.w[number]
        point = np.column_stack([at[: K * m].reshape(K, m), at[K * m :]])
        for tangent in (common, _tangent(loss, point)):
            own[number] = max(own[number], _bound(*tangent, s, ridge, inside, out))
    return proven_by(tree, nodes, own)


def _tangent(loss: SmoothLoss, W: Vector) -> tuple[Ball, Vector]:
    """The tangent's value at faces of zeros, and the sizes of the pulls (m+1, K)."""
    value, pulls = loss(W)
    return value + (pulls * W.T).sum(), pulls.size


def _bound(value: Ball, sizes: Vector, s: int, ridge: float, inside: Bits, out: Bits) -> float:
    K = sizes.shape[1]
    held, free = inside.reshape(K, -1), ~(inside | out).reshape(K, -1)
    taken = [sizes[-1]]
    for k in range(K):
        left = s - int(held[k].sum())
        if left < 0:
            return np.inf  # no face has so many
        ranked = np.sort(sizes[:-1, k][free[k]])
        taken += [sizes[:-1, k][held[k]], ranked[max(len(ranked) - left, 0) :]]
    lost = float(Ball(np.concatenate(taken)).square_sum().upper / ridge)
    found = value - Ball(0.5 * lost, 2.0 * UNIT * lost)
    return float(found.lower) if np.isfinite(found.lower) else -np.inf


def kept_features(W: Vector, s: int) -> bool:
    """Whether no face (K, m+1) has more than s features."""
    return bool(((W[:, :-1] != 0).sum(axis=1) <= s).all())


def stationarity_of_few(W: Vector, gradient: Vector, scale: float) -> Residual:
    """How far each face is from its best in the features that it has.

    Parameters
    ----------
    W, gradient : ndarray of shape (K, m+1)
        The faces, and the slope of all that they pay.
    scale : float
        What it is measured in.
    """
    used = np.column_stack([W[:, :-1] != 0, np.ones(len(W), dtype=bool)])
    return residual("stationarity", "W", np.abs(np.where(used, gradient, 0.0)).max(axis=1), scale)
