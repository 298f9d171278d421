"""Faces of few features and of whole numbers: programs against each other and against every choice."""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

from formulations import cpm, cpm_faces
from formulations.language.toy_data import two_blobs

S = 2
SCALE, M = 0.3, 1


@cache
def data():
    X, y = two_blobs(n=24, m=5, seed=3)
    return X, y, np.where(y > 0, 0.4, 0.25)


@cache
def by_choice():
    """The cost of the best face of each choice of features."""
    X, y, C = data()
    choices = combinations(range(X.shape[1]), S)
    return {chosen: cpm.face(X[:, list(chosen)], y, C).solve().objective for chosen in choices}


def test_subset_program_is_the_best_choice():
    """The integer program finds the features whose face costs least."""
    pytest.importorskip("pyscipopt")
    X, y, C = data()
    found = cpm_faces.subset_face(X, y, S, C).solve()
    assert found.objective == pytest.approx(min(by_choice().values()), rel=1e-6)
    assert by_choice()[tuple(np.flatnonzero(found["z"] > 0.5))] == min(by_choice().values())


@pytest.mark.parametrize("inside", [None, 0, 4])
def test_relaxation_bounds_every_choice(inside):
    """It is below each choice with the given feature, and its dual has its value."""
    X, y, C = data()
    given = None if inside is None else np.eye(5)[inside]
    relaxed = cpm_faces.subset_relaxation(X, y, S, C, given).solve().objective
    least = min(cost for chosen, cost in by_choice().items() if inside is None or inside in chosen)
    assert relaxed <= least * (1 + 1e-9)
    dual = cpm_faces.subset_relaxation_dual(X, y, S, C, given).solve().objective
    assert dual == pytest.approx(relaxed)


def test_relaxation_of_all_features_is_the_face():
    """Where every feature may be used nothing is relaxed."""
    X, y, C = data()
    relaxed = cpm_faces.subset_relaxation(X, y, X.shape[1], C).solve()
    assert relaxed.objective == pytest.approx(cpm.face(X, y, C).solve().objective, rel=1e-8)


def test_best_prices_leave_the_largest_squares():
    """At any alpha the dual is Σα less a quarter of the bias' square and the S largest squares of v."""
    X, y, C = data()
    alpha = np.random.default_rng(0).uniform(0, 1, len(y)) * C
    v = X.T @ (alpha * y)
    order = np.sort(v**2)[::-1]
    lam = order[S - 1] / 4
    point = {"alpha": alpha, "lam": lam, "mu": np.maximum(v**2 / 4 - lam, 0), "nu": np.zeros(5)}
    dual = cpm_faces.subset_relaxation_dual(X, y, S, C)
    assert max(dual.violations(point).values()) < 1e-12
    assert dual.value(point) == pytest.approx(alpha.sum() - ((alpha @ y) ** 2 + order[:S].sum()) / 4)


def test_integer_program_is_the_best_choice():
    """Among all whole weights it finds the best, with a bias by trial, and the relaxation is between."""
    pytest.importorskip("pyscipopt")
    X, y = two_blobs(n=20, m=2, seed=1)
    C = np.where(y > 0, 1.0, 0.7)

    def cost(p):
        """The best bias by trying all its kinks, and where its own slope meets that of the losses."""
        outputs = SCALE * (X @ np.array(p))
        ends = y - outputs
        inner = [0.5 * (C * y)[y * (outputs + b) < 1].sum() for b in np.r_[ends - 1e-9, ends + 1e-9]]
        b = np.r_[ends, inner]
        losses = C @ np.maximum(0, 1 - y[:, None] * (outputs[:, None] + b))
        return SCALE**2 * np.square(p).sum() + (b**2 + losses).min()

    least = min(cost(p) for p in product(range(-M, M + 1), repeat=2))
    found = cpm_faces.integer_face(X, y, SCALE, M, C).solve()
    assert found.objective == pytest.approx(least, rel=1e-6)
    relaxed = cpm_faces.integer_relaxation(X, y, SCALE, M, C).solve().objective
    face = cpm.face(X, y, C).solve().objective
    assert face <= relaxed + 1e-9 <= found.objective + 2e-9
    loose = cpm_faces.integer_relaxation(X, y, SCALE, 1000, C).solve().objective
    assert loose == pytest.approx(face, rel=1e-7)
