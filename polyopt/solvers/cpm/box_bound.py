"""A lower bound on the polytope machine over faces that lie in a box, from one multiplier a hinge.

Let each coefficient of face k lie between two numbers: w_k ∈ B_k. Then the score s_ik = w_k·x̃_i of a positive
lies between l_ik and h_ik, which are sums over the coefficients. Nothing is assigned to anybody.

Lemma. For λ ∈ [0, 1]^K the best score of sample i is max_k s_ik ≤ c_i + Σ_k λ_k s_ik, where
c_i = max_k [h_ik − λ_k (h_ik − l_ik)] − Σ_k λ_k l_ik.

Proof. s_ik − Σ_j λ_j s_ij = (1 − λ_k) s_ik − Σ_{j≠k} λ_j s_ij ≤ (1 − λ_k) h_ik − Σ_{j≠k} λ_j l_ij, which is
[h_ik − λ_k (h_ik − l_ik)] − Σ_j λ_j l_ij. ∎

Theorem. Let 0 ≤ α_ik ≤ C_i for negatives, 0 ≤ β_i ≤ C_i and λ_i ∈ [0, 1]^K for positives. Every W in the box
costs at least

    Σ_ik α_ik + Σ_i β_i (1 − c_i) + Σ_k min_{w ∈ B_k} ( ‖w‖² − v_k·w ), v_k = Σ_i β_i λ_ik x̃_i − Σ_i α_ik x̃_i.

Proof. C_i [1 + s_ik]_+ ≥ α_ik (1 + s_ik), and C_i [1 − max_k s_ik]_+ ≥ β_i (1 − max_k s_ik), at least
β_i (1 − c_i − Σ_k λ_ik s_ik) by the lemma. Add up, and take the least over the box. ∎

The minimum is one of each coefficient by itself: ½ v_kj, or the end of its interval that is next to it. The
multipliers climb a coordinate at a time; the bound is concave in α and β, and curved by no more than without
the box, so a step that would be right without it raises it here.

The lowest c + λ·s at given scores is that of λ_k = [h_k − t]_+ / (h_k − l_k), where t is the largest end h_k
down to which the θ_k = (s_k − l_k) / (h_k − l_k) of the faces add up to more than 1, or max_k l_k: for given
t = max_k [h_k − λ_k (h_k − l_k)] these are the smallest λ, and 1 − Σ_{h_k > t} θ_k is the slope in t. It is
the concave envelope of the largest score over the box of scores, and differs from it by the square of
the box's size: a bound of second order.

Rounding. Ends of scores are moved outward by what their sums may be off, and the bound is lowered by
a running error bound of everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.compiled import njit
from polyopt.solvers.cpm.face import UNIT, Samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["Box", "bound_box", "box_for"]

_SWEEPS, _FINE_SWEEPS, _CYCLE = 40, 400, 3  # over the multipliers; the last, between two choices of λ
_COARSE, _FINE = 2e-2, 1e-4  # of the distance to the goal: the gain of a cycle for which another is made


class Box(NamedTuple):
    """A box, its multipliers, and room.

    low, high, W, V (K, d): the box, its faces, and v; up (n, K): α, and β in the first column of positives;
    share, least, most (npos, K): λ, l and h; offset (npos,): c; open (n, K): whether a negative's hinge may
    be at its kink.
    """

    low: Vector
    high: Vector
    W: Vector
    V: Vector
    up: Vector
    share: Vector
    least: Vector
    most: Vector
    offset: Vector
    open: NDArray[np.bool_]


def box_for(data: Samples, n_faces: int) -> Box:
    """Room for the box at hand.

    Parameters
    ----------
    data : Samples
        Rows y_i x̃_i of n samples.
    n_faces : int
        K.
    """
    (n, d), npos = data.A.shape, len(data.C) - data.inside
    return Box(
        low=np.zeros((n_faces, d)),
        high=np.zeros((n_faces, d)),
        W=np.zeros((n_faces, d)),
        V=np.zeros((n_faces, d)),
        up=np.zeros((n, n_faces)),
        share=np.zeros((npos, n_faces)),
        least=np.zeros((npos, n_faces)),
        most=np.zeros((npos, n_faces)),
        offset=np.zeros(npos),
        open=np.zeros((n, n_faces), dtype=np.bool_),
    )


@njit(cache=True)
def bound_box(data: Samples, box: Box, goal: float, fine: bool) -> float:
    """Raise the multipliers of the box at hand; return what they prove, less all rounding.

    Parameters
    ----------
    data : Samples
        The samples.
    box : Box
        Its box and its multipliers, which are kept.
    goal : float
        The bound at which it ends.
    fine : bool
        Whether to climb as far as it goes.

    Returns
    -------
    float
        The bound.
    """
    sweeps, least = (_FINE_SWEEPS, _FINE) if fine else (_SWEEPS, _COARSE)
    _ranges(data, box)
    _fix_negatives(data, box)
    _envelopes(data, box)
    _pulls(data, box)
    before = -np.inf
    for _ in range(sweeps // _CYCLE):
        for _ in range(_CYCLE):
            _sweep(data, box)
        value = _value(box, data.inside)
        if value >= goal or value - before <= least * (goal - value):
            break
        before = value
        _envelopes(data, box)
        _pulls(data, box)
    _pulls(data, box)  # anew, for the rounding of many small steps
    return _value(box, data.inside) - _error(data, box)


@njit(cache=True)
def _ranges(data: Samples, box: Box) -> None:
    """The ends of the positives' scores, moved outward by their rounding."""
    K, d = box.low.shape
    for p in range(len(box.offset)):
        for k in range(K):
            low, high, size = 0.0, 0.0, 0.0
            for j in range(d):
                x = data.A[data.inside + p, j]
                one, other = x * box.low[k, j], x * box.high[k, j]
                low += min(one, other)
                high += max(one, other)
                size += max(abs(one), abs(other))
            off = 1.01 * UNIT * (d + 2) * size
            box.least[p, k], box.most[p, k] = low - off, high + off


