"""A lower bound on every completion of a partial assignment, from trial moves of single samples.

Let some positives be assigned, U be the others, and α_k be feasible for the dual of face k with the
samples assigned to it, w_k = ½ Σ_j α_jk y_j x̃_j. What happens to face k when i ∈ U is put on it is a
*move* δ_ik: a change of the multipliers of i itself (from 0), of the negatives and of the positives on
the face. It changes Σ_j α_jk y_j x̃_j by e_ik = Σ_j δ_ijk y_j x̃_j, and by itself raises the dual value by
g_ik − ¼‖e_ik‖² with g_ik = Σ_j δ_ijk (1 − y_j w_k·x̃_j).

Theorem. Let the moves keep within the boxes all together: for every face k and every j on it,
Σ_i [δ_ijk]_+ ≤ C_j − α_jk and Σ_i [−δ_ijk]_+ ≤ α_jk, and 0 ≤ δ_iik ≤ C_i. Put U in any order. Then every
completion of the assignment costs at least

    Σ_k D(α_k) + Σ_{i∈U} min_k ( g_ik − ¼‖e_ik‖² − ½ Σ_{r before i} [e_rk·e_ik]_+ ),

the minimum over the faces that i may go to.

Proof. Let z complete the assignment. On face k, α_k plus the moves δ_ik of the i with z_i = k is within
the box, whichever they are, hence feasible for the dual of that face, and by weak duality the cost is at
least Σ_k D(α_k + Σ_{z_i=k} δ_ik) = Σ_k [ D(α_k) + Σ_{z_i=k} g_ik − ¼‖Σ_{z_i=k} e_ik‖² ]. In the square,
Σ‖e_ik‖² stands alone, and of the products 2 e_rk·e_ik of two samples on one face those below zero may be
left out, and the others be counted whether or not r is on that face too: each is charged to the later of
the two. What is left is a sum over i of a term that depends on z_i only, at least its minimum over k. ∎

A move of i's own multiplier alone, δ_iik = β_i, gives the bound with the Gram matrix of positive parts,
Σ β_i min_k (1 − w_k·x̃_i) − ¼ β'G⁺β. Letting the negatives move as well is what makes it strong where the
classes overlap: a positive among negatives is held by them on whichever face, e_ik is small, and the
costs of such samples add up nearly in full.

The moves are found in turn: the box left by the moves before, and w_k shifted by half of those e_rk that
pull the same way, make a problem for :func:`polyopt.solvers.cpm.face.climb`; the face that costs i least
sets what it adds to the bound, and its moves on the others are shrunk to cost as little as that.

The same charges, all to i, tell what i adds at least on face k when every other sample adds what it
does: if that exceeds the cost of a known solution, no better one has i on k.

Rounding. The multipliers keep within their boxes exactly: a climb sets a multiplier to the end of its box,
and joint moves have boxes that are smaller than theirs by more than their sums may be off. What is computed
of them is off by running error bounds, which are kept beside every value: by Cauchy and Schwarz from the
lengths of the vectors and bounds on how far each may be from its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.compiled import njit
from polyopt.solvers.cpm.face import (
    UNIT,
    Moves,
    Samples,
    climb,
    dual_error,
    dual_value,
    hyperplane,
    slope_blur,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["Moves", "add_up", "cost_on", "moves_for", "try_move"]

# Sweeps at most of one positive put on a face, and of what moves have in common; they end sooner where one
# gains 5e-3 and 1e-2 of what is sought. Of numpy's type, as climb is compiled anew for every plain number.
_TRIAL_SWEEPS, _SHARED_SWEEPS = np.int64(100), np.int64(30)
_MARGIN = 1e-12  # of a cap, by which the boxes of joint moves are smaller: 500 samples' roundings are less


def moves_for(npos: int, n: int, d: int, n_faces: int) -> Moves:
    """Room for the moves."""
    return Moves(
        np.zeros((npos, n_faces)),
        np.zeros((npos, n_faces, n)),
        np.zeros((npos, n_faces, d)),
        np.zeros((npos, n_faces, n)),
        np.zeros((npos, n_faces, d)),
        np.zeros((n_faces, n)),
        np.zeros((n_faces, n)),
        np.zeros(npos),
        np.zeros((npos, n_faces)),
        np.zeros((npos, n_faces)),
        np.zeros(npos),
    )


@njit(cache=True)
def try_move(
    data: Samples, caps: Vector, a: Vector, w: Vector, p: int, k: int, moves: Moves, enough: float
) -> tuple[float, float]:
    """Put positive p on face k by itself, until it costs `enough`.

    Returns gain, error: what it costs at least, and how far that may be from the truth besides the error of
        D(a).
    """
    n, d = data.A.shape
    i = data.inside + p
    trial, v, zero = a.copy(), w.copy(), np.zeros(n)
    slope = 1.0
    for j in range(d):
        slope -= data.A[i, j] * w[j]
    step = min(data.C[i], max(0.0, 2.0 * slope / data.q[i]))
    trial[i] = step
    for j in range(d):
        v[j] += 0.5 * step * data.A[i, j]
    gain = step * slope - 0.25 * data.q[i] * step * step
    kept, caps[i] = caps[i], data.C[i]
    climb(data, zero, caps, trial, v, _TRIAL_SWEEPS, enough - gain, 5e-3 * min(gain, enough - gain))
    caps[i] = kept
    hyperplane(data, trial, v)  # anew, as many small steps were rounded
    gain = dual_value(trial, v) - dual_value(a, w)
    moves.gain[p, k] = gain
    for j in range(n):
        moves.delta[p, k, j] = trial[j] - a[j]
    for j in range(d):
        moves.pull[p, k, j] = 2.0 * (v[j] - w[j])
    return gain, dual_error(data, trial, v)


@njit(cache=True)
def _joint_move(
    data: Samples,
    a: Vector,
    w: Vector,
    p: int,
    k: int,
    moves: Moves,
    others: NDArray[Any],
    guess: Vector,
    change: Vector,
    e: Vector,
) -> tuple[float, float, float, float]:
    """The best move of p to face k within what the others leave, as `change` and `e`.

    Returns worth, square: g − ½ Σ_r [e_r·e]_+ and ‖e‖²: scaled by λ the move adds λ·worth − ¼λ²·square.
    Returns blur, error: how far e may be from the true one, and what the move adds from what it truly does,
        for any λ ≤ 1.
    """
    n, d = data.A.shape
    i = data.inside + p
    low, high, v = np.empty(n), np.empty(n), w.copy()
    for j in range(n):
        low[j] = a[j] - moves.down[k, j]
        high[j] = a[j] + moves.up[k, j]
    low[i], high[i] = 0.0, data.C[i]
    _shift(v, p, k, moves, others)
    trial = np.empty(n)
    for j in range(n):
        trial[j] = min(max(a[j] + guess[j], low[j]), high[j])
        step = trial[j] - a[j]
        if step != 0.0:
            for s in range(d):
                v[s] += 0.5 * step * data.A[j, s]
    climb(data, low, high, trial, v, _SHARED_SWEEPS, np.inf, 1e-2 * moves.gain[p, k])
    worth, square, reach, earned, blurred = 0.0, 0.0, 0.0, 0.0, 0.0
    constant, per_length = slope_blur(data, a, w)
    for j in range(d):
        e[j] = 0.0
    for j in range(n):
        step = trial[j] - a[j]
        change[j] = step
        if step != 0.0:
            slope = 1.0
            for s in range(d):
                slope -= data.A[j, s] * w[s]
                e[s] += step * data.A[j, s]
            worth += step * slope
            length = np.sqrt(data.q[j])
            reach += abs(step) * length
            earned += abs(step * slope)
            blurred += abs(step) * (constant + per_length * length)
    for j in range(d):
        square += e[j] * e[j]
    blur, size = 1.02 * UNIT * (n + 4) * reach, np.sqrt(square)
    error = 1.01 * blurred + 1.02 * UNIT * (n + 8) * (earned + square) + 0.5 * (1.01 * size + blur) * blur
    worth, error = _charge(worth, error, e, size, blur, p, k, moves, others)
    return worth, square, blur, error


@njit(cache=True)
def _shift(v: Vector, p: int, k: int, moves: Moves, others: NDArray[Any]) -> None:
    """Shift v by half of those of the others' moves that pull the same way as p's on face k."""
    d = len(v)
    for r in others:
        if r == p:
            continue
        dot = 0.0
        for j in range(d):
            dot += moves.shared[r, k, j] * moves.pull[p, k, j]
        if dot > 0.0:
            for j in range(d):
                v[j] += 0.5 * moves.shared[r, k, j]


@njit(cache=True)
def _charge(
    worth: float,
    error: float,
    e: Vector,
    size: float,
    blur: float,
    p: int,
    k: int,
    moves: Moves,
    others: NDArray[Any],
) -> tuple[float, float]:
    """The worth of a move of length `size`, less its products with the others' moves, and its error."""
    d, charged = len(e), 0.0
    for r in others:
        if r == p:
            continue
        dot = 0.0
        for j in range(d):
            dot += moves.shared[r, k, j] * e[j]
        if dot > 0.0:
            worth -= 0.5 * dot
            charged += dot
        long, far = moves.length[r, k], moves.blur[r, k]
        error += 0.51 * (far * size + (long + far) * blur + UNIT * (d + 4) * long * size)
    error += UNIT * (len(others) + 4) * (charged + abs(worth))
    return worth, error


