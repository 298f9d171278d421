"""Kernels of coordinate ascent on the duals of many hinge programs that share their samples.

The faces of a polytope machine with a fixed assignment, without intercept on x̃ = (x, 1):

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik     for every face k

One walk over a sample gives its scores on all faces, and as the faces do not depend on each other, the
steps on all of them at once are exact coordinate steps. Most pairs of sample and face are at rest at 0;
the others are climbed face by face, on copies of the few samples that matter, which fit the cache.

The kernels are in ``native/coordinate_scans.c`` and ``coordinate_climbs.c``. Samples are
:class:`polyopt.linalg.rows.Rows`, whose entries count `scale` times. Weights of many faces are lanes U (m+1,
L) (:mod:`polyopt.linalg.rows`). caps is (n, q): c_ik, with q = 1 if all faces have the same, else q
= K.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.linalg.rows import ROW_TYPES, ROWS, WEIGHT_TYPES, Rows
from polyopt.native.library import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector

    Integers = NDArray[np.int64]

__all__ = ["add_rows", "climb_face", "scan", "square_lengths", "sweep"]

_ENTRIES_PER_CALL = 1 << 26  # visited by the passes of one call: some 0.1 s

# Scores of samples `first` to `last` - 1 on faces[k], which is in column k of U.
#   scores (positives, K): those of positive i go to scores[slots[i], faces[k]].
#   inside (K,): c_ik times the hinges of the negatives are added.
#   pairs (2, r): negatives, and faces on which their scores are above `reach`. out (L,): work space.
# Returns the number of pairs.
scan = kernel(
    "ascent_scan",
    ROWS + "scale: f8; U: W (w, L); faces: i8 (F); first: i8; last: i8; y: f8 (n); caps: f8 (n, q); "
    "slots: i8 (n); reach: f8; scores!: f8 (positives, K); inside!: f8 (K); pairs!: i4 (two, r); out!: W (L)",
    returns="i8",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)

# The exact step on every multiplier of the samples in `order`, one after another; a positive has one, on the
# face that answers for it.
#   U (m+1, L), alpha (n, K): updated. work (2, L): work space, zeros at first.
sweep = kernel(
    "ascent_sweep",
    ROWS + "scale: f8; y: f8 (n); caps: f8 (n, q); squares: f8 (n); order: i8 (o); assignment: i8 (n); "
    "U!: W (w, L); alpha!: f8 (n, K); work!: W (two, L)",
    **ROW_TYPES,
    **WEIGHT_TYPES,
)

_square_lengths = kernel(
    "square_lengths", "values: V (e); starts: i8 (s); scale: f8; squares!: f8 (n)", V=ROW_TYPES["V"]
)
_add_rows = kernel("add_rows", ROWS + "scale: f8; chosen: i8 (r); amounts: f8 (r); w!: f8 (m)", **ROW_TYPES)
_copy_rows = kernel(
    "copy_rows", ROWS + "chosen: i8 (r); places: i8 (q); entries!: V (f); own!: N (g)", **ROW_TYPES
)
# Passes over all samples, as climb_face. The next call goes on from order (n,), counts (3,): samples at work,
# state of the random numbers, passes made, and slope (1,): the largest one of the pass before.
# Returns 1 if the climb has ended.
_climb_face = kernel(
    "climb_face",
    ROWS + "scale: f8; y: f8 (n); caps: f8 (n); squares: f8 (n); alpha!: f8 (n); w!: f8 (m); accuracy: f8; "
    "passes: i8; order!: i8 (n); counts!: i8 (three); slope!: f8 (one)",
    returns="i8",
    **ROW_TYPES,
)


def square_lengths(rows: Rows, scale: float) -> Vector:
    """‖x̃‖² of every sample, at least 1."""
    squares = np.empty(len(rows.starts) - 1)
    _square_lengths(rows.values, rows.starts, scale, squares)
    return squares


def add_rows(rows: Rows, scale: float, chosen: Integers, amounts: Vector, w: Vector) -> None:
    """Add ``amounts[j]`` times x̃ of sample ``chosen[j]`` to w (m+1,), for every j."""
    _add_rows(rows.values, rows.columns, rows.starts, rows.shared, scale, chosen, amounts, w)


def climb_face(
    rows: Rows, scale: float, y: Vector, caps: Vector, squares: Vector, chosen: Integers, alpha: Vector,
    w: Vector, accuracy: float, passes: int, seed: int,
) -> int:  # fmt: skip
    """Climb one face over some of its samples, in place, until no slope is above `accuracy`.

    Multipliers at rest at a bound beyond the largest slope of the pass before are left out, and are looked at
    again before the climb ends.

    rows, scale: all samples.
    chosen: those to climb over.
    y, caps, squares, alpha: their labels, caps, squared lengths and multipliers.
    w (m + 1,): the face.
    accuracy: largest slope that an ascent direction may still have, in units of the margin.
    passes: passes over the samples at most.
    seed: of the order in which the samples are visited.
    Returns: passes made.
    """
    own, slope = _copies(rows, chosen), np.array([np.inf])
    order, counts = np.arange(len(chosen)), np.array([len(chosen), seed, 0])
    per_call, made = max(1, _ENTRIES_PER_CALL // (len(own.values) + 1)), 0
    while made < passes:
        has_ended = _climb_face(
            own.values, own.columns, own.starts, own.shared, scale, y, caps, squares, alpha, w, accuracy,
            min(per_call, passes - made), order, counts, slope,
        )  # fmt: skip
        made = int(counts[2])
        if has_ended:
            break
    return made


def _copies(rows: Rows, chosen: Integers) -> Rows:
    """The chosen rows alone."""
    if rows.shared:
        entries = rows.values.reshape(len(rows.starts) - 1, rows.width)[chosen].ravel()
        starts = np.arange(len(chosen) + 1, dtype=np.int64) * rows.width
        return Rows(entries, rows.columns, starts, 1, rows.width)
    starts = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(rows.starts[chosen + 1] - rows.starts[chosen], out=starts[1:])
    entries = np.empty(starts[-1], dtype=rows.values.dtype)
    columns = np.empty(starts[-1], dtype=rows.columns.dtype)
    _copy_rows(rows.values, rows.columns, rows.starts, 0, chosen, starts, entries, columns)
    return Rows(entries, columns, starts, 0, rows.width)
