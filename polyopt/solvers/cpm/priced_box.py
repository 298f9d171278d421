"""A lower bound on what a face costs at given prices of the positives, over faces that lie in a box.

The price λ_i ≥ 0 of a positive is what it may cost at most: a face pays min(C_i [1 − s_i]_+, λ_i) for it, or
passes it on (:mod:`polyopt.outer.cpm.prices`). Rows of the samples are y_i x̃_i, r_i = y_i x̃_i·w, and

    G(w) = ‖w‖² + Σ_neg C_i [1 − r_i]_+ + Σ_pos min(C_i [1 − r_i]_+, λ_i).

Let each coefficient of w lie between two numbers, w ∈ B. Then r_i lies between l_i and u_i.

Theorem. For each sample let a_i (1 − r) + c_i be no more than its term in G for all r in [l_i, u_i]. Then

    G(w) ≥ Σ c_i + Σ a_i + Σ_j min_{w_j ∈ B_j} ( w_j² − v_j w_j ), v = Σ a_i y_i x̃_i, for all w ∈ B.

If the right-hand side is D, v̂_j the minimiser of its j-th term, and G(w) ≤ U, then |w_j − ½ v_j| ≤ ρ_j with
ρ_j² = U − D + (v̂_j − ½ v_j)².

Proof. Add the terms up. The j-th term of the minimum is (w_j − ½ v_j)² less a constant, so what G(w) is over
D is at least (w_j − ½ v_j)² − (v̂_j − ½ v_j)². ∎

For negatives 0 ≤ a_i ≤ C_i and c_i = 0. For positives the term is λ_i up to ϱ_i = 1 − λ_i / C_i, falls to 0
at 1, and is 0 from there on:

- where u_i ≤ ϱ_i, a_i = 0 and c_i = λ_i;
- where l_i ≥ ϱ_i, as for negatives;
- where u_i ≥ 1, 0 ≤ a_i ≤ λ_i / (1 − l_i) and c_i = 0: the term is concave between l_i and 1, at whose ends
  a_i (1 − r) is no more than it, and is not negative from there on;
- else the term is concave between l_i and u_i, so any a_i and c_i will do that do at these ends: those of
  the chord.

Each is the convex envelope of its term, so the bound is of second order in the size of the box, and exact
once no positive may be on two pieces. The multipliers climb a coordinate at a time.

Rounding. Ends are moved outward by what their sums may be off, c_i is what both ends allow, the bound is
lowered by a running error bound of all else, and ρ_j is widened by what v_j may be off.

:func:`priced_face` finds a good face at the same prices, by alternating, without a proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.compiled import njit
from polyopt.operands import put
from polyopt.solvers.cpm.face import UNIT, Samples, climb, hyperplane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["FaceBox", "examine_face_box", "face_box_for", "price_of", "priced_face"]

_ROUNDS, _FACE_SWEEPS = 30, np.int64(300)  # of alternating at most, and sweeps of each
_FACE_REL_GAIN = 1e-9  # over all costs, of a sweep after which another is made
# Sweeps over the multipliers, coarse and fine, and how many of them between two looks at the bound.
_SWEEPS, _FINE_SWEEPS, _CYCLE = 60, 2000, 4
_MIN_CYCLE_GAIN = 3e-2  # of what is missing: the gain of a cycle for which another is made
_MAX_WIDTH_RATIO = 0.7  # of its width: an interval that shrinks to less is worth another bound
_MAX_BOUNDS = 4  # bounds of one box, after it shrank
_CODES = 255  # parts of a cost
_CUT_MARGIN = 0.25  # of an interval, at each end, where it is not cut
_MIN_REL_LOSS = 1e-3  # of what is missing: a loss by envelopes that is none
_MIN_REL_WIDTH = 1e-11  # of its ends: an interval that is no longer cut


class FaceBox(NamedTuple):
    """A box and room.

    low, high, w, v (d,): the box, its face, and v; up, cap, shift (n,): a, its largest value, and c;
    least, most (n,): the ends l and u; open (n,): the samples whose multipliers may move.
    """

    low: Vector
    high: Vector
    w: Vector
    v: Vector
    up: Vector
    cap: Vector
    shift: Vector
    least: Vector
    most: Vector
    open: NDArray[Any]


def face_box_for(data: Samples) -> FaceBox:
    """Room for the box at hand."""
    n, d = data.A.shape
    return FaceBox(
        low=np.zeros(d),
        high=np.zeros(d),
        w=np.zeros(d),
        v=np.zeros(d),
        up=np.zeros(n),
        cap=np.zeros(n),
        shift=np.zeros(n),
        least=np.zeros(n),
        most=np.zeros(n),
        open=np.zeros(n, np.int64),
    )


@njit(cache=True)
def price_of(data: Samples, prices: Vector, w: Vector) -> float:
    """G(w)."""
    n, d = data.A.shape
    cost = 0.0
    for j in range(d):
        cost += w[j] * w[j]
    for i in range(n):
        r = 1.0
        for j in range(d):
            r -= data.A[i, j] * w[j]
        paid = data.C[i] * max(r, 0.0)
        cost += min(paid, prices[i - data.inside]) if i >= data.inside else paid
    return cost


@njit(cache=True)
def _set_up(data: Samples, prices: Vector, box: FaceBox) -> int:
    """The envelopes of all terms in the box, and the samples that are open; how many these are."""
    n, d = data.A.shape
    count = 0
    for i in range(n):
        low, high, size = 0.0, 0.0, 0.0
        for j in range(d):
            one, other = data.A[i, j] * box.low[j], data.A[i, j] * box.high[j]
            low += min(one, other)
            high += max(one, other)
            size += max(abs(one), abs(other))
        off = 1.01 * UNIT * (d + 2) * size
        low, high = low - off, high + off
        box.least[i], box.most[i] = low, high
        C = data.C[i]
        price = prices[i - data.inside] if i >= data.inside else np.inf
        box.shift[i], box.cap[i] = 0.0, C
        fixed = -1.0
        if low >= 1.0 or C == 0.0:
            fixed = 0.0
        elif C * (1.0 - low) <= price:
            if high <= 1.0:
                fixed = C
        elif C * (1.0 - high) >= price:
            fixed, box.shift[i] = 0.0, price
        elif high >= 1.0:
            box.cap[i] = price / (1.0 - low) * (1.0 - 8.0 * UNIT)
        else:
            fixed = min(max((price - C * (1.0 - high)) / (high - low), 0.0), C)
            size = price + (C + fixed) * (2.0 + abs(low) + abs(high))
            box.shift[i] = min(price - fixed * (1.0 - low), (C - fixed) * (1.0 - high)) - 8.0 * UNIT * size
        if fixed >= 0.0:
            box.up[i] = fixed
        else:
            box.up[i] = min(box.up[i], box.cap[i])
            box.open[count] = i
            count += 1
    return count


@njit(cache=True)
def _pull(data: Samples, box: FaceBox) -> None:
    """The pull v and the face w, from the multipliers."""
    n, d = data.A.shape
    box.v[:] = 0.0
    for i in range(n):
        if box.up[i] != 0.0:
            for j in range(d):
                box.v[j] += box.up[i] * data.A[i, j]
    for j in range(d):
        box.w[j] = min(max(0.5 * box.v[j], box.low[j]), box.high[j])


@njit(cache=True)
def _sweep(data: Samples, box: FaceBox, count: int) -> None:
    """Raise every multiplier that is open."""
    d = len(box.w)
    for place in range(count):
        i = box.open[place]
        slope, square = 1.0, 0.0
        for j in range(d):
            slope -= data.A[i, j] * box.w[j]
            if box.low[j] < 0.5 * box.v[j] < box.high[j]:
                square += data.A[i, j] * data.A[i, j]
        if slope == 0.0:
            continue
        # Right for the coefficients that move; too long where others come to move: then the safe step.
        step = _step(box, i, 2.0 * slope / square if square > 0.0 else np.sign(slope) * np.inf)
        if step == 0.0:
            continue
        after = 1.0
        for j in range(d):
            new = 0.5 * (box.v[j] + step * data.A[i, j])
            after -= data.A[i, j] * min(max(new, box.low[j]), box.high[j])
        if after * slope < 0.0:  # beyond the best place
            step = _step(box, i, 2.0 * slope / data.q[i])
        box.up[i] += step
        box.up[i] = min(max(box.up[i], 0.0), box.cap[i])
        for j in range(d):
            box.v[j] += step * data.A[i, j]
            box.w[j] = min(max(0.5 * box.v[j], box.low[j]), box.high[j])


@njit(cache=True)
def _step(box: FaceBox, i: int, wanted: float) -> float:
    return min(max(box.up[i] + wanted, 0.0), box.cap[i]) - box.up[i]


@njit(cache=True)
def _value(data: Samples, box: FaceBox) -> tuple[float, float]:
    """The bound as computed, and how far it may be off."""
    n, d = data.A.shape
    value, terms, off = 0.0, 0.0, 0.0
    for i in range(n):
        value += box.up[i] + box.shift[i]
        terms += box.up[i] + abs(box.shift[i])
        if box.up[i] != 0.0:
            for j in range(d):
                off += box.up[i] * abs(data.A[i, j]) * max(abs(box.low[j]), abs(box.high[j]))
    for j in range(d):
        value += box.w[j] * (box.w[j] - box.v[j])
        terms += abs(box.w[j]) * (abs(box.w[j]) + abs(box.v[j]))
    return value, 1.02 * UNIT * (2.0 * (n + 6) * off + (2 * n + 2 * d + 8) * terms)


@njit(cache=True)
def _bound(data: Samples, prices: Vector, box: FaceBox, goal: float, slow: float) -> float:
    """Raise the multipliers of the box at hand until they prove `goal`, or come no further."""
    count = _set_up(data, prices, box)
    _pull(data, box)
    before = -np.inf
    for _ in range((_SWEEPS if slow > 0.0 else _FINE_SWEEPS) // _CYCLE):
        if count == 0:
            break
        for _ in range(_CYCLE):
            _sweep(data, box, count)
        value, off = _value(data, box)
        if value - off >= goal or value - before <= max(slow, 1e-6) * (goal - value):
            break
        before = value
    _pull(data, box)  # anew, for the rounding of many small steps
    value, off = _value(data, box)
    return value - off


@njit(cache=True)
def _shrink(data: Samples, box: FaceBox, goal: float, proven: float) -> float:
    """Leave out of the box what costs `goal`, by what v proves; the least share of a width that is left."""
    n, least = len(data.C), 1.0
    missing = goal - proven + 4.0 * UNIT * (abs(goal) + abs(proven))
    for j in range(len(box.w)):
        size = 0.0
        for i in range(n):
            size += box.up[i] * abs(data.A[i, j])
        half, off = 0.5 * box.v[j], 1.02 * UNIT * (n + 6) * size  # half is off by no more than that
        radius = np.sqrt(missing + (abs(box.w[j] - half) + off) ** 2) * (1.0 + 1e-12) + off
        width = box.high[j] - box.low[j]
        box.low[j], box.high[j] = max(box.low[j], half - radius), min(box.high[j], half + radius)
        if width > 0.0:
            least = min(least, (box.high[j] - box.low[j]) / width)
    return least


@njit(cache=True)
def _branch(data: Samples, prices: Vector, box: FaceBox) -> tuple[int, float]:
    """The coefficient with the largest part in what the envelopes lose at w, and all that they lose."""
    n, d = data.A.shape
    parts, total = np.zeros(d), 0.0
    for i in range(data.inside, n):
        r, wide = 1.0, 0.0
        for j in range(d):
            r -= data.A[i, j] * box.w[j]
            wide += abs(data.A[i, j]) * (box.high[j] - box.low[j])
        paid = box.shift[i] + box.up[i] * r
        if box.least[i] < 1.0 <= box.most[i]:
            paid = max(box.cap[i] * r, 0.0)
        lost = min(data.C[i] * max(r, 0.0), prices[i - data.inside]) - paid
        if lost > 0.0 and wide > 0.0:
            total += lost
            for j in range(d):
                parts[j] += lost * abs(data.A[i, j]) * (box.high[j] - box.low[j]) / wide
    return int(parts.argmax()), total


@njit(cache=True)
def examine_face_box(
    data: Samples, prices: Vector, box: FaceBox, codes: NDArray[np.uint8], goal: float
) -> tuple[float, float, int, float]:
    """Bound the box at hand and shrink it, and say where to cut it.

    data, prices, box: samples, λ of the positives, and the box.
    codes (n,): multipliers to begin from, in parts of the costs; those found are left there.
    goal: what is to be proven.
    Returns bound: what no face in the box costs less than, if it costs less than `goal`.
    Returns cost: of the face in ``box.w``.
    Returns j: coefficient to cut; -1 where nothing is left to cut.
    Returns at: where.
    """
    n = len(data.C)
    for i in range(n):
        box.up[i] = data.C[i] * (codes[i] / _CODES)
    bound, cost = -np.inf, np.inf
    for _ in range(_MAX_BOUNDS):
        proven = _bound(data, prices, box, goal, _MIN_CYCLE_GAIN)
        bound = max(bound, proven)
        cost = min(cost, price_of(data, prices, box.w))
        if bound >= goal or _shrink(data, box, goal, proven) > _MAX_WIDTH_RATIO:
            break
    j, lost = _branch(data, prices, box)
    if bound < goal and lost < _MIN_REL_LOSS * (goal - bound):
        bound = max(bound, _bound(data, prices, box, goal, 0.0))
        cost = min(cost, price_of(data, prices, box.w))
        j, lost = _branch(data, prices, box)
        if lost <= 1e-12 * abs(goal):
            j = int((box.high - box.low).argmax())
    width = box.high[j] - box.low[j]
    if width <= _MIN_REL_WIDTH * (abs(box.low[j]) + abs(box.high[j])):
        j = -1
    for i in range(n):
        codes[i] = np.uint8(_CODES * min(box.up[i] / data.C[i], 1.0)) if data.C[i] > 0.0 else 0
    at = min(max(box.w[j], box.low[j] + _CUT_MARGIN * width), box.high[j] - _CUT_MARGIN * width)
    return bound, cost, j, at


@njit(cache=True)
def priced_face(
    data: Samples, prices: Vector, answers: NDArray[np.bool_]
) -> tuple[Vector, NDArray[np.bool_]]:
    """The face for the positives that it is to answer for, then for those that gain by it, until they stay.

    data: the samples.
    prices (npos,): λ.
    answers (npos,): which positives it begins with.
    Returns w (d,): the face.
    Returns answers (npos,): which positives it was made for.
    """
    n, d = data.A.shape
    a, w, caps, zero = np.zeros(n), np.zeros(d), data.C.copy(), np.zeros(n)
    answers = answers.copy()
    following = answers.copy()
    for _ in range(_ROUNDS):
        put(following, answers)
        for i in range(data.inside, n):
            caps[i] = data.C[i] if answers[i - data.inside] else 0.0
            a[i] = min(a[i], caps[i])
        hyperplane(data, a, w)
        climb(data, zero, caps, a, w, _FACE_SWEEPS, np.inf, _FACE_REL_GAIN * data.C.sum())
        moved = False
        for i in range(data.inside, n):
            r = 1.0
            for j in range(d):
                r -= data.A[i, j] * w[j]
            gains = data.C[i] * max(r, 0.0) < prices[i - data.inside]
            following[i - data.inside] = gains
            moved = moved or gains != answers[i - data.inside]
        if not moved:
            break
    return w, answers