@njit(cache=True)
def _fix_negatives(data: Samples, box: Box) -> None:
    """Multipliers of negatives that pay all over the box, or nowhere: the best there are."""
    K, d = box.low.shape
    for i in range(data.inside):
        for k in range(K):
            low, high = 1.0, 1.0
            for j in range(d):
                one, other = data.A[i, j] * box.low[k, j], data.A[i, j] * box.high[k, j]
                low -= max(one, other)
                high -= min(one, other)
            box.open[i, k] = low < 0.0 < high
            if not box.open[i, k]:
                box.up[i, k] = data.C[i] if low >= 0.0 else 0.0


@njit(cache=True)
def _envelopes(data: Samples, box: Box) -> None:
    """Choose λ at the present faces, and what then is c; a sample that never pays gets no multiplier."""
    for p in range(len(box.offset)):
        top = box.least[p].max()
        if top >= 1.0:
            box.up[data.inside + p, 0] = 0.0
            box.share[p, :] = 0.0
            box.offset[p] = 1.0
            continue
        t = _turn(data, box, p, top)
        largest, size, sum_of_least = -np.inf, 0.0, 0.0
        for k in range(box.share.shape[1]):
            low, high = box.least[p, k], box.most[p, k]
            share = min(max((high - t) / (high - low), 0.0), 1.0) if high > t else 0.0
            box.share[p, k] = share
            largest = max(largest, high - share * (high - low))
            sum_of_least += share * low
            size += abs(high) + abs(low)
        box.offset[p] = largest - sum_of_least + 1.01 * UNIT * (8 + 2 * box.share.shape[1]) * size


@njit(cache=True)
def _turn(data: Samples, box: Box, p: int, top: float) -> float:
    """The t at which the slope of the envelope turns, for the present scores of positive p."""
    K, d = box.low.shape
    t, total = np.inf, 0.0
    for _ in range(K):
        following, chosen = -np.inf, -1
        for k in range(K):
            if following < box.most[p, k] < t:
                following, chosen = box.most[p, k], k
        if chosen < 0 or following <= top:
            return top
        t = following
        for k in range(K):
            if box.most[p, k] == t:
                score = 0.0
                for j in range(d):
                    score += data.A[data.inside + p, j] * box.W[k, j]
                total += min(max((score - box.least[p, k]) / (t - box.least[p, k]), 0.0), 1.0)
        if total > 1.0:
            return t
    return top


