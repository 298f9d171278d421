"""The exact Polyceptron over all faces and assignments: bounds of nodes, the tree, parts, what is said."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cases import few, in_turn
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from formulations.polyhedral import margin_error
from formulations.polytope import lift
from formulations.solution import Status
from polyopt import Polyceptron
from polyopt.certificates import Claim
from polyopt.certificates.polyceptron_search import certify_polyceptron_search
from polyopt.outer import polyceptron_global as module
from polyopt.outer.polyceptron_global import solve_polyceptron_global
from polyopt.solvers.polyceptron_node import NodeProgram, Part


def brute_force(X, y, c, K, R, fixed=None):
    """The least sum of face optima over all assignments, by linear programs; of those that `fixed` allows."""
    rows, positive = lift(X), np.flatnonzero(y > 0)
    negative, d, values = np.flatnonzero(y < 0), X.shape[1] + 1, {}
    fixed = np.full(len(negative), -1) if fixed is None else fixed

    def value(own):
        at = np.concatenate([positive, negative[list(own)]])
        if own not in values:
            A = np.hstack([-y[at, None] * rows[at], -np.eye(len(at))])
            bounds = [(-R, R)] * d + [(0, None)] * len(at)
            costs = np.concatenate([np.zeros(d), c[at]])
            values[own] = linprog(costs, A, -np.ones(len(at)), bounds=bounds).fun if len(at) else 0.0
        return values[own]

    allowed = [range(K) if k < 0 else (k,) for k in fixed]
    return min(
        sum(value(tuple(j for j, at in enumerate(z) if at == k)) for k in range(K))
        for z in itertools.product(*allowed)
    )


def tiny(seed):
    """Few samples, often of equal or flat features, with costs, faces and a box."""
    rng = np.random.default_rng(seed)
    n, m, K = rng.integers(4, 10), rng.integers(1, 4), int(rng.integers(1, 4))
    X = rng.normal(size=(n, m)) if seed % 2 else rng.integers(-2, 3, size=(n, m)).astype(float)
    if seed % 4 == 2:
        X[:, 0] = 0.0
    y = np.where(np.arange(n) % n < min(max(n // 2, 1), 5), -1.0, 1.0)
    c = rng.uniform(0.1, 5.0, n) if seed % 3 == 0 else np.ones(n)
    return X * 10.0 ** rng.integers(-2, 3), y, c, K, float(rng.choice([1e4, 1e4, 30.0, 1.0, 0.3]))


@in_turn("seed", range(few(6, 40)))
def test_the_tree_finds_the_optimum_of_all_assignments(seed):
    X, y, c, K, R = tiny(seed)
    least = brute_force(X, y, c, K, R)
    found = solve_polyceptron_global(X, y, c, K, radius=R, n_init=1, seed=seed)
    assert found.objective == pytest.approx(margin_error(X, y, found["W"], c))
    assert np.abs(found["W"]).max() <= R
    assert found.objective == pytest.approx(least, rel=1e-5, abs=1e-7)
    assert found.bound == pytest.approx(least, rel=1e-5, abs=1e-7)
    assert found.bound <= least + 1e-9 * max(least, 1.0)


@in_turn("seed", range(few(3, 20)))
def test_whatever_multipliers_are_no_bound_of_a_node_is_above_its_least_cost(seed):
    """Those of a solver, and any others, which are cut back."""
    X, y, c, K, R = tiny(seed)
    rng = np.random.default_rng(seed)
    inside, outside = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    rows, p, q = lift(X), len(inside), len(outside)
    part = Part(rows[inside], rows[outside], c[inside], c[outside], K, R, np.ones(X.shape[1] + 1))
    j, i = (each.ravel() for each in np.meshgrid(np.arange(q), np.arange(p), indexing="ij"))
    program = NodeProgram(part, (j, i))
    for fixed in (np.full(q, -1), rng.integers(-1, K, q), rng.integers(0, K, q)):
        least = brute_force(X, y, c, K, R, fixed)
        found = program.solve(fixed)
        assert found.bound <= least + 1e-12 * max(least, 1.0)
        if (fixed >= 0).all():
            assert found.bound == pytest.approx(least, rel=1e-6, abs=1e-6)
        own = np.where(fixed == np.arange(K)[:, None], part.c, 0.0)
        for size in (0.3, 3.0)[: few(1, 2)]:
            U, V = rng.exponential(size, (K, p)), rng.exponential(size, q * p) / p
            T, t = own * rng.random((K, q)), np.where(fixed < 0, part.c, 0.0) * rng.random(q)
            # In balance by the bias alone, with a narrow box, many of these prove something.
            narrow = NodeProgram(part._replace(radius=1e-3), (j, i))
            bound, used = narrow.proven(U, T, V, t)
            assert bound <= brute_force(X, y, c, K, 1e-3, fixed) + 1e-12
            assert (used <= part.b).all()


def test_a_negative_between_positives_costs_two_by_any_number_of_faces():
    X, y = np.array([[-1.0], [1.0], [0.25]]), np.array([1.0, 1.0, -1.0])
    for K in (1, 2, 5):
        found = solve_polyceptron_global(X, y, 1.0, K)
        assert found.status is Status.SOLVED
        assert (found.bound, found.objective) == (pytest.approx(2.0), pytest.approx(2.0))


def overlapping(n=60, m=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where(np.linalg.norm(X, axis=1) + rng.normal(0.0, 0.3, n) < 1.1, 1.0, -1.0)


def test_sixty_samples_in_the_plane_are_proven():
    X, y = overlapping()
    found = solve_polyceptron_global(sp.csr_array(X), y, 1.0, 3)
    assert found.status is Status.SOLVED
    assert found.objective > 1.0
    assert certify_polyceptron_search(X, y, 1.0, found).claim is Claim.OPTIMAL
    worse = found.primal["W"] * 1.01
    assert margin_error(X, y, worse) > found.objective
    found.primal["W"] = worse
    assert certify_polyceptron_search(X, y, 1.0, found).claim is Claim.SUBOPTIMAL_BY


@in_turn("seed", range(few(3, 20)))
def test_parts_share_the_costs_and_bound_the_whole(seed, monkeypatch):
    X, y, c, K, R = tiny(seed + 100)
    R = min(R, 0.3) if seed % 2 else R  # where positives pay by themselves, in each part their share
    monkeypatch.setattr(module, "_HULL_PAIRS", 1)
    monkeypatch.setattr(module, "_STEP", 1)
    monkeypatch.setattr(module._Search, "_plant", lambda self, held, rng: None)
    found = solve_polyceptron_global(X, y, c, K, radius=R, n_init=1, max_nodes=10, group_size=2)
    total = found.duals["part_bound"].sum()  # not cut back to what the point costs
    assert total <= brute_force(X, y, c, K, R) + 1e-9
    assert found.bound == pytest.approx(min(total, found.objective), abs=1e-12)


def test_parts_take_of_the_positives_what_these_pay_by_themselves(monkeypatch):
    """In a narrow box no face has a positive at its margin, in any part."""
    X, y = np.array([-1.0, -0.5, 0.5, 1.0, 0.25, -0.25])[:, None], np.array([1.0] * 4 + [-1.0] * 2)
    monkeypatch.setattr(module, "_HULL_PAIRS", 1)
    monkeypatch.setattr(module, "_STEP", 1)
    monkeypatch.setattr(module._Search, "_plant", lambda self, held, rng: None)
    found = solve_polyceptron_global(X, y, 1.0, 1, radius=0.3, group_size=1)
    least = brute_force(X, y, np.ones(6), 1, 0.3)
    assert 0.5 * least < found.duals["part_bound"].sum() <= least + 1e-9


def test_data_beyond_the_tree_are_bounded_by_parts():
    X, y = overlapping(120, 3, seed=1)
    found = solve_polyceptron_global(X, y, 1.0, 2, n_init=1, max_nodes=10, group_size=20)
    assert found.status is Status.ITERATION_LIMIT
    assert 0.1 * found.objective < found.bound < found.objective
    certificate = certify_polyceptron_search(X, y, 1.0, found)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.dual_value <= found.bound
    assert ("parts" in certificate.note) == (len(found.duals["part_bound"]) > 1)


def test_an_interruption_keeps_the_point_and_the_bound(monkeypatch):
    X, y = overlapping(40, 4, seed=2)
    whole = solve_polyceptron_global(X, y, 1.0, 2, n_init=1)
    assert whole.status is Status.SOLVED
    solve, calls = NodeProgram.solve, itertools.count()

    def stopped(self, *arguments):
        if next(calls) == 7:
            raise KeyboardInterrupt
        return solve(self, *arguments)

    monkeypatch.setattr(NodeProgram, "solve", stopped)
    found = solve_polyceptron_global(X, y, 1.0, 2, n_init=1)
    assert found.status is Status.INTERRUPTED
    assert found.bound <= whole.objective <= found.objective * (1.0 + 1e-9)
    assert found.objective == pytest.approx(margin_error(X, y, found["W"]))


def test_no_time_keeps_a_point():
    X, y = overlapping()
    found = solve_polyceptron_global(X, y, 1.0, 3, time_limit=1e-3)
    assert found.status in (Status.TIME_LIMIT, Status.SOLVED)
    assert 0.0 <= found.bound <= found.objective < np.inf


def test_the_estimator_proves_it_and_says_what_is_left():
    X, y = overlapping(40)
    machine = Polyceptron(3, solver="global", inside_label=1.0, n_init=1, random_state=0).fit(X, y)
    proof = machine.certificate()
    assert proof.is_optimal
    assert proof.scope == proof.program
    descent = Polyceptron(3, solver="highs", inside_label=1.0, n_init=1, random_state=0).fit(X, y)
    assert proof.dual_value <= descent.certificate().primal_value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        X = np.random.default_rng(0).normal(size=(100, 6))
        short = Polyceptron(2, solver="global", n_init=1, time_limit=0.2).fit(X, np.arange(100) % 2)
    assert short.certificate().claim is Claim.SUBOPTIMAL_BY
    assert short.solution_.status is Status.TIME_LIMIT


def test_an_infinite_box_has_no_global_bound():
    X, y = overlapping(20)
    with pytest.raises(ValueError, match="finite radius"):
        Polyceptron(2, solver="global", radius=np.inf).fit(X, y)


def test_bad_arguments_get_a_sentence():
    X, y = overlapping(20)
    for settings, said in (
        ({"group_size": 0}, "group_size"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"tol": -1}, "tol"),
    ):
        with pytest.raises(ValueError, match=said):
            solve_polyceptron_global(X, y, 1.0, 2, **settings)
    with pytest.raises(ValueError, match="both classes"):
        solve_polyceptron_global(X, np.ones(20), 1.0, 2)
    with pytest.raises(ValueError, match="radius"):
        solve_polyceptron_global(X, y, 1.0, 2, radius=np.inf)
