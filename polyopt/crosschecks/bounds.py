"""The bounds on the error of fitted machines, and the complexities in them."""

from __future__ import annotations

from itertools import product
from typing import Literal

import numpy as np

from formulations.error_bounds import rmm_bounds
from formulations.error_bounds.margin_bounds import Landmarks, linear_bound, margin_bound
from formulations.error_bounds.rademacher import (
    contraction_complexity,
    faces_complexity,
    log_odds_lipschitz,
    polytope_bound,
)
from formulations.mixture import log_odds
from formulations.polytope import lift
from polyopt.crosschecks.registry import CPM, RMM, Pair, Registry, Vector
from polyopt.crosschecks.samples import blobs, clusters, generator

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
    """Complexities: U_H as a semidefinite program = its dual, over weights held as the class is."""
    data = _sample(seed)
    return rmm_bounds.h_complexity(*data).solve().objective, rmm_bounds.h_complexity_dual(
        *data
    ).solve().objective


@CHECKS.add("T25", f"{RMM}, appendix; derived", 1e-9)
def uniform_multipliers(seed: int) -> Pair:
    """Complexities: the objective of U_H at uniform λ = √(T_G/2E)/n_u = U_G, where T_G = Σ x_i'Σ_D⁻¹x_i."""
    X, U, E, D = _sample(seed)
    trace = np.sum(X * np.linalg.solve(np.eye(3) + D / len(U) * U.T @ U, X.T).T)
    lam = np.full(len(U), np.sqrt(trace / (2.0 * E)) / len(U))
    return rmm_bounds.h_complexity_at(X, U, lam, E, D), rmm_bounds.g_complexity(X, U, E, D)


@CHECKS.add("X33", f"{RMM}, appendix", 1e-6)
def energy_and_complexity(seed: int) -> Pair:
    """Complexities: U_F, U_G and U_H grow as √E."""
    X, U, E, D = _sample(seed)

    def all_three(energy: float) -> Vector:
        h = rmm_bounds.h_complexity(X, U, energy, D).solve().objective
        return np.array([rmm_bounds.f_complexity(X, energy), rmm_bounds.g_complexity(X, U, energy, D), h])

    return all_three(5.0 * E), np.sqrt(5.0) * all_three(E)


@CHECKS.add("X34", f"{RMM}, appendix", 1e-6)
def equal_classes(seed: int) -> Pair:
    """Complexities: U_H = U_G for a single u, and U_H = U_F for D = 0."""
    X, U, E, D = _sample(seed)
    programs = rmm_bounds.h_complexity(X, U[:1], E, D), rmm_bounds.h_complexity(X, U, E, 0.0)
    closed = rmm_bounds.g_complexity(X, U[:1], E, D), rmm_bounds.f_complexity(X, E)
    return [program.solve().objective for program in programs], closed


@CHECKS.add("X35", f"{RMM}, appendix; derived", 1e-5)
def price_of_the_energy(seed: int) -> Pair:
    """Complexities: at the optimum the two terms of U_H are equal, and each is E dU_H/dE."""
    X, U, E, D = _sample(seed)
    found = rmm_bounds.h_complexity(X, U, E, D).solve()
    terms = [np.trace(found["Z"]) / len(X), 2.0 * E / len(X) * found["lam"].sum()]
    return terms, found.objective / 2.0


@CHECKS.add("X36", f":mod:`formulations.error_bounds.margin_bounds`; {RMM}, appendix", 1e-7)
def landmarks_and_semidefinite(seed: int) -> Pair:
    """Complexities: U_H from weights p of the landmarks, (2√(2E)/n)√τ(p) at the least τ, = its program."""
    X, U, E, D = _sample(seed)
    least = Landmarks.linear(X, U).least(D)
    return 2.0 / len(X) * np.sqrt(2.0 * E * least.trace), rmm_bounds.h_complexity(
        X, U, E, D
    ).solve().objective


@CHECKS.add("X37", ":mod:`formulations.error_bounds.margin_bounds`", 1e-8, "≤")
def landmarks_prove_their_gap(seed: int) -> Pair:
    """Complexities: at any weights p of the landmarks, τ(p) is above the least τ by no more than its gap."""
    X, U, _, D = _sample(seed)
    seen = Landmarks.linear(X, U)
    least, early = seen.least(D).trace, [seen.least(D, max_iter=steps) for steps in range(6)]
    return [(1.0 - at.gap) * at.trace for at in early] + [least] * 6, [least] * 6 + [at.trace for at in early]


