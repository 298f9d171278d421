"""The compiled descent of logistic polytopes, against the objective and against scipy's L-BFGS-B."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.interpreted import interpreted
from numba import njit

from formulations.class_faces import Owners
from formulations.clock import Clock
from polyopt.outer.logistic_polytopes import random_start
from polyopt.solvers.logistic_polytopes import FaceLoss, descend
from polyopt.solvers.logistic_polytopes.quasi_newton import MAX_EXPONENT, _valued, exp, log, quasi_newton

OWNERS = [Owners(0, 1), Owners(2, 2), Owners(4, 1)]


def ring(owners, n=300, m=3, ridge=0.3, units=1.0, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, m))
    y = np.where((Z**2).sum(axis=1) + 0.3 * rng.normal(size=n) > m, 1.0, -1.0)
    X = Z * units * np.arange(1.0, m + 1) + 2.0 * units
    return FaceLoss(X, y, rng.uniform(0.0, 2.0, n), owners, ridge * units**2, 0.01 * ridge)


@njit
def _each(function_is_log, x, out):
    for i in range(len(x)):
        out[i] = log(x[i]) if function_is_log else exp(x[i])


def test_elementary_functions_are_those_of_numpy():
    rng = np.random.default_rng(0)
    most = MAX_EXPONENT
    x = np.r_[rng.uniform(-most, most, 5000), rng.normal(size=5000), 0.0, most, -most]
    found = np.empty_like(x)
    _each(False, x, found)
    assert found == pytest.approx(np.exp(x), rel=1e-15)
    z = np.r_[np.exp(rng.uniform(0.0, most, 5000)), rng.uniform(1.0, 2.0, 5000), 1.0, 1.0 + 2.0**-52, 1e308]
    found = np.empty_like(z)
    _each(True, z, found)
    assert found == pytest.approx(np.log(z), rel=2e-15, abs=0.0)


@pytest.mark.parametrize("owners", OWNERS, ids=str)
def test_value_and_slope_are_those_of_the_smoothed_objective(owners):
    problem, rng = ring(owners), np.random.default_rng(1)
    support = rng.uniform(size=(problem.shape[0], 3)) < 0.7
    for each in (problem, replace(problem, support=support)):
        W = np.where(each.entries, rng.normal(size=each.shape), 0.0)
        scale, middle = each.units
        V = W * scale
        V[:, -1] += W[:, :-1] @ middle
        g = np.empty(V.size)
        value = _valued(
            V.ravel(), g, each.X, each.y, each.c, owners.first, 0.4, each.entries.astype(float), each.ridges,
            scale, middle, np.empty((len(W), len(each.y))), np.empty((5, 256)),
        )  # fmt: skip
        expected, slope, _, _ = each.smooth(W, 0.4, 0.4)
        assert value == pytest.approx(expected, rel=1e-12)
        # A bias of scaled features moves the others' slopes by their means.
        slope[:, :-1] -= slope[:, -1:] * middle
        assert g.reshape(V.shape) == pytest.approx(np.where(each.entries, slope / scale, 0.0), abs=1e-9)


@pytest.mark.parametrize("owners", OWNERS, ids=str)
def test_it_ends_where_a_general_solver_ends(owners):
    problem = ring(owners)
    W = random_start(problem, np.random.default_rng(2))
    own, _ = quasi_newton(problem, W, Clock(None), 1.0, 2000, 1e-14)
    value, slope, _, _ = problem.smooth(own, 1.0, 1.0)
    assert np.abs(slope).max() <= 1e-4 * problem.c.sum()
    other, _ = descend(replace(problem, X=sp.csr_array(problem.X)), own, Clock(None), softness=(1.0,))
    assert value == pytest.approx(problem.smooth(other, 1.0, 1.0)[0], rel=1e-9)


def test_every_step_goes_down_and_fewer_iterations_are_fewer():
    problem = ring(Owners(2, 2))
    W = random_start(problem, np.random.default_rng(3))
    values = [problem.smooth(W, 0.3, 0.3)[0]]
    for count in (1, 2, 5, 20):
        V, made = quasi_newton(problem, W, Clock(None), 0.3, count, 0.0)
        assert made == count
        values.append(problem.smooth(V, 0.3, 0.3)[0])
    assert (np.diff(values) < 0.0).all()


def test_a_run_that_is_over_keeps_what_it_has():
    problem = ring(Owners(2, 2))
    W = random_start(problem, np.random.default_rng(3))
    V, made = descend(problem, W, Clock(0.0), max_iter=50)
    assert made <= 50
    assert problem.smooth(V, 1.0, 1.0)[0] <= problem.smooth(W, 1.0, 1.0)[0]


@pytest.mark.parametrize("units", [1e-8, 1.0, 1e8])
def test_units_make_no_difference(units):
    plain, other = ring(Owners(2, 1)), ring(Owners(2, 1), units=units)
    W = random_start(plain, np.random.default_rng(4))
    U = np.column_stack([W[:, :-1] / units, W[:, -1]])
    values = [
        each.smooth(descend(each, V, Clock(None), max_iter=15)[0], 0.3, 0.3)[0]
        for each, V in ((plain, W), (other, U))
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-4)


def test_constant_columns_one_feature_and_perfect_samples_do_no_harm():
    rng = np.random.default_rng(5)
    x = np.sort(rng.normal(size=50))
    y = np.where(x > 0.0, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (x[:, None], np.column_stack([x, np.ones(50)]), np.zeros((50, 2))):
            problem = FaceLoss(X, y, np.ones(50), Owners(0, 2), 1e-9, 1e-11)
            W, _ = descend(problem, random_start(problem, rng), Clock(None))
            assert np.isfinite(W).all()
            assert problem.value(W) <= 50 * np.log(2.0) + 1e-9


def test_a_direction_is_that_of_the_matrix_of_the_pairs():
    """The inverse of the curvature, as a matrix: H <- V'HV + ss'/s'y with V = 1 - ys'/s'y, from s'y/y'y."""
    parts = interpreted("polyopt.solvers.logistic_polytopes.quasi_newton")[0]
    rng, most = np.random.default_rng(0), parts._MEMORY
    steps, bends = rng.normal(size=(2, most, 4))
    bends += 3.0 * steps
    sizes = (steps * bends).sum(axis=1)
    g, d = rng.normal(size=4), np.empty(4)
    for kept, head in ((0, 0), (1, 1), (3, 3), (most, 0), (most, 4)):
        parts._direction(g, np.array([kept, head]), steps, bends, sizes, d)
        order = [(head - kept + turn) % most for turn in range(kept)]
        H = np.eye(4)
        if kept:
            H *= sizes[order[-1]] / (bends[order[-1]] @ bends[order[-1]])
        for p in order:
            V = np.eye(4) - np.outer(bends[p], steps[p]) / sizes[p]
            H = V.T @ H @ V + np.outer(steps[p], steps[p]) / sizes[p]
        assert d == pytest.approx(-H @ g, rel=1e-9, abs=1e-12)
