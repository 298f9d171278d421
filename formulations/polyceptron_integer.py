"""A cell of the exact Polyceptron with small whole numbers for coefficients.

Problem
-------
A face reads best as `2 age + 3 bmi − chol > 41.5`: whole numbers p_j from −M to M, a scale δ > 0 that all of
them share, and a threshold. As the face of a cell of the Polyceptron with its margin of 1
(:mod:`formulations.polyceptron`) it has the weights w = δ p; its bias b is a real number, and −b/δ the
threshold. For a fixed scale

     min  Σ C_i [1 − y_i (δ p·x_i + b)]_+     over whole p from −M to M and b

is a mixed-integer linear program. Over the scale there is one more number to search. The limits of p take the
place of the box.

Variables and shapes
--------------------
p (m,), b scalar, xi (n,); alpha (n,), mu (m,), nu (m,) in the dual. X is (n, m), y is (n,) of -1 and +1, +1
inside; C a scalar or (n,), 0 for the samples that are not in the face's program; δ a positive number, M a
whole one.

Primal
------
     min  Σ_i C_i ξ_i
     margin:  y_i (δ p·x_i + b) ≥ 1 − ξ_i          [alpha]
     slack:   ξ_i ≥ 0                              [beta]
     most:    p_j ≤ M                              [mu]
     least:   −M ≤ p_j                             [nu]

exactly with p whole, and relaxed with p real.

Dual
----
of the relaxation
     max  Σ_i α_i − M Σ_j (μ_j + ν_j)
     weight:  δ Σ_i α_i y_i x_ij − μ_j + ν_j = 0   [p]
     bias:    Σ_i α_i y_i = 0                      [b]
     margin:  α_i ≥ 0                              [surplus]
     xi:      α_i ≤ C_i                            [xi]
     most:    μ_j ≥ 0                              [M − p_j]
     least:   ν_j ≥ 0                              [M + p_j]

Without the limits M, for whatever scale, it is the dual of the cell itself: what a face of whole numbers
costs beyond the value of that at some α is at least what whole numbers can have lost.

Recovery
--------
p and b are the multipliers of weight and bias; ξ_i = [1 − y_i (δ p·x_i + b)]_+.

Multipliers
-----------
alpha as u of the cell; mu_j and nu_j are what a larger M would save at feature j.

Infeasible when
---------------
Never: p = 0, b = 0, ξ = 1 is feasible.

Reference
---------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011), eq. (4), as amended in
:mod:`formulations.polyceptron`; Ustun & Rudin, Supersparse linear integer models for optimized medical
scoring systems (2016), for whole coefficients. The programs are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import polyceptron_integer
>>> X, y = np.array([[2.0, 1.1], [-2.0, -0.9]]), np.array([1, -1])
>>> polyceptron_integer.mixed_integer(X, y, 0.2, 1).solve()["p"].round(3)  # both numbers at their limit
array([1., 1.])
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.program import Duality, Program, Row
from formulations.recovery import as_data, slacks
from formulations.samples import two_blobs
from formulations.svm import alpha_rows
from formulations.whole_rows import LETTERS, hinge_face, hinge_multipliers, number_multiplier_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["mixed_integer", "pairs", "recover", "relaxation", "relaxation_dual", "singles"]

_LETTERS = {
    "xᵢ": "sample $i$",
    "yᵢ": "+1 inside, −1 outside",
    "Cᵢ": "the price of sample $i$'s slack, 0 where it is not in this face's program",
    **LETTERS,
}
_SOURCE = "Manwani & Sastry (2011), eq. (4), with a margin and whole coefficients"
_face = partial(
    hinge_face, squares=False, room="polyceptron_integer", source=_SOURCE, letters=_LETTERS,
    title="Polyceptron, one cell, a face of whole coefficients",
)  # fmt: skip


def mixed_integer(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """The cell's face of whole coefficients at a fixed scale; HiGHS and SCIP solve it.

    Parameters
    ----------
    X, y, C
        As in :func:`formulations.polyceptron.cell`.
    scale : float
        δ, positive.
    M : int
        The largest coefficient, at least 1.
    """
    return _face(X, y, scale, M, C, exact=True)


def relaxation(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """The same with real coefficients from −M to M; arguments as in :func:`mixed_integer`."""
    return _face(X, y, scale, M, C, exact=False)


def relaxation_dual(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """Dual of :func:`relaxation`; arguments as in the primal."""
    alpha, mu, nu, costs, pull, balance, data = hinge_multipliers(X, y, scale, M, C)
    return Program(
        name="polyceptron_integer.relaxation_dual",
        title="Polyceptron, one cell, a face of whole coefficients, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - float(M) * cp.sum(mu + nu)),
        objective_text="Σᵢ αᵢ − M Σⱼ (μⱼ + νⱼ)",
        variables={"alpha": alpha, "mu": mu, "nu": nu},
        rows=(
            Row("weight", pull == 0, "δ Σᵢ αᵢ yᵢ xᵢⱼ − μⱼ + νⱼ = 0", "p", "the number of feature j"),
            Row("bias", balance == 0, "Σᵢ αᵢ yᵢ = 0", "b", "the bias"),
            *alpha_rows(alpha, costs),
            *number_multiplier_rows(mu, nu),
        ),
        parameters={"C": costs},
        letters=_LETTERS,
        data=data,
    )  # fmt: skip


def recover(
    X: MatrixLike, y: ArrayLike, scale: float, p: NDArray[Any], b: NDArray[Any] | float
) -> dict[str, NDArray[Any]]:
    """Primal variables of the relaxation from the multipliers of the dual's rows.

    Parameters
    ----------
    X, y, scale
        As in :func:`relaxation`.
    p : ndarray of shape (m,)
        The multipliers of the row weight.
    b : float
        That of the row bias.
    """
    X, y = as_data(X, y)
    return {"p": p, "b": np.array(float(b)), "xi": slacks(scale * (X @ p) + float(b), y)}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with its dual."""
    X, y = two_blobs(m=4, seed=seed)
    C, scale, M = np.where(y > 0, 1.0, 0.7), 0.3, 2
    dual = relaxation_dual(X, y, scale, M, C)

    def recovered(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        # A linear program's primal is read off the multipliers of its dual, as the last solve left them.
        weight, bias = (row.constraint.dual_value for row in dual.rows[:2])
        return recover(X, y, scale, np.asarray(weight), float(np.asarray(bias)))

    return [Duality(relaxation(X, y, scale, M, C), dual, recovered)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=4, seed=seed)
    return [mixed_integer(X, y, 0.3, 3, np.where(y > 0, 1.0, 0.7))]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
