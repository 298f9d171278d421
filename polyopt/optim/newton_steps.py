"""Parts of Newton's method: linear systems whose matrix need not be definite, and Armijo's condition."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from formulations.language.types import Vector

ARMIJO = 1e-4
"""Fraction of the decrease predicted by the slope that a step must attain (Armijo's condition)."""


def solve_scaled(H: Vector, b: Vector) -> Vector:
    """Return H⁻¹ b for symmetric H with a positive diagonal.

    H is scaled to a unit diagonal, and a ridge is added until it has a Cholesky factor; without one, the
    result is b divided by the diagonal.
    """
    scale = 1.0 / np.sqrt(H.diagonal())
    H = H * scale[:, None] * scale
    for ridge in (0.0, 1e-14, 1e-11, 1e-8):
        H.flat[:: len(H) + 1] += ridge
        try:
            return np.asarray(scale * cho_solve(cho_factor(H), scale * b))
        except np.linalg.LinAlgError:
            continue
    return np.asarray(scale * scale * b)


def positive_factor(H: Vector) -> tuple[Vector, bool]:
    """Return the lower Cholesky factor of a symmetric H, as ``cho_factor`` does.

    If H is not positive definite, a ridge is added to it in place, ten times as large in each trial.
    """
    size = float(np.abs(H).max()) or 1.0
    ridge = 0.0
    while True:
        try:
            return cho_factor(H, lower=True)
        except np.linalg.LinAlgError:
            larger_ridge = max(10.0 * ridge, 1e-10 * size)
            H.flat[:: len(H) + 1] += larger_ridge - ridge
            ridge = larger_ridge
