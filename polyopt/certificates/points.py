"""Checks of the vectors that a certificate is computed from, and a repair of multipliers.

A NaN, an intercept with one number per sample, a complex weight or an infinite tolerance could each make a
certificate claim "optimal" for a wrong solution, so every certificate checks its arguments here.
"""

import numpy as np
from numpy.typing import ArrayLike

from formulations.language.arguments import real_array, real_number
from formulations.language.types import Vector
from polyopt.linalg.rounding import ABOVE, UNIT, Ball


def checked_vector(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> Vector | None:
    """Return `values` as finite real numbers of this shape, or None for None; else raise ValueError."""
    return None if values is None else real_array(name, values, shape)


def checked_number(name: str, value: float | None, *, infinite: bool = False) -> float | None:
    """Return `value` as a real number, or None for None; else raise ValueError."""
    return None if value is None else real_number(name, value, infinite=infinite)


def checked_faces(name: str, values: ArrayLike, rows: int | None, columns: int | None) -> Vector:
    """Return a finite real matrix with this number of rows and columns; None allows any number from 1."""
    matrix = real_array(name, values, finite=False)
    has_shape = matrix.ndim == 2 and all(
        size >= 1 if wanted is None else size == wanted
        for wanted, size in zip((rows, columns), matrix.shape, strict=True)
    )
    if not has_shape or not np.isfinite(matrix).all():
        shape = " x ".join("K" if size is None else str(size) for size in (rows, columns))
        raise ValueError(f"{name} must be finite, of shape {shape}; its shape is {matrix.shape}")
    return matrix


def within_shared_caps(M: Vector, caps: Vector) -> Vector:
    """Scale rows of non-negative multipliers M (n, K) so that a sample's sum is at most its cap (n,).

    The sums of the result are within the caps in exact arithmetic, not only up to rounding: each scale factor
    is reduced by more than its rounding error. Rows whose sum is within the cap do not change.
    """
    margin = 8.0 * (M.shape[1] + 2) * UNIT  # covers the sum, the quotient and the product
    largest = M.max(axis=1, initial=0.0)
    unit = np.where(largest > 0.0, largest, 1.0)  # sums of the largest numbers must not overflow
    total, allowed = (M / unit[:, None]).sum(axis=1), caps / unit
    exceeds = total > allowed * (1.0 - margin)
    if not exceeds.any():
        return M
    factor = np.divide(allowed, total, out=np.ones_like(total), where=total > 0.0) * (1.0 - margin)
    factor[caps < 2.0**-900] = 0.0  # a product could lose digits to underflow
    return np.where(exceeds[:, None], M * np.minimum(factor, 1.0)[:, None], M)


@np.errstate(over="ignore", invalid="ignore")
def balancing(plus: Ball, minus: Ball) -> tuple[Ball, Ball]:
    """Return the factors min(1, minus/plus) and min(1, plus/minus) of two sums of non-negative multipliers.

    Multiplied by the true factors, which are in the balls, both sums are equal in exact arithmetic.
    """
    factors = []
    for own, other in ((plus, minus), (minus, plus)):
        if own.upper <= other.lower or not own.mid:  # nothing to scale
            factors.append(Ball(1.0))
        elif own.lower <= 0.0:  # by underflow; the factor is somewhere in [0, 1]
            factors.append(Ball(0.5, 0.5))
        else:
            mid = np.minimum(other.mid / own.mid, 1.0)
            high = np.minimum(other.upper / own.lower, 1.0)
            rad = np.maximum(mid - other.lower / own.upper, high - mid)
            # The second term covers the rounding of the quotients, and the third their underflow.
            factors.append(Ball(mid, rad * ABOVE + 4.0 * UNIT * high + 2.0**-1000))
    return factors[0], factors[1]
