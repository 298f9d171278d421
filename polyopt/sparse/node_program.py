"""The linear program of a node of the L0 tree: its proven bound, and a dual simplex method for it.

**The program.** A node decides for some centres j that they are on (used) or off; the others are free. With
a = α / C, a centre that is on costs 1 for any a_j in [0, 1], one that is off has a_j = 0, and a free one
costs a_j, as in the relaxation:

    min  #on + Σ_free a_j + C Σ w_i ξ_i   s.t.   y_i (C Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ a ≤ 1.

For any multipliers u of the margin constraints, 0 ≤ u ≤ C w and Σ y_i u_i = 0, with the *rates*
r_j = C t_j (K'Yu)_j,

    #on + Σ u − Σ_on [r_j]_+ − Σ_free [r_j − 1]_+

is a lower bound on the node's scores, by weak duality. ``native/l0_node.c`` evaluates it from the data, with
all rounding errors (:mod:`polyopt.linalg.rounding`), so it does not depend on the correctness of a solver.

**The basis.** The simplex method works on

    min  Σ_j c_j a_j + Σ_i h_i [−s_i]_+   s.t.   s = A a + y b − g,   0 ≤ a ≤ m,

with c_j = 1 for a free centre and 0 for one that is on, m_j = 0 for one that is off. Its dual has multipliers
0 ≤ u ≤ h with y'u = 0, and reduced costs d = c − A'u; a_j contributes −m_j [−d_j]_+ to the dual value. A
basis is a set R of rows with s_i = 0 and a set Q of columns strictly between their bounds, |Q| = |R| − 1;
b is always basic. Only the square matrix M = [A_RQ, y_R] is inverted, which has about one row per fractional
coefficient; HiGHS's basis has one per sample. Every u_i outside R is 0 or h_i; every a_j outside Q is 0 or
m_j, by the sign of d_j. So any basis with u_R within its bounds is dual feasible, and stays so if a bound of
a changes: a child continues from its parent's basis. The code is in ``native/l0_basis.c``.

**A pivot** takes a row with the wrong sign, or a column beyond a bound, and moves its multiplier as long as
the dual value increases (the long step): past every d_j that changes its sign, a_j going to its other bound,
until the slope is 0 (a column enters) or some u_l meets a bound (a row leaves). Switching a centre on is a
pivot as well: c_q decreases from 1 to 0, and a_q goes to its cap unless a bound stops it. Costs and caps are
perturbed so that no two steps tie.

Reference: Koberstein, The dual simplex method (2005), on the long step.
"""

from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formulations.l0_data import L0Data
from formulations.language.types import Vector
from polyopt.native.library import Struct, kernel

Marks: TypeAlias = NDArray[np.int8]
AT_ZERO, INSIDE, AT_CAP = range(3)  # position of a column or of a multiplier
OFF, FREE, ON = range(-1, 2)  # decision of a node about a centre
PERTURBATION = 1e-8  # relative change of costs and caps, so that no two steps tie


class PivotProgram(Struct):
    """The arrays of the program that the simplex method works on.

    A (n, p), columns (p, n): the matrix and its transpose, both by rows.
    y, h, g (n,): labels, upper bounds of the multipliers, and right-hand sides.
    cap, full_cap (p,): m, and its value unless the centre is off.
    free_cost, on_cost (p,): costs c of a free centre and of one that is on.
    tolerance: feasibility tolerance, for s = 0 and for the bounds of a.
    """

    signature: ClassVar[str] = (
        "A: f8 (n, p); columns: f8 (p, n); y: f8 (n); h: f8 (n); g: f8 (n); cap!: f8 (p); full_cap: f8 (p); "
        "free_cost: f8 (p); on_cost: f8 (p); tolerance: f8"
    )


class State(Struct):
    """A basis and its point.

    rows (n,): position of each multiplier u_i: AT_ZERO, INSIDE (in R) or AT_CAP.
    cols (p,): position of each a_j, likewise.
    on (p,): 1 for the columns with the cost ``on_cost``.
    R, Q, W: the basis and the inverse of M; only the first ``sizes[0]`` entries and rows are used.
    u, s (n,), d, a (p,): the point (d = 0 of a basic column is not stored).
    sizes: size of the basis, pivots since W was computed, and pivots in the last run.
    b_and_value: b and the dual value.
    work, indices: work space, shared by the states of a program.
    """

    signature: ClassVar[str] = (
        "rows!: i1 (n); cols!: i1 (p); on!: i1 (p); R!: i8 (k); Q!: i8 (k); W!: f8 (k, k); u!: f8 (n); "
        "s!: f8 (n); d!: f8 (p); a!: f8 (p); sizes!: i8 (c); "
        "b_and_value!: f8 (v); work!: f8 (w); indices!: i8 (q)"
    )


