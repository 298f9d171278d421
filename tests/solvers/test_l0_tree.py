"""The branch and bound of the L0 machine: what a node proves, and that a search never claims more."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cases import few
from scipy.optimize import linprog

from formulations.l0_data import as_l0_data
from formulations.samples import two_blobs
from formulations.solution import Status
from polyopt.compiled import njit
from polyopt.solvers.clock import Clock
from polyopt.solvers.l0 import compiled, pivots
from polyopt.solvers.l0 import node as l0_node
from polyopt.solvers.l0 import tree as l0_tree
from polyopt.solvers.l0.grown_bound import problem_of, prove
from polyopt.solvers.l0.leaves import _Tree
from polyopt.solvers.l0.lp import PatternLP
from polyopt.solvers.l0.node import FREE, OFF, ON, NodeLP
from polyopt.solvers.l0.tree import solve_l0_tree
from polyopt.solvers.l0.warm import WarmLP


@njit
def proves(of, fixed, u, rates):
    return prove(of, fixed, u, rates)


KERNELS = few(["indefinite", "rectangular"], ["linear", "rbf", "indefinite", "rectangular"])


def problem(kernel, n, seed=0):
    rng = np.random.default_rng(seed)
    X, y = two_blobs(n=n, m=2, seed=seed)
    weights = rng.uniform(0.5, 2.0, n)
    if kernel == "linear":
        return as_l0_data(X @ X.T, y, 1.0, weights)
    if kernel == "rbf":
        return as_l0_data(np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2)), y, 3.0, weights)
    if kernel == "indefinite":
        return as_l0_data(np.tanh(0.5 * X @ X.T - 0.3) + 0.3 * rng.normal(size=(n, n)), y, 2.0, weights)
    K = np.tanh(X @ rng.normal(size=(2, 8)))
    return as_l0_data(K, y, 2.0, weights, rng.choice([-1.0, 1.0], 8))


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
    data = problem(kernel, 8)
    patterns = np.array(list(itertools.product((0.0, 1.0), repeat=len(data.centres))))
    lp = PatternLP(data)
    return data, patterns, np.array([data.pattern_score(s, lp.solve(s).value) for s in patterns])


def in_python(data, start=None, tol=1e-6):
    """The answer of the search in Python, which goes on where the compiled one cannot."""
    search = l0_tree.Search(data, tol, Clock(), None, None)
    if start is not None:
        search.offer(*start)
    return l0_tree.ended(search, search.run())


SEARCHES = {"compiled": solve_l0_tree, "python": in_python}


@cache
def medium(n=24):
    """A problem of some dozen nodes, and its optimum."""
    data = problem("rbf", n, seed=4)
    found = solve_l0_tree(data)
    assert found.status is Status.SOLVED
    assert found.iterations > 30
    return data, found.objective


# -- the program of a node -----------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_node_proves_the_value_of_its_program(kernel):
    """From a basis of another node, from nothing, and by HiGHS."""
    data, rng = problem(kernel, 40), np.random.default_rng(1)
    lp, basis = WarmLP(data), None
    by_highs = NodeLP(lp.bound)
    for turn in range(25):
        fixed = marks(len(data.centres), rng)
        found, other = lp.solve(fixed, basis, np.inf, Clock()), by_highs.solve(fixed, np.inf, Clock())
        for one in (found, other):
            assert one.solved
            assert one.bound == pytest.approx(node_value(data, fixed), rel=1e-6)
            assert not one.a[fixed == OFF].any()
            assert one.bound == pytest.approx(lp.bound.of(fixed, one.u)[0], rel=1e-9)
        basis = None if turn % 3 == 0 else found.basis
    assert lp.failures == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_node_never_proves_more_than_holds(kernel):
    data, patterns, values = scores(kernel)
    rng, lp = np.random.default_rng(2), WarmLP(data)
    root = lp.solve(np.full(len(data.centres), FREE, dtype=np.int8), None, np.inf, Clock())
    cut_short = 0
    for _ in range(60):
        fixed = marks(len(data.centres), rng)
        within = (patterns[:, fixed == ON] == 1).all(axis=1) & (patterns[:, fixed == OFF] == 0).all(axis=1)
        least = values[within].min()
        found = lp.solve(fixed, None, np.inf, Clock())
        limited = lp.solve(fixed, root.basis, np.inf, Clock(), most=1)
        stopped = lp.solve(fixed, root.basis, 0.5 * least, Clock())
        cut_short += not limited.solved
        for one in (found, limited, stopped):
            assert one.bound <= least * (1 + 1e-9)
        assert found.bound == pytest.approx(lp.solve(fixed, root.basis, np.inf, Clock()).bound, rel=1e-6)
        assert stopped.bound >= 0.5 * least * (1 - 1e-9) or stopped.solved
    assert cut_short > 0


def test_a_basis_brings_back_the_node_at_once():
    data, rng = problem("rbf", 40), np.random.default_rng(3)
    lp = WarmLP(data)
    nodes = [(fixed, lp.solve(fixed, None, np.inf, Clock())) for fixed in (marks(40, rng) for _ in range(10))]
    for fixed, found in nodes:
        again = lp.solve(fixed, found.basis, np.inf, Clock(), most=0)
        assert again.solved
        assert again.bound == pytest.approx(found.bound, rel=1e-9)
        assert again.basis.tolist() == found.basis.tolist()


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


def test_on_thousands_of_tiny_degenerate_problems_no_bound_is_above_and_none_is_short():
    """Of each a node, cut short, from its parent's basis and from nothing, against all patterns and scipy."""
    rng, clock, solved, failures = np.random.default_rng(6), Clock(), 0, 0
    for turn in range(few(250, 1000)):
        data = tiny(rng)
        lp, p = WarmLP(data), len(data.centres)
        root = lp.solve(np.full(p, FREE, dtype=np.int8), None, np.inf, clock)
        fixed = marks(p, rng)
        short = lp.solve(fixed, root.basis, np.inf, clock, most=int(rng.integers(3)))
        found = lp.solve(fixed, root.basis, np.inf, clock)
        grandchild = np.where((fixed == FREE) & (rng.random(p) < 0.5), ON, fixed).astype(np.int8)
        last = lp.solve(grandchild, found.basis, np.inf, clock)
        failures += lp.failures
        free = lp.solve(fixed, None, np.inf, clock)
        assert found.bound == pytest.approx(free.bound, rel=1e-6, abs=1e-7)
        assert found.bound >= short.bound - 1e-6 * (1.0 + abs(found.bound))
        if turn % 15 == 0:
            for marked, one in ((fixed, found), (grandchild, last)):
                assert one.bound == pytest.approx(node_value(data, marked), rel=1e-6, abs=1e-7)
        if turn % 5 == 0:
            solved += 1
            pattern = PatternLP(data)
            within = [
                data.pattern_score(sigma, pattern.solve(sigma).bound)
                for sigma in itertools.product((0.0, 1.0), repeat=p)
                if all(m == FREE or (m == ON) == s for m, s in zip(fixed, sigma, strict=True))
            ]
            assert max(found.bound, short.bound) <= min(within) * (1 + 1e-9) + 1e-12
    assert solved == few(50, 200)
    assert failures < 10


