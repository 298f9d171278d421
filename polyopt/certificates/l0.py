"""Certificate of the L0 support vector machine, and the bounds that multipliers prove on its scores.

For fixed multipliers u of the margin rows, 0 ≤ u ≤ w and Σ y_i u_i = 0, with r_j = [t_j (K'Yu)_j]_+,

    L(σ) ≥ Σ u − C Σ_j σ_j r_j           for every pattern σ: a cut, tight where u is optimal,
    S(σ') ≥ C Σ u − Σ_j σ_j [C² r_j − 1]_+    for every σ' within σ, since each centre used costs 1.

At σ = 1 the second bounds every score; the u of the relaxation, over C, makes the most of it. Any numbers do
for u: they are clipped to their caps and balanced first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.l0 import L0Data, as_l0_data
from formulations.recovery import best_intercept, slacks
from polyopt.certificates.certificate import Certificate, Claim, Residual, relative_gap, residual
from polyopt.certificates.hinge import balancing

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]

__all__ = ["certify_l0", "cut_of", "score_bound"]

_BROKEN = "The point breaks its box; the value is of the point clipped to it."
_OTHERS = "Another pattern may have a lower score."
_WORD = "The bound is the integer solver's word."
_REFUTED = "The bound given is above the value of a feasible point, so it is ignored."


def cut_of(data: L0Data, u: Vector) -> tuple[float, Vector]:
    """The cut that multipliers prove: L(σ) ≥ constant − slopes·σ for every pattern σ.

    Parameters
    ----------
    data : L0Data
        The problem.
    u : ndarray of shape (n,)
        Multipliers of the margin rows, of any pattern's program; repaired where they are not feasible.

    Returns
    -------
    constant : float
        Σ u.
    slopes : ndarray of shape (p,)
        C [t_j (K'Yu)_j]_+, never negative.
    """
    u = np.clip(u, 0.0, data.weights)
    s_plus, s_minus = balancing(u[data.y > 0].sum(), u[data.y < 0].sum())
    u = u * np.where(data.y > 0, s_plus, s_minus)
    return float(u.sum()), data.C * np.maximum(data.rates(u), 0.0)


def score_bound(data: L0Data, u: Vector) -> float:
    """A bound from below on the score of every pattern; arguments as in :func:`cut_of`.

    At the multipliers of the relaxation divided by C it is the value of the relaxation.
    """
    constant, slopes = cut_of(data, u)
    return data.C * constant - float(np.maximum(data.C * slopes - 1.0, 0.0).sum())


def certify_l0(
    K: Any,
    y: ArrayLike,
    C: float = 1.0,
    *,
    alpha: ArrayLike,
    b: float | None = None,
    weights: ArrayLike | None = None,
    centres: ArrayLike | None = None,
    u: ArrayLike | None = None,
    v: ArrayLike | None = None,
    bound: float | None = None,
    tol: float = 1e-6,
) -> Certificate:
    """Certify a point of the L0 support vector machine (:mod:`formulations.l0_svm`).

    Parameters
    ----------
    K : array_like of shape (n, p)
        ``K[i, j] = k(x_i, t_j)``; any matrix.
    y : array_like of shape (n,)
        Labels -1 and +1.
    C : float
        Price of loss, and cap of the coefficients.
    alpha : array_like of shape (p,)
        Coefficients. The pattern is their support; what is under 1e-7 of the cap is taken as zero.
    b : float, optional
        Intercept; by default the best one for alpha.
    weights : array_like of shape (n,), optional
        What each sample counts in the loss.
    centres : array_like of shape (p,), optional
        Labels of the centres; by default they are the samples.
    u : array_like of shape (n,), optional
        Multipliers of the margin rows in the program of the pattern. By default its dual is solved for them;
        only their dual value, evaluated here, enters the certificate.
    v : array_like of shape (n,), optional
        Multipliers of the margin rows in the relaxation, which bound the score of every pattern.
    bound : float, optional
        A bound on every score that an integer solver states; it cannot be checked here, and the note says so.
    tol : float
        Relative tolerance for the gap and for every residual.

    Returns
    -------
    Certificate
        With a bound on every score (`v` or `bound`): ``optimal`` if the point attains it, else
        ``suboptimal_by``. Without: ``stationary`` if the point is optimal for its pattern, else
        ``suboptimal_by``, for that pattern. ``none`` for coefficients outside their box.

    Raises
    ------
    ValueError
        Shapes that do not fit, or numbers that are not finite.
    """
    data = as_l0_data(K, y, C, weights, centres)
    given = _vector("alpha", alpha, data.centres)
    at = np.clip(given, 0.0, data.C)
    pattern = data.support(at)
    at = np.where(pattern, at, 0.0)
    g = data.outputs(at, 0.0)
    b = best_intercept(g, data.y, data.weights) if b is None else float(b)
    value = data.score(at, b)
    residuals = [
        residual("primal", "sign", -given, data.C),
        residual("primal", "cap", given - data.C, data.C),
    ]
    feasible = all(r.relative <= tol for r in residuals)

    of_pattern = _vector("u", u, data.y) if u is not None else _solve_dual(data, pattern)
    constant, slopes = cut_of(data, of_pattern)
    least = float(pattern.sum()) + data.C * max(constant - float(slopes[pattern].sum()), 0.0)
    residuals.append(residual("stationarity", "pattern", np.array(value - least), value))
    if u is not None:
        residuals += _conditions(data, at, g + b, of_pattern, pattern, value / data.C)

    notes = [] if feasible else [_BROKEN]
    bounds = [] if v is None else [max(score_bound(data, _vector("v", v, data.y) / data.C), 0.0)]
    if bound is not None:
        if bound > value + tol * abs(value):
            notes.append(_REFUTED)
        elif not np.isnan(bound):
            notes += [_WORD] if bound > max(bounds, default=-np.inf) else []
            bounds.append(float(bound))
    proven = all(r.relative <= tol for r in residuals)
    if not feasible:
        claim = Claim.NONE
    elif bounds:
        attained = proven and relative_gap(value, max(bounds)) <= tol
        claim = Claim.OPTIMAL if attained else Claim.SUBOPTIMAL_BY
    else:
        claim = Claim.STATIONARY if proven else Claim.SUBOPTIMAL_BY
        notes.append(_OTHERS)
    return Certificate(
        program="the L0 support vector machine",
        claim=claim,
        primal_value=value,
        dual_value=max(bounds) if bounds else least,
        residuals=tuple(residuals),
        tol=tol,
        scope="the program" if bounds else "its pattern",
        note=" ".join(notes),
    )


def _vector(name: str, values: ArrayLike, like: Vector) -> Vector:
    given = np.asarray(values, dtype=float)
    if given.shape != like.shape or not np.isfinite(given).all():
        raise ValueError(f"{name} must be finite, of shape {like.shape}; its shape is {given.shape}")
    return given


def _solve_dual(data: L0Data, pattern: NDArray[np.bool_]) -> Vector:
    from formulations.l0_svm import pattern_dual

    found = pattern_dual(data.K, data.y, pattern, data.C, data.weights, data.centres).solve()
    return np.asarray(found.primal.get("u", np.zeros(len(data.y))))


def _conditions(
    data: L0Data, alpha: Vector, f: Vector, u: Vector, pattern: NDArray[np.bool_], scale: float
) -> list[Residual]:
    """Signs of the multipliers, their balance, and the products whose sum is the gap within the pattern."""
    largest, size = float(data.weights.max()), float(np.abs(u).sum())
    xi, off = slacks(f, data.y), abs(float(data.y @ u))
    r = np.where(pattern, data.rates(u), 0.0)
    return [
        residual("sign", "margin", -u, largest),
        residual("sign", "slack", u - data.weights, largest),
        Residual("stationarity", "b", off, off / size if size > 0 else off),
        residual("complementarity", "margin", np.abs(u * (data.y * f - 1.0 + xi)), scale),
        residual("complementarity", "slack", np.abs((data.weights - u) * xi), scale),
        residual("complementarity", "sign", np.abs(alpha * np.maximum(-r, 0.0)), scale),
        residual("complementarity", "cap", np.abs((data.C - alpha) * np.maximum(r, 0.0)), scale),
    ]
