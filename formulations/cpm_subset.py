"""A face of the Convex Polytope Machine with at most s features: exact, relaxed, and the relaxation's dual.

Problem
-------
With the assignment fixed and loss="sum" the faces are independent (:mod:`formulations.cpm`). Here a face
may use s of the m features, whichever are best for it; the bias is free for all, and penalised as ever:

     min  ‖w‖² + b² + Σ C_i [1 − y_i (w·x_i + b)]_+     s.t.  ‖w‖₀ ≤ s.

Variables and shapes
--------------------
w (m,), b scalar, xi (n,); z (m,) says which features are used, and t_j pays for w_j² where it is. alpha (n,),
lam scalar, mu (m,), nu (m,) in the dual. X is (n, m), y is (n,) of -1 and +1, C a scalar or (n,), s a whole
number. g (m,) of 0 and 1 says which features are in for certain, as at a node of a search; a feature that is
out is left out of X.

Programs
--------
mixed_integer is exact, with z of 0 and 1; R² = Σ C_i is what w = 0, b = 0 costs, so that no optimal face is
longer than R. relaxation has z in [0, 1] and no R: t_j ≥ w_j²/z_j is what feature j costs, the perspective of
its square. With z of 0 and 1 both are the same, but a solver, to which w_j² ≤ 10⁻⁹ is w_j = 0, finds the
first more exactly. What the relaxation pays for w is the square of its s-support norm, for small w_j like
(Σ|w_j|)²/s.

relaxation_dual has v_j = Σ_i α_i y_i x_ij. For a given alpha the best λ, μ, ν leave

     Σ α − ¼ (v_b² + Σ_{j in} v_j² + the s − |in| largest v_j² of the others),

which is a bound on the optimum for every choice of s features that has those in it: a face of the features S
has the dual value Σ α − ¼ (v_b² + Σ_{j∈S} v_j²) at alpha, and S cannot take more off than the largest.

Recovery
--------
z are the multipliers of the dual's row feature; w_j = ½ z_j v_j, b = ½ Σ α_i y_i, t_j = ¼ z_j v_j².

Multipliers
-----------
lam is what one more feature would save, at first, in the relaxation; mu_j what feature j is worth above that,
nu_j by how much it falls short of it where it must be in.

Infeasible when
---------------
Never for finite C and Σ g ≤ s: w = 0, ξ = 1 is feasible.

Reference
---------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), unconstrained form of eq. (6), for the face;
Argyriou, Foygel & Srebro, Sparse prediction with the k-support norm (2012), for the norm; Pilanci, Wainwright
& El Ghaoui, Sparse learning via Boolean relaxations (2015), for the relaxation. The programs are derived
here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_subset
>>> X, y = np.array([[2.0, 1.0], [-2.0, -1.0]]), np.array([1, -1])  # the first feature alone separates better
>>> relaxed = cpm_subset.relaxation(X, y, 1, C=10.0).solve()
>>> relaxed["z"].round(3) + 0.0, round(relaxed.objective, 6)
(array([1., 0.]), 0.25)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.cpm import ONE_FACE_LETTERS, PAPER, SOURCE
from formulations.language.arguments import whole
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import as_data, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.svm import alpha_rows, cost_parameter, margin_rows

_LETTERS = {
    **ONE_FACE_LETTERS,
    "s": "how many features the face may use",
    "gⱼ": "1 where feature $j$ is in for certain, else 0",
    "w, b": "the face of the primal",
}
_SOURCE = f"{PAPER}, {SOURCE}, with at most s features"


def mixed_integer(X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0) -> Program:
    """The face with at most s features, over all choices of them; SCIP solves it.

    Parameters
    ----------
    X, y, C
        As in :func:`formulations.cpm.face`.
    s : int
        Features at most, at least 1.
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
        source=_SOURCE,
        objective=cp.Minimize(cp.sum_squares(w) + cp.square(b) + costs @ xi),
        objective_text="‖w‖² + b² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi, "z": z},
        rows=without_multipliers(rows),
        parameters={"C": costs},
        letters={**_LETTERS, "R": "= sqrt(Σᵢ Cᵢ)"},
        data={"x": X, "y": y, "s": float(s)},
    )