# -- the search ----------------------------------------------------------------------------


@pytest.mark.parametrize("search", SEARCHES)
def test_without_room_it_goes_depth_first_to_the_same_optimum(monkeypatch, search):
    data, optimum = medium()
    monkeypatch.setattr(l0_tree, "_BYTES", 0)
    monkeypatch.setattr(compiled, "_BYTES", 0)
    found = SEARCHES[search](data)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(optimum, rel=1e-6)
    assert found.history[-1]["open"] < 60


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("nodes", [0, 2, None])
def test_wherever_it_stops_it_is_never_above_its_start(kernel, nodes):
    data, patterns, values = scores(kernel)
    lp, p = PatternLP(data), len(data.centres)
    for pattern in (patterns[values.argmin()], np.zeros(p), np.ones(p)):
        begun = lp.solve(pattern)
        found = solve_l0_tree(data, start=(begun.alpha, begun.b), max_nodes=nodes)
        assert found.objective <= data.score(begun.alpha, begun.b) * (1.0 + 1e-12)
        assert found.bound <= min(found.objective, values.min() * (1.0 + 1e-9))


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 13, 21, 34])
@pytest.mark.parametrize("search", SEARCHES)
def test_wherever_it_is_interrupted_the_bound_holds(monkeypatch, search, after):
    """In Python before each program, compiled between any two nodes."""
    data, optimum = medium()
    of, name = (compiled.grown, "grow") if search == "compiled" else (WarmLP, "solve")
    solve, calls = getattr(of, name), itertools.count()

    def interrupted(*arguments, **options):
        if next(calls) == after:
            raise KeyboardInterrupt
        return solve(*arguments, **options)

    monkeypatch.setattr(of, name, interrupted)
    monkeypatch.setattr(compiled, "_WORK", 0)
    found = SEARCHES[search](data)
    assert found.status is Status.INTERRUPTED
    assert 0.0 <= found.bound <= optimum * (1 + 1e-9)
    assert found.objective >= optimum * (1 - 1e-9)


