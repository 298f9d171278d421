"""Certificates of the L0 machine and of the one-norm SVM, and the lower bounds that multipliers prove.

The classifier is f(x_i) = Σ_j K_ij t_j α_j + b with centres j of label t_j, 0 ≤ α_j ≤ C. A 0-1 pattern σ (p,)
selects the centres that may be used; L(σ) is the least hinge loss Σ w_i ξ_i for a pattern, and S(σ) = 1'σ +
C L(σ) its score, which the L0 machine minimises. Both bounds are built from multipliers u of the margin
constraints, 0 ≤ u ≤ w and Σ y_i u_i = 0, and from the rates r_j = t_j (K'Yu)_j. With q_j = C [r_j]_+,

    L(σ) ≥ Σ u − Σ_j σ_j q_j           for every pattern σ: a cut, tight if u is optimal for σ;
    S(σ) ≥ C Σ u − Σ_j [C q_j − 1]_+   for every pattern σ, since each centre used costs 1.

The multipliers of the relaxation (σ in [0, 1]), divided by C, maximise the second. The one-norm SVM is

    min  Σ α_j + Σ C_i ξ_i   s.t.  y_i (Σ_j K_ij y_j α_j + b) ≥ 1 − ξ_i [u],  ξ ≥ 0,  0 ≤ α ≤ C
    max  Σ u_i − Σ C_j [y_j (K'Yu)_j − 1]_+   s.t.  0 ≤ u ≤ C,  Σ y_i u_i = 0.

u may be any numbers: they are clipped to their bounds and balanced (Σ y_i u_i = 0) first. Floating-point
numbers can rarely be balanced exactly, so the bound uses real numbers near the computed ones: the multipliers
of the class with the larger sum are scaled by the exact quotient of the sums (:func:`balanced`). Their
distance from the computed numbers is the radius of a ball, with which all later steps compute (Neumaier &
Shcherbina, Safe bounds in linear and mixed-integer linear programming, 2004).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations.families import best_intercept
from formulations.l0_data import L0Data, as_l0_data
from formulations.language.arguments import real_array, tolerance
from formulations.language.recovery import as_costs, as_data, slacks
from formulations.language.types import Vector, dense
from polyopt.certificates.certificate import Certificate, Claim, Residual, conclude, residual
from polyopt.certificates.points import balancing, checked_number, checked_vector
from polyopt.linalg.rounding import Ball, gamma, product

_INFEASIBLE = "The point breaks its box; the value is of the point clipped to it."
_CLIPPED = "The value is of the point clipped to its box"
UNDERFLOW = 2.0**-1000  # above the total underflow error of an inner product


def cut_of(data: L0Data, u: Vector) -> tuple[Ball, Ball]:
    """Return the constant Σ u and the slopes q (p,), not negative, of the cut L(σ) ≥ constant − q·σ.

    u (n,): multipliers of any pattern's program; made feasible if necessary. The cut is valid with the lower
    end of the constant and the upper ends of the slopes.
    """
    feasible = balanced(u, data.y, data.weights)
    return feasible.sum(), (data.C * rate_balls(data, feasible)).positive()


def score_bound(data: L0Data, u: Vector) -> float:
    """Bound the score of every pattern from below by multipliers u, as :func:`cut_of` takes them."""
    return float(_score_ball(data, u).lower)


def _score_ball(data: L0Data, u: Vector) -> Ball:
    constant, slopes = cut_of(data, u)
    return data.C * constant - (data.C * slopes - 1.0).positive().sum()


def certify_l0(
    K: ArrayLike, y: ArrayLike, C: float = 1.0, *, alpha: ArrayLike, b: float | None = None,
    weights: ArrayLike | None = None, centres: ArrayLike | None = None, u: ArrayLike | None = None,
    v: ArrayLike | None = None, bound: float | None = None, tol: float = 1e-6,
    entry_error: float | Vector = 0.0,
) -> Certificate:  # fmt: skip
    """Certify a point of the L0 support vector machine (:mod:`formulations.l0`).

    Parameters
    ----------
    K, y, weights, centres
        As in :func:`formulations.l0.pattern`.
    C : float
        Cost of loss, and upper bound of the coefficients.
    alpha : array_like of shape (p,)
        Coefficients. The pattern is their support; coefficients under 1e-9 of the cap count as zero.
    b : float, optional
        Intercept; by default the best one for alpha.
    u : array_like of shape (n,), optional
        Multipliers of the margin constraints in the program of the pattern. By default they are computed by
        solving its dual; then only their dual value, evaluated here, enters the certificate.
    v : array_like of shape (n,), optional
        Multipliers of the margin constraints in the relaxation, which bound the score of every pattern.
    bound : float, optional
        A bound on every score as stated by an integer solver. It cannot be checked here: if the point attains
        this bound only, the claim is ``solvers_word``.
    tol : float
        Relative tolerance for the gap and for every residual.
    entry_error : float or ndarray of shape (n, p)
        Bound on the distance of the entries of K from those of the kernel.

    Returns
    -------
    Certificate
        With a bound on every score (`v` or `bound`): ``optimal`` if the point attains a proven bound,
        ``solvers_word`` if it attains `bound`, else ``suboptimal_by``. Without: ``stationary`` if the point
        is optimal for its pattern, else ``suboptimal_by``, for that pattern. ``none`` for coefficients
        outside [0, C].
    """
    data = replace(as_l0_data(K, y, C, weights, centres), entry_error=_checked_error(entry_error))
    stated = checked_number("bound", bound, infinite=True)
    return certify_l0_data(data, alpha, b, u=u, v=v, stated=stated, tol=tol)


def certify_l0_data(
    data: L0Data, alpha: ArrayLike, b: float | None = None, *, u: ArrayLike | None = None,
    v: ArrayLike | None = None, searched: float | None = None, stated: float | None = None,
    tol: float = 1e-6,
) -> Certificate:  # fmt: skip
    """Certify a point, as :func:`certify_l0`, of checked data with bounds on the errors of K.

    searched: the bound on every score that the tree search proved from the data.
    stated: a bound that an integer solver states.
    """
    tol = tolerance(tol)
    point = real_array("alpha", alpha, data.centres.shape)
    pattern_u = checked_vector("u", u, data.y.shape)
    relaxation_v = checked_vector("v", v, data.y.shape)
    b = checked_number("b", b)
    clipped = np.clip(point, 0.0, data.C)
    pattern = data.support(clipped)
    clipped = np.where(pattern, clipped, 0.0)
    b = best_intercept(data.outputs(clipped, 0.0), data.y, data.weights) if b is None else b
    f = outputs(data.K, data.centres * clipped, b, data.entry_error)
    n_centres = float(pattern.sum())
    hinge_loss = loss(f, data.y, data.weights)
    has_loss = bool(hinge_loss.mid or hinge_loss.rad)
    value = n_centres + data.C * hinge_loss if has_loss else Ball(n_centres)  # exact without loss
    residuals = _box_residuals(point, data.C, data.C)
    feasible = all(each.relative <= tol for each in residuals)
    notes = [_INFEASIBLE] if not feasible else []
    if feasible and (clipped != point).any():
        notes = [f"{_CLIPPED}, without coefficients under 1e-9 of the cap."]

    multipliers = pattern_u
    if multipliers is None:
        from formulations.l0 import pattern_dual

        dual = pattern_dual(data.K, data.y, pattern, data.C, data.weights, data.centres)
        multipliers = dual.solve().primal.get("u", np.zeros(len(data.y)))  # zeros if no solver has a point
    constant, slopes = cut_of(data, multipliers)
    pattern_bound = n_centres + data.C * (constant - slopes[pattern].sum()).positive()
    if float(pattern_bound.lower) < n_centres:  # a loss is not negative
        pattern_bound = Ball(n_centres)
    size = float(value.mid)
    residuals.append(residual("stationarity", "pattern", value.mid - pattern_bound.mid, size))
    if pattern_u is not None:
        # The program of a pattern minimises the loss alone: the reduced cost of alpha_j is -r_j, and the
        # scale of the loss is that of the score divided by C.
        pattern_rates = np.where(pattern, data.rates(pattern_u), 0.0)
        unit, loss_scale = float(data.weights.max()), size / data.C
        residuals += _conditions(data, data.C, clipped, f.mid, pattern_u, pattern_rates, unit, loss_scale)

    best_bound = Ball(0.0)  # a score is not negative
    if relaxation_v is not None:
        relaxed = _score_ball(data, relaxation_v / data.C)
        best_bound = relaxed if relaxed.lower >= best_bound.lower else best_bound
    if searched is not None and Ball(searched).lower > best_bound.lower:
        best_bound = Ball(searched)
        notes.append("The bound is the least of the branch-and-bound leaves', each evaluated from the data.")
    is_global = relaxation_v is not None or searched is not None or stated is not None
    if not is_global:
        notes.append("Another pattern may have a lower score.")
    return conclude(
        "the L0 support vector machine", value, best_bound if is_global else pattern_bound, residuals, tol,
        feasible=feasible, reached=Claim.OPTIMAL if is_global else Claim.STATIONARY,
        scope="the program" if is_global else "its pattern", notes=notes, stated=stated,
    )  # fmt: skip


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
        Cost of slack, and upper bound of alpha.
    alpha : array_like of shape (n,)
        Expansion coefficients.
    b : float, optional
        Intercept; by default the best one for alpha.
    u : array_like of shape (n,), optional
        Multipliers of the margin constraints. By default they are computed by solving the dual program; then
        only their dual value, evaluated here, enters the certificate.
    tol : float
        Relative tolerance, between 0 and 1.
    entry_error : float or ndarray of shape (n, n)
        Bound on the distance of the entries of K from those of the kernel; the certificate is valid for every
        matrix within it.
    """
    matrix, y = as_data(K, y)
    K = dense(matrix)
    if K.shape[1] != len(y):
        raise ValueError(f"K must be square, not of shape {K.shape}")
    costs, tol = as_costs(C, len(y)), tolerance(tol)
    alpha = real_array("alpha", alpha, y.shape)
    b, u = checked_number("b", b), checked_vector("u", u, y.shape)
    data = L0Data(K, y, 1.0, costs, y, _checked_error(entry_error))
    clipped = np.clip(alpha, 0.0, costs)
    b = best_intercept(data.outputs(clipped, 0.0), y, costs) if b is None else b
    f = outputs(K, y * clipped, b, entry_error)
    primal = loss(f, y, costs)
    if clipped.any():
        primal = Ball(clipped).sum() + primal
    residuals = _box_residuals(alpha, costs, float(np.abs(alpha).max()) or float(costs.max()))
    feasible = all(each.relative <= tol for each in residuals)
    notes = [] if feasible else [_INFEASIBLE]
    if feasible and (clipped != alpha).any():
        notes = [f"{_CLIPPED}."]

    multipliers = u
    if multipliers is None:
        from formulations.one_norm import dual as dual_program

        multipliers = dual_program(K, y, costs).solve().primal.get("u", np.zeros(len(y)))
    feasible_u = balanced(multipliers, y, costs)
    dual = feasible_u.sum() - (rate_balls(data, feasible_u) - 1.0).positive().dot(costs)
    if float(dual.lower) < 0.0:  # u = 0 proves 0
        dual = Ball(0.0)
    if u is not None:
        scale = max(abs(float(primal.mid)), abs(float(dual.mid))) or float(costs.sum())
        unit = float(np.abs(u).max()) or float(costs.max())
        residuals += _conditions(data, costs, clipped, f.mid, u, data.rates(u) - 1.0, unit, scale)
    return conclude("one_norm.primal", primal, dual, residuals, tol, feasible=feasible, notes=notes)


