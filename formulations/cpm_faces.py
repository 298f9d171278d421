"""A restricted face of the Convex Polytope Machine: at most s features, or integer coefficients.

Problem
-------
The machine takes the largest of K affine functions, its faces. It must be positive at the positive samples,
each of which is assigned to one face that ensures this, and negative at the negatives. With the assignment
fixed, and the loss of a negative summed over the faces (loss="sum" in :mod:`formulations.cpm`), each face is
a program of its own, with cost C_i = 0 for positives of other faces. A face of few features has at most s
nonzero weights; the bias b is penalised, but not counted:

     min  ‖w‖² + b² + Σ C_i [1 − y_i (w·x_i + b)]_+     s.t.  ‖w‖₀ ≤ s.

A face of integer coefficients reads like `2 age + 3 bmi − chol > 41.5`: integers p_j from −M to M, a common
scale δ > 0, and a threshold −b/δ. Its weights are w = δ p, and for a fixed scale

     min  δ² ‖p‖² + b² + Σ C_i [1 − y_i (δ p·x_i + b)]_+     over integer p from −M to M and b

is a mixed-integer quadratic program. The scale is one more variable, over which solvers search.

Variables and shapes
--------------------
w or p (m,), b scalar, xi (n,); alpha (n,), mu and nu (m,) in the duals. X is (n, m), y is (n,) of -1 and +1,
C a scalar or (n,). In the programs of few features, s is an integer, z (m,) is 1 for features in use, t_j is
the cost of w_j, lam a scalar. A branch-and-bound node may fix features: g (m,) is 1 for required features,
else 0, and X has no excluded features. For integer coefficients, δ is a positive number, M an integer.

Programs
--------
subset_face is exact, with |w_j| ≤ R z_j and z of 0 and 1; R² = Σ C_i is the cost of w = 0, b = 0, so that
every optimal face has ‖w‖ ≤ R. subset_relaxation has z in [g, 1] and costs t_j ≥ w_j²/z_j for w_j², the
perspective of the square; multipliers are in brackets:

     min  Σ t_j + b² + Σ C_i ξ_i    s.t.  y_i (w·x_i + b) ≥ 1 − ξ_i [α_i],  ξ ≥ 0,  w_j² ≤ t_j z_j,
                                          Σ z_j ≤ s [λ],  z_j ≤ 1 [μ_j],  z_j ≥ g_j [ν_j].

With z of 0 and 1 both programs are equal, but solvers, with a feasibility tolerance on w_j² ≤ 0, solve the
first more accurately. The least Σ_j t_j for given w is the square of the
s-support norm, for small w_j like (Σ|w_j|)²/s.

subset_relaxation_dual has v_j = Σ_i α_i y_i x_ij and v_b = Σ_i α_i y_i:

     max  Σ α − ¼ v_b² − s λ − Σ μ_j + Σ g_j ν_j    s.t.  ¼ v_j² ≤ λ + μ_j − ν_j,  0 ≤ α ≤ C,  λ, μ, ν ≥ 0.

For a given alpha, the optimal λ, μ, ν give Σ α − ¼ (v_b² + Σ_{j∈S} v_j²), where S has the required features
and those s − Σ g others with the largest v_j². This value is a lower bound for every choice of s features
with the required ones among them: any such choice gives a value of this form, and S the least.

integer_face is exact, with p integer; integer_relaxation has p real, and integer_relaxation_dual is its dual.
Without the limits M the dual is that of the unrestricted face for any scale, Σ α − ¼ (v_b² + Σ_j v_j²). The
cost of an integer face less this value is an upper bound on its excess over the unrestricted face.

Recovery
--------
Few features: z are the multipliers of the dual's constraints on v_j²; w_j = ½ z_j v_j, b = ½ Σ α_i y_i, t_j =
¼ z_j v_j². Integer coefficients: p_j = (δ v_j − μ_j + ν_j)/(2δ²), b = ½ Σ α_i y_i,
ξ_i = [1 − y_i (δ p·x_i + b)]_+.

Multipliers
-----------
Few features: lam is the rate at which the relaxation's value falls as s rises; mu_j is the excess of ¼ v_j²
over lam for a feature in use, nu_j the shortfall for a required feature. Integer coefficients: mu_j and nu_j
are the rates at which the cost falls as M rises at feature j.

Infeasible when
---------------
Never for finite C and Σ g ≤ s: w = 0, ξ = 1 is feasible.

Reference
---------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), unconstrained form of eq. (6), for the face;
Argyriou, Foygel & Srebro, Sparse prediction with the k-support norm (2012), for the norm; Pilanci, Wainwright
& El Ghaoui, Sparse learning via Boolean relaxations (2015), for the relaxation; Ustun & Rudin, Supersparse
linear integer models for optimized medical scoring systems (2016), for integer coefficients. The programs are
derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_faces
>>> X, y = np.array([[2.0, 1.0], [-2.0, -1.0]]), np.array([1, -1])  # the first feature alone separates better
>>> relaxed = cpm_faces.subset_relaxation(X, y, 1, C=10.0).solve()
>>> relaxed["z"].round(3) + 0.0, round(relaxed.objective, 6)
(array([1., 0.]), 0.25)
>>> X = np.array([[2.0, 1.1], [-2.0, -0.9]])
>>> cpm_faces.integer_relaxation(X, y, 0.2, 1, C=10.0).solve()["p"].round(3)  # both at the limit M
array([1., 1.])
"""

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.cpm import FACE_LETTERS, PAPER, SOURCE
from formulations.language.arguments import positive, whole
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import as_data, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.svm import alpha_rows, cost_parameter, margin_rows

