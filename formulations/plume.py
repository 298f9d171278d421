"""PLUME's M-step: for fixed responsibilities, the faces of a mixture of experts by a convex program.

Problem
-------
The positives lie inside a polyhedral set of K faces: P(y|x) = Σ_k g_k(x) σ(y W_k·x̃), with x̃ = (x, 1) and
σ(t) = 1/(1 + exp(−t)). Each face is an expert with the probability σ(y W_k·x̃), and its weight is the gate
g_k(x) = exp(−γ W_k·x̃) / Σ_l exp(−γ W_l·x̃), which prefers the face with the least score W_k·x̃; the larger γ
is, the more. Expectation-maximisation alternates between the responsibilities
R_ik = g_k(x_i) σ(y_i W_k·x̃_i) / P(y_i|x_i) of the faces for each sample, eq. (6), and the faces W for fixed
responsibilities, eq. (7), which is this program. :mod:`formulations.mixture` has the model itself.

Variables and shapes
--------------------
W (K, m+1) with the biases in its last column, the scores S (n, K); p and u (n, K) in the dual. X is (n, m),
y is (n,) of -1 and +1, +1 inside; R is (n, K), nonnegative, and its rows sum to 1; C is a scalar or (n,), the
weights of the samples; γ ≥ 0, and the ridge ρ > 0 on W, biases included, are numbers. Entropies:
Ent(p) = −Σ_k p_k ln p_k, and ent(u) = −u ln u − (1−u) ln(1−u).

Programs
--------
m_step        min  Σ_i C_i [ln Σ_k exp(−γ S_ik) + Σ_k R_ik (γ S_ik + ln(1 + exp(−y_i S_ik)))] + ρ/2 ‖W‖²
              s.t. S_ik = W_k·x̃_i [α_ik]
m_step_dual   max  Σ_i C_i [Ent(p_i) + Σ_k R_ik ent(u_ik)] − 1/(2ρ) Σ_k ‖Σ_i α_ik x̃_i‖²
              s.t. Σ_k p_ik = 1,  p ≥ 0,  0 ≤ u ≤ 1,  with α_ik = C_i [γ (p_ik − R_ik) + R_ik u_ik y_i]

m_step is eq. (7) of the paper, with a ridge and with the scores as variables, whose definition has the
multipliers α. It is convex: a log-sum-exp, logistic functions with nonnegative weights, and linear terms. In
m_step_dual the entropy terms keep p and u in the interior, so the multipliers of their bounds are 0.

Recovery
--------
W_k = (1/ρ) Σ_i α_ik x̃_i, S_ik = W_k·x̃_i. At the optimum p is the gate of W and u_ik = σ(−y_i S_ik), the
probability that face k alone assigns to the other label of sample i. p and u computed from any W are dual
feasible; the duality gap is then ‖∇‖²/(2ρ), where ∇ is the gradient of the primal objective by W alone.

Multipliers
-----------
α_ik is the rate at which the optimal value decreases as the right-hand side of S_ik − W_k·x̃_i = 0 increases,
and the coefficient of x̃_i in ρ W_k.

Infeasible when
---------------
Never. With ρ = 0 the infimum need not be attained, for example on separable data.

Reference
---------
Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts (2019), eq. (3) to (8). Its
claim of a unique maximum in the M-step needs the ridge.

Example
-------
>>> import numpy as np
>>> from formulations import plume
>>> X, y = np.array([[-2.0], [0.0], [2.0]]), np.array([-1, 1, -1])  # inside is the middle
>>> R = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
>>> program = plume.m_step(X, y, R, gamma=1.0, ridge=0.1)
>>> program.solve()["W"].round(3)
array([[ 1.625,  0.784],
       [-1.625,  0.784]])
>>> program.set(R=R[:, ::-1]).solve()["W"].round(3)  # re-uses what was built
array([[-1.625,  0.784],
       [ 1.625,  0.784]])
"""

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import at_least, positive
from formulations.language.program import Duality, Program, Row
from formulations.language.recovery import as_data
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.mixture import check_responsibilities, responsibilities
from formulations.polyhedral import RIDGE_LETTERS, SAMPLE_LETTERS, pull, scores
from formulations.polytope import lift
from formulations.svm import cost_parameter, pair_costs

_PAPER = "Shah, Sastry & Manwani (2019)"

LETTERS = {  # meaning of the letters in printed formulas
    "αᵢₖ": "= Cᵢ (γ (pᵢₖ − Rᵢₖ) + Rᵢₖ uᵢₖ yᵢ)",
    "Ent(p)": "= −Σₖ pₖ ln pₖ",
    "ent(u)": "= −u ln u − (1 − u) ln(1 − u)",
    "Sᵢₖ": "the score of sample $i$ at face $k$",
    "Rᵢₖ": "the responsibility of face $k$ for sample $i$, from the E-step; $Σₖ Rᵢₖ = 1$",
    "γ": "≥ 0: the sharpness of the gate, which prefers the face with the least score",
    **RIDGE_LETTERS,
    **SAMPLE_LETTERS,
    "Cᵢ": "the weight of sample $i$",
}


