"""A cell of SPLA1 with small whole numbers for coefficients.

Problem
-------
A face reads best as `2 age + 3 bmi − chol > 41.5`: whole numbers p_j from −M to M, a scale δ > 0 that all of
them share, and a threshold. As the face of a cell of SPLA1 (:mod:`formulations.spla1`) it has the weights w =
δ p; its bias b is a real number, and −b/δ the threshold. For a fixed scale

     min  Σ C_i ln(1 + exp(−y_i (δ p·x_i + b))) + ρ/2 (δ² ‖p‖² + b²)     over whole p from −M to M and b

is a mixed-integer convex program. Over the scale there is one more number to search.

Variables and shapes
--------------------
p (m,), b scalar, z (n,); v (n,), mu (m,), nu (m,) in the dual. X is (n, m), y is (n,) of -1 and +1, +1
inside; C a scalar or (n,), 0 for the samples of other cells; δ a positive number, M a whole one.

Primal
------
     min  Σ_i C_i ln(1 + exp(−z_i)) + ρ/2 (δ² ‖p‖² + b²)
     margin:  z_i ≤ y_i (δ p·x_i + b)              [u]
     most:    p_j ≤ M                              [mu]
     least:   −M ≤ p_j                             [nu]

exactly with p whole, and relaxed with p real.

Dual
----
of the relaxation, with u_i = C_i v_i, the entropy H(v) = −v ln v − (1 − v) ln(1 − v), V_j = Σ_i u_i y_i x_ij
     max  Σ_i C_i H(v_i) − 1/(2ρ) (Σ_i u_i y_i)² − M Σ_j (μ_j + ν_j) − 1/(2ρδ²) Σ_j (δ V_j − μ_j + ν_j)²
     most:    μ_j ≥ 0                              [M − p_j]
     least:   ν_j ≥ 0                              [M + p_j]

The entropy keeps every v_i between 0 and 1. Without the limits M, for whatever scale, it is the dual of the
cell itself: what a face of whole numbers costs beyond the value of that at some v is at least what whole
numbers can have lost.

Recovery
--------
p_j = (δ V_j − μ_j + ν_j)/(ρ δ²), b = Σ_i u_i y_i/ρ.

Multipliers
-----------
u as of the cell; mu_j and nu_j are what a larger M would save at feature j.

Infeasible when
---------------
Never: p = 0, b = 0 is feasible.

Reference
---------
Manwani & Sastry, Learning Polyhedral Classifiers Using Logistic Function (2010), reconstructed, for the cell:
that of PLUME, Shah, Sastry & Manwani (2019), eq. (3), as its gate becomes sharp. Ustun & Rudin, Supersparse
linear integer models for optimized medical scoring systems (2016), for whole coefficients. The programs are
derived here.

Example
-------
>>> import numpy as np
>>> from formulations import spla1_integer
>>> X, y = np.array([[2.0, 1.1], [-2.0, -0.9]]), np.array([1, -1])
>>> spla1_integer.relaxation(X, y, 0.2, 1, ridge=0.1).solve()["p"].round(3)  # both numbers at their limit
array([1., 1.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import positive, whole
from formulations.program import Duality, Program, Row
from formulations.recovery import as_data
from formulations.samples import two_blobs
from formulations.spla1 import LETTERS as CELL_LETTERS
from formulations.svm import cost_parameter
from formulations.whole_rows import LETTERS, number_multiplier_rows, number_rows, whole_program

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["mixed_integer", "pairs", "recover", "relaxation", "relaxation_dual", "singles"]

_LETTERS = {
    **{letter: says for letter, says in CELL_LETTERS.items() if letter != "x̃ᵢ"},
    "xᵢ": "sample $i$",
    **LETTERS,
    "p, b": "the face of the primal",
}
_SOURCE = "Manwani & Sastry (2010), reconstructed, with whole coefficients"


def mixed_integer(
    X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0, ridge: float = 1e-3
) -> Program:
    """The cell's face of whole coefficients at a fixed scale.

    Parameters
    ----------
    X, y, C, ridge
        As in :func:`formulations.spla1.cell`.
    scale : float
        δ, positive.
    M : int
        The largest coefficient, at least 1.
    """
    return _primal(X, y, scale, M, C, ridge, exact=True)


def relaxation(
    X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0, ridge: float = 1e-3
) -> Program:
    """The same with real coefficients from −M to M; arguments as in :func:`mixed_integer`."""
    return _primal(X, y, scale, M, C, ridge, exact=False)


def _primal(
    X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike, ridge: float, exact: bool
) -> Program:
    X, y = as_data(X, y)
    scale, M, rho = positive("scale", scale), whole("M", M), positive("ridge", ridge)
    n, m = X.shape
    p, b, z = cp.Variable(m, name="p", integer=exact), cp.Variable(name="b"), cp.Variable(n, name="z")
    costs = cost_parameter(C, n)
    rows = (
        Row("margin", z <= cp.multiply(y, scale * (X @ p) + b), "zᵢ ≤ yᵢ (δ p·xᵢ + b)", "u",
            "pull of sample i at the face: near its weight on the wrong side, near 0 well on its own"),
        *number_rows(p, M),
    )  # fmt: skip
    squares = scale**2 * cp.sum_squares(p) + cp.square(b)
    return whole_program(
        "spla1_integer", "SPLA1, one cell, a face of whole coefficients", _SOURCE, rows, exact,
        objective=cp.Minimize(costs @ cp.logistic(-z) + 0.5 * rho * squares),
        objective_text="Σᵢ Cᵢ ln(1 + exp(−zᵢ)) + ρ/2 (δ² ‖p‖² + b²)",
        variables={"p": p, "b": b, "z": z},
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "δ": scale, "M": float(M), "ρ": ridge},
    )  # fmt: skip


def relaxation_dual(
    X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0, ridge: float = 1e-3
) -> Program:
    """Dual of :func:`relaxation`; arguments as in the primal."""
    X, y = as_data(X, y)
    scale, M, rho = positive("scale", scale), whole("M", M), positive("ridge", ridge)
    n, m = X.shape
    v, mu, nu = cp.Variable(n, name="v"), cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    costs = cost_parameter(C, n)
    u = cp.multiply(costs, v)
    pulled = scale * (X.T @ cp.multiply(y, u)) - mu + nu
    paid = float(M) * cp.sum(mu + nu) + cp.sum_squares(pulled) / (2.0 * rho * scale**2)
    entropy = costs @ (cp.entr(v) + cp.entr(1 - v))
    return Program(
        name="spla1_integer.relaxation_dual",
        title="SPLA1, one cell, a face of whole coefficients, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(entropy - cp.square(y @ u) / (2.0 * rho) - paid),
        objective_text="Σᵢ Cᵢ H(vᵢ) − 1/(2ρ) (Σᵢ Cᵢ vᵢ yᵢ)² − M Σⱼ (μⱼ + νⱼ) "
        "− 1/(2ρ δ²) Σⱼ (δ Σᵢ Cᵢ vᵢ yᵢ xᵢⱼ − μⱼ + νⱼ)²",
        variables={"v": v, "mu": mu, "nu": nu},
        rows=(*number_multiplier_rows(mu, nu),),
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "δ": scale, "M": float(M), "ρ": ridge},
    )


def recover(
    X: MatrixLike, y: ArrayLike, scale: float, v: NDArray[Any], mu: NDArray[Any], nu: NDArray[Any],
    C: ArrayLike = 1.0, ridge: float = 1e-3,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Primal variables p, b and z of the relaxation from the dual's.

    Parameters
    ----------
    X, y, scale, C, ridge
        As in :func:`relaxation`.
    v : ndarray of shape (n,)
        The dual's variable.
    mu, nu : ndarray of shape (m,)
        The multipliers of the limits.
    """
    X, y = as_data(X, y)
    u = np.asarray(C) * v * y
    p, b = (scale * (X.T @ u) - mu + nu) / (ridge * scale**2), float(u.sum()) / ridge
    return {"p": p, "b": np.array(b), "z": y * (scale * (X @ p) + b)}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with its dual."""
    X, y = two_blobs(m=4, seed=seed)
    C, scale, M, ridge = np.where(y > 0, 1.0, 0.7), 0.2, 2, 1.5
    given = (X, y, scale, M, C, ridge)
    return [
        Duality(
            relaxation(*given),
            relaxation_dual(*given),
            lambda found: recover(X, y, scale, found["v"], found["mu"], found["nu"], C, ridge),
        )
    ]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=4, seed=seed)
    return [mixed_integer(X, y, 0.2, 2, np.where(y > 0, 1.0, 0.7), 1.5)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