_SUBSET_LETTERS = {  # meaning of the letters in printed formulas
    **FACE_LETTERS,
    "s": "the largest number of features",
    "gⱼ": "1 if feature $j$ is required, else 0",
    "w, b": "the face of the primal",
}
_SUBSET_SOURCE = f"{PAPER}, {SOURCE}, with at most s features"
_INTEGER_LETTERS = {
    **FACE_LETTERS,
    "δ": "> 0: the scale of the integers",
    "M": "the largest absolute value of the integers",
    "p, b": "the face of the primal",
}
_INTEGER_TITLE = "Convex polytope machine, one face of integer coefficients"
_INTEGER_SOURCE = f"{PAPER}, {SOURCE}, with integer coefficients"


def subset_face(X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0) -> Program:
    """State the face with at most s features, over all choices of them; SCIP solves it.

    Arguments as in :func:`formulations.cpm.face`, and s, at least 1.
    """
    X, y = as_data(X, y)
    whole("s", s)
    n, m = X.shape
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    z, costs = cp.Variable(m, name="z", boolean=True), cost_parameter(C, n)
    R = cp.CallbackParam(lambda: np.sqrt(costs.value.sum()), nonneg=True)
    rows = (
        *margin_rows(y, X @ w + b, xi, "w·xᵢ + b"),
        Row("count", cp.sum(z) <= float(s), "Σⱼ zⱼ ≤ s", "", ""),
        Row("upper", w <= R * z, "wⱼ ≤ R zⱼ", "", ""),
        Row("lower", -R * z <= w, "−R zⱼ ≤ wⱼ", "", ""),
    )
    return Program(
        name="cpm_subset.mixed_integer",
        title="Convex polytope machine, one face of few features",
        source=_SUBSET_SOURCE,
        objective=cp.Minimize(cp.sum_squares(w) + cp.square(b) + costs @ xi),
        objective_text="‖w‖² + b² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi, "z": z},
        rows=without_multipliers(rows),
        parameters={"C": costs},
        letters={**_SUBSET_LETTERS, "R": "= sqrt(Σᵢ Cᵢ)"},
        data={"x": X, "y": y, "s": float(s)},
    )


def subset_relaxation(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, given: ArrayLike | None = None
) -> Program:
    """State the perspective relaxation: its value is a lower bound for every choice of s features.

    Arguments as in :func:`subset_face`; `given` is g, 1 for required features, else 0, by default all 0.
    """
    X, y, g = _subset_data(X, y, s, given)
    n, m = X.shape
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    t, z, costs = cp.Variable(m, name="t"), cp.Variable(m, name="z"), cost_parameter(C, n)
    # w² ≤ t z as a cone, because w²/z has no gradient if both are 0.
    cone = cp.SOC(t + z, cp.vstack([2.0 * w, t - z]), axis=0)
    rows = (  # Row: name, constraint, printed text, letter and meaning of its multiplier
        *margin_rows(y, X @ w + b, xi, "w·xᵢ + b"),
        Row("feature", cone, "‖(2 wⱼ, tⱼ − zⱼ)‖ ≤ tⱼ + zⱼ", "cone",
            "under its first entry, for every j, minus the derivatives by $2 wⱼ$ and $tⱼ − zⱼ$"),
        Row("count", cp.sum(z) <= float(s), "Σⱼ zⱼ ≤ s", "lam", "rate at which the value falls with $s$"),
        Row("at_most", z <= 1, "zⱼ ≤ 1", "mu", "excess of feature j over $λ$"),
        Row("at_least", z >= g, "zⱼ ≥ gⱼ", "nu", "shortfall of required feature j below $λ$"),
    )  # fmt: skip
    return Program(
        name="cpm_subset.relaxation",
        title="Convex polytope machine, one face of few features, relaxed",
        source=f"{_SUBSET_SOURCE} (derived)",
        objective=cp.Minimize(cp.sum(t) + cp.square(b) + costs @ xi),
        objective_text="Σⱼ tⱼ + b² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi, "t": t, "z": z},
        rows=rows,
        parameters={"C": costs},
        letters=_SUBSET_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g},
    )


