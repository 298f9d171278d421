"""A face of the Convex Polytope Machine with small whole numbers for coefficients.

Problem
-------
A face reads best as `2 age + 3 bmi − chol > 41.5`: whole numbers p_j from −M to M, a scale δ > 0 that all of
them share, and a threshold. As a face of the machine (:mod:`formulations.cpm`) it has the weights w = δ
p; its bias b is a real number, and −b/δ the threshold. For a fixed scale

     min  δ² ‖p‖² + b² + Σ C_i [1 − y_i (δ p·x_i + b)]_+     over whole p from −M to M and b

is a mixed-integer quadratic program. Over the scale there is one more number to search.

Variables and shapes
--------------------
p (m,), b scalar, xi (n,); alpha (n,), mu (m,), nu (m,) in the dual. X is (n, m), y is (n,) of -1 and +1, C a
scalar or (n,), δ a positive number, M a whole one.

Programs
--------
mixed_integer is exact, with p whole; relaxation has p real, and relaxation_dual is its dual. Without the
limits M, for whatever scale, that is the dual of the face itself, Σ α − ¼ ‖Σ α_i y_i x̃_i‖²: what a face of
whole numbers costs beyond the value of that at some α is at least what whole numbers can have lost.

Recovery
--------
p_j = (δ v_j − μ_j + ν_j)/(2δ²), b = ½ Σ α_i y_i, ξ_i = [1 − y_i (δ p·x_i + b)]_+.

Multipliers
-----------
alpha as of the face; mu_j and nu_j are what a larger M would save at feature j.

Infeasible when
---------------
Never: p = 0, b = 0, ξ = 1 is feasible.

Reference
---------
Kantchelian et al., Large-Margin Convex Polytope Machine (2014), unconstrained form of eq. (6), for the face;
Ustun & Rudin, Supersparse linear integer models for optimized medical scoring systems (2016), for whole
coefficients. The programs are derived here.

Example
-------
>>> import numpy as np
>>> from formulations import cpm_integer
>>> X, y = np.array([[2.0, 1.1], [-2.0, -0.9]]), np.array([1, -1])
>>> cpm_integer.relaxation(X, y, 0.2, 1, C=10.0).solve()["p"].round(3)  # both numbers at their limit
array([1., 1.])
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.cpm import ONE_FACE_LETTERS, PAPER, SOURCE
from formulations.language.arguments import positive, whole
from formulations.language.program import Duality, Program, Row, without_multipliers
from formulations.language.recovery import as_data, slacks
from formulations.language.toy_data import two_blobs
from formulations.language.types import MatrixLike
from formulations.svm import alpha_rows, cost_parameter, margin_rows

_LETTERS = {
    **ONE_FACE_LETTERS,
    "δ": "> 0: the scale of the whole numbers",
    "M": "the largest of the whole numbers",
    "p, b": "the face of the primal",
}
_TITLE = "Convex polytope machine, one face of whole coefficients"
_SOURCE = f"{PAPER}, {SOURCE}, with whole coefficients"
_SAYS = "what a larger M would save at feature j"


def mixed_integer(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """The face of whole coefficients at a fixed scale; SCIP solves it.

    Parameters
    ----------
    X, y, C
        As in :func:`formulations.cpm.face`.
    scale : float
        δ, positive.
    M : int
        The largest coefficient, at least 1.
    """
    return _face(X, y, scale, M, C, exact=True)


def relaxation(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """The same with real coefficients from −M to M; arguments as in :func:`mixed_integer`."""
    return _face(X, y, scale, M, C, exact=False)


def _face(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike, exact: bool) -> Program:
    X, y, scale, M = _checked(X, y, scale, M)
    n, m = X.shape
    p, b, xi = cp.Variable(m, name="p", integer=exact), cp.Variable(name="b"), cp.Variable(n, name="xi")
    costs = cost_parameter(C, n)
    rows = (
        *margin_rows(y, scale * (X @ p) + b, xi, "δ p·xᵢ + b"),
        Row("most", p <= float(M), "pⱼ ≤ M", "mu", _SAYS),
        Row("least", -float(M) <= p, "−M ≤ pⱼ", "nu", _SAYS),
    )
    return Program(
        name="cpm_integer.mixed_integer" if exact else "cpm_integer.relaxation",
        title=_TITLE if exact else f"{_TITLE}, relaxed",
        source=_SOURCE if exact else f"{_SOURCE} (derived)",
        objective=cp.Minimize(scale**2 * cp.sum_squares(p) + cp.square(b) + costs @ xi),
        objective_text="δ² ‖p‖² + b² + Σᵢ Cᵢ ξᵢ",
        variables={"p": p, "b": b, "xi": xi},
        rows=without_multipliers(rows) if exact else rows,
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "δ": scale, "M": float(M)},
    )


def _checked(
    X: MatrixLike, y: ArrayLike, scale: float, M: int
) -> tuple[NDArray[Any], NDArray[Any], float, int]:
    X, y = as_data(X, y)
    return X, y, positive("scale", scale), whole("M", M)


def relaxation_dual(X: MatrixLike, y: ArrayLike, scale: float, M: int, C: ArrayLike = 1.0) -> Program:
    """Dual of :func:`relaxation`; arguments as in the primal."""
    X, y, scale, M = _checked(X, y, scale, M)
    n, m = X.shape
    alpha, mu, nu = cp.Variable(n, name="alpha"), cp.Variable(m, name="mu"), cp.Variable(m, name="nu")
    costs, pull = cost_parameter(C, n), scale * (X.T @ cp.multiply(y, alpha)) - mu + nu
    paid = float(M) * cp.sum(mu + nu) + cp.sum_squares(pull) / (4.0 * scale**2)
    return Program(
        name="cpm_integer.relaxation_dual",
        title=f"{_TITLE}, relaxed, dual",
        source=f"{_SOURCE} (derived)",
        objective=cp.Maximize(cp.sum(alpha) - 0.25 * cp.square(y @ alpha) - paid),
        objective_text="Σᵢ αᵢ − ¼ (Σᵢ αᵢ yᵢ)² − M Σⱼ (μⱼ + νⱼ) − 1/(4 δ²) Σⱼ (δ Σᵢ αᵢ yᵢ xᵢⱼ − μⱼ + νⱼ)²",
        variables={"alpha": alpha, "mu": mu, "nu": nu},
        rows=(
            *alpha_rows(alpha, costs),
            Row("most", mu >= 0, "μⱼ ≥ 0", "above", "$M − pⱼ$"),
            Row("least", nu >= 0, "νⱼ ≥ 0", "below", "$M + pⱼ$"),
        ),
        parameters={"C": costs},
        letters=_LETTERS,
        data={"x": X, "y": y, "δ": scale, "M": float(M)},
    )


def recover(
    X: MatrixLike, y: ArrayLike, scale: float, alpha: NDArray[Any], mu: NDArray[Any], nu: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    """Primal variables p, b and xi of the relaxation from the dual's alpha (n,), mu and nu (m,)."""
    X, y = as_data(X, y)
    p, b = (scale * (X.T @ (alpha * y)) - mu + nu) / (2.0 * scale**2), 0.5 * float(alpha @ y)
    return {"p": p, "b": np.array(b), "xi": slacks(scale * (X @ p) + b, y)}


def pairs(seed: int = 0) -> list[Duality]:
    """The relaxation on random data, with its dual."""
    X, y = two_blobs(m=4, seed=seed)
    C, scale, M = np.where(y > 0, 1.0, 0.7), 0.3, 2
    return [
        Duality(
            relaxation(X, y, scale, M, C),
            relaxation_dual(X, y, scale, M, C),
            lambda v: recover(X, y, scale, v["alpha"], v["mu"], v["nu"]),
        )
    ]


def singles(seed: int = 0) -> list[Program]:
    """The exact program, which has no dual, on random data."""
    X, y = two_blobs(n=20, m=4, seed=seed)
    return [mixed_integer(X, y, 0.3, 3, np.where(y > 0, 1.0, 0.7))]
