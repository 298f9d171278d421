"""Visits of the Polyceptron in C: equal to plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, length, pick, rows_anywhere

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
    check_visit(np.random.default_rng(K), share, dtype, K, update_all, online, 14, 5, 30)


def check_visit(rng, share, dtype, K, update_all, online, n, m, visits):
    X = (rng.integers(1, 9, (n, m)) * (rng.random((n, m)) < share)).astype(dtype)
    y, c = anywhere(rng, rng.choice([-1.0, 1.0], n)), anywhere(rng, rng.uniform(0.5, 2.0, n))
    order, W = anywhere(rng, rng.integers(0, max(n, 1), visits if n else 0)), rng.normal(size=(K, m + 1))
    state = _Sweeps(W)
    state.W = anywhere(rng, state.W)
    target = state.W if online else anywhere(rng, np.zeros_like(state.W))
    found = state.sweep(rows_anywhere(rng, X), y, c, order, target, 0.3, update_all)
    plain = W.copy()
    moved = plain if online else np.zeros_like(W)
    assert found == pytest.approx(plain_visit(X.astype(float), y, c, order, plain, moved, 0.3, update_all))
    assert target[:, :K].T == pytest.approx(moved, abs=1e-11)
    assert not target[:, K:].any()


@drawn_calls("polyceptron_visit")
def test_drawn_visits(rng):
    share, dtype = pick(rng, [1.0, 0.3]), pick(rng, [np.float64, np.float32, np.uint8])
    sizes = length(rng, 20, least=1), length(rng), length(rng, least=1)
    check_visit(rng, share, dtype, pick(rng, [1, 2, 9, 70]), *(rng.random(2) < 0.5).tolist(), *sizes)


def test_an_empty_order_visits_nothing():
    state = _Sweeps(np.ones((2, 3)))
    met = state.sweep(as_rows(np.ones((1, 2))), np.ones(1), np.ones(1), np.arange(0), state.W, 1.0)
    assert met == (0.0, 0.0, 0.0)
    assert state.faces.tolist() == np.ones((2, 3)).tolist()
