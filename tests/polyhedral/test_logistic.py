"""Logistic regressions with a ridge: values, slopes, steps, both methods, and how they end."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.optim.newton_steps import solve_scaled
from polyopt.polyhedral.spla1 import solve_logistic

RIDGE = 0.3
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
METHODS = pytest.mark.parametrize("method", ["newton", "bfgs"])


def data_of(m=3):
    X, y = two_blobs(n=30, m=m, seed=1)
    return X, y, np.random.default_rng(0).uniform(0.0, 2.0, 30)


def loss(X, y, c, w):
    return c @ np.logaddexp(0.0, -y * (X @ w[:-1] + w[-1])) + RIDGE / 2 * w @ w


def slopes(f, w, step=1e-5):
    return np.array([(f(w + step * e) - f(w - step * e)) / (2 * step) for e in np.eye(len(w))])


@FORMS
@METHODS
def test_solution_is_scipys(form, method):
    """Both methods end at scipy's optimum, with the gap that the slope proves, and stay there."""
    X, y, c = data_of()
    start, how = np.array([9.0, -9.0, 9.0, 9.0]), {"ridge": RIDGE, "method": method, "tol": 1e-9}
    found = solve_logistic(form(X), y, c, start, **how)
    known = minimize(lambda w: loss(X, y, c, w), start, method="BFGS", options={"gtol": 1e-9})
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(loss(X, y, c, found["w"]), rel=1e-12)
    assert found.objective == pytest.approx(known.fun, rel=1e-9)
    assert found["w"] == pytest.approx(known.x, abs=1e-4)
    assert found.bound <= known.fun * (1 + 1e-12)
    assert found.objective - found.bound <= 1e-9 * found.objective
    assert method in found.solver
    again = solve_logistic(form(X), y, c, found["w"], **how)
    assert (again.iterations, again["w"].tolist()) == (0, found["w"].tolist())


@FORMS
@METHODS
@pytest.mark.parametrize("m", [3, 250], ids=["few features", "many features"])
def test_limit_has_value_and_slope(form, method, m):
    """At each limit the value falls, and value and bound are those of the formula and its differences."""
    X, y, c = data_of(m)
    w = np.random.default_rng(2).normal(size=m + 1)
    begun = loss(X, y, c, w)
    for most in (1, 3):
        found = solve_logistic(form(X), y, c, w, ridge=RIDGE, method=method, max_iter=most, tol=1e-12)
        assert found.status is Status.ITERATION_LIMIT
        assert found.iterations == most
        assert found.objective < begun
        assert found.objective == pytest.approx(loss(X, y, c, found["w"]), rel=1e-12)
        gradient = slopes(lambda v: loss(X, y, c, v), found["w"])
        gap = gradient @ gradient / (2 * RIDGE)
        assert found.objective - found.bound == pytest.approx(gap, rel=1e-5, abs=1e-7)
        begun = found.objective


@FORMS
def test_newton_step_has_the_curvature(form):
    """From a point near the optimum the step of Newton's method is that of the curvature by differences."""
    X, y, c = data_of()
    best = solve_logistic(X, y, c, np.zeros(4), ridge=RIDGE, method="newton", tol=1e-9)["w"]
    w = best + 0.01 * np.array([1.0, -2.0, 0.5, 1.0])
    H = slopes(lambda v: slopes(lambda u: loss(X, y, c, u), v, 1e-4), w, 1e-3)
    wanted = w - np.linalg.solve(H, slopes(lambda v: loss(X, y, c, v), w))
    found = solve_logistic(form(X), y, c, w, ridge=RIDGE, method="newton", max_iter=1, tol=1e-12)
    assert found["w"] == pytest.approx(wanted, abs=1e-5)


@METHODS
@pytest.mark.parametrize("m", [3, 250], ids=["few features", "many features"])
def test_ends_short_of_the_tolerance(method, m):
    """Without time the point is no worse than the start, and a run that rounding ends is stalled."""
    X, y, c = data_of(m)
    w = np.random.default_rng(2).normal(size=m + 1)
    late = solve_logistic(X, y, c, w, ridge=RIDGE, method=method, tol=1e-12, time_limit=0.0)
    assert late.status is Status.TIME_LIMIT
    assert late.iterations <= 1
    assert late.bound < late.objective <= loss(X, y, c, w)
    stalled = solve_logistic(X, y, c, w, ridge=RIDGE, method=method, tol=1e-300)
    assert stalled.status is Status.STALLED
    assert stalled.objective - stalled.bound <= 1e-11 * stalled.objective


def test_scaled_systems_are_solved():
    """Systems are solved in their own units, singular ones with an addition, others by their diagonal."""
    A = np.random.default_rng(0).normal(size=(4, 4))
    units = np.array([1e-6, 1.0, 1e3, 1e7])
    H, b = (A @ A.T + np.eye(4)) * units[:, None] * units, units * np.arange(1.0, 5.0)
    kept = H.copy()
    assert H @ solve_scaled(H, b) == pytest.approx(b, rel=1e-9)
    assert (H == kept).all()
    flat = np.ones((3, 3))
    x = solve_scaled(flat, np.ones(3))
    assert flat @ x == pytest.approx(np.ones(3), rel=1e-6)
    bad = np.array([[4.0, 9.0], [9.0, 1.0]])  # which has no factor
    assert solve_scaled(bad, np.array([8.0, 3.0])) == pytest.approx([2.0, 3.0])