def relaxation(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, given: ArrayLike | None = None
) -> Program:
    """The perspective relaxation: its value is a bound on every choice of s features.

    Parameters
    ----------
    X, y, s, C
        As in :func:`mixed_integer`.
    given : array_like of shape (m,), optional
        g: 1 where a feature is in for certain. None is by default.
    """
    X, y, g = _few_data(X, y, s, given)
    n, m = X.shape
    w, b, xi = cp.Variable(m, name="w"), cp.Variable(name="b"), cp.Variable(n, name="xi")
    t, z, costs = cp.Variable(m, name="t"), cp.Variable(m, name="z"), cost_parameter(C, n)
    # As a cone: w²/z has no gradient where both are 0.
    cone = cp.SOC(t + z, cp.vstack([2.0 * w, t - z]), axis=0)
    rows = (
        *margin_rows(y, X @ w + b, xi, "w·xᵢ + b"),
        Row("feature", cone, "‖(2 wⱼ, tⱼ − zⱼ)‖ ≤ tⱼ + zⱼ", "cone",
            "under its first entry, for every j, minus what a change of $2 wⱼ$ and $tⱼ − zⱼ$ would save"),
        Row("count", cp.sum(z) <= float(s), "Σⱼ zⱼ ≤ s", "lam", "what one more feature would save at first"),
        Row("most", z <= 1, "zⱼ ≤ 1", "mu", "what feature j is worth above that"),
        Row("least", z >= g, "zⱼ ≥ gⱼ", "nu", "what feature j falls short of that, where it must be in"),
    )  # fmt: skip
    return Program(
        name="cpm_subset.relaxation",
        title="Convex polytope machine, one face of few features, relaxed",
        source=f"{_SOURCE} (derived)",
        objective=cp.Minimize(cp.sum(t) + cp.square(b) + costs @ xi),
        objective_text="Σⱼ tⱼ + b² + Σᵢ Cᵢ ξᵢ",
        variables={"w": w, "b": b, "xi": xi, "t": t, "z": z},
        rows=rows,
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g},
    )


def relaxation_dual(
    X: MatrixLike, y: ArrayLike, s: int, C: ArrayLike = 1.0, given: ArrayLike | None = None
) -> Program:
    """Dual of :func:`relaxation`; arguments as in the primal."""
    X, y, g = _few_data(X, y, s, given)
    n, m = X.shape
    alpha, lam = cp.Variable(n, name="alpha"), cp.Variable(name="lam")
    mu, nu = cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    costs = cost_parameter(C, n)
    rows = (
        Row("feature", 0.25 * cp.square(X.T @ cp.multiply(y, alpha)) <= lam + mu - nu,
            "¼ (Σᵢ αᵢ yᵢ xᵢⱼ)² ≤ λ + μⱼ − νⱼ", "z", "how far feature j is used: $wⱼ = ½ zⱼ Σᵢ αᵢ yᵢ xᵢⱼ$"),
        *alpha_rows(alpha, costs),
        Row("count", lam >= 0, "λ ≥ 0", "rest", "how many features are left over"),
        Row("most", mu >= 0, "μⱼ ≥ 0", "above", "$1 − zⱼ$"),
        Row("least", nu >= 0, "νⱼ ≥ 0", "below", "$zⱼ − gⱼ$"),
    )  # fmt: skip
    paid = cp.sum(alpha) - 0.25 * cp.square(y @ alpha) - float(s) * lam - cp.sum(mu) + g @ nu
    return Program(
        name="cpm_subset.relaxation_dual",
        title="Convex polytope machine, one face of few features, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(paid),
        objective_text="Σᵢ αᵢ − ¼ (Σᵢ αᵢ yᵢ)² − s λ − Σⱼ μⱼ + Σⱼ gⱼ νⱼ",
        variables={"alpha": alpha, "lam": lam, "mu": mu, "nu": nu},
        rows=rows,
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "s": float(s), "g": g},
    )


def _few_data(
    X: MatrixLike, y: ArrayLike, s: int, given: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Samples, labels and g, checked."""
    X, y = as_data(X, y)
    whole("s", s)
    shape = (X.shape[1],)
    g = np.zeros(shape) if given is None else np.asarray(given, dtype=float)
    if g.shape != shape or not np.isin(g, (0.0, 1.0)).all() or g.sum() > s:
        raise ValueError(f"given must be numbers of 0 and 1, of shape {shape}, at most {s} of them 1")
    return X, y, g


def recover(
    X: MatrixLike, y: ArrayLike, s: int, alpha: NDArray[Any], z: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Primal variables w, b, xi, t and z of the relaxation from the dual's alpha, and its row feature's z."""
    X, y = as_data(X, y)
    z = np.clip(z, 0.0, 1.0)
    v = X.T @ (alpha * y)
    w, b = 0.5 * z * v, 0.5 * float(alpha @ y)
    return {"w": w, "b": np.array(b), "xi": slacks(X @ w + b, y), "t": 0.25 * z * v**2, "z": z}


def _sample(
    seed: int, n: int, m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    X, y = two_blobs(n=n, m=m, seed=seed)
    return X, y, np.where(y > 0, 0.3, 0.2)


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with one feature that is in for certain, and its dual."""
    X, y, C = _sample(seed, 40, 6)
    s, given = 2, np.eye(6)[-1]
    dual = relaxation_dual(X, y, s, C, given)

    def recovered(v: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return recover(X, y, s, v["alpha"], dual.rows[0].multipliers)  # as the last solve left them

    return [Duality(relaxation(X, y, s, C, given), dual, recovered)]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y, C = _sample(seed, 20, 5)
    return [mixed_integer(X, y, 2, C)]
