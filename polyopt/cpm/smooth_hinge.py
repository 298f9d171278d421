"""The hinge loss with its kink rounded off, minimised by Newton's method: a few features, any cost.

The program is that of a face, each weight with a penalty of its own:

    min  P(w) = Σ_j d_j w_j² + Σ_i c_i [u_i]_+,      u = 1 − A w,    the rows of A being y_i x̃_i.

With h_ε(u) = u²/(2ε) on [0, ε], u − ε/2 beyond and 0 before instead of [u]_+, the minimum w_ε has the
multipliers α_i = c_i a_i, a_i = min(max(u_i/ε, 0), 1), with w_ε = ½ d⁻¹∘A'α, and these are feasible for the
dual of the program itself. The difference of the two is known:

    P(w_ε) − D(α) = ε Σ_i c_i a_i (1 − a_i),         D(α) = Σ α − ¼ Σ_j v_j²/d_j,   v = A'α,

to which only the samples in the zone 0 < u_i < ε contribute: the gap falls with ε. From one ε to the next the
first step keeps the zone, and so is exact if that does not change. The length of a step minimises the
objective: its slope along the step is piecewise linear, and the zero is found by regula falsi.

Once the zone holds the samples on the margin and no others, their multipliers solve A_Z w = 1 for any ε
(:func:`fit_margin_multipliers`). A face of some features is solved to nine digits in some thirty steps of two
products with A each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from formulations.language.types import Vector
from polyopt.native.library import kernel


@dataclass(frozen=True)
class Options:
    """Numbers of a path of falling ε."""

    first_eps: float = 2.0  # at w = 0, where every u is 1, each sample is in the zone
    eps_ratio: float = 0.1  # from one point to the next
    max_stages: int = 11  # points of a path
    min_rel_decrease: float = 1e-6  # predicted, for another step, relative to ε times the largest cost
    max_steps: int = 60  # of Newton's method for one ε


OPTIONS = Options()

# Length t of a step to u − t·moved: about where the objective is smallest along it. The slope of the squares
# at t is linear + t·square; the slope of the objective at 0 is `fall`, below 0.
_length = kernel(
    "step_length",
    "u: f8 (n); moved: f8 (n); c: f8 (n); eps: f8; linear: f8; square: f8; fall: f8",
    returns="f8",
)  # fmt: skip


class Smooth(NamedTuple):
    """A point on the path: w (p,), u = 1 − A w (n,), and ε."""

    w: Vector
    u: Vector
    eps: float


def begin(n: int, p: int) -> Smooth:
    """Return w = 0 as a point of the first ε, for n samples and p weights."""
    return Smooth(np.zeros(p), np.ones(n), OPTIONS.first_eps)


def multipliers_of(point: Smooth, c: Vector) -> Vector:
    """Return the multipliers α (n,) of a point, within their caps c (n,) exactly."""
    return np.asarray(c * np.clip(point.u / point.eps, 0.0, 1.0))


@np.errstate(over="ignore", invalid="ignore")
def fit_margin_multipliers(A: Vector, c: Vector, d: Vector, point: Smooth) -> Vector:
    """Return multipliers α (n,) that put the samples of the zone on the margin, clipped to their caps.

    The samples outside the zone have the multipliers 0 or their costs.
    """
    zone = np.flatnonzero((point.u > 0.0) & (point.u < point.eps))
    if len(zone) > 2 * len(d):  # not on the margin yet
        return multipliers_of(point, c)
    alpha = np.where(point.u > 0.0, c, 0.0)
    alpha[zone] = 0.0
    Z = A[zone]
    rhs, gram = 1.0 - 0.5 * (Z / d) @ (alpha @ A), 0.5 * (Z / d) @ Z.T
    try:
        solution = np.linalg.lstsq(gram, rhs, rcond=None)[0]  # samples may be equal, or too many
    except np.linalg.LinAlgError:
        return multipliers_of(point, c)
    alpha[zone] = np.clip(solution, 0.0, c[zone])
    return alpha


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def newton(
    A: Vector, c: Vector, d: Vector, start: Smooth, eps: float, *, tol: float, keep: bool = True
) -> Smooth:
    """Minimise with h_ε, from a point of another ε.

    A (n, p): the rows y_i x̃_i.
    c (n,), d (p,): costs, and penalties of the squares, positive.
    start: the first point, with u = 1 − A w.
    tol: the last step is one that decreases the objective by no more than this.
    keep: True if the first step keeps the zone of `start`.
    Returns: the point; the last one before a step that is invalid in double precision.
    """
    w, u = start.w, start.u
    zone = np.flatnonzero((u > 0.0) & (u < (start.eps if keep else eps)))
    for _ in range(OPTIONS.max_steps):
        alpha = c * np.clip(u / eps, 0.0, 1.0)
        gradient = 2.0 * d * w - alpha @ A
        Z, curvature = A[zone], c[zone] / eps
        H = (Z.T * curvature) @ Z
        H.flat[:: len(w) + 1] += 2.0 * d
        try:
            step = -np.linalg.solve(H, gradient - (curvature * u[zone] - alpha[zone]) @ Z)
        except np.linalg.LinAlgError:
            return Smooth(w, u, eps)
        slope = float(gradient @ step)
        change = A @ step
        if not np.isfinite(slope) or not np.isfinite(change).all():
            return Smooth(w, u, eps)
        length = 0.0
        if slope < 0.0:
            scaled = 2.0 * d * step
            length = _length(u, change, c, eps, float(scaled @ w), float(scaled @ step), slope)
        w, u = w + length * step, u - length * change
        zone = np.flatnonzero((u > 0.0) & (u < eps))
        if -slope * max(length, 0.0) <= tol and not keep:
            break
        keep = False
    return Smooth(w, 1.0 - A @ w, eps)
