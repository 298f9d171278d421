"""The Relative Margin Machine with quadratic constraints, as the paper states it first, and its dual.

The machine, its other programs and what the two are to each other stand in :mod:`formulations.rmm`, which
lists these among its own.

Problem
-------
A support vector machine whose outputs on the training samples must stay within ±B, as a bound on their
squares: one constraint per sample, where the QP (7) has two.

Variables and shapes
--------------------
w (m,), b scalar, xi (n,); alpha, lam (n,) and t scalar in the dual. X is (n, m), y is (n,) of -1 and +1, C is
a scalar or (n,), B >= 0 a scalar. Throughout, f_i = w·x_i + b.

Primal
------
(5)  min  ½‖w‖² + Σ C_i ξ_i
     margin:  y_i f_i ≥ 1 − ξ_i                     [alpha]
     slack:   ξ_i ≥ 0                               [beta]
     spread:  ½ f_i² ≤ ½ B²                         [lam]

Dual
----
(6)  max  Σ α_i − ½ t − ½ B² Σ λ_i
     w_b:     [M(λ) q; q' t] ⪰ 0                    [½vv', v = (w, b, −1)]
     margin:  α_i ≥ 0                               [surplus of the row margin]
     xi:      α_i ≤ C_i                             [xi]
     spread:  λ_i ≥ 0                               [½(B² − f_i²)]
     where M(λ) = [I + X'ΛX, X'λ; λ'X, 1'λ] and q = (X'(α∘y), y'α). At the optimum t = q'M(λ)⁻¹q, which is
     what the paper writes out, less a term: :mod:`formulations.rmm` has both.

Recovery
--------
(w, b) solves M(λ) (w, b) = q; where λ = 0 it is the SVM's.

Multipliers
-----------
lam_i is what the optimal cost falls by per unit by which ½B² is relaxed at sample i. It is (λ_i + λ*_i)/B of
the QP.

Infeasible when
---------------
B < 0 only.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (5) and eq. (6), the latter with its missing term.

Example
-------
>>> import numpy as np
>>> from formulations import rmm_qcqp
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> at, dual = rmm_qcqp.qcqp(X, y, C=1.0, B=1.5).solve(), rmm_qcqp.qcqp_dual(X, y, C=1.0, B=1.5).solve()
>>> abs(at.objective - dual.objective) < 1e-6
True
>>> recovered = rmm_qcqp.recover_qcqp(X, y, 1.0, 1.5, dual["alpha"], dual["lam"])
>>> bool(np.abs(recovered["w"] - at["w"]).max() < 1e-4)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.families import best_intercept
from formulations.language.arguments import at_least
from formulations.language.program import Program, Row
from formulations.language.recovery import as_data, slacks
from formulations.language.types import dense
from formulations.svm import LETTERS as _SVM_LETTERS
from formulations.svm import alpha_rows, cost_parameter, soft_margin

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import MatrixLike

__all__ = ["BOUND_LETTERS", "PAPER", "bound_parameter", "qcqp", "qcqp_dual", "recover_qcqp"]

PAPER = "Shivaswamy & Jebara (2008)"

BOUND_LETTERS = {
    "B": "≥ 0: the bound on the outputs of the machine",
    "fᵢ": "the output of the machine at sample $i$",
    **_SVM_LETTERS,
}
_LETTERS = {
    "M(λ)": "= [I + Σᵢ λᵢ xᵢxᵢ', Σᵢ λᵢ xᵢ; Σᵢ λᵢ xᵢ', Σᵢ λᵢ]",
    "q": "= (Σᵢ αᵢ yᵢ xᵢ, Σᵢ αᵢ yᵢ)",
    "w, b": "the hyperplane of the primal",
    **BOUND_LETTERS,
}


def bound_parameter(B: float) -> cp.Parameter:
    """The parameter B, finite and non-negative: for B = infinity it is the SVM."""
    return cp.Parameter(nonneg=True, name="B", value=at_least("B", B, 0.0))


def _half_square(B: cp.Parameter) -> cp.Parameter:
    """½B² as a parameter of its own, so that the program stays parametrised in B."""
    return cp.CallbackParam(lambda: 0.5 * B.value**2, nonneg=True)


def qcqp(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """RMM as a quadratically constrained program, eq. (5).

    Parameters
    ----------
    X, y, C
        Samples (n, m), labels and costs of slack, as in :func:`formulations.svm.primal`.
    B : float
        Bound on the outputs, at least 0.
    """
    bound = bound_parameter(B)

    def spread(f: cp.Expression) -> tuple[Row]:
        row = Row(
            "spread",
            0.5 * cp.square(f) <= _half_square(bound),
            "½(w·xᵢ + b)² ≤ ½B²",
            "lam",
            "saving per unit by which $½B²$ is relaxed at sample i; 0 unless its output is at $B$ or $−B$",
        )
        return (row,)

    title = "Relative Margin Machine, QCQP"
    return soft_margin(
        X,
        y,
        C,
        spread,
        {"B": bound},
        name="rmm.qcqp",
        title=title,
        source=f"{PAPER}, eq. (5)",
        letters=_LETTERS,
    )


def qcqp_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """Dual of the QCQP, eq. (6) with its missing term, as a semidefinite program of size m + 2.

    The linear matrix inequality needs no special case at λ = 0, where it forces Σ α_i y_i = 0.
    Arguments as in :func:`qcqp`; X dense.
    """
    X, y = as_data(X, y)
    X = dense(X)
    n, m = X.shape
    alpha, lam, t = cp.Variable(n, name="alpha"), cp.Variable(n, name="lam"), cp.Variable(name="t")
    costs, bound = cost_parameter(C, n), bound_parameter(B)
    lifted = np.column_stack([X, np.ones(n)])
    identity = np.diag(np.append(np.ones(m), 0.0))
    M = identity + lifted.T @ cp.diag(lam) @ lifted
    q = cp.reshape(lifted.T @ cp.multiply(y, alpha), (m + 1, 1), order="C")
    block = cp.bmat([[M, q], [q.T, cp.reshape(t, (1, 1), order="C")]])
    rows = (
        Row(
            "w_b",
            block >> 0,
            "[M(λ), q; q', t] ⪰ 0",
            "Z",
            "$½vv'$ with $v = (w, b, −1)$",
        ),
        *alpha_rows(alpha, costs),
        Row("spread", lam >= 0, "λᵢ ≥ 0", "room", "room left under the bound: $½(B² − fᵢ²)$"),
    )
    return Program(
        name="rmm.qcqp_dual",
        title="Relative Margin Machine, dual of the QCQP",
        source=f"{PAPER}, eq. (6), corrected",
        objective=cp.Maximize(cp.sum(alpha) - 0.5 * t - _half_square(bound) * cp.sum(lam)),
        objective_text="Σᵢ αᵢ − ½ t − ½B² Σᵢ λᵢ",
        variables={"alpha": alpha, "lam": lam, "t": t},
        rows=rows,
        parameters={"C": costs, "B": bound},
        letters=_LETTERS,
        data={"x": X, "y": y},
    )


def recover_qcqp(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, B: float, alpha: NDArray[Any], lam: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Primal variables w, b, xi of (5) from the multipliers of (6).

    (w, b) solves M(λ) (w, b) = q; where λ vanishes, M does not determine b, and the intercept is
    found as the SVM's is.
    """
    X, y = as_data(X, y)
    n, m = X.shape
    lifted = np.column_stack([X, np.ones(n)])
    M = np.diag(np.append(np.ones(m), 0.0)) + (lifted * lam[:, None]).T @ lifted
    q = lifted.T @ (alpha * y)
    w = np.linalg.lstsq(M, q, rcond=1e-10)[0][:m]
    b = best_intercept(X @ w, y, C, B)
    return {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y)}
