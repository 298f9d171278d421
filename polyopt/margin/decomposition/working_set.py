"""Working sets: the choice of one, and the subproblem (9), the dual over its samples with all others fixed.

A sample violates upwards by φ'(β_i+) − g_i − M and downwards by m − φ'(β_i−) + g_i, for whichever family the
slope belongs to. A working set has the worst violators; half of it are the samples that entered the last one
most recently, because they are likely to move again and their kernel rows are cached.

A subproblem is solved pair by pair, as in SMO: one variable gains most by rising, and the other gains most by
falling with it, by second order information (Fan, Chen & Lin 2005). A pair moves to the optimum of its line
or to the next kink of either variable, so one β_i passes through all its families in the same way. Kernel
rows are read only when they are first needed: from cached rows, or computed one at a time from few features.
The steps are in polyopt/native/decomposition.inc.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.families import Pieces
from formulations.language.types import Vector
from polyopt.linalg.kernels import Samples
from polyopt.native.library import kernel

_LANES = 8  # samples of a vector register: rows are padded to a multiple

# Up to `steps` pair steps, which change g and beta; counts = (steps taken, kernel rows read). K, ease, room
# and place are work arrays for r kernel rows of w entries, the next multiple of eight from q on; v = 3.
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


def choose(rise: Vector, fall: Vector, last: Samples, size: int) -> Samples:
    """Choose up to `size` samples, by their places: those kept from the `last` set first, then the new ones.

    rise, fall (n,): ``φ'(β+) − g`` and ``φ'(β−) − g``.
    """
    keep = last[-(size // 2) :]
    allowed = np.ones(len(rise), dtype=bool)
    allowed[keep] = False
    count = (size - len(keep)) // 2
    upward = _largest(np.where(allowed, rise, -np.inf), count, fall.min())
    allowed[upward] = False
    downward = _largest(np.where(allowed, -fall, -np.inf), count, -rise.max())
    return np.concatenate([keep, upward, downward])


def _largest(values: Vector, count: int, floor: float) -> Samples:
    """Places of up to `count` of the largest values above the floor."""
    places = np.argpartition(-values, count)[:count] if count < len(values) else np.arange(len(values))
    return places[values[places] > floor]


class CachedRows(NamedTuple):
    """Cached kernel rows: the row of sample r of the set is ``table[slots[r], places]``."""

    table: NDArray[Any]
    slots: Samples
    places: Samples


class ComputedRows(NamedTuple):
    """Kernel rows to compute: the row of sample r is a function of ``right @ left[r]``.

    The function is the power of this degree, or for degree 0 the exponential.
    """

    left: Vector
    right: Vector
    degree: int


def solve_pairs(
    source: CachedRows | ComputedRows, diagonal: Vector, g: Vector, beta: Vector, phi: Pieces, tol: float,
    rows: int, steps: int,
) -> tuple[int, int]:  # fmt: skip
    """Take pair steps until m - M <= tol, changing beta and g (q,); return the steps taken and rows read.

    It ends after `steps`, and before it would read more than `rows` rows.
    """
    q = len(g)
    width, most = -(-q // _LANES) * _LANES, max(1, min(q, rows))
    K, ease = np.empty((most, width), source[0].dtype), np.empty((most, width), np.float32)
    room, place, counts = np.empty((3, width)), np.empty(q, np.int64), np.empty(2, np.int64)
    solve = _solve_held if isinstance(source, CachedRows) else _solve_computed
    solve(*source, diagonal, g, beta, *phi, tol, steps, K, ease, room, place, counts)
    taken, read = counts.tolist()
    return taken, read


def gathered(table: NDArray[Any], slots: Samples, places: Samples) -> Vector:
    """Return ``table[slots, places]`` in double precision, symmetric from its upper triangle."""
    K = np.empty((len(slots), len(places)))
    _gather_square(table, slots, places, K)
    return K
