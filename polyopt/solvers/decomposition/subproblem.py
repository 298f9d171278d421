"""The sub-problem (9): the dual over one working set, everything else fixed, pair by pair.

Two of its variables move at a time: the one that gains most by rising, and the one whose fall with
it gains most by second order information (Fan, Chen & Lin 2005). A pair moves to the optimum of its
line or to the next kink of either, whichever comes first, so one β_i walks through λ, α and λ* alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from polyopt.solvers.decomposition.dual import slopes, slopes_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["gathered", "solve_pairs"]

_FLAT = 1e-12  # of the diagonal: the least curvature of a pair, as that of like samples is all rounding
_LEAST = 1e-300  # and at all


@njit(cache=True)
def solve_pairs(
    table: NDArray[Any], slots: Samples, places: Samples, diagonal: Vector, g: Vector, beta: Vector,
    lo: Vector, hi: Vector, y: Vector, B: float, tol: float, steps: int,
) -> int:  # fmt: skip
    """Take up to `steps` pair steps, changing beta and g in place; return how many were taken.

    The kernel row of sample r of the set is ``table[slots[r], places]``: it is gathered when it is
    first wanted, and many never are. The vectors are of shape (q,); it ends once m - M <= tol.
    """
    q = len(g)
    K, gathered = np.empty((q, q)), np.zeros(q, dtype=np.bool_)
    up, down = slopes(beta, lo, hi, y, B)
    for step in range(steps):
        m, M, i = -np.inf, np.inf, -1
        for r in range(q):
            rise, fall = up[r] - g[r], down[r] - g[r]
            if rise > m:
                m, i = rise, r
            if fall < M:
                M = fall
        if m - M <= tol:
            return step
        _gather(table, slots, places, K, gathered, i)
        row_i = K[i]
        best, j, curvature = -1.0, -1, 1.0
        for r in range(q):
            drop = m - (down[r] - g[r])
            if drop > 0.0:
                ends = diagonal[i] + diagonal[r]
                bend = max(ends - 2.0 * row_i[r], _FLAT * ends, _LEAST)
                if drop * drop > best * bend:
                    best, j, curvature = drop * drop / bend, r, bend
        length = (m - (down[j] - g[j])) / curvature
        # The next kink of each, on which it is put exactly: rounding would leave it beside.
        kink_i = lo[i] if beta[i] < lo[i] else (hi[i] if beta[i] < hi[i] else np.inf)
        kink_j = hi[j] if beta[j] > hi[j] else (lo[j] if beta[j] > lo[j] else -np.inf)
        room_i, room_j = kink_i - beta[i], beta[j] - kink_j
        length = min(length, room_i, room_j)
        beta[i] = kink_i if length == room_i else beta[i] + length
        beta[j] = kink_j if length == room_j else beta[j] - length
        up[i], down[i] = slopes_at(beta[i], lo[i], hi[i], y[i], B)
        up[j], down[j] = slopes_at(beta[j], lo[j], hi[j], y[j], B)
        _gather(table, slots, places, K, gathered, j)
        row_j = K[j]
        for r in range(q):
            g[r] += length * (row_i[r] - row_j[r])
    return steps


@njit(cache=True)
def _gather(
    table: NDArray[Any], slots: Samples, places: Samples, K: Vector, gathered: NDArray[np.bool_], r: int
) -> None:
    if not gathered[r]:
        row = table[slots[r]]
        for c in range(len(places)):
            K[r, c] = row[places[c]]
        gathered[r] = True


@njit(cache=True)
def gathered(table: NDArray[Any], slots: Samples, places: Samples) -> Vector:
    """``table[slots, places]`` in double precision, and symmetric."""
    q = len(places)
    K = np.empty((q, q))
    for r in range(q):
        row = table[slots[r]]
        for c in range(q):
            K[r, c] = row[places[c]]
    for r in range(q):
        for c in range(r):
            K[r, c] = K[c, r]
    return K
