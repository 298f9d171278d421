"""Certificate of the nearest point of a polytope: proven upper and lower bounds on its distance.

Primal:  min  ½ Σ_j (d_j/s_j)²   s.t.  W (x + d) + b ≤ 0 [λ],  l ≤ x + d ≤ u,  d_j = 0 for held features j
Dual:    max  λ·(W x + b) + Σ_j min {½ (d/s_j)² + g_j d : l_j − x_j ≤ d ≤ u_j − x_j},  g = W'λ,   s.t.  λ ≥ 0

z = x + d is the point, W (K, m) and b (K,) are the faces of the polytope, and s_j is the spread of feature j,
the unit in which its change is measured. The interval of a held feature is d = 0. The multipliers of the
bounds are eliminated from the dual: for given λ the optimal ones are known in closed form, feature by
feature. So any λ ≥ 0 gives a lower bound on the distance.

If no point is feasible, λ is a ray: λ·(W z + b) > 0 at every z within the bounds. That holds if the sum over
the features with finite bounds is positive and g_j = 0 for the others. If rounding leaves such a g_j nonzero,
the ray excludes only the points within some distance of x, and the certificate states that distance.
"""

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
from polyopt.polytope.projection import Question
from polyopt.polytope.region import Rows


def certify_projection(
    question: Question, rows: Rows, z: ArrayLike | None, face: ArrayLike, tol: float = 1e-9
) -> Certificate:
    """Certify the nearest point of {z : W z + b ≤ 0} to x (m,), or that the polytope is empty.

    question: x, the spreads s, the bounds on the features and the mask of those that are held; its choices
        are left out.
    rows: the faces W (K, m) and b (K,).
    z (m,): the nearest point; None to certify that no point is feasible.
    face (K,): multipliers λ of the faces, negative ones count as 0; if z is None, a ray.

    The values in the certificate are halves of squared distances. If z is None, the claim is ``infeasible``
    if the ray excludes every point; if it only excludes the points within some distance, the claim is
    ``none``, and the bound is half the square of that distance.

    ValueError: z or face of another size, numbers that are not finite, or a tolerance out of its range.
    """
    tol, x, unit, is_held = tolerance(tol), question.x, question.spread, question.held
    violation = np.where(is_held, np.maximum(question.low - x, x - question.high), 0.0).max()
    if z is None and violation > 0.0:  # x violates a bound of a held feature
        held_residual = Residual("primal", "held", float(violation), 1.0)
        return conclude_infeasible("projection.primal", np.inf, [held_residual], tol)
    bounds = [np.where(is_held, x, bound) for bound in (question.low, question.high)]
    lam = Ball(np.maximum(real_array("face", face, rows.b.shape), 0.0))
    gradient = transposed_product(rows.W, lam)
    constant = (product(rows.W, x) + rows.b).dot(lam.mid)  # λ·(W x + b)
    step_bounds = [Ball(bound) - x for bound in bounds]
    if z is None:
        return _certify_empty(constant, gradient, step_bounds, unit, lam.mid, tol)
    dual = constant + _dual_minimum(gradient, step_bounds, unit)
    dual = dual if float(dual.lower) > 0.0 else Ball(0.0)  # no distance is negative
    candidate = real_array("z", z, x.shape)
    scaled_step = (Ball(candidate) - x) * Ball(1.0 / unit, UNIT / unit)
    value = 0.5 * scaled_step.square_sum() if (candidate != x).any() else Ball(0.0)
    residuals = _residuals(rows, candidate, unit, bounds, lam.mid, float(value.mid))
    feasible = all(r.relative <= tol for r in residuals if r.condition == "primal")
    notes = [] if feasible else ["The point violates a face or a bound, or moves a feature that is held."]
    return conclude("projection.primal", value, dual, residuals, tol, feasible=feasible, notes=notes)


def certify_nearest(nearest: Nearest, tol: float = 1e-9) -> Certificate:
    """Certify the nearest point of a region, which is a union of polytopes, its parts.

    nearest: the result of :func:`polyopt.polytope.nearest.nearest`: the point, and for every part that its
        branch and bound left open, solved or found empty the multipliers that bound the part's distance.

    The certificate is that of the projection on the polytope of the point, but its bound is the smallest of
    the bounds of all parts.
    """
    bound = np.inf
    for part in nearest.parts:
        z = None if part.is_empty else part.question.x  # the bound does not depend on the point
        certificate = certify_projection(part.question, part.rows, z, part.multipliers, tol)
        bound = min(bound, certificate.dual_value)
    if nearest.solution is None:
        if np.isinf(bound):
            return conclude_infeasible("projection.primal", np.inf, [], tol)
        note = f"No point is nearer than {np.sqrt(2.0 * bound):.3g} spreads."
        return Certificate("projection.primal", Claim.NONE, np.inf, bound, (), tol, note=note)
    face = nearest.solution["face"]
    projected = certify_projection(nearest.question, nearest.rows, nearest.point, face, tol)
    return conclude(
        "projection.primal", projected.primal_value, bound, projected.residuals, tol,
        feasible=projected.claim is not Claim.NONE, scope="the region", notes=[projected.note],
    )  # fmt: skip


