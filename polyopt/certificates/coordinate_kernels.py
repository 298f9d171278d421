"""Kernels of coordinate ascent on the duals of many hinge programs that share their samples.

The faces of a polytope machine with a fixed assignment, without intercept on x̃ = (x, 1):

    max  Σ_i α_ik − ‖W_k‖²,   W_k = ½ Σ_i α_ik y_i x̃_i,   0 ≤ α_ik ≤ c_ik     for every face k

One walk over a sample gives its scores on all faces, and as the faces do not depend on each other, the
steps on all of them at once are exact coordinate steps. Most pairs of sample and face are at rest at 0;
the others are climbed face by face, on copies of the few samples that matter, which fit the cache.

The samples come as the first four members of :class:`polyopt.rows.Rows`, whose entries count `scale`
times. Weights of many faces are U (m+1, L), faces side by side, bias last. The kernels of L lanes close
over L alone: what is compiled is then found again by the next process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.compiled import njit
from polyopt.lanes import add_bias, row_product, row_update
from polyopt.operands import put

if TYPE_CHECKING:
    pass

__all__ = ["add_rows", "climb_face", "row_times", "scan_kernel", "square_lengths", "sweep_kernel"]


@lru_cache
def scan_kernel(n_lanes: int) -> Any:
    """Scores of a stretch of samples on some faces.

    ``scan(values, columns, starts, shared, scale, U, faces, first, last, y, caps, slots, reach, scores,
    inside, rows, owners)`` puts the scores of positive i on ``faces[k]`` into ``scores[slots[i],
    faces[k]]``, adds c_ik times the hinges of the negatives to `inside` (K,), and lists the pairs of
    negatives and faces with scores above `reach` in `rows` and `owners`; it returns how many they are.
    """

    @njit(cache=True, nogil=True)
    def scan(  # type: ignore[no-untyped-def]
        values, columns, starts, shared, scale, U, faces, first, last, y, caps, slots, reach, scores,
        inside, rows, owners,
    ):  # fmt: skip
        used, out = 0, np.zeros(n_lanes, dtype=U.dtype)
        for i in range(first, last):
            begin, end = starts[i], starts[i + 1]
            row_product(values, columns, begin, end, shared * begin, U, out, n_lanes)
            add_bias(out, scale, U)
            if y[i] > 0.0:
                for k in range(len(faces)):
                    scores[slots[i], faces[k]] = out[k]
                continue
            near = False
            for k in range(n_lanes):
                near |= out[k] > reach
            if near:
                for k in range(len(faces)):
                    cap = caps[i, faces[k]]
                    if out[k] > reach and cap > 0.0:
                        inside[faces[k]] += cap * max(0.0, 1.0 + out[k])
                        rows[used], owners[used] = i, faces[k]
                        used += 1
        return used

    return scan


@lru_cache
def sweep_kernel(n_lanes: int) -> Any:
    """Coordinate steps on all faces, sample by sample.

    ``sweep(values, columns, starts, shared, scale, y, caps, squares, order, assignment, U, alpha)``
    visits the samples in `order` and makes the exact step on each of their multipliers, in place; a
    positive has one, on the face that answers for it.
    """

    @njit(cache=True, nogil=True)
    def sweep(  # type: ignore[no-untyped-def]
        values, columns, starts, shared, scale, y, caps, squares, order, assignment, U, alpha
    ):  # fmt: skip
        K, bias = alpha.shape[1], U[len(U) - 1]
        out, change = np.zeros(n_lanes, dtype=U.dtype), np.zeros(n_lanes, dtype=U.dtype)
        for i in order:
            begin, end = starts[i], starts[i + 1]
            offset = shared * begin
            row_product(values, columns, begin, end, offset, U, out, n_lanes)
            first, last = 0, K
            if y[i] > 0.0:
                first, last = assignment[i], assignment[i] + 1
            moved, face = 0, 0
            for k in range(first, last):
                slope = 1.0 - y[i] * (scale * out[k] + bias[k])
                before = alpha[i, k]
                if slope > 0.0 or before > 0.0:
                    after = min(max(before + 2.0 * slope / squares[i], 0.0), caps[i, k])
                    if after != before:
                        alpha[i, k] = after
                        change[k] = 0.5 * y[i] * (after - before)
                        moved, face = moved + 1, k
            if moved == 1:
                step = scale * change[face]
                for p in range(begin, end):
                    U[columns[p - offset], face] += step * values[p]
                bias[face] += change[face]
            elif moved > 1:
                for k in range(n_lanes):
                    bias[k] += change[k]
                    change[k] *= scale
                row_update(values, columns, begin, end, offset, U, change, n_lanes)
            if moved > 0:
                for k in range(first, last):
                    change[k] = 0.0

    return sweep


@njit(cache=True, nogil=True)
def add_rows(values, columns, starts, shared, scale, rows, amounts, w):  # type: ignore[no-untyped-def]
    """Add ``amounts[j]`` times x̃ of sample ``rows[j]`` to w (m+1,), for every j."""
    for j in range(len(rows)):
        begin, amount = starts[rows[j]], scale * amounts[j]
        offset = shared * begin
        for p in range(begin, starts[rows[j] + 1]):
            w[columns[p - offset]] += amount * values[p]
        w[len(w) - 1] += amounts[j]


@njit(cache=True, nogil=True)
def square_lengths(values, starts, scale):  # type: ignore[no-untyped-def]
    """‖x̃‖² of every sample, at least 1."""
    squares = np.empty(len(starts) - 1)
    for i in range(len(squares)):
        total = 0.0
        for p in range(starts[i], starts[i + 1]):
            x = scale * np.float64(values[p])
            total += x * x
        squares[i] = 1.0 + total
    return squares


@njit(cache=True, nogil=True)
def row_times(values, columns, begin, end, offset, w):  # type: ignore[no-untyped-def]
    """The product of a row with one face, in four strands; unsigned places need no test of their sign."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    fours = (end - begin) // 4
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for four in range(fours):
        p, q = np.uint64(begin + 4 * four), np.uint64(begin + 4 * four - offset)
        s0 += values[p] * w[columns[q]]
        s1 += values[p + one] * w[columns[q + one]]
        s2 += values[p + two] * w[columns[q + two]]
        s3 += values[p + three] * w[columns[q + three]]
    for last in range(begin + 4 * fours, end):
        s0 += values[last] * w[columns[last - offset]]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def climb_face(  # type: ignore[no-untyped-def]
    values, columns, starts, shared, scale, y, caps, squares, rows, alpha, w, accuracy, passes, seed
):  # fmt: skip
    """Climb one face over some of its samples, in place, until no slope is above `accuracy`.

    Multipliers at rest at a bound beyond the largest slope of the pass before are left out, and are looked at
    again before the climb ends.

    values, columns, starts, shared, scale: the samples.
    y, caps, squares, alpha: labels, caps, squared lengths and multipliers.
    rows: the samples to climb over.
    w (m + 1,): the face.
    accuracy: largest slope that an ascent direction may still have, in units of the margin.
    passes: passes over the rows at most.
    seed: of the order in which the samples are visited.
    Returns: passes made.
    """
    n, bias = len(rows), len(w) - 1
    places = np.zeros(n + 1, dtype=np.int64)
    for j in range(n):
        places[j + 1] = places[j] + starts[rows[j] + 1] - starts[rows[j]]
    entries = np.empty(places[n], dtype=values.dtype)
    # Rows that share their columns stay so; the copies of others bring their own.
    own = np.empty(len(columns) if shared else places[n], dtype=columns.dtype)
    if shared:
        put(columns, own)
    for j in range(n):
        to, come = slice(places[j], places[j + 1]), slice(starts[rows[j]], starts[rows[j] + 1])
        put(values[come], entries[to])
        if not shared:
            put(columns[come], own[to])
    random = np.uint64(seed)
    order, active, worst_before = np.arange(n), n, np.inf
    for number in range(passes):
        for j in range(active - 1, 0, -1):
            random = random * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
            other = int((random >> np.uint64(33)) % np.uint64(j + 1))
            order[j], order[other] = order[other], order[j]
        worst, j = 0.0, 0
        while j < active:
            r = order[j]
            begin, end = places[r], places[r + 1]
            offset = shared * begin
            slope = 1.0 - y[r] * (scale * row_times(entries, own, begin, end, offset, w) + w[bias])
            before, cap = alpha[r], caps[r]
            upward = slope if before < cap else 0.0
            downward = -slope if before > 0.0 else 0.0
            if (before <= 0.0 and slope < -worst_before) or (before >= cap and slope > worst_before):
                active -= 1
                order[j], order[active] = order[active], order[j]
                continue
            j += 1
            worst = max(worst, upward, downward)
            after = min(max(before + 2.0 * slope / squares[r], 0.0), cap)
            if after != before:
                alpha[r] = after
                step = 0.5 * y[r] * (after - before)
                scaled = step * scale
                for p in range(begin, end):
                    w[own[p - offset]] += scaled * entries[p]
                w[bias] += step
        worst_before = worst
        if worst <= accuracy:
            if active == n:
                return number + 1
            active, worst_before = n, np.inf
    return passes
