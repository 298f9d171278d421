"""PLUME's M-step with at most s features a face: exact, relaxed, and the relaxation's dual.

Problem
-------
As in :mod:`formulations.plume`, for fixed responsibilities. Each face may use s of the m features, whichever
are best; biases are free for all, and pay their ridge as ever. The gate makes the faces depend on each other,
so that the features of all faces are chosen together.

Variables and shapes
--------------------
W (K, m), b (K,), S (n, K), the scores; D (K, m) says which features a face uses, and T_kj pays for W_kj²
where it does. In the dual p and u (n, K), lam (K,), mu and nu (K, m). X is (n, m), y is (n,) of -1 and +1, +1
inside, R (n, K) the responsibilities, C a scalar or (n,), γ ≥ 0, ρ > 0, s a whole number. g (K, m) of 0 and 1
says which features are in for certain, as at a node of a search.

Primal
------
With  F = Σ_i C_i [ ln Σ_k exp(−γ S_ik) + Σ_k R_ik (γ S_ik + ln(1 + exp(−y_i S_ik))) ],  exactly, with D of 0
and 1; F is at least F₀ = Σ_i C_i Ent(R_i), and W = 0, b = 0 cost Σ_i C_i (ln K + ln 2), so that no weight is
larger than L, L² = 2 (Σ_i C_i (ln K + ln 2) − F₀)/ρ:
     min  F + ρ/2 (Σ_kj W_kj² + Σ_k b_k²)
     score:    S_ik = W_k·x_i + b_k
     count:    Σ_j D_kj ≤ s
     upper:    W_kj ≤ L D_kj
     lower:    −L D_kj ≤ W_kj

relaxed, with D in [0, 1] and without L: T_kj ≥ W_kj²/D_kj is the perspective of a weight's square
     min  F + ρ/2 (Σ_kj T_kj + Σ_k b_k²)
     score:    S_ik = W_k·x_i + b_k                    [alpha]
     feature:  ‖(2 W_kj, T_kj − D_kj)‖ ≤ T_kj + D_kj   [cone]   that is, W_kj² ≤ T_kj D_kj with T, D ≥ 0
     count:    Σ_j D_kj ≤ s                            [lam]
     most:     D_kj ≤ 1                                [mu]
     least:    D_kj ≥ g_kj                             [nu]

Dual
----
of the relaxation, with α_ik = C_i [ γ (p_ik − R_ik) + R_ik u_ik y_i ]
     max  Σ_i C_i [ Ent(p_i) + Σ_k R_ik ent(u_ik) ] − 1/(2ρ) Σ_k (Σ_i α_ik)²
          − s Σ_k λ_k − Σ_kj μ_kj + Σ_kj g_kj ν_kj
     feature:   1/(2ρ) (Σ_i α_ik x_ij)² ≤ λ_k + μ_kj − ν_kj    [D]
     gate:      Σ_k p_ik = 1                       [C_i (ln Σ_j exp(−γ S_ij) − 1)]
     share:     p_ik ≥ 0                           [0]
     mistake:   u_ik ≥ 0                           [0]
     certainty: u_ik ≤ 1                           [0]
     count:     λ_k ≥ 0                            [features left over]
     most:      μ_kj ≥ 0                           [1 − D_kj]
     least:     ν_kj ≥ 0                           [D_kj − g_kj]

The best λ, μ, ν leave of each face the largest squares of its pulls, s with those that are in: any W has its
own p and u, and so a bound on every choice of features, the tangent plane of F less these squares.

Recovery
--------
D are the multipliers of the dual's row feature; W_kj = D_kj V_kj/ρ with the pulls V_kj = Σ_i α_ik x_ij,
b_k = Σ_i α_ik/ρ, T_kj = D_kj V_kj²/ρ².

Multipliers
-----------
alpha_ik is what sample i pulls at face k. lam_k is what one more feature of face k would save, at first, in
the relaxation; mu_kj what feature j is worth above that, nu_kj by how much it falls short where it must be
in.

Infeasible when
---------------
Never for at most s features of a face in g: W = 0 is feasible.

Reference
---------
Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts (2019), eq. (7), for the machine;
Pilanci, Wainwright & El Ghaoui, Sparse learning via Boolean relaxations (2015), for the relaxation. The
programs are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import plume_subset
>>> X = np.array([[-2.0, 0.1], [0.0, -0.1], [2.0, 0.0]])
>>> y = np.array([-1, 1, -1])  # inside is the middle; the second feature is noise
>>> R = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
>>> plume_subset.relaxation(X, y, R, 1.0, 1, ridge=0.1).solve()["D"].round(3) + 0.0
array([[1., 0.],
       [1., 0.]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
from scipy.special import entr

from formulations import plume
from formulations.arguments import whole
from formulations.few_rows import given_features
from formulations.mixture import responsibilities
from formulations.plume_faces import LETTERS, model, places
from formulations.program import Duality, Program, Row, without_multipliers
from formulations.recovery import as_data
from formulations.samples import two_blobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["mixed_integer", "pairs", "recover", "relaxation", "relaxation_dual", "singles"]

_LETTERS = {
    **LETTERS,
    "s": "how many features each face may use",
    "gₖⱼ": "1 where feature $j$ is in face $k$ for certain, else 0",
}
_SOURCE = "Shah, Sastry & Manwani (2019), eq. (7), with at most s features a face"


def mixed_integer(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, s: int, C: ArrayLike = 1.0, ridge: float = 1e-3
) -> Program:
    """The M-step with at most s features a face, over all choices of them.

    Parameters
    ----------
    X, y, R, gamma, C, ridge
        As in :func:`formulations.plume.m_step`.
    s : int
        Features at most of each face, at least 1.
    """
    X, y = as_data(X, y)
    whole("s", s)
    W = cp.Variable((np.shape(R)[1], X.shape[1]), name="W")
    fit, variables, parameters, score = model(X, y, R, gamma, C, ridge, W)
    b, costs, shares = variables["b"], parameters["C"], parameters["R"]
    D = cp.Variable(W.shape, name="D", boolean=True)

    def largest() -> float:
        least = costs.value @ entr(shares.value).sum(axis=1)
        at_zero = costs.value.sum() * (np.log(W.shape[0]) + np.log(2.0))
        return float(np.sqrt(2.0 * (at_zero - least) / ridge))

    L = cp.CallbackParam(largest, nonneg=True)
    rows = (
        score,
        Row("count", cp.sum(D, axis=1) <= float(s), "Σⱼ Dₖⱼ ≤ s", "", ""),
        Row("upper", W <= L * D, "Wₖⱼ ≤ L Dₖⱼ", "", "", places(W.shape)),
        Row("lower", -L * D <= W, "−L Dₖⱼ ≤ Wₖⱼ", "", "", places(W.shape)),
    )
    return Program(
        name="plume_subset.mixed_integer",
        title="PLUME, M-step, faces of few features",
        source=_SOURCE,
        objective=cp.Minimize(fit + 0.5 * ridge * (cp.sum_squares(W) + cp.sum_squares(b))),
        objective_text=f"{plume.EXPECTED_LOSS} + ρ/2 (Σₖⱼ Wₖⱼ² + Σₖ bₖ²)",
        variables={"W": W, **variables, "D": D},
        rows=without_multipliers(rows),
        parameters=parameters,
        letters={
            **_LETTERS,
            "K": "the number of faces",
            "L": "= sqrt(2 (Σᵢ Cᵢ (ln K + ln 2) − Σᵢ Cᵢ Ent(Rᵢ))/ρ)",
        },
        data={"x": X, "y": y, "s": float(s), "γ": gamma, "ρ": ridge, "K": float(W.shape[0])},
    )


def relaxation(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, s: int, C: ArrayLike = 1.0, ridge: float = 1e-3,
    given: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """The perspective relaxation: its value is a bound on every choice of features.

    Parameters
    ----------
    X, y, R, gamma, s, C, ridge
        As in :func:`mixed_integer`.
    given : array_like of shape (K, m), optional
        g: 1 where a feature is in a face for certain. None is by default.
    """
    X, y = as_data(X, y)
    whole("s", s)
    W = cp.Variable((np.shape(R)[1], X.shape[1]), name="W")
    fit, variables, parameters, score = model(X, y, R, gamma, C, ridge, W)
    b = variables["b"]
    T, D, g = (
        cp.Variable(W.shape, name="T"),
        cp.Variable(W.shape, name="D"),
        given_features(given, W.shape, s),
    )
    t, d, w = (cp.vec(each, order="C") for each in (T, D, W))
    cone = cp.SOC(t + d, cp.vstack([2.0 * w, t - d]), axis=0)
    rows = (
        score,
        Row("feature", cone, "‖(2 Wₖⱼ, Tₖⱼ − Dₖⱼ)‖ ≤ Tₖⱼ + Dₖⱼ", "cone",
            "under its first entry, for each weight, minus what a change of $2 Wₖⱼ$ and $Tₖⱼ − Dₖⱼ$ saves",
            places(W.shape)),
        Row("count", cp.sum(D, axis=1) <= float(s), "Σⱼ Dₖⱼ ≤ s", "lam",
            "what one more feature of face k would save at first"),
        Row("most", D <= 1, "Dₖⱼ ≤ 1", "mu", "what feature j of face k is worth above that",
            places(W.shape)),
        Row("least", g <= D, "Dₖⱼ ≥ gₖⱼ", "nu", "what it falls short of that, where it must be in",
            places(W.shape)),
    )  # fmt: skip
    return Program(
        name="plume_subset.relaxation",
        title="PLUME, M-step, faces of few features, relaxed",
        source=f"{_SOURCE} (derived)",
        objective=cp.Minimize(fit + 0.5 * ridge * (cp.sum(T) + cp.sum_squares(b))),
        objective_text=f"{plume.EXPECTED_LOSS} + ρ/2 (Σₖⱼ Tₖⱼ + Σₖ bₖ²)",
        variables={"W": W, **variables, "T": T, "D": D},
        rows=rows,
        parameters=parameters,
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g, "γ": gamma, "ρ": ridge},
    )


def relaxation_dual(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, s: int, C: ArrayLike = 1.0, ridge: float = 1e-3,
    given: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """Dual of :func:`relaxation`; arguments as in the primal."""
    plain = plume.m_step_dual(X, y, R, gamma, C, ridge)
    X, y = as_data(X, y)
    whole("s", s)
    p, u = plain.variables["p"], plain.variables["u"]
    shape = (p.shape[1], X.shape[1])
    g = given_features(given, shape, s)
    lam, mu, nu = (
        cp.Variable(shape[0], name="lam"),
        cp.Variable(shape, name="mu"),
        cp.Variable(shape, name="nu"),
    )
    entropy, alpha = plume.entropies_and_pulls(p, u, plain.parameters, y, gamma)
    each = cp.reshape(lam, (shape[0], 1), order="C") @ np.ones((1, shape[1]))
    rows = (
        Row("feature", cp.square(alpha.T @ X) / (2.0 * ridge) <= each + mu - nu,
            "1/(2ρ) (Σᵢ αᵢₖ xᵢⱼ)² ≤ λₖ + μₖⱼ − νₖⱼ", "D",
            "how far feature j is used by face k: $Wₖⱼ = Dₖⱼ/ρ Σᵢ αᵢₖ xᵢⱼ$", places(shape)),
        *plain.rows,
        Row("count", lam >= 0, "λₖ ≥ 0", "rest", "how many features are left over"),
        Row("most", mu >= 0, "μₖⱼ ≥ 0", "above", "$1 − Dₖⱼ$", places(shape)),
        Row("least", nu >= 0, "νₖⱼ ≥ 0", "below", "$Dₖⱼ − gₖⱼ$", places(shape)),
    )  # fmt: skip
    paid = float(s) * cp.sum(lam) + cp.sum(mu) - cp.sum(cp.multiply(g, nu))
    biases = cp.sum_squares(cp.sum(alpha, axis=0)) / (2.0 * ridge)
    return Program(
        name="plume_subset.relaxation_dual",
        title="PLUME, M-step, faces of few features, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(entropy - biases - paid),
        objective_text="Σᵢ Cᵢ [Ent(pᵢ) + Σₖ Rᵢₖ ent(uᵢₖ)] − 1/(2ρ) Σₖ (Σᵢ αᵢₖ)² − s Σₖ λₖ − Σₖⱼ μₖⱼ "
        "+ Σₖⱼ gₖⱼ νₖⱼ",
        variables={"p": p, "u": u, "lam": lam, "mu": mu, "nu": nu},
        rows=rows,
        parameters=plain.parameters,
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g, "γ": gamma, "ρ": ridge},
    )


def recover(X: MatrixLike, alpha: NDArray[Any], D: NDArray[Any], ridge: float) -> dict[str, NDArray[Any]]:
    """Primal variables of the relaxation from what samples pull.

    Parameters
    ----------
    X, ridge
        As in :func:`relaxation`.
    alpha : ndarray of shape (n, K)
        The pulls.
    D : ndarray of shape (K, m)
        The multipliers of the dual's row feature.
    """
    X = np.asarray(X, dtype=float)
    D, V, b = np.clip(D, 0.0, 1.0), alpha.T @ X, alpha.sum(axis=0) / ridge
    W = D * V / ridge
    return {"W": W, "b": b, "S": X @ W.T + b, "T": D * (V / ridge) ** 2, "D": D}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with one feature of a face that is in for certain, and its dual."""
    X, y = two_blobs(n=24, m=4, seed=seed)
    # Small scores: near 0 and 1 the slope of an entropy is steep, and solvers of cones lose digits there.
    X, C, gamma, ridge, s = 0.7 * X, np.where(y > 0, 1.0, 0.7), 0.8, 1.2, 2
    R = responsibilities(X, y, 0.3 * np.random.default_rng(seed).normal(size=(2, 5)), gamma)
    given = np.zeros((2, 4))
    given[1, 3] = 1.0
    arguments = (X, y, R, gamma, s, C, ridge, given)
    dual = relaxation_dual(*arguments)

    def recovered(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        alpha = C[:, None] * (gamma * (found["p"] - R) + R * found["u"] * y[:, None])
        return recover(X, alpha, dual.rows[0].multipliers, ridge)  # as the last solve left them

    return [Duality(relaxation(*arguments), dual, recovered)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=3, seed=seed)
    R = responsibilities(X, y, 0.3 * np.random.default_rng(seed).normal(size=(2, 4)), 0.8)
    return [mixed_integer(X, y, R, 0.8, 2, np.where(y > 0, 1.0, 0.7), 1.2)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
