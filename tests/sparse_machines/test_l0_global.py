"""The exact solvers of the L0 machine against all patterns, the modelling language and one another."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from helpers.l0 import degenerate, problem, solve_l0_tree

from formulations import l0
from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.sparse.certificate import certify_l0_data, score_bound
from polyopt.sparse.cross_entropy import round_relaxation, solve_l0
from polyopt.sparse.pattern_lp import PatternLP, finished
from polyopt.sparse.proof import DEFAULT, Options, solve_globally, solve_integer_program
from polyopt.sparse.tree import Options as TreeOptions


def solve_l0_milp(data, time_limit=None):
    """The integer program, from the relaxation's pattern."""
    return solve_integer_program(data, Clock(time_limit), round_relaxation(data))[0]


X, Y = two_blobs(n=8, m=2, seed=0)
RNG = np.random.default_rng(0)
TIES = RNG.integers(-1, 2, size=(8, 2)).astype(float)
RBF = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
DATA = {
    "linear": as_l0_data(X @ X.T, Y, 1.0),
    "rbf": as_l0_data(RBF, Y, 3.0),
    "indefinite": as_l0_data(np.tanh(0.5 * X @ X.T - 0.3) + 0.3 * RNG.normal(size=(8, 8)), Y, 2.0),
    "rectangular": as_l0_data(
        np.tanh(X @ RNG.normal(size=(2, 7))), Y, 4.0, centres=np.array([1, -1, 1, 1, -1, 1, -1.0])
    ),
    "weights": as_l0_data(X @ X.T, Y, 1.0, RNG.uniform(0.2, 3.0, 8)),
    "ties": as_l0_data(TIES @ TIES.T, Y, 1.0),
    "duplicates": as_l0_data(np.tile(X[:4] @ X[:4].T, (2, 2)), Y, 1.0),
    "zero kernel": as_l0_data(np.zeros((8, 8)), Y, 1.0),
    "one feature": as_l0_data(np.outer(X[:, 0], X[:, 0]), Y, 1.0),
    "one class": as_l0_data(X @ X.T, np.ones(8), 1.0),
    "weightless": as_l0_data(X @ X.T, Y, 1.0, np.where(np.arange(8) % 3 == 0, 0.0, 1.0)),
    "tiny features": as_l0_data(1e-12 * X @ X.T, Y, 1e9),
    "huge features": as_l0_data(1e6 * X @ X.T, Y, 1.0),
}
SOLVERS = {"integer program": solve_l0_milp, "tree": solve_l0_tree}
by_kind = pytest.mark.parametrize("kind", DATA)
by_solver = pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)


@cache
def large():
    """A problem whose search takes a while, and its optimum."""
    data = as_l0_data(*problem("rbf", n=40))
    return data, solve_l0_tree(data).objective


@cache
def least_score(kind):
    """The least score of all patterns."""
    data = DATA[kind]
    lp = PatternLP(data)
    patterns = map(np.array, itertools.product((0.0, 1.0), repeat=len(data.centres)))
    return min(data.pattern_score(sigma, lp.solve(sigma).value) for sigma in patterns)


def check(data, found):
    """What holds of every solution, however the run ended."""
    alpha, b = found["alpha"], float(found["b"])
    assert alpha.shape == data.centres.shape
    assert ((alpha >= 0) & (alpha <= data.C)).all()
    assert found.objective == data.score(alpha, b)
    assert (found["sigma"] == (alpha > 0)).all()
    assert (data.support(alpha) == (alpha > 0)).all()
    assert (data.y * data.outputs(alpha, b) >= 1 - found["xi"] - 1e-12).all()
    assert (found["xi"] >= 0).all()
    assert 0.0 <= found.bound <= found.objective


@by_kind
@by_solver
def test_solver_finds_the_least_score(solve, kind):
    """The score is the least of all patterns; the tree proves it, the integer program is HiGHS's word."""
    data, expected = DATA[kind], least_score(kind)
    found = solve(data)
    check(data, found)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert found.bound <= expected * (1 + 1e-9)
    whose = {"searched" if solve is solve_l0_tree else "stated": found.bound}
    claim = certify_l0_data(data, found["alpha"], float(found["b"]), u=found["margin"], **whose).claim
    is_proven = solve is solve_l0_tree or expected == 0.0
    assert claim is (Claim.OPTIMAL if is_proven else Claim.SOLVERS_WORD)


@pytest.mark.parametrize("kernel", ["rbf", "rectangular"])
def test_tree_equals_the_modelling_language(kernel):
    """The tree has the optimum of the mixed-integer program of the modelling language."""
    data = as_l0_data(*problem(kernel, n=16, p=8))
    program = l0.mixed_integer(data.K, data.y, data.C, data.weights, data.centres)
    found = solve_l0_tree(data)
    check(data, found)
    assert found.objective == pytest.approx(program.solve(mip_rel_gap=1e-9).objective, rel=2e-6)


@by_solver
def test_time_limit_leaves_a_bound(solve):
    """A time limit leaves a feasible point and a bound of the optimum."""
    data, optimum = large()
    found = solve(data, time_limit=1e-3)
    check(data, found)
    assert found.status is Status.TIME_LIMIT
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.objective >= optimum * (1 - 1e-6)


