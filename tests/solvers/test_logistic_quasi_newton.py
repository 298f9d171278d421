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
from polyopt.outer.logistic_polytopes import random_start
from polyopt.solvers.clock import Clock
from polyopt.solvers.logistic_polytopes import FaceLoss, descend
from polyopt.solvers.logistic_polytopes.quasi_newton import FAR, _valued, exp, log, quasi_newton

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
    x = np.r_[rng.uniform(-FAR, FAR, 5000), rng.normal(size=5000), 0.0, FAR, -FAR]
    found = np.empty_like(x)
    _each(False, x, found)
    assert found == pytest.approx(np.exp(x), rel=1e-15)
    z = np.r_[np.exp(rng.uniform(0.0, FAR, 5000)), rng.uniform(1.0, 2.0, 5000), 1.0, 1.0 + 2.0**-52, 1e308]
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


# -- its parts, as plain Python --------------------------------------------------------------


@pytest.fixture(scope="module")
def parts():
    return interpreted("polyopt.solvers.logistic_polytopes.quasi_newton")[0]


def test_a_direction_is_that_of_the_matrix_that_the_pairs_make(parts):
    """The inverse of the curvature, as a matrix: H <- V'HV + ss'/s'y with V = 1 - ys'/s'y, from s'y/y'y."""
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


def test_the_next_step_is_twice_as_long_or_where_a_parabola_is_least_within_limits(parts):
    assert parts._next(3.0, 1.0, 5.0, -1.0, np.inf, np.inf) == 6.0
    # The parabola through value 5 and slope -2 at 1, and some value at 3; its least is (t-1) = c / 2.
    for at_end, least in ((5.0, 1.0), (9.0, 0.5), (3.0, 1.0), (1e9, 0.2), (7.0, 2.0 / 3.0)):
        assert parts._next(0.0, 1.0, 5.0, -2.0, 3.0, at_end) == pytest.approx(1.0 + least)
    assert parts._next(0.0, 1.0, 5.0, -2.0, 3.0, np.inf) == pytest.approx(1.2)
    assert parts._next(0.0, 1.0, 5.0, 0.0, 3.0, 5.0 + 1e300) == pytest.approx(1.2)
    assert parts._next(0.0, 1.0, 5.0, -2.0, 3.0, np.nan) == pytest.approx(1.2)


def quadratic(parts, monkeypatch, curvature, calls):
    """The loop of steps on ½ Σ curvature v², whose values are counted."""

    def valued(v, g, *_):
        calls.append(v.copy())
        g[:] = curvature * v
        return float(curvature @ v**2) / 2.0

    monkeypatch.setattr(parts, "_valued", valued)


def begun(parts, v):
    size, most = len(v), parts._MEMORY
    return (
        v, np.zeros(size), np.full(1, np.nan), np.zeros(2, dtype=np.int64), np.empty((most, size)),
        np.empty((most, size)), np.empty(most),
    )  # fmt: skip


def test_the_loop_keeps_the_last_pairs_and_goes_on_where_it_was(parts, monkeypatch):
    curvature, calls = np.linspace(1.0, 60.0, 30), []
    quadratic(parts, monkeypatch, curvature, calls)
    state = v, g, value, counts, steps, bends, sizes = begun(parts, np.ones(30))
    made = []
    for most in (1, 3, 20):
        before, old = v.copy(), value[0]
        done, is_over = parts._advance(*state, most, 0.0, np.empty(500), *[None] * 11)
        made.append(done)
        assert (done, is_over) == (most, False)
        assert g == pytest.approx(curvature * v)
        assert value[0] == pytest.approx(curvature @ v**2 / 2.0)
        assert np.isnan(old) or value[0] < old
        assert counts.tolist() == [min(sum(made), parts._MEMORY), sum(made) % parts._MEMORY]
        if most == 1:
            assert steps[0] == pytest.approx(v - before)
            # The first trial is of length 1: the slope over its length.
            assert np.linalg.norm(calls[1] - 1.0) == pytest.approx(1.0)
        last = (counts[1] - 1) % parts._MEMORY
        assert bends[last] == pytest.approx(curvature * steps[last])
        assert sizes[last] == pytest.approx(steps[last] @ bends[last])
    # Each step keeps Wolfe's conditions; to the end of what a tolerance asks for.
    done, is_over = parts._advance(*state, 500, 1e-3, np.empty(500), *[None] * 11)
    assert is_over
    assert done < 30
    values = [value[0]]
    while not parts._advance(*state, 1, 1e-12, np.empty(500), *[None] * 11)[1]:
        values.append(value[0])
    assert len(values) < 200
    assert (np.diff(values) < -1e-12 * np.maximum(values[:-1], 1.0)).all()
    assert values[-1] - value[0] <= 1e-12


def test_each_step_lowers_enough_and_leaves_less_of_a_slope(parts, monkeypatch):
    for curvature in (np.full(3, 1e-3), np.array([1.0, 10.0, 1e4])):
        calls = []
        quadratic(parts, monkeypatch, curvature, calls)
        state = begun(parts, np.array([3.0, -2.0, 1.0]))
        before = state[0].copy()
        assert parts._advance(*state, 1, 0.0, np.empty(500), *[None] * 11) == (1, False)
        g, step = curvature * before, state[0] - before
        assert state[2][0] <= curvature @ before**2 / 2.0 + 1e-3 * (g @ step)
        assert abs(state[1] @ step) <= 0.9 * abs(g @ step)


