"""The Relative Margin Machine: a large margin measured against the spread of the outputs.

Problem
-------
A support vector machine whose outputs on the training samples must stay within ±B: the margin is
then large relative to how far the data spread along w, and not merely large. For B above the SVM's
largest output it is the SVM.

Variables and shapes
--------------------
w (m,), b scalar, xi (n,); alpha, lam, lam_star (n,) in the dual. X is (n, m), y is (n,) of -1 and
+1, C is a scalar or (n,), B >= 0 a scalar. Throughout, f_i = w·x_i + b.

Primal
------
(5)  min  ½‖w‖² + Σ C_i ξ_i                         the QCQP
     margin:       y_i f_i ≥ 1 − ξ_i                [alpha]
     slack:        ξ_i ≥ 0                          [beta]
     spread:       ½ f_i² ≤ ½ B²                    [lam]

(7)  min  ½‖w‖² + Σ C_i ξ_i                         the QP, same optimum
     margin:       y_i f_i ≥ 1 − ξ_i                [alpha]
     slack:        ξ_i ≥ 0                          [beta]
     bound_above:   f_i ≤ B                         [lam]
     bound_below:  −f_i ≤ B                         [lam_star]

Dual
----
(6)  max  Σ α_i − ½ c'(I + Σ_λ)^{-1} c − (Σ α_i y_i)² / (2 Σ λ_i) − ½ B² Σ λ_i,   0 ≤ α ≤ C, λ ≥ 0
     with μ_λ = Σ λ_i x_i / Σ λ_i, Σ_λ = Σ λ_i x_i x_i' − (Σ λ_i) μ_λ μ_λ', c = Σ α_i y_i (x_i − μ_λ).
     The paper's (6) lacks the third term, without which it is no bound at all. Solved as
     max Σ α_i − ½ t − ½ B² Σ λ_i  subject to
     w_b:          [M(λ) q; q' t] ⪰ 0               [½vv', v = (w, b, −1)]
     margin:       α_i ≥ 0                          [surplus of the row margin]
     xi:           α_i ≤ C_i                        [xi]
     spread:       λ_i ≥ 0                          [½(B² − f_i²)]
     where M(λ) = [I + X'ΛX, X'λ; λ'X, 1'λ] and q = (X'(α∘y), y'α).

(8)  max  −½ δ'Kδ + Σ α_i − B Σ λ_i − B Σ λ*_i,    δ = α∘y − λ + λ*
     b:            Σ δ_i = 0                        [b]
     margin:       α_i ≥ 0                          [surplus of the row margin]
     xi:           α_i ≤ C_i                        [xi]
     bound_above:  λ_i ≥ 0                          [B − f_i]
     bound_below:  λ*_i ≥ 0                         [B + f_i]

(9)  (8) over a working set of α, λ, λ*, the others held; its cross term has the coefficient 1, not
     the printed ½.

Recovery
--------
From (8): w = Σ δ_i x_i; f(t) = Σ δ_i k(x_i, t) + b; b minimises the cost within the bounds.
From (6): (w, b) solves M(λ) (w, b) = q; where λ = 0 it is the SVM's.

Multipliers
-----------
alpha_i prices sample i's margin. lam_i (lam_star_i) is what the optimal cost falls by per unit by
which the upper (lower) bound is relaxed at sample i; Σ(λ + λ*) = −dp*/dB. The QCQP's λ_i is
(λ_i + λ*_i)/B. For B > 1 a sample with α_i > 0 can only meet the bound on its wrong side.

Infeasible when
---------------
B < 0 only: w = 0, b = 0, ξ = 1 is feasible for every B >= 0. For B < 1 no sample can reach its
margin, every α_i is C_i, and the program has lost its purpose: the estimator asks for B >= 1.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), eq. (5)-(9), with three misprints mended: the
sign of b in the stationarity of (5), the missing term of (6), the factor of the cross term of (9).

Example
-------
>>> from formulations import rmm
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> qp, qcqp = rmm.qp(X, y, C=1.0, B=1.5).solve(), rmm.qcqp(X, y, C=1.0, B=1.5).solve()
>>> abs(qp.objective - qcqp.objective) < 1e-7
True
>>> lam = (qp.duals["bound_above"] + qp.duals["bound_below"]) / 1.5
>>> bool(abs(lam - qcqp.duals["spread"]).max() < 1e-5)
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.families import best_intercept
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data, gram_factor, slacks
from formulations.language.toy_data import two_blobs
from formulations.rmm_qcqp import BOUND_LETTERS, PAPER, bound_parameter, qcqp, qcqp_dual, recover_qcqp
from formulations.svm import KERNEL_LETTERS, alpha_rows, cost_parameter, in_features, soft_margin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Matrix, MatrixLike

__all__ = [
    "kernel_dual",
    "pairs",
    "qcqp",
    "qcqp_dual",
    "qp",
    "qp_dual",
    "recover",
    "recover_qcqp",
    "singles",
    "subproblem",
]

LETTERS = {"δ": "= α∘y − λ + λ*", **BOUND_LETTERS}
_KERNEL_LETTERS = {**LETTERS, **KERNEL_LETTERS}
_SUBPROBLEM_LETTERS = {
    "δ_f": "= α∘y − λ + λ*: of the samples that are free in this step, as are all letters without a mark",
    "δ_h": "the same of the samples that are held",
    "K_ff, K_fh": "the kernel matrix between the free samples, and between the free and the held",
    **{letter: LETTERS[letter] for letter in ("B", "fᵢ", "yᵢ", "Cᵢ")},
}


def qp(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """RMM as a quadratic program with bounding constraints, eq. (7).

    Arguments as in :func:`formulations.rmm_qcqp.qcqp`.
    """
    bound = bound_parameter(B)

    def bounds(f: cp.Expression) -> tuple[Row, Row]:
        above = Row(
            "bound_above",
            f <= bound,
            "w·xᵢ + b ≤ B",
            "lam",
            "saving per unit by which the upper bound is relaxed at sample i",
        )
        below = Row(
            "bound_below",
            -f <= bound,
            "−(w·xᵢ + b) ≤ B",
            "lam_star",
            "saving per unit by which the lower bound is relaxed at sample i",
        )
        return above, below

    title = "Relative Margin Machine, QP with bounding constraints"
    return soft_margin(
        X, y, C, bounds, {"B": bound}, name="rmm.qp", title=title, source=f"{PAPER}, eq. (7)", letters=LETTERS
    )


def _bound_sign_rows(lam: cp.Variable, lam_star: cp.Variable) -> tuple[Row, Row]:
    above = Row("bound_above", lam >= 0, "λᵢ ≥ 0", "room", "room under the bound: $B − fᵢ$")
    below = Row("bound_below", lam_star >= 0, "λ*ᵢ ≥ 0", "room_star", "room above it: $B + fᵢ$")
    return above, below


def _dual_from_factor(
    F: Matrix,
    y: NDArray[Any],
    C: ArrayLike,
    B: float,
    name: str,
    title: str,
    letters: Mapping[str, str],
    data: dict[str, Any],
) -> Program:
    n = F.shape[0]
    alpha, lam, lam_star = (cp.Variable(n, name=name) for name in ("alpha", "lam", "lam_star"))
    costs, bound = cost_parameter(C, n), bound_parameter(B)
    delta = cp.multiply(y, alpha) - lam + lam_star
    balance = Row("b", cp.sum(delta) == 0, "Σᵢ δᵢ = 0", "b", "the intercept $b$, sign included")
    return Program(
        name=name,
        title=title,
        source=f"{PAPER}, eq. (8)",
        objective=cp.Maximize(
            -0.5 * cp.sum_squares(F.T @ delta)
            + cp.sum(alpha)
            - bound * cp.sum(lam)
            - bound * cp.sum(lam_star)
        ),
        objective_text="−½ δ'Kδ + Σᵢ αᵢ − B Σᵢ λᵢ − B Σᵢ λ*ᵢ",
        variables={"alpha": alpha, "lam": lam, "lam_star": lam_star},
        rows=(balance, *alpha_rows(alpha, costs), *_bound_sign_rows(lam, lam_star)),
        parameters={"C": costs, "B": bound},
        letters=letters,
        data={**data, "y": y},
    )


def qp_dual(X: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """Dual of the QP, eq. (8), with the linear kernel K = XX'; arguments as in :func:`qp`."""
    X, y = as_data(X, y)
    title = "Relative Margin Machine, dual of the QP"
    return _dual_from_factor(X, y, C, B, "rmm.qp_dual", title, LETTERS, {"x": X})


