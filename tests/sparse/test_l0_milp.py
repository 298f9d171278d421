"""The exact solvers of the L0 machine against brute force, the modelling language and the certificate."""

from __future__ import annotations

import itertools
import signal
from functools import cache

import numpy as np
import pytest

from formulations import l0
from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.sparse import tree as l0_tree
from polyopt.sparse.certificate import certify_l0_data
from polyopt.sparse.cross_entropy import round_relaxation
from polyopt.sparse.pattern_lp import PatternLP, finished
from polyopt.sparse.proof import solve_integer_program
from polyopt.sparse.tree import solve_l0_tree


def solve_l0_milp(data, time_limit=None):
    """The integer program, from the relaxation's pattern."""
    return solve_integer_program(data, Clock(time_limit), round_relaxation(data))[0]


SOLVERS = [solve_l0_milp, solve_l0_tree]
KINDS = [
    "linear",
    "rbf",
    "indefinite",
    "rectangular",
    "weights",
    "ties",
    "duplicates",
    "zero kernel",
    "one feature",
    "one class",
    "weightless",
    "tiny",
    "huge",
]


def problem(kind, n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=n, m=2, seed=seed)
    C, weights, centres = 1.0, None, None
    K = X @ X.T
    if kind == "rbf":
        K, C = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)), 3.0
    elif kind == "indefinite":
        K, C = np.tanh(0.5 * K - 0.3) + 0.3 * rng.normal(size=(n, n)), 2.0
    elif kind == "rectangular":
        K, centres = np.tanh(X @ rng.normal(size=(2, 7))), rng.choice([-1.0, 1.0], 7)
        C = 4.0
    elif kind == "weights":
        weights = rng.uniform(0.2, 3.0, n)
    elif kind == "ties":
        X = rng.integers(-1, 2, size=(n, 2)).astype(float)
        K = X @ X.T
    elif kind == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
        K = X @ X.T
    elif kind == "zero kernel":
        K = np.zeros((n, n))
    elif kind == "one feature":
        K = np.outer(X[:, 0], X[:, 0])
    elif kind == "one class":
        y = np.ones(n)
    elif kind == "weightless":
        weights = np.where(np.arange(n) % 3 == 0, 0.0, 1.0)
    elif kind == "tiny":  # of the features: 1e-12 in K
        K = (1e-6 * X) @ (1e-6 * X).T
        C = 1e9
    elif kind == "huge":
        K = (1e3 * X) @ (1e3 * X).T
    return as_l0_data(K, y, C, weights, centres)


@cache
def brute_force(kind, n, seed):
    """The least score of all patterns."""
    data = problem(kind, n, seed)
    lp = PatternLP(data)
    patterns = itertools.product((0.0, 1.0), repeat=len(data.centres))
    return min(data.pattern_score(np.array(sigma), lp.solve(np.array(sigma)).value) for sigma in patterns)


def check(data, found):
    """What holds of every answer, however the run ended."""
    alpha, b, p = found["alpha"], float(found["b"]), len(data.centres)
    assert alpha.shape == (p,)
    assert (alpha >= 0).all()
    assert (alpha <= data.C).all()
    assert found.objective == data.score(alpha, b)
    assert (found["sigma"] == (alpha > 0)).all()
    assert (data.support(alpha) == (alpha > 0)).all()
    assert (data.y * data.outputs(alpha, b) >= 1 - found["xi"] - 1e-12).all()
    assert (found["xi"] >= 0).all()
    assert 0.0 <= found.bound <= found.objective


@cache
def large():
    """A problem that takes both solvers long, and its optimum."""
    data = problem("rbf", 44, seed=1)
    return data, solve_l0_tree(data).objective


def certificate(data, found, solve):
    """What is proven: by the tree's own leaves, or by nobody where an integer solver says so."""
    whose = "searched" if solve is solve_l0_tree else "stated"
    point = found["alpha"], float(found["b"])
    return certify_l0_data(data, *point, u=found["margin"], **{whose: found.bound})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solve", SOLVERS)
def test_it_finds_the_least_score_of_all_patterns(solve, kind):
    data = problem(kind, 8, seed=0)
    found = solve(data)
    check(data, found)
    expected = brute_force(kind, 8, 0)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found.bound <= expected * (1 + 1e-9)
    proven = solve is solve_l0_tree or expected == 0.0
    claim = certificate(data, found, solve).claim
    assert claim is (Claim.OPTIMAL if proven else Claim.SOLVERS_WORD)


@cache
def modelled(kind):
    data = problem(kind, 18, seed=5)
    program = l0.mixed_integer(data.K, data.y, data.C, data.weights, data.centres)
    return program.solve(mip_rel_gap=1e-9).objective


@pytest.mark.parametrize("kind", ["linear", "rbf", "indefinite", "rectangular", "weights"])
def test_it_equals_the_modelling_language(kind):
    data = problem(kind, 18, seed=5)
    expected = modelled(kind)
    found = solve_l0_tree(data)
    check(data, found)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(expected, rel=2e-6)
    assert found.bound <= expected * (1 + 1e-6)


