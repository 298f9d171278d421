"""The bound from all samples together: below every optimum, what twins pay, its place among groups."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.cases import few
from helpers.cpm import clusters
from hypothesis import given, settings
from hypothesis import strategies as st

import polyopt
from formulations.solution import Status
from polyopt.outer.cpm import groups, neighbours
from polyopt.outer.cpm.neighbours import bound_by_neighbours
from polyopt.outer.cpm.optimum import solve_cpm_global
from polyopt.outer.cpm.prepared import merge
from polyopt.outer.cpm.spread import SpreadSearch
from polyopt.solvers.clock import Clock
from polyopt.solvers.cpm.tree import Best


@settings(max_examples=few(8, 60), deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3), st.sampled_from([1, 3, 128]))
def test_whatever_is_near_the_bound_is_no_more_than_the_optimum(seed, K, most):
    """On a grid, where samples are equal, contradict each other and may cost nothing, or anywhere."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(3, 9)), int(rng.integers(1, 4))
    X = (
        rng.integers(-1, 2, (n, d)).astype(float)
        if seed % 2
        else 10.0 ** rng.integers(-2, 3) * rng.normal(size=(n, d))
    )
    y, C = rng.choice([-1.0, 1.0], n), rng.choice([0.0, 0.5, 1.0, 30.0], n)
    y[:2], C[:2] = (1.0, -1.0), 1.0
    known = solve_cpm_global(X, y, C, K, bounds="additive", tol=1e-8)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_MOST", most), ("_LEAST", 1), ("_DISTANCES", 4.0), ("_SWEEPS", 8)):
            patch.setattr(neighbours, name, value)
        bound = bound_by_neighbours(X, y, C, K, known.objective, Clock(), seed)
    assert 0.0 <= bound <= known.objective * (1 + 1e-9)


def test_twins_cost_twice_the_lesser_of_their_costs_in_any_dimension(rng):
    X = rng.normal(size=(30, 40))
    costs = rng.uniform(0.5, 2.0, 70)
    X, y = np.vstack([X, X, rng.normal(size=(10, 40))]), np.repeat([1.0, -1.0, -1.0], [30, 30, 10])
    pays = 2.0 * np.minimum(costs[:30], costs[30:60]).sum()
    bound = bound_by_neighbours(X, y, costs, 3, 2 * pays, Clock(0.0), 0)
    assert pays * (1 - 1e-6) <= bound
    moved = X + np.where(y > 0, 1e-3, 0.0)[:, None]  # without twins nothing is there from the start
    assert bound_by_neighbours(moved, y, costs, 3, 2 * pays, Clock(0.0), 0) == 0.0


def test_with_all_near_it_comes_to_the_root_of_the_spread():
    rng = np.random.default_rng(4)
    X, y, C = rng.normal(size=(40, 3)), np.repeat([1.0, -1.0], 20), np.ones(40)
    found = solve_cpm_global(X, y, C, 2, max_nodes=1)
    best = Best(found["W"].copy(), np.array([found.objective, np.inf, 0.0]))
    root = SpreadSearch(merge(X, y, C, rng)[0], best, 1e-6)
    root.look(Clock())
    bound = bound_by_neighbours(X, y, C, 2, found.objective, Clock(), 0)
    assert 0.97 * root.bound <= bound <= found.objective


@pytest.fixture(scope="module")
def data():
    X, y, _ = clusters(60, 3, 5, widen=1.8)
    return np.column_stack([X, X[:, ::-1] * X, X[:, :1] ** 2])[:, :5], y


def test_where_all_together_prove_more_they_are_one_group(data, monkeypatch):
    machine = polyopt.ConvexPolytopeMachine(2, solver="global", group_size=20, random_state=0)
    proven = []

    def noted(*program):
        proven.append(bound_by_neighbours(*program))
        return proven[-1]

    monkeypatch.setattr(groups, "bound_by_neighbours", noted)
    monkeypatch.setattr(groups, "solve_cpm_global", lambda *program, **how: solve_cpm_global(
        *program, **{**how, "max_nodes": 1, "time_limit": None, "bounds": "plain"}))  # fmt: skip
    with pytest.warns(match="iteration limit"):
        machine.fit(*data)
    found = machine.solution_
    assert found.bound == pytest.approx(proven[0], rel=1e-12)
    assert found.duals["group_bound"].tolist() == proven
    assert set(found["group"].tolist()) == {0}
    assert "neighbours" in found.solver
    assert machine.certificate().dual_value == pytest.approx(found.bound, rel=1e-12)
    whole = solve_cpm_global(*data, 1.0, 2, time_limit=5.0)
    assert found.bound <= whole.objective


def test_ctrl_c_on_the_way_keeps_the_point(data, monkeypatch):
    def interrupted(*program):
        raise KeyboardInterrupt

    monkeypatch.setattr(groups, "bound_by_neighbours", interrupted)
    stopped = groups.solve_cpm_groups(*data, 1.0, 2, group_size=20)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.bound == 0.0
    assert np.isfinite(stopped.objective)
