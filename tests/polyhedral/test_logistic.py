"""Logistic regressions with a ridge: values, slopes, curvatures, both methods, and how they end."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.optim.newton_steps import solve_scaled
from polyopt.polyhedral import spla1 as logistic
from polyopt.polyhedral.spla1 import solve_logistic

RIDGE = 0.3


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=30, m=3, seed=1)
    return X, y, np.random.default_rng(0).uniform(0.0, 2.0, 30)


def loss(X, y, c, w):
    return c @ np.log1p(np.exp(-y * (X @ w[:-1] + w[-1]))) + RIDGE / 2 * w @ w


def slopes(f, w, step=1e-5):
    return np.array([(f(w + step * e) - f(w - step * e)) / (2 * step) for e in np.eye(len(w))])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_values_slopes_and_curvatures_are_those_of_the_formula(data, kind):
    X, y, c = data
    w = np.array([0.5, -1.0, 0.2, 0.7])
    value, gradient, away = logistic._loss(kind(X), y, c, w, RIDGE)
    assert value == pytest.approx(loss(X, y, c, w), rel=1e-12)
    assert gradient == pytest.approx(slopes(lambda v: loss(X, y, c, v), w), abs=1e-7)
    assert away == pytest.approx(1.0 / (1.0 + np.exp(y * (X @ w[:-1] + w[-1]))))
    H = slopes(lambda v: logistic._loss(X, y, c, v, RIDGE)[1], w)
    assert logistic._hessian(kind(X), c * away * (1.0 - away), RIDGE) == pytest.approx(H, abs=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("method", ["newton", "bfgs"])
def test_both_methods_end_where_the_slope_proves_it(data, kind, method):
    X, y, c = data
    found = solve_logistic(
        kind(X), y, c, np.array([9.0, -9.0, 9.0, 9.0]), ridge=RIDGE, method=method, tol=1e-9
    )
    assert found.status is Status.SOLVED
    w, gradient = found["w"], logistic._loss(X, y, c, found["w"], RIDGE)[1]
    assert found.objective == pytest.approx(loss(X, y, c, w), rel=1e-12)
    assert found.bound == pytest.approx(found.objective - gradient @ gradient / (2 * RIDGE), rel=1e-15)
    assert found.objective - found.bound <= 1e-9 * found.objective
    assert method in found.solver
    # No point nearby is lower, and none anywhere is below the bound.
    for step in 1e-3 * np.vstack([np.eye(4), -np.eye(4)]):
        assert loss(X, y, c, w + step) > found.objective
        assert loss(X, y, c, w + 1e3 * step) > found.bound
    again = solve_logistic(kind(X), y, c, w, ridge=RIDGE, method=method, tol=1e-9)
    assert (again.iterations, again["w"].tolist()) == (0, w.tolist())


@pytest.mark.parametrize("method", ["newton", "bfgs"])
@pytest.mark.parametrize("dense", [0, 200])
def test_limits_keep_the_best_point_and_say_which_it_was(data, method, dense, monkeypatch):
    X, y, c = data
    w = np.array([3.0, 1.0, -2.0, 0.5])
    monkeypatch.setattr(logistic, "OPTIONS", logistic.Options(max_bfgs_unknowns=dense))
    begun = loss(X, y, c, w)
    for most in (1, 3):
        found = solve_logistic(X, y, c, w, ridge=RIDGE, method=method, max_iter=most, tol=1e-12)
        assert found.status is Status.ITERATION_LIMIT
        assert found.iterations == most
        assert found.objective < begun
        begun = found.objective
    late = solve_logistic(X, y, c, w, ridge=RIDGE, method=method, tol=1e-12, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT
    assert late.iterations <= 1
    assert late.bound < late.objective <= loss(X, y, c, w)
    # Where rounding ends it, it is not called optimal.
    stalled = solve_logistic(X, y, c, w, ridge=RIDGE, method=method, tol=1e-300)
    assert stalled.status is Status.STALLED
    assert stalled.objective - stalled.bound <= 1e-12 * stalled.objective


def test_systems_are_solved_in_units_of_their_own_and_lifted_where_they_are_singular():
    A = np.random.default_rng(0).normal(size=(4, 4))
    units = np.array([1e-6, 1.0, 1e3, 1e7])
    H, b = (A @ A.T + np.eye(4)) * units[:, None] * units, units * np.arange(1.0, 5.0)
    kept = H.copy()
    assert H @ solve_scaled(H, b) == pytest.approx(b, rel=1e-9)
    assert (H == kept).all()
    flat = np.ones((3, 3))
    x = solve_scaled(flat, np.ones(3))
    assert flat @ x == pytest.approx(np.ones(3), rel=1e-6)
    # What cannot be factored is taken for its diagonal.
    bad = np.array([[4.0, 9.0], [9.0, 1.0]])
    assert solve_scaled(bad, np.array([8.0, 3.0])) == pytest.approx([2.0, 3.0])