@njit(cache=True)
def _pulls(data: Samples, box: Box) -> None:
    """The pulls v, and the faces, from the multipliers."""
    n, d = data.A.shape
    box.V[:, :] = 0.0
    for i in range(n):
        for k in range(len(box.low)):
            up = box.up[i, k] if i < data.inside else box.up[i, 0] * box.share[i - data.inside, k]
            if up != 0.0:
                for j in range(d):
                    box.V[k, j] += up * data.A[i, j]
    for k in range(len(box.low)):
        _follow(box, k)


@njit(cache=True)
def _follow(box: Box, k: int) -> None:
    """The face that belongs to v_k."""
    for j in range(box.low.shape[1]):
        box.W[k, j] = min(max(0.5 * box.V[k, j], box.low[k, j]), box.high[k, j])


@njit(cache=True)
def _sweep(data: Samples, box: Box) -> None:
    """Raise every multiplier once."""
    n, d = data.A.shape
    K = len(box.low)
    for i in range(data.inside):
        for k in range(K):
            if box.open[i, k]:
                slope = 1.0
                for j in range(d):
                    slope -= data.A[i, j] * box.W[k, j]
                new = min(max(box.up[i, k] + 2.0 * slope / data.q[i], 0.0), data.C[i])
                step = new - box.up[i, k]
                if step != 0.0:
                    box.up[i, k] = new
                    for j in range(d):
                        box.V[k, j] += step * data.A[i, j]
                    _follow(box, k)
    for i in range(data.inside, n):
        p = i - data.inside
        slope, square = 1.0 - box.offset[p], 0.0
        for k in range(K):
            share = box.share[p, k]
            if share > 0.0:
                square += share * share
                for j in range(d):
                    slope -= share * data.A[i, j] * box.W[k, j]
        if square == 0.0:
            box.up[i, 0] = data.C[i] if slope > 0.0 else 0.0
            continue
        new = min(max(box.up[i, 0] + 2.0 * slope / (data.q[i] * square), 0.0), data.C[i])
        if new != box.up[i, 0]:
            _move(data, box, i, new)


@njit(cache=True)
def _move(data: Samples, box: Box, i: int, new: float) -> None:
    """Set the multiplier of a positive."""
    step = new - box.up[i, 0]
    box.up[i, 0] = new
    for k in range(len(box.low)):
        share = box.share[i - data.inside, k]
        if share > 0.0:
            for j in range(data.A.shape[1]):
                box.V[k, j] += step * share * data.A[i, j]
            _follow(box, k)


@njit(cache=True)
def _value(box: Box, inside: int) -> float:
    """The bound of the theorem, as computed."""
    value = 0.0
    for i in range(len(box.up)):
        if i < inside:
            for k in range(len(box.low)):
                value += box.up[i, k]
        else:
            value += box.up[i, 0] * (1.0 - box.offset[i - inside])
    for k in range(len(box.low)):
        for j in range(box.low.shape[1]):
            value += box.W[k, j] * (box.W[k, j] - box.V[k, j])
    return value


@njit(cache=True)
def _error(data: Samples, box: Box) -> float:
    """By how much the bound may be too high: v by its sums, within the box, and the sum of all terms.

    The least of ‖w‖² − v·w over the box changes with v_j by the largest |w_j| there at most. What is computed
    of it is the value at W, where W may be off its place as v is, and that is within the same change.
    """
    n, d = data.A.shape
    terms, off = 0.0, 0.0
    for i in range(n):
        for k in range(len(box.low)):
            up = box.up[i, k] if i < data.inside else box.up[i, 0] * box.share[i - data.inside, k]
            terms += up if i < data.inside else 0.0
            if up != 0.0:
                for j in range(d):
                    off += up * abs(data.A[i, j]) * max(abs(box.low[k, j]), abs(box.high[k, j]))
        if i >= data.inside:
            terms += box.up[i, 0] * (1.0 + abs(box.offset[i - data.inside]))
    for k in range(len(box.low)):
        for j in range(d):
            terms += abs(box.W[k, j]) * (abs(box.W[k, j]) + abs(box.V[k, j]))
    count = len(box.up) * len(box.low) + 2 * box.low.size
    return 1.02 * UNIT * ((n + 6) * 2.0 * off + (count + 8) * terms)