def m_step(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, C: ArrayLike = 1.0, ridge: float = 1e-3
) -> Program:
    """Build the M-step as a convex program, eq. (7) with a ridge.

    Parameters
    ----------
    X, y
        Samples, labels: +1 inside, -1 outside.
    R : array_like of shape (n, K)
        Responsibilities; rows sum to 1.
    gamma : float
        Sharpness of the gate, at least 0.
    C : float or array_like of shape (n,)
        Weight per sample.
    ridge : float
        ρ, positive.

    Returns
    -------
    Program
        With the parameters C and R; ``program.set(R=...)`` changes the responsibilities.
    """
    X, y = as_data(X, y)
    at_least("gamma", gamma, 0.0)
    positive("ridge", ridge)
    R = check_responsibilities(R, (len(y), None))
    n, K = R.shape
    parameters = {"C": cost_parameter(C, n), "R": cp.Parameter((n, K), nonneg=True, name="R", value=R)}
    W, S = cp.Variable((K, X.shape[1] + 1), name="W"), cp.Variable((n, K), name="S")
    meaning = "coefficient of sample i in $ρ Wₖ = Σᵢ αᵢₖ x̃ᵢ$"
    # Fields of a Row: name, constraint, text as printed, letter and meaning of its multiplier.
    score = Row("score", S - lift(X) @ W.T == 0, "Sᵢₖ = Wₖ·x̃ᵢ", "alpha", meaning)
    gates = parameters["C"] @ cp.log_sum_exp(-gamma * S, axis=1)
    experts = gamma * S + cp.logistic(cp.multiply(-y[:, None], S))
    loss = gates + cp.sum(cp.multiply(pair_costs(*parameters.values()), experts))
    return Program(
        name="plume.m_step",
        title="PLUME, M-step",
        source=f"{_PAPER}, eq. (7), with a ridge",
        objective=cp.Minimize(loss + 0.5 * ridge * cp.sum_squares(W)),
        objective_text="Σᵢ Cᵢ [ln Σₖ exp(−γ Sᵢₖ) + Σₖ Rᵢₖ (γ Sᵢₖ + ln(1 + exp(−yᵢ Sᵢₖ)))] + ρ/2 ‖W‖²",
        variables={"W": W, "S": S},
        rows=(score,),
        parameters=parameters,
        letters=LETTERS,
        data={"x": X, "y": y, "γ": gamma, "ρ": ridge},
    )


def m_step_dual(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, gamma: float, C: ArrayLike = 1.0, ridge: float = 1e-3
) -> Program:
    """Build the dual of :func:`m_step`, with the same parameters; arguments as in the primal."""
    X, y = as_data(X, y)
    primal = m_step(X, y, R, gamma, C, ridge)
    costs, products = primal.parameters["C"], pair_costs(*primal.parameters.values())
    p, u = cp.Variable(products.shape, name="p"), cp.Variable(products.shape, name="u")
    alpha = gamma * (cp.multiply(costs[:, None], p) - products)
    alpha += cp.multiply(products, cp.multiply(y[:, None], u))
    entropy = costs @ cp.sum(cp.entr(p), axis=1)
    entropy += cp.sum(cp.multiply(products, cp.entr(u) + cp.entr(1 - u)))
    rows = (
        Row("gate", cp.sum(p, axis=1) == 1, "Σₖ pᵢₖ = 1", "nu",
            "sample i's normaliser of the gate, $Cᵢ (ln Σₖ exp(−γ Sᵢₖ) − 1)$"),
        Row("gate_nonneg", p >= 0, "pᵢₖ ≥ 0", "pi", "0: the entropy keeps $p$ in the interior"),
        Row("error_nonneg", u >= 0, "uᵢₖ ≥ 0", "phi", "0: the entropy keeps $u$ in the interior"),
        Row("error_le_one", u <= 1, "uᵢₖ ≤ 1", "psi", "0: the entropy keeps $u$ in the interior"),
    )  # fmt: skip
    objective = entropy - 0.5 / ridge * cp.sum_squares(lift(X).T @ alpha)
    text = "Σᵢ Cᵢ [Ent(pᵢ) + Σₖ Rᵢₖ ent(uᵢₖ)] − 1/(2ρ) Σₖ ‖Σᵢ αᵢₖ x̃ᵢ‖²"
    return primal.dual(objective, text, (p, u), rows)


def recover(
    X: MatrixLike, y: ArrayLike, R: ArrayLike, p: NDArray[Any], u: NDArray[Any], gamma: float,
    C: ArrayLike = 1.0, ridge: float = 1e-3,
) -> dict[str, NDArray[Any]]:  # fmt: skip
    """Return the primal variables W and S of the M-step from the dual's p and u (n, K)."""
    X, y = as_data(X, y)
    weights = np.broadcast_to(np.asarray(C, dtype=float), y.shape)[:, None]
    R = np.asarray(R, dtype=float)
    W = pull(X, weights * (gamma * (p - R) + R * u * y[:, None])) / ridge
    return {"W": W, "S": scores(X, W)}


def pairs(seed: int = 0) -> list[Duality]:
    """Return every program of this module on random data, as primal-dual pairs."""
    X, y = two_blobs(n=24, m=2, seed=seed)
    X, C = 0.4 * X, np.where(y > 0, 1.0, 0.7)

    def pair(K: int, gamma: float, ridge: float) -> Duality:
        # Small scores: near 0 and 1 an entropy is steep, and conic solvers lose digits there.
        W = 0.3 * np.random.default_rng(seed).normal(size=(K, 3))
        R = responsibilities(X, y, W, gamma)
        return Duality(
            m_step(X, y, R, gamma, C, ridge=ridge),
            m_step_dual(X, y, R, gamma, C, ridge=ridge),
            lambda v: recover(X, y, R, v["p"], v["u"], gamma, C, ridge=ridge),
        )

    return [pair(2, 0.8, 1.2), pair(3, 0.5, 1.0)]
