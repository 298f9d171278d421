"""SPLA1 and PLUME with max_features=s: what is found and proven, points that must fail, limits, refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.utils import estimator_checks

from formulations.solution import Status
from polyopt import PLUME, SPLA1, Claim, certify_spla1
from polyopt.certificates.plume_subset import certify_plume_subset
from polyopt.certificates.spla1_subset import certify_spla1_subset
from polyopt.estimators.cpm_independent import trees_of
from polyopt.outer import few_faces
from polyopt.solvers.logistic import solve_logistic

MACHINES = {
    "spla1": lambda **given: SPLA1(**{"n_faces": 2, "positives": "all", "ridge": 0.1} | given),
    "plume": lambda **given: PLUME(**{"n_faces": 2, "ridge": 0.1} | given),
}
ASKED = {"max_features": 1, "n_init": 2, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    """Inside of a corner of two of five features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    inside = np.minimum(0.6 - X[:, 1], 0.5 + X[:, 3]) + 0.2 * rng.normal(size=120) > 0
    return X, np.where(inside, "well", "ill")


@pytest.fixture(scope="module", params=MACHINES)
def machine(request, data):
    return MACHINES[request.param](**ASKED).fit(*data)


def certify(machine, data, W=None, tree=True, **changed):
    """The certificate of the same machine with something else."""
    X, y = data[0], np.where(data[1] == machine.inside_label_, 1.0, -1.0)
    W, found = machine.solution_["W"] if W is None else W, machine.solution_
    given = {"max_features": 1, "ridge": 0.1, **changed}
    if isinstance(machine, PLUME):
        return certify_plume_subset(X, y, W, gamma=1.0, tree=found.duals["tree_0"] if tree else None, **given)
    return certify_spla1_subset(X, y, W, positives="all", trees=trees_of(found) if tree else None, **given)


def test_the_features_are_found_and_proven(machine, data):
    assert (machine.W_ != 0).sum(axis=1).tolist() == [1, 1]
    assert machine.features_.tolist() == [1, 3]
    assert machine.score(*data) > 0.9
    found = machine.certificate()
    assert found.claim is Claim.STATIONARY
    assert found.relative_gap < 1e-6
    assert "at most 1 features" in found.program
    assert "search tree" in found.note
    assert found.primal_value == pytest.approx(machine.solution_.objective, rel=1e-9)
    assert found.dual_value == pytest.approx(machine.solution_.bound, rel=1e-5)
    assert machine.solution_.status is Status.CONVERGED


