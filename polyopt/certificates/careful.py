"""Sums in twice the working precision, for terms that nearly cancel where an error is expensive.

A bound pays for an imbalance of the multipliers, and so for its rounding, at the box's price. Here products
are split into their rounded values and their errors, which is exact (Dekker), and added up in pairs with the
errors of the additions kept (Ogita, Rump and Oishi, Accurate sum and dot product, 2005): the result is off by
a rounding of itself and γ_n² of the terms' sizes, where a plain sum is off by γ_n of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.matrices import dense
from polyopt.certificates.rounding import UNIT, Ball, gamma, transposed_product

if TYPE_CHECKING:
    from formulations.matrices import Matrix, Vector

__all__ = ["careful_transposed_product"]

_MOST = 4_000_000  # entries of X above which a plain sum has to do
_SAFE = 2.0**480  # sizes whose products and splits stay clear of overflow, and of underflow the other way
_SPLIT = 2.0**27 + 1.0  # Veltkamp's: the halves of a double's 53 bits, whose products are exact


def careful_transposed_product(X: Matrix, M: Vector) -> Ball:
    """``X' M`` (m, K) for exact matrices, in twice the working precision if X is not large."""
    if X.shape[0] * X.shape[1] > _MOST:
        return transposed_product(X, M)
    whole = dense(X)
    if max(np.abs(whole).max(initial=0.0), np.abs(M).max(initial=0.0)) > _SAFE:
        return transposed_product(X, M)
    columns = [_column(whole, m) for m in M.T]
    return Ball(np.stack([c.mid for c in columns], axis=1), np.stack([c.rad for c in columns], axis=1))


def _column(X: Vector, m: Vector) -> Ball:
    used = m != 0.0
    X, m = X[used], m[used]
    n = len(m) + 1
    P, E = _two_product(X, m[:, None])
    size, errors = np.abs(P).sum(axis=0), E.sum(axis=0)
    while len(P) > 1:
        half = len(P) // 2
        total, error = _two_sum(P[:half], P[half : 2 * half])
        errors += error.sum(axis=0)
        P = np.concatenate([total, P[2 * half :]])
    mid = (P[0] if len(P) else np.zeros(X.shape[1])) + errors
    # A product that is subnormal has an error that is no number, of which each is less than 2^-1074.
    return Ball(mid, 1.01 * (UNIT * np.abs(mid) + 4.0 * gamma(n + 2) ** 2 * size) + n * 2.0**-1000)


def _two_product(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Products, and what rounding took from them."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _halves(a: Vector) -> tuple[Vector, Vector]:
    scaled = _SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """Sums, and what rounding took from them."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
