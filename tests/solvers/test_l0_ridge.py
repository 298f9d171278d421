"""The L0 machine with a price of squares: its programs, its tree, and that neither claims too much."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from helpers import l0 as helper
from helpers.cases import few, in_turn

from formulations import l0_ridge
from formulations.l0_data import as_l0_data
from formulations.solution import Status
from polyopt.certificates.l0 import cut_of, score_bound
from polyopt.outer.l0.search import round_relaxation, solve_l0
from polyopt.outer.l0.settings import CrossEntropySettings
from polyopt.solvers.clock import Clock
from polyopt.solvers.l0.interior import Pieces, minimise
from polyopt.solvers.l0.milp import solve_l0_milp
from polyopt.solvers.l0.node import FREE, OFF, ON
from polyopt.solvers.l0.ridge import NodeQP, PatternQP, node_model, pattern_model
from polyopt.solvers.l0.tree import solve_l0_tree
from polyopt.solvers.one_norm import solve_relaxation

KERNELS = few(["indefinite", "rectangular"], ["linear", "rbf", "indefinite", "rectangular"])
PRICES = (1e-3, 0.3, 4.0)  # at C = 2 under and over the price at which the relaxation bends
DEGENERATE = ("duplicates", "lonely", "one class", "zero kernel", "weightless")


def drawn(rng):
    """A tiny problem of any scale, with ties, columns that are the same, and samples that do not count."""
    n, p = int(rng.integers(2, 11)), int(rng.integers(1, 6))
    K = rng.normal(size=(n, p)) * 10 ** rng.uniform(-2.5, 2.5)
    K = np.round(K) if rng.random() < 0.2 else K
    if p > 1 and rng.random() < 0.2:
        K[:, 0] = K[:, -1]
    weights = rng.uniform(0.2, 2.0, n) * (rng.random(n) < 0.9)
    weights[0] = 1.0
    y, centres = rng.choice([-1.0, 1.0], n), rng.choice([-1.0, 1.0], p)
    return as_l0_data(K, y, 10 ** rng.uniform(-1.5, 1.5), weights, centres, 10 ** rng.uniform(-6, 3))


def every_pattern(data):
    return np.array(list(itertools.product((0.0, 1.0), repeat=len(data.centres))))


def best_score(data):
    """The least score of all patterns, each solved apart."""
    model = PatternQP(data)
    scores = []
    for sigma in every_pattern(data):
        found = model.solve(sigma)
        assert found.status is Status.SOLVED
        scores += [data.pattern_score(sigma, found.value), data.score(found.alpha, found.b)]
    return min(scores)


def node_value(data, fixed):
    """The program of a node with the perspective of its squares, as it is defined, by Clarabel."""
    p, n = len(fixed), len(data.y)
    a, b, xi, sigma, z = cp.Variable(p), cp.Variable(), cp.Variable(n), cp.Variable(p), cp.Variable(p)
    signed = data.y[:, None] * data.K * data.C * data.centres
    rows = [signed @ a + data.y * b + xi >= 1, xi >= 0, a >= 0, a <= sigma, sigma <= 1]
    rows += [cp.SOC(z + sigma, cp.vstack([2 * a, z - sigma]), axis=0)]
    rows += [sigma[j] == (mark == ON) for j, mark in enumerate(fixed) if mark != FREE]
    cost = cp.sum(sigma) + data.cap_price * cp.sum(z) + data.C * (data.weights @ xi)
    return float(cp.Problem(cp.Minimize(cost), rows).solve(cp.CLARABEL))


# -- programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("l2", PRICES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_pattern_has_the_value_of_the_program_stated(kernel, l2):
    K, y, C, w, t = helper.problem(kernel, n=24, p=9)
    data = as_l0_data(K, y, C, w, t, l2)
    model, program = PatternQP(data), l0_ridge.pattern(K, y, np.zeros(K.shape[1]), C, w, t, l2=l2)
    for sigma in [*helper.patterns(K.shape[1], 4), np.zeros(K.shape[1]), np.ones(K.shape[1])]:
        found = model.solve(sigma)
        assert found.status is Status.SOLVED
        assert found.value == pytest.approx(program.set(sigma=sigma).solve().objective, rel=1e-7, abs=1e-8)
        assert found.value == data.cost(found.alpha, found.b)
        assert found.bound <= found.value
        constant, slopes = found.cut
        assert constant - slopes @ sigma == pytest.approx(found.value, rel=1e-7, abs=1e-8)
        assert not found.alpha[sigma == 0].any()


@in_turn("kind", DEGENERATE)
def test_degenerate_programs_are_solved_as_well(kind):
    K, y, C, w, t = helper.degenerate(kind)
    data = as_l0_data(K, y, C, w, t, 0.2)
    program = l0_ridge.pattern(K, y, np.zeros(len(y)), C, w, t, l2=0.2)
    for sigma in helper.patterns(len(y), 2, seed=5):
        found = PatternQP(data).solve(sigma)
        assert found.status is Status.SOLVED
        assert found.value == pytest.approx(program.set(sigma=sigma).solve().objective, rel=1e-7, abs=1e-7)
    relaxed = solve_relaxation(data)
    assert relaxed.status is Status.SOLVED
    expected = l0_ridge.relaxation(K, y, C, w, t, l2=0.2).solve().objective
    assert relaxed.objective == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("l2", PRICES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_relaxation_has_the_value_of_the_program_stated_and_proves_it(kernel, l2):
    K, y, C, w, t = helper.problem(kernel, n=24, p=9)
    data = as_l0_data(K, y, C, w, t, l2)
    relaxed = solve_relaxation(data)
    assert relaxed.status is Status.SOLVED
    assert relaxed.objective == pytest.approx(
        l0_ridge.relaxation(K, y, C, w, t, l2=l2).solve().objective, rel=1e-7
    )
    assert relaxed.bound == pytest.approx(relaxed.objective, rel=1e-7)
    assert relaxed.bound <= relaxed.objective
    sigma, alpha = relaxed["sigma"], relaxed["alpha"]
    used = alpha > 0
    terms = sigma[used].sum() + l2 * (alpha[used] ** 2 / sigma[used]).sum()
    assert terms + C * data.loss(alpha, float(relaxed["b"])) == pytest.approx(relaxed.objective, rel=1e-9)


@pytest.mark.parametrize("l2", PRICES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_node_proves_the_value_of_its_program(kernel, l2):
    K, y, C, w, t = helper.problem(kernel, n=20, p=8)
    data, rng = as_l0_data(K, y, C, w, t, l2), np.random.default_rng(1)
    lp, basis = NodeQP(data), None
    for _ in range(6):
        fixed = rng.choice([OFF, FREE, FREE, ON], K.shape[1]).astype(np.int8)
        value = node_value(data, fixed)
        for begin in (None, basis):
            found = lp.solve(fixed, begin, np.inf, Clock())
            assert found.solved
            assert found.bound == pytest.approx(value, rel=1e-6)
            assert not found.a[fixed == OFF].any()
            assert ((found.shares >= found.a) & (found.shares <= 1.0)).all()
        quick = lp.solve(fixed, basis, np.inf, Clock(), most=1)
        assert quick.bound <= value * (1 + 1e-7)
        basis = found.basis
    assert lp.failures == 0


def test_a_cutoff_is_a_proof_and_changes_no_other_answer():
    K, y, C, w, t = helper.problem("indefinite", n=30)
    data = as_l0_data(K, y, C, w, t, 0.1)
    model = PatternQP(data)
    for sigma in helper.patterns(len(y), 6, seed=2):
        free = model.solve(sigma)
        cut = model.solve(sigma, cutoff=0.9 * free.value)
        assert cut.status is Status.CUT_OFF
        assert 0.9 * free.value < cut.bound <= free.value
        assert cut.value == np.inf
        same = model.solve(sigma, cutoff=1.1 * free.value)
        assert (same.status, same.value) == (Status.SOLVED, free.value)
    with pytest.raises(ValueError, match="one pattern"):
        model.solve(np.zeros((2, len(y))))


def test_the_mean_of_a_batch_has_a_cut_that_holds_for_each():
    K, y, C, w, t = helper.problem("rbf", n=30)
    data = as_l0_data(K, y, C, w, t, 0.1)
    model, batch = PatternQP(data), helper.late(len(y), 8)
    found = model.prepare(batch)
    constant, slopes = found.cut
    assert constant - slopes @ batch.mean(axis=0) == pytest.approx(found.value, rel=1e-7)
    for sigma in batch:
        assert constant - slopes @ sigma <= model.solve(sigma).value * (1 + 1e-9)


def test_interior_points_end_at_bounds_exactly():
    """One column of no use, one that is worth its cap: the first ends at 0, the second at its cap."""
    y = np.array([1.0, -1.0])
    A = np.array([[0.0, 0.1], [0.0, 0.1]])
    none = np.zeros(2)
    pieces = Pieces(np.stack([[0.1, 0.0], none]), np.stack([[1.0, 1e-3], none]), np.stack([[1.0, 1.0], none]))
    found = minimise(A, y, np.ones(2), pieces, clock=Clock())
    assert found.a.tolist() == [0.0, 1.0]
    assert found.value == pytest.approx(2 * 0.9 + 1e-3, rel=1e-9)
    assert found.gap <= 1e-9


def test_without_a_price_the_linear_programs_are_asked():
    data = as_l0_data(np.eye(3), [1, -1, 1])
    assert type(pattern_model(data)).__name__ == "PatternLP"
    assert type(node_model(data)).__name__ == "WarmLP"
    priced = as_l0_data(np.eye(3), [1, -1, 1], l2=0.1)
    with pytest.raises(ValueError, match=r"HiGHS takes no squares beside integers.*global"):
        solve_l0_milp(priced)


# -- the tree ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(few(2, 20)))
def test_no_bound_is_above_the_best_pattern_and_the_tree_finds_it(seed):
    """Of problems of all scales: multipliers of any kind, the relaxation, and the leaves."""
    rng = np.random.default_rng(seed)
    for _ in range(12):
        data = drawn(rng)
        best = best_score(data)
        for u in rng.normal(size=(4, len(data.y))) * 10 ** rng.uniform(-2, 2, size=(4, 1)):
            assert score_bound(data, u) <= best
        assert solve_relaxation(data).bound <= best * (1 + 1e-13)
        found = solve_l0_tree(data)
        assert found.bound <= best * (1 + 1e-13)
        assert found.objective == pytest.approx(best, rel=1e-6)
        assert found.objective - found.bound <= 2e-6 * best


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_tree_has_the_optimum_of_the_exact_program(kernel):
    K, y, C, w, t = helper.problem(kernel, seed=1, n=12, p=7)
    pytest.importorskip("pyscipopt")
    data = as_l0_data(K, y, C, w, t, 0.4)
    exact = l0_ridge.mixed_integer(K, y, C, w, t, l2=0.4).solve()
    assert solve_l0_tree(data).objective == pytest.approx(exact.objective, rel=1e-5)


def test_limits_keep_the_point_begun_at_and_the_bound_of_the_root():
    K, y, C, w, t = helper.problem("indefinite", n=40)
    data = as_l0_data(K, y, C, w, t, 0.05)
    start = solve_l0(data, CrossEntropySettings(n_samples=10, max_iter=2))[0]
    point = start["alpha"], float(start["b"])
    relaxed = solve_relaxation(data).bound
    none = solve_l0_tree(data, start=point, time_limit=0.0)
    assert none.status is Status.TIME_LIMIT
    assert none.objective <= start.objective * (1 + 1e-9)
    few_nodes = solve_l0_tree(data, start=point, max_nodes=2)
    assert few_nodes.status is Status.ITERATION_LIMIT
    assert few_nodes.objective <= start.objective * (1 + 1e-9)
    assert few_nodes.bound >= relaxed * (1 - 1e-9)
    more = solve_l0_tree(data, start=point, max_nodes=20)
    assert more.bound > few_nodes.bound
    assert more.bound <= more.objective


# -- search --------------------------------------------------------------------------------


def test_the_search_finds_the_best_of_all_patterns_of_small_problems():
    rng = np.random.default_rng(7)
    for _ in range(5):
        data = drawn(rng)
        best = best_score(data)
        found, search = solve_l0(data, CrossEntropySettings(n_samples=20))
        assert found.objective == pytest.approx(best, rel=1e-6)
        assert search.relaxed <= best * (1 + 1e-13)
        rounded = round_relaxation(data)
        assert rounded.objective >= best * (1 - 1e-9)
        assert rounded.bound <= best * (1 + 1e-13)


def test_a_price_of_nearly_nothing_leaves_the_machine_as_it_is():
    """Both ways to solve it meet: linear programs without a price, interior points with a tiny one."""
    K, y, C, w, t = helper.problem("indefinite", n=14)
    without, tiny = (solve_l0_tree(as_l0_data(K, y, C, w, t, l2)) for l2 in (0.0, 1e-12))
    assert tiny.status is without.status is Status.SOLVED
    assert tiny.objective == pytest.approx(without.objective, rel=1e-6)
    assert (tiny["sigma"] == without["sigma"]).all()


def test_cuts_bound_every_pattern_whatever_the_multipliers():
    rng = np.random.default_rng(3)
    for _ in range(4):
        data = drawn(rng)
        model, every = PatternQP(data), every_pattern(data)
        values = np.array([model.solve(sigma).value for sigma in every])
        for u in rng.normal(size=(5, len(data.y))) * 10 ** rng.uniform(-2, 2, size=(5, 1)):
            constant, slopes = cut_of(data, u)
            assert (slopes.mid >= 0).all()
            assert (constant.lower - every @ slopes.upper <= values * (1 + 1e-13)).all()
