"""Points given to a certificate: arguments checked, and multipliers made feasible.

A NaN, an intercept with one number per sample, a complex weight or an infinite tolerance could each make a
wrong answer "optimal", so every family checks its arguments here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import real_array, real_number
from formulations.language.types import Vector
from polyopt.linalg.rounding import UNIT


def checked_vector(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> Vector | None:
    """Return finite real numbers of this shape, or None if none are given; else raise ValueError."""
    return None if values is None else real_array(name, values, shape)


def checked_number(name: str, value: float | None, *, infinite: bool = False) -> float | None:
    """Return a real number, or None if none is given; else raise ValueError."""
    return None if value is None else real_number(name, value, infinite=infinite)


def checked_faces(name: str, values: ArrayLike, rows: int | None, columns: int | None) -> Vector:
    """Return a finite real matrix of so many rows and columns; None allows any number from 1."""
    matrix = real_array(name, values, finite=False)
    fits = matrix.ndim == 2 and all(
        have >= 1 if want is None else have == want
        for want, have in zip((rows, columns), matrix.shape, strict=True)
    )
    if not fits or not np.isfinite(matrix).all():
        wanted = " x ".join("K" if size is None else str(size) for size in (rows, columns))
        raise ValueError(f"{name} must be finite, of shape {wanted}; its shape is {matrix.shape}")
    return matrix


def within_shared_caps(M: Vector, caps: Vector) -> Vector:
    """Scale rows of non-negative multipliers M (n, K) so that each sums to at most its cap (n,).

    The sums of the result respect the caps in exact arithmetic, not up to rounding: each factor is reduced by
    more than its rounding error. Rows that respect their caps stay.
    """
    margin = 8.0 * (M.shape[1] + 2) * UNIT  # covers the sum, the quotient and the product
    largest = M.max(axis=1, initial=0.0)
    unit = np.where(largest > 0.0, largest, 1.0)  # sums of the largest numbers must not overflow
    total, allowed = (M / unit[:, None]).sum(axis=1), caps / unit
    over = total > allowed * (1.0 - margin)
    if not over.any():
        return M
    share = np.divide(allowed, total, out=np.ones_like(total), where=total > 0.0) * (1.0 - margin)
    share[caps < 2.0**-900] = 0.0  # a product could lose digits to underflow
    return np.where(over[:, None], M * np.minimum(share, 1.0)[:, None], M)