def test_where_nothing_lower_is_found_it_ends_and_old_pairs_are_forgotten_first(parts, monkeypatch):
    trials = []

    def rising(v, g, *_):  # its slope lies
        trials.append(v.copy())
        g[:] = -1.0
        return 1.0 + v.sum()

    monkeypatch.setattr(parts, "_valued", rising)
    state = begun(parts, np.zeros(2))
    assert parts._advance(*state, 5, 0.0, np.empty(500), *[None] * 11) == (0, True)
    assert len(trials) == 1 + parts._TRIALS + 1  # the last at the longest that lowered, which is none
    assert (trials[-1] == 0.0).all()
    assert not state[0].any()
    state[3][:] = 2, 2
    for pairs in state[4:6]:
        pairs[:2] = np.eye(2)
    state[6][:] = 1.0
    assert parts._advance(*state, 5, 0.0, np.empty(500), *[None] * 11) == (0, True)
    assert state[3][0] == 0
    # At a slope of 0 there is nothing to do.
    monkeypatch.setattr(parts, "_valued", lambda v, g, *_: g.fill(0.0) or 1.0)
    assert parts._advance(*begun(parts, np.zeros(2)), 5, 0.0, np.empty(500), *[None] * 11) == (0, True)


def test_a_pair_without_curvature_is_not_kept(parts, monkeypatch):
    def linear(v, g, *_):
        g[:] = -1.0
        return -v.sum() if v.sum() < 5.0 else np.inf

    monkeypatch.setattr(parts, "_valued", linear)
    state = begun(parts, np.zeros(2))
    made, _ = parts._advance(*state, 1, 0.0, np.empty(500), *[None] * 11)
    assert made == 1
    assert state[3].tolist() == [0, 0]
    assert 4.0 < state[0].sum() < 5.0


def test_losses_of_more_samples_than_a_tile_are_those_of_numpy(parts, monkeypatch):
    monkeypatch.setattr(parts, "exp", np.exp)
    monkeypatch.setattr(parts, "log", np.log)
    monkeypatch.setattr(parts, "_TILE", 4)
    rng, t = np.random.default_rng(2), 0.3
    for first, K in ((1, 2), (2, 3), (2, 4), (1, 3)):
        S, b = 3.0 * rng.normal(size=(K, 11)), rng.normal(size=K)
        y, c = rng.choice([-1.0, 1.0], 11), rng.uniform(0.0, 2.0, 11)
        S[0, 0], y[0] = 500.0, -1.0  # far out: nothing overflows
        scores = S + b[:, None]
        room = np.zeros((5, 4))
        slope = S.copy()
        loss = parts._lost(slope, b, y, c, first, t, room)

        def soft(part):
            top = part.max(axis=0)
            return top + t * np.log(np.exp(np.maximum((part - top) / t, -FAR)).sum(axis=0))

        minus, plus = soft(scores[:first]), soft(scores[first:])
        xi = y * (minus - plus)
        assert loss == pytest.approx(c @ np.logaddexp(0.0, xi), rel=1e-12)
        pulls = y * c / (1.0 + np.exp(-xi))
        for k in range(K):
            own, side, sign = (scores[:first], minus, 1.0) if k < first else (scores[first:], plus, -1.0)
            shares = np.exp((scores[k] - side) / t) if len(own) > 1 else 1.0
            assert slope[k] == pytest.approx(sign * pulls * shares, rel=1e-9, abs=1e-15)


def test_so_many_steps_that_the_clock_is_asked_in_between(monkeypatch):
    problem, asked = ring(Owners(1, 1), n=30), []
    module = "polyopt.solvers.logistic_polytopes.quasi_newton"

    def advance(v, g, value, counts, steps, bends, sizes, most, tol, *samples):
        asked.append((most, tol, [a.shape for a in (v, g, value, counts, steps, bends, sizes)]))
        return most, len(asked) == 3

    monkeypatch.setattr(f"{module}._advance", advance)
    W = random_start(problem, np.random.default_rng(2))
    per = 30 * W.size + 1
    monkeypatch.setattr(f"{module}._AT_ONCE", 4.5 * per)
    found, made = quasi_newton(problem, W, Clock(None), 1.0, 10, 0.25)
    assert found == pytest.approx(W)
    shapes = [(8,), (8,), (1,), (2,), (10, 8), (10, 8), (10,)]
    assert asked == [(4, 0.25, shapes), (4, 0.25, shapes), (2, 0.25, shapes)]
    assert made == 10
    asked.clear()
    assert quasi_newton(problem, W, Clock(None), 1.0, 100, 0.25)[1] == 12
    asked.clear()
    assert quasi_newton(problem, W, Clock(0.0), 1.0, 100, 0.25)[1] == 4
    asked.clear()
    monkeypatch.setattr(f"{module}._AT_ONCE", 0.5)
    assert quasi_newton(problem, W, Clock(None), 1.0, 2, 0.25)[1] == 2