@njit(cache=True)
def _most(worth: float, square: float) -> float:
    """The largest value of λ·worth − ¼λ²·square over 0 ≤ λ ≤ 1."""
    if worth <= 0.0:
        return 0.0
    if 2.0 * worth < square:
        return worth * worth / square
    return worth - 0.25 * square


@njit(cache=True)
def _least_share(worth: float, square: float, amount: float) -> float:
    """The smallest λ at which λ·worth − ¼λ²·square reaches `amount`, which it does for some λ ≤ 1."""
    root = np.sqrt(max(worth * worth - square * amount, 0.0))
    return min(1.0, 2.0 * amount / (worth + root))


@njit(cache=True)
def add_up(
    data: Samples,
    caps: Vector,
    alpha: Vector,
    W: Vector,
    moves: Moves,
    allowed: NDArray[Any],
    order: NDArray[Any],
    used: int,
    enough: float,
) -> float:
    """What the positives in `order` add to the bound: Σ_i min_k (...) of the theorem above.

    `allowed` (npos, K) says which of the first `used` faces each may go to; the trial moves of
    :func:`try_move` must be there for them. The sum ends early once it is `enough`.
    """
    n, d = len(data.C), W.shape[1]
    change, e = np.empty((used, n)), np.empty((used, d))
    worth, square, blur = np.empty(used), np.empty(used), np.empty(used)
    for k in range(used):
        for j in range(n):
            moves.up[k, j] = max(0.0, caps[k, j] - alpha[k, j] - _MARGIN * caps[k, j])
            moves.down[k, j] = max(0.0, alpha[k, j] - _MARGIN * caps[k, j])
    total = 0.0
    for place, p in enumerate(order):
        amount, most_off = np.inf, 0.0
        for k in range(used):
            if allowed[p, k]:
                worth[k], square[k], blur[k], off = _joint_move(
                    data, alpha[k], W[k], p, k, moves, order[:place], moves.delta[p, k],
                    change[k], e[k],
                )  # fmt: skip
                amount, most_off = min(amount, _most(worth[k], square[k])), max(most_off, off)
        moves.added[p] = amount
        moves.error[p] = most_off if amount > 0.0 else 0.0  # nothing moves where nothing is added
        total += amount
        own = data.inside + p
        for k in range(used):
            share = 0.0
            if allowed[p, k] and amount > 0.0:
                share = _least_share(worth[k], square[k], amount)
            for j in range(d):
                moves.shared[p, k, j] = share * e[k, j] if share > 0.0 else 0.0
            moves.length[p, k], moves.blur[p, k] = 0.0, 0.0
            if share > 0.0:
                length = share * np.sqrt(square[k])
                moves.length[p, k] = 1.01 * length
                moves.blur[p, k] = 1.01 * share * blur[k] + 4.0 * UNIT * length
            for j in range(n):
                step = share * change[k, j] if share > 0.0 else 0.0
                moves.taken[p, k, j] = step
                if j != own:
                    moves.up[k, j] = max(0.0, moves.up[k, j] - max(step, 0.0))
                    moves.down[k, j] = max(0.0, moves.down[k, j] - max(-step, 0.0))
        if total >= enough:
            break
    return total


@njit(cache=True)
def cost_on(
    data: Samples, a: Vector, w: Vector, moves: Moves, order: NDArray[Any], p: int, k: int
) -> tuple[float, float]:
    """What p adds at least on face k when all others add what :func:`add_up` found, and how far it is off."""
    n, d = len(data.C), len(w)
    own = data.inside + p
    change, e = np.empty(n), np.empty(d)
    up, down = moves.up[k].copy(), moves.down[k].copy()  # put back below, exactly
    for j in range(n):
        if j != own:
            taken = moves.taken[p, k, j]
            moves.down[k, j] += max(-taken, 0.0)
            moves.up[k, j] += max(taken, 0.0)
    worth, square, _, error = _joint_move(data, a, w, p, k, moves, order, moves.delta[p, k], change, e)
    for j in range(n):
        moves.up[k, j], moves.down[k, j] = up[j], down[j]
    return _most(worth, square), error
