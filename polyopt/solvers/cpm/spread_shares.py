"""The shares that make the most of given multipliers, for the bound by the spread of the faces.

On each face k let the multipliers be fixed: p_k = Σ_j a_kj A_j, sums s_ik, vectors e_ik and lengths d_ik, as
in :mod:`polyopt.solvers.cpm.spread`. With E_k the matrix of columns e_ik, D_k that of the lengths on its
diagonal, M_k = D_k − E_k' E_k and c_ik = s_ik − ½ e_ik·p_k − ¼ d_ik, the bound that
``polyopt.outer.cpm.spread`` proves is, up to a constant,

    β(θ) = −¼ Σ_k θ_k' M_k θ_k + Σ_i min_k ( c_ik + ½ (M_k θ_k)_i ).

Theorem. β is largest at the θ that minimises γ(z) = Σ_k ( c_k·z_k + ¼ z_k' M_k z_k ) over z_i ≥ 0,
Σ_k z_ik = 1 for each i, and there β(θ) = γ(θ).

Proof. M_k is positive semidefinite, as Σ_i e_i e_i'/d_i ⪯ I is the same as E'E ⪯ D. So γ is convex, and for
any θ and z, ¼ z' M z ≥ ½ z' M θ − ¼ θ' M θ: γ(z) ≥ −¼ Σ_k θ_k' M_k θ_k + Σ_ik z_ik (c_ik + ½ (M_k θ_k)_i) ≥
β(θ). At a minimiser each z_i has its weight on the faces of its least slope c_ik + ½ (M_k z_k)_i, so that
both are equalities for θ = z. ∎

This kernel minimises γ by moving weight of one sample between two faces at a time. Nothing rests on how far
it comes, for any shares prove a bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polyopt.compiled import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Vector

__all__ = ["Fixed", "best_shares"]

_RIDGE = 1e-3  # of a length, added to the curvature, which may be 0


class Fixed(NamedTuple):
    """Multipliers that are fixed, of faces in use and of one that stands for those that are alike.

    slope (F, p), c; e (F, p, d); length (F, p); times (F,), how many faces one stands for; allowed (F, p),
    who may be on it.
    """

    slope: Vector
    e: Vector
    length: Vector
    times: Vector
    allowed: NDArray[np.bool_]


@njit(cache=True)
def best_shares(fixed: Fixed, share: Vector, passes: int, little: float) -> None:
    """Move shares (F, p), in place, to where γ is least: all of a face that stands for several, together.

    Passes end after so many, or with one in which γ falls by no more than `little`.
    """
    n_faces, p, d = fixed.e.shape
    pulled, curve = np.zeros((n_faces, d)), np.zeros((n_faces, p))
    for k in range(n_faces):
        for i in range(p):
            square = 0.0
            for r in range(d):
                pulled[k, r] += share[k, i] * fixed.e[k, i, r]
                square += fixed.e[k, i, r] * fixed.e[k, i, r]
            bent = max(fixed.length[k, i] - square, 0.0) + _RIDGE * fixed.length[k, i]
            curve[k, i] = 0.5 * bent / fixed.times[k]
    for _ in range(passes):
        fallen = 0.0
        for i in range(p):
            for _ in range(n_faces - 1):
                gained = _move(fixed, share, pulled, curve, i)
                fallen += gained
                if gained == 0.0:
                    break
        if fallen <= little:
            break


@njit(cache=True)
def _move(fixed: Fixed, share: Vector, pulled: Vector, curve: Vector, i: int) -> float:
    """Move weight of i from its face of the largest slope to that of the least; by how much γ falls."""
    n_faces, _, d = fixed.e.shape
    low, high, least, largest = -1, -1, np.inf, -np.inf
    for k in range(n_faces):
        if fixed.allowed[k, i]:
            along = fixed.length[k, i] * share[k, i]
            for r in range(d):
                along -= fixed.e[k, i, r] * pulled[k, r]
            slope = fixed.slope[k, i] + 0.5 * along / fixed.times[k]
            if slope < least:
                low, least = k, slope
            if share[k, i] > 0.0 and slope > largest:
                high, largest = k, slope
    if low < 0 or high < 0 or low == high:
        return 0.0
    bent = curve[low, i] + curve[high, i]
    step = share[high, i]
    if largest - least < step * bent:
        step = (largest - least) / bent
    share[high, i] -= step
    share[low, i] += step
    for r in range(d):
        pulled[high, r] -= step * fixed.e[high, i, r]
        pulled[low, r] += step * fixed.e[low, i, r]
    return step * (largest - least) - 0.5 * step * step * bent
