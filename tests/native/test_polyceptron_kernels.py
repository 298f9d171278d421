"""Visits of the Polyceptron in C: equal to plain loops."""

import numpy as np
import pytest
from helpers.draws import FORMS, anywhere, drawn_calls, whole_samples

from polyopt.linalg.rows import as_rows
from polyopt.polyhedral.polyceptron import Sweeps, batch_pass, online_pass


def plain_visit(X, y, c, order, W, target, step):
    """Criterion, weight of mistakes and samples of each cell; faces are rows of W and target (K, m+1)."""
    criterion, mistakes, sizes = 0.0, 0.0, np.zeros(len(W))
    for i in order:
        x = np.append(X[i], 1.0)
        scores = W @ x
        face = int(np.argmin(scores))
        sizes[face] += 1
        if y[i] * scores[face] <= 0:
            criterion -= c[i] * y[i] * scores[face]
            mistakes += c[i]
            target[face] += step * c[i] * y[i] * x
    return criterion, mistakes, sizes


@drawn_calls(
    "polyceptron_pass", "polyceptron_iterate",
    kind=["online", "batch"], form=FORMS, K=[1, 2, 9, 70], n=range(20), m=range(36),
)  # fmt: skip
def test_visit_is_that_of_plain_loops(rng, kind, form, K, n, m):
    """For every form of samples and number of faces."""
    rows, X = whole_samples(rng, form, n, m)
    y, c = anywhere(rng, rng.choice([-1.0, 1.0], n), rng.uniform(0.5, 2.0, n))
    W, order = rng.normal(size=(K, m + 1)), anywhere(rng, rng.permutation(n)[: n - n // 4])
    state = Sweeps(W)
    state.W = anywhere(rng, state.W)
    sweep = state.sweep(rows, y, c)
    before = np.zeros_like(state.W)
    before[:, :K] = rng.normal(size=(m + 1, K))
    update = anywhere(rng, before)
    plain, moved, norm = W.copy(), before[:, :K].T.copy(), 0.0
    if kind == "online":
        online_pass(sweep, order, 0.3)
        met = plain_visit(X, y, c, order, plain, plain, 0.3)
    else:
        cut = int(rng.integers(1, max(n, 2)))
        batch_pass(sweep, 0, min(cut, n), 0.3, update)
        if cut < n:
            batch_pass(sweep, cut, n, 0.3, update)
        plain += 0.3 * moved
        moved[:] = 0.0
        met = plain_visit(X, y, c, range(n), plain, moved, 1.0)
        norm = np.linalg.norm(moved, axis=1).sum()
    assert sweep.tally == pytest.approx([*met[:2], norm])
    assert sweep.sizes.tolist() == met[2].tolist()
    assert state.faces == pytest.approx(plain, abs=1e-11)
    assert update[:, :K].T == pytest.approx(moved, abs=1e-11)
    assert not state.W[:, K:].any()
    assert not update[:, K:].any()


def test_empty_order_visits_nothing():
    """And changes no face."""
    state = Sweeps(np.ones((2, 3)))
    sweep = state.sweep(as_rows(np.ones((1, 2))), np.ones(1), np.ones(1))
    online_pass(sweep, np.arange(0), 1.0)
    assert not sweep.tally.any()
    assert state.faces.tolist() == np.ones((2, 3)).tolist()


def test_count_begins_anew():
    """Without an update the faces stay, and every iteration counts the same mistakes."""
    state = Sweeps(np.ones((2, 3)))
    sweep = state.sweep(as_rows(np.ones((1, 2))), -np.ones(1), np.ones(1))
    for _ in range(2):
        state.iterate(sweep, [(0, 1)], 0.0, np.zeros_like(state.W))
        assert (sweep.tally[:2].tolist(), sweep.sizes.tolist()) == ([3.0, 1.0], [1, 0])
        assert (state.faces == 1.0).all()
