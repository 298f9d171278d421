"""HardMarginLossSVM: scikit-learn's conventions, outliers, certificates, copies without data, bad input."""

from __future__ import annotations

import doctest
import pickle

import numpy as np
import pytest
from helpers.conventions import broken_conventions
from sklearn.base import clone

from formulations.samples import two_blobs
from polyopt import SVM, Claim, HardMarginLossSVM
from polyopt.estimators import hard_margin_loss as module
from polyopt.outer import hard_margin_loss as outer
from polyopt.solvers.hard_margin_loss import tree


@pytest.fixture(scope="module")
def points():
    X, y = two_blobs(n=24, m=2, seed=1)
    X[0] = -40.0 * y[0] * np.abs(X).max(axis=0)  # far on the other side
    return X, y


@pytest.fixture(scope="module")
def machine(points):
    return HardMarginLossSVM(2.0, solver="global", random_state=0).fit(*points)


def test_check_estimator_has_no_failure(monkeypatch):
    monkeypatch.setattr(outer, "_DRAWN", 4)
    monkeypatch.setattr(outer, "_ITERATIONS", 1)
    monkeypatch.setattr(outer, "_PRIORS", ())
    monkeypatch.setattr(tree, "_ROUNDS", (2, 2))
    monkeypatch.setattr(tree, "_SHARES", (0.0,))
    assert broken_conventions(HardMarginLossSVM(random_state=0)) == {}


def test_the_example_is_true():
    assert doctest.testmod(module).failed == 0


def test_an_outlier_costs_C_and_no_more(points, machine):
    X, y = points
    assert 0 in machine.given_up_
    assert machine.certificate().claim is Claim.OPTIMAL
    further = X.copy()
    further[0] *= 100.0
    assert clone(machine).fit(further, y).score_ == pytest.approx(machine.score_, rel=1e-6)
    assert machine.score(X[1:], y[1:]) >= SVM(2.0, kernel="linear").fit(X, y).score(X[1:], y[1:])


def test_the_solvers_agree_and_the_quick_one_is_bounded(points, machine):
    quick = clone(machine).set_params(solver="ce").fit(*points)
    found = quick.certificate()
    assert found.primal_value >= machine.certificate().dual_value
    assert found.dual_value <= machine.score_ * (1 + 1e-9)
    assert quick.history_["objective"].is_monotonic_decreasing
    assert set(machine.duals_["state"]) <= {"given up", "on the margin", "beyond the margin"}
    up = machine.duals_["state"] == "given up"
    assert sorted(machine.duals_["sample"][up]) == sorted(machine.given_up_)


def test_a_weight_is_a_repetition(points, machine):
    X, y = points
    weights = np.where(np.arange(len(y)) % 5 == 1, 2, 1)
    weighted = clone(machine).fit(X, y, sample_weight=weights)
    repeated = clone(machine).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.score_ == pytest.approx(repeated.score_, rel=1e-6)


def test_copies_without_data_and_saved_ones_predict(points, machine):
    X, y = points
    light = machine.without_data()
    assert not light.holds_data
    assert (light.decision_function(X) == machine.decision_function(X)).all()
    with pytest.raises(ValueError, match="needs the training data"):
        light.certificate()
    assert (pickle.loads(pickle.dumps(light)).predict(X) == machine.predict(X)).all()
    three = clone(machine).set_params(solver="ce").fit(X, np.arange(len(y)) % 3)
    assert (three.without_data().predict(X) == three.predict(X)).all()
    assert not three.without_data().holds_data


def test_it_is_a_graph_for_other_programs(points, machine):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(machine.to_onnx().SerializeToString())
    labels, scores = session.run(["label", "scores"], {"X": points[0]})
    assert (labels == machine.predict(points[0])).all()
    assert scores == pytest.approx(machine.decision_function(points[0]), abs=1e-9)


def test_without_time_the_cheaper_class_is_given_up(points):
    X, y = points
    with pytest.warns(UserWarning, match="time limit"):
        idle = HardMarginLossSVM(2.0, time_limit=0.0).fit(X, y)
    assert idle.score_ == 2.0 * min((y > 0).sum(), (y < 0).sum())
    assert idle.certificate().claim in (Claim.SUBOPTIMAL_BY, Claim.STATIONARY)


def test_bad_input_is_named(monkeypatch):
    X = np.zeros((4, 1))
    with pytest.raises(ValueError, match="C must be"):
        HardMarginLossSVM(C=-1.0).fit(X, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="solver"):
        HardMarginLossSVM(solver="best").fit(X, [0, 0, 1, 1])
    monkeypatch.setattr(module, "_LARGEST", 3)
    with pytest.raises(ValueError, match="at most 3"):
        HardMarginLossSVM().fit(X, [0, 0, 1, 1])
