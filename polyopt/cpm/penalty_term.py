"""The price on the weights of faces in a certificate: values and bounds as balls.

The price, its letters and the map from pulls to faces are in :mod:`formulations.face_penalty`. For
margin="worst" the bound Σ α − ¼ (Σ_k ‖N_k‖)² holds at whatever the rows hold against the pulls; the best r
and γ for given q are known, and q is taken from the faces and the pulls (:func:`held_by_groups`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import Residual, residual
from polyopt.linalg.rounding import Ball

if TYPE_CHECKING:
    from formulations.face_penalty import FacePenalty
    from formulations.language.types import Vector

__all__ = [
    "checked_penalty",
    "cut_sizes",
    "held_by_groups",
    "left_squares",
    "price_of",
    "root",
    "sign_residuals",
]


def checked_penalty(penalty: FacePenalty | None, n_features: int) -> FacePenalty | None:
    """The price, None where nothing is priced; one for other features is refused."""
    if penalty is None or penalty.is_absent:
        return None
    return penalty.checked(n_features)


def sign_residuals(penalty: FacePenalty, asked: Vector, W: Vector) -> list[Residual]:
    """The violation of the signs by the faces given; no residual if no sign is asked."""
    if not penalty.signs.any():
        return []
    return [residual("primal", "sign", np.abs(asked - W), float(np.abs(asked).max()))]


def price_of(penalty: FacePenalty, W: Vector) -> Ball:
    """λ Σ |W_kj| + τ Σ_l ‖W of group l‖ for some faces (K, m+1)."""
    faces = W[:, :-1]
    found = penalty.l1 * Ball(np.abs(faces)).sum()
    if penalty.group == 0.0:
        return found
    return found + penalty.group * _lengths(penalty, Ball(faces.T)).sum()


def left_squares(penalty: FacePenalty, pulled: Ball, held: Vector | None = None) -> Ball:
    """Squares of what is left of some pulls.

    pulled (m+1, K): the pulls, a column for each face.
    held (K, m): q, of length τ at most in each group, in place of the best one for the sum of all squares.
    Returns: the sum of all squares, a number; with `held`, that of each face, shape (K,).
    """
    faces, bias = pulled[:-1], pulled[-1]
    cut = cut_sizes(penalty, faces if held is None else faces - held.T)
    if held is not None:
        return cut.square_sum(axis=0) + bias * bias
    if penalty.group > 0.0:
        cut = (_lengths(penalty, cut) - penalty.group).positive()
    return cut.square_sum() + bias.square_sum()


def cut_sizes(penalty: FacePenalty, pulled: Ball) -> Ball:
    """The sizes of pulls (m, K) of weights, without biases, as the price λ and the signs leave them."""
    up, down = (threshold[:, None] for threshold in penalty.thresholds)
    one, other = np.isfinite(up).astype(float), np.isfinite(down).astype(float)
    above = (pulled - np.where(one, up, 0.0)).positive().signed(one)
    below = (-pulled - np.where(other, down, 0.0)).positive().signed(other)
    return above + below  # of each pair one is 0


def held_by_groups(penalty: FacePenalty, V: Vector, W: Vector) -> Vector:
    """The multipliers q (K, m) of the groups against the pulls V (K, m+1) at the faces W; 0 without groups.

    Where a group is in use, τ times its direction; elsewhere what of the pulls it can hold.
    """
    if penalty.group == 0.0:
        return np.zeros((len(V), penalty.n_features))
    own = penalty.lengths(W[:, :-1])[penalty.groups] > 0.0
    along = np.where(own, W[:, :-1], penalty.cut(V)[:, :-1])
    lengths = penalty.lengths(along)[penalty.groups]
    factor = np.where(own, np.inf, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum(factor, penalty.group / lengths)
    within = 1.0 - 1e-12  # times a vector of length τ: no longer than τ, whatever its rounding
    return np.asarray(np.where(lengths > 0.0, within * share * along, 0.0))


def _lengths(penalty: FacePenalty, sizes: Ball) -> Ball:
    """The length of each group of rows of (m, K)."""
    squares = sizes.square_sum(axis=1)
    counts = np.bincount(penalty.groups, minlength=penalty.n_groups)
    if (counts <= 1).all():
        order = np.argsort(penalty.groups, kind="stable")
        return sizes[order].norm(axis=1)
    parts = [squares[penalty.groups == group].sum() for group in range(penalty.n_groups)]
    return root(Ball(np.array([part.mid for part in parts]), np.array([part.rad for part in parts])))


def root(squares: Ball) -> Ball:
    """The square roots: between those of the ends."""
    low = np.sqrt(np.maximum(squares.lower, 0.0))
    high = np.nextafter(np.sqrt(np.maximum(squares.upper, 0.0)), np.inf)
    mid = 0.5 * (low + high)
    return Ball(mid, np.nextafter(np.maximum(high - mid, mid - np.nextafter(low, -np.inf)), np.inf))
