"""What a price on the weights of faces makes of a certificate: values and bounds as balls.

The price, its letters and the map from pulls to faces are in :mod:`formulations.face_penalty`. For
margin="worst" the bound Σ α − ¼ (Σ_k ‖N_k‖)² holds at whatever the rows hold against the pulls; the best r
and γ for given q are known, and q is taken from the faces and the pulls (:func:`held_by_groups`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.certificates.certificate import Residual, residual
from polyopt.certificates.rounding import UNIT, Ball

if TYPE_CHECKING:
    from formulations.face_penalty import FacePenalty
    from formulations.matrices import Vector

__all__ = [
    "checked_penalty",
    "cut_sizes",
    "held_by_groups",
    "held_of_sums",
    "left_squares",
    "left_sum",
    "price_of",
    "priced_bound",
    "root",
    "sign_residuals",
]

_WITHIN = 1.0 - 1e-12  # times a vector of length τ: no longer than τ, whatever its rounding


def checked_penalty(penalty: FacePenalty | None, n_features: int) -> FacePenalty | None:
    """The price, None where nothing is priced; one for other features is refused."""
    if penalty is None or penalty.is_absent:
        return None
    return penalty.checked(n_features)


def sign_residuals(penalty: FacePenalty, asked: Vector, W: Vector) -> list[Residual]:
    """How far the faces given are from those that keep their signs; none where no sign is asked."""
    if not penalty.signs.any():
        return []
    return [residual("primal", "sign", np.abs(asked - W), float(np.abs(asked).max()))]


def priced_bound(penalty: FacePenalty, loss: Ball, pulls: Ball, W: Vector, ridge: float) -> Ball:
    """A bound on the least of a convex loss with a ridge and a price, or 0 if that is less.

    The loss is at least loss(W) − P·(U − W) at any faces U, for its pulls P at W, and so the whole is at
    least

        loss(W) + P·W − ‖shrunk P‖² / (2ρ).

    Parameters
    ----------
    penalty : FacePenalty
        The price.
    loss : Ball
        A convex function of faces at W, never below 0.
    pulls : Ball of shape (m+1, K)
        The negative of its slope there, a column for each face.
    W : ndarray of shape (K, m+1)
        The faces.
    ridge : float
        ρ, positive, on the biases as well.
    """
    lost = float(left_squares(penalty, pulls).upper / ridge)
    found = loss + (pulls * W.T).sum() - Ball(0.5 * lost, 2.0 * UNIT * lost)
    return Ball(0.0) if not found.lower > 0.0 else found


def price_of(penalty: FacePenalty, W: Vector) -> Ball:
    """λ Σ |W_kj| + τ Σ_l ‖W of group l‖ for some faces (K, m+1)."""
    faces = W[:, :-1]
    found = penalty.l1 * Ball(np.abs(faces)).sum()
    if penalty.group == 0.0:
        return found
    return found + penalty.group * _lengths(penalty, Ball(faces.T)).sum()


def left_squares(penalty: FacePenalty, pulled: Ball, held: Vector | None = None) -> Ball:
    """Squares of what is left of some pulls.

    Parameters
    ----------
    penalty : FacePenalty
        The price.
    pulled : Ball of shape (m+1, K)
        The pulls, a column for each face.
    held : ndarray of shape (K, m), optional
        q, of length τ at most in each group, in place of the best one for the sum of all squares.

    Returns
    -------
    Ball
        The sum of all squares, a number; with `held`, that of each face, shape (K,).
    """
    faces, bias = pulled[:-1], pulled[-1]
    cut = cut_sizes(penalty, faces if held is None else faces - held.T)
    if held is not None:
        return cut.square_sum(axis=0) + bias * bias
    if penalty.group > 0.0:
        cut = (_lengths(penalty, cut) - penalty.group).positive()
    return cut.square_sum() + bias.square_sum()


def left_sum(penalty: FacePenalty, pulled: Ball) -> Ball:
    """The sizes of pulls (m+1, K) as prices and signs leave them, added up."""
    faces, bias = pulled[:-1], pulled[-1].absolute().sum()
    left = cut_sizes(penalty, faces)
    if penalty.group > 0.0:
        q = held_of_sums(penalty, penalty.cut(pulled.mid.T)[:, :-1])
        short = _lengths(penalty, left).upper <= penalty.group  # of such groups nothing is left
        left = cut_sizes(penalty, faces - q.T).signed(~short[penalty.groups][:, None])
    return left.sum() + bias


def held_of_sums(penalty: FacePenalty, cut: Vector) -> Vector:
    """What the price of groups holds of pulls (K, m) after its first step where the sum of the rest is least.

    Of each pull as much as of the others, or all of it, τ long together: q_kj = ± min(|cut_kj|, θ).
    """
    lengths = penalty.lengths(cut)
    # Of a group that comes up to τ rounding does not tell whether it is longer.
    q = np.where(lengths[penalty.groups] > _WITHIN * penalty.group, _WITHIN, 1.0) * cut
    for group in np.flatnonzero(lengths > penalty.group):
        own = penalty.groups == group
        sizes = np.sort(np.abs(cut[:, own]), axis=None)
        whole = np.concatenate([[0.0], np.cumsum(sizes**2)[:-1]])  # squares of the smaller ones
        levels = np.sqrt(np.maximum(penalty.group**2 - whole, 0.0) / np.arange(len(sizes), 0, -1))
        level = _WITHIN * levels[int(np.argmax(levels <= sizes))]
        q[:, own] = np.sign(cut[:, own]) * np.minimum(np.abs(_WITHIN * cut[:, own]), level)
    return q


def cut_sizes(penalty: FacePenalty, pulled: Ball) -> Ball:
    """The sizes of pulls (m, K) of weights, without biases, as the price λ and the signs leave them."""
    up, down = (threshold[:, None] for threshold in penalty.thresholds)
    one, other = np.isfinite(up).astype(float), np.isfinite(down).astype(float)
    above = (pulled - np.where(one, up, 0.0)).positive().signed(one)
    below = (-pulled - np.where(other, down, 0.0)).positive().signed(other)
    return above + below  # of each pair one is 0


def held_by_groups(penalty: FacePenalty, V: Vector, W: Vector) -> Vector:
    """What the price of groups holds against the pulls V (K, m+1) at the faces W, q (K, m); 0 without one.

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
    return np.asarray(np.where(lengths > 0.0, _WITHIN * share * along, 0.0))


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
