"""Visits of the Polyceptron in C: equal to plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, length, pick, rows_anywhere

from polyopt.linalg.rows import as_rows
from polyopt.polyhedral.polyceptron import _iterate, _pass, _Sweeps

KINDS = ("pass", "iterate")


def plain_visit(X, y, c, order, W, target, step):
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
            target[face] += step * c[i] * y[i] * x
    return criterion, mistakes, sizes


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("K", [1, 2, 9, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("share", [1.0, 0.3], ids=["dense", "packed"])
def test_visit_is_that_of_plain_loops(share, dtype, K, kind):
    """For every share of samples, type and number of faces."""
    check_visit(np.random.default_rng(K), share, dtype, K, kind, 14, 5)


def check_visit(rng, share, dtype, K, kind, n, m):
    X = (rng.integers(1, 9, (n, m)) * (rng.random((n, m)) < share)).astype(dtype)
    y, c = anywhere(rng, rng.choice([-1.0, 1.0], n)), anywhere(rng, rng.uniform(0.5, 2.0, n))
    W, order = rng.normal(size=(K, m + 1)), anywhere(rng, rng.permutation(n)[: n - n // 4])
    state = _Sweeps(W)
    state.W = anywhere(rng, state.W)
    sweep = state.sweep(rows_anywhere(rng, X), y, c)
    before = np.zeros_like(state.W)
    before[:, :K] = rng.normal(size=(m + 1, K))
    update = anywhere(rng, before)
    plain, moved, norm = W.copy(), before[:, :K].T.copy(), 0.0
    if kind == "pass":
        _pass(sweep, order, 0.3)
        met = plain_visit(X.astype(float), y, c, order, plain, plain, 0.3)
    else:
        cut = int(rng.integers(1, max(n, 2)))
        _iterate(sweep, 0, min(cut, n), 0.3, update)
        if cut < n:
            _iterate(sweep, cut, n, 0.3, update)
        plain += 0.3 * moved
        moved[:] = 0.0
        met = plain_visit(X.astype(float), y, c, range(n), plain, moved, 1.0)
        norm = np.linalg.norm(moved, axis=1).sum()
    assert sweep.tally == pytest.approx([*met[:2], norm])
    assert sweep.sizes.tolist() == met[2].tolist()
    assert state.faces == pytest.approx(plain, abs=1e-11)
    assert update[:, :K].T == pytest.approx(moved, abs=1e-11)
    assert not state.W[:, K:].any()
    assert not update[:, K:].any()


@drawn_calls("polyceptron_pass", "polyceptron_iterate")
def test_drawn_visits(rng):
    """Drawn lengths, types and values."""
    share, dtype = pick(rng, [1.0, 0.3]), pick(rng, [np.float64, np.float32, np.uint8])
    kind = pick(rng, KINDS)
    check_visit(rng, share, dtype, pick(rng, [1, 2, 9, 70]), kind, length(rng, 20), length(rng))


def test_empty_order_visits_nothing():
    """And changes no face."""
    state = _Sweeps(np.ones((2, 3)))
    sweep = state.sweep(as_rows(np.ones((1, 2))), np.ones(1), np.ones(1))
    _pass(sweep, np.arange(0), 1.0)
    assert not sweep.tally.any()
    assert state.faces.tolist() == np.ones((2, 3)).tolist()


def test_a_count_begins_anew():
    """Without an update the faces stay, and every iteration counts the same mistakes."""
    state = _Sweeps(np.ones((2, 3)))
    sweep = state.sweep(as_rows(np.ones((1, 2))), -np.ones(1), np.ones(1))
    for _ in range(2):
        state.iterate(sweep, [(0, 1)], 0.0, np.zeros_like(state.W))
        assert (sweep.tally[:2].tolist(), sweep.sizes.tolist()) == ([3.0, 1.0], [1, 0])
        assert (state.faces == 1.0).all()
