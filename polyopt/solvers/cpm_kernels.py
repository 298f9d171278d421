"""Kernels of the stochastic solver of the Convex Polytope Machine: Algorithms 1 and 2.

With the step 1/(λ(t+1)), Algorithm 1 is a running sum: W_t = U_t / (t+1), where step t adds
(t/(t+1)) (1/λ) times its gradient to U and nothing else. No face is ever rescaled, and the margin
test W·x̃ ≥ 1 becomes U·x̃ ≥ t. V holds the same additions, each times the steps of this epoch before
it, so that the sum of U over an epoch of n steps is n U − V, which is what averaging needs.

U and V have the shape (m+1, K), faces side by side, bias last: the inner loops run over the faces,
need no reordering of sums to be vectorised, and skip the zeros of dense data too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["assign", "run_csr", "run_dense"]

_ROUNDING = 1e-12  # entropies closer than this are equal


@njit(cache=True)
def assign(scores: Vector, i: int, floor: float, unadjusted: Integers, counts: Integers, phi: Vector) -> int:
    """Algorithm 2: the face that answers for positive i, so that entropy stays above `floor`.

    Parameters
    ----------
    scores : ndarray of shape (K,)
        Scores of sample i.
    i : int
        The sample.
    floor : float
        Least entropy h, in nats.
    unadjusted : ndarray of int, shape (n,)
        UNADJ: the natural face of each positive at its last call, -1 for none. Updated.
    counts : ndarray of int, shape (K,)
        How often each face occurs in UNADJ. Updated.
    phi : ndarray of shape (n + 2,)
        c ln c for every count c.

    Returns
    -------
    int
        The natural face if UNADJ with it keeps the floor; otherwise the best among the faces that
        would raise the entropy strictly, or the natural one where none would.
    """
    natural = int(np.argmax(scores))
    before = unadjusted[i]
    total, sum_phi = 0, 0.0
    for count in counts:
        total += count
        sum_phi += phi[count]
    entropy = np.log(total) - sum_phi / total if total > 0 else 0.0
    counts[natural] += 1
    if before >= 0:
        counts[before] -= 1
    unadjusted[i] = natural
    new_total, new_sum = 0, 0.0
    for count in counts:
        new_total += count
        new_sum += phi[count]
    if np.log(new_total) - new_sum / new_total >= floor - _ROUNDING:
        return natural
    best, best_score = natural, -np.inf
    for k in range(len(counts)):
        count = counts[k] - (k == natural) + (k == before)  # as it was before the call
        if before >= 0:
            # Moving one sample raises the entropy if and only if it goes from c to at most c - 2.
            raises = count <= counts[before] + (before != natural) - 2
        else:
            added = sum_phi + phi[count + 1] - phi[count]
            raises = np.log(total + 1) - added / (total + 1) > entropy + _ROUNDING
        if raises and scores[k] > best_score:
            best, best_score = k, scores[k]
    return best


@njit(cache=True)
def _respond(
    scores: Vector,
    positive: bool,
    i: int,
    step: int,
    gain: float,
    floor: float,
    unadjusted: Integers,
    counts: Integers,
    phi: Vector,
    change: Vector,
) -> bool:
    """What step `step` of Algorithm 1 adds to each face, in multiples of x̃; whether anything."""
    size = gain * (step / (step + 1.0))
    change[:] = 0.0
    if positive:
        face = int(np.argmax(scores))
        if scores[face] >= step:
            return False
        if floor > 0.0:
            face = assign(scores, i, floor, unadjusted, counts, phi)
        change[face] = size
        return True
    violated = False
    for k in range(len(scores)):
        if scores[k] > -step:
            change[k] = -size
            violated = True
    return violated


@njit(cache=True)
def run_dense(
    X: NDArray[Any],
    y: Vector,
    gains: Vector,
    order: Integers,
    first: int,
    steps: Integers,
    U: Vector,
    V: Vector,
    floor: float,
    unadjusted: Integers,
    counts: Integers,
    phi: Vector,
) -> None:
    """Take one step of Algorithm 1 for each sample in `order`, in place.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Samples, float32 or float64.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    gains : ndarray of shape (n,)
        1/λ times the sample's weight.
    order : ndarray of int
        The samples to visit.
    first : int
        How many steps of this epoch came before.
    steps : ndarray of int, shape (1,)
        Steps taken in all; in an array so that an interruption cannot part it from U.
    U, V : ndarray of shape (m+1, K)
        Running sums.
    floor, unadjusted, counts, phi
        As in :func:`assign`; a floor of 0 leaves it out.
    """
    m, K = X.shape[1], U.shape[1]
    scores, change = np.empty(K), np.empty(K)
    for place in range(len(order)):
        i = order[place]
        steps[0] += 1
        scores[:] = U[m]
        for j in range(m):
            x = X[i, j]
            if x != 0.0:
                for k in range(K):
                    scores[k] += x * U[j, k]
        if not _respond(scores, y[i] > 0.0, i, steps[0], gains[i], floor, unadjusted, counts, phi, change):
            continue
        before = float(first + place)
        for j in range(m):
            x = X[i, j]
            if x != 0.0:
                for k in range(K):
                    U[j, k] += x * change[k]
                    V[j, k] += before * (x * change[k])
        for k in range(K):
            U[m, k] += change[k]
            V[m, k] += before * change[k]


@njit(cache=True)
def run_csr(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    y: Vector,
    gains: Vector,
    order: Integers,
    first: int,
    steps: Integers,
    U: Vector,
    V: Vector,
    floor: float,
    unadjusted: Integers,
    counts: Integers,
    phi: Vector,
) -> None:
    """Twin of :func:`run_dense` for the three arrays of a CSR matrix."""
    m, K = U.shape[0] - 1, U.shape[1]
    scores, change = np.empty(K), np.empty(K)
    for place in range(len(order)):
        i = order[place]
        steps[0] += 1
        scores[:] = U[m]
        for entry in range(indptr[i], indptr[i + 1]):
            x, j = data[entry], indices[entry]
            for k in range(K):
                scores[k] += x * U[j, k]
        if not _respond(scores, y[i] > 0.0, i, steps[0], gains[i], floor, unadjusted, counts, phi, change):
            continue
        before = float(first + place)
        for entry in range(indptr[i], indptr[i + 1]):
            x, j = data[entry], indices[entry]
            for k in range(K):
                U[j, k] += x * change[k]
                V[j, k] += before * (x * change[k])
        for k in range(K):
            U[m, k] += change[k]
            V[m, k] += before * change[k]
