"""The Polyceptron, made exact: one linear program for each face of a polyhedral set.

Problem
-------
A sample is inside where min_k W_k·x̃ ≥ 0, and the positives belong there: each must be on the inner side of
every face. A negative need be beyond one face only, the one of its cell, its assignment z_i. The paper
splits the criterion E_P over the cells and descends on it face by face,
(4)  min  Σ_{i: z_i = k} [−y_i w·x̃_i]_+.
Solved exactly that says nothing: w = 0 attains 0, its minimum, on any data. Here it is the cell's program
at margin=0, and margin=1 excludes w = 0.

The paper's cells split both classes. A positive that is frozen to its cell bounds its loss from below, not
from above, and exact steps may then raise the criterion. Here every positive is in the program of every
face, so that the programs bound the objective from above, touch it at the current faces, and descend.

This is the Convex Polytope Machine with loss="sum" (:mod:`formulations.cpm`), its labels and faces negated
and without its norm; a box takes the norm's place.

Variables and shapes
--------------------
x̃ = (x, 1). W (K, m+1), its bias last, xi (n, K); u (n, K), s_plus and s_minus (K, m+1) in the dual. X is
(n, m), y is (n,) of -1 and +1, C is a scalar or (n,); the assignment is (n,) of 0..K-1, its entries at the
positives ignored. Z (n, K) is 1 where a sample is in a face's program: a row of ones at a positive, z_i's
unit vector at a negative. R is the radius of the box, or infinite; the margin is a number.

Primal
------
one face, c_i = C_i Z_ik
     min  Σ_i c_i ξ_i
     margin:  y_i w·x̃_i ≥ margin − ξ_i            [u]
     slack:   ξ_i ≥ 0                              [v]
     upper:   w ≤ R                                [s⁺]
     lower:   −w ≤ R                               [s⁻]

all faces, which are independent
     min  Σ_ik C_i Z_ik ξ_ik   over the same rows for each face

Dual
----
     max  margin Σ_i u_i − R Σ_j (s⁺_j + s⁻_j)
     balance: Σ_i u_i y_i x̃_i − s⁺ + s⁻ = 0        [w]
     margin:  u_i ≥ 0                              [surplus of the primal row margin]
     xi:      u_i ≤ c_i                            [ξ]
     upper:   s⁺ ≥ 0                               [R − w]
     lower:   s⁻ ≥ 0                               [R + w]

At the best s the value is margin Σ u − R ‖Σ u y x̃‖_1: any u within its caps gives a bound, and what it
lacks in balance it pays for at the rate R. Without the box (R infinite) balance is an equation in u alone.

Recovery
--------
w are the multipliers of balance; ξ_i = [margin − y_i w·x̃_i]_+.

Multipliers
-----------
u_i is the rate at which the face's cost rises with the margin asked of sample i: 0 beyond the margin, c_i
inside it. The optimum is a vertex, so m+1 samples hold a face and the rest have u at a bound. s⁺ and s⁻
are what a wider box would save: where one is not zero the box holds the face, a larger R would lower the
cost, and the answer is one about units. Raise the radius, or scale the features.

Infeasible when
---------------
Never: w = 0, ξ = margin is feasible, and with it the optimum lies between 0 and margin Σ c_i.

Reference
---------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011), eq. (3) and (4). Margin, box, and
positives in every program are of this package. Kantchelian et al. (2014) for the machine with a norm.

Example
-------
>>> import numpy as np
>>> from formulations import polyceptron
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])  # inside is the middle
>>> solution = polyceptron.fixed_assignment(X, y, n_faces=2, assignment=[0, -1, 1]).solve()
>>> solution.objective
0.0
>>> polyceptron.cell(X, y, margin=0.0).solve().objective  # no face separates these; w = 0 hides that
0.0
>>> polyceptron.cell(X, y, margin=1.0).solve().objective
2.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.box import BOX_LETTERS, box_duals, box_rows
from formulations.language.arguments import whole
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import two_blobs
from formulations.polyceptron_global import mixed_integer
from formulations.polyhedral import SAMPLE_LETTERS, belonging
from formulations.polytope import check_assignment, lift
from formulations.svm import cost_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, MatrixLike

__all__ = ["answers", "cell", "cell_dual", "fixed_assignment", "fixed_assignment_dual", "pairs", "singles"]

_PAPER = "Manwani & Sastry (2011), eq. (4), with a margin, a box and every positive in it"

LETTERS = {
    "Zᵢₖ": "1 where sample $i$ is on face $k$, else 0: a positive is on all, a negative on one",
    **BOX_LETTERS,
    **SAMPLE_LETTERS,
    "Cᵢ": "the price of sample $i$'s slack, $C$ times its weight",
}
_CELL_LETTERS = {**LETTERS, "Cᵢ": "the price of sample $i$'s slack, 0 where it is not on this face"}


def answers(y: ArrayLike, n_faces: int, assignment: ArrayLike) -> NDArray[np.float64]:
    """Z (n, K): which samples are in which face's program.

    Parameters
    ----------
    y, n_faces, assignment
        As in :func:`formulations.polytope.answers`, which raises the same errors, with the negatives in the
        place of the positives.
    """
    whole("n_faces", n_faces)
    y = np.asarray(y, dtype=float)
    z = check_assignment(-y, n_faces, assignment, "negative")
    return belonging(y, z, n_faces, "all")


def cell(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4
) -> Program:
    """One face of the program for a fixed assignment.

    Parameters
    ----------
    X, y
        Samples, labels: +1 inside, -1 outside.
    C : float or array_like of shape (n,)
        Cost of slack, per sample: 0 for the negatives that other faces answer for.
    margin : float
        1, or 0 for the paper's (4), whose optimum is 0.
    radius : float
        R, the largest absolute value of an entry of w, or inf.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    w, xi, costs = cp.Variable(m + 1, name="w"), cp.Variable(n, name="xi"), cost_parameter(C, n)
    rows = (*_margin_rows(y, lift(X) @ w, xi, margin, "w", "ᵢ"), *box_rows(w, radius, "w"))
    return Program(
        name="polyceptron.cell",
        title="Polyceptron, the exact program of one face",
        source=_PAPER,
        objective=cp.Minimize(costs @ xi),
        objective_text="Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "xi": xi},
        rows=rows,
        parameters={"C": costs},
        letters=_CELL_LETTERS,
        data={"x": X, "y": y, "R": radius},
    )


