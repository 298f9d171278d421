"""The program of a node of the L0 tree: its bound, and a dual simplex method of our own for it.

**The program.** With a = α / C, a centre that is on costs 1 whatever its a in [0, 1], one that is off has
a = 0, and a free one costs a, as in the relaxation:

    min  #on + Σ_free a_j + C Σ w_i ξ_i   s.t.   y_i (C Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ a ≤ 1.

For any multipliers u of the rows, 0 ≤ u ≤ C w and Σ y_i u_i = 0, with r_j = C t_j (K'Yu)_j,

    #on + Σ u − Σ_on [r_j]_+ − Σ_free [r_j − 1]_+

bounds the node's scores. It is evaluated from the data by ``native/l0_node.c``, so it does not depend on the
correctness of a solver, of the pivots below or of HiGHS. Every number is moved by more than its rounding
(:mod:`polyopt.linalg.rounding`).

**The basis.** The simplex method works on

    min  Σ_j c_j a_j + Σ_i h_i [−s_i]_+   s.t.   s = A a + y b − g,   0 ≤ a ≤ m,

with c_j = 1 for a free centre and 0 for one that is on, m_j = 0 for one that is off. Its dual has multipliers
0 ≤ u ≤ h with y'u = 0, and the reduced costs d = c − A'u, which price a_j at −[−d_j]_+. A basis is a set R of
rows with s_i = 0 and a set Q of columns between their bounds, one fewer; b is always in it. Only the square
matrix M = [A_RQ, y_R] is inverted, which has as many rows as the point has fractional coefficients; HiGHS's
basis has a row for each sample. Every u_i outside R is 0 or h_i, every a_j outside Q is 0 or m_j, as d_j
determines. So any basis with u_R within its bounds is dual feasible, and stays so if a bound of a changes: a
child continues from its parent's basis. The code is in ``native/l0_basis.c``.

**A pivot** takes a row with the wrong sign, or a column beyond a bound, and moves its multiplier as long as
the dual value rises: past every d_j that changes its sign, a_j going to its other bound, until the slope is
used up (a column enters) or some u_l meets a bound (a row leaves). Switching a centre on is a pivot as well:
c_q falls from 1 to 0, and a_q goes to its cap unless a bound stops it. Costs and caps are perturbed so that
no two steps tie.

References: Koberstein, The dual simplex method (2005), on the long step; Forrest & Goldfarb, Steepest-edge
simplex algorithms (1992).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from formulations.language.solution import Status
from formulations.language.types import Vector
from polyopt.native.library import Struct, kernel
from polyopt.optim.warm_lp import PersistentLP, margin_rows

if TYPE_CHECKING:
    from formulations.l0_data import L0Data

    Marks = NDArray[np.int8]

AT_ZERO, INSIDE, AT_CAP = 0, 1, 2  # position of a column or of a multiplier
OFF, FREE, ON = -1, 0, 1  # decision of a node about a centre
PERTURBATION = 1e-8
"""Relative change of costs and caps, so that no two steps tie."""
FEASIBILITY = 1e-9
"""Distance of a row from its margin that counts as zero."""


class PivotProgram(Struct):
    """The arrays of the program of a basis.

    A (n, p), columns (p, n): the matrix and its transpose, both by rows.
    y, h, g (n,): labels, largest multipliers, and right-hand sides.
    cap, full (p,): m, and its value unless the centre is off.
    free, paid (p,): costs of a free centre and of one that is on.
    near: tolerance for the position of a row or a column.
    """

    signature: ClassVar[str] = (
        "A: f8 (n, p); columns: f8 (p, n); y: f8 (n); h: f8 (n); g: f8 (n); cap!: f8 (p); full: f8 (p); "
        "free: f8 (p); paid: f8 (p); near: f8"
    )


class State(Struct):
    """A basis and its point.

    rows (n,), cols (p,): position of each row and column; on (p,): the columns that cost ``paid``.
    R, Q, W: the basis and its inverse, of which the first ``sizes[0]`` count.
    u, s (n,), d, a (p,): the point (d = 0 of a basic column is not stored).
    of_rows, of_cols: squared lengths for steepest edge pricing.
    sizes[1], sizes[2]: pivots since W was computed, and in the last run.
    rest: b and the dual value.
    work, list: work space, shared by the states of a program.
    """

    signature: ClassVar[str] = (
        "rows!: i1 (n); cols!: i1 (p); on!: i1 (p); R!: i8 (k); Q!: i8 (k); W!: f8 (k, k); u!: f8 (n); "
        "s!: f8 (n); d!: f8 (p); a!: f8 (p); of_rows!: f8 (n); of_cols!: f8 (p); sizes!: i8 (c); "
        "rest!: f8 (v); work!: f8 (w); list!: i8 (q)"
    )


def empty_state(N: int, p: int, beside: State | None = None) -> State:
    """Allocate a state; it shares the work space of `beside`, a state of the same program."""
    max_rows, longer = min(N, p + 1) + 1, max(N, p)
    return State(
        np.zeros(N, np.int8), np.zeros(p, np.int8), np.zeros(p, np.int8), np.zeros(max_rows, np.int64),
        np.zeros(max_rows, np.int64), np.zeros((max_rows, max_rows)), np.zeros(N), np.zeros(N), np.zeros(p),
        np.zeros(p), np.ones(N), np.ones(p), np.zeros(3, np.int64), np.zeros(2),
        np.zeros(5 * max_rows + p + longer + 2 * N) if beside is None else beside.work,
        np.zeros(longer, np.int64) if beside is None else beside.list,
    )  # fmt: skip


# Compute the point of the basis of ``rows`` and ``cols``; 1 if it is dual feasible, else 0.
load = kernel("l0_load", "program: PivotProgram; at: State", returns="i8")


def begin(program: PivotProgram, at: State) -> bool:
    """Set the basis of the constant classifier: u = h in the lighter class, and as much in the heavier."""
    plus, minus = float(program.h[program.y > 0.0].sum()), float(program.h[program.y < 0.0].sum())
    light, label = (plus, -1.0) if plus <= minus else (minus, 1.0)
    of_label = np.flatnonzero(program.y == label)
    paid = int((np.cumsum(program.h[of_label]) <= light).sum())
    for marks in (at.cols, at.rows, at.on):
        marks[:] = AT_ZERO
    at.rows[program.y == -label] = AT_CAP
    at.rows[of_label[:paid]] = AT_CAP
    at.rows[of_label[min(paid, len(of_label) - 1)]] = INSIDE
    return bool(load(program, at))


class Problem(Struct):
    """The data of all node programs.

    signed (n, p): C y_i K_ij t_j, by rows.
    y, caps (n,): labels, and largest multipliers, at most C w.
    sizes, errors (p,): largest absolute entry of each column of ``signed``, and largest error of an entry.
    """

    signature: ClassVar[str] = "signed: f8 (n, p); y: f8 (n); caps: f8 (n); sizes: f8 (p); errors: f8 (p)"


def problem_of(data: L0Data) -> Problem:
    """Return the data of an L0 machine for the kernels."""
    sizes, errors = (np.ascontiguousarray(data.C * of, dtype=float) for of in data.column_sizes)
    return Problem(
        np.ascontiguousarray(data.y[:, None] * data.K * (data.C * data.centres)),
        data.y.astype(float),
        np.nextafter(data.C * data.weights, 0.0),  # the rounded product may exceed C w
        sizes,
        errors,
    )


def pivot_program_of(of: Problem) -> PivotProgram:
    """Return the program of the nodes, with perturbed costs and caps, so that no two steps tie."""
    n, p = of.signed.shape
    # In units in which a column's largest entry is between 1 and 2; powers of two, which round nothing.
    sizes = np.abs(of.signed).max(axis=0, initial=0.0)
    units = np.ldexp(1.0, np.where(sizes > 0.0, np.frexp(sizes)[1] - 1, 0))
    rng = np.random.default_rng(0)
    scaled = of.signed / units
    return PivotProgram(
        scaled, np.ascontiguousarray(scaled.T), of.y, of.caps * (1.0 - PERTURBATION * rng.random(n)),
        np.ones(n), units.copy(), units, (np.ones(p) + PERTURBATION * rng.random(p)) / units,
        PERTURBATION * rng.random(p) / units, FEASIBILITY,
    )  # fmt: skip


_bound_of = kernel(
    "l0_bound_of",
    "signed: f8 (n, p); y: f8 (n); caps: f8 (n); sizes: f8 (p); errors: f8 (p); decided: i1 (p); u: f8 (n); "
    "near!: f8 (n); middle!: f8 (p); rates!: f8 (t, p)",
    returns="f8",
)


def bound_of(of: Problem, fixed: Marks, u: Vector, rates: Vector | None = None) -> float:
    """Bound the scores of a node from below by the feasible multipliers nearest to any u (n,).

    fixed (p,) is ON, OFF or FREE; rates (2, p) receive lower and upper bounds on the rates r_j.
    """
    n, p = of.signed.shape
    rates = np.empty((2, p)) if rates is None else rates
    return float(
        _bound_of(of.signed, of.y, of.caps, of.sizes, of.errors, fixed, u, np.empty(n), np.empty(p), rates)
    )


def solve_by_highs(of: Problem, fixed: Marks, seconds: float | None) -> tuple[bool, Vector, float, Vector]:
    """Solve the program of a node by HiGHS: True if it was solved, a (p,), b, and multipliers u (n,).

    Numbers that HiGHS does not give are 0.
    """
    n, p = of.signed.shape
    # A small error in u is multiplied by K: costs are scaled so that HiGHS's tolerance suffices.
    scale = max(1.0, float(of.sizes.max(initial=0.0)))
    lp = PersistentLP(
        scale * np.concatenate([fixed != ON, [0.0], of.caps]), margin_rows(of.signed, of.y), 1.0, np.inf,
        np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
        np.concatenate([fixed != OFF, np.full(n + 1, np.inf)]),
    )  # fmt: skip
    solution = lp.solve(time_limit=seconds)
    x, u = np.nan_to_num(solution.x), np.nan_to_num(-solution.duals / scale)
    return solution.status is Status.SOLVED, np.clip(x[:p], 0.0, 1.0), float(x[p]), u
