"""PLUME's M-step with small whole numbers for coefficients.

Problem
-------
As in :mod:`formulations.plume`, for fixed responsibilities. A face reads best as `2 age + 3 bmi − chol >
41.5`: whole numbers P_kj from −M to M, a scale δ_k > 0 that all of a face share, and a threshold. Its weights
are W_k = δ_k P_k; its bias b_k is a real number, and −b_k/δ_k the threshold. For fixed scales that is a
mixed-integer convex program of all faces together, as the gate makes them depend on each other.

Variables and shapes
--------------------
P (K, m), b (K,), S (n, K), the scores; in the dual p and u (n, K), mu and nu (K, m). X is (n, m), y is (n,)
of -1 and +1, +1 inside, R (n, K) the responsibilities, C a scalar or (n,), γ ≥ 0, ρ > 0; δ (K,) positive
numbers, M a whole one.

Primal
------
With  F = Σ_i C_i [ ln Σ_k exp(−γ S_ik) + Σ_k R_ik (γ S_ik + ln(1 + exp(−y_i S_ik))) ]
     min  F + ρ/2 (Σ_kj (δ_k P_kj)² + Σ_k b_k²)
     score:   S_ik = δ_k P_k·x_i + b_k             [alpha]
     most:    P_kj ≤ M                             [mu]
     least:   −M ≤ P_kj                            [nu]

exactly with P whole, and relaxed with P real.

Dual
----
of the relaxation, with α_ik = C_i [ γ (p_ik − R_ik) + R_ik u_ik y_i ]
     max  Σ_i C_i [ Ent(p_i) + Σ_k R_ik ent(u_ik) ] − 1/(2ρ) Σ_k (Σ_i α_ik)² − M Σ_kj (μ_kj + ν_kj)
          − 1/(2ρ) Σ_kj ((δ_k Σ_i α_ik x_ij − μ_kj + ν_kj)/δ_k)²
     gate:      Σ_k p_ik = 1                       [C_i (ln Σ_j exp(−γ S_ij) − 1)]
     share:     p_ik ≥ 0                           [0]
     mistake:   u_ik ≥ 0                           [0]
     certainty: u_ik ≤ 1                           [0]
     most:      μ_kj ≥ 0                           [M − P_kj]
     least:     ν_kj ≥ 0                           [M + P_kj]

Without the limits M, for whatever scales, it is the dual of the M-step itself: what faces of whole numbers
cost beyond the value of that at some p and u is at least what whole numbers can have lost.

Recovery
--------
P_kj = (δ_k V_kj − μ_kj + ν_kj)/(ρ δ_k²) with the pulls V_kj = Σ_i α_ik x_ij, b_k = Σ_i α_ik/ρ.

Multipliers
-----------
alpha_ik is what sample i pulls at face k; mu_kj and nu_kj are what a larger M would save at feature j.

Infeasible when
---------------
Never: P = 0, b = 0 is feasible.

Reference
---------
Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts (2019), eq. (7), for the machine;
Ustun & Rudin, Supersparse linear integer models for optimized medical scoring systems (2016), for whole
coefficients. The programs are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import plume_integer
>>> X = np.array([[-2.0, 0.1], [0.0, -0.1], [2.0, 0.0]])
>>> y = np.array([-1, 1, -1])  # inside is the middle; the second feature is noise
>>> R = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
>>> found = plume_integer.relaxation(X, y, R, 1.0, [0.2, 0.2], 2, ridge=0.1).solve()
>>> found["P"][:, 0].round(3)  # at the limit
array([ 2., -2.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations import plume
from formulations.arguments import whole
from formulations.mixture import responsibilities
from formulations.plume_faces import LETTERS, model, places
from formulations.program import Duality, Program, Row
from formulations.recovery import as_data
from formulations.samples import two_blobs
from formulations.whole_rows import whole_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["mixed_integer", "pairs", "recover", "relaxation", "relaxation_dual", "singles"]

_LETTERS = {
    **LETTERS,
    "δₖ": "> 0: the scale of the whole numbers of face $k$",
    "M": "the largest of the whole numbers",
    "P": "the numbers of the primal",
}
_SOURCE = "Shah, Sastry & Manwani (2019), eq. (7), with whole coefficients"


def mixed_integer(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, scales: ArrayLike, M: int, C: ArrayLike = 1.0,
    ridge: float = 1e-3,
) -> Program:  # fmt: skip
    """The M-step with whole coefficients at fixed scales.

    Parameters
    ----------
    X, y, R, gamma, C, ridge
        As in :func:`formulations.plume.m_step`.
    scales : array_like of shape (K,)
        δ, positive.
    M : int
        The largest coefficient, at least 1.
    """
    return _primal(X, y, R, gamma, scales, M, C, ridge, exact=True)


def relaxation(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, scales: ArrayLike, M: int, C: ArrayLike = 1.0,
    ridge: float = 1e-3,
) -> Program:  # fmt: skip
    """The same with real coefficients from −M to M; arguments as in :func:`mixed_integer`."""
    return _primal(X, y, R, gamma, scales, M, C, ridge, exact=False)


def _primal(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, scales: ArrayLike, M: int, C: ArrayLike,
    ridge: float, exact: bool,
) -> Program:  # fmt: skip
    X, y = as_data(X, y)
    delta, M = _scales(scales), whole("M", M)
    P = cp.Variable((len(delta), X.shape[1]), name="P", integer=exact)
    W = cp.multiply(delta[:, None] * np.ones(P.shape), P)
    fit, variables, parameters, score = model(X, y, R, gamma, C, ridge, W, "δₖ Pₖ·xᵢ")
    at, larger = places(P.shape), "what a larger M would save at feature j of face k"
    rows = (
        score,
        Row("most", float(M) >= P, "Pₖⱼ ≤ M", "mu", larger, at),
        Row("least", -float(M) <= P, "−M ≤ Pₖⱼ", "nu", larger, at),
    )
    squares = cp.sum_squares(W) + cp.sum_squares(variables["b"])
    return whole_program(
        "plume_integer", "PLUME, M-step, faces of whole coefficients", _SOURCE, rows, exact,
        objective=cp.Minimize(fit + 0.5 * ridge * squares),
        objective_text=f"{plume.EXPECTED_LOSS} + ρ/2 (Σₖⱼ (δₖ Pₖⱼ)² + Σₖ bₖ²)",
        variables={"P": P, **variables},
        parameters=parameters,
        letters=_LETTERS,
        data={"x": X, "y": y, "δ": delta, "M": float(M), "γ": gamma, "ρ": ridge},
    )  # fmt: skip


def relaxation_dual(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, scales: ArrayLike, M: int, C: ArrayLike = 1.0,
    ridge: float = 1e-3,
) -> Program:  # fmt: skip
    """Dual of :func:`relaxation`; arguments as in the primal."""
    plain = plume.m_step_dual(X, y, R, gamma, C, ridge)
    X, y = as_data(X, y)
    delta, M = _scales(scales), whole("M", M)
    p, u = plain.variables["p"], plain.variables["u"]
    shape = (p.shape[1], X.shape[1])
    mu, nu = cp.Variable(shape, name="mu"), cp.Variable(shape, name="nu")
    entropy, alpha = plume.entropies_and_pulls(p, u, plain.parameters, y, gamma)
    left = alpha.T @ X + cp.multiply(1.0 / delta[:, None] * np.ones(shape), nu - mu)
    squares = cp.sum_squares(cp.sum(alpha, axis=0)) + cp.sum_squares(left)
    return Program(
        name="plume_integer.relaxation_dual",
        title="PLUME, M-step, faces of whole coefficients, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(entropy - squares / (2.0 * ridge) - float(M) * cp.sum(mu + nu)),
        objective_text="Σᵢ Cᵢ [Ent(pᵢ) + Σₖ Rᵢₖ ent(uᵢₖ)] − 1/(2ρ) Σₖ (Σᵢ αᵢₖ)² − M Σₖⱼ (μₖⱼ + νₖⱼ) "
        "− 1/(2ρ) Σₖⱼ ((δₖ Σᵢ αᵢₖ xᵢⱼ − μₖⱼ + νₖⱼ)/δₖ)²",
        variables={"p": p, "u": u, "mu": mu, "nu": nu},
        rows=(
            *plain.rows,
            Row("most", mu >= 0, "μₖⱼ ≥ 0", "above", "$M − Pₖⱼ$", places(shape)),
            Row("least", nu >= 0, "νₖⱼ ≥ 0", "below", "$M + Pₖⱼ$", places(shape)),
        ),
        parameters=plain.parameters,
        letters=_LETTERS,
        data={"x": X, "y": y, "δ": delta, "M": float(M), "γ": gamma, "ρ": ridge},
    )


def _scales(scales: ArrayLike) -> NDArray[np.float64]:
    delta = np.asarray(scales, dtype=float)
    if delta.ndim != 1 or not np.isfinite(delta).all() or not (delta > 0).all():
        raise ValueError(f"scales must be positive numbers, one for each face, not {scales!r}")
    return delta


def recover(
    X: MatrixLike, alpha: NDArray[Any], scales: ArrayLike, mu: NDArray[Any], nu: NDArray[Any], ridge: float
) -> dict[str, NDArray[Any]]:
    """Primal variables of the relaxation from what samples pull, and the multipliers of the limits.

    Parameters
    ----------
    X, ridge
        As in :func:`relaxation`.
    alpha : ndarray of shape (n, K)
        The pulls.
    scales : array_like of shape (K,)
        δ.
    mu, nu : ndarray of shape (K, m)
        The dual's variables.
    """
    X, delta = np.asarray(X, dtype=float), np.asarray(scales, dtype=float)[:, None]
    P, b = (delta * (alpha.T @ X) - mu + nu) / (ridge * delta**2), alpha.sum(axis=0) / ridge
    return {"P": P, "b": b, "S": X @ (delta * P).T + b}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with its dual."""
    X, y = two_blobs(n=24, m=3, seed=seed)
    # Small scores: near 0 and 1 the slope of an entropy is steep, and solvers of cones lose digits there.
    X, C, gamma, ridge, M = 0.7 * X, np.where(y > 0, 1.0, 0.7), 0.8, 1.2, 2
    R = responsibilities(X, y, 0.3 * np.random.default_rng(seed).normal(size=(2, 4)), gamma)
    given = (X, y, R, gamma, np.array([0.1, 0.2]), M, C, ridge)

    def recovered(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        alpha = C[:, None] * (gamma * (found["p"] - R) + R * found["u"] * y[:, None])
        return recover(X, alpha, given[4], found["mu"], found["nu"], ridge)

    return [Duality(relaxation(*given), relaxation_dual(*given), recovered)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=3, seed=seed)
    R = responsibilities(X, y, 0.3 * np.random.default_rng(seed).normal(size=(2, 4)), 0.8)
    return [mixed_integer(X, y, R, 0.8, [0.1, 0.2], 2, np.where(y > 0, 1.0, 0.7), 1.2)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