def _box_residuals(alpha: Vector, caps: Vector | float, unit: float) -> list[Residual]:
    """Return the residuals of 0 ≤ alpha ≤ caps."""
    return [residual("primal", "sign", -alpha, unit), residual("primal", "cap", alpha - caps, unit)]


def _conditions(
    data: L0Data, caps: Vector | float, alpha: Vector, f: Vector, u: Vector, reduced: Vector, unit: float,
    scale: float,
) -> list[Residual]:  # fmt: skip
    """Return the residuals of 0 ≤ u ≤ weights, of the balance Σ y_i u_i = 0, and of complementarity.

    caps: upper bounds of alpha.
    reduced (p,): minus the reduced costs of alpha, that is the rates r less the cost of a unit of alpha.
    unit: scale of the violations of 0 ≤ u ≤ weights.
    scale: scale of the complementarity products, whose sum is the duality gap.
    """
    y, weights, xi = data.y, data.weights, slacks(f, data.y)
    imbalance, size = abs(float(y @ u)), float(np.abs(u).sum())
    products = {
        "margin": u * (y * f - 1.0 + xi),
        "slack": (weights - u) * xi,
        "sign": alpha * np.maximum(-reduced, 0.0),
        "cap": (caps - alpha) * np.maximum(reduced, 0.0),
    }
    return [
        residual("sign", "margin", -u, unit),
        residual("sign", "slack", u - weights, unit),
        Residual("stationarity", "b", imbalance, imbalance / size if size > 0 else imbalance),
        *(residual("complementarity", name, np.abs(each), scale) for name, each in products.items()),
    ]