def kernel_dual(K: MatrixLike, y: ArrayLike, C: ArrayLike = 1.0, B: float = 2.0) -> Program:
    """Dual of the QP, eq. (8), for a Gram matrix.

    Parameters
    ----------
    K : array_like of shape (n, n)
        Symmetric positive semidefinite Gram matrix.
    y, C, B
        As in :func:`qp`.
    """
    K, y = as_data(K, y)
    title = "Relative Margin Machine, kernel dual"
    return _dual_from_factor(gram_factor(K), y, C, B, "rmm.kernel_dual", title, _KERNEL_LETTERS, {"K": K})


def subproblem(
    K: MatrixLike,
    y: ArrayLike,
    C: ArrayLike,
    B: float,
    alpha: NDArray[Any],
    lam: NDArray[Any],
    lam_star: NDArray[Any],
    free: ArrayLike,
) -> Program:
    """Subproblem (9) of the decomposition: dual (8) over the samples in `free`, the others held.

    Parameters
    ----------
    K, y, C, B
        As in :func:`kernel_dual`.
    alpha, lam, lam_star : ndarray of shape (n,)
        A feasible point of (8).
    free : array_like of int, shape (q,)
        Samples whose alpha, lam and lam_star are free; at least one.

    Returns
    -------
    Program
        Its value is the value of (8) less what the held variables contribute by themselves, so a
        solution raises (8) by as much as it raises this.
    """
    K, y = as_data(K, y)
    free = np.unique(np.asarray(free, dtype=int))
    if len(free) == 0 or free[0] < 0 or free[-1] >= len(y):
        raise ValueError(f"free must hold sample numbers from 0 to {len(y) - 1}, at least one; not {free}")
    held = np.setdiff1d(np.arange(len(y)), free)
    delta_held = (alpha * y - lam + lam_star)[held]
    a, above, below = (cp.Variable(len(free), name=name) for name in ("alpha", "lam", "lam_star"))
    delta = cp.multiply(y[free], a) - above + below
    costs, bound = cost_parameter(_costs_of(C, free, len(y)), len(free)), bound_parameter(B)
    balance = Row(
        "b",
        cp.sum(delta) == -delta_held.sum(),
        "Σᵢ δ_{f,i} = −Σⱼ δ_{h,j}",
        "b",
        "the intercept $b$ as these samples see it",
    )
    K_ff, K_fh = K[np.ix_(free, free)], K[np.ix_(free, held)]
    F = gram_factor(K_ff)
    return Program(
        name="rmm.subproblem",
        title="Relative Margin Machine, subproblem of the decomposition",
        source=f"{PAPER}, eq. (9), corrected",
        objective=cp.Maximize(
            -0.5 * cp.sum_squares(F.T @ delta)
            - (K_fh @ delta_held) @ delta
            + cp.sum(a)
            - bound * cp.sum(above)
            - bound * cp.sum(below)
        ),
        objective_text="−½ δ_f'K_ff δ_f − δ_f'K_fh δ_h + Σᵢ αᵢ − B Σᵢ λᵢ − B Σᵢ λ*ᵢ",
        variables={"alpha": a, "lam": above, "lam_star": below},
        rows=(balance, *alpha_rows(a, costs), *_bound_sign_rows(above, below)),
        parameters={"C": costs, "B": bound},
        letters=_SUBPROBLEM_LETTERS,
        data={"y": y[free], "K_ff": K_ff, "K_fh": K_fh, "δ_h": delta_held},
    )


