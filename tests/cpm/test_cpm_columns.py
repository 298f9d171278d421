"""Faces of many starts put together anew: near the optimum from a poor point, and never worse than before."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.language.clock import Clock
from polyopt.cpm.global_search.face import Best, total_cost
from polyopt.cpm.global_search.incumbent import _add_columns, improve_by_columns
from polyopt.cpm.global_search.prices import Columns, below_price, priced_cost
from polyopt.cpm.global_search.search import merge, solve_cpm_global


def a_poor_point(seed, n=24, d=5, K=2):
    """Samples, and all faces the one of no feature."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), np.where(np.arange(n) < n // 2, 1.0, -1.0)
    data, _ = merge(X, y, np.ones(n), rng)
    W = np.zeros((K, d + 1))
    W[:, -1] = -1.0
    cost, _ = total_cost(data, W)
    return X, y, data, Best(W, np.array([cost, np.inf, 0.0])), rng


@pytest.mark.parametrize("seed", range(4))
def test_from_a_poor_point_it_comes_close_to_the_optimum(seed):
    X, y, data, best, rng = a_poor_point(seed, K=2 + seed % 2)
    known = solve_cpm_global(X, y, 1.0, len(best.W))
    assert best.limits[0] > 1.05 * known.objective
    improve_by_columns(data, best, Clock(), rng)
    assert known.bound <= best.limits[0] <= 1.01 * known.objective
    assert total_cost(data, best.W)[0] == pytest.approx(best.cost, rel=1e-9)  # the point costs what it says


def test_each_new_face_costs_less_at_the_prices_than_all_before():
    _, _, data, best, rng = a_poor_point(5)
    columns = Columns(data, best, 1e-8, 1e-8)
    columns.add_initial(Clock(), rng)
    found = columns.solve_prices(Clock())
    known, count = columns.least_cost(found.prices), len(columns.W)
    _add_columns(columns, found, count + 1, Clock(), rng)
    assert len(columns.W) == count + 1
    _add_columns(columns, found, np.inf, Clock(), rng)
    assert len(columns.W) > count + 1
    assert all(priced_cost(data, found.prices, w) < known for w in columns.W[count:])
    assert not below_price(data, np.zeros(data.npos), columns.W[0]).any()  # no loss is below 0


def test_without_time_the_point_stays():
    _, _, data, best, rng = a_poor_point(6)
    before, W = float(best.limits[0]), best.W.copy()
    improve_by_columns(data, best, Clock(1e-9), rng)
    assert best.limits[0] == before
    np.testing.assert_array_equal(best.W, W)
