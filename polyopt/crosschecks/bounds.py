"""Complexities of classes of machines, in the bounds on their error."""

import numpy as np

from formulations.error_bounds import rmm_bounds
from polyopt.crosschecks.registry import RMM, Pair, Registry, Vector
from polyopt.crosschecks.samples import blobs, generator

CHECKS = Registry("bounds")


def _sample(seed: int) -> tuple[Vector, Vector, float, float]:
    """Return samples (40, 3), ten more of other values, the energy E, and the weight D."""
    X, _, _ = blobs(seed)
    return X, generator(seed).normal(size=(10, 3)) * [1.0, 3.0, 0.5], 2.0, 3.0


@CHECKS.add("T23", f"{RMM}, appendix", 1e-8, "≤")
def classes_in_order(seed: int) -> Pair:
    """Complexities: U_H ≤ U_G ≤ U_F."""
    X, U, E, D = _sample(seed)
    g = rmm_bounds.g_complexity(X, U, E, D)
    return [rmm_bounds.h_complexity(X, U, E, D).solve().objective, g], [g, rmm_bounds.f_complexity(X, E)]


@CHECKS.add("T24", f"{RMM}, appendix; the dual is derived", 1e-6)
def semidefinite_and_conic(seed: int) -> Pair:
    """Complexities: U_H as a semidefinite program = its dual, a cone program over weights."""
    data = _sample(seed)
    primal, dual = rmm_bounds.h_complexity(*data), rmm_bounds.h_complexity_dual(*data)
    return primal.solve().objective, dual.solve().objective


@CHECKS.add("T25", f"{RMM}, appendix; derived", 1e-9)
def uniform_multipliers(seed: int) -> Pair:
    """Complexities: the objective of U_H at uniform λ = √(T_G/2E)/n_u = U_G, where T_G = Σ x_i'Σ_D⁻¹x_i."""
    X, U, E, D = _sample(seed)
    trace = np.sum(X * np.linalg.solve(np.eye(3) + D / len(U) * U.T @ U, X.T).T)
    lam = np.full(len(U), np.sqrt(trace / (2.0 * E)) / len(U))
    return rmm_bounds.h_complexity_at(X, U, lam, E, D), rmm_bounds.g_complexity(X, U, E, D)
