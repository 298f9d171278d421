"""A face of few features: its programs against each other, and against every choice of features."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from formulations import cpm, cpm_faces
from formulations.language.toy_data import two_blobs

S = 2


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=24, m=5, seed=3)
    return X, y, np.where(y > 0, 0.4, 0.25)


@pytest.fixture(scope="module")
def by_choice(data):
    """What the best face of each choice of features costs."""
    X, y, C = data
    return {
        chosen: cpm.face(X[:, list(chosen)], y, C).solve().objective
        for chosen in combinations(range(X.shape[1]), S)
    }


def test_the_exact_program_is_the_best_choice(data, by_choice):
    X, y, C = data
    pytest.importorskip("pyscipopt")
    found = cpm_faces.subset_face(X, y, S, C).solve()
    assert found.objective == pytest.approx(min(by_choice.values()), rel=1e-6)
    chosen = tuple(np.flatnonzero(found["z"] > 0.5))
    assert by_choice[chosen] == min(by_choice.values())


@pytest.mark.parametrize("inside", [None, 0, 4])
def test_the_relaxation_bounds_every_choice_with_the_given(data, by_choice, inside):
    X, y, C = data
    given = None if inside is None else np.eye(5)[inside]
    relaxed = cpm_faces.subset_relaxation(X, y, S, C, given).solve()
    least = min(cost for chosen, cost in by_choice.items() if inside is None or inside in chosen)
    assert relaxed.objective <= least * (1 + 1e-9)
    assert cpm_faces.subset_relaxation_dual(X, y, S, C, given).solve().objective == pytest.approx(
        relaxed.objective
    )


def test_with_all_features_the_relaxation_is_the_face_itself(data):
    X, y, C = data
    relaxed = cpm_faces.subset_relaxation(X, y, X.shape[1], C).solve()
    assert relaxed.objective == pytest.approx(cpm.face(X, y, C).solve().objective, rel=1e-8)


def test_the_best_prices_leave_the_largest_squares(data):
    X, y, C = data
    alpha = np.random.default_rng(0).uniform(0, 1, len(y)) * C
    v = X.T @ (alpha * y)
    order = np.sort(v**2)[::-1]
    lam = order[S - 1] / 4
    point = {"alpha": alpha, "lam": lam, "mu": np.maximum(v**2 / 4 - lam, 0), "nu": np.zeros(5)}
    dual = cpm_faces.subset_relaxation_dual(X, y, S, C)
    assert max(dual.violations(point).values()) < 1e-12
    assert dual.value(point) == pytest.approx(alpha.sum() - ((alpha @ y) ** 2 + order[:S].sum()) / 4)


@pytest.mark.parametrize("given", [[1, 0], np.full(5, 0.5), np.ones(5)])
def test_given_features_that_are_none_are_refused(data, given):
    X, y, C = data
    with pytest.raises(ValueError, match=r"given must be 0 or 1, of shape \(5,\), with at most 2 ones"):
        cpm_faces.subset_relaxation(X, y, S, C, given)