def _costs_of(C: ArrayLike, free: NDArray[Any], n: int) -> NDArray[Any]:
    """The costs of the samples in `free`, from a scalar or from a vector over all n samples."""
    return np.asarray(np.broadcast_to(np.asarray(C, dtype=float), (n,))[free])


def recover(
    X: MatrixLike, y: ArrayLike, C: ArrayLike, B: float, alpha: NDArray[Any], lam: NDArray[Any],
    lam_star: NDArray[Any],
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Primal variables w, b, xi of (7) from the multipliers of (8)."""
    X, y = as_data(X, y)
    w = X.T @ (alpha * y - lam + lam_star)
    b = best_intercept(X @ w, y, C, B)
    return {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y)}


def pairs(seed: int = 0) -> list[Duality]:
    """Every primal of this module with its dual, on random data."""
    X, y = two_blobs(seed=seed)
    C, B = 1.0, 1.5
    K = (X @ X.T + 1.0) ** 2
    F = gram_factor(K)

    def from_qp_dual(Z: Any) -> Any:
        return lambda v: recover(Z, y, C, B, v["alpha"], v["lam"], v["lam_star"])

    return [
        Duality(
            qcqp(X, y, C, B), qcqp_dual(X, y, C, B), lambda v: recover_qcqp(X, y, C, B, v["alpha"], v["lam"])
        ),
        Duality(qp(X, y, C, B), qp_dual(X, y, C, B), from_qp_dual(X)),
        Duality(in_features(qp(F, y, C, B)), kernel_dual(K, y, C, B), from_qp_dual(F)),
    ]


def singles(seed: int = 0) -> list[Program]:
    """The programs of this module that stand without a partner, on random data."""
    X, y = two_blobs(seed=seed)
    K = (X @ X.T + 1.0) ** 2
    # A feasible point of (8) that is far from optimal: equal multipliers for both classes.
    alpha, zeros = np.full(len(y), 0.03), np.zeros(len(y))
    return [subproblem(K, y, 1.0, 1.5, alpha, zeros, zeros, np.arange(0, len(y) - 1, 3))]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
