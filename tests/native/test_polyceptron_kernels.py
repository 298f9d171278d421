"""Visits of the Polyceptron in C: equal to plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.rows import as_rows
from polyopt.solvers.polyceptron import _Sweeps


def plain_visit(X, y, c, order, W, target, step, update_all):
    """Criterion, weight of mistakes and samples of each cell; faces are rows of W and target (K, m+1)."""
    criterion, mistakes, sizes = 0.0, 0.0, np.zeros(len(W))
    for i in order:
        x = np.append(X[i], 1.0)
        scores = W @ x
        face = int(np.argmin(scores))
        sizes[face] += 1
        wrong = y[i] * scores[face] <= 0
        if wrong:
            criterion -= c[i] * y[i] * scores[face]
            mistakes += c[i]
        if wrong or update_all:
            target[face] += step * c[i] * y[i] * x
    return criterion, mistakes, np.count_nonzero(sizes)


@pytest.mark.parametrize("online", [False, True], ids=["batch", "online"])
@pytest.mark.parametrize("update_all", [False, True])
@pytest.mark.parametrize("K", [1, 2, 9, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("share", [1.0, 0.3], ids=["dense", "packed"])
def test_a_visit_is_that_of_plain_loops(share, dtype, K, update_all, online):
    rng = np.random.default_rng(K)
    X = (rng.integers(1, 9, (14, 5)) * (rng.random((14, 5)) < share)).astype(dtype)
    y, c, order = rng.choice([-1.0, 1.0], 14), rng.uniform(0.5, 2.0, 14), rng.integers(0, 14, 30)
    W = rng.normal(size=(K, 6))
    state = _Sweeps(W)
    target = state.W if online else np.zeros_like(state.W)
    found = state.sweep(as_rows(X), y, c, order, target, 0.3, update_all)
    plain = W.copy()
    moved = plain if online else np.zeros_like(W)
    assert found == pytest.approx(plain_visit(X.astype(float), y, c, order, plain, moved, 0.3, update_all))
    assert target[:, :K].T == pytest.approx(moved, abs=1e-12)
    assert not target[:, K:].any()


def test_an_empty_order_visits_nothing():
    state = _Sweeps(np.ones((2, 3)))
    met = state.sweep(as_rows(np.ones((1, 2))), np.ones(1), np.ones(1), np.arange(0), state.W, 1.0)
    assert met == (0.0, 0.0, 0.0)
    assert state.faces.tolist() == np.ones((2, 3)).tolist()
