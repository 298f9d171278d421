"""The dual simplex method for the node programs of the L0 tree.

It works on the bases of :mod:`polyopt.solvers.l0.basis`. A step takes a row on the wrong side, or a column
beyond a bound, and moves its multiplier as far as the dual value rises: past every d_j that changes its sign,
a_j going to its other bound, until the slope is used up (a column enters) or some u_l meets a bound (a row
leaves). Switching a centre on is such a step as well: c_q falls from 1 to 0, and a_q goes to its cap if
anything stops that.

Costs and caps are to be such that no two steps tie. Nothing here is trusted: what the multipliers prove is
evaluated by :mod:`polyopt.solvers.l0.node` from the data.

References: Koberstein, The dual simplex method (2005), on the long step; Forrest & Goldfarb, Steepest-edge
simplex algorithms (1992).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.l0.basis import (
    AT_CAP,
    AT_ZERO,
    INSIDE,
    INTERCEPT,
    MIN_PIVOT,
    Given,
    State,
    add,
    afresh,
    combine,
    grow,
    inner,
    place_all,
    replace_column,
    replace_row,
    shrink,
    squares,
    within,
    within_sums,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Marks = NDArray[np.int8]

__all__ = ["FAILED", "OPTIMAL", "STOPPED", "pivot_to_optimum"]

_STEPS_PER_INVERSE = 50  # steps after which the inverse is made anew
_TRIES = 5  # new inverses that may not help

# How a run ended.
OPTIMAL, STOPPED, FAILED = 0, 1, 2


@within
def pivot_to_optimum(given: Given, at: State, on: Marks, most: int, cutoff: float) -> int:
    """Go on from a dual feasible state until it is optimal.

    given: the program; its caps may have changed since the state was made.
    at: where to begin, and where it ends.
    on (p,): which centres are on; those that the state has on are among them.
    most: steps at most.
    cutoff: A dual value of this much is enough.
    Returns: OPTIMAL; STOPPED by one of the limits, with the multipliers so far; FAILED.
    """
    _switch(given, at, on)
    again = 0
    for step in range(most + 1):
        at.sizes[2] = step
        if at.rest[1] >= cutoff or step == most:
            return OPTIMAL if _leaving(given, at, on)[0] == 0 else STOPPED
        kind, number = _leaving(given, at, on)
        strayed = kind == 0 and at.sizes[1] > 0 and _strays(at, given.near)
        if kind == 0 and not strayed:
            return OPTIMAL
        if strayed or at.sizes[1] >= _STEPS_PER_INVERSE:
            again += strayed
            if again > _TRIES or not afresh(given, at):
                return FAILED
        elif not _step(given, at, kind, number):
            return FAILED
    return STOPPED


@within
def _switch(given: Given, at: State, on: Marks) -> None:
    """Tell the columns outside the basis what they cost and may be now."""
    for j in range(len(on)):
        if at.cols[j] != INSIDE:
            if on[j] != at.on[j]:
                change = given.free[j] - given.paid[j]
                at.d[j] += -change if on[j] else change
                at.on[j] = on[j]
            at.cols[j] = AT_CAP if at.d[j] < 0.0 and given.cap[j] > 0.0 else AT_ZERO
    place_all(given, at)


@within
def _strays(at: State, near: float) -> bool:
    """True if the rows of the basis have left their place."""
    most = 0.0
    for r in range(at.sizes[0]):
        most = max(most, abs(at.s[at.R[r]]))
    return most > 100.0 * near


@within
def _leaving(given: Given, at: State, on: Marks) -> tuple[int, int]:
    """The leaving variable: 1 and a row, or 2 and a place in Q; 3 if a centre comes on; 0: none."""
    kind, number, worst = 0, 0, 0.0
    for q in range(at.sizes[0]):
        j = at.Q[q]
        if j == INTERCEPT:
            continue
        if on[j] and not at.on[j]:
            return 3, q
        off = max(-at.a[j], at.a[j] - given.cap[j])
        if off > given.near and off * off > worst * at.of_cols[j]:
            kind, number, worst = 2, q, off * off / at.of_cols[j]
    for i in range(len(at.s)):
        if at.rows[i] != INSIDE and given.h[i] > 0.0:
            off = -at.s[i] if at.rows[i] == AT_ZERO else at.s[i]
            if off > given.near and off * off > worst * at.of_rows[i]:
                kind, number, worst = 1, i, off * off / at.of_rows[i]
    return kind, number


@within
def _step(given: Given, at: State, kind: int, number: int) -> bool:
    """One step: the multiplier of what leaves moves as far as it pays; whether all went well."""
    k = at.sizes[0]
    row = number if kind == 1 else -1
    place = -1 if kind == 1 else number
    du, dd = np.zeros(k), np.zeros(len(at.d))
    if kind == 1:
        sign = 1.0 if at.rows[row] == AT_ZERO else -1.0
        slope, limit = abs(at.s[row]), given.h[row]
        for q in range(k):
            j = at.Q[q]
            add(du, -sign * (given.y[row] if j == INTERCEPT else given.A[row, j]), at.W[q])
        add(dd, -sign, given.A[row])
    else:
        j = at.Q[place]
        rises = kind == 2 and at.a[j] > given.cap[j]
        sign, limit = (1.0 if rises else -1.0), np.inf
        slope = at.a[j] - given.cap[j] if rises else -at.a[j]
        if kind == 3:
            slope, limit = given.full[j] - at.a[j], given.free[j] - given.paid[j]
        add(du, sign, at.W[place])
    less = np.zeros(k)
    add(less, -1.0, du)
    combine(dd, less, given.A, at.R, k)
    far, entering, leaving = _reach(given, at, du, dd, slope, limit)
    if far == np.inf:
        return False
    for r in range(k):
        i = at.R[r]
        at.u[i] = min(max(at.u[i] + far * du[r], 0.0), given.h[i])
    add(at.d, far, dd)
    if row >= 0:
        at.u[row] += sign * far
    if entering >= 0 or leaving >= 0:
        _reweigh(given, at, row, place, sign, du, entering, leaving)
    return _exchange(given, at, kind, row, place, sign, far, du, dd, entering, leaving)


@within
def _reach(
    given: Given, at: State, du: Vector, dd: Vector, slope: float, limit: float
) -> tuple[float, int, int]:
    """The length of a step, and the column that enters or the place in R that leaves, -1 for none.

    Columns that it passes go to their other bounds.
    """
    k = at.sizes[0]
    far, leaving, largest = limit, -1, 0.0
    for r in range(k):
        largest = max(largest, abs(du[r]))
    for r in range(k):
        if abs(du[r]) > MIN_PIVOT * max(largest, 1.0):
            i = at.R[r]
            room = at.u[i] if du[r] < 0.0 else given.h[i] - at.u[i]
            if room < far * abs(du[r]):
                far, leaving = room / abs(du[r]), r
    crossed = np.empty(len(dd), np.int64)
    when = np.empty(len(dd))
    count = 0
    for j in range(len(dd)):
        moves = at.cols[j] != INSIDE and given.cap[j] > 0.0 and abs(dd[j]) > MIN_PIVOT
        towards = (dd[j] < 0.0) == (at.cols[j] == AT_ZERO)
        if moves and towards and abs(at.d[j]) < far * abs(dd[j]):
            crossed[count], when[count] = j, abs(at.d[j]) / abs(dd[j])
            count += 1
    while count > 0:
        first = 0
        for place in range(1, count):
            if when[place] < when[first]:
                first = place
        j, now = crossed[first], when[first]
        slope -= given.cap[j] * abs(dd[j])
        if slope <= 0.0:
            return now, j, -1
        at.cols[j] = AT_ZERO if at.cols[j] == AT_CAP else AT_CAP
        count -= 1
        crossed[first], when[first] = crossed[count], when[count]
    return far, -1, leaving


@within_sums
def _reweigh(
    given: Given, at: State, row: int, place: int, sign: float, du: Vector, entering: int, leaving: int
) -> None:
    """The lengths of the rows of the next basis's inverse."""
    k = at.sizes[0]
    enters, turned = np.zeros(k), np.zeros(k)
    length = (1.0 if row >= 0 else 0.0) + squares(du, k)
    every = np.arange(k)
    for q in range(k):
        turned[q] = inner(at.W[q], du, every, k)
        if leaving >= 0:
            enters[q] = -at.W[q, leaving]
        else:
            enters[q] = inner(at.W[q], given.columns[entering], at.R, k)
    enters_s, turned_s = np.zeros(len(at.s)), np.zeros(len(at.s))
    for q in range(k):
        if at.Q[q] == INTERCEPT:
            add(enters_s, enters[q], given.y)
            add(turned_s, turned[q], given.y)
    combine(enters_s, enters, given.columns, at.Q, k)
    combine(turned_s, turned, given.columns, at.Q, k)
    if entering >= 0:
        add(enters_s, -1.0, given.columns[entering])
    if row >= 0:
        turned_s[row] -= sign
    pivot = enters_s[row] if row >= 0 else enters[place]
    turn = -2.0 * (-sign if row >= 0 else sign) / pivot
    square = length / (pivot * pivot)
    for i in range(len(at.s)):
        if at.rows[i] != INSIDE:
            new = at.of_rows[i] + enters_s[i] * (turn * turned_s[i] + square * enters_s[i])
            at.of_rows[i] = max(new, 1e-4)
    for q in range(k):
        j = at.Q[q]
        if j != INTERCEPT:
            at.of_cols[j] = max(at.of_cols[j] + enters[q] * (turn * turned[q] + square * enters[q]), 1e-4)
    if entering >= 0:
        at.of_cols[entering] = max(square, 1e-4)
    else:
        at.of_rows[at.R[leaving]] = max(square, 1e-4)


