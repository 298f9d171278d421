"""A basis of a node's program, and its point: the numbers that :mod:`polyopt.solvers.l0.pivots` works on.

    min  Σ_j c_j a_j + Σ_i h_i [−s_i]_+   s.t.   s = A a + y b − g,   0 ≤ a ≤ m,

with c_j = 1 for a centre that is free and 0 for one that is on, m_j = 0 for one that is off. Its dual has
multipliers 0 ≤ u ≤ h with y'u = 0, and the reduced costs d = c − A'u, which price a_j at −[−d_j]_+.

A basis is a set R of rows with s_i = 0 and a set Q of columns between their bounds, one fewer; b is always
in it. The square matrix M = [A_RQ, y_R] is all there is to invert: as many rows as the point has fractions,
while HiGHS's basis has a row for each sample. Every u_i outside R is 0 or h_i, every a_j outside Q is 0 or
m_j, whichever d_j says. So any basis whose u_R is within its bounds is dual feasible, and stays so when a
bound of a changes: a child goes on where its parent ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.compiled import borrowed, njit
from polyopt.operands import put

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

    Marks = NDArray[np.int8]

__all__ = [
    "AT_CAP", "AT_ZERO", "INSIDE", "INTERCEPT", "MIN_PIVOT", "Given", "State", "add", "afresh", "begin",
    "combine", "copy", "empty_state", "grow", "inner", "joined", "load", "place_all", "replace_column",
    "replace_row", "shrink", "squares", "within", "within_sums",
]  # fmt: skip

AT_ZERO, INSIDE, AT_CAP = 0, 1, 2  # where a column or a multiplier stands
INTERCEPT = -1  # its number among the columns of the basis
MIN_PIVOT = 1e-9  # pivot of a step
_MIN_INVERSE_PIVOT = 1e-11  # pivot of an inverse

# Called from compiled code alone: a wrapper for Python takes as long to compile as what it wraps.
within = njit(cache=True, no_cpython_wrapper=True)
"""Compiles what compiled code calls."""
joined = njit(cache=True, no_cpython_wrapper=True, inline="always")
"""The same, of what has one caller, with which it is compiled, and not once more by itself."""
within_sums = njit(cache=True, no_cpython_wrapper=True, fastmath={"reassoc", "contract"})
"""The same, of sums that nothing is proven from: they may be added up in another order."""


class Given(NamedTuple):
    """A program: the arrays of the module's formula.

    ``A`` is (N, p) and ``columns`` its transpose, both by rows; ``y, h, g`` are (N,), ``cap, full, free,
    paid`` (p,): the largest a, what it is unless the centre is off, and the costs of a centre that is free
    and of one that is on. ``near`` is what a row or a column may be off its place.
    """

    A: Vector
    columns: Vector
    y: Vector
    h: Vector
    g: Vector
    cap: Vector
    full: Vector
    free: Vector
    paid: Vector
    near: float


class State(NamedTuple):
    """A basis and its point.

    ``rows`` (N,), ``cols`` (p,) say where each stands, ``on`` (p,) which columns cost ``paid``; ``R``, ``Q``
    are the basis, ``W`` its inverse, of which the first ``sizes[0]`` count; ``u, s`` (N,), ``d, a`` (p,) the
    point (a column of the basis has d = 0, which is not kept). ``of_rows, of_cols`` are the squared lengths
    by which steps are chosen (steepest edge), of each basic variable's row of the inverse of all rows and
    columns. ``sizes[1]`` counts the steps since W was made, ``sizes[2]`` those of the last run; ``rest`` is b
    and the dual value.
    """

    rows: Marks
    cols: Marks
    on: Marks
    R: NDArray[np.int64]
    Q: NDArray[np.int64]
    W: Vector
    u: Vector
    s: Vector
    d: Vector
    a: Vector
    of_rows: Vector
    of_cols: Vector
    sizes: NDArray[np.int64]
    rest: Vector


def empty_state(N: int, p: int) -> State:
    """A state of which nothing is known yet."""
    most = min(N, p + 1) + 1
    return State(
        np.zeros(N, np.int8), np.zeros(p, np.int8), np.zeros(p, np.int8), np.zeros(most, np.int64),
        np.zeros(most, np.int64), np.zeros((most, most)), np.zeros(N), np.zeros(N), np.zeros(p), np.zeros(p),
        np.ones(N), np.ones(p), np.zeros(3, np.int64), np.zeros(2),
    )  # fmt: skip


@within
def add(target: Vector, factor: float, other: Vector) -> None:
    """Add a multiple of a vector, in place."""
    for j in range(len(target)):
        target[j] += factor * other[j]


@within_sums
def squares(of: Vector, k: int) -> float:
    """The sum of the squares of the first k."""
    total = 0.0
    for r in range(k):
        total += of[r] * of[r]
    return total


@within_sums
def inner(one: Vector, other: Vector, at: NDArray[np.int64], k: int) -> float:
    """The sum of k products, of the first numbers of the one and those at places of the other."""
    total = 0.0
    for r in range(k):
        total += one[r] * other[at[r]]
    return total


@within_sums
def combine(target: Vector, factors: Vector, vectors: Vector, which: NDArray[np.int64], k: int) -> None:
    """Add multiples of k rows of a matrix, four at a time; those of negative number are left out."""
    size = len(target)
    q = 0
    while q < k:
        if q + 3 < k and min(min(which[q], which[q + 1]), min(which[q + 2], which[q + 3])) >= 0:
            one, two = vectors[which[q]], vectors[which[q + 1]]
            three, four = vectors[which[q + 2]], vectors[which[q + 3]]
            a, b, c, d = factors[q], factors[q + 1], factors[q + 2], factors[q + 3]
            for j in range(size):
                target[j] += a * one[j] + b * two[j] + c * three[j] + d * four[j]
            q += 4
        else:
            if which[q] >= 0:
                add(target, factors[q], vectors[which[q]])
            q += 1


@within
def copy(source: State, target: State) -> None:
    """Make one state the same as another."""
    k = source.sizes[0]
    for q in range(k):
        for r in range(k):
            target.W[q, r] = source.W[q, r]
    put(source.rows, target.rows)
    put(source.cols, target.cols)
    put(source.on, target.on)
    put(source.R, target.R)
    put(source.Q, target.Q)
    put(source.u, target.u)
    put(source.s, target.s)
    put(source.d, target.d)
    put(source.a, target.a)
    put(source.of_rows, target.of_rows)
    put(source.of_cols, target.of_cols)
    put(source.sizes, target.sizes)
    put(source.rest, target.rest)


@njit(cache=True)
def load(given: Given, at: State) -> bool:
    """Make the point of the basis that ``rows`` and ``cols`` name; whether it is dual feasible."""
    given, at, k = borrowed(given), borrowed(at), 0
    for i in range(len(at.rows)):
        if at.rows[i] == INSIDE:
            if k >= len(at.R):
                return False
            at.R[k] = i
            k += 1
    at.Q[0] = INTERCEPT
    q = 1
    for j in range(len(at.cols)):
        if at.cols[j] == INSIDE:
            if q >= k:
                return False
            at.Q[q] = j
            q += 1
    at.sizes[0] = k
    if k == 0 or q < k or not afresh(given, at):
        return False
    _weigh(given, at)
    return True


@within
def _weigh(given: Given, at: State) -> None:
    """The squared length of each basic variable's row of the inverse of HiGHS's basis."""
    k = at.sizes[0]
    for q in range(k):
        if at.Q[q] != INTERCEPT:
            at.of_cols[at.Q[q]] = squares(at.W[q], k)
    every, factors = np.arange(k), np.zeros(k)
    for i in range(len(at.rows)):
        if at.rows[i] != INSIDE:
            for q in range(k):
                j = at.Q[q]
                factors[q] = given.y[i] if j == INTERCEPT else given.A[i, j]
            row = np.zeros(k)
            combine(row, factors, at.W, every, k)
            at.of_rows[i] = 1.0 + squares(row, k)


@within
def afresh(given: Given, at: State) -> bool:
    """Invert the basis and make its point; whether it has an inverse and is dual feasible."""
    if not _invert(given, at):
        return False
    k = at.sizes[0]
    at.sizes[1] = 0
    rhs = np.zeros(k)
    for q in range(k):
        j = at.Q[q]
        if j != INTERCEPT:
            rhs[q] = given.paid[j] if at.on[j] else given.free[j]
    for i in range(len(at.rows)):
        at.u[i] = given.h[i] if at.rows[i] == AT_CAP else 0.0
        if at.rows[i] == AT_CAP:
            for q in range(k):
                j = at.Q[q]
                rhs[q] -= at.u[i] * (given.y[i] if j == INTERCEPT else given.A[i, j])
    inside = np.zeros(k)
    for q in range(k):
        add(inside, rhs[q], at.W[q])
    for r in range(k):
        i = at.R[r]
        if not -1e-7 * (1.0 + given.h[i]) <= inside[r] <= given.h[i] + 1e-7 * (1.0 + given.h[i]):
            return False
        at.u[i] = min(max(inside[r], 0.0), given.h[i])
    _price(given, at)
    place_all(given, at)
    return True


def begin(given: Given, at: State) -> bool:
    """The basis of the constant classifier: all of the lighter class pay, the heavier one as much."""
    plus, minus = float(given.h[given.y > 0.0].sum()), float(given.h[given.y < 0.0].sum())
    light, label = (plus, -1.0) if plus <= minus else (minus, 1.0)
    of_label = np.flatnonzero(given.y == label)
    paid = int((np.cumsum(given.h[of_label]) <= light).sum())
    for marks in (at.cols, at.rows, at.on):
        marks[:] = AT_ZERO
    at.rows[given.y == -label] = AT_CAP
    at.rows[of_label[:paid]] = AT_CAP
    at.rows[of_label[min(paid, len(of_label) - 1)]] = INSIDE
    return bool(load(given, at))


@within
def _price(given: Given, at: State) -> None:
    """The reduced costs, and the bounds where they put the columns outside the basis."""
    for j in range(len(at.d)):
        at.d[j] = given.paid[j] if at.on[j] else given.free[j]
    for i in range(len(at.u)):
        if at.u[i] != 0.0:
            add(at.d, -at.u[i], given.A[i])
    for j in range(len(at.d)):
        if at.cols[j] != INSIDE:
            at.cols[j] = AT_CAP if at.d[j] < 0.0 and given.cap[j] > 0.0 else AT_ZERO


@within_sums
def place_all(given: Given, at: State) -> None:
    """The point: columns of the basis, the intercept, and all rows; and the dual value."""
    k = at.sizes[0]
    rhs, now, value = np.zeros(k), np.zeros(k), 0.0
    for i in range(len(at.s)):
        at.s[i] = -given.g[i]
        value += at.u[i] * given.g[i]
    for r in range(k):
        rhs[r] = given.g[at.R[r]]
    for j in range(len(at.cols)):
        at.a[j] = given.cap[j] if at.cols[j] == AT_CAP else 0.0
        if at.on[j] and given.cap[j] > 0.0:  # else it is off by now
            value += given.full[j] * (given.free[j] - given.paid[j])
        if at.a[j] != 0.0:
            value += at.d[j] * at.a[j]
            column = given.columns[j]
            add(at.s, at.a[j], column)
            for r in range(k):
                rhs[r] -= at.a[j] * column[at.R[r]]
    every = np.arange(k)
    for q in range(k):
        now[q] = inner(at.W[q], rhs, every, k)
        if at.Q[q] == INTERCEPT:
            at.rest[0] = now[q]
            add(at.s, now[q], given.y)
        else:
            at.a[at.Q[q]] = now[q]
    combine(at.s, now, given.columns, at.Q, k)
    at.rest[1] = value


@within
def _invert(given: Given, at: State) -> bool:
    """Invert the basis in its place by Gauss and Jordan, with row pivots."""
    k, W = at.sizes[0], at.W
    for r in range(k):
        i = at.R[r]
        for q in range(k):
            j = at.Q[q]
            W[r, q] = given.y[i] if j == INTERCEPT else given.A[i, j]
    came = np.empty(k, np.int64)  # the row that came to each place
    for q in range(k):
        best, size = q, abs(W[q, q])
        for r in range(q + 1, k):
            if abs(W[r, q]) > size:
                best, size = r, abs(W[r, q])
        if not size > _MIN_INVERSE_PIVOT:
            return False
        came[q] = best
        if best != q:
            for c in range(k):
                W[q, c], W[best, c] = W[best, c], W[q, c]
        pivot = W[q, q]
        W[q, q] = 1.0
        for c in range(k):
            W[q, c] /= pivot
        for r in range(k):
            factor = W[r, q]
            if r != q and factor != 0.0:
                W[r, q] = 0.0
                add(W[r, :k], -factor, W[q])
    for q in range(k - 1, -1, -1):
        if came[q] != q:
            for r in range(k):
                W[r, q], W[r, came[q]] = W[r, came[q]], W[r, q]
    return True


@within
def replace_row(at: State, leaving: int, row: int, weights: Vector) -> bool:
    """The new row is `weights` times the rows of the basis."""
    k, pivot = at.sizes[0], weights[leaving]
    if abs(pivot) < MIN_PIVOT:
        return False
    at.R[leaving] = row
    for q in range(k):
        own = at.W[q, leaving] / pivot
        add(at.W[q, :k], -own, weights)
        at.W[q, leaving] = own
    return True


@within
def _column_of(given: Given, at: State, j: int) -> Vector:
    """A column in terms of those of the basis."""
    k = at.sizes[0]
    found = np.zeros(k)
    for q in range(k):
        found[q] = inner(at.W[q], given.columns[j], at.R, k)
    return found


@within
def replace_column(given: Given, at: State, place: int, j: int) -> bool:
    """The new column is of the program."""
    k = at.sizes[0]
    found = _column_of(given, at, j)
    if abs(found[place]) < MIN_PIVOT:
        return False
    at.Q[place] = j
    for r in range(k):
        at.W[place, r] /= found[place]
    for q in range(k):
        if q != place:
            add(at.W[q, :k], -found[q], at.W[place])
    return True


@within
def grow(given: Given, at: State, row: int, j: int, weights: Vector, pivot: float) -> bool:
    """One row more, which is `weights` times those of the basis, and one column more."""
    k = at.sizes[0]
    if abs(pivot) < MIN_PIVOT or k == len(at.R):
        return False
    found = _column_of(given, at, j)
    for q in range(k):
        add(at.W[q, :k], found[q] / pivot, weights)
        at.W[q, k] = -found[q] / pivot
    for r in range(k):
        at.W[k, r] = -weights[r] / pivot
    at.W[k, k] = 1.0 / pivot
    at.R[k], at.Q[k] = row, j
    at.sizes[0] = k + 1
    return True


@within
def shrink(at: State, place: int, leaving: int) -> bool:
    """One row and one column fewer; the last of each come to their places."""
    k, pivot = at.sizes[0], at.W[place, leaving]
    if abs(pivot) < MIN_PIVOT:
        return False
    for q in range(k):
        if q != place:
            add(at.W[q, :k], -at.W[q, leaving] / pivot, at.W[place])
    for r in range(k):
        at.W[place, r] = at.W[k - 1, r]
    for q in range(k):
        at.W[q, leaving] = at.W[q, k - 1]
    at.R[leaving], at.Q[place] = at.R[k - 1], at.Q[k - 1]
    at.sizes[0] = k - 1
    return True