@pytest.mark.cases(1)
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_failures_of_the_solvers_cost_time_and_no_truth(monkeypatch, share):
    data, optimum = medium(18)
    run, point, rng = l0_node._Model.run, l0_node._Model.point, np.random.default_rng(2)
    steps, failures = pivots.pivot_to_optimum, []

    def lost(*arguments):
        return pivots.FAILED if rng.random() < 0.9 else steps(*arguments)

    def failing(self, *arguments):
        self.failed = rng.random() < share
        failures.append(self.failed)
        return run(self, *arguments) and not self.failed

    def nothing(self):
        x, prices = point(self)
        return (np.full_like(x, np.nan), np.full_like(prices, np.nan)) if self.failed else (x, prices)

    monkeypatch.setattr(pivots, "pivot_to_optimum", lost)
    monkeypatch.setattr(l0_node._Model, "run", failing)
    monkeypatch.setattr(l0_node._Model, "point", nothing)
    found = in_python(data)
    assert sum(failures) > 10
    assert found.bound <= optimum * (1 + 1e-9)
    assert found.objective >= optimum * (1 - 1e-9)
    assert found.status in (Status.SOLVED, Status.INACCURATE)


def test_solvers_of_no_use_at_all_leave_the_start(monkeypatch):
    data, _ = medium()
    first = PatternLP(data).solve(np.arange(24) % 3 == 0)
    monkeypatch.setattr(pivots, "pivot_to_optimum", lambda *_: pivots.FAILED)
    monkeypatch.setattr(l0_node._Model, "run", lambda *_: False)
    monkeypatch.setattr(compiled.grown, "plant", lambda *_: False)
    found = solve_l0_tree(data, start=(first.alpha, first.b))
    assert found.status is Status.FAILED
    assert found.objective <= data.score(first.alpha, first.b)


@pytest.mark.parametrize("after", [0, 1, 4, 11])
def test_where_compiled_steps_fail_the_search_in_python_goes_on(monkeypatch, after):
    """From what is open then, or from the start: nothing is lost, and it is not begun anew."""
    data, optimum = medium()
    grow, calls, first = compiled.grown.grow, itertools.count(), []

    def lost(*arguments):
        return compiled.grown.LOST if next(calls) == after else grow(*arguments)

    begun = l0_tree.Search.after
    monkeypatch.setattr(l0_tree.Search, "after", lambda other: first.append(begun(other)) or first[0])
    monkeypatch.setattr(compiled, "_WORK", 0)
    if after:
        monkeypatch.setattr(compiled.grown, "grow", lost)
    else:
        monkeypatch.setattr(compiled.grown, "plant", lambda *_: False)
    found = solve_l0_tree(data)
    assert found.status is Status.SOLVED
    assert found.objective == pytest.approx(optimum, rel=1e-6)
    assert found.bound <= optimum * (1 + 1e-9)
    assert first[0].nodes >= after  # of both
    assert found.iterations == first[0].nodes


