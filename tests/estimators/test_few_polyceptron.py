"""Polyceptron(max_features=s): what is found and proven, points and trees that fail, limits, refusals."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from helpers.cases import few, in_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import estimator_checks

from formulations import polyceptron
from formulations.polyhedral import belonging
from formulations.solution import Status
from polyopt import Claim, Polyceptron
from polyopt.certificates.polyceptron_subset import bounds_of_faces, certify_polyceptron_subset
from polyopt.estimators.cpm_independent import trees_of
from polyopt.outer import polyceptron_few
from polyopt.outer.polyceptron_few import FewPolyceptron, solve_few_polyceptron


def corner(seed, n=100, m=6):
    """Inside of a corner of two of six features, up to some noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    inside = np.minimum(0.6 - X[:, 1], 0.5 + X[:, 3]) + 0.5 * rng.normal(size=n) > 0
    return X, np.where(inside, "well", "ill")


@pytest.fixture(scope="module")
def fitted():
    return Polyceptron(2, max_features=2, n_init=2, random_state=0).fit(*corner(0))


def certify(machine, **changed):
    asked = {"W": machine.solution_["W"], "max_features": 2, "trees": trees_of(machine.solution_)}
    return certify_polyceptron_subset(machine._X, machine._y, **asked | changed)


def of_all_choices(X, y, c, assignment, s, K, radius):
    """The least cost of each face for an assignment, by the explicit program of every choice."""
    caps = c[:, None] * belonging(y, np.where(y < 0, assignment, -1), K, "all")
    return [
        min(
            polyceptron.cell(X[:, list(chosen)], y, cap, radius=radius).solve().objective
            for chosen in combinations(range(X.shape[1]), s)
        )
        for cap in caps.T
    ]


def test_the_features_are_found_and_proven(fitted):
    assert fitted.solver_ == "highs"
    assert ((fitted.W_ != 0).sum(axis=1) <= 2).all()
    assert fitted.score(*corner(0)) > 0.8
    found = fitted.certificate()
    assert found.claim is Claim.STATIONARY
    assert found.relative_gap < 1e-6
    assert "at most 2 features" in found.program
    assert "search tree" in found.note
    assert found.primal_value == pytest.approx(fitted.solution_.objective, rel=1e-9)
    assert found.dual_value == pytest.approx(fitted.solution_.bound, rel=1e-9)
    assert fitted.solution_.status is Status.CONVERGED


@pytest.mark.parametrize(("seed", "radius"), [(1, 1e4), (2, 0.8)])
def test_it_is_the_best_of_all_choices(seed, radius):
    X, y = corner(seed, n=40, m=5)
    machine = Polyceptron(2, max_features=2, radius=radius, n_init=1, random_state=0).fit(X, y)
    least = of_all_choices(machine._X, machine._y, machine._costs, machine.assignment_, 2, 2, radius)
    assert machine.solution_.objective == pytest.approx(sum(least), rel=1e-7)
    assert machine.certificate().dual_value == pytest.approx(sum(least), rel=1e-6)


@in_turn("seed", few((0, 3), range(10)))
def test_every_tree_closes_on_ten_sets(seed):
    X, y = corner(seed, n=60, m=5)
    for radius in (1e4, 0.7):
        machine = Polyceptron(2, max_features=2, radius=radius, n_init=2, random_state=0).fit(X, y)
        assert machine.certificate().claim in (Claim.STATIONARY, Claim.OPTIMAL)
        assert machine.solution_.status is Status.CONVERGED


def test_perturbed_points_fail_and_the_root_alone_proves_less(fitted):
    W = fitted.solution_["W"]
    moved, swapped, more = 1.05 * W, W.copy(), W.copy()
    swapped[:, :-1] = np.roll(W[:, :-1], 1, axis=1)
    more[:, :-1] += 1e-12
    for wrong in (moved, swapped):
        assert certify(fitted, W=wrong, assignment=fitted.assignment_).claim is Claim.SUBOPTIMAL_BY
    assert certify(fitted, W=more).claim is Claim.NONE
    outside = certify(fitted, radius=0.1)
    assert outside.claim is Claim.NONE
    assert "The faces break their box" in outside.note
    root, best = certify(fitted, trees=None), certify(fitted)
    assert "root alone" in root.note
    assert 0.0 < root.dual_value < best.dual_value


@pytest.mark.parametrize("radius", [1e4, 0.5])
def test_no_multipliers_prove_too_much(radius):
    """Whatever is in the table, the bound is no more than the least of all choices."""
    X, y = corner(3, n=30, m=4)
    y, c = np.where(y == "well", 1.0, -1.0), np.linspace(0.5, 1.5, 30)
    problem = FewPolyceptron(X, y, c, 1, 2, radius)
    ((search, _),) = problem.searches(np.zeros((1, 5)), polyceptron_few.Clock(None), 1000)
    tree = search.tree.table()
    (least,) = of_all_choices(X, y, c, np.zeros(30, dtype=int), 2, 1, radius)

    def proven(table):
        return bounds_of_faces(X, y, c[:, None], 2, radius, [table])[0]

    assert search.best.objective == pytest.approx(least, rel=1e-8)
    assert proven(tree) == pytest.approx(least, rel=1e-7)
    rng = np.random.default_rng(0)
    for kind in (1e3, 2.0, 1.001, -1.0):
        wrong = tree.copy()
        wrong[:, 4:] *= kind
        assert proven(wrong) <= least * (1 + 1e-12)
    mixed = tree.copy()
    mixed[:, 4:] = rng.permuted(tree[:, 4:], axis=0)
    assert proven(mixed) <= least * (1 + 1e-12)
    blind = tree.copy()
    blind[:, 4:] = 0.0
    assert proven(blind) == 0.0


