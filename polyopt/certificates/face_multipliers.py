"""What multipliers prove of faces in a box: the bound, and how far they are from the optimality conditions.

For multipliers M of a linear program of the polyhedral family, r_k = Σ_i M_ik y_i x̃_i is the imbalance at
face k. No faces in the box |W| ≤ R cost less than

    Σ_ik M_ik − R Σ_k ‖r_k‖_1.

With a price λ on the weights and signs to keep (:mod:`formulations.polyceptron_sparse`) a feature's imbalance
costs R (|r_kj| − λ)_+, and nothing on the side that its sign forbids; that of a bias is not priced. With a
price τ of groups over all faces any q that is no longer than τ in a group is taken off its imbalances first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.matrices import dense
from formulations.polyhedral import pull, scores
from formulations.polytope import lift
from polyopt.certificates.careful import careful_transposed_product
from polyopt.certificates.certificate import Residual, residual
from polyopt.certificates.face_price import held_of_sums, left_sum
from polyopt.certificates.rounding import UNIT, Ball

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Matrix, Vector
    from polyopt.certificates.face_box import FaceBox

__all__ = ["balanced", "bound_of", "conditions", "repaired"]

_NEAR = 1e-6  # relative to λ: an imbalance so little beyond it is a solver's tolerance, not the box's doing
_NEAR_GROUPS = 1e-3  # the same of a group, whose program is solved by an interior point
_LESS = 1.0 - 1e-12  # times what comes up to λ: not beyond it, whatever its rounding
_REPAIRS = 20  # rounds of repair


def bound_of(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], clip: Callable[[Vector], Vector], box: FaceBox,
    penalty: FacePenalty | None = None,
) -> Ball:  # fmt: skip
    """The best dual value at the multipliers made feasible: as they are, balanced, repaired, shrunk, or 0.

    Parameters
    ----------
    X, y
        Samples (n, m) and labels (n,).
    M : ndarray of shape (n, K)
        Multipliers.
    free : ndarray of bool, shape (n, K)
        Which of them have room to move.
    clip : callable
        Makes multipliers keep within their caps.
    box : FaceBox
        Faces and their box.
    penalty : FacePenalty, optional
        The price.
    """
    best, feasible, lifted = Ball(0.0), clip(M), lift(X)
    tried = [feasible, clip(balanced(X, y, feasible, free, box, penalty))]
    if penalty is not None and penalty.group > 0.0:
        tried += [_shorter(X, y, each, penalty) for each in tried]
    elif penalty is not None:
        tried.append(repaired(X, y, feasible, free, clip, box, penalty))
        if penalty.l1 > 0.0:
            tried += [_shrunk(X, y, each, penalty) for each in tried[1:]]
    for candidate in tried:
        off = careful_transposed_product(lifted, y[:, None] * candidate)
        found = Ball(candidate).sum() - box.radius * _lost(off, penalty)
        if float(found.lower) > max(float(best.lower), 0.0):
            best = found
    return best


def _lost(off: Ball, penalty: FacePenalty | None) -> Ball:
    """What an imbalance (m+1, K) costs in a box of radius 1."""
    if penalty is None:
        return off.absolute().sum()
    return left_sum(penalty, off)


def _shrunk(X: Matrix, y: Vector, M: Vector, penalty: FacePenalty) -> Vector:
    """Multipliers a little smaller, where an imbalance is a little beyond the price.

    What a solver's tolerance leaves above λ would cost R per unit; this costs as much of Σ M, relative.
    """
    up, down = penalty.thresholds
    off = pull(X, y[:, None] * M)[:, :-1]
    priced = np.where(off > 0.0, np.where(np.isfinite(up), off, 0.0), np.where(np.isfinite(down), -off, 0.0))
    beyond = (priced > _LESS * penalty.l1) & (priced <= (1.0 + _NEAR) * penalty.l1)
    ratio = np.divide(_LESS * penalty.l1, priced, out=np.ones_like(priced), where=beyond)
    return np.asarray(M * np.minimum(ratio, 1.0).min(axis=1, initial=1.0))


def _shorter(X: Matrix, y: Vector, M: Vector, penalty: FacePenalty) -> Vector:
    """All multipliers smaller by as much as brings every group that is a little beyond τ down to it."""
    lengths = penalty.lengths(penalty.cut(pull(X, y[:, None] * M))[:, :-1])
    beyond = (lengths > _LESS * penalty.group) & (lengths <= (1.0 + _NEAR_GROUPS) * penalty.group)
    ratio = np.divide(_LESS * penalty.group, lengths, out=np.ones_like(lengths), where=beyond)
    return np.asarray(M * ratio.min(initial=1.0))


def balanced(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], box: FaceBox, penalty: FacePenalty | None = None
) -> Vector:
    """The multipliers nearest to M, balanced in every entry that is not at the box, if the free ones allow.

    A solver leaves an imbalance within its tolerance, which costs R per unit: much, with large features. With
    a price the imbalance of a weight in use is to be λ, and that of one at zero not beyond it; with a price
    of groups biases alone are balanced. Arguments as of :func:`bound_of`.
    """
    off = pull(X, y[:, None] * M)
    needed, wrong = box.side == 0, off
    if penalty is not None and penalty.group > 0.0:
        needed[:, :-1] = False
    elif penalty is not None:
        W, cut = box.W[:, :-1], penalty.cut(off)
        wrong = cut.copy()
        wrong[:, :-1] = np.where(W != 0, off[:, :-1] - penalty.l1 * np.sign(W), cut[:, :-1])
        needed[:, :-1] &= (W != 0) | (cut[:, :-1] != 0)
    return _moved(X, y, M, free, needed, wrong)


def repaired(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], clip: Callable[[Vector], Vector], box: FaceBox,
    penalty: FacePenalty,
) -> Vector:  # fmt: skip
    """Multipliers moved until no imbalance is beyond λ, if the free ones allow.

    What weights are in use does not count: one that is zero but for a solver's tolerance would ask for more
    than the free ones can give. Each round moves them as little as brings the imbalances that are beyond λ,
    and those that were so in a round before, to λ, and that of the bias to 0; those that come to a cap are
    free no more. Arguments as of :func:`bound_of`; M keeps within its caps.
    """
    free, sides = free.copy(), np.zeros((M.shape[1], X.shape[1] + 1))
    up, down = (np.append(side, 0.0) for side in penalty.thresholds)
    sides[:, -1] = 1.0
    for _ in range(_REPAIRS):
        off = pull(X, y[:, None] * M)
        cut = np.where(box.side == 0, penalty.cut(off), 0.0)
        if (np.abs(cut) <= 4.0 * UNIT * pull(abs(X), M)).all():
            break
        sides = np.where(cut != 0.0, np.sign(cut), sides)
        ends = _LESS * np.where(sides > 0.0, up, -down)
        asked = _moved(X, y, M, free, (sides != 0.0) & (box.side == 0), off - ends)
        M = clip(asked)
        free &= asked == M
    return M


def _moved(
    X: Matrix, y: Vector, M: Vector, free: NDArray[np.bool_], needed: NDArray[np.bool_], wrong: Vector
) -> Vector:
    """The multipliers nearest to M, of which the free ones take what is wrong (K, m+1) off needed entries."""
    M = M.copy()
    for k, rows in enumerate(needed):
        at = np.flatnonzero(free[:, k])
        if at.size and rows.any():
            chosen = lift(X[at])
            terms = (dense(chosen) * y[at, None]).T[rows]
            size = np.abs(terms).max(axis=1)
            size[size == 0] = 1.0
            M[at, k] -= np.linalg.lstsq(terms / size[:, None], wrong[k, rows] / size, rcond=None)[0]
    return M


def conditions(
    X: Matrix, y: Vector, M: Vector, unused: Vector, xi: Vector, box: FaceBox, scale: float,
    penalty: FacePenalty | None = None,
) -> list[Residual]:  # fmt: skip
    """Signs of the multipliers, balance beyond what box and price explain, and complementarity.

    Parameters
    ----------
    X, y, M, box, penalty
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
    off, side, priced = pull(X, y[:, None] * M), box.side, list[Residual]()
    if penalty is not None:
        W, (r, _, delta) = box.W[:, :-1], penalty.held(off)
        gained, free = penalty.l1 * np.abs(W) - r * W, delta * np.abs(W)
        priced = [residual("complementarity", "price", gained.max(axis=1, initial=0.0), scale)]
        if penalty.signs.any():
            priced.append(residual("complementarity", "sign", free.max(axis=1, initial=0.0), scale))
        off = penalty.cut(off)
        if penalty.group > 0.0:
            q = held_of_sums(penalty, off[:, :-1])
            off[:, :-1] -= q
            short = penalty.group * float(penalty.lengths(W).sum()) - (q * W).sum(axis=1).sum()
            priced.append(residual("complementarity", "group", np.array([max(short, 0.0)]), scale))
    # At R a face may be held by off > 0, at -R by off < 0; between them by nothing.
    unexplained = np.where(side == 0, np.abs(off), np.maximum(-side * off, 0.0))
    cancelled = float(pull(abs(X), np.abs(M)).max()) or 1.0  # the terms, not what is left of them
    found = [
        residual("sign", "margin", -M.min(axis=1), largest),
        residual("sign", "slack", -unused.min(axis=1), largest),
        residual("stationarity", "balance", unexplained.max(axis=1), cancelled),
        residual("complementarity", "margin", np.abs(M * surplus).max(axis=1), scale),
        residual("complementarity", "slack", np.abs(unused * xi).max(axis=1), scale),
        *priced,
    ]
    if box.beyond is not None:
        lost = np.where(side == 0, 0.0, np.abs(off) * (box.radius - np.abs(box.W)))
        found.append(residual("complementarity", "box", lost.max(axis=1), scale))
    return found
