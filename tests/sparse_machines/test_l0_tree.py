"""The branch and bound of the L0 machine: what a node proves, and that a search never claims more."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from helpers.l0 import node_optimum, problem, solve_l0_tree
from scipy.optimize import linprog

from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from formulations.language.solution import Status
from polyopt.base.progress import records_to
from polyopt.sparse import tree as l0_tree
from polyopt.sparse.node_program import FREE, OFF, ON, bound_of, problem_of
from polyopt.sparse.pattern_lp import PatternLP
from polyopt.sparse.proof import prove_by_leaves
from polyopt.sparse.tree import L0Tree, Options

KERNELS = ["linear", "rbf", "indefinite", "rectangular"]


def data_of(kernel, n):
    return as_l0_data(*problem(kernel, n=n, p=8))


def marks(p, rng):
    return rng.choice([OFF, FREE, FREE, ON], p).astype(np.int8)


def node_value(data, fixed):
    """The program of a node, by scipy."""
    n = len(data.y)
    signed = data.y[:, None] * data.K * data.C * data.centres
    cost = np.r_[np.where(fixed == ON, 0.0, 1.0), 0.0, data.C * data.weights]
    bounds = [(0, 0 if mark == OFF else 1) for mark in fixed] + [(None, None)] + [(0, None)] * n
    found = linprog(cost, -np.c_[signed, data.y, np.eye(n)], -np.ones(n), bounds=bounds)
    assert found.status == 0
    return found.fun + (fixed == ON).sum()


@cache
def scores(kernel):
    """A small problem, all of its patterns and their scores."""
    data = data_of(kernel, 8)
    patterns = np.array(list(itertools.product((0.0, 1.0), repeat=len(data.centres))))
    lp = PatternLP(data)
    return data, patterns, np.array([data.pattern_score(s, lp.solve(s).value) for s in patterns])


def planted(data, fixed, best=np.inf):
    """A search whose first node decides so much, for scores below `best`, and the multipliers."""
    search = L0Tree(data, 1e-6, Clock())
    search.goal = (1 - 1e-6) * best
    assert search.solve_root(fixed)
    return search, search.relaxation


@cache
def medium(n=24):
    """A problem of some dozen nodes, and its optimum."""
    data = data_of("rbf", n)
    found = solve_l0_tree(data)
    assert found.status is Status.SOLVED
    assert found.iterations > 30
    return data, found.objective


# -- the program of a node -----------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_node_bound_is_its_program(kernel):
    """The bound of a node is the value of its program, by the pivots and by HiGHS, at any scale."""
    data, rng = data_of(kernel, 40), np.random.default_rng(1)
    for turn in range(12):
        scaled = as_l0_data((1.0, 30.0, 0.01)[turn % 3] * data.K, data.y, data.C, data.weights, data.centres)
        of, fixed = problem_of(scaled), marks(len(data.centres), rng)
        a, u = node_optimum(of, fixed)
        assert not a[fixed == OFF].any()
        for one in (u, planted(scaled, fixed)[1]):
            assert bound_of(of, fixed, one) == pytest.approx(node_value(scaled, fixed), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_any_multipliers_bound_a_node(kernel):
    """No multipliers prove more of a node than the least score of its patterns."""
    data, patterns, values = scores(kernel)
    rng, of = np.random.default_rng(2), problem_of(data)
    for _ in range(30):
        fixed = marks(len(data.centres), rng)
        within = (patterns[:, fixed == ON] == 1).all(axis=1) & (patterns[:, fixed == OFF] == 0).all(axis=1)
        own, other = planted(data, fixed)[1], planted(data, marks(len(data.centres), rng))[1]
        for u in (own, other, own + 0.1 * rng.normal(size=len(own)), 0.5 * own):
            assert bound_of(of, fixed, u) <= values[within].min() * (1 + 1e-9)


def tiny(rng):
    """A problem of a few samples and centres whose numbers tie, vanish and repeat."""
    n, p = rng.integers(2, 7), rng.integers(1, 5)
    K = rng.choice([-2.0, -1.0, 0.0, 1.0, 2.0, 5.0], (n, p)) * rng.choice([1.0, 1.0, 1e-3, 30.0])
    if rng.random() < 0.3:
        K[:, rng.integers(p)] = K[:, rng.integers(p)]
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weights = rng.choice([0.5, 1.0, 1.0, 2.0], n)
    return as_l0_data(K, y, float(rng.choice([0.3, 1.0, 4.0])), weights, rng.choice([-1.0, 1.0], p))


def test_degenerate_node_bounds_are_programs():
    """Bounds of nodes with ties, zeros and repetitions are the values of their programs."""
    rng = np.random.default_rng(6)
    for _ in range(60):
        data = tiny(rng)
        fixed, of = marks(len(data.centres), rng), problem_of(data)
        value = node_value(data, fixed)
        for u in (planted(data, fixed)[1], node_optimum(of, fixed)[1]):
            assert bound_of(of, fixed, u) == pytest.approx(value, rel=1e-6, abs=1e-7)
            assert bound_of(of, fixed, u) <= value * (1 + 1e-9) + 1e-9


# -- the search ----------------------------------------------------------------------------


def test_tree_without_memory_goes_deep():
    """Without memory for open nodes the tree goes depth first to the same optimum."""
    data, optimum = medium()
    found = solve_l0_tree(data, options=Options(max_open_bytes=0))
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(optimum, rel=1e-6)
    assert found.history[-1]["open"] < 60


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nodes", [0, 2, None])
def test_stopped_tree_keeps_its_start(kernel, nodes):
    """At any limit of nodes, the score is not above the start and the bound not above the optimum."""
    data, patterns, values = scores(kernel)
    lp, p = PatternLP(data), len(data.centres)
    for pattern in (patterns[values.argmin()], np.zeros(p), np.ones(p)):
        begun = lp.solve(pattern)
        found = solve_l0_tree(data, start=(begun.alpha, begun.b), max_nodes=nodes)
        assert found.objective <= data.score(begun.alpha, begun.b) * (1.0 + 1e-12)
        assert found.bound <= min(found.objective, values.min() * (1.0 + 1e-9))


@pytest.mark.parametrize("after", [1, 2, 5, 13, 30])
def test_interrupted_tree_keeps_a_bound(after):
    """Wherever Ctrl-C comes between two nodes, the bound is valid."""
    data, optimum = medium()
    told = []

    def interrupt(record):
        told.append(record)
        if len(told) == after:
            raise KeyboardInterrupt

    options = Options(nodes_per_call=1, nodes_per_rounding=1, seconds_between_records=-1.0)
    with records_to(interrupt):
        found = solve_l0_tree(data, options=options)
    assert found.status is Status.INTERRUPTED
    assert 0.0 <= found.bound <= optimum * (1 + 1e-9)
    assert found.objective >= optimum * (1 - 1e-9)


def test_failed_root_leaves_the_start():
    """If the relaxation cannot be solved, the start is kept."""
    data, _ = medium()
    first = PatternLP(data).solve(np.arange(24) % 3 == 0)
    found = solve_l0_tree(data, start=(first.alpha, first.b), options=Options(pivots_per_number=0.0))
    assert found.status is Status.FAILED
    assert found.objective <= data.score(first.alpha, first.b)


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize(
    ("times", "status"), [(1, Status.SOLVED), (10**6, Status.INACCURATE)], ids=["once", "always"]
)
def test_failed_pivots_leave_a_bound(monkeypatch, share, times, status):
    """Nodes whose pivots fail begin again, and are closed with their bounds if they fail again."""
    data, optimum = medium()
    rng, expand, failures = np.random.default_rng(2), l0_tree.expand_nodes, {}

    def fail(problem, program, search, *arguments):
        node = search.marks[0, : len(search.fixed)].tobytes()
        failures.setdefault(node, times if rng.random() < share else 0)
        if failures[node] == 0:
            return expand(problem, program, search, *arguments)
        failures[node] -= 1
        search.counts[[l0_tree.EXPANDED, l0_tree.FAILED_SLOT]] = 0
        return False

    monkeypatch.setattr(l0_tree, "expand_nodes", fail)
    found = solve_l0_tree(data, options=Options(nodes_per_call=1))
    assert found.status is status
    assert found.objective >= optimum * (1 - 1e-9)
    assert 0.0 < found.bound <= optimum * (1 + 1e-9)
    _, bound = prove_by_leaves(data, (found["alpha"], float(found["b"])), optimum * (1 - 1e-6), 5000)
    assert 0.0 < bound <= optimum * (1 + 1e-9)
    if times == 1:
        assert len(failures) > 5
        assert found.objective == pytest.approx(optimum, rel=1e-6)
        assert bound >= optimum * (1 - 2e-6)


def test_tree_solves_tiny_degenerate_problems():
    """On tiny problems with ties the score is the least of all patterns."""
    rng = np.random.default_rng(16)
    for _ in range(60):
        data = tiny(rng)
        found = solve_l0_tree(data)
        model, p = PatternLP(data), len(data.centres)
        values = [
            (data.pattern_score(s, one.value), data.pattern_score(s, one.bound))
            for s in itertools.product((0.0, 1.0), repeat=p)
            if (one := model.solve(s))
        ]
        least = min(value for value, _ in values)
        assert found.status is Status.SOLVED
        assert found.objective == pytest.approx(least, rel=1.01e-6)
        assert found.bound <= min(found.objective, least * (1 + 1e-9))


@pytest.mark.parametrize("kernel", KERNELS)
def test_compiled_bounds_are_below_exact(kernel):
    """Compiled rates and bounds enclose those in rational numbers of the same balanced multipliers."""
    data, rng = data_of(kernel, 9), np.random.default_rng(8)
    of, n, p = problem_of(data), *data.K.shape
    for size in (1.0, 1e-3, 5.0):
        fixed, u = marks(p, rng), size * rng.uniform(-0.2, 1.0, n) * of.caps
        rates = np.zeros((2, p))
        proven = bound_of(of, fixed, u, rates)
        exact = [max(Fraction(0), min(Fraction(v), Fraction(c))) for v, c in zip(u, of.caps, strict=True)]
        sums = {side: sum(v for v, t in zip(exact, data.y, strict=True) if t == side) for side in (-1.0, 1.0)}
        light = min(sums.values())
        exact = [v * light / sums[t] if sums[t] else v for v, t in zip(exact, data.y, strict=True)]
        C, value = Fraction(data.C), sum(exact) + int((fixed == ON).sum())
        for j in range(p):
            column = zip(exact, data.y, data.K[:, j], strict=True)
            rate = C * int(data.centres[j]) * sum(v * int(t) * Fraction(k) for v, t, k in column)
            assert rates[0, j] <= rate <= rates[1, j]
            assert rates[1, j] - rates[0, j] <= 1e-12 * (1.0 + abs(rates[0, j]))
            value -= 0 if fixed[j] == OFF else max(rate - int(fixed[j] == FREE), 0)
        assert proven <= value
        assert proven == pytest.approx(float(value), rel=1e-11, abs=1e-11)


def test_wider_tolerance_ends_sooner():
    """A wider tolerance takes fewer nodes, and its gap is within it."""
    data, optimum = medium()
    found, exact = solve_l0_tree(data, tol=0.02), solve_l0_tree(data)
    assert found.status is Status.SOLVED
    assert found.iterations < exact.iterations
    assert optimum * (1 - 1e-9) <= found.objective <= found.bound / (1 - 0.02) * (1 + 1e-9)
    assert found.bound <= optimum * (1 + 1e-9)


def test_tree_is_deterministic():
    """Two runs have the same nodes, bound and coefficients."""
    data, _ = medium()
    one, other = solve_l0_tree(data), solve_l0_tree(data)
    assert one.iterations == other.iterations
    assert one.bound == other.bound
    assert (one["alpha"] == other["alpha"]).all()


# -- its parts -----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_fixed_centres_lose_no_pattern(kernel):
    """Centres that the multipliers decide exclude only patterns that are not below the cutoff."""
    data, patterns, values = scores(kernel)
    rng, decided = np.random.default_rng(5), 0
    for _ in range(100):
        fixed = marks(len(data.centres), rng)
        within = (patterns[:, fixed == ON] == 1).all(axis=1) & (patterns[:, fixed == OFF] == 0).all(axis=1)
        best = values[within].min() * rng.choice([1.001, 1.05, 1.2])
        search, _ = planted(data, fixed, best)
        enough = search.cutoff
        if search.is_done:
            assert search.bound <= values[within].min() * (1 + 1e-9)
            continue
        assert search.bound <= values[within].min() * (1 + 1e-9)
        after = search.pop().state.marks[: len(fixed)]
        assert (after[fixed != FREE] == fixed[fixed != FREE]).all()
        left = (patterns[:, after == ON] == 1).all(axis=1) & (patterns[:, after == OFF] == 0).all(axis=1)
        lost = values[within & ~left].min(initial=np.inf)
        assert lost >= enough * (1 - 1e-9)
        decided += int((after != fixed).sum())
    assert decided > 10


@pytest.mark.parametrize("goal", [0.9, 0.99, 2.0])
def test_kept_tree_proves_its_goal(goal):
    """A tree that is kept proves the goal, or the optimum if the goal is above it."""
    data, optimum = medium()
    tree, bound = prove_by_leaves(data, (np.zeros(24), 0.0), goal * optimum, 5000)
    assert bound >= min(goal, 1.0) * optimum * (1 - 1e-6)
    assert bound <= optimum * (1 + 1e-9)
    assert "ways" in tree
