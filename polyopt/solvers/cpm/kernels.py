"""Kernels of the stochastic solver of the Convex Polytope Machine: Algorithms 1 and 2.

With the step 1/(λ(t+1)), Algorithm 1 is a running sum: W_t = U_t / (t+1), where step t adds
(t/(t+1)) (1/λ) times its gradient to U and nothing else. No face is ever rescaled, and the margin
test W·x̃ ≥ 1 becomes U·x̃ ≥ t.

U has the shape (m+1, L), bias last, with the K faces side by side in the first of L columns
(:func:`polyopt.lanes.padded`), so that one walk over a sample serves all faces at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.compiled import njit
from polyopt.lanes import add_bias, add_to_face, padded, prefetch_row, row_product, row_update

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.rows import Rows

    Vector = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = [
    "AVERAGE", "COUNTED", "ENTROPY", "LOSS", "MOVED", "assign", "in_lanes", "losses", "measure_kernel",
    "run_kernel",
]  # fmt: skip

# Places in the tally that a run keeps.
LOSS = 0  # Σ of the hinges as they were met, times the samples' gains
MOVED = 1  # positives found at another face than at their last visit
COUNTED, ENTROPY = 2, 3  # entries of UNADJ, and Σ c ln c over its counts
AVERAGE = 4  # Σ of the weights of the iterates averaged, over the last one's

_ROUNDING = 1e-12  # entropies closer than this are equal


@njit(cache=True, nogil=True)
def assign(
    scores: NDArray[Any],
    natural: int,
    i: int,
    floor: float,
    unadjusted: Integers,
    counts: Integers,
    phi: Vector,
    tally: Vector,
) -> int:
    """Algorithm 2: the face that answers for positive i, so that entropy stays above `floor`.

    scores (K,): scores of sample i; those beyond K are not looked at.
    natural: the face with the highest.
    i: the sample.
    floor: least entropy h, in nats.
    unadjusted (n,): UNADJ: the natural face of each positive at its last call, -1 for none. Updated.
    counts (K,): how often each face occurs in UNADJ. Updated.
    phi: c ln c for every count c, and for one more than the largest.
    tally: number of entries of UNADJ and Σ c ln c, at :data:`COUNTED` and :data:`ENTROPY`. Updated.
    Returns: the natural face if UNADJ with it keeps the floor; otherwise the best among the faces that would
        raise the entropy strictly, or the natural one where none would.
    """
    before = unadjusted[i]
    total, sum_phi = tally[COUNTED], tally[ENTROPY]
    new_total, new_sum = total, sum_phi
    if before != natural:
        if before >= 0:
            new_sum += phi[counts[before] - 1] - phi[counts[before]]
            counts[before] -= 1
        else:
            new_total += 1.0
        new_sum += phi[counts[natural] + 1] - phi[counts[natural]]
        counts[natural] += 1
        unadjusted[i] = natural
        tally[COUNTED], tally[ENTROPY] = new_total, new_sum
    if np.log(new_total) - new_sum / new_total >= floor - _ROUNDING:
        return natural
    # A new entry at face k raises the entropy if and only if it adds less than this to Σ c ln c.
    most = 0.0
    if total > 0.0:
        entropy = np.log(total) - sum_phi / total
        most = (np.log(total + 1.0) - entropy - _ROUNDING) * (total + 1.0) - sum_phi
    best = natural
    found = False
    for k in range(len(counts)):
        count = counts[k] - (k == natural) + (k == before)  # as it was before the call
        if before >= 0:
            # Moving one sample raises the entropy if and only if it goes from c to at most c - 2.
            raises = count <= counts[before] + (before != natural) - 2
        else:
            raises = total > 0.0 and phi[count + 1] - phi[count] < most
        if raises and (not found or scores[k] > scores[best]):
            best, found = k, True
    return best


@njit(cache=True, nogil=True)
def _best_face(scores: NDArray[Any], n_faces: int) -> int:
    """The first of the faces with the highest score."""
    face = 0
    for k in range(1, n_faces):
        if scores[k] > scores[face]:
            face = k
    return face


@njit(cache=True, nogil=True)
def _take_in(U: NDArray[Any], A: NDArray[Any], share: float, shrink: float) -> None:
    """Move the average A by its share towards the iterate, U shrunk."""
    for j in range(len(U)):
        for k in range(U.shape[1]):
            A[j, k] += share * (shrink * U[j, k] - A[j, k])


@lru_cache
def run_kernel(n_lanes: int) -> Any:
    """Algorithm 1 for weights of `n_lanes` columns.

    The kernel takes one step for each sample in `order`, in place:
    ``run(values, columns, starts, shared, outside, gains, order, scale, U, A, spacing, steps, floor,
    unadjusted, counts, phi, faces, tally)``, where

    - values, columns, starts, shared are :class:`polyopt.rows.Rows`, its entries counting `scale` times;
    - outside (n,) says which samples are positives, gains (n,) is 1/λ times a sample's weight;
    - every `spacing` steps the iterate enters the average A, shaped like U, with the weight t⁴, so that
      the start is soon forgotten; a spacing of 0 leaves A alone;
    - steps (1,) counts all steps ever taken; counts (K,) tells the number of faces;
    - floor, unadjusted, counts, phi as in :func:`assign`; a floor of 0 leaves Algorithm 2 out;
    - faces (n,) holds each positive's natural face at its last visit, -1 for none; tally (5,) what the
      names in this module say.
    """
    few = max(1, n_lanes // 16)  # faces up to which a walk for each is cheaper than one for all

    @njit(cache=True, nogil=True)
    def run(  # type: ignore[no-untyped-def]
        values, columns, starts, shared, outside, gains, order, scale, U, A, spacing, steps, floor,
        unadjusted, counts, phi, faces, tally,
    ):  # fmt: skip
        K = len(counts)
        scores, change = np.zeros(n_lanes, dtype=U.dtype), np.zeros(n_lanes, dtype=U.dtype)
        for place in range(len(order)):
            i, soon = order[place], order[min(place + 2, len(order) - 1)]
            prefetch_row(values, columns, starts[soon], starts[soon + 1], shared)
            begin, end = starts[i], starts[i + 1]
            offset = begin * shared
            row_product(values, columns, begin, end, offset, U, scores, n_lanes)
            add_bias(scores, scale, U)
            steps[0] += 1
            t = float(steps[0])
            margin, size = U.dtype.type(t), U.dtype.type(gains[i] * (t / (t + 1.0)))
            if outside[i]:
                face = _best_face(scores, K)
                tally[MOVED] += face != faces[i]
                faces[i] = face
                if scores[face] < margin:
                    tally[LOSS] += gains[i] * (t - scores[face]) / t
                    if floor > 0.0:
                        face = assign(scores, face, i, floor, unadjusted, counts, phi, tally)
                    add_to_face(values, columns, begin, end, offset, scale, size, face, U)
            else:
                violated = 0
                for k in range(K):
                    violated += scores[k] > -margin
                if violated > 0:
                    for k in range(K):
                        if scores[k] > -margin:
                            tally[LOSS] += gains[i] * (t + scores[k]) / t
                            change[k] = -size
                            if violated <= few:
                                add_to_face(values, columns, begin, end, offset, scale, -size, k, U)
                        else:
                            change[k] = 0.0
                    if violated > few:
                        for k in range(n_lanes):
                            U[len(U) - 1, k] += change[k]
                            change[k] *= scale
                        row_update(values, columns, begin, end, offset, U, change, n_lanes)
            if spacing > 0 and steps[0] % spacing == 0:
                tally[AVERAGE] = tally[AVERAGE] * ((t - spacing) / t) ** 4 + 1.0
                _take_in(U, A, U.dtype.type(1.0 / tally[AVERAGE]), U.dtype.type(1.0 / (t + 1.0)))

    return run


@lru_cache
def measure_kernel(n_lanes: int) -> Any:
    """The losses at W of shape (m+1, L), of which the first K columns are faces.

    ``measure(values, columns, starts, shared, outside, C, scale, W, K)`` returns Σ C_i times the hinge
    of the best face (positives) or the hinges of all K faces (negatives).
    """

    @njit(cache=True, nogil=True)
    def measure(values, columns, starts, shared, outside, C, scale, W, K):  # type: ignore[no-untyped-def]
        scores, total = np.zeros(n_lanes, dtype=W.dtype), 0.0
        for i in range(len(starts) - 1):
            begin, end = starts[i], starts[i + 1]
            row_product(values, columns, begin, end, begin * shared, W, scores, n_lanes)
            add_bias(scores, scale, W)
            if outside[i]:
                total += C[i] * max(0.0, 1.0 - scores[:K].max())
            else:
                for k in range(K):
                    total += C[i] * max(0.0, 1.0 + scores[k])
        return total

    return measure


def in_lanes(W: Vector, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
    """Faces (K, m+1) as the kernels take them: (m+1, L), with columns of zeros behind the last."""
    lanes = np.zeros((W.shape[1], padded(len(W))), dtype=dtype)
    lanes[:, : len(W)] = W.T
    return lanes


def losses(W: Vector, rows: Rows, outside: NDArray[np.bool_], C: Vector, scale: float = 1.0) -> float:
    """The sum of C_i times the hinge of the best face (positives), or the hinges of all faces (negatives).

    W (K, m+1): the faces, bias last.
    rows: samples.
    outside (n,): the positives.
    C (n,): cost of slack per sample.
    scale: what every entry of the rows counts times.
    """
    lanes = in_lanes(W)
    return float(
        measure_kernel(lanes.shape[1])(
            rows.values, rows.columns, rows.starts, rows.shared, outside, C, scale, lanes, len(W)
        )
    )
