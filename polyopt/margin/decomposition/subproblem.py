"""The sub-problem (9): the dual over one working set, or all samples, everything else fixed, pair by pair.

Two of its variables move at a time: the one that gains most by rising, and the one whose fall with
it gains most by second order information (Fan, Chen & Lin 2005). A pair moves to the optimum of its
line or to the next kink of either, whichever comes first, so one β_i walks through all its families alike.

Kernel rows are asked for when they are first wanted, and many never are. They are gathered from rows at hand
(:class:`Held`), or computed from a few features one at a time (:class:`Computed`).

The steps are compiled: polyopt/native/decomposition.inc has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.families import Pieces
    from formulations.language.types import Vector

    Samples = NDArray[np.intp]

__all__ = ["Computed", "Held", "gathered", "solve_pairs"]

_LANES = 8  # samples that a pass looks at together: vectors are filled up to a multiple of them

# Up to `steps` pair steps, which change g and beta; counts = (steps taken, kernel rows wanted). K, ease, room
# and place are room to work in, for r kernel rows of w entries, the next multiple of eight from q on; v = 3.
_REST = (
    "diagonal: f8 (q); g!: f8 (q); beta!: f8 (q); ends: f8 (k, q); slopes: f8 (l, q); tol: f8; steps: i8; "
    "K!: T (r, w); ease!: f4 (r, w); room!: f8 (v, w); place!: i8 (q); counts!: i8 (e)"
)
_solve_held = kernel(
    "solve_pairs_held", "table: T (s, n); slots: i8 (q); places: i8 (q); " + _REST, T="f8 f4"
)
_solve_computed = kernel(
    "solve_pairs_computed",
    "left: f8 (q, m); right: f8 (q, m); degree: i8; " + _REST.replace("T", "f8"),
)
# K = table[slots, places], its upper triangle and the mirror image.
_gather_square = kernel(
    "gather_square", "table: T (s, n); slots: i8 (q); places: i8 (q); K!: f8 (q, q)", T="f8 f4"
)


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


def solve_pairs(
    source: Held | Computed, diagonal: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float, rows: int,
    steps: int,
) -> tuple[int, int]:  # fmt: skip
    """Take up to `steps` pair steps, changing beta and g in place; how many were taken, with how many rows.

    The vectors are of shape (q,); it ends once m - M <= tol, and before it wants more than `rows` rows.
    """
    q = len(g)
    width, most = -(-q // _LANES) * _LANES, max(1, min(q, rows))
    K, ease = np.empty((most, width), source[0].dtype), np.empty((most, width), np.float32)
    room, place, counts = np.empty((3, width)), np.empty(q, np.int64), np.empty(2, np.int64)
    solve = _solve_held if isinstance(source, Held) else _solve_computed
    solve(*source, diagonal, g, beta, *phi, tol, steps, K, ease, room, place, counts)
    taken, wanted = counts.tolist()
    return taken, wanted


def gathered(table: NDArray[Any], slots: Samples, places: Samples) -> Vector:
    """``table[slots, places]`` in double precision, and symmetric: upper triangle and mirror image."""
    K = np.empty((len(slots), len(places)))
    _gather_square(table, slots, places, K)
    return K
