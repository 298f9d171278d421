"""Multipliers made feasible, as real numbers and not up to rounding.

A bound is a theorem only at a point that keeps every row exactly. Clipping does. Division does not, because
it rounds: its results are made smaller by a little more than their rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.linalg.rounding import UNIT

if TYPE_CHECKING:
    from formulations.language.types import Vector

__all__ = ["within_shared_caps"]


def within_shared_caps(M: Vector, caps: Vector) -> Vector:
    """Multipliers M (n, K), not negative, shrunk until each row adds up to at most its cap (n,).

    The sums are within the caps as real numbers; rows that are so beforehand stay.
    """
    spare = 8.0 * (M.shape[1] + 2) * UNIT  # covers the sum, the quotient and the product
    largest = M.max(axis=1, initial=0.0)
    unit = np.where(largest > 0.0, largest, 1.0)  # sums of the largest numbers must not overflow
    total, allowed = (M / unit[:, None]).sum(axis=1), caps / unit
    over = total > allowed * (1.0 - spare)
    if not over.any():
        return M
    share = np.divide(allowed, total, out=np.ones_like(total), where=total > 0.0) * (1.0 - spare)
    share[caps < 2.0**-900] = 0.0  # not worth the digits that a product may lose to underflow
    return np.where(over[:, None], M * np.minimum(share, 1.0)[:, None], M)
