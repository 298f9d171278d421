"""The one-norm support vector machine: a linear program with few support vectors.

Problem
-------
Separate two classes by f(x) = Σ_j y_j α_j k(x, x_j) + b. The cost is the sum of the coefficients α ≥ 0, which
replaces the SVM's quadratic term and makes many coefficients zero, plus C_i times the slack ξ_i by which
sample i violates y_i f(x_i) ≥ 1.

Variables and shapes
--------------------
alpha (n,), b scalar, xi (n,); u (n,) and s (n,) in the dual. The kernel matrix K_ij = k(x_i, x_j) is (n, n),
any matrix; y is (n,) of -1 and +1, C is a scalar or (n,). Multipliers are in brackets below.

Programs
--------
primal (1)   min  Σ_j α_j + Σ_i C_i ξ_i
             s.t. y_i (Σ_j K_ij y_j α_j + b) ≥ 1 − ξ_i [u_i],  ξ ≥ 0,  α ≥ 0,  α_j ≤ C_j [s_j]
dual (2)     max  Σ_i u_i − Σ_j C_j s_j
             s.t. y_j Σ_i K_ij y_i u_i − s_j ≤ 1 [α_j],  Σ_i y_i u_i = 0 [b],  0 ≤ u_i ≤ C_i,  s ≥ 0

Recovery
--------
α is the multiplier of the dual's row ``alpha``; b minimises the cost of slack for it; ξ_i = [1 − y_i
f(x_i)]_+.

Multipliers
-----------
u_i is the rate at which the cost rises with the margin required of sample i: 0 if y_i f(x_i) > 1, between 0
and C_i at 1, C_i below 1. s_j is the rate at which the cost falls as the cap on α_j rises.

Infeasible when
---------------
Never for finite C: α = 0, ξ = 1 is feasible.

Reference
---------
Mannor, Peleg & Rubinstein, slides on the cross-entropy method: the primal, eq. (1) here; the dual, eq. (2),
is derived. The slides call the objective a bound on the 0-norm ‖α‖₀, the number of nonzeros, which it is not:
‖α‖₁ may be below ‖α‖₀. :mod:`formulations.l0` has the program that minimises the 0-norm; its relaxation, a
lower bound, is this program with the cost 1/C for α. The paper: Mannor, Peleg & Rubinstein, The cross entropy
method for classification (2005).

Example
-------
>>> import numpy as np
>>> from formulations import one_norm
>>> X, y = np.array([-3.0, -1.0, 1.0, 2.0]), np.array([-1, -1, 1, 1])
>>> solution = one_norm.primal(np.outer(X, X), y, C=2.0).solve()
>>> solution["alpha"].round(6) + 0.0
array([0.333333, 0.      , 0.      , 0.      ])
>>> round(one_norm.dual(np.outer(X, X), y, C=2.0).solve().objective, 6)
0.333333
"""

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike

from formulations.l0 import dual_rows, dual_variables, duality, primal_rows, primal_variables
from formulations.l0_data import as_l0_data
from formulations.language.program import Duality, Program
from formulations.language.toy_data import two_blobs
from formulations.svm import KERNEL_LETTERS, cost_parameter

LETTERS = {**KERNEL_LETTERS, "Cᵢ": "the cost of sample $i$'s slack, and the cap on its coefficient"}
_SLIDES = "Mannor, Peleg & Rubinstein, slides"


def primal(K: ArrayLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State the one-norm SVM, eq. (1).

    Parameters
    ----------
    K : array_like of shape (n, n)
        ``K[i, j] = k(x_i, x_j)``; neither symmetry nor semidefiniteness is needed.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float or array_like of shape (n,)
        Cost of slack, per sample. Following the slides, it caps alpha as well.
    """
    data = as_l0_data(K, y)
    costs = cost_parameter(C, len(data.y))
    alpha, b, xi = primal_variables(data)
    return Program(
        name="one_norm.primal",
        title="One-norm support vector machine",
        source=_SLIDES,
        objective=cp.Minimize(cp.sum(alpha) + costs @ xi),
        objective_text="Σⱼ αⱼ + Σᵢ Cᵢ ξᵢ",
        variables={"alpha": alpha, "b": b, "xi": xi},
        rows=primal_rows(data, alpha, b, xi, (costs, "Cⱼ"), "$Cᵢ$", "y", "cost"),
        parameters={"C": costs},
        letters=LETTERS,
        data={"K": data.K, "y": data.y},
    )


def dual(K: ArrayLike, y: ArrayLike, C: ArrayLike = 1.0) -> Program:
    """State the dual of :func:`primal`, eq. (2); arguments as in the primal."""
    data, program = as_l0_data(K, y), primal(K, y, C)
    u, s, r = dual_variables(data)
    alpha, costs = r - s <= 1, program.parameters["C"]
    row = alpha, "yⱼ Σᵢ Kᵢⱼ yᵢ uᵢ − sⱼ ≤ 1", "the coefficient $αⱼ$"
    rows = dual_rows(data, u, s, row, (costs, "Cᵢ"), "Cⱼ")
    return program.dual(cp.sum(u) - costs @ s, "Σᵢ uᵢ − Σⱼ Cⱼ sⱼ", (u, s), rows, name="one_norm.dual")


def pairs(seed: int = 0) -> list[Duality]:
    """Return the programs of this module on random data, as a primal-dual pair."""
    X, y = two_blobs(seed=seed)
    C, K = np.where(y > 0, 1.0, 0.7), (X @ X.T + 1.0) ** 2
    return [duality(primal(K, y, C), dual(K, y, C), as_l0_data(K, y), C)]
