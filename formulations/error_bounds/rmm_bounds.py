"""Complexities behind the Relative Margin Machine's bound on its error: in closed form, and as a program.

Problem
-------
How much can the outputs w·x_i of a class of functions follow random signs? The more constrained the class,
the less they can, and the closer the training error is to the true error. There are three classes, each
within the one before, for n samples x_i, n_u further samples u_i (the rows of U) without labels, a budget
E > 0, which the paper calls energy, and a weight D ≥ 0 of the outputs:
(1)  F:  ½‖w‖² ≤ E                                     the SVM's
(2)  G:  ½‖w‖² + D/(2 n_u) Σ_i (w·u_i)² ≤ E            the Sigma-SVM's: outputs small on the average
(3)  H:  ½‖w‖² + D/2 (w·u_i)² ≤ E for every i          the RMM's: every output small

The empirical Rademacher complexity 𝔼_σ sup_w |(2/n) Σ_i σ_i w·x_i|, for random signs σ_i, is at most
     U_F = (2√(2E)/n) √(Σ x_i·x_i)                                          for F
     U_G = (2√(2E)/n) √(Σ x_i'Σ_D^{-1} x_i),   Σ_D = I + (D/n_u) U'U         for G
     U_H = the optimal value of h_complexity, under Programs                for H
with U_H ≤ U_G ≤ U_F. All are proportional to √E. They are equal if D = 0; U_H = U_G if n_u = 1.

With X'X = LL', U_H = (2√(2E)/n) √τ with τ = min tr(L'(I + D Σ p_i u_i u_i')⁻¹L) over p ≥ 0, Σ p_i = 1; the
optimal λ of h_complexity is √(τ/2E) p. :mod:`formulations.error_bounds.margin_bounds` proves this and
computes p, for kernels and thousands of samples too.

Variables and shapes
--------------------
lam (n_u,), Z (r, r) symmetric; V (m, r), A (m, m) symmetric in the dual. X is (n, m), U is (n_u, m), L is
(m, r) with the rank r of X. Multipliers are in brackets below.

Programs
--------
h_complexity        min  (1/n) tr Z + (2E/n) Σ λ_i   s.t.  [Σ_λ L; L' Z] ⪰ 0 [P],  λ ≥ 0,
                    with Σ_λ = (Σ λ_i) I + D Σ λ_i u_i u_i'
h_complexity_dual   max  (2/n) tr(L'V)               s.t.  [A V; V' I] ⪰ 0 [Q],
                    (1/n) (tr A + D u_i'A u_i) ≤ 2E/n [λ_i] for every i

The optimal Z is L'Σ_λ^{-1}L, so that U_H = min (1/n) Σ x_i'Σ_λ^{-1} x_i + (2E/n) Σ λ_i over λ ≥ 0. The
optimal A is VV', and then the row lam is ½‖V‖² + D/2 ‖V'u_i‖² ≤ E: the constraint of H, for a matrix V with a
column of weights for each column of L.

Recovery
--------
From the dual: λ are the multipliers of its row lam, and Z = L'Σ_λ^{-1}L. From the primal: V = Σ_λ^{-1}L.

Multipliers
-----------
If λ_i > 0, the constraint of H at u_i is active. The derivative by E is dU_H/dE = (2/n) Σ λ_i. The
off-diagonal part of P is −V/n. Q is [Σ_λ −L; −L' Z]/n.

Infeasible when
---------------
Never: λ = 1 and a large Z are feasible. λ = 0 is feasible only if X = 0.

Reference
---------
Shivaswamy & Jebara, Relative Margin Machines (2008), appendix; eq. (1) to (3), numbered as here. The
complexity has the factor 2/n, as in the paper. The classes have no intercept.

Example
-------
>>> import numpy as np
>>> from formulations.error_bounds import rmm_bounds
>>> from formulations.language.toy_data import two_blobs
>>> (X, _), (U, _) = two_blobs(seed=0), two_blobs(n=10, seed=1)
>>> h = rmm_bounds.h_complexity(X, U, E=1.0, D=2.0).solve().objective
>>> h < rmm_bounds.g_complexity(X, U, E=1.0, D=2.0) < rmm_bounds.f_complexity(X, E=1.0)
True
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import at_least, positive
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import gram_factor
from formulations.language.toy_data import two_blobs
from formulations.language.types import Array, MatrixLike, dense

_PAPER = "Shivaswamy & Jebara (2008), appendix"

LETTERS = {  # meaning of the letters in printed formulas
    "Σ_λ": "= (Σᵢ λᵢ) I + D Σᵢ λᵢ uᵢuᵢ'",
    "L": "any matrix with $LL' = Σⱼ xⱼxⱼ'$",
    "xⱼ": "the samples",
    "n": "their number",
    "V": "the variable of the dual",
    "Z": "the variable of the primal",
    "uᵢ": "the samples, labelled or not, at which the class is constrained",
    "E, D, w": "the class is all $w$ with $½‖w‖² + ½D (w·uᵢ)² ≤ E$ for every $i$",
}


def f_complexity(X: MatrixLike, E: float = 1.0) -> float:
    """Return U_F, the bound for the class (1)."""
    X = _dense("X", X)
    return float(2.0 * np.sqrt(2.0 * positive("E", E)) / len(X) * np.linalg.norm(X))


def g_complexity(X: MatrixLike, U: MatrixLike, E: float = 1.0, D: float = 1.0) -> float:
    """Return U_G, the bound for the class (2)."""
    X, U = _checked_samples(X, U)
    sigma_D = np.eye(X.shape[1]) + at_least("D", D, 0.0) / len(U) * U.T @ U
    trace = float(np.sum(X * np.linalg.solve(sigma_D, X.T).T))
    return float(2.0 * np.sqrt(2.0 * positive("E", E) * trace) / len(X))


def h_complexity_at(X: MatrixLike, U: MatrixLike, lam: ArrayLike, E: float = 1.0, D: float = 1.0) -> float:
    """Return the objective of :func:`h_complexity` at λ and its optimal Z: an upper bound on U_H."""
    X, U = _checked_samples(X, U)
    lam = np.asarray(lam, dtype=float)
    if lam.shape != (len(U),) or not (lam >= 0).all() or not 0.0 < lam.sum() < np.inf:
        raise ValueError(
            f"lam must be of shape ({len(U)},), finite, not negative and not all zero, not {lam}"
        )
    trace = float(np.sum(X * np.linalg.solve(_sigma(U, lam, at_least("D", D, 0.0)), X.T).T))
    return trace / len(X) + 2.0 * positive("E", E) / len(X) * float(lam.sum())


def h_complexity(X: MatrixLike, U: MatrixLike, E: float = 1.0, D: float = 1.0) -> Program:
    """Build the semidefinite program with the optimal value U_H and the parameters E and D.

    Arguments as in :func:`g_complexity`.
    """
    X, U = _checked_samples(X, U)
    _require_scale(X, U, D)
    values, n, L = {"E": positive("E", E), "D": at_least("D", D, 0.0)}, len(X), _factor(X)
    parameters = {name: cp.Parameter(nonneg=True, name=name, value=value) for name, value in values.items()}
    lam, Z = cp.Variable(len(U), name="lam"), cp.Variable((L.shape[1], L.shape[1]), name="Z", symmetric=True)
    sigma_lam = cp.sum(lam) * np.eye(X.shape[1]) + parameters["D"] * (U.T @ cp.diag(lam) @ U)
    meaning = "its off-diagonal part is $−V/n$, where $V$ is the variable of the dual"
    block = Row("block", cp.bmat([[sigma_lam, L], [L.T, Z]]) >> 0, "[Σ_λ, L; L', Z] ⪰ 0", "P", meaning)
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    sign = Row("sign", lam >= 0, "λᵢ ≥ 0", "room", "slack of the constraint at $uᵢ$")
    return Program(
        name="rmm_bounds.h_complexity",
        title="Complexity of the Relative Margin Machine's class",
        source=f"{_PAPER}, eq. (3)",
        objective=cp.Minimize(cp.trace(Z) / n + 2.0 / n * parameters["E"] * cp.sum(lam)),
        objective_text="(1/n) tr Z + (2E/n) Σᵢ λᵢ",
        variables={"lam": lam, "Z": Z},
        rows=(block, sign),
        parameters=parameters,
        letters=LETTERS,
        data={"L": L, "u": U, "n": n},
    )


def h_complexity_dual(X: MatrixLike, U: MatrixLike, E: float = 1.0, D: float = 1.0) -> Program:
    """Build the dual of :func:`h_complexity`, with the same parameters; arguments as in the primal."""
    primal, (X, U) = h_complexity(X, U, E, D), _checked_samples(X, U)
    n, L, parameters = len(X), _factor(X), primal.parameters
    V = cp.Variable(L.shape, name="V")
    A = cp.Variable((len(L), len(L)), name="A", symmetric=True)
    meaning = "its blocks are $Σ_λ/n$, $−L/n$ and $Z/n$"
    block = Row("block", cp.bmat([[A, V], [V.T, np.eye(L.shape[1])]]) >> 0, "[A, V; V', I] ⪰ 0", "Q", meaning)
    outputs = cp.sum(cp.multiply(U @ A, U), axis=1)
    energy = Row(
        "lam",
        (cp.trace(A) + parameters["D"] * outputs) / n <= 2.0 / n * parameters["E"],
        "(1/n) (tr A + D uᵢ'A uᵢ) ≤ 2E/n",
        "lam",
        "multiplier of the constraint at $uᵢ$; 0 if that constraint is inactive",
    )
    return primal.dual(2.0 / n * cp.sum(cp.multiply(L, V)), "(2/n) tr(L'V)", (V, A), (block, energy))


def recover(X: MatrixLike, U: MatrixLike, D: float, lam: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return λ and Z of :func:`h_complexity` from the multipliers of the dual's row lam."""
    X, U = _checked_samples(X, U)
    L, lam = _factor(X), np.maximum(lam, 0.0)
    Z = L.T @ np.linalg.solve(_sigma(U, lam, D), L)
    return {"lam": lam, "Z": (Z + Z.T) / 2.0}