@CHECKS.add(
    "X38", ":mod:`formulations.error_bounds.margin_bounds`, step 1; Latała & Oleszkiewicz (1994)", 1e-12, "≤"
)
def complexity_of_the_average(seed: int) -> Pair:
    """Class G: its Rademacher complexity, over all signs, ≤ U_G ≤ √2 times it."""
    X, U, E, D = _sample(seed)
    X = X[:10]
    root = np.linalg.cholesky(np.linalg.inv(np.eye(3) + D / len(U) * U.T @ U))
    sums = np.array(list(product((-1.0, 1.0), repeat=len(X)))) @ X
    exact = 2.0 / len(X) * np.sqrt(2.0 * E) * np.linalg.norm(sums @ root, axis=1).mean()
    bound = rmm_bounds.g_complexity(X, U, E, D)
    return [exact, bound], [bound, np.sqrt(2.0) * exact]


@CHECKS.add("X39", f":mod:`formulations.error_bounds.margin_bounds`; {RMM}, appendix, Theorem 1", 1e-9)
def bound_of_a_kernel(seed: int) -> Pair:
    """RMM: the bound of a machine in classes F, G and H is the same by its kernel as by its features."""
    X, U, _, _ = _sample(seed)
    w, b, y = np.array([0.5, -0.2, 0.3]), 0.1, np.where(X[:, 0] > 0, 1.0, -1.0)
    seen = Landmarks.of(U @ U.T, np.array_split(X @ U.T, 3), np.sum(X**2))
    forms: tuple[Literal["F", "G", "H"], ...] = ("F", "G", "H")
    by_kernel = [
        margin_bound(
            X @ w + b, y, norm=np.sqrt(w @ w), b=b, trace=np.sum(X**2),
            landmarks=seen, outputs=U @ w + b, form=form,
        ).total
        for form in forms
    ]  # fmt: skip
    return by_kernel, [linear_bound(X, y, w, b, U, form=form).total for form in forms]


@CHECKS.add(
    "X30",
    "the theorem of :mod:`formulations.error_bounds.rademacher`, steps 1 and 3; Latała & Oleszkiewicz (1994)",
    1e-12,
    "≤",
)
def complexity_of_a_face(seed: int) -> Pair:
    """One face, ‖w‖ ≤ 1: its Rademacher complexity, over all signs, ≤ T = √(Σ‖x̃_i‖²)/n ≤ √2 times it.

    The second part is the inequality of Khintchine and Kahane with its best constant. Three copies of the
    face, whose largest output is its own, have ‖W‖_F ≤ √3: the contraction's bound holds for them as well.
    """
    X = generator(seed).normal(size=(10, 2))
    lengths = [np.linalg.norm(np.array(signs) @ lift(X)) for signs in product((-1.0, 1.0), repeat=len(X))]
    exact, bound = np.mean(lengths) / len(X), faces_complexity(X, [1.0])
    of_copies = contraction_complexity(X, np.sqrt(3.0), 3)
    return [exact, bound, exact], [bound, np.sqrt(2.0) * exact, of_copies]


@CHECKS.add("X31", "PLUME's theorem of :mod:`formulations.error_bounds.rademacher`", 1e-12, "≤")
def slope_of_the_log_odds(seed: int) -> Pair:
    """PLUME: the log-odds change by at most L times the Euclidean change of the scores."""
    drawn, gamma, K = generator(seed), 3.0, 3
    # With samples of one feature at 0, the biases are the scores.
    nothing, changes, limits = np.zeros((1, 1)), [], []
    for scale in np.geomspace(1e-3, 3.0, 40):
        here = 2.0 * drawn.normal(size=K)
        there = here + scale * drawn.normal(size=K)
        values = [log_odds(nothing, np.column_stack([np.zeros(K), s]), gamma)[0] for s in (here, there)]
        changes.append(abs(values[1] - values[0]))
        limits.append(log_odds_lipschitz(gamma, K) * np.linalg.norm(there - here))
    return changes, limits


@CHECKS.add(
    "X32", f"the theorem of :mod:`formulations.error_bounds.rademacher`, step 6; {CPM}, Theorem 1", 1e-12
)
def bound_is_free_of_scale(seed: int) -> Pair:
    """CPM: the bound at the margin γ for the faces W = the bound at 1 for W/γ."""
    X, y = clusters(seed)
    W = generator(seed).normal(size=(3, 3))
    return polytope_bound(X, y, W, gamma=0.3).total, polytope_bound(X, y, W / 0.3, gamma=1.0).total