def balanced(u: Vector, y: Vector, caps: Vector) -> Ball:
    """Return a ball of multipliers (n,) near `u` with 0 ≤ u ≤ caps and Σ y_i u_i = 0, exactly.

    The multipliers are clipped to their bounds, and those of the class with the larger sum are scaled down.
    """
    clipped, positive = np.clip(u, 0.0, caps), y > 0
    plus, minus = balancing(Ball(clipped[positive]).sum(), Ball(clipped[~positive]).sum())
    factors = Ball(np.where(positive, plus.mid, minus.mid), np.where(positive, plus.rad, minus.rad))
    return Ball(clipped) * factors


def rate_balls(data: L0Data, u: Ball) -> Ball:
    """Return the rates r_j = t_j Σ_i K_ij y_i u_i as balls, valid for every K within its errors."""
    n = len(u.mid)
    sizes, errors = data.column_sizes
    total, total_rad = float(np.abs(u.mid).sum()), float(u.rad.sum())
    # Rounding of the product, radii of u, and errors of K's entries
    rad = sizes * (gamma(n + 4) * total + total_rad) + errors * (total + total_rad)
    return Ball(data.rates(u.mid), rad * (1.0 + gamma(4 * n + 32)) + (n + 1) * UNDERFLOW)


def _checked_error(entry_error: float | Vector) -> float | Vector:
    if not (np.isfinite(entry_error).all() and np.min(entry_error) >= 0.0):
        raise ValueError(f"entry_error must be finite and not negative, not {entry_error!r}")
    return entry_error


