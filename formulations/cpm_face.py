"""One face of the Convex Polytope Machine, and its dual: what the machine is made of for loss="sum".

The machine itself, its letters and its reference stand in :mod:`formulations.cpm`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp

from formulations.language.program import Program
from formulations.language.recovery import as_data
from formulations.polytope import lift
from formulations.svm import alpha_rows, cost_parameter, margin_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import MatrixLike

__all__ = ["LETTERS", "ONE_FACE_LETTERS", "PAPER", "SOURCE", "face", "face_dual"]

PAPER = "Kantchelian et al. (2014)"
SOURCE = "unconstrained form of eq. (6)"

LETTERS = {
    "Zᵢₖ": "1 where sample $i$ is on face $k$, else 0: a negative is on all, a positive on one",
    "ξ₍ᵢₖ₎": "$ξᵢ$, shared by the faces, at a negative, and $ξᵢₖ$ at a positive",
    "x̃ᵢ": "= (xᵢ, 1): with it the bias is the last weight",
    "xᵢ": "sample $i$",
    "yᵢ": "+1 outside the polytope, −1 inside",
    "Cᵢ": "the price of sample $i$'s slack, $C$ times its weight",
}
ONE_FACE_LETTERS = {
    **{letter: LETTERS[letter] for letter in ("xᵢ", "yᵢ")},
    "Cᵢ": "the price of sample $i$'s slack, 0 where it is not on this face",
}
_FACE_LETTERS = {"x̃ᵢ": LETTERS["x̃ᵢ"], **ONE_FACE_LETTERS}


def face(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """One face of the fixed-assignment program with loss="sum".

    Parameters
    ----------
    X, y
        As in :func:`formulations.cpm.fixed_assignment`.
    C : float or array_like of shape (n,)
        Cost of slack, per sample: 0 for the positives that other faces answer for.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    w, xi, costs = cp.Variable(m + 1, name="w"), cp.Variable(n, name="xi"), cost_parameter(C, n)
    return Program(
        name="cpm.face",
        title="Convex polytope machine, one face",
        source=f"{PAPER}, {SOURCE}",
        objective=cp.Minimize(cp.sum_squares(w) + costs @ xi),
        objective_text="‖w‖² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "xi": xi},
        rows=margin_rows(y, lift(X) @ w, xi, "w·x̃ᵢ"),
        parameters={"C": costs},
        letters=_FACE_LETTERS,
        data={"x": X, "y": y},
    )


def face_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """Dual of :func:`face`; arguments as in the primal."""
    X, y = as_data(X, y)
    n = X.shape[0]
    alpha, costs = cp.Variable(n, name="alpha"), cost_parameter(C, n)
    return Program(
        name="cpm.face_dual",
        title="Convex polytope machine, one face, dual",
        source=f"{PAPER}, {SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - 0.25 * cp.sum_squares(lift(X).T @ cp.multiply(y, alpha))),
        objective_text="Σᵢ αᵢ − ¼ ‖Σᵢ αᵢ yᵢ x̃ᵢ‖²",
        variables={"alpha": alpha},
        rows=alpha_rows(alpha, costs),
        parameters={"C": costs},
        letters=_FACE_LETTERS,
        data={"x": X, "y": y},
    )
