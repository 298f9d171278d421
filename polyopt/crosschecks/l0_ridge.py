"""The L0 support vector machine with a price of squares: its programs, its relaxation, its optimum."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations import l0_ridge
from formulations.l0_data import L0Data, as_l0_data
from polyopt.certificates.l0 import cut_of
from polyopt.crosschecks.registry import Registry
from polyopt.crosschecks.samples import blobs, generator, rbf
from polyopt.solvers.l0.ridge import PatternQP
from polyopt.solvers.l0.tree import solve_l0_tree
from polyopt.solvers.one_norm import solve_relaxation

if TYPE_CHECKING:
    from polyopt.crosschecks.registry import Pair, Vector

__all__ = ["CHECKS"]

CHECKS = Registry("l0_ridge")

_SMALL = 6  # centres: few enough for every pattern to be solved


def _sample(seed: int, centres: int | None = None) -> tuple[L0Data, Vector]:
    """A problem whose kernel is neither symmetric nor semidefinite, and a pattern of some centres."""
    X, y, _ = blobs(seed)
    C, l2 = (2.0, 1.0, 5.0)[seed % 3], (0.3, 2.0, 0.01)[seed % 3]
    drawn = generator(seed)
    K = (rbf(X) + 0.1 * drawn.normal(size=(len(y), len(y))))[:, :centres]
    data = as_l0_data(K, y, C, centres=y[:centres], l2=l2)
    return data, (drawn.random(len(data.centres)) < 0.3).astype(float)


@CHECKS.add("X140", 1e-7)
def duality_of_a_pattern(seed: int) -> Pair:
    """L0-SVM with squares: value of a pattern's program = value of its dual.

    Source: formulations.l0_ridge; derived.
    """
    data, sigma = _sample(seed)
    given: Any = data.K, data.y, sigma, data.C, data.weights, data.centres
    dual = l0_ridge.pattern_dual(*given, l2=data.l2).solve()
    return dual.objective, l0_ridge.pattern(*given, l2=data.l2).solve().objective


@CHECKS.add("X141", 1e-6)
def interior_points(seed: int) -> Pair:
    """L0-SVM with squares: pattern and relaxation by interior points of our own = the explicit programs.

    Source: formulations.l0_ridge; derived.
    """
    data, sigma = _sample(seed)
    rest: Any = data.C, data.weights, data.centres
    pattern = l0_ridge.pattern(data.K, data.y, sigma, *rest, l2=data.l2).solve().objective
    relaxed = l0_ridge.relaxation(data.K, data.y, *rest, l2=data.l2).solve().objective
    return [PatternQP(data).solve(sigma).value, solve_relaxation(data).objective], [pattern, relaxed]


@CHECKS.add("X142", 1e-6)
def bound_of_multipliers(seed: int) -> Pair:
    """L0-SVM with squares: Σ u − Σ [q(r_j) − 1]_+ at the relaxation's multipliers = its value.

    Source: formulations.l0_ridge; derived.
    """
    data, _ = _sample(seed)
    relaxed = solve_relaxation(data)
    return float(relaxed.bound or 0.0), relaxed.objective


@CHECKS.add("X143", 1e-7, "≤")
def cut_of_one_pattern(seed: int) -> Pair:
    """L0-SVM with squares: 1'u − Σ σ'_j q(r_j) ≤ L(σ') for every σ', whatever pattern u is from.

    Source: formulations.l0_ridge; derived.
    """
    data, sigma = _sample(seed, _SMALL)
    model = PatternQP(data)
    constant, slopes = cut_of(data, model.solve(sigma).u)
    every = np.array(list(product((0.0, 1.0), repeat=_SMALL)))
    return constant.lower - every @ slopes.upper, [model.solve(pattern).value for pattern in every]


@CHECKS.add("X144", 1e-6)
def best_of_all_patterns(seed: int) -> Pair:
    """L0-SVM with squares: the tree's optimum = the least score of all patterns.

    Source: formulations.l0_ridge; derived.
    """
    data, _ = _sample(seed, _SMALL)
    model = PatternQP(data)
    every = [np.array(bits) for bits in product((0.0, 1.0), repeat=_SMALL)]
    return solve_l0_tree(data).objective, min(
        data.pattern_score(sigma, model.solve(sigma).value) for sigma in every
    )