@pytest.mark.parametrize("limit", [1e-3, None])
def test_integer_program_keeps_its_start(limit):
    """The integer program is no worse than its start, in the point and in the bound."""
    data = as_l0_data(*problem("rbf", n=14))
    start = round_relaxation(data)
    found, below = solve_integer_program(data, Clock(limit), start)
    check(data, found)
    assert found.objective <= start.objective
    assert found.bound >= start.bound
    assert (found["relaxation"] == start["relaxation"]).all()
    assert [record["objective"] for record in found.history] == [start.objective, found.objective]
    assert below is None or below <= found.objective


def test_records_narrow_the_gap_of_scores():
    """The history is what a listener receives, and bound and objective approach each other."""
    data, seen = as_l0_data(*problem("rbf", n=24, seed=1)), []
    with records_to(seen.append):
        found = solve_l0_tree(data, options=TreeOptions(seconds_between_records=0.0))
    assert found.history == tuple(seen)
    assert len(seen) > 1
    for before, after in itertools.pairwise(seen):
        assert after["seconds"] >= before["seconds"]
        assert after["objective"] <= before["objective"]
        assert after["bound"] >= before["bound"]
    assert found.bound >= seen[-1]["bound"]


def test_error_of_a_listener_is_raised():
    """An error of a listener is not taken for the end of the search."""

    def fail(record):
        raise RuntimeError("of the caller's")

    for solve in (solve_l0_tree, solve_l0):
        with records_to(fail), pytest.raises(RuntimeError, match="of the caller's"):
            solve(large()[0])


def test_untrue_optimum_is_inaccurate():
    """A point that the bound does not prove is inaccurate, and a bound above its score is cut to it."""
    data = as_l0_data(*problem("rbf", n=20))
    nothing, how = (np.zeros(20), 0.0), {"tol": 1e-6, "solver": "x", "solve_time": 0.0}
    assert finished(data, nothing, 1.0, Status.SOLVED, **how).status is Status.INACCURATE
    too_much = finished(data, nothing, 1e9, Status.SOLVED, **how)
    assert too_much.bound == too_much.objective


def test_start_is_clipped():
    """A start beyond its caps is clipped to them."""
    data = as_l0_data(*problem("rbf", n=20))
    start = np.full(20, 2 * data.C) * (np.arange(20) % 2), 0.0
    check(data, solve_l0_tree(data, start=start, time_limit=1e-3))


# -- a tree that asks for a point --------------------------------------------------------------


class Asked:
    """The cross-entropy method, which remembers its solutions."""

    def __init__(self, data, status=None):
        self.data, self.status, self.answers = data, status, []

    def __call__(self, seconds):
        answer = solve_l0(self.data, time_limit=seconds, seed=0)[0]
        self.answers.append(answer if self.status is None else replace(answer, status=self.status))
        return self.answers[-1]


DEGENERATE = ["duplicates", "one class", "zero kernel", "weightless"]


@pytest.mark.parametrize("kind", ["linear", "rbf", "rectangular", *DEGENERATE])
def test_global_solver_with_and_without_a_point(kind):
    """With a point from the cross-entropy method and without, the optimum is that of HiGHS."""
    data = as_l0_data(*(degenerate(kind) if kind in DEGENERATE else problem(kind, n=16, p=8)))
    other, _ = solve_integer_program(data, Clock(None))
    for options, times in ((DEFAULT, 0), (Options(first_pivots=0), 1)):
        asked = Asked(data)
        found, bound = solve_globally(data, asked, Clock(None), options=options)
        assert len(asked.answers) == times or (kind in DEGENERATE and not asked.answers)  # a leaf as its root
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(other.objective, rel=1e-6, abs=1e-9)
        assert found.objective == pytest.approx(data.score(found["alpha"], float(found["b"])), rel=1e-12)
        assert bound <= found.objective
        assert bound == pytest.approx(found.objective, rel=1e-6)
        assert all(found.objective <= one.objective * (1 + 1e-12) for one in asked.answers)
        relaxed = score_bound(data, found.duals["relaxation"] / data.C)
        assert relaxed <= bound * (1 + 1e-9) + 1e-12
        assert relaxed == pytest.approx(score_bound(data, solve_l0(data)[0]["relaxation"] / data.C), rel=1e-6)


@pytest.mark.parametrize("limit", [0.0, 1e-4])
def test_short_search_keeps_the_known_point(limit):
    """Short of time the solution is no worse than the point asked for, and the bound is valid."""
    data, optimum = large()
    asked = Asked(data)
    found, bound = solve_globally(data, asked, Clock(limit))
    assert asked.answers or found.status is Status.SOLVED
    assert all(found.objective <= one.objective * (1 + 1e-12) for one in asked.answers)
    assert bound <= optimum * (1 + 1e-9)


def test_interrupted_point_ends_the_search():
    """If the search for a point is interrupted, the whole ends with the bound of the tree so far."""
    data, optimum = large()
    asked = Asked(data, Status.INTERRUPTED)
    found, bound = solve_globally(data, asked, Clock(None), options=Options(first_pivots=0))
    assert found.status is Status.INTERRUPTED
    assert 0.0 < bound <= optimum * (1 + 1e-9)
    assert optimum * (1 - 1e-9) <= found.objective <= asked.answers[0].objective * (1 + 1e-12)