def subset_relaxation_dual(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, given: ArrayLike | None = None
) -> Program:
    """State the dual of :func:`subset_relaxation`; arguments as in the primal."""
    X, y, g = _subset_data(X, y, s, given)
    n, m = X.shape
    primal = subset_relaxation(X, y, s, C, g)
    alpha, lam = cp.Variable(n, name="alpha"), cp.Variable(name="lam")
    mu, nu = cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    rows = (
        Row("feature", 0.25 * cp.square(X.T @ cp.multiply(y, alpha)) <= lam + mu - nu,
            "¼ (Σᵢ αᵢ yᵢ xᵢⱼ)² ≤ λ + μⱼ − νⱼ", "z", "$zⱼ$, with $wⱼ = ½ zⱼ Σᵢ αᵢ yᵢ xᵢⱼ$"),
        *alpha_rows(alpha, primal.parameters["C"]),
        Row("count", lam >= 0, "λ ≥ 0", "unused", "$s − Σⱼ zⱼ$"),
        Row("at_most", mu >= 0, "μⱼ ≥ 0", "above", "$1 − zⱼ$"),
        Row("at_least", nu >= 0, "νⱼ ≥ 0", "below", "$zⱼ − gⱼ$"),
    )  # fmt: skip
    value = cp.sum(alpha) - 0.25 * cp.square(y @ alpha) - float(s) * lam - cp.sum(mu) + g @ nu
    text = "Σᵢ αᵢ − ¼ (Σᵢ αᵢ yᵢ)² − s λ − Σⱼ μⱼ + Σⱼ gⱼ νⱼ"
    return primal.dual(value, text, (alpha, lam, mu, nu), rows)


def _subset_data(
    X: MatrixLike, y: ArrayLike, s: int, given: ArrayLike | None
) -> tuple[Matrix, Vector, Vector]:
    """Return samples, labels and g, checked; by default no feature is required."""
    X, y = as_data(X, y)
    whole("s", s)
    shape = (X.shape[1],)
    g = np.zeros(shape) if given is None else np.asarray(given, dtype=float)
    if g.shape != shape or not np.isin(g, (0.0, 1.0)).all() or g.sum() > s:
        raise ValueError(f"given must be 0 or 1, of shape {shape}, with at most {s} ones")
    return X, y, g


def recover_subset(
    X: MatrixLike, y: ArrayLike, s: int, alpha: NDArray[Any], z: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return primal variables of the relaxation from the dual's alpha and its multipliers z."""
    X, y = as_data(X, y)
    z = np.clip(z, 0.0, 1.0)
    v = X.T @ (alpha * y)
    w, b = 0.5 * z * v, 0.5 * float(alpha @ y)
    return {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y), "t": 0.25 * z * v**2, "z": z}