def test_by_the_paper_s_rule_no_choice_is_better_for_the_cells_that_the_faces_were_fitted_to():
    """Each face against the regressions of its cell on every single feature."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 4))
    y = np.minimum(0.6 - X[:, 0], 0.8 - X[:, 1]) + 0.5 * rng.normal(size=60) > 0
    fitted = SPLA1(2, max_features=1, n_init=1, random_state=0).fit(X, y)
    cell, signs, proof = fitted.solution_["assignment"], np.where(y, 1.0, -1.0), fitted.certificate()
    moved = int((cell != fitted.assignment_).sum())
    assert moved > 0
    assert f"{moved} of 60 samples" in proof.note
    assert proof.relative_gap < 1e-9

    def least(own, j):
        one, labels = X[own][:, [j]], signs[own]
        w = solve_logistic(one, labels, np.ones(len(labels)), np.zeros(2), ridge=0.1)["w"]
        return certify_spla1(one, labels, w[None], ridge=0.1).dual_value

    best = sum(min(least(cell == k, j) for j in range(4)) for k in range(2))
    assert proof.primal_value == pytest.approx(best, rel=1e-7)
    assert fitted.solution_.status is Status.CONVERGED


def test_perturbed_points_fail_and_the_root_alone_proves_less(machine, data):
    W = machine.solution_["W"]
    best = certify(machine, data)
    assert best.claim is Claim.STATIONARY
    moved, swapped, more = 1.02 * W, W.copy(), W.copy()
    swapped[:, :-1] = np.roll(W[:, :-1], 1, axis=1)
    more[:, :-1] += 1e-12
    for wrong in (moved, swapped):
        assert certify(machine, data, wrong, tree=False).claim is Claim.SUBOPTIMAL_BY
    assert certify(machine, data, more).claim is Claim.NONE
    root = certify(machine, data, tree=False)
    assert "root alone" in root.note
    assert root.dual_value <= best.dual_value


def test_copies_go_on_and_rules_have_so_many_terms(machine, data):
    X = data[0]
    for again in (machine.without_data(), pickle.loads(pickle.dumps(machine))):
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
    rules = machine.polytope_.rules()
    assert rules.count("x1") == rules.count("x3") == 1
    assert "x0" not in rules


def test_all_features_are_no_limit(data):
    for make in MACHINES.values():
        free = make(n_faces=1).fit(*data)
        for s in (5, 50):
            found = make(n_faces=1, max_features=s).fit(*data)
            assert found.solution_.objective == pytest.approx(free.solution_.objective, rel=1e-7)
            assert found.certificate().is_optimal


@pytest.mark.filterwarnings("ignore:.*(limit|interrupted)")
def test_limits_keep_a_point_and_its_bound(data, monkeypatch):
    X, y = data
    for make in MACHINES.values():
        over = make(**{**ASKED, "time_limit": 1e-6}).fit(X, y)
        assert over.solution_.status is Status.TIME_LIMIT
    usual, calls = few_faces.search_subset, []

    def interrupted(*arguments, **named):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return usual(*arguments, **named)

    monkeypatch.setattr(few_faces, "search_subset", interrupted)
    for make in MACHINES.values():
        calls.clear()
        stopped = make(**ASKED).fit(X, y)
        assert stopped.solution_.status is Status.INTERRUPTED
        assert ((stopped.W_ != 0).sum(axis=1) <= 1).all()
        found = stopped.certificate()
        assert found.claim in (Claim.SUBOPTIMAL_BY, Claim.STATIONARY)
        assert found.dual_value <= found.primal_value


def test_a_tree_of_too_few_nodes_says_what_is_open(data):
    from polyopt.outer.few_faces import solve_few_faces
    from polyopt.outer.plume import PlumeProblem
    from polyopt.outer.plume_few import FewPlume

    X, y = data[0], np.where(data[1] == "well", 1.0, -1.0)
    machine = FewPlume(PlumeProblem(X, y, np.ones(len(y)), 2, gamma=1.0, ridge=1e-3))
    found = solve_few_faces(machine, 2, max_nodes=1, n_init=2, seed=1)
    certificate = certify_plume_subset(
        X, y, found["W"], max_features=2, gamma=1.0, ridge=1e-3, tree=found.duals["tree_0"]
    )
    assert found.status is Status.ITERATION_LIMIT
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert found.bound * (1 - 1e-9) <= certificate.dual_value < found.objective


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_sample_weight_equivalence_on_dense_data,
        estimator_checks.check_fit2d_1feature,
    ],
)
def test_scikit_learns_conventions_hold(check, name):
    check(type(MACHINES[name]()).__name__, MACHINES[name](max_features=1, n_init=1, random_state=0))


@pytest.mark.cases("all")
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"l1": 0.1}, "max_features=2 has no prices or signs"),
        ({"signs": [1, 0, 0, 0, 0]}, "has no prices or signs"),
        ({"solver": "bfgs"}, "max_features=2 needs solver='newton', not 'bfgs'"),
        ({"solver": "exact"}, "not 'exact'"),
        ({"max_features": 0}, "max_features must be an integer of at least 1, or None"),
        ({"max_features": 1.5}, "max_features must be"),
        (
            {"n_faces": 600},
            "max_features takes 3000 weights and biases at most to choose from, not 3600",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(data, name, asked, words):
    with pytest.raises(ValueError, match=words):
        MACHINES[name](**{"max_features": 2, **asked}).fit(*data)
    if name == "plume" and "l1" in asked:
        with pytest.raises(ValueError, match="max_features=2 needs a positive ridge"):
            PLUME(2, max_features=2, ridge=0.0).fit(*data)
