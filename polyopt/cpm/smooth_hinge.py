"""Newton's method on a smoothed hinge loss, for one face with few features.

The program has a penalty d_j for each weight, costs c_i, and the rows y_i x̃_i of A (n, p):

    min  P(w) = Σ_j d_j w_j² + Σ_i c_i [u_i]_+,      u = 1 − A w.

The hinge [u]_+ is replaced by the smoothed hinge of width ε,

    h_ε(u) = 0 for u ≤ 0,   u²/(2ε) for 0 ≤ u ≤ ε,   u − ε/2 for u ≥ ε.

At its minimum w_ε the derivatives α_i = c_i a_i, a_i = min(max(u_i/ε, 0), 1), satisfy w_ε = ½ d⁻¹∘A'α. They
are feasible for the dual D of the original program, with the duality gap

    P(w_ε) − D(α) = ε Σ_i c_i a_i (1 − a_i),         D(α) = Σ α − ¼ Σ_j v_j²/d_j,   v = A'α.

Only the samples in the zone 0 < u_i < ε contribute to the gap, so it falls with ε. The callers follow the
path of w_ε for falling ε: :func:`begin`, then :func:`newton` for each ε. The first step at an ε assumes that
the zone has the same samples as at the previous ε; if so, the step is exact. The length of a step minimises
the objective along it: the derivative is piecewise linear, and its zero is found by regula falsi.

Once the zone has exactly the samples on the margin, their multipliers follow from A_Z w = 1, for any ε
(:func:`fit_margin_multipliers`). A face of ten features or so is then solved to nine digits in about thirty
steps, each with two products with A.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from formulations.language.types import Vector
from polyopt.native.library import kernel


@dataclass(frozen=True)
class Options:
    """Parameters of the path of w_ε."""

    first_eps: float = 2.0  # first ε: all samples are in the zone, because u = 1 at w = 0
    eps_ratio: float = 0.1  # ratio of each ε to the one before
    max_stages: int = 11  # largest number of values of ε
    min_rel_decrease: float = 1e-6  # decrease that ends Newton's method, relative to ε times the largest cost
    max_steps: int = 60  # largest number of Newton steps for one ε


OPTIONS = Options()

# Return the step length t that nearly minimises the objective along u − t·moved.
#   linear, square: the derivative of Σ d_j w_j² by t is linear + t·square.
#   fall: the derivative of the objective at t = 0, negative.
step_length = kernel(
    "step_length",
    "u: f8 (n); moved: f8 (n); c: f8 (n); eps: f8; linear: f8; square: f8; fall: f8",
    returns="f8",
)  # fmt: skip


class Smooth(NamedTuple):
    """A point w (p,) of the path, with u = 1 − A w (n,) and its ε."""

    w: Vector
    u: Vector
    eps: float


def begin(n: int, p: int) -> Smooth:
    """Return the first point of the path, w = 0, for n samples and p weights."""
    return Smooth(np.zeros(p), np.ones(n), OPTIONS.first_eps)


def multipliers_of(point: Smooth, c: Vector) -> Vector:
    """Return the multipliers α (n,) of a point, exactly within [0, c]."""
    return np.asarray(c * np.clip(point.u / point.eps, 0.0, 1.0))


@np.errstate(over="ignore", invalid="ignore")
def fit_margin_multipliers(A: Vector, c: Vector, d: Vector, point: Smooth) -> Vector:
    """Return multipliers α (n,) for which the samples of the zone are on the margin, clipped to [0, c].

    The other samples have the multiplier 0 or c_i. If the zone has too many samples to be on the margin, the
    result is that of :func:`multipliers_of`.
    """
    zone = np.flatnonzero((point.u > 0.0) & (point.u < point.eps))
    if len(zone) > 2 * len(d):  # generically at most p samples are on the margin
        return multipliers_of(point, c)
    alpha = np.where(point.u > 0.0, c, 0.0)
    alpha[zone] = 0.0
    Z = A[zone]  # with w = ½ d⁻¹∘A'α, Z w = 1 is a linear system in the multipliers of the zone
    rhs, gram = 1.0 - 0.5 * (Z / d) @ (alpha @ A), 0.5 * (Z / d) @ Z.T
    try:
        solution = np.linalg.lstsq(gram, rhs, rcond=None)[0]  # rank-deficient if samples are equal
    except np.linalg.LinAlgError:
        return multipliers_of(point, c)
    alpha[zone] = np.clip(solution, 0.0, c[zone])
    return alpha


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def newton(
    A: Vector, c: Vector, d: Vector, start: Smooth, eps: float, *, tol: float, keep_zone: bool = True
) -> Smooth:
    """Minimise the smoothed objective for `eps`, from a point of another ε.

    A (n, p): the rows y_i x̃_i.
    c (n,), d (p,): costs, and penalties of the squares, positive.
    start: the first iterate, with u = 1 − A w.
    tol: predicted decrease of the objective by a step, after which no further step is made.
    keep_zone: True if the first step uses the zone of `start`, False if it uses that of `eps`.
    Returns: the minimiser; if a step is not finite, the iterate before it.
    """
    w, u = start.w, start.u
    zone = np.flatnonzero((u > 0.0) & (u < (start.eps if keep_zone else eps)))
    for _ in range(OPTIONS.max_steps):
        alpha = c * np.clip(u / eps, 0.0, 1.0)
        gradient = 2.0 * d * w - alpha @ A
        Z, curvature = A[zone], c[zone] / eps
        H = (Z.T * curvature) @ Z  # the Hessian, if the zone has the samples Z
        H.flat[:: len(w) + 1] += 2.0 * d
        try:
            # In the zone α is c u/ε, which differs from `alpha` if the zone is that of another ε.
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
            length = step_length(u, change, c, eps, float(scaled @ w), float(scaled @ step), slope)
        w, u = w + length * step, u - length * change
        zone = np.flatnonzero((u > 0.0) & (u < eps))
        if -slope * max(length, 0.0) <= tol and not keep_zone:
            break
        keep_zone = False  # the next steps use the zone of the iterate
    return Smooth(w, 1.0 - A @ w, eps)
