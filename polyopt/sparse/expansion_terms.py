"""Common parts of the certificates of sparse expansions: multipliers feasible over the reals, and bounds.

For f(x_i) = Σ_j K_ij t_j α_j + b every bound is built from multipliers u of the margin rows, 0 ≤ u ≤ caps
and Σ y_i u_i = 0, and from the rates r_j = t_j Σ_i K_ij y_i u_i. No floating-point numbers need add up to
zero exactly. The multipliers meant here are real numbers near the computed ones that do: those of the heavier
class times the true quotient of the two classes' sums (:func:`balanced`). How far that is from the computed
numbers is their radius, and everything after carries it (Neumaier & Shcherbina, Safe bounds in linear and
mixed-integer linear programming, 2004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.linalg.rounding import Ball, gamma, product

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from formulations.language.types import Vector

__all__ = ["UNDERFLOW", "balanced", "loss", "outputs", "rates"]

UNDERFLOW = 2.0**-1000
"""More than all the underflows of an inner product lose."""


def balanced(u: Vector, y: Vector, caps: Vector) -> Ball:
    """Multipliers of the margin rows near `u` that are feasible over the real numbers.

    u (n,): any numbers; they are clipped to their caps, and those of the heavier class shrunk.
    caps (n,): largest multipliers, not negative.
    Returns (n,): around real numbers with 0 ≤ u ≤ caps and Σ y_i u_i = 0, exactly. Its numbers are never
        negative.
    """
    clipped = np.clip(u, 0.0, caps)
    positive = y > 0
    plus, minus = float(clipped[positive].sum()), float(clipped[~positive].sum())
    light = min(plus, minus)
    # Each sum is off by gamma(n) of itself at most, so each quotient by twice that.
    off = 4.0 * gamma(len(u) + 2)
    factors = []
    for own in (minus, plus):
        share = light / own if own > 0.0 else 0.0
        surely_lighter = own <= (1.0 - off) * max(plus, minus)  # its quotient is 1 exactly
        factors.append((share, 0.0 if surely_lighter else off * share))
    mid, rad = (np.where(positive, factors[1][k], factors[0][k]) for k in (0, 1))
    return Ball(clipped) * Ball(mid, rad)


def rates(computed: Vector, sizes: Vector, errors: Vector, u: Ball) -> Ball:
    """The rates Σ_i A_ij u_i, computed from entries rounded once or twice, with their radius.

    computed (p,): the inner products with ``u.mid``, in whatever order they were added up.
    sizes, errors (p,): of the columns of A, as of :func:`formulations.l0_data.column_sizes`.
    """
    n = len(u.mid)
    total, carried = float(np.abs(u.mid).sum()), float(u.rad.sum())
    rad = sizes * (gamma(n + 4) * total + carried) + errors * (total + carried)
    return Ball(computed, rad * (1.0 + gamma(4 * n + 32)) + (n + 1) * UNDERFLOW)


def outputs(K: Vector, coefficients: Vector, b: float, entry_error: ArrayLike = 0.0) -> Ball:
    """The outputs K c + b.

    coefficients (p,): c, with its signs.
    entry_error (n, p): how far the entries of K may be from those that are meant.
    """
    used = np.flatnonzero(coefficients)
    if not used.size:
        return Ball(np.full(len(K), b))  # exactly
    found = product(K[:, used], coefficients[used])
    sizes = np.abs(coefficients)
    error = np.asarray(entry_error, dtype=float)
    off: Any = error * sizes.sum() if error.ndim == 0 else np.broadcast_to(error, K.shape) @ sizes
    if np.any(off):
        found = Ball(found.mid, found.rad + off * (1.0 + gamma(4 * len(sizes) + 32)))
    return found + b


def loss(f: Ball, y: Vector, costs: Vector) -> Ball:
    """The loss Σ_i c_i [1 − y_i f_i]_+ .

    y, costs (n,): labels -1 and +1, and what a unit of slack costs.
    """
    margins = Ball(y * f.mid, f.rad)
    # What is exactly beyond the margin costs nothing at all, so that an optimum of 0 can be proven.
    paid = ~((margins.rad == 0.0) & (margins.mid >= 1.0))
    return (1.0 - margins[paid]).positive().dot(costs[paid]) if paid.any() else Ball(0.0)
