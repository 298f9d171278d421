"""Faces at prices of the positives: the bound of one face in a box, and of all faces."""

import numpy as np
import pytest
from helpers.cpm import brute_force
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt import ConvexPolytopeMachine
from polyopt.cpm.global_search.face import Best, total_cost
from polyopt.cpm.global_search.prices import (
    Columns,
    PriceSearch,
    bound_at_prices,
    examine_face_box,
    face_box_for,
    location_prices,
    priced_cost,
)
from polyopt.cpm.global_search.search import Options, merge, solve_cpm_global
from polyopt.cpm.solve import Settings, solve_cpm


def given_data(seed, n=7):
    """Samples on a grid or not, some of them equal, some free, and costs of very different sizes."""
    rng = np.random.default_rng(seed)
    d, K = 1 + seed % 3, 2 + seed % 2
    X = rng.integers(-1, 2, (n, d)).astype(float) if seed % 4 else rng.normal(size=(n, d))
    y, C = rng.choice([-1.0, 1.0], n), rng.choice([0.0, 0.5, 1.0, 4.0, 30.0], n)
    y[:2], C[:2] = (1.0, -1.0), 1.0
    data, _ = merge(X, y, C, rng)
    return rng, X, y, C, K, data


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_box_bound_is_below_its_faces(seed):
    """No face of a box costs less than its bound, and faces cut off from the box cost the goal."""
    rng, *_, data = given_data(seed)
    box = face_box_for(data)
    prices = rng.choice([0.0, 0.3, 1.0, 5.0, 100.0], len(data.C) - data.inside) * rng.random()
    for size in 10.0 ** rng.uniform(-3, 1.5, 4):
        low = rng.normal(size=len(box.low)) * rng.choice([0.1, 1.0, 10.0]) - size
        high = low + size * rng.uniform(0, 2, len(low))
        box.low[:], box.high[:] = low, high
        codes = rng.integers(0, 256, len(data.C)).astype(np.uint8)
        middle = priced_cost(data, prices, (low + high) / 2)
        goal = middle * rng.choice([0.8, 1.0, 1.2])
        bound, cost, _, _ = examine_face_box(data, prices, box, codes, goal)
        assert cost >= min(bound, goal) * (1 - 1e-12)
        for _ in range(30):
            w = low + (high - low) * rng.choice([0.0, 1.0, rng.random()], len(low))
            assert min(bound, goal) <= priced_cost(data, prices, np.clip(w, low, high)) * (1 + 1e-12)


@given(st.integers(0, 10**6))
def test_prices_bound_any_faces(seed):
    """Prices with the least cost of a face at them bound the cost of all faces."""
    rng, *_, K, data = given_data(seed)
    for _ in range(20):
        prices = rng.uniform(0, 3, len(data.C) - data.inside)
        W = rng.normal(size=(K, data.A.shape[1])) * rng.choice([0.1, 1.0, 4.0])
        cost, _ = total_cost(data, W)
        least = min(priced_cost(data, prices, w) for w in W)
        assert bound_at_prices(prices, least, K) <= cost * (1 + 1e-12)


# In the first three a bound that forgets what shrunken boxes left out is above the optimum.
@pytest.mark.parametrize("seed", [47, 52, 95, 3, 101])
def test_rounds_of_prices_bound_the_optimum(seed):
    """The bound rises from round to round, and stays below the best of all assignments."""
    rng, X, y, C, K, data = given_data(seed)
    known = brute_force(X, y, C, K)
    # The faces at 0 are the worst incumbent that there is.
    search = PriceSearch(
        data, Best(np.zeros((K, data.A.shape[1])), np.array([K * C.sum(), np.inf, 0.0])), 1e-6, rng
    )
    for _ in range(6):
        before = search.bound
        if not search.is_done:
            search.run_round(Clock())
        assert before <= search.bound <= known * (1 + 1e-9)
        assert search.best.limits[0] >= known * (1 - 1e-9)


def test_prices_alone_prove_overlapping_samples():
    """Overlapping samples are proven by prices without a partial assignment, and no face costs less."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    y = np.where((X**2).sum(axis=1) > 1.2, 1.0, -1.0)
    y = np.where(rng.random(100) < 0.3, -y, y)
    found = solve_cpm_global(X, y, 0.5, 3, max_nodes=60, options=Options(work_before_prices=0))
    assert found.status is Status.SOLVED
    assert found.objective - found.bound <= 1e-6 * found.objective
    assert found.history[-1]["open"] == 1.0  # no partial assignment was explored
    # The prices that prove it are told, and no face costs less at them than the bound says.
    price = found.duals["price"]
    assert (price[y < 0] == 0).all()
    total = price.sum()
    least = (found.bound - total) / 3 + total
    for w in [*found["W"], *rng.normal(size=(200, 3)), np.zeros(3), np.array([0.0, 0.0, -1.0])]:
        hinge = 0.5 * np.maximum(1.0 - y * (X @ w[:-1] + w[-1]), 0.0)
        assert w @ w + np.where(y > 0, np.minimum(hinge, price), hinge).sum() >= least * (1 - 1e-9)


def test_bound_at_prices_names_them(tmp_path):
    """A certificate at prices names them, and is saved only if a small tree proves the bound."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    y = np.where((X**2).sum(axis=1) > 1.2, 1, -1)
    mixed = np.where(rng.random(100) < 0.3, -y, y)
    for is_saved in (True, False):
        apart, labels = (np.where(y[:, None] > 0, 3.0 * X, X), y) if is_saved else (X, mixed)
        machine = ConvexPolytopeMachine(3, C=0.5, solver="global", random_state=0).fit(apart, labels)
        certificate = machine.certificate(tol=1e-5)
        assert certificate.is_optimal
        assert "price" in machine.solution_.duals
        assert "the prices λ of the positives" in certificate.note
        if is_saved:
            certificate.save(tmp_path / "claim.json")
            assert (tmp_path / "claim.json").exists()
        else:
            with pytest.raises(ValueError, match="at prices of the positives"):
                certificate.save(tmp_path / "no.json")