def empty_state(N: int, p: int, shared: State | None = None) -> State:
    """Allocate a state; it uses the work space of `shared`, a state of the same program."""
    max_rows, max_size = min(N, p + 1) + 1, max(N, p)
    return State(
        np.zeros(N, np.int8), np.zeros(p, np.int8), np.zeros(p, np.int8), np.zeros(max_rows, np.int64),
        np.zeros(max_rows, np.int64), np.zeros((max_rows, max_rows)), np.zeros(N), np.zeros(N), np.zeros(p),
        np.zeros(p), np.zeros(3, np.int64), np.zeros(2),
        np.zeros(5 * max_rows + p + max_size) if shared is None else shared.work,
        np.zeros(max_size, np.int64) if shared is None else shared.indices,
    )  # fmt: skip


# Compute the point of the basis given by ``rows`` and ``cols``. Returns 1 if it is dual feasible, else 0.
load = kernel("l0_load", "program: PivotProgram; state: State", returns="i8")

# Make one state the same as another of the same program.
copy_state = kernel("l0_copy", "source: State; target: State")

# Pivot from a dual feasible state until it is optimal. The program's caps may have changed since the state
# was made. on: 1 for the centres that are on, all of the state's included. most: largest number of pivots.
# cutoff: dual value that is enough. Returns OPTIMAL; STOPPED by one of the limits; or FAILED.
pivot_to_optimum = kernel(
    "l0_pivot_to_optimum", "program: PivotProgram; at: State; on: i1 (p); most: i8; cutoff: f8", returns="i8"
)
OPTIMAL, STOPPED, FAILED = range(3)


def begin(program: PivotProgram, state: State) -> bool:
    """Set the basis of the constant classifier a = 0; return True if it is dual feasible.

    u = h in the class with the smaller Σ h; in the other class as many u_i = h_i as have at most that sum.
    """
    plus, minus = float(program.h[program.y > 0.0].sum()), float(program.h[program.y < 0.0].sum())
    smaller_sum, label = (plus, -1.0) if plus <= minus else (minus, 1.0)
    larger_class = np.flatnonzero(program.y == label)
    n_at_cap = int((np.cumsum(program.h[larger_class]) <= smaller_sum).sum())
    for marks in (state.cols, state.rows, state.on):
        marks[:] = AT_ZERO
    state.rows[program.y == -label] = AT_CAP
    state.rows[larger_class[:n_at_cap]] = AT_CAP
    state.rows[larger_class[min(n_at_cap, len(larger_class) - 1)]] = INSIDE
    return bool(load(program, state))


class Problem(Struct):
    """The data of all node programs.

    signed (n, p): C y_i K_ij t_j, by rows.
    y, caps (n,): labels, and upper bounds of the multipliers, C w rounded down.
    sizes, errors (p,): largest absolute entry of each column of ``signed``, and bound on an entry's error.
    """

    signature: ClassVar[str] = "signed: f8 (n, p); y: f8 (n); caps: f8 (n); sizes: f8 (p); errors: f8 (p)"


def problem_of(data: L0Data) -> Problem:
    """Return the data of an L0 machine for the kernels."""
    sizes, errors = (np.ascontiguousarray(data.C * values, dtype=float) for values in data.column_sizes)
    return Problem(
        np.ascontiguousarray(data.y[:, None] * data.K * (data.C * data.centres)),
        data.y.astype(float),
        np.nextafter(data.C * data.weights, 0.0),  # the rounded product may exceed C w
        sizes,
        errors,
    )


def pivot_program_of(problem: Problem) -> PivotProgram:
    """Return the simplex method's program; costs and caps are perturbed so that no two steps tie."""
    n, p = problem.signed.shape
    # Scale each column by a power of two, which is exact, so that its largest entry is between 1 and 2.
    sizes = np.abs(problem.signed).max(axis=0, initial=0.0)
    units = np.ldexp(1.0, np.where(sizes > 0.0, np.frexp(sizes)[1] - 1, 0))
    scaled = problem.signed / units
    rng = np.random.default_rng(0)
    return PivotProgram(
        scaled, np.ascontiguousarray(scaled.T), problem.y,
        problem.caps * (1.0 - PERTURBATION * rng.random(n)), np.ones(n), units.copy(), units,
        (np.ones(p) + PERTURBATION * rng.random(p)) / units,
        PERTURBATION * rng.random(p) / units, 1e-9,
    )  # fmt: skip


_bound_of = kernel(
    "l0_bound_of",
    "problem: Problem; fixed: i1 (p); u: f8 (n); feasible_u!: f8 (n); midpoints!: f8 (p); rates!: f8 (t, p)",
    returns="f8",
)


def bound_of(problem: Problem, fixed: Marks, u: Vector, rates: Vector | None = None) -> float:
    """Bound the scores of a node from below, by feasible multipliers near u (n,), which may be any numbers.

    fixed (p,) is ON, OFF or FREE; rates (2, p) is set to lower and upper bounds on the rates r_j.
    """
    n, p = problem.signed.shape
    rates = np.empty((2, p)) if rates is None else rates
    return float(_bound_of(problem, fixed, u, np.empty(n), np.empty(p), rates))
