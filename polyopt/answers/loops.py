"""The pass over the rows: a few of them at a time, one column after the other.

A tile of one column is read into one buffer of doubles, from whatever type and order it has, checked there,
and added to the outputs of the faces that have a weight for it, all in the processor's first cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["TILE", "score_rows"]

TILE = 128  # rows at a time
_ROUNDING = {"contract", "reassoc"}  # of a sum that is looked at for being a number alone


@intrinsic
def _pointer(_typing: Any, address: Any) -> Any:
    """An address as a pointer."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), build


@njit(cache=True, nogil=True)
def _take(cells, step, n, centre, x):  # type: ignore[no-untyped-def]
    """``x[i] = cells[i * step] - centre``."""
    if step == 1:
        for i in range(n):
            x[i] = cells[i] - centre
    else:
        place = 0
        for i in range(n):
            x[i] = cells[place] - centre
            place += step


@njit(cache=True, nogil=True)
def _read(address, begin, step, kind, n, centre, x):  # type: ignore[no-untyped-def]
    """The rows from `begin` on of a column; the kinds are those of KINDS."""
    size, p = (n - 1) * step + 1, address
    if kind == 0:
        _take(carray(_pointer(p + 8 * begin * step), size, np.float64), step, n, centre, x)
    elif kind == 1:
        _take(carray(_pointer(p + 4 * begin * step), size, np.float32), step, n, centre, x)
    elif kind == 2:
        _take(carray(_pointer(p + 8 * begin * step), size, np.int64), step, n, centre, x)
    elif kind == 3:
        _take(carray(_pointer(p + 4 * begin * step), size, np.int32), step, n, centre, x)
    elif kind == 4:
        _take(carray(_pointer(p + 2 * begin * step), size, np.int16), step, n, centre, x)
    elif kind == 5:
        _take(carray(_pointer(p + begin * step), size, np.int8), step, n, centre, x)
    else:
        _take(carray(_pointer(p + begin * step), size, np.uint8), step, n, centre, x)


@njit(cache=True, nogil=True, fastmath=_ROUNDING)
def _is_spoiled(x, n):  # type: ignore[no-untyped-def]
    """Whether one of the numbers is none, or infinity."""
    total = 0.0
    for i in range(n):
        total += x[i] * 0.0
    return total != 0.0


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add(out, weight, x, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] += weight * x[i]


# Assignments to slices would do for the next two, but numba takes seconds to compile how it words a
# mismatch of their sizes.


@njit(cache=True, nogil=True)
def _level(value, n, out):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = value


@njit(cache=True, nogil=True)
def _put(values, n, out):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[i] = values[i]


@njit(cache=True, nogil=True)
def _beyond(x, knot, n, y):  # type: ignore[no-untyped-def]
    for i in range(n):
        y[i] = max(x[i] - knot, 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _follow(x, knots, rises, n, u):  # type: ignore[no-untyped-def]
    """Put a curve of the numbers in their place; `u` is room."""
    low, high = knots[0], knots[-1]
    for i in range(n):
        u[i] = min(max(x[i], low), high)
        x[i] = rises[0]
    for h in range(1, len(rises)):
        knot, rise = knots[h - 1], rises[h]
        for i in range(n):
            x[i] += rise * max(u[i] - knot, 0.0)


@njit(cache=True, nogil=True)
def _raise_to(best, other, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        best[i] = other[i] if other[i] > best[i] else best[i]


@njit(cache=True, nogil=True)
def _fill_gaps(x, n, faces, weights, outputs):  # type: ignore[no-untyped-def]
    """Put 0 for what is missing, and add what the faces have for a gap."""
    for i in range(n):
        if np.isnan(x[i]):
            x[i] = 0.0
            for q in range(len(faces)):
                outputs[faces[q], i] += weights[q]


@njit(cache=True, nogil=True)
def _look_up(x, n, levels, table, faces, place, outputs):  # type: ignore[no-untyped-def]
    """Add what the faces have for the levels; `levels` has those of the codes, from -1 on."""
    rows = len(table) // max(len(faces), 1)
    for i in range(n):
        place[i] = levels[np.uint64(x[i])]
    for q in range(len(faces)):
        out, own = outputs[faces[q]], table[q * rows : (q + 1) * rows]
        for i in range(n):
            out[i] += own[place[i]]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _join(outputs, starts, signs, is_least, best, score, n):  # type: ignore[no-untyped-def]
    """The score of the groups, as in :class:`polyopt.answers.form.Form`; the outputs are flipped."""
    for g in range(len(signs)):
        _put(outputs[starts[g]], n, best)
        for k in range(starts[g] + 1, starts[g + 1]):
            _raise_to(best, outputs[k], n)
        if not is_least:
            _add(score, signs[g], best, n)
        elif g == 0:
            for i in range(n):
                score[i] = -best[i]
        else:
            for i in range(n):
                score[i] = -best[i] if -best[i] > score[i] else score[i]
    if is_least:
        for i in range(n):
            score[i] *= -signs[0]


@njit(cache=True, nogil=True)
def score_rows(cells, plan, levels, level_starts, rows, score, every):  # type: ignore[no-untyped-def]
    """Scores of the rows from ``rows[0]`` to ``rows[1]``; arguments as :func:`polyopt.answers.plan.run` has.

    The outputs of all faces are put into `every`, if it has columns. Gives the column, by its place in the
    plan, in which there is what is no number, or -1.
    """
    addresses, steps, kinds = cells
    (centres, has_gaps, starts, faces, weights, gap_starts, gap_faces, gap_weights, table_starts, table,
     text_starts, text_faces, knot_starts, knots, bend_starts, bend_faces, changes, curve_starts,
     curve_knots, rises, b, group_starts, signs, is_least) = plan  # fmt: skip
    outputs = np.empty((len(b), TILE))
    x, best, place = np.empty(TILE), np.empty(TILE), np.empty(TILE, dtype=np.uint64)
    for begin in range(rows[0], rows[1], TILE):
        n = min(TILE, rows[1] - begin)
        for k in range(len(b)):
            _level(b[k], n, outputs[k])
        for p in range(len(addresses)):
            _read(addresses[p], begin, steps[p], kinds[p], n, centres[p], x)
            if level_starts[p + 1] > level_starts[p]:
                own = text_faces[text_starts[p] : text_starts[p + 1]]
                mine, rows_of = levels[level_starts[p] : level_starts[p + 1]], table_starts[p]
                _look_up(x, n, mine, table[rows_of : table_starts[p + 1]], own, place, outputs)
                continue
            if _is_spoiled(x, n):
                if has_gaps[p]:
                    first, last = gap_starts[p], gap_starts[p + 1]
                    _fill_gaps(x, n, gap_faces[first:last], gap_weights[first:last], outputs)
                if _is_spoiled(x, n):
                    return p
            if curve_starts[p + 1] > curve_starts[p]:
                own = slice(curve_starts[p], curve_starts[p + 1])
                _follow(x, curve_knots[own], rises[own], n, best)
            for q in range(starts[p], starts[p + 1]):
                _add(outputs[faces[q]], weights[q], x, n)
            for h in range(knot_starts[p], knot_starts[p + 1]):
                _beyond(x, knots[h], n, best)
                for q in range(bend_starts[h], bend_starts[h + 1]):
                    _add(outputs[bend_faces[q]], changes[q], best, n)
        own_scores = score[begin:]
        _level(0.0, n, own_scores)
        _join(outputs, group_starts, signs, is_least, best, own_scores, n)
        for k in range(every.shape[1]):
            _put(outputs[k], n, every[begin:, k])
    return -1
