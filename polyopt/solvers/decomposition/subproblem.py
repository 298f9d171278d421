"""The sub-problem (9): the dual over one working set, or all samples, everything else fixed, pair by pair.

Two of its variables move at a time: the one that gains most by rising, and the one whose fall with
it gains most by second order information (Fan, Chen & Lin 2005). A pair moves to the optimum of its
line or to the next kink of either, whichever comes first, so one β_i walks through all its families alike.

Kernel rows are asked for when they are first wanted, and many never are. They are gathered from rows at hand
(:class:`Held`), or computed from a few features one at a time (:class:`Computed`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload

from formulations.families import Pieces
from polyopt.compiled import njit
from polyopt.operands import exponentials, put
from polyopt.solvers.decomposition.dual import next_above, next_below, slopes, slopes_at
from polyopt.solvers.decomposition.scan import LANES, move, partner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Samples = NDArray[np.intp]

__all__ = ["Computed", "Held", "gathered", "solve_pairs"]

_FLAT = 1e-12  # of the diagonal: the least curvature of a pair, as that of like samples is all rounding
_LEAST = 1e-300  # and at all
_ROWS = 64  # for which there is room at first


class Held(NamedTuple):
    """Kernel rows at hand: that of sample r of the set is ``table[slots[r], places]``."""

    table: NDArray[Any]
    slots: Samples
    places: Samples


class Computed(NamedTuple):
    """Kernel rows to compute: that of sample r is a function of ``right @ left[r]``.

    The function is the power of this degree, or for degree 0 the exponential of the product.
    """

    left: Vector
    right: Vector
    degree: int


def _put_row(source: Held | Computed, r: int, out: NDArray[Any]) -> None:
    """Put the kernel row of sample r of the set to the front of `out`; for compiled code."""
    raise NotImplementedError


@overload(_put_row)
def _put_row_of(source: Any, r: Any, out: Any) -> Any:
    def gather(source: Any, r: Any, out: Any) -> None:
        _pick(source.table[source.slots[r]], source.places, out)

    def compute(source: Any, r: Any, out: Any) -> None:
        product = np.dot(source.right, source.left[r])
        q = len(product)
        put(product, out)
        if source.degree == 0:
            exponentials(out.reshape((1, len(out))), np.int64(0), q)  # as it is compiled for others
        for _ in range(source.degree - 1):
            for c in range(q):
                out[c] *= product[c]

    return gather if source.instance_class is Held else compute


@njit(cache=True, nogil=True)
def solve_pairs(
    source: Held | Computed, diagonal: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float, rows: int,
    steps: int,
) -> tuple[int, int]:  # fmt: skip
    """Take up to `steps` pair steps, changing beta and g in place; how many were taken, with how many rows.

    The vectors are of shape (q,); it ends once m - M <= tol, and before it wants more than `rows` rows.
    """
    q = len(g)
    width = -(-q // LANES) * LANES  # samples that are none fill the last vector, and never move
    # Kernel rows in the order in which they are wanted, so that no more memory is touched than they need.
    K, ease = (
        np.empty((min(q, rows, _ROWS), width), source[0].dtype),
        np.empty((min(q, rows, _ROWS), width), np.float32),
    )
    place, count, unit = np.full(q, -1), 0, diagonal.max()
    up, down, out = np.full(width, -np.inf), np.full(width, np.inf), np.zeros(width)
    rising, falling = slopes(beta, phi)
    put(rising, up)
    put(falling, down)
    kinks, bends = phi
    put(g, out)
    best, where = np.empty(2 * LANES), np.empty(LANES, dtype=np.int64)
    taken = steps
    m, i, M = move(out, up, down, out, out, 0.0, best, where)
    for step in range(steps):
        if not m - M > tol:
            taken = step
            break
        if count + 2 > len(K) and len(K) < q:
            if len(K) >= rows:
                taken = step
                break
            K, ease = _longer(K, min(q, rows)), _longer(ease, min(q, rows))
        if place[i] < 0:
            place[i], count = count, count + 1
            _gather(source, i, diagonal, unit, K[place[i]], ease[place[i]])
        j = partner(out, down, ease[place[i]], m, best, where)
        if j < 0:  # m - M is all rounding
            taken = step
            break
        if place[j] < 0:
            place[j], count = count, count + 1
            _gather(source, j, diagonal, unit, K[place[j]], ease[place[j]])
        first, second = K[place[i]], K[place[j]]
        ends = diagonal[i] + diagonal[j]
        length = (m - (down[j] - out[j])) / max(ends - 2.0 * first[j], _FLAT * ends, _LEAST)
        # The next kink of each, on which it is put exactly: rounding would leave it beside.
        kink_i, kink_j = next_above(beta[i], i, kinks), next_below(beta[j], j, kinks)
        room_i, room_j = kink_i - beta[i], beta[j] - kink_j
        length = min(length, room_i, room_j)
        beta[i] = kink_i if length == room_i else beta[i] + length
        beta[j] = kink_j if length == room_j else beta[j] - length
        up[i], down[i] = slopes_at(beta[i], i, kinks, bends)
        up[j], down[j] = slopes_at(beta[j], j, kinks, bends)
        m, i, M = move(out, up, down, first, second, length, best, where)
    put(out[:q], g)
    return taken, count


@njit(cache=True, nogil=True)
def _longer(K: NDArray[Any], most: int) -> NDArray[Any]:
    """The same rows, and room for as many more, up to that many in all."""
    longer = np.empty((min(2 * len(K), most), K.shape[1]), K.dtype)
    for r in range(len(K)):
        put(K[r], longer[r])
    return longer


@njit(cache=True, nogil=True)
def _gather(
    source: Held | Computed, r: int, diagonal: Vector, unit: float, pairs: NDArray[Any], eases: NDArray[Any]
) -> None:
    """The row of sample r, and its pairs' inverse curvatures, in units of the largest diagonal entry."""
    q, own = len(diagonal), diagonal[r]
    _put_row(source, r, pairs)
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