def _dual_minimum(gradient: Ball, step_bounds: list[Ball], unit: Vector) -> Ball:
    """Bound Σ_j min ½ (d/s_j)² + g_j d over the interval of each feature's step d, from below.

    `gradient` has g as intervals, `step_bounds` the lower and upper bounds on d, and `unit` is s. The minimum
    over d is a concave function of g_j, so it is smallest at an end of the interval of g_j.
    """
    inverse = Ball(1.0 / unit, UNIT / unit)
    values_at_ends = []
    for g in (Ball(gradient.lower), Ball(gradient.upper)):
        scaled = g * unit  # the unconstrained minimum is at d = −s² g
        values = -0.5 * (scaled * scaled)
        for end, sign in zip(step_bounds, (1.0, -1.0), strict=True):
            is_finite = np.isfinite(end.mid)
            d = Ball(np.where(is_finite, end.mid, 0.0), np.where(is_finite, end.rad, 0.0))
            slope = d * inverse * inverse + g
            # The end is the minimum if the function increases from there into the interval.
            is_minimum = np.where(is_finite, (slope * sign).lower >= 0.0, False)
            at_end = 0.5 * (d * inverse) * (d * inverse) + g * d
            mid = np.where(is_minimum, at_end.mid, values.mid)
            values = Ball(mid, np.where(is_minimum, at_end.rad, values.rad))
        values_at_ends.append(values)
    lower = np.minimum(values_at_ends[0].lower, values_at_ends[1].lower)
    return Ball(lower).sum()


def _certify_empty(
    constant: Ball, gradient: Ball, step_bounds: list[Ball], unit: Vector, lam: Vector, tol: float
) -> Certificate:
    """Certify by the ray `lam` that no point is feasible, or none within some distance of x.

    `constant` is λ·(W x + b); `gradient`, `step_bounds` and `unit` are as in :func:`_dual_minimum`.
    """
    least_value = constant  # lower bound on λ·(W z + b), without the features whose slope is not bounded
    slopes = np.zeros(len(unit))  # |g_j| s_j of features that have no finite bound in the direction of −g_j
    for j in range(len(unit)):
        terms: list[float] = []  # min g d over the feature's steps d, for both ends of the interval of g
        for g in (float(gradient.lower[j]), float(gradient.upper[j])):
            bound = step_bounds[0] if g > 0.0 else step_bounds[1]
            if g != 0.0 and np.isfinite(bound.mid[j]):
                terms.append(float((Ball(g) * bound[j]).lower))
            else:
                terms.append(0.0)
                slopes[j] = max(slopes[j], abs(g) * unit[j])
        least_value = least_value + min(terms)
    slope = float(np.linalg.norm(slopes)) * ABOVE  # λ·(W z + b) falls by at most this per spread from x
    lower = float(least_value.lower)
    if lower <= 0.0:
        note = "The multipliers are no ray: they prove nothing."
        return Certificate("projection.primal", Claim.NONE, np.inf, 0.0, (), tol, note=note)
    residuals = [residual("sign", "face", -lam, float(lam.max(initial=1.0)))]
    if not slope:
        return conclude_infeasible("projection.primal", np.inf, residuals, tol)
    distance = lower / slope / ABOVE
    note = f"No point is nearer than {distance:.3g} spreads."
    return Certificate(
        "projection.primal", Claim.NONE, np.inf, 0.5 * distance**2 / ABOVE, tuple(residuals), tol, note=note
    )


def _residuals(
    rows: Rows, z: Vector, unit: Vector, bounds: list[Vector], lam: Vector, value: float
) -> list[Residual]:
    """Return the violations of bounds and faces, in spreads, and of complementary slackness at the faces."""
    scale = 1.0 + np.sqrt(2.0 * value)
    row_norms = np.linalg.norm(rows.W * unit, axis=1)
    violations = (rows.W @ z + rows.b) / np.where(row_norms > 0.0, row_norms, 1.0)
    bound_violations = np.maximum(bounds[0] - z, z - bounds[1]) / unit
    complementarity = np.abs(lam * row_norms * np.minimum(violations, 0.0))
    residuals = [residual("primal", "bounds", bound_violations, scale)]
    if len(rows.b):
        residuals.append(residual("primal", "face", violations, scale))
        residuals.append(residual("complementarity", "face", complementarity, max(value, 1e-300)))
    return residuals
