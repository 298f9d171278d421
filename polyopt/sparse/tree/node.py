"""The program of a node of :mod:`polyopt.sparse.tree.search`: some centres on, some off; and what bounds it.

With a = α / C, a centre that is on costs 1 whatever its a in [0, 1], one that is off has a = 0, and a free
one costs a, which is what the relaxation makes of it:

    min  #on + Σ_free a_j + C Σ w_i ξ_i   s.t.   y_i (C Σ_j K_ij t_j a_j + b) + ξ_i ≥ 1,  ξ ≥ 0,  0 ≤ a ≤ 1.

For any multipliers u of the rows, 0 ≤ u ≤ C w and Σ y_i u_i = 0, with r_j = C t_j (K'Yu)_j,

    #on + Σ u − Σ_on [r_j]_+ − Σ_free [r_j − 1]_+

bounds the node's scores. It is evaluated from the data by ``native/l0_node.c``, so nothing depends on a
solver being right: neither on the steps of :mod:`polyopt.sparse.tree.pivots`, nor on HiGHS where these fail.
Every number is moved by more than its rounding may be, as running error analysis has it
(:mod:`polyopt.linalg.rounding`): a rate has a least and a most, and a bound is one from below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from formulations.language.solution import Status
from polyopt.native.library import Struct, kernel
from polyopt.optim.warm_lp import PersistentLP, margin_rows
from polyopt.sparse.tree.basis import Given

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.l0_data import L0Data
    from formulations.language.types import Vector

    Marks = NDArray[np.int8]

__all__ = [
    "FREE",
    "OFF",
    "ON",
    "PERTURBATION",
    "Problem",
    "bound_of",
    "given_of",
    "problem_of",
    "solve_by_highs",
]  # fmt: skip

OFF, FREE, ON = -1, 0, 1  # what a node says of a centre
PERTURBATION = 1e-8  # relative change of costs and caps, so that no two steps tie
_FEASIBILITY = 1e-9  # distance of a row from its margin that counts as none


class Problem(Struct):
    """The data of a problem.

    ``signed`` (n, p) is C y_i K_ij t_j, by rows; ``y`` (n,) are the labels and ``caps`` (n,) the largest
    multipliers, at most C w; ``sizes, errors`` (p,) are the largest absolute entry of each column of
    ``signed``, and the largest error of one.
    """

    signature: ClassVar[str] = "signed: f8 (n, p); y: f8 (n); caps: f8 (n); sizes: f8 (p); errors: f8 (p)"
    signed: Vector
    y: Vector
    caps: Vector
    sizes: Vector
    errors: Vector


def problem_of(data: L0Data) -> Problem:
    """A problem as compiled code takes it."""
    sizes, errors = (np.ascontiguousarray(data.C * of, dtype=float) for of in data.column_sizes)
    return Problem(
        np.ascontiguousarray(data.y[:, None] * data.K * (data.C * data.centres)),
        data.y.astype(float),
        np.nextafter(data.C * data.weights, 0.0),  # not over C w, which the product may be
        sizes,
        errors,
    )


def given_of(of: Problem) -> Given:
    """The program of a problem's nodes, with costs and caps so little off that no two steps tie."""
    n, p = of.signed.shape
    # In units in which a column's largest entry is between 1 and 2; powers of two, which round nothing.
    sizes = np.abs(of.signed).max(axis=0, initial=0.0)
    units = np.ldexp(1.0, np.where(sizes > 0.0, np.frexp(sizes)[1] - 1, 0))
    rng = np.random.default_rng(0)
    scaled = of.signed / units
    return Given(
        scaled, np.ascontiguousarray(scaled.T), of.y, of.caps * (1.0 - PERTURBATION * rng.random(n)),
        np.ones(n), np.zeros(p), units, (np.ones(p) + PERTURBATION * rng.random(p)) / units,
        PERTURBATION * rng.random(p) / units, _FEASIBILITY,
    )  # fmt: skip


# A bound on the scores of a node: see bound_of. ``near, middle`` are room to work in.
_bound_of = kernel(
    "l0_bound_of",
    "signed: f8 (n, p); y: f8 (n); caps: f8 (n); sizes: f8 (p); errors: f8 (p); decided: i1 (p); u: f8 (n); "
    "near!: f8 (n); middle!: f8 (p); rates!: f8 (t, p)",
    returns="f8",
)


def bound_of(of: Problem, fixed: Marks, u: Vector, rates: Vector | None = None) -> float:
    """A bound on the scores of a node, from the feasible multipliers nearest to u.

    fixed (p,): ON, OFF or FREE for each centre.
    u (n,): any numbers.
    rates (2, p): takes the least and the most that the rate r_j of each centre may be.
    """
    n, p = of.signed.shape
    rates = np.empty((2, p)) if rates is None else rates
    return float(
        _bound_of(of.signed, of.y, of.caps, of.sizes, of.errors, fixed, u, np.empty(n), np.empty(p), rates)
    )


def solve_by_highs(of: Problem, fixed: Marks, seconds: float | None) -> tuple[bool, Vector, float, Vector]:
    """The program of a node by HiGHS: whether it was solved, a (p,), b, and multipliers u (n,).

    Zeros stand for what HiGHS does not give.
    """
    n, p = of.signed.shape
    # What K makes of a small error in u is large where K is: HiGHS gets all costs times this.
    scale = max(1.0, float(of.sizes.max(initial=0.0)))
    program = PersistentLP(
        scale * np.concatenate([fixed != ON, [0.0], of.caps]),
        margin_rows(of.signed, of.y),
        1.0,
        np.inf,
        np.concatenate([np.zeros(p), [-np.inf], np.zeros(n)]),
        np.concatenate([fixed != OFF, np.full(n + 1, np.inf)]),
    )
    found = program.solve(time_limit=seconds)
    x, u = np.nan_to_num(found.x), np.nan_to_num(-found.duals / scale)
    return found.status is Status.SOLVED, np.clip(x[:p], 0.0, 1.0), float(x[p]), u