@within
def _exchange(
    given: Given, at: State, kind: int, row: int, place: int, sign: float, far: float, du: Vector,
    dd: Vector, entering: int, leaving: int,
) -> bool:  # fmt: skip
    """Change the basis, and make the point of the new one; whether its pivot is large enough."""
    well, weights = True, np.zeros(len(du))
    add(weights, -sign, du)  # the new row in terms of the others
    if entering < 0 and leaving < 0:  # to the other end, in the same basis
        if kind == 1:
            at.rows[row] = AT_CAP if sign > 0.0 else AT_ZERO
            at.u[row] = given.h[row] if sign > 0.0 else 0.0
        else:
            at.on[at.Q[place]] = 1
    else:
        if kind != 1:
            _leave(given, at, kind, place, sign, far)
        if leaving >= 0:
            i = at.R[leaving]
            at.rows[i] = AT_ZERO if du[leaving] < 0.0 else AT_CAP
            at.u[i] = 0.0 if du[leaving] < 0.0 else given.h[i]
            well = replace_row(at, leaving, row, weights) if kind == 1 else shrink(at, place, leaving)
        elif kind == 1:
            well = grow(given, at, row, entering, weights, -sign * dd[entering])
        else:
            well = replace_column(given, at, place, entering)
        if kind == 1:
            at.rows[row] = INSIDE
        if entering >= 0:
            at.cols[entering] = INSIDE
        at.sizes[1] += 1
    if well:
        place_all(given, at)
    return well


@within
def _leave(given: Given, at: State, kind: int, place: int, sign: float, far: float) -> None:
    """Put a column of the basis where its multiplier has moved to."""
    j = at.Q[place]
    if kind == 3:
        at.on[j] = 1
        at.d[j] = far - (given.free[j] - given.paid[j])
        at.cols[j] = AT_CAP
    else:
        at.d[j] = -sign * far
        at.cols[j] = AT_CAP if sign > 0.0 and given.cap[j] > 0.0 else AT_ZERO