def cell_dual(
    X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4
) -> Program:
    """Dual of :func:`cell`; arguments as in the primal."""
    X, y = as_data(X, y)
    u, costs = cp.Variable(len(y), name="u"), cost_parameter(C, len(y))
    return _dual(
        X, y, u, lift(X).T @ cp.multiply(y, u), costs, {"C": costs}, margin, radius, face="w",
        name="polyceptron.cell_dual", title="Polyceptron, the exact program of one face, dual",
        letters=_CELL_LETTERS,
    )  # fmt: skip


def fixed_assignment(
    X: MatrixLike,
    y: ArrayLike,
    n_faces: int,
    assignment: ArrayLike,
    C: ArrayLike = 1.0,
    margin: float = 1.0,
    radius: float = 1e4,
) -> Program:
    """All faces for a fixed assignment: the sum of the programs of :func:`cell`.

    Parameters
    ----------
    X, y, n_faces, assignment, C, margin, radius
        As in :func:`cell` and :func:`answers`.

    Returns
    -------
    Program
        With the parameters C and Z, of which :func:`answers` gives the one for another assignment.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    parameters, costs = _parameters(y, n_faces, assignment, C)
    W, xi = cp.Variable((n_faces, m + 1), name="W"), cp.Variable((n, n_faces), name="xi")
    rows = _margin_rows(y[:, None], lift(X) @ W.T, xi, margin, "Wₖ", "ᵢₖ")
    return Program(
        name="polyceptron.fixed_assignment",
        title="Polyceptron, the exact program for a fixed assignment",
        source=_PAPER,
        objective=cp.Minimize(cp.sum(cp.multiply(costs, xi))),
        objective_text="Σᵢₖ Cᵢ Zᵢₖ ξᵢₖ",
        variables={"W": W, "xi": xi},
        rows=(*rows, *box_rows(W, radius, "Wₖ")),
        parameters=parameters,
        letters=LETTERS,
        data={"x": X, "y": y, "R": radius},
    )


def fixed_assignment_dual(
    X: MatrixLike, y: ArrayLike, n_faces: int, assignment: ArrayLike,
    C: ArrayLike = 1.0, margin: float = 1.0, radius: float = 1e4,
) -> Program:  # fmt: skip
    """Dual of :func:`fixed_assignment`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    parameters, costs = _parameters(y, n_faces, assignment, C)
    u = cp.Variable((len(y), n_faces), name="u")
    return _dual(
        X, y, u, cp.multiply(y[:, None], u).T @ lift(X), costs, parameters, margin, radius, face="W",
        name="polyceptron.fixed_assignment_dual",
        title="Polyceptron, the exact program for a fixed assignment, dual", letters=LETTERS,
    )  # fmt: skip


