"""Certificate of the one-norm SVM, a linear program over the expansion coefficients.

min  Σ α_j + Σ C_i ξ_i   s.t.  y_i (Σ_j K_ij y_j α_j + b) ≥ 1 − ξ_i [u],  ξ ≥ 0,  0 ≤ α ≤ C
max  Σ u_i − Σ C_j [y_j (K'Yu)_j − 1]_+   s.t.  0 ≤ u ≤ C,  Σ y_i u_i = 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.recovery import as_costs, as_data, best_intercept, slacks
from polyopt.certificates.certificate import Certificate, Residual, convex_claim, relative_gap, residual
from polyopt.certificates.hinge import balancing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["certify_one_norm"]


def certify_one_norm(
    K: ArrayLike,
    y: ArrayLike,
    C: ArrayLike,
    *,
    alpha: ArrayLike,
    b: float | None = None,
    u: ArrayLike | None = None,
    tol: float = 1e-6,
) -> Certificate:
    """Certify a point of the one-norm SVM.

    Parameters
    ----------
    K : array_like of shape (n, n)
        ``K[i, j] = k(x_i, x_j)``; neither symmetry nor semidefiniteness is needed.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float or array_like of shape (n,)
        Cost of slack, and cap on alpha.
    alpha : array_like of shape (n,)
        Expansion coefficients.
    b : float, optional
        Intercept; by default the best one for alpha.
    u : array_like of shape (n,), optional
        Multipliers of the margin rows. By default the dual program is solved for them; only their
        dual value, evaluated here, enters the certificate.
    tol : float
        Relative tolerance.
    """
    K, y = as_data(K, y)
    K = np.asarray(K)
    costs = as_costs(C, len(y))
    alpha = np.asarray(alpha, dtype=float)
    g = K @ (y * alpha)
    b = best_intercept(g, y, costs) if b is None else float(b)
    f = g + b
    largest = float(np.abs(alpha).max()) or float(costs.max())
    residuals = [
        residual("primal", "sign", -alpha, largest),
        residual("primal", "cap", alpha - costs, largest),
    ]
    feasible = all(r.relative <= tol for r in residuals)
    inside = np.clip(alpha, 0.0, costs)
    primal_value = float(inside.sum() + costs @ slacks(K @ (y * inside) + b, y))

    given = u is not None
    if u is None:
        from formulations.svm import one_norm_dual

        u = one_norm_dual(K, y, costs).solve().primal.get("u", np.zeros(len(y)))
    u = np.asarray(u, dtype=float)
    repaired = np.clip(u, 0.0, costs)
    s_plus, s_minus = balancing(repaired[y > 0].sum(), repaired[y < 0].sum())
    repaired = repaired * np.where(y > 0, s_plus, s_minus)
    dual_value = float(repaired.sum() - costs @ np.maximum(y * (K.T @ (y * repaired)) - 1.0, 0.0))
    if given:
        residuals += _dual_residuals(y, costs, u)
        residuals += _complementarity(K, y, costs, alpha, f, u, max(abs(primal_value), abs(dual_value)))
    return Certificate(
        program="svm.one_norm",
        claim=convex_claim(feasible, residuals, relative_gap(primal_value, dual_value), tol),
        primal_value=primal_value,
        dual_value=dual_value,
        residuals=tuple(residuals),
        tol=tol,
        scope="svm.one_norm",
        note="" if feasible else "The point breaks its box; the value is of the point clipped to it.",
    )


def _dual_residuals(y: Vector, costs: Vector, u: Vector) -> list[Residual]:
    scale = float(np.abs(u).max()) or float(costs.max())
    total, size = abs(float(y @ u)), float(np.abs(u).sum())
    return [
        residual("sign", "margin", -u, scale),
        residual("sign", "slack", u - costs, scale),
        Residual("stationarity", "b", total, total / size if size > 0 else total),
    ]


def _complementarity(
    K: Vector, y: Vector, costs: Vector, alpha: Vector, f: Vector, u: Vector, objective: float
) -> list[Residual]:
    """The products whose sum is the gap; `reduced` is what coefficient j would earn less its price."""
    scale = objective or float(costs.sum())
    xi = slacks(f, y)
    reduced = y * (K.T @ (y * u)) - 1.0
    return [
        residual("complementarity", "margin", np.abs(u * (y * f - 1.0 + xi)), scale),
        residual("complementarity", "slack", np.abs((costs - u) * xi), scale),
        residual("complementarity", "sign", np.abs(alpha * np.maximum(-reduced, 0.0)), scale),
        residual("complementarity", "cap", np.abs((costs - alpha) * np.maximum(reduced, 0.0)), scale),
    ]