@pytest.mark.parametrize("seed", range(3))
def test_prices_first_find_the_optimum(seed):
    """A search that begins with prices has the best of all assignments."""
    _, X, y, C, K, _ = given_data(seed, 6)
    options = Options(min_assignments_prices=1, work_before_prices=0)
    both = solve_cpm_global(X, y, C, K, tol=1e-5, options=options)
    known = brute_force(X, y, C, K)
    assert both.status is Status.SOLVED
    assert both.bound <= known * (1 + 1e-9)
    assert both.objective >= known * (1 - 1e-9)
    assert both.objective - both.bound <= 1e-5 * both.objective


@pytest.mark.parametrize("scale", [1.0, 1e7, 1e-6])
@pytest.mark.parametrize(("faces", "npos", "K"), [(1, 1, 2), (2, 5, 2), (12, 9, 3), (25, 30, 4)])
def test_prices_solve_the_location_program(faces, npos, K, scale):
    """Prices and weights are dual and primal optima of the location program that scipy solves."""
    rng = np.random.default_rng(faces)
    own, hinges = rng.uniform(1, 3, faces) * scale, np.maximum(rng.normal(size=(faces, npos)), 0) * scale
    found = location_prices(own, hinges, K, 1e-9)
    # x before z: each positive is shared out, no more of it to a face than there is of the face.
    pairs = np.eye(faces * npos)
    cover = np.hstack([np.tile(np.eye(npos), faces), np.zeros((npos, faces))])
    known = linprog(
        np.r_[hinges.ravel(), own] / scale,
        A_eq=np.vstack([cover, np.r_[np.zeros(faces * npos), np.ones(faces)]]), b_eq=np.r_[np.ones(npos), K],
        A_ub=np.hstack([pairs, -np.repeat(np.eye(faces), npos, axis=0)]), b_ub=np.zeros(faces * npos),
    ).fun * scale  # fmt: skip
    proven = found.prices.sum() + K * (own + np.minimum(hinges - found.prices, 0.0).sum(axis=1)).min()
    assert proven == pytest.approx(known, rel=1e-7)
    assert found.weights.sum() == pytest.approx(K)


def test_equal_columns_are_kept_once():
    """Equal faces are kept once, and a face of infinite cost has no prices."""
    rng, *_, K, data = given_data(5)
    columns = Columns(data, Best(np.zeros((K, data.A.shape[1])), np.array([np.inf, np.inf, 0.0])), 1e-9, 1e-9)
    w = rng.normal(size=data.A.shape[1])
    for face in (w, w + 1e-12, w + 1e-6, w):
        columns.add(face)
    assert len(columns.W) == 2
    assert (location_prices(np.ones(2), np.array([[0.5], [0.25]]), 2, 1e-9).prices >= 0.0).all()
    assert location_prices(np.array([1.0, np.inf]), np.ones((2, 1)), 2, 1e-9) is None


def test_many_samples_are_bounded_by_prices():
    """Beyond the tree's sizes, prices prove the optimum, and limits keep a valid bound."""
    rng = np.random.default_rng(8)
    X = np.round(3 * rng.normal(size=(520, 1))) / 3
    y = np.where((abs(X[:, 0]) > 1) ^ (rng.random(520) < 0.2), 1.0, -1.0)
    found = solve_cpm(X, y, np.ones(520), Settings(2, "global"), 0)
    assert found.status is Status.SOLVED
    # Equal samples are one: the tree can prove the same.
    rows, place = np.unique(np.column_stack([y, X]), axis=0, return_inverse=True)
    alone = solve_cpm_global(rows[:, 1:], rows[:, 0], np.bincount(place.ravel()), 2)
    assert found.objective == pytest.approx(alone.objective, rel=3e-6)
    # All of them different: limits keep what there is.
    X = X + 1e-3 * rng.normal(size=X.shape)
    known = solve_cpm_global(X, y, 1.0, 2)
    assert known.solver == "branch and bound, prices"
    assert known.status in (Status.SOLVED, Status.BOUNDED)
    few = solve_cpm_global(X, y, 1.0, 2, max_nodes=1)
    assert few.status is Status.ITERATION_LIMIT
    at_once = solve_cpm_global(X, y, 1.0, 2, time_limit=0.0)
    assert at_once.status is Status.TIME_LIMIT
    for short in (few, at_once):
        assert short.bound <= known.objective * (1 + 1e-9)
        assert short.objective >= known.bound
