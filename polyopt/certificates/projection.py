"""Certificates of the projection onto a polytope: of the nearest point, or that no point is feasible.

min  ½ Σ_j ((z_j − x_j) / s_j)²   s.t.  W z + b ≤ 0 [λ],  l ≤ z ≤ u,  z_j = x_j for held features
max  λ·(W x + b) + Σ_j min {½ (d / s_j)² + (W'λ)_j d : l_j − x_j ≤ d ≤ u_j − x_j}   s.t.  λ ≥ 0

Distances are in spreads s. The dual needs no multipliers of the bounds l and u: for each λ, the inner minimum
over d = z − x is solved feature by feature. So any λ ≥ 0 bounds the optimum from below.

A ray is a λ that proves infeasibility: λ·(W z + b) > 0 for all l ≤ z ≤ u. If rounding leaves a part of W'λ at
features without bounds, the ray only proves that every feasible point is farther from x than some distance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import real_array, tolerance
from formulations.language.types import Vector
from polyopt.certificates.certificate import (
    Certificate,
    Claim,
    Residual,
    conclude,
    conclude_infeasible,
    residual,
)
from polyopt.linalg.rounding import ABOVE, UNIT, Ball, product, transposed_product
from polyopt.polytope.nearest import Nearest

_NOT_FEASIBLE = "The point breaks a bound, or moves a feature that is held."


def certify_projection(
    x: ArrayLike, W: ArrayLike, b: ArrayLike, *, z: ArrayLike | None, face: ArrayLike,
    spread: ArrayLike | None = None, low: ArrayLike | None = None, high: ArrayLike | None = None,
    held: ArrayLike | None = None, tol: float = 1e-9,
) -> Certificate:  # fmt: skip
    """Certify the nearest point of {z : W z + b ≤ 0}, or that there is none.

    z (m,): the point; None to certify that no point is feasible.
    face (K,): multipliers λ of the faces, or a ray if z is None; negative ones count as 0.
    Returns: values are halves of squared distances. The claim is ``infeasible`` only if the ray excludes
        every point; if it excludes those within some distance, the bound is that distance, without a claim.
    ValueError: arrays that do not fit each other, numbers that are not finite, a spread that is not positive,
        or a tolerance out of its range.
    """
    tol, point = tolerance(tol), real_array("x", x)
    m = len(point)
    normals, offsets = real_array("W", W), real_array("b", b)
    real_array("W", normals, (len(offsets), m))
    spreads = real_array("spread", np.ones(m) if spread is None else spread, (m,))
    if not (spreads > 0.0).all():
        raise ValueError(f"spread must be positive; its least entry is {spreads.min()!r}")
    is_held = np.zeros(m, dtype=bool) if held is None else np.asarray(held, dtype=bool)
    bounds = [
        np.broadcast_to(default if bound is None else np.asarray(bound, dtype=float), m)
        for bound, default in ((low, -np.inf), (high, np.inf))
    ]
    violation = np.where(is_held, np.maximum(bounds[0] - point, point - bounds[1]), 0.0).max()
    if z is None and violation > 0.0:  # the bounds exclude the present value of a held feature
        row = Residual("primal", "held", float(violation), 1.0)
        return conclude_infeasible("projection.primal", np.inf, [row], tol)
    bounds = [np.where(is_held, point, bound) for bound in bounds]
    lam = Ball(np.maximum(real_array("face", face, (len(offsets),)), 0.0))
    gradient = transposed_product(normals, lam)  # W'λ
    constant = (product(normals, point) + offsets).dot(lam.mid)  # λ·(W x + b)
    limits = [Ball(bound) - point for bound in bounds]  # of d = z − x
    if z is None:
        return _certify_ray(constant, gradient, limits, spreads, lam.mid, tol)
    dual = constant + _inner_minimum(gradient, limits, spreads)
    dual = dual if float(dual.lower) > 0.0 else Ball(0.0)
    nearest = real_array("z", z, (m,))
    change = (Ball(nearest) - point) * Ball(1.0 / spreads, UNIT / spreads)
    value = 0.5 * change.square_sum() if (nearest != point).any() else Ball(0.0)
    residuals = _residuals(normals, offsets, nearest, spreads, bounds, lam.mid, float(value.mid))
    feasible = all(r.relative <= tol for r in residuals if r.condition == "primal")
    notes = [] if feasible else [_NOT_FEASIBLE]
    return conclude("projection.primal", value, dual, residuals, tol, feasible=feasible, notes=notes)


def certify_nearest(found: Nearest, tol: float = 1e-9) -> Certificate:
    """Certify the nearest point of a region, which a search divided into parts.

    found: the result of :func:`polyopt.polytope.nearest.nearest`: its point, and for every part of the region
        multipliers that bound the distance of the part, or prove it empty.
    Returns: the certificate of the projection onto the rows that the point satisfies; its bound is the least
        one of all parts.
    """
    bounds = []
    for part in found.parts:
        question = part.question
        certificate = certify_projection(
            question.x, part.rows.W, part.rows.b, z=None if part.is_empty else question.x,
            face=part.multipliers, spread=question.spread, low=question.low, high=question.high,
            held=question.held,
        )  # fmt: skip
        bounds.append(certificate.dual_value)
    bound = min(bounds, default=np.inf)
    if found.solution is None:
        if np.isinf(bound):
            return conclude_infeasible("projection.primal", np.inf, [], tol)
        note = f"No point is nearer than {np.sqrt(2.0 * bound):.3g} spreads."
        return Certificate("projection.primal", Claim.NONE, np.inf, bound, (), tol, note=note)
    question = found.question
    certificate = certify_projection(
        question.x, found.rows.W, found.rows.b, z=found.point, face=found.solution["face"],
        spread=question.spread, low=question.low, high=question.high, held=question.held, tol=tol,
    )  # fmt: skip
    return conclude(
        "projection.primal", certificate.primal_value, bound, certificate.residuals, tol,
        feasible=certificate.claim is not Claim.NONE, scope="the region", notes=[certificate.note],
    )  # fmt: skip


def _inner_minimum(gradient: Ball, limits: list[Ball], spreads: Vector) -> Ball:
    """Return a lower bound on Σ_j min ½ (d/s_j)² + g_j d, for d between the two limits of each feature.

    gradient: g = W'λ, with its rounding. The minimum is concave in g_j, so over the interval of g_j that
    rounding allows it is least at an end.
    """
    inverse = Ball(1.0 / spreads, UNIT / spreads)
    minima = []
    for g in (Ball(gradient.lower), Ball(gradient.upper)):
        scaled = g * spreads
        values = -0.5 * (scaled * scaled)  # at d = −s² g, if that is within the limits
        for limit, sign in zip(limits, (1.0, -1.0), strict=True):
            is_finite = np.isfinite(limit.mid)
            d = Ball(np.where(is_finite, limit.mid, 0.0), np.where(is_finite, limit.rad, 0.0))
            slope = d * inverse * inverse + g
            # The limit is the minimiser if the function rises from it into the interval.
            is_minimiser = np.where(is_finite, (slope * sign).lower >= 0.0, False)
            at_limit = 0.5 * (d * inverse) * (d * inverse) + g * d
            values = Ball(
                np.where(is_minimiser, at_limit.mid, values.mid),
                np.where(is_minimiser, at_limit.rad, values.rad),
            )
        minima.append(values.lower)
    return Ball(np.minimum(*minima)).sum()


def _certify_ray(
    constant: Ball, gradient: Ball, limits: list[Ball], spreads: Vector, lam: Vector, tol: float
) -> Certificate:
    """Return the certificate of a ray λ: no point is feasible, or none within some distance.

    The least value of λ·(W z + b) is the constant λ·(W x + b), plus the least (W'λ)_j d_j of each bounded
    feature, less |residual| times the distance, where the residual is W'λ (in spreads) at unbounded features.
    """
    least, residual_gradient = constant, np.zeros(len(spreads))
    for j in range(len(spreads)):
        minima: list[float] = []
        for g in (float(gradient.lower[j]), float(gradient.upper[j])):
            limit = limits[0] if g > 0.0 else limits[1]
            if g == 0.0:
                minima.append(0.0)
            elif np.isfinite(limit.mid[j]):
                minima.append(float((Ball(g) * limit[j]).lower))
            else:
                minima.append(0.0)
                residual_gradient[j] = max(residual_gradient[j], abs(g) * spreads[j])
        least = least + min(minima)
    norm = float(np.linalg.norm(residual_gradient)) * ABOVE
    value = float(least.lower)
    if value <= 0.0:
        note = "The multipliers are no ray: they prove nothing."
        return Certificate("projection.primal", Claim.NONE, np.inf, 0.0, (), tol, note=note)
    residuals = [residual("sign", "face", -lam, float(lam.max(initial=1.0)))]
    if not norm:
        return conclude_infeasible("projection.primal", np.inf, residuals, tol)
    distance = value / norm / ABOVE
    note = f"No point is nearer than {distance:.3g} spreads."
    return Certificate(
        "projection.primal", Claim.NONE, np.inf, 0.5 * distance**2 / ABOVE, tuple(residuals), tol, note=note
    )


def _residuals(
    W: Vector, b: Vector, z: Vector, spreads: Vector, bounds: list[Vector], lam: Vector, value: float
) -> list[Residual]:
    """Return the violations of bounds and faces, in spreads, and of complementarity."""
    scale = 1.0 + np.sqrt(2.0 * value)  # 1 + the distance
    norms = np.linalg.norm(W * spreads, axis=1)
    distances = (W @ z + b) / np.where(norms > 0.0, norms, 1.0)  # from the faces, positive outside
    outside = np.maximum(bounds[0] - z, z - bounds[1]) / spreads
    residuals = [residual("primal", "bounds", outside, scale)]
    if len(b):
        products = np.abs(lam * norms * np.minimum(distances, 0.0))
        residuals.append(residual("primal", "face", distances, scale))
        residuals.append(residual("complementarity", "face", products, max(value, 1e-300)))
    return residuals
