"""What multipliers prove of faces in a box: the bound, and how far they are from the optimality conditions.

For multipliers M of a linear program of the polyhedral family, r_k = Σ_i M_ik y_i x̃_i is the imbalance at
face k. No faces in the box |W| ≤ R cost less than

    Σ_ik M_ik − R Σ_k ‖r_k‖_1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.matrices import dense
from formulations.polyhedral import pull, scores
from formulations.polytope import lift
from polyopt.certificates.careful import careful_transposed_product
from polyopt.certificates.certificate import Residual, residual
from polyopt.certificates.rounding import Ball

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.matrices import Matrix, Vector
    from polyopt.certificates.face_box import FaceBox

__all__ = ["balanced", "bound_of", "conditions"]


def bound_of(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], clip: Callable[[Vector], Vector], box: FaceBox
) -> Ball:
    """The best dual value at the multipliers made feasible: as they are, balanced, or 0.

    X, y: samples (n, m) and labels (n,).
    M (n, K): multipliers.
    free (n, K): which of them have room to move.
    clip: makes multipliers keep within their caps.
    box: faces and their box.
    """
    best, feasible, lifted = Ball(0.0), clip(M), lift(X)
    for candidate in (feasible, clip(balanced(X, y, feasible, free, box))):
        off = careful_transposed_product(lifted, y[:, None] * candidate)
        found = Ball(candidate).sum() - box.radius * off.absolute().sum()
        if float(found.lower) > max(float(best.lower), 0.0):
            best = found
    return best


def balanced(X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], box: FaceBox) -> Vector:
    """The multipliers nearest to M, balanced in every entry that is not at the box, if the free ones allow.

    A solver leaves an imbalance within its tolerance, which costs R per unit: much, with large features.
    Arguments as of :func:`bound_of`.
    """
    off, M = pull(X, y[:, None] * M), M.copy()
    for k, rows in enumerate(box.side == 0):
        at = np.flatnonzero(free[:, k])
        if at.size and rows.any():
            chosen = lift(X[at])
            terms = (dense(chosen) * y[at, None]).T[rows]
            size = np.abs(terms).max(axis=1)
            size[size == 0] = 1.0
            M[at, k] -= np.linalg.lstsq(terms / size[:, None], off[k, rows] / size, rcond=None)[0]
    return M


def conditions(
    X: Matrix, y: Vector, M: Vector, unused: Vector, xi: Vector, box: FaceBox, scale: float
) -> list[Residual]:
    """Signs of the multipliers, balance beyond what the box explains, and complementarity.

    Parameters
    ----------
    X, y, M, box
        As of :func:`bound_of`.
    unused : ndarray of shape (n, K) or (n, 1)
        What the caps leave.
    xi : ndarray of that shape
        The slacks.
    scale : float
        What complementarity is measured in.
    """
    largest = float(np.abs(M).max()) or float(unused.max())
    surplus = y[:, None] * scores(X, box.W) - 1.0 + xi
    off, side = pull(X, y[:, None] * M), box.side
    # At R a face may be held by off > 0, at -R by off < 0; between them by nothing.
    unexplained = np.where(side == 0, np.abs(off), np.maximum(-side * off, 0.0))
    cancelled = float(pull(abs(X), np.abs(M)).max()) or 1.0  # the terms, not what is left of them
    found = [
        residual("sign", "margin", -M.min(axis=1), largest),
        residual("sign", "slack", -unused.min(axis=1), largest),
        residual("stationarity", "balance", unexplained.max(axis=1), cancelled),
        residual("complementarity", "margin", np.abs(M * surplus).max(axis=1), scale),
        residual("complementarity", "slack", np.abs(unused * xi).max(axis=1), scale),
    ]
    if box.beyond is not None:
        lost = np.where(side == 0, 0.0, np.abs(off) * (box.radius - np.abs(box.W)))
        found.append(residual("complementarity", "box", lost.max(axis=1), scale))
    return found