def _dual(
    X: Matrix, y: NDArray[Any], u: cp.Variable, off: cp.Expression, costs: cp.Parameter,
    parameters: dict[str, cp.Parameter], margin: float, radius: float, *,
    face: str, name: str, title: str, letters: Mapping[str, str],
) -> Program:  # fmt: skip
    """The dual of one face, w, or of all together, W; `off` is what must balance."""
    sub = "ᵢ" if face == "w" else "ᵢₖ"
    price, price_text, variables, rows = box_duals(off, radius, f"Σᵢ u{sub} yᵢ x̃ᵢ", face)
    return Program(
        name=name,
        title=title,
        source=f"{_PAPER} (derived)",
        objective=cp.Maximize(margin * cp.sum(u) - price),
        objective_text=f"{_factor(margin)}Σ{sub} u{sub}{price_text}",
        variables={"u": u, **variables},
        rows=(*rows, *_cap_rows(u, costs, sub)),
        parameters=parameters,
        letters=letters,
        data={"x": X, "y": y, "R": radius},
    )


def _digits(number: float) -> str:
    """A number with all its digits, and no exponent."""
    return np.format_float_positional(number, trim="-")


def _factor(margin: float) -> str:
    return "" if margin == 1.0 else f"{_digits(margin)} "


def _parameters(
    y: NDArray[Any], n_faces: int, assignment: ArrayLike, C: ArrayLike
) -> tuple[dict[str, cp.Parameter], cp.Parameter]:
    """The parameters C and Z, and their product, the cost (n, K) of each slack."""
    per_sample, Z_value = cost_parameter(C, len(y)), answers(y, n_faces, assignment)
    Z = cp.Parameter(Z_value.shape, nonneg=True, name="Z", value=Z_value)
    costs = cp.CallbackParam(lambda: per_sample.value[:, None] * Z.value, shape=Z.shape, nonneg=True)
    return {"C": per_sample, "Z": Z}, costs


def _margin_rows(
    y: NDArray[Any], f: cp.Expression, xi: cp.Variable, margin: float, letter: str, sub: str
) -> tuple[Row, Row]:
    row = Row(
        "margin",
        cp.multiply(y, f) >= margin - xi,
        f"yᵢ {letter}·x̃ᵢ ≥ {_digits(margin)} − ξ{sub}",
        "u",
        "price of sample i's margin on the face: 0 beyond it, its cost inside it",
    )
    slack = Row(
        "slack",
        xi >= 0,
        f"ξ{sub} ≥ 0",
        "v",
        "unused price of slack: its cost less $u$",
    )
    return row, slack


def _cap_rows(u: cp.Variable, costs: cp.Parameter, sub: str) -> tuple[Row, Row]:
    cap = "Cᵢ" if sub == "ᵢ" else "Cᵢ Zᵢₖ"
    sign = Row(
        "margin",
        u >= 0,
        f"u{sub} ≥ 0",
        "surplus",
        "how far sample i is beyond the face's margin",
    )
    cap_row = Row("xi", u <= costs, f"u{sub} ≤ {cap}", "xi", "the slacks $ξ$")
    return sign, cap_row


def pairs(seed: int = 0) -> list[Duality]:
    """Every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(m=2, seed=seed)
    C, K = np.where(y > 0, 0.7, 1.0), 2
    assignment = np.arange(len(y)) % K
    one = C * answers(y, K, assignment)[:, 0]
    lifted = lift(X)

    def of(primal: Program, dual: Program, name: str) -> Duality:
        def recover(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            # A linear program's primal is read off the multipliers of its dual.
            W = np.asarray(dual.rows[0].constraint.dual_value)
            return {name: W, "xi": np.maximum(0.0, 1.0 - (y * (lifted @ W.T).T).T)}

        return Duality(primal, dual, recover)

    together = (X, y, K, assignment, C)
    return [
        of(cell(X, y, one), cell_dual(X, y, one), "w"),
        of(fixed_assignment(*together), fixed_assignment_dual(*together), "W"),
    ]


def singles(seed: int = 0) -> list[Program]:
    """The machine over all assignments, which has no dual, on random data."""
    X, y = two_blobs(n=16, m=2, separation=0.8, seed=seed)
    return [mixed_integer(X, y, 2, np.where(y > 0, 1.3, 0.7), radius=10.0)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
