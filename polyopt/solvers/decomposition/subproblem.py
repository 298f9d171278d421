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
from polyopt.solvers.decomposition.scan import LANES, move, partner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Samples = NDArray[np.intp]

__all__ = ["gathered", "solve_pairs"]

_FLAT = 1e-12  # of the diagonal: the least curvature of a pair, as that of like samples is all rounding
_LEAST = 1e-300  # and at all


@njit(cache=True, nogil=True)
def solve_pairs(
    table: NDArray[Any], slots: Samples, places: Samples, diagonal: Vector, g: Vector, beta: Vector,
    lo: Vector, hi: Vector, y: Vector, B: float, tol: float, steps: int,
) -> int:  # fmt: skip
    """Take up to `steps` pair steps, changing beta and g in place; return how many were taken.

    The kernel row of sample r of the set is ``table[slots[r], places]``: it is gathered when it is
    first wanted, and many never are. The vectors are of shape (q,); it ends once m - M <= tol.
    """
    q = len(g)
    width = -(-q // LANES) * LANES  # samples that are none fill the last vector, and never move
    K, ease = np.empty((q, width), dtype=table.dtype), np.empty((q, width), dtype=np.float32)
    have, unit = np.zeros(q, dtype=np.bool_), diagonal.max()
    up, down, out = np.full(width, -np.inf), np.full(width, np.inf), np.zeros(width)
    up[:q], down[:q] = slopes(beta, lo, hi, y, B)
    out[:q] = g
    best, where = np.empty(2 * LANES), np.empty(LANES, dtype=np.int64)
    taken = steps
    m, i, M = move(out, up, down, out, out, 0.0, best, where)
    for step in range(steps):
        if not m - M > tol:
            taken = step
            break
        if not have[i]:
            _gather(table, slots, places, diagonal, unit, K, ease, i)
            have[i] = True
        j = partner(out, down, ease[i], m, best, where)
        if not have[j]:
            _gather(table, slots, places, diagonal, unit, K, ease, j)
            have[j] = True
        ends = diagonal[i] + diagonal[j]
        length = (m - (down[j] - out[j])) / max(ends - 2.0 * K[i, j], _FLAT * ends, _LEAST)
        # The next kink of each, on which it is put exactly: rounding would leave it beside.
        kink_i = lo[i] if beta[i] < lo[i] else (hi[i] if beta[i] < hi[i] else np.inf)
        kink_j = hi[j] if beta[j] > hi[j] else (lo[j] if beta[j] > lo[j] else -np.inf)
        room_i, room_j = kink_i - beta[i], beta[j] - kink_j
        length = min(length, room_i, room_j)
        beta[i] = kink_i if length == room_i else beta[i] + length
        beta[j] = kink_j if length == room_j else beta[j] - length
        up[i], down[i] = slopes_at(beta[i], lo[i], hi[i], y[i], B)
        up[j], down[j] = slopes_at(beta[j], lo[j], hi[j], y[j], B)
        m, i, M = move(out, up, down, K[i], K[j], length, best, where)
    g[:] = out[:q]
    return taken


@njit(cache=True, nogil=True)
def _gather(
    table: NDArray[Any], slots: Samples, places: Samples, diagonal: Vector, unit: float,
    K: NDArray[Any], ease: NDArray[Any], r: int,
) -> None:  # fmt: skip
    """Row r of K, and what is inverse to its pairs' curvatures, in units of the largest diagonal entry."""
    q, own, pairs, eases = len(places), diagonal[r], K[r], ease[r]
    _pick(table[slots[r]], places, pairs)
    for c in range(q):
        ends = own + diagonal[c]
        eases[c] = unit / max(ends - 2.0 * pairs[c], _FLAT * ends, _LEAST)
    pairs[q:], eases[q:] = 0.0, 0.0


@njit(cache=True, nogil=True)
def _pick(row: NDArray[Any], places: Samples, out: NDArray[Any]) -> None:
    """``out[c] = row[places[c]]``; half of the time goes if no place can be negative."""
    for c in range(len(places)):
        out[c] = row[np.uint64(places[c])]


@njit(cache=True, nogil=True)
def gathered(table: NDArray[Any], slots: Samples, places: Samples) -> Vector:
    """``table[slots, places]`` in double precision, and symmetric."""
    q = len(places)
    K = np.empty((q, q))
    for r in range(q):
        _pick(table[slots[r]], places, K[r])
    for r in range(q):
        for c in range(r):
            K[r, c] = K[c, r]
    return K
