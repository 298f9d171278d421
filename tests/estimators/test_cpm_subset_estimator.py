"""ConvexPolytopeMachine(max_features=s): its solvers, certificate, multipliers, rules and refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.utils import estimator_checks

from polyopt import Claim, ConvexPolytopeMachine, FacePenalty

CPM = ConvexPolytopeMachine


@pytest.fixture(scope="module")
def data():
    """A strip in two of five features: two faces of one feature each are enough."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5)).astype(np.float32)
    return X, np.where(np.abs(X[:, 1]) > 0.8, "out", "in")


@pytest.fixture(scope="module")
def fitted(data):
    return CPM(
        2, C=2.0, penalty=FacePenalty(max_features=1), inside_label="in", n_init=3, random_state=0
    ).fit(*data)


def test_the_features_are_found_and_proven(data, fitted):
    X, y = data
    assert fitted.solver_ == "exact"
    assert (fitted.W_ != 0).sum(axis=1).tolist() == [1, 1]
    assert fitted.score(X, y) > 0.95
    found = fitted.certificate()
    assert found.claim is Claim.STATIONARY
    assert "at most 1 features" in found.program
    assert fitted.solution_.bound == pytest.approx(found.dual_value, rel=1e-6)


def test_its_multipliers_make_its_faces(data, fitted):
    X = np.c_[data[0], np.ones(len(data[0]))].astype(float)
    frame = fitted.duals_.query("row == 'margin'")
    for k, w in enumerate(fitted.solution_["W"]):
        own = frame[frame["face"] == k]
        y = np.where(own["label"] == "out", 1.0, -1.0)
        v = X[own["sample"]].T @ (own["multiplier"] * y)
        used = np.append(w[:-1] != 0, True)
        assert w[used] == pytest.approx(0.5 * v[used], abs=1e-5)


def test_rules_have_so_many_terms_and_copies_go_on(data, fitted):
    X = data[0]
    assert fitted.polytope_.rules().count("x1") == 2
    light = pickle.loads(pickle.dumps(fitted)).without_data()
    assert (light.predict(X) == fitted.predict(X)).all()
    assert not light.solution_.duals


def test_the_dual_solver_sparse_samples_and_scales_come_to_the_same(data, fitted):
    X, y = data
    value = fitted.solution_.objective
    same = CPM(2, C=2.0, penalty=FacePenalty(max_features=1), inside_label="in", n_init=3, random_state=0)
    thin = same.set_params(solver="dual", sgd__feature_scale=0.5).fit(sp.csr_array(2 * X), y)
    assert thin.solver_ == "dual"
    assert thin.solution_.objective == pytest.approx(value, rel=1e-2)
    assert thin.certificate(1e-3).claim is Claim.STATIONARY


def test_all_features_are_no_limit(data):
    X, y = data
    free = CPM(1, C=0.5, solver="exact").fit(X, y)
    for s in (5, 50):
        found = CPM(1, C=0.5, penalty=FacePenalty(max_features=s)).fit(X, y)
        assert found.solution_.objective == pytest.approx(free.solution_.objective, rel=1e-6)
        assert found.certificate().is_optimal


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_sample_weight_equivalence_on_dense_data,
        estimator_checks.check_fit2d_1feature,
        estimator_checks.check_classifiers_train,
        estimator_checks.check_dict_unchanged,
    ],
)
def test_scikit_learns_conventions_hold(check):
    check("ConvexPolytopeMachine", CPM(2, penalty=FacePenalty(max_features=1), n_init=1))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"solver": "sgd"}, "max_features=2 needs solver='exact' or 'dual', not 'sgd'"),
        ({"solver": "global"}, "not 'global'"),
        ({"loss": "max"}, "needs loss='sum' and margin='total'"),
        ({"penalty__margin": "worst"}, "margin='worst'"),
        ({"sgd__perplexity": 1.5}, "needs perplexity=1"),
        ({"penalty__max_features": 0}, "max_features must be an integer of at least 1, or None"),
        ({"penalty__max_features": 1.5}, "max_features must be"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(data, settings, words):
    with pytest.raises(ValueError, match=words):
        CPM().set_params(**{"penalty__max_features": 2, **settings}).fit(*data)
    if "solver" in settings:
        with pytest.raises(ValueError, match="no max_features"):
            CPM(penalty=FacePenalty(max_features=2)).partial_fit(*data)


@pytest.mark.parametrize(
    "restriction", [{"max_features": 1}, {"integers": 3}], ids=["few features", "integers"]
)
def test_signs_are_kept_by_restricted_faces(data, restriction):
    """A score of the strip's outside may not fall with feature 1: one face with that sign is left of two."""
    X, y = data
    penalty = FacePenalty(signs={1: 1}, **restriction)
    machine = CPM(2, C=2.0, penalty=penalty, inside_label="in", n_init=3, random_state=0).fit(X, y)
    assert (machine.W_[:, 1] >= 0).all()
    assert machine.certificate().claim is not Claim.NONE
    free = CPM(2, C=2.0, penalty=FacePenalty(**restriction), inside_label="in", n_init=3, random_state=0)
    assert machine.solution_.objective > free.fit(X, y).solution_.objective + 1.0
