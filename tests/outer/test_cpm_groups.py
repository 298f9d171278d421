"""The bound on all assignments from groups of samples: theorem, rounding, division, search."""

from __future__ import annotations

from fractions import Fraction

import joblib
import numpy as np
import pytest
from helpers.cpm import clusters
from hypothesis import given
from hypothesis import strategies as st

import polyopt
from formulations import cpm
from formulations.solution import Status
from polyopt.certificates import Claim
from polyopt.certificates.cpm_groups import bound_of_groups, costs_in_groups
from polyopt.outer.cpm import groups as module
from polyopt.outer.cpm.alike import groups_alike
from polyopt.outer.cpm.groups import solve_cpm_groups
from polyopt.outer.cpm.optimum import solve_cpm_global
from polyopt.outer.cpm.solve import Settings, solve_cpm

# -- the bound -----------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(2, 3))
def test_whatever_the_groups_their_optima_are_no_more_than_that_of_the_whole(seed, K, m):
    """Any division at all, on a grid, where samples are equal, contradict each other and may cost nothing."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(8, 2)).astype(float)
    y, C = rng.choice([-1.0, 1.0], 8), rng.choice([0.0, 0.5, 1.0, 4.0], size=8)
    C[0] = 1.0
    whole = solve_cpm_global(X, y, C, K, tol=1e-9)
    group, costs = rng.integers(0, m, 8), costs_in_groups(C, m)
    bounds = [
        solve_cpm_global(X[at], y[at], costs[at], K, tol=1e-9).bound if costs[at].any() else 0.0
        for at in (group == g for g in range(m))
    ]
    assert bound_of_groups(np.array(bounds)) <= whole.objective


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=30), st.integers(1, 10**6))
def test_costs_and_the_mean_are_never_rounded_up(values, count):
    mean = sum(map(Fraction, values)) / len(values)
    assert Fraction(bound_of_groups(np.array(values))) <= mean
    assert float(mean) == pytest.approx(bound_of_groups(np.array(values)), rel=1e-15, abs=1e-300)
    costs = costs_in_groups(np.array(values), count)
    for one, cost in zip(values, costs.tolist(), strict=True):
        assert Fraction(cost) <= count * Fraction(one)


def test_nothing_is_lost_where_the_groups_are_copies_of_each_other():
    X, y, _ = clusters(24, 3, 1, widen=1.8)
    X, y = np.tile(X, (3, 1)), np.tile(y, 3)
    whole = solve_cpm_global(X, y, 1.0, 2)
    found = solve_cpm_groups(X, y, 1.0, 2, group_size=24)
    assert sorted(np.bincount(found["group"])) == [24, 24, 24]
    assert found.bound <= whole.objective * (1 + 1e-9)
    assert found.bound >= whole.objective * (1 - 2e-3)
    assert found.objective == pytest.approx(whole.objective, rel=1e-3)
    assert found.status is Status.BOUNDED


# -- the division --------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12))
def test_every_group_gets_its_part_of_each_class_and_of_all(seed, n, count):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-2, 3, size=(n, 2)).astype(float), rng.choice([-1.0, 1.0], n)
    group = groups_alike(X, y, count, rng)
    for part in (y < 0, y > 0, np.ones(n, dtype=bool)):
        sizes = np.bincount(group[part], minlength=count)
        assert len(sizes) == count
        assert sizes.max() - sizes.min() <= 1


def test_groups_are_more_alike_than_those_by_lot(rng):
    X, y = rng.normal(size=(600, 4)), np.repeat([-1.0, 1.0], 300)
    group, lot = groups_alike(X, y, 20, rng), rng.permutation(np.arange(600) % 20)
    apart = [np.std([X[by == g].mean(axis=0) for g in range(20)]) for by in (group, lot)]
    assert apart[0] < 0.5 * apart[1]
    crowd = [np.std([(np.abs(X[by == g]) > 1).mean() for g in range(20)]) for by in (group, lot)]
    assert crowd[0] < crowd[1]  # and not in their means alone


# -- the search ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X, y, _ = clusters(60, 3, 5, widen=1.8)
    return X, y


@pytest.fixture(scope="module")
def found(data):
    return solve_cpm_groups(*data, 1.0, 2, group_size=20)


def test_bound_and_point_are_on_the_two_sides_of_the_optimum(data, found):
    whole = solve_cpm_global(*data, 1.0, 2)
    assert whole.status is Status.SOLVED
    assert 0.5 * whole.objective < found.bound <= whole.objective <= found.objective * (1 + 1e-9)
    assert found.objective == pytest.approx(cpm.objective(*data, found["W"], 1.0), rel=1e-9)
    assert found.bound <= bound_of_groups(found.duals["group_bound"])
    assert [record["groups"] for record in found.history] == [1.0, 2.0, 3.0]
    assert "3 groups" in found.solver


def test_the_same_seed_makes_the_same_groups_however_many_are_searched_at_once(data, found):
    with joblib.parallel_config(backend="threading"):
        again = solve_cpm_groups(*data, 1.0, 2, group_size=20, n_jobs=2)
    assert (again["group"] == found["group"]).all()
    assert again.bound == found.bound
    assert again.objective == found.objective


@pytest.mark.cases(0)
def test_one_face_is_the_convex_program():
    X, y, _ = clusters(520, 3, 0, widen=1.8)
    best = cpm.face(X, y, 1.0).solve().objective
    found = solve_cpm(X, y, np.ones(520), Settings(1, "global"), 0)  # beyond 500, without being asked
    assert found.objective == pytest.approx(best, rel=1e-3)
    assert 0.8 * best < found.bound <= best * (1 + 1e-9)


def test_limits_keep_a_point_and_a_valid_bound(data, found, monkeypatch):
    at_once = solve_cpm_groups(*data, 1.0, 2, group_size=20, time_limit=0.0)
    assert at_once.status is Status.TIME_LIMIT
    assert 0.0 <= at_once.bound <= found.objective <= at_once.objective * (1 + 1e-9)
    few = solve_cpm_groups(*data, 1.0, 2, group_size=20, max_nodes=1)
    assert few.status is Status.ITERATION_LIMIT
    assert 0.0 < few.bound <= found.bound * (1 + 1e-3)
    bounded = []

    def interrupted(*program, **how):
        if len(bounded) == 1:  # at a moment that no clock decides
            raise KeyboardInterrupt
        bounded.append(solve_cpm_global(*program, **how).bound)
        return solve_cpm_global(*program, **how)

    monkeypatch.setattr(module, "solve_cpm_global", interrupted)
    stopped = solve_cpm_groups(*data, 1.0, 2, group_size=20)
    assert stopped.status is Status.INTERRUPTED
    assert stopped.bound == pytest.approx(bounded[0] / 3, rel=1e-12)
    assert stopped.objective >= found.objective * (1 - 1e-9)


def test_what_cannot_be_bounded_is_refused(data):
    X, y = data
    with pytest.raises(ValueError, match="both classes"):
        solve_cpm_groups(X, np.ones(len(y)), 1.0, 2)
    for K, most in ((1, 500), (2, 2000)):
        with pytest.raises(
            ValueError, match=f"group_size must be an integer from 1 to {most}, not {most + 1}"
        ):
            solve_cpm_groups(X, y, 1.0, K, group_size=most + 1)
    with pytest.raises(ValueError, match=r"group_size=20 needs solver='global'.*not solver='exact'"):
        polyopt.ConvexPolytopeMachine(2, solver="exact", group_size=20).fit(X, y)
    with pytest.raises(ValueError, match=r"group_size=20 needs solver='global'.*loss='max'"):
        polyopt.ConvexPolytopeMachine(2, solver="global", loss="max", group_size=20).fit(X, y)
    with pytest.raises(ValueError, match="group_size"):
        polyopt.ConvexPolytopeMachine(2, solver="global", group_size=0).fit(X, y)


# -- the certificate -----------------------------------------------------------------------


def test_the_certificate_says_how_far_from_the_optimum_and_by_what(data, found, tmp_path):
    machine = polyopt.ConvexPolytopeMachine(2, solver="global", group_size=20, random_state=0)
    with pytest.warns(match="the optimum is between its bound and the point"):
        machine.fit(*data)
    certificate = machine.certificate()
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.dual_value <= bound_of_groups(machine.solution_.duals["group_bound"])
    assert certificate.dual_value == pytest.approx(found.bound, rel=0.1)  # the same but for the seed
    assert "mean of bounds on 3 groups" in certificate.note
    with pytest.raises(ValueError, match="groups of samples has no claim to be saved"):
        certificate.save(tmp_path / "claim.json")
    # A bound that was put in by hand does not pass for what the groups prove.
    machine.solution_.duals["group_bound"] *= 0.5
    assert machine.certificate().dual_value <= 0.51 * certificate.dual_value


def test_one_large_group_proves_more_than_many_small_ones_and_no_more_than_there_is(monkeypatch):
    monkeypatch.setattr(module, "bound_by_neighbours", lambda *given: 0.0)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(510, 5)), np.where(np.arange(510) % 2, 1.0, -1.0)
    small, large = (solve_cpm_groups(X, y, 1.0, 2, group_size=size, max_nodes=1) for size in (51, 510))
    assert 0 < small.bound < large.bound <= min(small.objective, large.objective)
    assert set(large["group"]) == {0}
