"""Branch and bound over boxes of the faces' coefficients: its bound, its envelope, and its answers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.cases import few
from helpers.cpm import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations import cpm
from formulations.solution import Status
from polyopt.outer.cpm.boxes import BoxSearch
from polyopt.outer.cpm.optimum import solve_cpm_global
from polyopt.outer.cpm.prepared import merge
from polyopt.solvers.cpm.box_bound import bound_box, box_for
from polyopt.solvers.cpm.boxes import half
from polyopt.solvers.cpm.tree import Best


def given_data(seed, n=8):
    """Samples on a grid or not, some of them equal, some free, and costs of very different sizes."""
    rng = np.random.default_rng(seed)
    d, K = 1 + seed % 3, 2 + seed % 2
    X = rng.integers(-1, 2, (n, d)).astype(float) if seed % 4 else rng.normal(size=(n, d))
    y, C = rng.choice([-1.0, 1.0], n), rng.choice([0.0, 0.5, 1.0, 4.0, 30.0], n)
    y[0], C[0] = 1.0, 1.0
    return rng, X, y, C, K


@given(st.integers(0, 10**6))
def test_no_faces_in_a_box_cost_less_than_its_bound(seed):
    """Corners, the middle and faces at random, in boxes of every size and place."""
    rng, X, y, C, K = given_data(seed)
    data, _ = merge(X, y, C, rng)
    box = box_for(data, K)
    for size in 10.0 ** rng.uniform(-3, 2, 5):
        box.low[:] = rng.normal(size=box.low.shape) * rng.choice([0.1, 1.0, 10.0]) - size
        box.high[:] = box.low + size * rng.uniform(0, 2, box.low.shape)
        box.up[:] = rng.uniform(0, 1, box.up.shape) * data.C[:, None]
        bound = bound_box(data, box, np.inf, bool(rng.integers(2)))
        assert (box.up >= 0).all()
        assert (box.up <= data.C[:, None]).all()
        parts = [rng.random(box.low.shape) for _ in range(10)]
        parts += [rng.integers(0, 2, box.low.shape) for _ in range(10)] + [np.full(box.low.shape, 0.5)]
        for W in [*(box.low + part * (box.high - box.low) for part in parts), box.W]:
            W = np.clip(W, box.low, box.high)
            assert bound <= cpm.objective(X, y, W, C) * (1 + 1e-12)


@given(st.integers(0, 10**6))
def test_the_best_score_is_below_the_envelope_all_over_the_box_and_at_it_in_corners(seed):
    rng, X, y, C, K = given_data(seed)
    data, _ = merge(X, y, C, rng)
    box = box_for(data, K)
    box.low[:] = rng.normal(size=box.low.shape)
    box.high[:] = box.low + rng.uniform(0, 3, box.low.shape)
    bound_box(data, box, np.inf, False)
    for p in range(len(box.offset)):
        assert (box.least[p] <= box.most[p]).all()
        for _ in range(20):
            s = rng.uniform(box.least[p], box.most[p])
            assert s.max() <= box.offset[p] + box.share[p] @ s + 1e-12 or box.least[p].max() >= 1.0


@given(st.integers(0, 10**6))
def test_halves_have_all_faces_of_the_box_that_are_in_order(seed):
    rng = np.random.default_rng(seed)
    K, d = 2 + seed % 3, 2
    low = rng.normal(size=(K, d))
    high = low + rng.uniform(0, 2, (K, d))
    k, j = rng.integers(K), rng.integers(d)
    at = rng.uniform(low[k, j], high[k, j])
    halves = [half(low, high, k, j, at, upper) for upper in (False, True)]
    for _ in range(20):
        W = rng.uniform(low, high)
        if (np.diff(W[:, 0]) >= 0).all():
            held = [not empty and (a <= W).all() and (b >= W).all() for a, b, empty in halves]
            assert held == [W[k, j] <= at, W[k, j] >= at]


@given(st.integers(0, 10**6))
@settings(max_examples=few(10, 40))
def test_at_every_moment_the_bound_is_below_the_optimum_that_all_assignments_have(seed):
    rng, X, y, C, K = given_data(seed, 6)
    best = solve_cpm_global(X, y, C, K, bounds="additive")
    data, _ = merge(X, y, C, rng)
    # The faces at 0 are the worst incumbent that there is.
    search = BoxSearch(data, Best(np.zeros((K, data.A.shape[1])), np.array([K * C.sum(), np.inf, 0.0])), 1e-6)
    before = 0.0
    while not search.is_done and search.boxes < 40:
        search.look()
        assert before <= search.bound
        before = search.bound
        assert min(search.bound, search.best.limits[0]) <= best.objective * (1 + 1e-9)
        assert search.best.limits[0] >= best.bound


def test_overlapping_samples_are_proven_that_assignments_alone_are_not():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 2))
    y = np.where((X**2).sum(axis=1) > 1.2, 1.0, -1.0)
    y = np.where(rng.random(80) < 0.3, -y, y)
    both = solve_cpm_global(X, y, 0.5, 2, max_nodes=800, tol=1e-2)
    alone = solve_cpm_global(X, y, 0.5, 2, max_nodes=800, tol=1e-2, bounds="additive")
    assert alone.status is Status.ITERATION_LIMIT
    assert alone.bound < 0.95 * alone.objective
    assert both.status is Status.SOLVED
    assert both.objective - both.bound <= 1e-2 * both.objective
    assert both.bound <= alone.objective
    assert "boxes" in both.solver


def test_where_there_is_no_room_the_search_goes_on_depth_first():
    X, y, _ = clusters(30, 3, 2, widen=1.8)
    whole = solve_cpm_global(X, y, 1.0, 2, bounds="additive")
    data, _ = merge(X, y, np.ones(30), np.random.default_rng(0))
    search = BoxSearch(data, Best(np.zeros((2, 3)), np.array([60.0, np.inf, 0.0])), 1e-3)
    search.room = 5
    while not search.is_done:
        search.look()
        assert min(search.bound, search.best.limits[0]) <= whole.objective * (1 + 1e-9)
    assert search.best.limits[0] == pytest.approx(whole.objective, rel=1e-3)
    assert search.bound >= whole.objective * (1 - 2e-3)


def test_a_box_without_width_is_not_empty_and_one_whose_faces_cannot_be_in_order_is():
    low, high = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0], [3.0, 2.0]])
    assert not half(low, high, 0, 0, 0.0, False)[2]
    lower, upper, empty = half(low, high, 1, 0, 0.5, False)  # the first face is not above the second
    assert (lower[:, 0].tolist(), upper[:, 0].tolist(), empty) == ([0.0, 1.0], [0.5, 0.5], True)
    lower, upper, empty = half(low, high, 0, 0, 0.75, True)
    assert (lower[:, 0].tolist(), upper[:, 0].tolist(), empty) == ([0.75, 1.0], [1.0, 3.0], False)
    assert (low.tolist(), high.tolist()) == ([[0.0, 0.0], [1.0, 2.0]], [[1.0, 0.0], [3.0, 2.0]])
