"""The exact Polyceptron over all assignments: a mixed-integer linear program.

Problem
-------
As in :mod:`formulations.polyceptron`, with its margin of 1, but the assignment of the negatives is a variable
too. It has no dual of its own, so it is no member of the families that come in pairs.

Variables and shapes
--------------------
x̃ = (x, 1). W (K, m+1), its bias last; xi (n₊, K) for the positives, eta (n₋,) for the negatives, z (n₋, K) of
0 and 1: z_ik = 1 where face k answers for the negative i. X is (n, m), y is (n,) of -1 and +1, +1 inside; C
is a scalar or (n,); R is the radius of the box, finite. λ (n, n), at least 0, and h (n,) come from the data.

Primal
------
     min  Σ_pos C_i Σ_k ξ_ik + Σ_neg C_i η_i
     inside:    W_k·x̃_i ≥ 1 − ξ_ik                          (positives, all k)
     outside:   −W_k·x̃_i ≥ 1 − η_i − M_i (1 − z_ik)          (negatives, all k)
     choice:    Σ_k z_ik = 1                                (negatives)
     between:   η_i + Σ_j λ_ij Σ_k ξ_jk ≥ h_i               (negatives)
     symmetry:  z_ik ≤ Σ_{j<i} z_{j,k−1} for k > 0: face k is opened after face k−1
     slack:     ξ ≥ 0
     excess:    η ≥ 0
     upper:     W ≤ R
     lower:     −W ≤ R

A valid M
---------
No face in the box has a score above R ‖x̃_i‖_1 at a negative, so that the row of a face that does not answer
is slack at η_i = 0 for M_i = 1 + R ‖x̃_i‖_1. The bound is attained, by a face at a corner of the box.

Negatives between positives
---------------------------
The row between cuts off no point with z of 0 and 1; it is there for the relaxation, whose value is 0 without
it, as M is large. Let x̃_i = Σ_j λ_ij x̃_j + e_i, over positives j. The face k that answers for i has

     η_i ≥ 1 + W_k·x̃_i   and   Σ_j λ_ij ξ_jk ≥ Σ_j λ_ij − Σ_j λ_ij W_k·x̃_j,

which add up to η_i + Σ_j λ_ij ξ_jk ≥ 1 + Σ_j λ_ij + W_k·e_i ≥ h_i = 1 + Σ_j λ_ij − R ‖e_i‖_1. A negative in
the convex hull of the positives has such λ with e_i = 0, but for rounding, and h_i = 2: it costs 2, of itself
or of those around it, whatever the faces and however many. Of others λ and h are 0.

Reference
---------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011), eq. (4), with the margin and the box of
this package; the formulation, its M and the row between are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import polyceptron_global
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])
>>> polyceptron_global.big_m(X, y, radius=10.0)
array([31., 31.])
>>> found = polyceptron_global.mixed_integer(X, y, n_faces=2, radius=10.0).solve()
>>> found["z"].argmax(axis=1), round(found.objective, 6) + 0.0, round(found.bound, 6) + 0.0
(array([0, 1]), 0.0, 0.0)
>>> polyceptron_global.mixed_integer(X, -y, n_faces=2).solve().objective  # the negative is between positives
2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

from formulations.box import BOX_LETTERS, box_rows
from formulations.cpm_global import _at_all, _pairs_at
from formulations.language.arguments import positive
from formulations.language.clock import Clock
from formulations.language.program import Program, Row, without_multipliers
from formulations.language.recovery import as_costs, as_data
from formulations.language.types import dense
from formulations.polyhedral import SAMPLE_LETTERS
from formulations.polytope import lift

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import MatrixLike

__all__ = ["big_m", "mixed_integer", "point_of", "shares_between"]


def big_m(X: MatrixLike, y: ArrayLike, radius: float = 1e4) -> NDArray[np.float64]:
    """M_i of each negative, shape (n₋,).

    Parameters
    ----------
    X, y
        As in :func:`mixed_integer`.
    radius : float
        R, finite.
    """
    X, y = as_data(X, y)
    return np.asarray(1.0 + positive("radius", radius) * np.abs(lift(dense(X)[y < 0])).sum(axis=1))


def shares_between(X: MatrixLike, y: ArrayLike, time_limit: float | None = None) -> NDArray[np.float64]:
    """λ (n₋, n₊): each negative in the convex hull as a combination of near positives; 0 for others.

    Parameters
    ----------
    X, y
        As in :func:`mixed_integer`.
    time_limit : float, optional
        Seconds; negatives that are not looked at by then have shares of 0.
    """
    X, y = as_data(X, y)
    lifted, clock = lift(dense(X)), Clock(time_limit)
    unit = np.abs(lifted).max(axis=0)
    unit[unit == 0.0] = 1.0
    points, negatives = lifted[y > 0] / unit, lifted[y < 0] / unit
    found = np.zeros((len(negatives), len(points)))
    for i, own in enumerate(negatives):
        if clock.is_over:
            break
        distance = np.square(points - own).sum(axis=1)
        solved = linprog(distance, A_eq=points.T, b_eq=own, bounds=(0.0, None))
        if solved.status == 0:
            # The solver's shares meet its tolerance; these of the same positives are exact but for rounding.
            used = np.flatnonzero(solved.x > 1e-9)
            exact = np.linalg.lstsq(points[used].T, own, rcond=None)[0]
            found[i, used] = np.maximum(exact, 0.0)
    return found


def mixed_integer(
    X: MatrixLike, y: ArrayLike, n_faces: int, C: ArrayLike = 1.0, radius: float = 1e4,
    shares: NDArray[np.float64] | None = None,
) -> Program:  # fmt: skip
    """The machine over all assignments; HiGHS and SCIP solve it.

    Parameters
    ----------
    X, y, n_faces, C
        As in :func:`formulations.polyceptron.fixed_assignment`; both classes are needed for a program.
    radius : float
        R, finite. In a wide box M is large, and a solver's tolerance of z, times M, is a score: prefer a
        radius that is not much larger than the weights.
    shares : ndarray of shape (n₋, n₊), optional
        λ, at least 0; by default that of :func:`shares_between`.
    """
    X, y = as_data(X, y)
    if not ((y > 0).any() and (y < 0).any()):
        raise ValueError("y must hold both classes: with one there is nothing to assign")
    R, costs, lifted = positive("radius", radius), as_costs(C, len(y)), lift(dense(X))
    inside, outside, K = lifted[y > 0], lifted[y < 0], n_faces
    p, q = len(inside), len(outside)
    M, shares = big_m(X, y, R), shares_between(X, y) if shares is None else shares
    held = _held(inside, outside, shares, R)
    W, xi = cp.Variable((K, lifted.shape[1]), name="W"), cp.Variable((p, K), name="xi")
    eta, z = cp.Variable(q, name="eta"), cp.Variable((q, K), boolean=True, name="z")
    # Places of the rows of positives and of negatives among those of all samples; -1 if there is none.
    of_inside, of_outside = (np.where(of, np.cumsum(of) - 1, -1) for of in (y > 0, y < 0))
    faces = np.arange(K)
    rows = [
        _row("inside", inside @ W.T >= 1 - xi, "Wₖ·x̃ᵢ ≥ 1 − ξᵢₖ for yᵢ > 0", _pairs_at(of_inside, faces)),
        _row("outside", -(outside @ W.T) >= 1 - eta[:, None] - cp.multiply(M[:, None], 1 - z),
             "−Wₖ·x̃ᵢ ≥ 1 − ηᵢ − Mᵢ (1 − zᵢₖ) for yᵢ < 0", _pairs_at(of_outside, faces)),
        _row("choice", cp.sum(z, axis=1) == 1, "Σₖ zᵢₖ = 1 for yᵢ < 0", of_outside),
        _row("between", eta + shares @ cp.sum(xi, axis=1) >= held,
             "ηᵢ + Σⱼ λᵢⱼ Σₖ ξⱼₖ ≥ hᵢ for yᵢ < 0", of_outside),
        _row("slack", xi >= 0, "ξᵢₖ ≥ 0 for yᵢ > 0", _pairs_at(of_inside, faces)),
        _row("excess", eta >= 0, "ηᵢ ≥ 0 for yᵢ < 0", of_outside),
        *box_rows(W, R, "Wₖ"),
    ]  # fmt: skip
    if K > 1:
        opened = np.tril(np.ones((q, q)), -1) @ z  # how many before i are on each face
        rows.append(
            _row("symmetry", z[:, 1:] <= opened[:, : K - 1], "zᵢₖ ≤ Σ_{j<i} z_{j,k−1} for yᵢ < 0, k > 0",
                 _pairs_at(of_outside, faces - 1))
        )  # fmt: skip
    data = {
        "x": X, "y": y, "C": costs, "R": R, "M": _at_all(M, y < 0, 1.0),
        "h": _at_all(held, y < 0, 0.0),
        "λ": np.eye(len(y))[:, y < 0] @ shares @ np.eye(len(y))[y > 0],
        "z": np.eye(len(y))[:, y < 0] @ z,
        "ξ": lambda: _at_all(xi.value, y > 0, 0.0),
        "η": lambda: _at_all(eta.value, y < 0, 0.0),
    }  # fmt: skip
    return Program(
        name="polyceptron.mixed_integer",
        title="Polyceptron over all assignments",
        source="Manwani & Sastry (2011), eq. (4), with a margin and a box, as a mixed-integer program",
        objective=cp.Minimize(costs[y > 0] @ cp.sum(xi, axis=1) + costs[y < 0] @ eta),
        objective_text="Σ_{yᵢ>0} Cᵢ Σₖ ξᵢₖ + Σ_{yᵢ<0} Cᵢ ηᵢ",
        variables={"W": W, "xi": xi, "eta": eta, "z": z},
        rows=without_multipliers(rows),
        letters={
            **BOX_LETTERS,
            **SAMPLE_LETTERS,
            "Cᵢ": "the price of sample $i$'s slack, $C$ times its weight",
            "Mᵢ": "so large that the row holds where $zᵢₖ = 0$ (from the data)",
            "λᵢⱼ": "the share of the positive $j$ in a negative $i$ between positives, else 0",
            "hᵢ": "2 for a negative between positives, but for rounding, else 0",
        },
        data=data,
    )  # fmt: skip


def point_of(X: MatrixLike, y: ArrayLike, W: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Values of all variables at faces: slacks as small as can be, faces in the order of their negatives.

    Parameters
    ----------
    X, y
        As in :func:`mixed_integer`.
    W : ndarray of shape (K, m+1)
        Faces in the box.
    """
    X, y = as_data(X, y)
    scores = lift(dense(X)) @ W.T
    best = scores[y < 0].argmin(axis=1)
    opened = list(dict.fromkeys([*best.tolist(), *range(len(W))]))
    scores, own = scores[:, opened], np.argsort(opened)[best]
    return {
        "W": W[opened],
        "xi": np.maximum(0.0, 1.0 - scores[y > 0]),
        "eta": np.maximum(0.0, 1.0 + scores[y < 0].min(axis=1)),
        "z": np.eye(len(W))[own],
    }


def _held(
    inside: NDArray[Any], outside: NDArray[Any], shares: NDArray[np.float64], radius: float
) -> NDArray[np.float64]:
    """H (n₋,), at least 0, with twice what the combinations are seen to miss."""
    missed = np.abs(outside - shares @ inside).sum(axis=1)
    held = 1.0 + shares.sum(axis=1) - 2.0 * radius * missed
    return np.where(shares.any(axis=1), np.maximum(held, 0.0), 0.0)


def _row(name: str, constraint: Any, text: str, places: NDArray[np.int64]) -> Row:
    return Row(name, constraint, text, "–", "", places)