def _sigma(U: Array, lam: Array, D: float) -> Array:
    """Return Σ_λ = (Σ λ_i) I + D Σ λ_i u_i u_i'."""
    return np.asarray(lam.sum() * np.eye(U.shape[1]) + D * (U * lam[:, None]).T @ U)


def _factor(X: Array) -> Array:
    """Return L (m, r) with X'X = LL'."""
    if not X.any():
        raise ValueError("X must not be zero throughout: the complexity is then 0, and no lam attains it")
    return gram_factor(X.T @ X)


def _require_scale(X: Array, U: Array, D: float) -> None:
    """Raise ValueError if X or D‖u‖² is outside the range in which conic solvers are reliable.

    The solvers' tolerances are absolute: outside this range wrong solutions are reported as optimal.
    """
    largest = float(np.abs(X).max())
    weight = at_least("D", D, 0.0) * float((U * U).sum(axis=1).max())
    if X.any() and not 1e-6 <= largest <= 1e6:
        raise ValueError(
            f"X must be scaled so that its largest value lies between 1e-6 and 1e6, not {largest:.3g}; "
            "U_H scales linearly with X. formulations.error_bounds.margin_bounds takes any scale"
        )
    if weight > 1e8:
        raise ValueError(
            f"D max ‖uᵢ‖² must be at most 1e8 for the solvers of this program, not {weight:.3g}; "
            "formulations.error_bounds.margin_bounds takes any scale"
        )


def _checked_samples(X: MatrixLike, U: MatrixLike) -> tuple[Array, Array]:
    """Return X and U as arrays; raise ValueError if their numbers of features differ."""
    X, U = _dense("X", X), _dense("U", U)
    if X.shape[1] != U.shape[1]:
        raise ValueError(f"U must have the {X.shape[1]} features of X, not {U.shape[1]}")
    return X, U


def _dense(name: str, X: MatrixLike) -> Array:
    """Return a matrix as a finite, nonempty array."""
    array = np.asarray(dense(X), dtype=float)
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must have two dimensions, not be empty, and be finite; its shape is {array.shape}"
        )
    return array


def pairs(seed: int = 0) -> list[Duality]:
    """Return the program of this module on random data, with its dual."""
    (X, _), (U, _) = two_blobs(seed=seed), two_blobs(n=20, seed=seed + 1)
    E, D = 0.5, 3.0
    dual = h_complexity_dual(X, U, E, D)

    def from_multipliers(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        energy = dual.rows[1]  # the row lam
        return recover(X, U, D, np.asarray(energy.constraint.dual_value))

    return [Duality(h_complexity(X, U, E, D), dual, from_multipliers)]
