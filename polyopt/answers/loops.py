"""The pass over the rows: a few of them at a time, some columns and then the faces with weights for them.

A tile of a column is read into a row of a small table, from whatever type and order it has. Once that is
checked, curves stand in place of numbers, and hinges in rows of their own. Each face, or two of them, then
adds four rows at a time. All of it stays in the processor's first cache. Places in arrays are unsigned where
the loops over rows need them: numba looks at a signed one for being negative, which takes longer than the
reading. What adds rows takes tables and places in them: a row of a table as an array of its own is counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from polyopt.answers.packed import PIECES
from polyopt.compiled import njit

__all__ = ["TILE", "score_rows"]

TILE = 256  # rows at a time
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
        apart = np.uint64(step)
        for i in range(n):
            x[i] = cells[np.uint64(i) * apart] - centre


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


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_four(out, k, rows, p, q, r, s, a, b, c, d, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        out[k, i] += (a * rows[p, i] + b * rows[q, i]) + (c * rows[r, i] + d * rows[s, i])


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_four_to_two(out, k, other, rows, p, q, r, s, a, b, c, d, e, f, g, h, n):  # type: ignore[no-untyped-def]
    for i in range(n):
        x, y, z, u = rows[p, i], rows[q, i], rows[r, i], rows[s, i]
        out[k, i] += (a * x + b * y) + (c * z + d * u)
        out[other, i] += (e * x + f * y) + (g * z + h * u)


@njit(cache=True, nogil=True)
def _beyond(x, knot, n, y):  # type: ignore[no-untyped-def]
    for i in range(n):
        y[i] = max(x[i] - knot, 0.0)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _follow(x, level, knots, slopes, n, u):  # type: ignore[no-untyped-def]
    """Put a curve of the numbers, as :mod:`polyopt.answers.packed` has it, in their place; `u` is room."""
    for i in range(n):
        u[i] = x[i]
    for h in range(0, len(slopes) - 1, PIECES):
        p, q, r, s, t, v = knots[h], knots[h + 1], knots[h + 2], knots[h + 3], knots[h + 4], knots[h + 5]
        a, b, c, d, e, f = (
            slopes[h],
            slopes[h + 1],
            slopes[h + 2],
            slopes[h + 3],
            slopes[h + 4],
            slopes[h + 5],
        )
        w = knots[h + 6]
        for i in range(n):
            one = a * min(max(u[i], p), q) + b * min(max(u[i], q), r)
            two = c * min(max(u[i], r), s) + d * min(max(u[i], s), t)
            three = e * min(max(u[i], t), v) + f * min(max(u[i], v), w)
            x[i] = (level if h == 0 else x[i]) + ((one + two) + three)


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
def _join(outputs, starts, signs, is_least, score, n):  # type: ignore[no-untyped-def]
    """The score of the groups, as in :class:`polyopt.answers.form.Form`; the flipped outputs are lost."""
    _level(0.0, n, score)
    for g in range(len(signs)):
        best, sign = outputs[starts[g]], signs[g]
        for k in range(starts[g] + 1, starts[g + 1]):
            other = outputs[k]
            for i in range(n):
                best[i] = other[i] if other[i] > best[i] else best[i]
        if not is_least:
            for i in range(n):
                score[i] += sign * best[i]
        else:
            for i in range(n):
                score[i] = best[i] if g == 0 or best[i] < score[i] else score[i]
    if is_least:
        for i in range(n):
            score[i] *= signs[0]


@njit(cache=True, nogil=True)
def _read_block(cells, columns, first, last, levels, level_starts, begin, n, rows, place, outputs):  # type: ignore[no-untyped-def]
    """Rows of the numbers of some columns; texts are added to the outputs.

    Gives how many rows, and the column, by its place in the plan, with what is no number, or -1.
    """
    addresses, steps, kinds = cells
    centres, has_gaps, gap_starts, gap_faces, gap_weights, table_starts, table, text_starts, text_faces = (
        columns
    )
    made = 0
    for p in range(first, last):
        x = rows[made]
        _read(addresses[p], begin, steps[p], kinds[p], n, centres[p], x)
        if level_starts[p + 1] > level_starts[p]:
            own = text_faces[text_starts[p] : text_starts[p + 1]]
            mine, rows_of = levels[level_starts[p] : level_starts[p + 1]], table_starts[p]
            _look_up(x, n, mine, table[rows_of : table_starts[p + 1]], own, place, outputs)
            continue
        made += 1
        if _is_spoiled(x, n):
            if has_gaps[p]:
                low, high = gap_starts[p], gap_starts[p + 1]
                _fill_gaps(x, n, gap_faces[low:high], gap_weights[low:high], outputs)
            if _is_spoiled(x, n):
                return made, p
    return made, -1


@njit(cache=True, nogil=True)
def _bend(bends, first, last, rows, made, level_starts, n, u):  # type: ignore[no-untyped-def]
    """Curves in place of numbers, and the hinges in rows after them."""
    curve_starts, levels, curve_knots, slopes, knot_starts, knots = bends
    place = 0
    for p in range(first, last):
        if level_starts[p + 1] > level_starts[p]:
            continue
        x, begin, end = rows[place], curve_starts[p], curve_starts[p + 1]
        place += 1
        if end > begin:
            _follow(x, levels[p], curve_knots[begin:end], slopes[begin:end], n, u)
        for h in range(knot_starts[p], knot_starts[p + 1]):
            _beyond(x, knots[h], n, rows[made])
            made += 1


@njit(cache=True, nogil=True)
def _add(steps, g, rows, outputs, n):  # type: ignore[no-untyped-def]
    """Add what the faces have for the rows of the table, of one block."""
    starts, ones, others, term_starts, features, first, second = steps
    for step in range(starts[g], starts[g + 1]):
        k, other = np.uint64(ones[step]), others[step]
        for t in range(term_starts[step], term_starts[step + 1], 4):
            p, q = np.uint64(features[t]), np.uint64(features[t + 1])
            r, s = np.uint64(features[t + 2]), np.uint64(features[t + 3])
            a, b, c, d = first[t], first[t + 1], first[t + 2], first[t + 3]
            if other < 0:
                _add_four(outputs, k, rows, p, q, r, s, a, b, c, d, n)
            else:
                e, f, v, h = second[t], second[t + 1], second[t + 2], second[t + 3]
                _add_four_to_two(outputs, k, np.uint64(other), rows, p, q, r, s, a, b, c, d, e, f, v, h, n)


@njit(cache=True, nogil=True)
def score_rows(cells, plan, levels, level_starts, span, score, every):  # type: ignore[no-untyped-def]
    """Scores of the rows from ``span[0]`` to ``span[1]``, by a plan that is packed.

    The outputs of all faces are put into `every`, if it has columns. Gives the column, by its place in the
    plan, in which there is what is no number, or -1.
    """
    columns, bends, blocks, steps, b, form = plan
    group_starts, signs, is_least, width = form
    outputs, rows = np.empty((len(b), TILE)), np.empty((width + 1, TILE))
    u, place = np.empty(TILE), np.empty(TILE, dtype=np.uint64)
    for begin in range(span[0], span[1], TILE):
        n = min(TILE, span[1] - begin)
        for k in range(len(b)):
            _level(b[k], n, outputs[k])
        for g in range(len(blocks) - 1):
            first, last = blocks[g], blocks[g + 1]
            made, bad = _read_block(
                cells, columns, first, last, levels, level_starts, begin, n, rows, place, outputs
            )
            if bad >= 0:
                return bad
            _bend(bends, first, last, rows, made, level_starts, n, u)
            _add(steps, g, rows, outputs, n)
        for k in range(every.shape[1]):
            _put(outputs[k], n, every[begin:, k])
        _join(outputs, group_starts, signs, is_least, score[begin:], n)
    return -1
