"""The penalty on the weights of faces in a certificate: values and bounds as balls.

The penalty, its letters and the map from pulls v to faces are in :mod:`formulations.face_penalty`. For
margin="worst" the bound Σ α − ¼ (Σ_k ‖N_k‖)² holds for any multipliers of the penalty's rows; the best r and
γ for given q are known, and q is taken from the faces and the pulls (:func:`held_by_groups`).
"""

from __future__ import annotations

import numpy as np

from formulations.face_penalty import FacePenalty
from formulations.language.types import Vector
from polyopt.certificates.certificate import Residual, residual
from polyopt.linalg.rounding import Ball


def checked_penalty(penalty: FacePenalty | None, n_features: int) -> FacePenalty | None:
    """Return the penalty, or None if it is zero; ValueError if it is for other features."""
    if penalty is None or penalty.is_absent:
        return None
    return penalty.checked(n_features)


def sign_residuals(penalty: FacePenalty, asked: Vector, W: Vector) -> list[Residual]:
    """Return the violation of the signs by the given faces; no residual without signs."""
    if not penalty.signs.any():
        return []
    return [residual("primal", "sign", np.abs(asked - W), float(np.abs(asked).max()))]


def price_of(penalty: FacePenalty, W: Vector) -> Ball:
    """Return λ Σ |W_kj| + τ Σ_l ‖W of group l‖ for faces (K, m+1)."""
    faces = W[:, :-1]
    found = penalty.l1 * Ball(np.abs(faces)).sum()
    if penalty.group == 0.0:
        return found
    return found + penalty.group * _lengths(penalty, Ball(faces.T)).sum()


def left_squares(penalty: FacePenalty, pulled: Ball, held: Vector | None = None) -> Ball:
    """Return the sum of squares of what the penalty leaves of pulls (m+1, K).

    held (K, m): q, of length τ at most in each group, instead of the best one for the sum of all squares; the
        sums are then per face, shape (K,).
    """
    faces, bias = pulled[:-1], pulled[-1]
    cut = cut_sizes(penalty, faces if held is None else faces - held.T)
    if held is not None:
        return cut.square_sum(axis=0) + bias * bias
    if penalty.group > 0.0:
        cut = (_lengths(penalty, cut) - penalty.group).positive()
    return cut.square_sum() + bias.square_sum()


def cut_sizes(penalty: FacePenalty, pulled: Ball) -> Ball:
    """Return the sizes of pulls (m, K) of weights after the penalty λ and the signs."""
    up, down = (threshold[:, None] for threshold in penalty.thresholds)
    one, other = np.isfinite(up).astype(float), np.isfinite(down).astype(float)
    above = (pulled - np.where(one, up, 0.0)).positive().signed(one)
    below = (-pulled - np.where(other, down, 0.0)).positive().signed(other)
    return above + below  # of each pair one is 0


def held_by_groups(penalty: FacePenalty, V: Vector, W: Vector) -> Vector:
    """Return the groups' multipliers q (K, m) for pulls V (K, m+1) at faces W; 0 without groups.

    A group in use has τ times its direction; another one as much of the pulls as τ allows.
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
    """Return the length of each group of rows of (m, K)."""
    squares = sizes.square_sum(axis=1)
    counts = np.bincount(penalty.groups, minlength=penalty.n_groups)
    if (counts <= 1).all():
        order = np.argsort(penalty.groups, kind="stable")
        return sizes[order].norm(axis=1)
    parts = [squares[penalty.groups == group].sum() for group in range(penalty.n_groups)]
    return root(Ball(np.array([part.mid for part in parts]), np.array([part.rad for part in parts])))


def root(squares: Ball) -> Ball:
    """Return the square roots, from those of the ends."""
    low = np.sqrt(np.maximum(squares.lower, 0.0))
    high = np.nextafter(np.sqrt(np.maximum(squares.upper, 0.0)), np.inf)
    mid = 0.5 * (low + high)
    return Ball(mid, np.nextafter(np.maximum(high - mid, mid - np.nextafter(low, -np.inf)), np.inf))
