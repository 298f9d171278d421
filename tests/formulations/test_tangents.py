"""Outer approximation against every choice of features, and every choice of numbers."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from formulations import cpm, cpm_integer, cpm_subset
from formulations.samples import two_blobs
from formulations.tangents import least_by_tangents
from polyopt.solvers.cpm.subset import SubsetFace

TOLERANCE = 1e-7


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=20, m=4, seed=2)
    return X, y, np.where(y > 0, 0.3, 0.2)


def test_few_features_are_the_best_of_all_choices(data):
    X, y, C = data
    bound, value = least_by_tangents(cpm_subset.mixed_integer(X, y, 2, C), {"w": 1.0, "b": 1.0})
    least = min(SubsetFace(X, y, C, 2).fit(np.array(pair)).objective for pair in combinations(range(4), 2))
    assert bound <= least * (1 + TOLERANCE)
    assert value == pytest.approx(least, rel=2 * TOLERANCE)
    assert value - bound <= TOLERANCE * value


def test_whole_numbers_are_the_best_of_all_choices(data):
    X, y, C = data
    X, scale = X[:, :2], 0.3
    program = cpm_integer.mixed_integer(X, y, scale, 2, C)
    bound, value = least_by_tangents(program, {"p": scale**2, "b": 1.0})

    def of(p):
        # With p given, b alone is left: a face of no feature whose scores are moved by δ p·x.
        b = np.linspace(-3.0, 3.0, 60001)
        off = np.maximum(0.0, 1.0 - y[:, None] * (scale * (X @ p)[:, None] + b))
        return scale**2 * p @ p + (b**2 + C @ off).min()

    least = min(of(np.array(p)) for p in product(range(-2, 3), repeat=2))
    assert bound <= least
    assert value == pytest.approx(least, rel=1e-4)  # as near as the grid of b
    assert value - bound <= TOLERANCE * value


def test_without_a_choice_it_is_the_face(data):
    X, y, C = data
    _, value = least_by_tangents(cpm_subset.mixed_integer(X, y, 4, C), {"w": 1.0, "b": 1.0})
    assert value == pytest.approx(cpm.face(X, y, C).solve().objective, rel=1e-6)
