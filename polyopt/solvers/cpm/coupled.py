"""Faces of the Convex Polytope Machine that are coupled: their dual, coordinates at a time.

Where the longest face alone is paid for (margin="worst"), or a negative pays for its worst face alone
(loss="max"), the dual of a fixed assignment is, with v_k = Σ_i a_ik y_i x̃_i,

    max  Σ a − ¼ Σ_k ‖v_k‖²/θ_k,    Σ θ_k ≤ 1  (worst),  θ_k = 1  (total),
         0 ≤ a_ik ≤ C_i at the face of a positive, 0 elsewhere; for negatives a_ik ≤ C_i (sum) or
         Σ_k a_ik ≤ C_i (max), a ≥ 0.

It is concave in a and θ together. For θ as it is a positive's multiplier, or those of a negative at all
faces, have a closed form; for a as it is the best θ_k is ‖v_k‖ / Σ ‖v_l‖.

Faces that answer for nobody are alike, with equal multipliers and shares; the first stands for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.compiled import njit
from polyopt.solvers.cpm.face import follow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from polyopt.solvers.cpm.coupled_rows import Faces

__all__ = ["AS_THEY_ARE", "BALANCED", "SAFE", "hold", "price_coupled", "raise_coupled", "settle_coupled"]

_LEAST_SHARE = 1e-3  # θ_k is no less than this over K
SAFE = 1e-12  # relative, by which a shared cap is smaller: the roundings of its sums are less
_ROUNDS = 30  # of alternating
# Sweeps of each, and whether the shares are brought into balance. Of numpy's types, as kernels are compiled
# anew for every plain number.
_SWEEPS, BALANCED, AS_THEY_ARE = np.int64(200), np.bool_(True), np.bool_(False)


@njit(cache=True)
def raise_coupled(
    data: Faces, face: NDArray[Any], used: int, alpha: Vector, W: Vector, theta: Vector, sweeps: int,
    least: float, balance: bool,
) -> None:  # fmt: skip
    """Raise the dual value by sweeps, in place, until one gains no more than `least`.

    Parameters
    ----------
    data : Faces
        The samples; those as given are used.
    face : ndarray of int, shape (npos,)
        The face of each positive, -1 where it has none.
    used : int
        Faces that differ; the last of them stands for those after it.
    alpha : ndarray of shape (K, n)
        Multipliers; brought within their caps.
    W, theta : ndarray of shape (K, d) and (K,)
        The faces W_k = v_k/(2 θ_k) and their shares. Set.
    balance : bool
        Whether shares are those of the multipliers; else they stay as they are.
    """
    (n, d), K, inside = data.given.A.shape, len(alpha), data.inside
    times = float(K - used + 1)
    _begin(data, face, used, alpha, W, theta, balance)
    for _ in range(sweeps):
        gained = 0.0
        for i in range(n):
            if i < inside and data.shared:
                gained += _pour(data, i, used, times, alpha, W, theta)
                continue
            for k in range(used):
                if i >= inside and face[i - inside] != k:
                    continue
                slope = 1.0
                for j in range(d):
                    slope -= data.given.A[i, j] * W[k, j]
                curve = data.given.q[i] / theta[k]
                new = min(max(alpha[k, i] + 2.0 * slope / curve, 0.0), data.C[i])
                gained += _step(data, i, k, new, slope, curve, alpha, W, theta) * (
                    times if k == used - 1 else 1.0
                )
        if data.worst and balance:
            gained += _balance(used, times, W, theta)
        if gained <= least:
            break
    for k in range(used, K):
        theta[k] = theta[used - 1]
        for i in range(n):
            alpha[k, i] = alpha[used - 1, i]
        for j in range(d):
            W[k, j] = W[used - 1, j]
    if data.shared:
        _within(data, alpha)


@njit(cache=True)
def _begin(
    data: Faces, face: NDArray[Any], used: int, alpha: Vector, W: Vector, theta: Vector, balance: bool
) -> None:
    """Bring multipliers within their caps, and set what belongs to them, with shares to begin with."""
    (n, d), K = data.given.A.shape, len(alpha)
    hold(data, face, alpha)
    for k in range(used):
        if balance:
            theta[k] = 1.0 / K if data.worst else 1.0
        for j in range(d):
            W[k, j] = 0.0
        for i in range(n):
            if alpha[k, i] != 0.0:
                for j in range(d):
                    W[k, j] += 0.5 * alpha[k, i] / theta[k] * data.given.A[i, j]
    if data.worst and balance:
        _balance(used, float(K - used + 1), W, theta)


@njit(cache=True)
def hold(data: Faces, face: NDArray[Any], alpha: Vector) -> None:
    """Bring multipliers (K, n) within their caps, in place.

    Parameters
    ----------
    data : Faces
        The samples.
    face : ndarray of int, shape (npos,)
        The face of each positive, -1 where it has none.
    alpha : ndarray of shape (K, n)
        The multipliers.
    """
    for k in range(len(alpha)):
        for i in range(alpha.shape[1]):
            cap = data.C[i] if i < data.inside or face[i - data.inside] == k else 0.0
            alpha[k, i] = min(max(alpha[k, i], 0.0), cap)
    if data.shared:
        _within(data, alpha)


@njit(cache=True)
def _within(data: Faces, alpha: Vector) -> None:
    """Make the multipliers of a negative at all faces add up to no more than its cost."""
    for i in range(data.inside):
        total, cap = 0.0, (1.0 - SAFE) * data.C[i]
        for k in range(len(alpha)):
            total += alpha[k, i]
        if total > cap:
            for k in range(len(alpha)):
                alpha[k, i] *= cap / total * (1.0 - 1e-15)


@njit(cache=True)
def _step(
    data: Faces, i: int, k: int, new: float, slope: float, curve: float, alpha: Vector, W: Vector,
    theta: Vector,
) -> float:  # fmt: skip
    """Set a multiplier of one face; by how much the dual value rises."""
    step = new - alpha[k, i]
    if step == 0.0:
        return 0.0
    alpha[k, i] = new
    move = 0.5 * step / theta[k]
    for j in range(W.shape[1]):
        W[k, j] += move * data.given.A[i, j]
    return step * slope - 0.25 * curve * step * step


@njit(cache=True)
def _pour(data: Faces, i: int, used: int, times: float, alpha: Vector, W: Vector, theta: Vector) -> float:
    """Set the multipliers of a negative at all faces, which have one cap; by how much the dual rises.

    Where they would add up to more, each is as large as at a price of the cap that all slopes pay.
    """
    slope, target, in_use = np.empty(used), np.empty(used), np.ones(used, dtype=np.bool_)
    total = 0.0
    for k in range(used):
        slope[k] = 1.0
        for j in range(W.shape[1]):
            slope[k] -= data.given.A[i, j] * W[k, j]
        target[k] = alpha[k, i] + 2.0 * slope[k] * theta[k] / data.given.q[i]
        if target[k] > 0.0:
            total += target[k] * (times if k == used - 1 else 1.0)
        else:
            in_use[k] = False
    cap = data.C[i] * (1.0 - SAFE)
    price = 0.0
    if total > cap:
        for _ in range(used):
            total, weight = 0.0, 0.0
            for k in range(used):
                if in_use[k]:
                    many = times if k == used - 1 else 1.0
                    total += many * target[k]
                    weight += many * theta[k]
            price = (total - cap) / weight
            is_done = True
            for k in range(used):
                if in_use[k] and target[k] <= price * theta[k]:
                    in_use[k], is_done = False, False
            if is_done:
                break
    gained = 0.0
    for k in range(used):
        new = max(target[k] - price * theta[k], 0.0) if in_use[k] else 0.0
        curve = data.given.q[i] / theta[k]
        gained += _step(data, i, k, new, slope[k], curve, alpha, W, theta) * (times if k == used - 1 else 1.0)
    return gained


@njit(cache=True)
def _balance(used: int, times: float, W: Vector, theta: Vector) -> float:
    """Give each face the share ‖v_k‖ / Σ ‖v_l‖; by how much the dual value rises."""
    pulls, before, total, K = np.empty(used), 0.0, 0.0, float(used - 1 + times)
    for k in range(used):
        square, many = 0.0, times if k == used - 1 else 1.0
        for j in range(W.shape[1]):
            square += W[k, j] * W[k, j]
        pulls[k] = theta[k] * np.sqrt(square)
        before += many * theta[k] * square
        total += many * pulls[k]
    if total <= 0.0:
        return 0.0
    whole = 0.0
    for k in range(used):
        pulls[k] = max(pulls[k] / total, _LEAST_SHARE / K)
        whole += pulls[k] * (times if k == used - 1 else 1.0)
    after = 0.0
    for k in range(used):
        share = pulls[k] / whole
        square = 0.0
        for j in range(W.shape[1]):
            W[k, j] *= theta[k] / share
            square += W[k, j] * W[k, j]
        theta[k] = share
        after += share * square * (times if k == used - 1 else 1.0)
    return before - after


@njit(cache=True)
def price_coupled(data: Faces, W: Vector, best: NDArray[Any]) -> float:
    """What faces cost, each positive on its best face, which is written to `best`."""
    n, d = data.given.A.shape
    J, longest = 0.0, 0.0
    for k in range(len(W)):
        square = 0.0
        for j in range(d):
            square += W[k, j] * W[k, j]
        J += square
        longest = max(longest, square)
    if data.worst:
        J = longest
    for i in range(n):
        least, most, total = np.inf, 0.0, 0.0
        for k in range(len(W)):
            hinge = 1.0
            for j in range(d):
                hinge -= data.given.A[i, j] * W[k, j]
            hinge = max(hinge, 0.0)
            total += hinge
            most = max(most, hinge)
            if hinge < least:
                least = hinge
                if i >= data.inside:
                    best[i - data.inside] = k
        if i >= data.inside:
            J += data.C[i] * least
        else:
            J += data.C[i] * (most if data.shared else total)
    return J


@njit(cache=True)
def settle_coupled(data: Faces, face: NDArray[Any], W: Vector, precision: float) -> float:
    """Alternate from the assignment `face` until it stays; leave the faces in W and return their cost.

    The dual is raised until a sweep gains less than `precision`.
    """
    (n, d), K = data.given.A.shape, len(W)
    alpha, theta, trial, following = np.zeros((K, n)), np.ones(K), np.zeros((K, d)), face.copy()
    least, kept = np.inf, np.inf
    for _ in range(_ROUNDS):
        raise_coupled(data, face, K, alpha, trial, theta, _SWEEPS, precision, BALANCED)
        J = price_coupled(data, trial, following)
        moved = follow(face, following)
        if kept > J:
            kept = J
            for k in range(K):
                for j in range(d):
                    W[k, j] = trial[k, j]
        if moved == 0 or least - precision <= J:
            break
        least = J
    return kept
