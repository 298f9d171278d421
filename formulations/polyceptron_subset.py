"""A cell of the exact Polyceptron with at most s features: the mixed-integer program, and its relaxation.

Problem
-------
The face of a cell of the Polyceptron with its margin of 1 (:mod:`formulations.polyceptron`) may use s of the
m features, whichever are best. It pays no norm: the box alone bounds the weight of a feature that is in.

Variables and shapes
--------------------
w (m,), b scalar, xi (n,); z (m,) says which features are in. In the dual alpha (n,), b_plus, b_minus and lam
scalars, p, q, mu and nu (m,). X is (n, m), y is (n,) of -1 and +1, +1 inside; C a scalar or (n,), 0 for the
samples that are not in the face's program; R the radius of the box, positive; s a whole number. g (m,) of 0
and 1 says which features are in for certain, as at a node of a search.

Primal
------
exactly with z of 0 and 1, and without the rows most and least, which the relaxation has
     min  Σ_i C_i ξ_i
     margin:  y_i (w·x_i + b) ≥ 1 − ξ_i            [alpha]
     slack:   ξ_i ≥ 0                              [beta]
     over:    b ≤ R                                [b⁺]
     under:   −R ≤ b                               [b⁻]
     count:   Σ_j z_j ≤ s                          [lam]
     upper:   w_j ≤ R z_j                          [p]
     lower:   −R z_j ≤ w_j                         [q]
     most:    z_j ≤ 1                              [mu]
     least:   z_j ≥ g_j                            [nu]

Dual
----
of the relaxation
     max  Σ_i α_i − R (b⁺ + b⁻) − s λ − Σ_j μ_j + Σ_j g_j ν_j
     weight:  Σ_i α_i y_i x_ij − p_j + q_j = 0     [w]
     bias:    Σ_i α_i y_i − b⁺ + b⁻ = 0            [b]
     choice:  R (p_j + q_j) ≤ λ + μ_j − ν_j        [z]
     margin:  α_i ≥ 0                              [surplus]
     xi:      α_i ≤ C_i                            [xi]
     over:    b⁺ ≥ 0                               [R − b]
     under:   b⁻ ≥ 0                               [R + b]
     upper:   p_j ≥ 0                              [R z_j − w_j]
     lower:   q_j ≥ 0                              [R z_j + w_j]
     count:   λ ≥ 0                                [features left over]
     most:    μ_j ≥ 0                              [1 − z_j]
     least:   ν_j ≥ 0                              [z_j − g_j]

With v_j = Σ_i α_i y_i x_ij and v_b = Σ_i α_i y_i the best p, q, λ, μ, ν leave

     Σ_i α_i − R (|v_b| + Σ_{g_j = 1} |v_j| + the s − Σ g largest |v_j| of the others):

any α within its caps is a bound on every choice of s features with those of g. In a wide box it counts only
where v is 0, and the relaxation is the cell with all features: a bound then rises only as features are left
out, and a proof may be nearly an enumeration of choices. In a box that holds the weights it is better than
that.

Recovery
--------
w and b are the multipliers of weight and bias; ξ_i = [1 − y_i (w·x_i + b)]_+, z_j = max(|w_j|/R, g_j).

Multipliers
-----------
alpha as u of the cell; lam is what one more feature would save, at first, in the relaxation; mu_j what
feature j is worth above that, nu_j by how much it falls short of it where it must be in.

Infeasible when
---------------
Never for Σ g ≤ s: w = 0, b = 0, ξ = 1 is feasible.

Reference
---------
Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm (2011), eq. (4), with the margin and the box of
this package. The programs are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import polyceptron_subset
>>> X, y = np.array([[2.0, 1.0], [-2.0, -1.0], [0.4, -1.0]]), np.array([1, -1, 1])
>>> found = polyceptron_subset.mixed_integer(X, y, 1, radius=10.0).solve()
>>> found["z"].round(3) + 0.0, round(found.objective, 6) + 0.0  # the first feature alone separates them
(array([1., 0.]), 0.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np

from formulations.arguments import positive, whole
from formulations.few_rows import LETTERS as FEW_LETTERS
from formulations.few_rows import choice_multiplier_rows, choice_rows, few_data
from formulations.polyceptron import LETTERS as CELL_LETTERS
from formulations.program import Duality, Program, Row, without_multipliers
from formulations.recovery import as_data, slacks
from formulations.samples import two_blobs
from formulations.svm import alpha_rows, cost_parameter, margin_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike

__all__ = ["mixed_integer", "pairs", "recover", "relaxation", "relaxation_dual", "singles"]

_LETTERS = {
    "xᵢ": "sample $i$",
    "yᵢ": CELL_LETTERS["yᵢ"],
    "Cᵢ": "the price of sample $i$'s slack, 0 where it is not in this face's program",
    "R": CELL_LETTERS["R"],
    "s": FEW_LETTERS["s"],
    "gⱼ": FEW_LETTERS["gⱼ"],
}
_SOURCE = "Manwani & Sastry (2011), eq. (4), with a margin, a box and at most s features"
_TITLE = "Polyceptron, one cell, a face of few features"


def _bias_rows(b: cp.Variable, radius: float) -> tuple[Row, Row]:
    wider = "saving per unit of a wider box for the bias"
    return (
        Row("over", b <= radius, "b ≤ R", "b_plus", wider),
        Row("under", -radius <= b, "−R ≤ b", "b_minus", wider),
    )


def mixed_integer(X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, radius: float = 1e4) -> Program:
    """The cell's face with at most s features, over all choices of them; HiGHS and SCIP solve it.

    In a wide box a solver's tolerance of z, times R, is a weight: prefer a radius that is not much larger
    than the weights.

    Parameters
    ----------
    X, y, C
        As in :func:`formulations.polyceptron.cell`.
    s : int
        Features at most, at least 1.
    radius : float
        R, the largest absolute value of a weight and of the bias; finite.
    """
    X, y = as_data(X, y)
    s, R = whole("s", s), positive("radius", radius)
    n, m = X.shape
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    z, costs = cp.Variable(m, name="z", boolean=True), cost_parameter(C, n)
    rows = (
        *margin_rows(y, X @ w + b, xi, "w·xᵢ + b"),
        *_bias_rows(b, R),
        *choice_rows(w, z, R, s),
    )
    return Program(
        name="polyceptron_subset.mixed_integer",
        title=_TITLE,
        source=_SOURCE,
        objective=cp.Minimize(costs @ xi),
        objective_text="Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi, "z": z},
        rows=without_multipliers(rows),
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "R": R},
    )


def relaxation(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, radius: float = 1e4,
    given: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """The same with z between 0 and 1: its value is a bound on every choice of s features.

    Parameters
    ----------
    X, y, s, C, radius
        As in :func:`mixed_integer`.
    given : array_like of shape (m,), optional
        g: 1 where a feature is in for certain. None is by default.
    """
    X, y, g = few_data(X, y, s, given)
    R, (n, m) = positive("radius", radius), X.shape
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    z, costs = cp.Variable(m, name="z"), cost_parameter(C, n)
    rows = (
        *margin_rows(y, X @ w + b, xi, "w·xᵢ + b"),
        *_bias_rows(b, R),
        Row("count", cp.sum(z) <= float(s), "Σⱼ zⱼ ≤ s", "lam", "what one more feature would save at first"),
        Row("upper", w <= R * z, "wⱼ ≤ R zⱼ", "p", "what more room for a positive weight j would save"),
        Row("lower", -R * z <= w, "−R zⱼ ≤ wⱼ", "q", "what more room for a negative weight j would save"),
        Row("most", z <= 1, "zⱼ ≤ 1", "mu", "what feature j is worth above $λ$"),
        Row("least", z >= g, "zⱼ ≥ gⱼ", "nu", "what feature j falls short of $λ$, where it must be in"),
    )
    return Program(
        name="polyceptron_subset.relaxation",
        title=f"{_TITLE}, relaxed",
        source=f"{_SOURCE} (derived)",
        objective=cp.Minimize(costs @ xi),
        objective_text="Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi, "z": z},
        rows=rows,
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g, "R": R},
    )


def relaxation_dual(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, radius: float = 1e4,
    given: ArrayLike | None = None,
) -> Program:  # fmt: skip
    """Dual of :func:`relaxation`; arguments as in the primal."""
    X, y, g = few_data(X, y, s, given)
    R, (n, m) = positive("radius", radius), X.shape
    alpha, lam, costs = cp.Variable(n, name="alpha"), cp.Variable(name="lam"), cost_parameter(C, n)
    over, under = cp.Variable(name="b_plus"), cp.Variable(name="b_minus")
    p, q, mu, nu = (cp.Variable(m, name=name) for name in ("p", "q", "mu", "nu"))
    u = cp.multiply(y, alpha)
    rows = (
        Row("weight", X.T @ u - p + q == 0, "Σᵢ αᵢ yᵢ xᵢⱼ − pⱼ + qⱼ = 0", "w", "the weight of feature j"),
        Row("bias", y @ alpha - over + under == 0, "Σᵢ αᵢ yᵢ − b⁺ + b⁻ = 0", "b", "the bias"),
        Row("choice", R * (p + q) <= lam + mu - nu, "R (pⱼ + qⱼ) ≤ λ + μⱼ − νⱼ", "z",
            "how far feature j is in"),
        *alpha_rows(alpha, costs),
        Row("over", over >= 0, "b⁺ ≥ 0", "R - b", "room left over the bias"),
        Row("under", under >= 0, "b⁻ ≥ 0", "R + b", "room left under the bias"),
        Row("upper", p >= 0, "pⱼ ≥ 0", "above_w", "$R zⱼ − wⱼ$"),
        Row("lower", q >= 0, "qⱼ ≥ 0", "below_w", "$R zⱼ + wⱼ$"),
        *choice_multiplier_rows(lam, mu, nu, "z"),
    )  # fmt: skip
    paid = R * (over + under) + float(s) * lam + cp.sum(mu) - g @ nu
    return Program(
        name="polyceptron_subset.relaxation_dual",
        title=f"{_TITLE}, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - paid),
        objective_text="Σᵢ αᵢ − R (b⁺ + b⁻) − s λ − Σⱼ μⱼ + Σⱼ gⱼ νⱼ",
        variables={"alpha": alpha, "b_plus": over, "b_minus": under, "p": p, "q": q, "lam": lam, "mu": mu,
                   "nu": nu},
        rows=rows,
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g, "R": R},
    )  # fmt: skip


def recover(
    X: MatrixLike, y: ArrayLike, w: NDArray[Any], b: float, radius: float, given: ArrayLike | None = None
) -> dict[str, NDArray[Any]]:
    """Primal variables of the relaxation from the multipliers of the dual's rows.

    Parameters
    ----------
    X, y, radius, given
        As in :func:`relaxation`.
    w : ndarray of shape (m,)
        The multipliers of the row weight.
    b : float
        That of the row bias.
    """
    X, y = as_data(X, y)
    g = np.zeros(len(w)) if given is None else np.asarray(given, dtype=float)
    z = np.maximum(np.abs(w) / radius, g)
    return {"w": w, "b": np.array(float(b)), "xi": slacks(X @ w + float(b), y), "z": z}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, in boxes that hold the weights, and its dual."""
    X, y = two_blobs(n=40, m=5, seed=seed)
    C, s, given = np.where(y > 0, 1.0, 0.7), 2, np.eye(5)[-1]

    def of(radius: float, given: NDArray[Any] | None) -> Duality:
        dual = relaxation_dual(X, y, s, C, radius, given)

        def recovered(_: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            # A linear program's primal is read off the multipliers of its dual, as the last solve left them.
            weight, bias = (row.constraint.dual_value for row in dual.rows[:2])
            return recover(X, y, np.asarray(weight), float(np.asarray(bias)), radius, given)

        return Duality(relaxation(X, y, s, C, radius, given), dual, recovered)

    return [of(0.3, given), of(0.6, None)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=5, seed=seed)
    return [mixed_integer(X, y, 2, np.where(y > 0, 1.0, 0.7), 1.5)]


if __name__ == "__main__":
    for pair in pairs():
        print(pair.primal, pair.dual, pair.demonstrate(), sep="\n\n", end="\n\n")
