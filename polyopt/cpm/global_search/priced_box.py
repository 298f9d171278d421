"""A lower bound on what a face costs at given prices of the positives, over faces that lie in a box.

The price λ_i ≥ 0 of a positive is what it may cost at most: a face pays min(C_i [1 − s_i]_+, λ_i) for it, or
passes it on (:mod:`polyopt.cpm.global_search.prices`). Rows of the samples are y_i x̃_i, r_i = y_i x̃_i·w, and

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

from typing import TYPE_CHECKING

import numpy as np

from polyopt.cpm.global_search.face import Samples
from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector

__all__ = ["FaceBox", "examine_face_box", "face_box_for", "price_of", "priced_face"]

_MAX_ROUNDS = 30  # of alternating at prices


class FaceBox(Struct):
    """A box and room.

    low, high, w, v (d,): the box, its face, and v; up, cap, shift (n,): a, its largest value, and c;
    least, most (n,): the ends l and u; open (n,): the samples whose multipliers may move; parts (d,): the
    part of each coefficient in what the envelopes lose; found (4,): what :func:`examine_face_box` returns.
    """

    signature = (
        "low!: f8 (d); high!: f8 (d); w!: f8 (d); v!: f8 (d); up!: f8 (n); cap!: f8 (n); shift!: f8 (n); "
        "least!: f8 (n); most!: f8 (n); open!: i8 (n); parts!: f8 (d); found!: f8 (f)"
    )
    low: Vector
    high: Vector
    w: Vector
    v: Vector
    up: Vector
    cap: Vector
    shift: Vector
    least: Vector
    most: Vector
    open: NDArray[np.int64]
    parts: Vector
    found: Vector


def face_box_for(data: Samples) -> FaceBox:
    """Room for the box at hand."""
    n, d = data.A.shape
    of_features, of_samples = (np.zeros(d) for _ in range(4)), (np.zeros(n) for _ in range(5))
    return FaceBox(*of_features, *of_samples, np.zeros(n, np.int64), np.zeros(d), np.zeros(4))


# G(w)
price_of = kernel("cpm_price_of", "data: Samples; prices: f8 (p); w: f8 (d)", returns="f8")

_examine = kernel(
    "cpm_examine_face_box", "data: Samples; prices: f8 (p); box: FaceBox; codes!: u1 (n); goal: f8"
)

# The best face w for the positives that it answers for, with its multipliers a, in the box caps, begun at a;
# then following: those that gain by it. Returns whether these are others.
_round = kernel(
    "cpm_priced_round",
    "data: Samples; prices: f8 (p); answers: b1 (p); a!: f8 (n); caps!: f8 (n); zero: f8 (n); w!: f8 (d); "
    "following!: b1 (p)",
    returns="i8",
)


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
    _examine(data, prices, box, codes, goal)
    bound, cost, j, at = box.found.tolist()
    return bound, cost, int(j), at


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
    a, caps, zero, w, following = np.zeros(n), np.empty(n), np.zeros(n), np.zeros(d), answers.copy()
    for _ in range(_MAX_ROUNDS):
        answers = following.copy()
        if not _round(data, prices, answers, a, caps, zero, w, following):
            break
    return w, answers
