"""Complexities of classes of machines, in the bounds on their error."""

import numpy as np

from formulations.error_bounds import rmm_bounds
from polyopt.crosschecks.registry import RMM, Pairs, Registry
from polyopt.crosschecks.samples import blobs, generator

CHECKS = Registry("bounds")


@CHECKS.add(RMM)
def _complexities(seed: int) -> Pairs:
    """Compare the complexities, with weight D = 3 of samples U and energy E = 2.

    T23 | ≤ 1e-8 | appendix | Complexities: U_H ≤ U_G ≤ U_F
    T24 | = 1e-6 | appendix; the dual is derived | Complexities: U_H as a semidefinite program = its dual,
        a cone program over weights
    T25 | = 1e-9 | appendix; derived | Complexities: the objective of U_H at uniform λ = √(T_G/2E)/n_u = U_G,
        where T_G = Σ x_i'Σ_D⁻¹x_i
    """
    X, _, _ = blobs(seed)
    U, E, D = generator(seed).normal(size=(10, 3)) * [1.0, 3.0, 0.5], 2.0, 3.0
    h = rmm_bounds.h_complexity(X, U, E, D).solve().objective
    g = rmm_bounds.g_complexity(X, U, E, D)
    yield [h, g], [g, rmm_bounds.f_complexity(X, E)]
    yield h, rmm_bounds.h_complexity_dual(X, U, E, D).solve().objective
    trace = np.sum(X * np.linalg.solve(np.eye(3) + D / len(U) * U.T @ U, X.T).T)
    lam = np.full(len(U), np.sqrt(trace / (2.0 * E)) / len(U))
    yield rmm_bounds.h_complexity_at(X, U, lam, E, D), g