def test_on_hundreds_of_tiny_degenerate_problems_the_compiled_tree_is_right():
    """Against all patterns; and what it proves of a node is what the formula in Python does."""
    rng = np.random.default_rng(16)
    for _ in range(few(150, 2000)):
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
def test_compiled_multipliers_prove_nothing_more_than_exact_arithmetic_does(kernel):
    """Rates and bounds in rational numbers, of the very multipliers that are in balance."""
    data, rng = problem(kernel, 9), np.random.default_rng(8)
    bound = l0_node.NodeBound(data)
    of, n, p = problem_of(bound), *data.K.shape
    for size in (1.0, 1e-3, 5.0):
        fixed, u = marks(p, rng), size * rng.uniform(-0.2, 1.0, n) * bound.caps
        rates = np.zeros((2, p))
        proven = proves(of, fixed, u, rates)
        exact = [max(Fraction(0), min(Fraction(v), Fraction(c))) for v, c in zip(u, bound.caps, strict=True)]
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


def test_a_wider_tolerance_ends_sooner():
    data, optimum = medium()
    found, exact = solve_l0_tree(data, tol=0.02), solve_l0_tree(data)
    assert found.status is Status.SOLVED
    assert found.iterations < exact.iterations
    assert optimum * (1 - 1e-9) <= found.objective <= found.bound / (1 - 0.02) * (1 + 1e-9)
    assert found.bound <= optimum * (1 + 1e-9)


def test_it_is_the_same_run_every_time():
    data, _ = medium()
    one, other = solve_l0_tree(data), solve_l0_tree(data)
    assert one.iterations == other.iterations
    assert one.bound == other.bound
    assert (one["alpha"] == other["alpha"]).all()


# -- its parts -----------------------------------------------------------------------------


def search_of(data, best):
    """A search before its first node, with a best score of this size."""
    search = l0_tree.Search(data, 1e-6, Clock(), None, None)
    search.best = best
    return search


def open_node(at, parts, p, bound=1.0):
    empty = np.zeros(p, dtype=np.int8)
    return l0_tree.Open(bound, 1, empty, empty, np.array(at), np.array(parts))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_multipliers_decide_leaves_out_no_better_pattern(kernel):
    """Nor does what is closed for it count for less than the scores that went with it."""
    data, patterns, values = scores(kernel)
    rng, lp, decided = np.random.default_rng(5), WarmLP(data), [0, 0]
    for _ in range(40):
        fixed = marks(len(data.centres), rng)
        within = (patterns[:, fixed == ON] == 1).all(axis=1) & (patterns[:, fixed == OFF] == 0).all(axis=1)
        best = values[within].min() * rng.choice([1.001, 1.05, 1.2])
        search = search_of(data, best)
        search.offer = lambda *_: None
        search.lp = lp
        found = lp.solve(fixed, None, np.inf, Clock())
        opened = search._opened(fixed, found, 0.0)
        after = opened[0].fixed if opened else np.full_like(fixed, FREE)
        left = (patterns[:, after == ON] == 1).all(axis=1) & (patterns[:, after == OFF] == 0).all(axis=1)
        if opened:
            lost = values[within & ~left].min(initial=np.inf)
            assert lost >= search.enough * (1 - 1e-9)
            assert search.closed <= lost * (1 + 1e-9)
            assert (after[fixed != FREE] == fixed[fixed != FREE]).all()
            # On, a centre costs 1 and saves its rate at most; off, it saves what the relaxation counts on.
            rates, is_free = found.rates.mid, fixed == FREE
            off = is_free & (found.bound + 1.0 - np.maximum(rates, 0.0) > search.enough * (1 + 1e-9))
            on = is_free & (found.bound + rates - 1.0 > search.enough * (1 + 1e-9))
            assert (after[off] == OFF).all()
            assert (after[on] == ON).all()
            decided[0] += off.sum()
            decided[1] += on.sum()
            part = (found.a > 0) & (found.a < 1) & (after == FREE)
            assert opened[0].at.tolist() == np.flatnonzero(part).tolist()
            assert opened[0].parts.tolist() == found.a[part].tolist()
        else:
            assert search.closed <= values[within].min() * (1 + 1e-9)
    assert sum(decided) > 10