@pytest.mark.parametrize("limit", [1e-3, 0.1, 0.4])
@pytest.mark.parametrize("solve", SOLVERS)
def test_a_time_limit_leaves_a_feasible_point_and_a_valid_bound(solve, limit):
    data, optimum = large()
    found = solve(data, time_limit=limit)
    check(data, found)
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.objective >= optimum * (1 - 1e-6)
    assert certificate(data, found, solve).claim in (Claim.SUBOPTIMAL_BY, Claim.OPTIMAL, Claim.SOLVERS_WORD)
    if limit == 1e-3:
        assert found.status is Status.TIME_LIMIT


def test_the_integer_program_never_worsens_its_start():
    data = problem("rbf", 20, seed=3)
    start = round_relaxation(data)
    for limit in (1e-3, None):
        found, below = solve_integer_program(data, Clock(limit), start)
        check(data, found)
        assert found.objective <= start.objective
        assert found.bound >= start.bound
        assert (found["relaxation"] == start["relaxation"]).all()
        assert [record["objective"] for record in found.history] == [start.objective, found.objective]
        assert below is None or below <= found.objective


@cache
def tree_of_twenty():
    return solve_l0_tree(problem("rbf", 20, seed=3))


@pytest.mark.parametrize("limit", [1e-3, None])
def test_a_start_is_never_worsened(limit):
    data, rng = problem("rbf", 20, seed=3), np.random.default_rng(0)
    lp, best = PatternLP(data), tree_of_twenty()
    for sigma in (best["sigma"], rng.random(20) < 0.2):
        first = lp.solve(sigma)
        found = solve_l0_tree(data, start=(first.alpha, first.b), time_limit=limit)
        check(data, found)
        assert found.objective <= data.score(first.alpha, first.b)
        assert found.bound <= best.objective * (1 + 1e-9)


def test_ctrl_c_keeps_the_best_point():
    data = large()[0]
    first = PatternLP(data).solve(np.arange(44) % 3 == 0)
    calls = []

    def stop(record):
        calls.append(record)
        raise KeyboardInterrupt

    with records_to(stop):
        found = solve_l0_tree(data, start=(first.alpha, first.b))
    check(data, found)
    assert found.status is Status.INTERRUPTED
    assert len(calls) <= 2
    assert found.objective <= data.score(first.alpha, first.b)
    assert found.bound < found.objective


def test_an_error_in_progress_is_raised():
    def fail(record):
        raise RuntimeError("of the caller's")

    with records_to(fail), pytest.raises(RuntimeError, match="of the caller's"):
        solve_l0_tree(large()[0])


def test_a_real_signal_stops_it(interruptible):
    data, records = problem("rbf", 90, seed=1), []

    def stop(record):
        records.append(record)
        signal.raise_signal(signal.SIGINT)

    with records_to(stop):
        found = solve_l0_tree(data)
    check(data, found)
    assert found.status is Status.INTERRUPTED
    assert len(records) <= 2


def test_the_history_narrows():
    data, seen = problem("rbf", 24, seed=1), []
    options = l0_tree.Options(seconds_between_records=0.0)
    with records_to(seen.append):
        found = solve_l0_tree(data, options=options)
    assert found.history == tuple(seen)
    assert len(seen) > 1
    for before, after in itertools.pairwise(seen):
        assert after["seconds"] >= before["seconds"]
        assert after["objective"] <= before["objective"]
        assert after["bound"] >= before["bound"]
    assert found.bound >= seen[-1]["bound"]


def test_a_claim_that_the_score_belies_is_not_optimal():
    data = problem("rbf", 20)
    nothing = (np.zeros(20), 0.0)
    found = finished(data, nothing, 1.0, Status.SOLVED, tol=1e-6, solver="x", solve_time=0.0)
    assert found.status is Status.INACCURATE
    too_much = finished(data, nothing, 1e9, Status.SOLVED, tol=1e-6, solver="x", solve_time=0.0)
    assert too_much.bound == too_much.objective


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"start": (np.zeros(3), 0.0)}, "start"),
        ({"start": (np.full(8, np.nan), 0.0)}, "start"),
        ({"start": (np.zeros(8), np.inf)}, "start"),
        ({"tol": 0.0}, "tol"),
        ({"tol": 1.5}, "tol"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"time_limit": np.nan}, "time_limit"),
    ],
)
def test_what_cannot_be_is_said(arguments, what):
    with pytest.raises(ValueError, match=what):
        solve_l0_tree(problem("linear", 8), **arguments)


def test_a_start_outside_its_box_is_clipped():
    data = problem("rbf", 20)
    found = solve_l0_tree(data, start=(np.full(20, 2 * data.C) * (np.arange(20) % 2), 0.0), time_limit=1e-3)
    check(data, found)
