"""A lower bound on every completion of a partial assignment, for both losses and both margins.

Let some positives be assigned, U be the others, α be feasible for the dual of the program with those assigned
(:mod:`polyopt.certificates.cpm_point`), v_k = Σ_i α_ik y_i x̃_i, and θ_k > 0 be 1 for margin="total", or of a
sum of 1 at most for margin="worst".

Theorem. Let 0 ≤ β_ik ≤ C_i for i ∈ U, and put U in any order. Every completion costs at least

    Σ α − ¼ Σ_k ‖v_k‖²/θ_k + Σ_{i∈U} min_k β_ik ( 1 − (½ v_k·x̃_i + ¼ β_ik ‖x̃_i‖² + ½ c_ik)/θ_k ),

with c_ik = Σ_r β_rk [x̃_r·x̃_i]_+ over the r before i.

Proof. Let z complete the assignment, and give each i ∈ U the multiplier β_{i z_i} at its face. These are
feasible together with α for the dual of the completed program: a positive's multipliers have caps of their
own. That dual's value is Σ − ¼ Σ‖·‖² or Σ − ¼ (Σ‖·‖)², and the latter is at least Σ − ¼ Σ_k ‖·‖²/θ_k by
Cauchy and Schwarz. Multiply out the squares, leave out products below zero, and charge each of the others to
the later of its two samples, whether or not both are on that face: what is left is a sum over i of a term
that depends on z_i alone. ∎

A face with no multipliers has no share θ_k at the best α, and a sample there would add nothing. Other shares
are valid too, so several are tried: mixtures of the best ones with equal ones.

All that enters is bounded on its safe side, with the running errors of :mod:`polyopt.certificates.rounding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.polytope import shares
from polyopt.certificates.cpm_point import bound_of, within_caps
from polyopt.certificates.rounding import Ball, gamma, product, transposed_product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector
    from formulations.polytope import Loss
    from polyopt.certificates.cpm_point import CpmPoint, Margin

__all__ = ["bound_of_completions"]

_EQUAL = (0.0, 0.1, 0.3, 1.0)  # parts of equal shares in the mixtures that are tried
_SAFE = 1e-12  # relative, by which shares are smaller than they might be, so that their sum is at most 1


def bound_of_completions(
    point: CpmPoint, alpha: Vector, loss: Loss, margin: Margin, free: NDArray[np.int64]
) -> float:
    """What every completion costs at least.

    Parameters
    ----------
    point : CpmPoint
        With Z (n, K) of those assigned, rows of zeros for the others.
    alpha : ndarray of shape (n, K)
        Multipliers; brought within their caps here.
    loss, margin
        As in :func:`polyopt.certificates.certify_cpm`.
    free : ndarray of int
        The positives not assigned, in the order in which their terms are added up.
    """
    plain = float(bound_of(point, alpha, loss, margin).lower)
    if not len(free):
        return plain
    feasible, K = within_caps(point, alpha, loss), alpha.shape[1]
    X = point.geometry.X
    pulled = transposed_product(X, feasible * point.y[:, None])
    samples = X[free]
    scores, overlaps = product(samples, pulled), product(samples, samples.T).upper
    best = plain
    for part in _EQUAL if margin == "worst" else (0.0,):
        theta = np.ones(K) if margin == "total" else (1.0 - part) * shares(pulled.mid.T) + part / K
        # The inverses are exact numbers from here on; a face without a share takes no multipliers.
        inverse = np.divide(1.0 + _SAFE, theta, out=np.full(K, np.inf), where=theta > 0.0)
        if margin == "total":
            inverse = np.ones(K)
        used = np.isfinite(inverse)
        if feasible[:, ~used].any():
            continue
        squares = pulled[:, used].square_sum(axis=0) * inverse[used]
        base = Ball(feasible).sum() - 0.25 * squares.sum()
        slopes = np.zeros(scores.mid.shape)
        slopes[:, used] = (1.0 - scores[:, used] * (0.5 * inverse[used])).lower
        added = _added(slopes, overlaps, np.where(used, inverse, 1.0), point.C[free])
        best = max(best, float(np.nextafter(base.lower + added, -np.inf)))
    return best


def _added(slopes: Vector, overlaps: Vector, inverse: Vector, caps: Vector) -> float:
    """Σ_i min_k (...) of the theorem: slopes (u, K) from below, overlaps (u, u) from above, less rounding."""
    u = len(caps)
    beta, total = np.zeros(slopes.shape), 0.0
    for i, (slope, cap) in enumerate(zip(slopes, caps, strict=True)):
        charge = np.maximum(overlaps[i, :i], 0.0) @ beta[:i] * inverse
        worth, square = slope - 0.5 * charge, overlaps[i, i] * inverse
        most = np.clip(2.0 * worth / square, 0.0, cap)
        amount = float((most * worth - 0.25 * most**2 * square).min())
        if amount <= 0.0:
            continue
        # The smallest multipliers that are worth as much, which leave the most to the others.
        root = np.sqrt(np.maximum(worth**2 - square * amount, 0.0))
        beta[i] = np.minimum(2.0 * amount / (worth + root), most)
        terms = beta[i] * worth - 0.25 * beta[i] ** 2 * square
        sizes = beta[i] * (np.abs(slope) + 0.5 * charge) + 0.25 * beta[i] ** 2 * square
        total += float((terms - gamma(2 * u + 16) * sizes).min())
    return total - gamma(u + 2) * abs(total)