def test_the_centre_expected_to_raise_both_bounds_most_is_decided():
    """By the mean gains seen for a unit, times what each moves; of centres never seen, by the usual gain."""
    data, _, _ = scores("rectangular")
    search = search_of(data, 11.0)
    search.seen[:] = 4.0
    search.gain[:] = 4.0 * np.array(
        [[1.0, 2.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0], [3.0, 4.0, 0.5, 1, 1, 1, 1, 1]]
    )
    # Products: 0.5 · 1.5, 0.4 · 3.2, 2.8 · 0.15; centres 3 to 7 are not used in part.
    assert search._choose(open_node([0, 1, 2], [0.5, 0.2, 0.7], 8)) == (1, (0, 1))
    assert search._choose(open_node([0, 2], [0.5, 0.7], 8)) == (0, (0, 1))
    # A gain beyond the gap closes no more than the gap: 0.5 · 0.75 against 0.25 · 0.9.
    search.best = 1.0 + 1.0 / (1 - 1e-6)
    search.gain[:, :2] = 4.0 * np.array([[1.0, 0.25 / 0.6], [1.5, 1e6]])
    assert search._choose(open_node([0, 1], [0.5, 0.6], 8))[0] == 0


def test_gains_are_remembered_for_each_unit_that_a_centre_moves():
    data, _, _ = scores("rectangular")
    search, one = search_of(data, 11.0), open_node([2, 5], [0.25, 0.5], 8)
    search._learn(one, 2, 1, 3.0)
    search._learn(one, 2, 1, -1.0)  # rounding is no gain
    search._learn(one, 2, 0, 3.0)
    search._learn(one, 5, 0, 1e9)  # no more than the gap counts
    wanted = np.zeros((2, 8))
    wanted[1, 2], wanted[0, 2], wanted[0, 5] = 3.0 / 0.75, 3.0 / 0.25, (search.enough - 1.0) / 0.5
    assert search.gain == pytest.approx(wanted)
    assert (search.seen[1, 2], search.seen[0, 2], search.seen[0, 5], search.seen.sum()) == (2, 1, 1, 4)


def test_a_side_whose_bound_is_enough_is_not_looked_into():
    data, _, _ = scores("rectangular")
    search, bounds = search_of(data, 11.0), {}
    search._solve = lambda one, j, on, most=None: l0_node.NodeSolution(bounds[j, on], *[None] * 6)
    bounds |= {(j, on): 1.5 for j in range(8) for on in (0, 1)}
    bounds[3, 0] = bounds[3, 1] = 1.8
    assert search._choose(open_node([1, 3, 6], [0.5, 0.5, 0.5], 8)) == (3, (0, 1))
    assert search.closed == np.inf
    bounds[6, 1] = 20.0
    assert search._choose(open_node([1, 6], [0.5, 0.5], 8)) == (6, (0,))
    assert search.closed == 20.0
    bounds[6, 0] = 12.0
    assert search._choose(open_node([6], [0.5], 8)) == (6, ())
    assert search.closed == 12.0


