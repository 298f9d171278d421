"""Certificate of the nearest point of a polytope: its distance, and one below which no point is, both proven.

min  ½ Σ_j v_j (z_j − x_j)²   s.t.  W z + b ≤ 0 [λ],  l ≤ z ≤ u,  z_j = x_j for held features
max  λ·(W x + b) + Σ_j min {½ v_j d² + (W'λ)_j d : l_j − x_j ≤ d ≤ u_j − x_j}   s.t.  λ ≥ 0

The multipliers of the bounds are gone from the dual: for any λ ≥ 0 the best ones are known, feature by
feature. So any λ ≥ 0 bounds the distance from below. Along a ray tλ of multipliers that prove that no point
is feasible the bound grows without end, as far as W'λ is 0 where there are no bounds; where rounding leaves
something of it, the bound says how far away all points are that the ray does not exclude.
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

_BROKEN = "The point breaks a bound, or moves a feature that is held."


def certify_projection(
    x: ArrayLike, W: ArrayLike, b: ArrayLike, *, z: ArrayLike | None, face: ArrayLike,
    spread: ArrayLike | None = None, low: ArrayLike | None = None, high: ArrayLike | None = None,
    held: ArrayLike | None = None, tol: float = 1e-9,
) -> Certificate:  # fmt: skip
    """Certify the nearest point of {z : W z + b ≤ 0}, or that there is none.

    z (m,): the point; None where there is said to be none.
    face (K,): multipliers of the faces; negative ones count as 0. Without a point, a ray of them.
    Returns: in halves of squared distances. ``infeasible`` only where the ray excludes every point whatever;
        where it excludes those within some distance, the bound is that, and nothing else is claimed.
    ValueError: arrays that do not fit each other, numbers that are not finite, a spread that is not positive,
        or a tolerance out of its range.
    """
    tol, point = tolerance(tol), real_array("x", x)
    m = len(point)
    normals, offsets = real_array("W", W), real_array("b", b)
    real_array("W", normals, (len(offsets), m))
    unit = real_array("spread", np.ones(m) if spread is None else spread, (m,))
    if not (unit > 0.0).all():
        raise ValueError(f"spread must be positive; its least entry is {unit.min()!r}")
    fixed = np.zeros(m, dtype=bool) if held is None else np.asarray(held, dtype=bool)
    bounds = [
        np.broadcast_to(value if end is None else np.asarray(end, dtype=float), m)
        for end, value in ((low, -np.inf), (high, np.inf))
    ]
    beyond = np.where(fixed, np.maximum(bounds[0] - point, point - bounds[1]), 0.0).max()
    if z is None and beyond > 0.0:  # a held feature is where its bounds do not let it be
        row = Residual("primal", "held", float(beyond), 1.0)
        return conclude_infeasible("projection.primal", np.inf, [row], tol)
    ends = [np.where(fixed, point, bound) for bound in bounds]
    lam = Ball(np.maximum(real_array("face", face, (len(offsets),)), 0.0))
    pull = transposed_product(normals, lam)
    level = (product(normals, point) + offsets).dot(lam.mid)  # λ·(W x + b)
    room = [Ball(end) - point for end in ends]
    if z is None:
        return _no_point(level, pull, room, unit, lam.mid, tol)
    bound = level + _least(pull, room, unit)
    bound = bound if float(bound.lower) > 0.0 else Ball(0.0)
    at = real_array("z", z, (m,))
    moved = (Ball(at) - point) * Ball(1.0 / unit, UNIT / unit)
    value = 0.5 * moved.square_sum() if (at != point).any() else Ball(0.0)
    residuals = _residuals(normals, offsets, at, unit, ends, lam.mid, float(value.mid))
    feasible = all(r.relative <= tol for r in residuals if r.condition == "primal")
    notes = [] if feasible else [_BROKEN]
    return conclude("projection.primal", value, bound, residuals, tol, feasible=feasible, notes=notes)


def certify_nearest(found: Nearest, tol: float = 1e-9) -> Certificate:
    """Certify the nearest point of a region: every case and choice has a bound of its own, and counts.

    found: what :func:`polyopt.polytope.nearest.nearest` gave: its point, and for every part of the region
        that its search left open, solved or found empty the multipliers that bound it.
    Returns: of the projection on the rows that the point answers, its bound the least of all parts.
    """
    bounds = []
    for part in found.parts:
        own = certify_projection(
            part.question.x, part.rows.W, part.rows.b, z=None if part.is_empty else part.question.x,
            face=part.multipliers, spread=part.question.spread, low=part.question.low,
            high=part.question.high, held=part.question.held,
        )  # fmt: skip
        bounds.append(own.dual_value)
    least = min(bounds, default=np.inf)
    if found.solution is None:
        if np.isinf(least):
            return conclude_infeasible("projection.primal", np.inf, [], tol)
        note = f"No point is nearer than {np.sqrt(2.0 * least):.3g} spreads."
        return Certificate("projection.primal", Claim.NONE, np.inf, least, (), tol, note=note)
    q = found.question
    at = certify_projection(
        q.x, found.rows.W, found.rows.b, z=found.point, face=found.solution["face"], spread=q.spread,
        low=q.low, high=q.high, held=q.held, tol=tol,
    )  # fmt: skip
    return conclude(
        "projection.primal", at.primal_value, least, at.residuals, tol,
        feasible=at.claim is not Claim.NONE, scope="the region", notes=[at.note],
    )  # fmt: skip


def _least(pull: Ball, room: list[Ball], unit: Vector) -> Ball:
    """The sum of the least values of ½ d²/s² + g d over each feature's room, from below.

    The least value is concave in g, so that it is least at an end of what rounding leaves open of g.
    """
    inverse = Ball(1.0 / unit, UNIT / unit)
    found = []
    for g in (Ball(pull.lower), Ball(pull.upper)):
        scaled = g * unit  # at d = −s² g, where there is room
        values = -0.5 * (scaled * scaled)
        for end, sign in zip(room, (1.0, -1.0), strict=True):
            there = np.isfinite(end.mid)
            d = Ball(np.where(there, end.mid, 0.0), np.where(there, end.rad, 0.0))
            slope = d * inverse * inverse + g
            # Beyond the end the function rises, if its slope there points into the room.
            ends = np.where(there, (slope * sign).lower >= 0.0, False)
            at_end = 0.5 * (d * inverse) * (d * inverse) + g * d
            values = Ball(np.where(ends, at_end.mid, values.mid), np.where(ends, at_end.rad, values.rad))
        found.append(values)
    lower = np.minimum(found[0].lower, found[1].lower)
    return Ball(lower).sum()


def _no_point(
    level: Ball, pull: Ball, room: list[Ball], unit: Vector, lam: Vector, tol: float
) -> Certificate:
    """The certificate of a ray: no point is feasible, or none within some distance."""
    gain, left = level, np.zeros(len(unit))
    for j in range(len(unit)):
        slopes = (float(pull.lower[j]), float(pull.upper[j]))
        worst: list[float] = []
        for g in slopes:
            end = room[0] if g > 0.0 else room[1]
            if g == 0.0:
                worst.append(0.0)
            elif np.isfinite(end.mid[j]):
                worst.append(float((Ball(g) * end[j]).lower))
            else:
                worst.append(0.0)
                left[j] = max(left[j], abs(g) * unit[j])
        gain = gain + min(worst)
    size = float(np.linalg.norm(left)) * ABOVE
    value = float(gain.lower)
    if value <= 0.0:
        note = "The multipliers are no ray: they prove nothing."
        return Certificate("projection.primal", Claim.NONE, np.inf, 0.0, (), tol, note=note)
    residuals = [residual("sign", "face", -lam, float(lam.max(initial=1.0)))]
    if not size:
        return conclude_infeasible("projection.primal", np.inf, residuals, tol)
    reach = value / size / ABOVE
    note = f"No point is nearer than {reach:.3g} spreads."
    return Certificate(
        "projection.primal", Claim.NONE, np.inf, 0.5 * reach**2 / ABOVE, tuple(residuals), tol, note=note
    )


def _residuals(
    W: Vector, b: Vector, z: Vector, unit: Vector, ends: list[Vector], lam: Vector, value: float
) -> list[Residual]:
    """Rows that are broken, in spreads, and multipliers of faces that are not reached."""
    far = 1.0 + np.sqrt(2.0 * value)
    length = np.linalg.norm(W * unit, axis=1)
    beyond = (W @ z + b) / np.where(length > 0.0, length, 1.0)
    outside = np.maximum(ends[0] - z, z - ends[1]) / unit
    idle = np.abs(lam * length * np.minimum(beyond, 0.0))
    found = [residual("primal", "bounds", outside, far)]
    if len(b):
        found.append(residual("primal", "face", beyond, far))
        found.append(residual("complementarity", "face", idle, max(value, 1e-300)))
    return found
