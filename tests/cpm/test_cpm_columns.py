"""Faces of many starts put together anew: near the optimum from a poor point, and never worse than before."""

import numpy as np
import pytest

from formulations.language.clock import Clock
from polyopt.cpm.global_search.face import Best, total_cost
from polyopt.cpm.global_search.incumbent import improve_by_columns
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


@pytest.mark.parametrize("seed", range(2))
def test_columns_improve_a_poor_point(seed):
    """Faces of many starts, combined anew, come within a hundredth of the optimum."""
    X, y, data, best, rng = a_poor_point(seed, K=2 + seed % 2)
    known = solve_cpm_global(X, y, 1.0, len(best.W))
    assert best.limits[0] > 1.05 * known.objective
    improve_by_columns(data, best, Clock(), rng)
    assert known.bound <= best.limits[0] <= 1.01 * known.objective
    assert total_cost(data, best.W)[0] == pytest.approx(best.cost, rel=1e-9)  # the point costs what it says


def test_without_time_the_point_stays():
    """Without time the incumbent stays as it is."""
    _, _, data, best, rng = a_poor_point(6)
    before, W = float(best.limits[0]), best.W.copy()
    improve_by_columns(data, best, Clock(1e-9), rng)
    assert best.limits[0] == before
    np.testing.assert_array_equal(best.W, W)