def test_the_bound_of_a_search_is_the_least_of_what_is_open_and_what_was_closed():
    data, _, _ = scores("rectangular")
    for of_open, closed, best, bound in ((3.0, 5.0, 9.0, 3.0), (6.0, 5.0, 9.0, 5.0), (12.0, 12.0, 9.0, 9.0)):
        for stack in (False, True):
            search = search_of(data, best)
            nodes = [open_node([0], [0.5], 8, bound=of_open), open_node([0], [0.5], 8, bound=of_open + 1.0)]
            search.closed = closed
            search.heap, search.stack = (nodes[1:], nodes[:1]) if stack else (nodes, [])
            assert search._update() == bound
            search.closed = 0.5 * bound
            assert search._update() == bound  # it never falls


def test_all_roundings_are_tried_at_the_first_nodes_and_later_one_now_and_then():
    """The coefficients lie between the thresholds, so that each of these rounds to a pattern of its own."""
    a = np.sort(np.concatenate([l0_tree._ROUNDING, np.array(l0_tree._ROUNDING) * 1.01]))
    found = {}
    for nodes in (1, l0_tree._FIRST, l0_tree._FIRST + 1, 10 * l0_tree._EVERY - 1, 10 * l0_tree._EVERY):
        offered = []
        search = SimpleNamespace(
            nodes=nodes, tried=set(), data=SimpleNamespace(C=1.0), enough=np.inf, clock=Clock(),
            lp=SimpleNamespace(solve=lambda fixed, *_: SimpleNamespace(a=fixed)), offer=offered.append,
        )  # fmt: skip
        for _ in range(2):  # no pattern is tried twice
            l0_tree.Search._round(search, SimpleNamespace(a=a, basis=None))
        found[nodes] = len(offered)
    every = len(l0_tree._ROUNDING)
    first = l0_tree._FIRST
    assert found == {1: every, first: every, first + 1: 0, 10 * l0_tree._EVERY - 1: 0, 10 * l0_tree._EVERY: 1}


@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])
def test_costs_that_are_given_to_highs_are_as_many_times_larger_as_the_matrix_is(monkeypatch, size):
    K, y = size * np.array([[1.0, -0.5], [0.5, 0.25], [0.0, -1.0]]), np.array([1.0, -1.0, 1.0])
    given = []
    monkeypatch.setattr(l0_node, "_Model", lambda *arguments: given.extend(arguments))
    data = SimpleNamespace(K=K, y=y, C=0.5, weights=np.array([1.0, 2.0, 4.0]))
    NodeLP(SimpleNamespace(data=data, signed=K * y[:, None]))
    costs, _, least, most, low, high = given
    assert costs == pytest.approx(max(1.0, size) * np.array([1.0, 1.0, 0.0, 0.5, 1.0, 2.0]))
    assert (least, most) == (1.0, np.inf)
    assert low.tolist() == [0.0, 0.0, -np.inf, 0.0, 0.0, 0.0]
    assert high.tolist() == [1.0, 1.0, *[np.inf] * 4]


def test_multipliers_of_a_file_are_no_larger_than_the_solver_s_and_in_balance():
    """Units are cut off below; then the class that has more gives up what it has more, and no other."""
    data, rng = problem("rbf", 12), np.random.default_rng(0)
    tree = _Tree(data, 1.0, 10)
    for _ in range(20):
        u = rng.uniform(0.0, 1.0, 12) * tree.caps
        u[rng.integers(12, size=3)] = 0.0
        at_caps = rng.integers(12, size=3)
        u[at_caps] = tree.caps[at_caps]
        whole, plus = np.floor(u / tree.unit).astype(int), data.y > 0
        found = tree._on_grid(u)
        sums = whole[plus].sum(), whole[~plus].sum()
        assert found[plus].sum() == found[~plus].sum() == min(sums)
        more = plus if sums[0] > sums[1] else ~plus
        assert np.array_equal(found[~more], whole[~more])
        assert (found >= 0).all()
        assert (found[more] <= whole[more]).all()
        # A sample at its cap gives up nothing while another can.
        full = more & (whole == np.floor(tree.caps / tree.unit))
        assert np.array_equal(found[full], whole[full]) or not found[more & ~full].any()
