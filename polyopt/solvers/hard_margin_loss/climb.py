"""The hard-margin SVM of some samples by Goldfarb and Idnani's dual method, compiled.

V(S) = min ½‖w‖²  s.t.  y_i (w·x_i + b) ≥ 1  for i in S. The method holds samples A ⊆ S on their margins,
which is optimal for A, and takes up the sample that falls short most, moving along the direction on which A
stays on its margins and giving up a sample of A where its multiplier comes to 0. Its value V(A) only rises,
so it may stop at a limit: A is then a small set that cannot be met below it, a combinatorial Benders' cut. A
sample that no direction can bring to its margin gives a ray: A and it cannot be met at all. Only inner
products of samples are used; A has at most m + 1 samples, and the system of its multipliers is solved anew at
every step, so that nothing drifts.

Reference: Goldfarb & Idnani, A numerically stable dual method for solving strictly convex quadratic programs,
Mathematical Programming 27 (1983).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Bits = NDArray[np.bool_]
    Places = NDArray[np.int64]

__all__ = ["ABOVE", "MET", "RAY", "STALLED", "climb"]

MET, ABOVE, RAY, STALLED = 0, 1, 2, 3
"""All samples are met; the limit is reached; no point meets them; rounding ended the run."""

_SHORT = 1e-9  # by which a margin may fall short of 1
_FLAT = 1e-10  # of a sample's square: a direction that moves its margin by less does not move it
_FALLS = 1e-14  # a multiplier that falls by less does not fall


@njit(cache=True, nogil=True)
def climb(
    Q: Vector, y: Vector, kept: Bits, limit: float, active: Places, alpha: Vector, margins: Vector, most: int
) -> tuple[int, float, int]:
    """Climb from the nearest pair of the two classes.

    Parameters
    ----------
    Q : ndarray of shape (n, n)
        ``y_i y_j x_i·x_j``.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    kept : ndarray of bool, shape (n,)
        The samples S.
    limit : float
        The value at which to stop.
    active, alpha : ndarray of shape (p,)
        Room for A and its multipliers, of at least three places. Updated.
    margins : ndarray of shape (n,)
        The margins of all samples. Updated; of no use after RAY and STALLED.
    most : int
        Samples taken up at most.

    Returns
    -------
    (int, float, int)
        The number of samples in A, V(A) or the value reached, and how it ended.
    """
    a, c = _nearest_pair(Q, y, kept)
    if a < 0 or c < 0:
        for i in range(len(y)):
            margins[i] = y[i] if a >= 0 else -y[i]
        return 0, 0.0, MET
    active[0], active[1] = a, c
    alpha[0] = alpha[1] = 1.0
    square = Q[a, a] + Q[c, c] + 2.0 * Q[a, c]
    if square <= 1e-14 * (Q[a, a] + Q[c, c]):
        return 2, np.inf, RAY
    alpha[0] = alpha[1] = 2.0 / square
    value = 2.0 / square
    # Of a plain 2, what takes k would be compiled once more.
    k: int = np.int64(2)  # type: ignore[assignment]
    b = y[a] * (1.0 - alpha[0] * (Q[a, a] + Q[a, c]))
    for i in range(len(y)):
        margins[i] = alpha[0] * (Q[i, a] + Q[i, c]) + y[i] * b
    system, move = np.empty((len(active) + 1, len(active) + 1)), np.empty(len(active) + 1)
    for _ in range(most):
        if value >= limit:
            return k, value, ABOVE
        p = _shortest(margins, kept)
        if p < 0:
            return k, value, MET
        k, value, end = _take_up(Q, y, p, limit, active, alpha, margins, k, value, system, move)
        if end != MET:
            return k, value, end
    return k, value, STALLED


@njit(cache=True, nogil=True)
def _nearest_pair(Q: Vector, y: Vector, kept: Bits) -> tuple[int, int]:
    """A kept sample of each class, near each other; -1 where there is none."""
    first, second = -1, -1
    for i in range(len(y)):
        if kept[i] and y[i] > 0:
            first = i
            break
    for _ in range(2):
        own, least = y[first] if first >= 0 else 1.0, np.inf
        for i in range(len(y)):
            if kept[i] and y[i] != own:
                apart = Q[i, i] + 2.0 * Q[i, first] if first >= 0 else 0.0
                if apart < least:
                    least, second = apart, i
        if first < 0 or second < 0:
            return first, second
        first, second = second, first  # and once more from there
    return first, second


@njit(cache=True, nogil=True)
def _shortest(margins: Vector, kept: Bits) -> int:
    """The kept sample whose margin falls short most, or -1."""
    p, worst = -1, 1.0 - _SHORT
    for i in range(len(margins)):
        if kept[i] and margins[i] < worst:
            p, worst = i, margins[i]
    return p


@njit(cache=True, nogil=True)
def _take_up(
    Q: Vector, y: Vector, p: int, limit: float, active: Places, alpha: Vector, margins: Vector, k: int,
    value: float, system: Vector, move: Vector,
) -> tuple[int, float, int]:  # fmt: skip
    """Bring sample p to its margin; MET where that was done."""
    own = 0.0
    while k > 0:
        if not _direction(Q, y, active, k, p, system, move):
            return k, value, STALLED
        slope = Q[p, p] + y[p] * move[k]
        for j in range(k):
            slope += Q[p, active[j]] * move[j]
        until, drop = np.inf, -1
        for j in range(k):
            if move[j] < -_FALLS and -alpha[j] / move[j] < until:
                until, drop = -alpha[j] / move[j], j
        moves = slope > _FLAT * Q[p, p]
        if not moves and drop < 0:
            for j in range(k):
                alpha[j] = max(move[j], 0.0)
            active[k], alpha[k] = p, 1.0
            return k + 1, np.inf, RAY
        short = 1.0 - margins[p]
        step = min(until, short / slope) if moves else until
        value += step * (short - 0.5 * step * slope) if moves else step * short
        for j in range(k):
            alpha[j] += step * move[j]
        own += step
        if moves:
            for i in range(len(y)):
                rise = Q[i, p] + y[i] * move[k]
                for j in range(k):
                    rise += Q[i, active[j]] * move[j]
                margins[i] += step * rise
        if moves and step < until:
            if k + 2 > len(active):
                return k, value, STALLED
            active[k], alpha[k] = p, own
            return k + 1, value, MET
        k -= 1
        alpha[drop], active[drop] = alpha[k], active[k]
        if value >= limit:
            active[k], alpha[k] = p, own
            return k + 1, value, ABOVE
    return k, value, STALLED


@njit(cache=True, nogil=True)
def _direction(Q: Vector, y: Vector, active: Places, k: int, p: int, system: Vector, move: Vector) -> bool:
    """How the multipliers of A, and b, move as that of p rises by 1 and A stays on its margins."""
    for i in range(k):
        for j in range(k):
            system[i, j] = Q[active[i], active[j]]
        system[i, k] = system[k, i] = y[active[i]]
        move[i] = -Q[active[i], p]
    system[k, k], move[k] = 0.0, -y[p]
    return _solve(system, move, k + 1)


@njit(cache=True, nogil=True)
def _solve(system: Vector, right: Vector, size: int) -> bool:
    """Gauss elimination with partial pivots, in place; False for a pivot of 0."""
    for i in range(size):
        best = i
        for j in range(i + 1, size):
            if abs(system[j, i]) > abs(system[best, i]):
                best = j
        if system[best, i] == 0.0:
            return False
        if best != i:
            for j in range(i, size):
                system[i, j], system[best, j] = system[best, j], system[i, j]
            right[i], right[best] = right[best], right[i]
        for j in range(i + 1, size):
            factor = system[j, i] / system[i, i]
            if factor != 0.0:
                for column in range(i + 1, size):
                    system[j, column] -= factor * system[i, column]
                right[j] -= factor * right[i]
    for i in range(size - 1, -1, -1):
        total = right[i]
        for j in range(i + 1, size):
            total -= system[i, j] * right[j]
        right[i] = total / system[i, i]
    return True