def test_tables_that_are_no_trees_are_refused(fitted):
    tables = trees_of(fitted.solution_)
    with pytest.raises(ValueError, match="trees must be one for each of the 2 faces, not 1"):
        certify(fitted, trees=tables[:1])
    with pytest.raises(ValueError, match=r"trees\[0\] must have 104 columns"):
        certify(fitted, trees=[tables[0][:, :-1], tables[1]])
    loop = tables[0].copy()
    loop[0, :3] = 0.0
    with pytest.raises(ValueError, match=r"trees\[0\] must be a tree over 6 features"):
        certify(fitted, trees=[loop, tables[1]])
    with pytest.raises(ValueError, match="radius must be"):
        certify(fitted, radius=np.inf)


def test_copies_go_on_and_rules_have_so_many_terms(fitted):
    X, _ = corner(0)
    for again in (fitted.without_data(), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    lines = [line for line in fitted.polytope_.rules().splitlines() if "outside if" in line]
    assert [line.count("x") for line in lines] == (fitted.W_ != 0).sum(axis=1).tolist()
    assert set(fitted.duals_["row"]) == {"margin"}


def test_all_features_are_no_limit():
    X, y = corner(4, n=40, m=4)
    X = X[:, 1:]
    free = Polyceptron(1, solver="highs").fit(X, y)
    for s in (3, 50):
        found = Polyceptron(1, max_features=s).fit(X, y)
        assert found.solution_.objective == pytest.approx(free.solution_.objective, rel=1e-8)
        assert found.certificate().is_optimal


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["small", "constant", "copies", "separable", "units"]))
def test_degenerate_data_are_solved_and_proven(seed, kind):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(14, 3)).astype(float)
    y = np.where(rng.random(14) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    if kind == "constant":
        X[:, 0] = 7.0
    elif kind == "copies":
        X[:, 1:] = X[:, :1]
    elif kind == "separable":
        X[:, 2] = y
    elif kind == "units":
        X *= np.array([1e-4, 1.0, 1e4])
    found = solve_few_polyceptron(FewPolyceptron(X, y, np.ones(14), 2, 1), n_init=1)
    proven = certify_polyceptron_subset(X, y, found["W"], max_features=1, trees=trees_of(found))
    assert proven.claim in (Claim.STATIONARY, Claim.OPTIMAL)
    if kind == "separable":
        assert found.objective == 0.0


@pytest.mark.filterwarnings("ignore:.*(limit|interrupted)")
def test_limits_keep_a_point_and_its_bound(monkeypatch):
    X, y = corner(0)
    over = Polyceptron(2, max_features=2, n_init=2, time_limit=1e-6, random_state=0).fit(X, y)
    assert over.solution_.status is Status.TIME_LIMIT
    problem = FewPolyceptron(X, np.where(y == "well", 1.0, -1.0), np.ones(len(y)), 2, 2)
    few = solve_few_polyceptron(problem, max_nodes=1, n_init=1)
    assert few.status is Status.ITERATION_LIMIT
    assert 0.0 < few.bound < few.objective * (1 - 1e-3)
    usual, calls = polyceptron_few.search_subset, []

    def interrupted(*arguments, **named):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return usual(*arguments, **named)

    monkeypatch.setattr(polyceptron_few, "search_subset", interrupted)
    stopped = Polyceptron(2, max_features=2, n_init=2, random_state=0).fit(X, y)
    assert stopped.solution_.status is Status.INTERRUPTED
    for machine in (over, stopped):
        assert ((machine.W_ != 0).sum(axis=1) <= 2).all()
        found = machine.certificate()
        assert found.claim in (Claim.SUBOPTIMAL_BY, Claim.STATIONARY)
        assert found.dual_value <= found.primal_value


def test_weights_are_repetitions_and_one_feature_is_enough():
    X, y = corner(5, n=40, m=4)
    weights = np.arange(40) % 3
    rows = np.repeat(np.arange(40), weights)
    # Optimal faces need not be unique: what they cost is.
    found = [
        Polyceptron(1, max_features=2).fit(X, y, sample_weight=weights).solution_.objective,
        Polyceptron(1, max_features=2).fit(X[rows], y[rows]).solution_.objective,
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-8)
    estimator_checks.check_fit2d_1feature("Polyceptron", Polyceptron(max_features=1, random_state=0))


@in_turn(
    ("asked", "words"),
    [
        ({"solver": "batch"}, "max_features=2 needs solver='highs', not 'batch'"),
        ({"solver": "exact"}, "not 'exact'"),
        ({"l1": 0.1}, "max_features=2 has no prices or signs"),
        ({"integers": 3}, "max_features=2 and integers=3 do not go together here"),
        ({"radius": np.inf}, "max_features=2 needs a finite radius"),
        ({"max_features": 0}, "max_features must be an integer of at least 1, or None"),
        ({"max_features": 1.5}, "max_features must be"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(asked, words):
    with pytest.raises(ValueError, match=words):
        Polyceptron(2, **{"max_features": 2, **asked}).fit(*corner(0))
    with pytest.raises(AttributeError) as told:
        Polyceptron(2, max_features=2).partial_fit(*corner(0), classes=["ill", "well"])
    assert "partial_fit chooses no features" in str(told.value.__cause__)