def outputs(K: Vector, coefficients: Vector, b: float, entry_error: ArrayLike = 0.0) -> Ball:
    """Return the outputs K c + b (n,) for coefficients c (p,), valid for every K within `entry_error`."""
    used = np.flatnonzero(coefficients)
    if not used.size:
        return Ball(np.full(len(K), b))  # exactly
    result = product(K[:, used], coefficients[used])
    sizes = np.abs(coefficients)
    error = np.asarray(entry_error, dtype=float)
    output_error: Any = error * sizes.sum() if error.ndim == 0 else np.broadcast_to(error, K.shape) @ sizes
    if np.any(output_error):
        result = Ball(result.mid, result.rad + output_error * (1.0 + gamma(4 * len(sizes) + 32)))
    return result + b


def loss(f: Ball, y: Vector, costs: Vector) -> Ball:
    """Return the hinge loss Σ_i c_i [1 − y_i f_i]_+ of outputs f (n,)."""
    margins = Ball(y * f.mid, f.rad)
    # Samples that are exactly beyond the margin are omitted, so that an optimum of 0 can be proven.
    has_loss = ~((margins.rad == 0.0) & (margins.mid >= 1.0))
    return (1.0 - margins[has_loss]).positive().dot(costs[has_loss]) if has_loss.any() else Ball(0.0)
