"""A bound on all assignments of the Convex Polytope Machine from bounds on groups of samples.

Let J(W) = ‖W‖² + Σ_i C_i ℓ_i(W), where ℓ_i is what sample i pays, a positive on its best face. Let the
samples be split into m groups G_1 ... G_m.

Theorem. min_W J(W) ≥ (1/m) Σ_g min_W [ ‖W‖² + Σ_{i∈G_g} m C_i ℓ_i(W) ].

Proof. For every W, J(W) = (1/m) Σ_g [ ‖W‖² + Σ_{i∈G_g} m C_i ℓ_i(W) ], as each sample is in one group; each
bracket is at least its own minimum, whatever W is. ∎

A bracket is the machine of a group with costs m times as large. Any bounds on its optimum over all its
assignments do: of a group that nobody looked into 0 is one.

Rounding. The costs m C_i are rounded down, which lowers a group's optimum; the sum of the bounds and the
quotient are rounded down.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["bound_of_groups", "costs_in_groups"]


def costs_in_groups(C: Vector, count: int) -> Vector:
    """The costs of samples within `count` groups, no more than `count` times their own, however rounded.

    Parameters
    ----------
    C : ndarray of shape (n,)
        Costs in the whole program.
    count : int
        How many groups.
    """
    return np.nextafter(count * C, 0.0)


def bound_of_groups(bounds: Vector) -> float:
    """What bounds on the groups' own programs prove of the whole: their mean, rounded down.

    Parameters
    ----------
    bounds : ndarray of shape (groups,)
        One for each group; 0 is always one.
    """
    total = np.nextafter(math.fsum(bounds), -np.inf)
    return max(float(np.nextafter(total / len(bounds), -np.inf)), 0.0)
