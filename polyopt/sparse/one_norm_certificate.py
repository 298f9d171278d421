"""Certificate of the one-norm SVM, a linear program over the expansion coefficients.

min  Σ α_j + Σ C_i ξ_i   s.t.  y_i (Σ_j K_ij y_j α_j + b) ≥ 1 − ξ_i [u],  ξ ≥ 0,  0 ≤ α ≤ C
max  Σ u_i − Σ C_j [y_j (K'Yu)_j − 1]_+   s.t.  0 ≤ u ≤ C,  Σ y_i u_i = 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.families import best_intercept
from formulations.l0_data import column_sizes
from formulations.language.arguments import real_array, tolerance
from formulations.language.recovery import as_costs, as_data, slacks
from formulations.language.types import dense
from polyopt.certificates.certificate import Certificate, Residual, conclude, residual
from polyopt.certificates.points import checked_number, checked_vector
from polyopt.linalg.rounding import Ball
from polyopt.sparse import expansion_terms as expansion

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import Vector

__all__ = ["certify_one_norm"]

_BROKEN = "The point breaks its box; the value is of the point clipped to it."
_REPAIRED = "The value is of the point clipped to its box."


def certify_one_norm(
    K: ArrayLike, y: ArrayLike, C: ArrayLike, *, alpha: ArrayLike, b: float | None = None,
    u: ArrayLike | None = None, tol: float = 1e-6, entry_error: float | Vector = 0.0,
) -> Certificate:  # fmt: skip
    """Certify a point of the one-norm SVM.

    Parameters
    ----------
    K, y
        As in :func:`formulations.one_norm.primal`.
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
        Relative tolerance, between 0 and 1.
    entry_error : float or ndarray of shape (n, n)
        How far the entries of K may be from those of the kernel that is meant; the certificate is then about
        every matrix within it. By default K itself is meant.

    Raises
    ------
    ValueError
        Shapes that do not fit, numbers that are not finite, costs that are negative or all zero.
    """
    given, y = as_data(K, y)
    K = dense(given)
    if K.shape[1] != len(y):
        raise ValueError(f"K must be square, not of shape {K.shape}")
    costs, tol = as_costs(C, len(y)), tolerance(tol)
    alpha = real_array("alpha", alpha, y.shape)
    b, u = checked_number("b", b), checked_vector("u", u, y.shape)
    if not (np.isfinite(entry_error).all() and np.min(entry_error) >= 0.0):
        raise ValueError(f"entry_error must be finite and not negative, not {entry_error!r}")
    inside = np.clip(alpha, 0.0, costs)
    b = best_intercept(K @ (y * inside), y, costs) if b is None else b
    f = expansion.outputs(K, y * inside, b, entry_error)
    primal = expansion.loss(f, y, costs)
    if inside.any():
        primal = Ball(inside).sum() + primal
    largest = float(np.abs(alpha).max()) or float(costs.max())
    residuals = [
        residual("primal", "sign", -alpha, largest),
        residual("primal", "cap", alpha - costs, largest),
    ]
    feasible = all(r.relative <= tol for r in residuals)
    notes = [_BROKEN] if not feasible else [_REPAIRED] if (inside != alpha).any() else []

    multipliers = _solve_dual(K, y, costs) if u is None else u
    feasible_u = expansion.balanced(multipliers, y, costs)
    computed = y * (K.T @ (y * feasible_u.mid))
    rates = expansion.rates(computed, *column_sizes(K, entry_error), feasible_u)
    dual = feasible_u.sum() - (rates - 1.0).positive().dot(costs)
    if float(dual.lower) < 0.0:  # what u = 0 proves
        dual = Ball(0.0)
    if u is not None:
        residuals += _dual_residuals(y, costs, u)
        scale = max(abs(float(primal.mid)), abs(float(dual.mid)))
        residuals += _complementarity(K, y, costs, inside, f.mid, u, scale)
    return conclude("one_norm.primal", primal, dual, residuals, tol, feasible=feasible, notes=notes)


def _solve_dual(K: Vector, y: Vector, costs: Vector) -> Vector:
    from formulations.one_norm import dual

    return np.asarray(dual(K, y, costs).solve().primal.get("u", np.zeros(len(y))))


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
    """The products whose sum is the gap; `reduced` is minus the reduced costs of the coefficients."""
    scale = objective or float(costs.sum())
    xi = slacks(f, y)
    reduced = y * (K.T @ (y * u)) - 1.0
    return [
        residual("complementarity", "margin", np.abs(u * (y * f - 1.0 + xi)), scale),
        residual("complementarity", "slack", np.abs((costs - u) * xi), scale),
        residual("complementarity", "sign", np.abs(alpha * np.maximum(-reduced, 0.0)), scale),
        residual("complementarity", "cap", np.abs((costs - alpha) * np.maximum(reduced, 0.0)), scale),
    ]
