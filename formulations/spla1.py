"""SPLA1: a polyhedral classifier as a logistic model, one logistic regression in each cell.

Problem
-------
With K faces w_k and x̃ = (x, 1), a sample is inside if h(x) = min_k w_k·x̃ ≥ 0, and P(y|x) = σ(y h(x)) with
the logistic function σ(t) = 1/(1 + e^(−t)). The cell of face k is the set of samples for which face k has the
least score w_k·x̃. With the cells fixed, the log-likelihood splits into K logistic regressions, one for each
cell; fitting them alternates with the update of the cells. The programs here are for one cell.

After an update of the cells the loss of a positive may be larger than it was in its old cell, since h is the
minimum of the scores, so the alternation need not decrease the objective. It never increases the objective
if every positive is in the program of every face (positives="all" of
:func:`formulations.polyhedral.hard_loss`).

Variables and shapes
--------------------
w (m+1,), the face, its bias last and penalised like the other entries; z (n,), the score of a sample on its
own side. v (n,) in the dual. X is (n, m), y is (n,) of -1 and +1; the weight C is a scalar or (n,), 0 for the
samples of other cells. ρ > 0 is the ridge.

Programs
--------
cell        min  Σ_i C_i ln(1 + exp(−z_i)) + ρ/2 ‖w‖²   s.t.  z_i ≤ y_i w·x̃_i [u_i]
cell_dual   max  Σ_i C_i H(v_i) − 1/(2ρ) ‖Σ_i C_i v_i y_i x̃_i‖²   with v_i = u_i / C_i

u_i is the multiplier of the constraint on z_i. The entropy H(v) = −v ln v − (1 − v) ln(1 − v) has the domain
0 ≤ v ≤ 1, so the dual has no rows.

Recovery
--------
w = (1/ρ) Σ_i C_i v_i y_i x̃_i; z_i = y_i w·x̃_i.

Multipliers
-----------
u_i = C_i σ(−z_i) is minus the derivative of the loss by z_i: near C_i far on the wrong side of the face, near
0 far on the right side. For any w, v_i = σ(−y_i w·x̃_i) is dual feasible and so gives a lower bound.

Infeasible when
---------------
Never. Without the penalty (ρ = 0) separable cells have no minimiser: the infimum is not attained.

Reference
---------
Manwani & Sastry, Learning Polyhedral Classifiers Using Logistic Function (2010), reconstructed from its
abstract and its authors' later papers; its full text was not available. It is the limit of PLUME, Shah,
Sastry & Manwani (2019), eq. (3), for an infinitely sharp gate: its softmax over faces becomes the minimum.

Example
-------
>>> import numpy as np
>>> from formulations import spla1
>>> X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([-1, 1, -1, 1])
>>> program = spla1.cell(X, y, ridge=0.1)
>>> solution = program.solve()
>>> u = solution.duals["margin"]
>>> bool(np.allclose(0.1 * solution["w"], np.append(X.T @ (u * y), u @ y), atol=1e-5))
True
"""

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import positive
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.polyhedral import RIDGE_LETTERS, SAMPLE_LETTERS
from formulations.polytope import lift
from formulations.svm import cost_parameter

_SOURCE = "Manwani & Sastry (2010), reconstructed"

LETTERS = {  # meaning of the letters in printed formulas
    "H(v)": "= −v ln v − (1 − v) ln(1 − v): for $v$ between 0 and 1",
    **RIDGE_LETTERS,
    **SAMPLE_LETTERS,
    "Cᵢ": "the weight of sample $i$, 0 if it is in another cell",
}


def cell(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, ridge: float = 1e-3) -> Program:
    """State the logistic regression of one cell; ``program.set(C=...)`` takes the weights of another cell.

    Parameters
    ----------
    X, y
        Samples, labels: +1 inside, -1 outside.
    C : float or array_like of shape (n,)
        Weight of each sample; 0 for those of other cells.
    ridge : float
        ρ, positive.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    w, z, weights = cp.Variable(m + 1, name="w"), cp.Variable(n, name="z"), cost_parameter(C, n)
    says = "minus the derivative of the loss: near $Cᵢ$ on the wrong side, near 0 on the right side"
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    margin = Row("margin", z <= cp.multiply(y, lift(X) @ w), "zᵢ ≤ yᵢ w·x̃ᵢ", "u", says)
    return Program(
        name="spla1.cell",
        title="SPLA1, one cell",
        source=_SOURCE,
        objective=cp.Minimize(weights @ cp.logistic(-z) + 0.5 * positive("ridge", ridge) * cp.sum_squares(w)),
        objective_text="Σᵢ Cᵢ ln(1 + exp(−zᵢ)) + ρ/2 ‖w‖²",
        variables={"w": w, "z": z},
        rows=(margin,),
        parameters={"C": weights},
        letters=LETTERS,
        data={"x": X, "y": y, "ρ": ridge},
    )


def cell_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, ridge: float = 1e-3) -> Program:
    """State the dual of :func:`cell`; arguments as in the primal."""
    X, y = as_data(X, y)
    primal, v = cell(X, y, C, ridge), cp.Variable(len(y), name="v")
    weights = primal.parameters["C"]
    weighted_sum = lift(X).T @ cp.multiply(y, cp.multiply(weights, v))  # ρ w
    entropy = weights @ (cp.entr(v) + cp.entr(1 - v))
    objective = entropy - cp.sum_squares(weighted_sum) / (2 * ridge)
    return primal.dual(objective, "Σᵢ Cᵢ H(vᵢ) − 1/(2ρ) ‖Σᵢ Cᵢ vᵢ yᵢ x̃ᵢ‖²", (v,), ())


def recover(
    X: MatrixLike, y: ArrayLike, v: NDArray[Any], C: ArrayLike = 1.0, ridge: float = 1e-3
) -> dict[str, NDArray[Any]]:
    """Return primal variables w and z of :func:`cell` from the dual's v."""
    X, y = as_data(X, y)
    lifted = lift(X)
    w = lifted.T @ (np.asarray(C) * v * y) / ridge
    return {"w": w, "z": y * (lifted @ w)}


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(seed=seed)
    weights, ridge = np.where(y > 0, 1.0, 0.7), 3.0
    arguments = (X, y, weights, ridge)
    return [
        Duality(
            cell(*arguments), cell_dual(*arguments), lambda v: recover(X, y, v["v"], C=weights, ridge=ridge)
        )
    ]
