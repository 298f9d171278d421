"""A basis of a node's program, and its point: the numbers that :mod:`polyopt.sparse.tree.pivots` works on.

    min  Σ_j c_j a_j + Σ_i h_i [−s_i]_+   s.t.   s = A a + y b − g,   0 ≤ a ≤ m,

with c_j = 1 for a centre that is free and 0 for one that is on, m_j = 0 for one that is off. Its dual has
multipliers 0 ≤ u ≤ h with y'u = 0, and the reduced costs d = c − A'u, which price a_j at −[−d_j]_+.

A basis is a set R of rows with s_i = 0 and a set Q of columns between their bounds, one fewer; b is always
in it. The square matrix M = [A_RQ, y_R] is all there is to invert: as many rows as the point has fractions,
while HiGHS's basis has a row for each sample. Every u_i outside R is 0 or h_i, every a_j outside Q is 0 or
m_j, whichever d_j says. So any basis whose u_R is within its bounds is dual feasible, and stays so when a
bound of a changes: a child goes on where its parent ended.

What works on a basis is in ``native/l0_basis.c``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from polyopt.native.library import Struct, kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Vector

    Marks = NDArray[np.int8]

__all__ = ["AT_CAP", "AT_ZERO", "INSIDE", "INTERCEPT", "Given", "State", "begin", "empty_state", "load"]

AT_ZERO, INSIDE, AT_CAP = 0, 1, 2  # where a column or a multiplier stands
INTERCEPT = -1  # its number among the columns of the basis


class Given(Struct):
    """A program: the arrays of the module's formula.

    ``A`` is (n, p) and ``columns`` its transpose, both by rows; ``y, h, g`` are (n,), ``cap, full, free,
    paid`` (p,): the largest a, what it is unless the centre is off, and the costs of a centre that is free
    and of one that is on. ``near`` is what a row or a column may be off its place.
    """

    signature: ClassVar[str] = (
        "A: f8 (n, p); columns: f8 (p, n); y: f8 (n); h: f8 (n); g: f8 (n); cap!: f8 (p); full: f8 (p); "
        "free: f8 (p); paid: f8 (p); near: f8"
    )
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


class State(Struct):
    """A basis and its point.

    ``rows`` (n,), ``cols`` (p,) say where each stands, ``on`` (p,) which columns cost ``paid``; ``R``, ``Q``
    are the basis, ``W`` its inverse, of which the first ``sizes[0]`` count; ``u, s`` (n,), ``d, a`` (p,) the
    point (a column of the basis has d = 0, which is not kept). ``of_rows, of_cols`` are the squared lengths
    by which steps are chosen (steepest edge), of each basic variable's row of the inverse of all rows and
    columns. ``sizes[1]`` counts the steps since W was made, ``sizes[2]`` those of the last run; ``rest`` is b
    and the dual value. ``work, list`` are room for a step, which states of one program share.
    """

    signature: ClassVar[str] = (
        "rows!: i1 (n); cols!: i1 (p); on!: i1 (p); R!: i8 (k); Q!: i8 (k); W!: f8 (k, k); u!: f8 (n); "
        "s!: f8 (n); d!: f8 (p); a!: f8 (p); of_rows!: f8 (n); of_cols!: f8 (p); sizes!: i8 (c); "
        "rest!: f8 (v); work!: f8 (w); list!: i8 (q)"
    )
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
    work: Vector
    list: NDArray[np.int64]


def empty_state(N: int, p: int, beside: State | None = None) -> State:
    """A state of which nothing is known yet.

    beside: a state of the same program, with which it shares its room to work in.
    """
    most, longer = min(N, p + 1) + 1, max(N, p)
    return State(
        np.zeros(N, np.int8), np.zeros(p, np.int8), np.zeros(p, np.int8), np.zeros(most, np.int64),
        np.zeros(most, np.int64), np.zeros((most, most)), np.zeros(N), np.zeros(N), np.zeros(p), np.zeros(p),
        np.ones(N), np.ones(p), np.zeros(3, np.int64), np.zeros(2),
        np.zeros(5 * most + p + longer + 2 * N) if beside is None else beside.work,
        np.zeros(longer, np.int64) if beside is None else beside.list,
    )  # fmt: skip


# Make the point of the basis that ``rows`` and ``cols`` name; 1 if it is dual feasible, else 0.
load = kernel("l0_load", "given: Given; at: State", returns="i8")


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
