"""Newton's steps that leave no orthant: what a price with kinks at 0 asks of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.logistic import solve_scaled

if TYPE_CHECKING:
    from formulations.matrices import Array

__all__ = ["step_within"]

_LEGS = 60  # of a step, each up to an entry that comes to 0


def step_within(H: Array, down: Array, at: Array, signs: Array) -> Array:
    """A step of Newton's that leaves no orthant: an entry that comes to 0 stays there, the others go on.

    Every leg lowers the quadratic model, which is convex, so the whole step is one of descent.

    H (k, k): positive definite.
    down (k,): the way of steepest descent.
    at (k,): where the step begins.
    signs (k,): the sign that an entry keeps; 0 where it may change.
    """
    free, here, slope = np.ones(len(at), dtype=bool), at.copy(), down.copy()
    for _ in range(_LEGS):
        step = np.zeros_like(at)
        step[free] = solve_scaled(H[np.ix_(free, free)], slope[free])
        crossing = free & (signs != 0.0) & (signs * (here + step) < 0.0)
        if not crossing.any():
            return here + step - at
        shares = np.divide(-here, step, out=np.full(len(at), np.inf), where=crossing)
        share = float(shares.min())
        stops = shares <= share * (1.0 + 1e-9)
        here, slope = here + share * step, slope - share * (H @ step)
        here[stops], free = 0.0, free & ~stops
    return here - at
