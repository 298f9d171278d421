"""One face of the Convex Polytope Machine, and its dual: what the machine is made of for loss="sum".

The machine itself, its letters and its reference stand in :mod:`formulations.cpm`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp

from formulations.polytope import lift
from formulations.program import Program
from formulations.recovery import as_data
from formulations.svm import alpha_rows, cost_parameter, margin_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["PAPER", "SOURCE", "face", "face_dual"]

PAPER = "Kantchelian et al. (2014)"
SOURCE = "unconstrained form of eq. (6)"


def face(X: Any, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """One face of the fixed-assignment program with loss="sum".

    Parameters
    ----------
    X : array_like or CSR matrix of shape (n, m)
        Samples.
    y : array_like of shape (n,)
        Labels: -1 inside, +1 outside.
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
        objective_latex=r"\|w\|^2 + \sum_i C_i \xi_i",
        variables={"w": w, "xi": xi},
        rows=margin_rows(y, lift(X) @ w, xi, "w·x̃ᵢ", r"w^\top \tilde x_i"),
        parameters={"C": costs},
    )


def face_dual(X: Any, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """Dual of :func:`face`; arguments as in there."""
    X, y = as_data(X, y)
    n = X.shape[0]
    alpha, costs = cp.Variable(n, name="alpha"), cost_parameter(C, n)
    return Program(
        name="cpm.face_dual",
        title="Convex polytope machine, one face, dual",
        source=f"{PAPER}, {SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - 0.25 * cp.sum_squares(lift(X).T @ cp.multiply(y, alpha))),
        objective_text="Σᵢ αᵢ − ¼ ‖Σᵢ αᵢ yᵢ x̃ᵢ‖²",
        objective_latex=r"\sum_i \alpha_i - \tfrac14 \Big\|\sum_i \alpha_i y_i \tilde x_i\Big\|^2",
        variables={"alpha": alpha},
        rows=alpha_rows(alpha, costs),
        parameters={"C": costs},
    )