def integer_face(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """State the face of integer coefficients at a fixed scale δ > 0, up to M ≥ 1; SCIP solves it.

    Arguments as in :func:`formulations.cpm.face`.
    """
    return _integer(X, y, scale, M, C, exact=True)


def integer_relaxation(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """State the face with real coefficients from −M to M; arguments as in :func:`integer_face`."""
    return _integer(X, y, scale, M, C, exact=False)


def _integer(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike, exact: bool) -> Program:
    """State the face of integer coefficients, or with exact=False its relaxation."""
    X, y = as_data(X, y)
    scale, M = positive("scale", scale), whole("M", M)
    n, m = X.shape
    p, b, xi = cp.Variable(m, name="p", integer=exact), cp.Variable(name="b"), cp.Variable(n, name="xi")
    costs = cost_parameter(C, n)
    meaning = "rate at which the cost falls as $M$ rises at feature j"
    rows = (
        *margin_rows(y, scale * (X @ p) + b, xi, "δ p·xᵢ + b"),
        Row("at_most", p <= float(M), "pⱼ ≤ M", "mu", meaning),
        Row("at_least", -float(M) <= p, "−M ≤ pⱼ", "nu", meaning),
    )
    return Program(
        name="cpm_integer.mixed_integer" if exact else "cpm_integer.relaxation",
        title=_INTEGER_TITLE if exact else f"{_INTEGER_TITLE}, relaxed",
        source=_INTEGER_SOURCE if exact else f"{_INTEGER_SOURCE} (derived)",
        objective=cp.Minimize(scale**2 * cp.sum_squares(p) + cp.square(b) + costs @ xi),
        objective_text="δ² ‖p‖² + b² + Σᵢ Cᵢ ξᵢ",
        variables={"p": p, "b": b, "xi": xi},
        rows=without_multipliers(rows) if exact else rows,
        parameters={"C": costs},
        letters=_INTEGER_LETTERS,
        data={"x": X, "y": y, "δ": scale, "M": float(M)},
    )


def integer_relaxation_dual(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """State the dual of :func:`integer_relaxation`; arguments as in the primal."""
    primal, (X, y) = integer_relaxation(X, y, scale, M, C), as_data(X, y)
    n, m = X.shape
    alpha, mu, nu = cp.Variable(n, name="alpha"), cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    gradient = scale * (X.T @ cp.multiply(y, alpha)) - mu + nu
    subtracted = float(M) * cp.sum(mu + nu) + cp.sum_squares(gradient) / (4.0 * scale**2)
    rows = (
        *alpha_rows(alpha, primal.parameters["C"]),
        Row("at_most", mu >= 0, "μⱼ ≥ 0", "above", "$M − pⱼ$"),
        Row("at_least", nu >= 0, "νⱼ ≥ 0", "below", "$M + pⱼ$"),
    )
    objective = cp.sum(alpha) - 0.25 * cp.square(y @ alpha) - subtracted
    text = "Σᵢ αᵢ − ¼ (Σᵢ αᵢ yᵢ)² − M Σⱼ (μⱼ + νⱼ) − 1/(4 δ²) Σⱼ (δ Σᵢ αᵢ yᵢ xᵢⱼ − μⱼ + νⱼ)²"
    return primal.dual(objective, text, (alpha, mu, nu), rows)


def recover_integer(
    X: MatrixLike, y: ArrayLike, scale: float, alpha: NDArray[Any], mu: NDArray[Any], nu: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Return primal variables p, b and xi of the relaxation from the dual's alpha (n,), mu and nu (m,)."""
    X, y = as_data(X, y)
    p, b = (scale * (X.T @ (alpha * y)) - mu + nu) / (2.0 * scale**2), 0.5 * float(alpha @ y)
    return {"p": p, "b": np.array(b), "xi": slacks(scale * (X @ p) + b, y)}


def pairs(seed: int = 0) -> list[Duality]:
    """Return the relaxations on random data with their duals; the first has one required feature."""
    X, y = two_blobs(n=40, m=6, seed=seed)
    C, s, given = np.where(y > 0, 0.3, 0.2), 2, np.eye(6)[-1]
    dual = subset_relaxation_dual(X, y, s, C, given)

    def recovered(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return recover_subset(X, y, s, v["alpha"], dual.rows[0].multipliers)  # of the last solve

    subset = Duality(subset_relaxation(X, y, s, C, given), dual, recovered)
    X2, y2 = two_blobs(m=4, seed=seed)
    arguments = (X2, y2, 0.3, 2, np.where(y2 > 0, 1.0, 0.7))
    integer = Duality(
        integer_relaxation(*arguments),
        integer_relaxation_dual(*arguments),
        lambda v: recover_integer(X2, y2, 0.3, v["alpha"], v["mu"], v["nu"]),
    )
    return [subset, integer]


def singles(seed: int = 0) -> list[Program]:
    """Return the exact programs, which have no dual, on random data."""
    X, y = two_blobs(n=20, m=5, seed=seed)
    X2, y2 = two_blobs(n=20, m=4, seed=seed)
    return [
        subset_face(X, y, 2, np.where(y > 0, 0.3, 0.2)),
        integer_face(X2, y2, 0.3, 3, np.where(y2 > 0, 1.0, 0.7)),
    ]
