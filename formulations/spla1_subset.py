"""A cell of SPLA1 with at most s features: exact, relaxed, and the relaxation's dual.

Problem
-------
For fixed cells SPLA1's faces are independent, each a logistic regression with a ridge
(:mod:`formulations.spla1`). Here a face may use s of the m features, whichever are best for its cell; the
bias is free for all, and pays its ridge as ever:

     min  Σ C_i ln(1 + exp(−y_i (w·x_i + b))) + ρ/2 (‖w‖² + b²)     s.t.  ‖w‖₀ ≤ s.

Variables and shapes
--------------------
w (m,), b scalar, z (n,); d (m,) says which features are used, and t_j pays for w_j² where it is. v (n,), lam
scalar, mu (m,), nu (m,) in the dual. X is (n, m), y is (n,) of -1 and +1, +1 inside; C is a scalar or (n,), 0
for the samples of other cells; s is a whole number. g (m,) of 0 and 1 says which features are in for certain,
as at a node of a search; a feature that is out is left out of X.

Primal
------
exactly, with d of 0 and 1; w = 0, b = 0 cost ln 2 Σ C_i, so that no weight is larger than R, with
R² = 2 ln 2 Σ C_i/ρ:
     min  Σ_i C_i ln(1 + exp(−z_i)) + ρ/2 (‖w‖² + b²)
     margin:   z_i ≤ y_i (w·x_i + b)
     count:    Σ_j d_j ≤ s
     upper:    w_j ≤ R d_j
     lower:    −R d_j ≤ w_j

relaxed, with d in [0, 1] and without R: t_j ≥ w_j²/d_j is what feature j costs, the perspective of its square
     min  Σ_i C_i ln(1 + exp(−z_i)) + ρ/2 (Σ_j t_j + b²)
     margin:   z_i ≤ y_i (w·x_i + b)               [u]
     feature:  ‖(2 w_j, t_j − d_j)‖ ≤ t_j + d_j    [cone]   that is, w_j² ≤ t_j d_j with t, d ≥ 0
     count:    Σ_j d_j ≤ s                         [lam]
     most:     d_j ≤ 1                             [mu]
     least:    d_j ≥ g_j                           [nu]

No solver of cvxpy's takes whole numbers and logarithms together but commercial ones. The exact program is
solved by tangents of its curves, and by branch and bound over the features.

Dual
----
of the relaxation, with u_i = C_i v_i, the entropy H(v) = −v ln v − (1 − v) ln(1 − v), V_j = Σ_i u_i y_i x_ij
     max  Σ_i C_i H(v_i) − 1/(2ρ) (Σ_i u_i y_i)² − s λ − Σ_j μ_j + Σ_j g_j ν_j
     feature:  1/(2ρ) V_j² ≤ λ + μ_j − ν_j         [d]
     count:    λ ≥ 0                               [features left over]
     most:     μ_j ≥ 0                             [1 − d_j]
     least:    ν_j ≥ 0                             [d_j − g_j]

The entropy keeps every v_i between 0 and 1. For a given v the best λ, μ, ν leave

     Σ C_i H(v_i) − 1/(2ρ) (V_b² + Σ_{j in} V_j² + the s − |in| largest V_j² of the others),

a bound on the optimum for every choice of s features that has those in it. At v_i = σ(−z_i) of any face the
sum of entropies is its loss and w·V + b V_b: the bound is the loss's tangent plane, less the squares.

Recovery
--------
d are the multipliers of the dual's row feature; w_j = d_j V_j/ρ, b = Σ u_i y_i/ρ, t_j = d_j V_j²/ρ².

Multipliers
-----------
u_i as without a limit: what sample i pulls. lam is what one more feature would save, at first, in the
relaxation; mu_j what feature j is worth above that, nu_j by how much it falls short where it must be in.

Infeasible when
---------------
Never for Σ g ≤ s: w = 0 is feasible.

Reference
---------
Manwani & Sastry, Learning Polyhedral Classifiers Using Logistic Function (2010), reconstructed, for the cell:
that of PLUME, Shah, Sastry & Manwani (2019), eq. (3), as its gate becomes sharp. Pilanci, Wainwright & El
Ghaoui, Sparse learning via Boolean relaxations (2015), for the relaxation. The programs are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import spla1_subset
>>> X, y = np.array([[2.0, 1.0], [-2.0, -1.0]]), np.array([1, -1])  # the first feature alone says as much
>>> relaxed = spla1_subset.relaxation(X, y, 1, ridge=0.5).solve()
>>> relaxed["d"].round(3) + 0.0, relaxed["w"].round(3) + 0.0
(array([1., 0.]), array([0.983, 0.   ]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import positive, whole
from formulations.few_rows import LETTERS as FEW_LETTERS
from formulations.few_rows import choice_multiplier_rows, choice_rows, few_data, perspective_rows
from formulations.program import Duality, Program, Row, without_multipliers
from formulations.recovery import as_data
from formulations.samples import two_blobs
from formulations.spla1 import LETTERS as CELL_LETTERS
from formulations.svm import cost_parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["mixed_integer", "pairs", "recover", "relaxation", "relaxation_dual", "singles"]

LETTERS = {
    **{letter: says for letter, says in CELL_LETTERS.items() if letter != "x̃ᵢ"},
    "xᵢ": "sample $i$",
    **FEW_LETTERS,
}
_SOURCE = "Manwani & Sastry (2010), reconstructed, with at most s features"
_LOSS = "Σᵢ Cᵢ ln(1 + exp(−zᵢ))"


def _margin(y: NDArray[Any], outputs: cp.Expression, z: cp.Variable) -> Row:
    return Row(
        "margin", z <= cp.multiply(y, outputs), "zᵢ ≤ yᵢ (w·xᵢ + b)", "u",
        "pull of sample i at the face: near its weight on the wrong side, near 0 well on its own",
    )  # fmt: skip


def mixed_integer(X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, ridge: float = 1e-3) -> Program:
    """The cell's face with at most s features, over all choices of them.

    Parameters
    ----------
    X, y, C, ridge
        As in :func:`formulations.spla1.cell`.
    s : int
        Features at most, at least 1.
    """
    X, y = as_data(X, y)
    whole("s", s)
    (n, m), rho = X.shape, positive("ridge", ridge)
    w, b, z = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="z")
    d, costs = cp.Variable(m, name="d", boolean=True), cost_parameter(C, n)
    R = cp.CallbackParam(lambda: np.sqrt(2.0 * np.log(2.0) * costs.value.sum() / rho), nonneg=True)
    rows = (
        _margin(y, X @ w + b, z),
        *choice_rows(w, d, R, s),
    )
    return Program(
        name="spla1_subset.mixed_integer",
        title="SPLA1, one cell, a face of few features",
        source=_SOURCE,
        objective=cp.Minimize(costs @ cp.logistic(-z) + 0.5 * rho * (cp.sum_squares(w) + cp.square(b))),
        objective_text=f"{_LOSS} + ρ/2 (‖w‖² + b²)",
        variables={"w": w, "b": b, "z": z, "d": d},
        rows=without_multipliers(rows),
        parameters={"C": costs},
        letters={**LETTERS, "R": "= sqrt(2 ln 2 Σᵢ Cᵢ/ρ)"},
        data={"x": X, "y": y, "s": float(s), "ρ": ridge},
    )


def relaxation(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, ridge: float = 1e-3,
    given: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """The perspective relaxation: its value is a bound on every choice of s features.

    Parameters
    ----------
    X, y, s, C, ridge
        As in :func:`mixed_integer`.
    given : array_like of shape (m,), optional
        g: 1 where a feature is in for certain. None is by default.
    """
    X, y, g = few_data(X, y, s, given)
    (n, m), rho = X.shape, positive("ridge", ridge)
    w, b, z = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="z")
    t, d = cp.Variable(m, name="t"), cp.Variable(m, name="d")
    costs = cost_parameter(C, n)
    return Program(
        name="spla1_subset.relaxation",
        title="SPLA1, one cell, a face of few features, relaxed",
        source=f"{_SOURCE} (derived)",
        objective=cp.Minimize(costs @ cp.logistic(-z) + 0.5 * rho * (cp.sum(t) + cp.square(b))),
        objective_text=f"{_LOSS} + ρ/2 (Σⱼ tⱼ + b²)",
        variables={"w": w, "b": b, "z": z, "t": t, "d": d},
        rows=(_margin(y, X @ w + b, z), *perspective_rows(w, t, d, g, s)),
        parameters={"C": costs},
        letters=LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g, "ρ": ridge},
    )


def relaxation_dual(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, ridge: float = 1e-3,
    given: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """Dual of :func:`relaxation`; arguments as in the primal."""
    X, y, g = few_data(X, y, s, given)
    (n, m), rho = X.shape, positive("ridge", ridge)
    v, lam = cp.Variable(n, name="v"), cp.Variable(name="lam")
    mu, nu = cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    costs = cost_parameter(C, n)
    u = cp.multiply(costs, v)
    rows = (
        Row("feature", cp.square(X.T @ cp.multiply(y, u)) / (2.0 * rho) <= lam + mu - nu,
            "1/(2ρ) (Σᵢ Cᵢ vᵢ yᵢ xᵢⱼ)² ≤ λ + μⱼ − νⱼ", "d",
            "how far feature j is used: $wⱼ = dⱼ/ρ Σᵢ Cᵢ vᵢ yᵢ xᵢⱼ$"),
        *choice_multiplier_rows(lam, mu, nu, "d"),
    )  # fmt: skip
    entropy = costs @ (cp.entr(v) + cp.entr(1 - v))
    paid = cp.square(y @ u) / (2.0 * rho) + float(s) * lam + cp.sum(mu) - g @ nu
    return Program(
        name="spla1_subset.relaxation_dual",
        title="SPLA1, one cell, a face of few features, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(entropy - paid),
        objective_text="Σᵢ Cᵢ H(vᵢ) − 1/(2ρ) (Σᵢ Cᵢ vᵢ yᵢ)² − s λ − Σⱼ μⱼ + Σⱼ gⱼ νⱼ",
        variables={"v": v, "lam": lam, "mu": mu, "nu": nu},
        rows=rows,
        parameters={"C": costs},
        letters=LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g, "ρ": ridge},
    )


def recover(
    X: MatrixLike, y: ArrayLike, v: NDArray[Any], d: NDArray[Any], C: ArrayLike = 1.0, ridge: float = 1e-3
) -> dict[str, NDArray[Any]]:
    """Primal variables of the relaxation from the dual's v (n,), and its row feature's multipliers d (m,)."""
    X, y = as_data(X, y)
    d, u = np.clip(d, 0.0, 1.0), np.asarray(C) * v * y
    V = X.T @ u
    w, b = d * V / ridge, float(u.sum()) / ridge
    return {"w": w, "b": np.array(b), "z": y * (X @ w + b), "t": d * (V / ridge) ** 2, "d": d}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with one feature that is in for certain, and its dual."""
    X, y = two_blobs(n=40, m=5, seed=seed)
    C, s, ridge, given = np.where(y > 0, 1.0, 0.7), 2, 1.5, np.eye(5)[-1]
    dual = relaxation_dual(X, y, s, C, ridge, given)

    def recovered(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        # The multipliers are as the last solve left them.
        return recover(X, y, found["v"], dual.rows[0].multipliers, C, ridge)

    return [Duality(relaxation(X, y, s, C, ridge, given), dual, recovered)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=5, seed=seed)
    return [mixed_integer(X, y, 2, np.where(y > 0, 1.0, 0.7), 1.5)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
