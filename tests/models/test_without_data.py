"""A classifier without its training data answers as before, and says what it lacks."""

from __future__ import annotations

import pickle
from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from polyopt import ConvexPolytopeMachine
from polyopt.margin.svm import SVM
from polyopt.methods import METHODS
from polyopt.sensitivity import sensitivities

pytestmark = pytest.mark.filterwarnings("ignore")


def samples(n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[::2], y[::2]
    kept = y >= 3 - n_classes
    return X[kept], y[kept]


def fitted(name, X, y):
    method = METHODS[name]
    more = {"inside_label": None} if method.tuned == "inside_label" else {}
    more |= {"n_init": 1} if method.has_faces else {}
    return method.make("auto", method.settings_for(X, y, **more)).fit(X, y)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_the_same_bit_for_bit(name, n_classes):
    X, y = samples(n_classes)
    machine = fitted(name, X, y)
    before = copy(machine).certificate()
    light = machine.without_data()
    for again in (light, light.without_data(), pickle.loads(pickle.dumps(light))):
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
        np.testing.assert_array_equal(again.predict(X), machine.predict(X))
    assert machine.holds_data
    assert not light.holds_data
    for ask in (light.certificate, lambda: light.duals_, lambda: sensitivities(light)):
        with pytest.raises(ValueError, match=r"needs the training data.*--keep-data"):
            ask()
    assert machine.certificate() == before  # the whole one is as it was


@pytest.mark.parametrize("name", METHODS)
def test_no_sample_but_support_vectors_is_kept(name):
    """Every array of the copy that has a row per sample, or a sample's own numbers, would show here."""
    X, y = samples(2)
    machine = fitted(name, X, y)
    light = pickle.dumps(machine.without_data())
    support = getattr(machine, "_support", None)
    used = set()
    if support is not None and "rbf" in name:
        used = set(support()[0].tolist())
    for row, sample in enumerate(X):
        assert (sample.tobytes() in light) == (row in used) or tuple(sample) in {tuple(X[j]) for j in used}


def test_sparse_and_single_samples_stay_as_they_are():
    X, y = samples(3)
    for given in (sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), X.astype(np.float32)):
        machine = SVM(kernel="rbf").fit(given, y)
        light = machine.without_data()
        np.testing.assert_array_equal(light.decision_function(given), machine.decision_function(given))
        assert light.estimators_[0]._X.dtype == given.dtype
        assert all(part._X is light.estimators_[0]._X for part in light.estimators_)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_gram_matrix_is_read_at_its_support(n_classes):
    X, y = samples(n_classes)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    machine = SVM(kernel="precomputed").fit(K, y)
    light = machine.without_data()
    np.testing.assert_array_equal(light.decision_function(K), machine.decision_function(K))
    assert len(pickle.dumps(light)) < 0.5 * len(pickle.dumps(machine))


def test_two_sides_keep_both():
    X, y = samples(2)
    machine = ConvexPolytopeMachine(2, inside_label="both", random_state=0).fit(X, y)
    light = machine.without_data()
    np.testing.assert_array_equal(light.decision_function(X), machine.decision_function(X))
    assert not light.holds_data
    for whole, part in zip(machine.sides_, light.sides_, strict=True):
        assert part.polytope_.rules(max_terms=2) == whole.polytope_.rules(max_terms=2)


def test_parameters_set_after_the_fit_change_no_answer():
    X, y = samples(3)
    machine = SVM(kernel="rbf", gamma=0.3).fit(X, y)
    expected = machine.decision_function(X)
    machine.set_params(kernel="linear", C=9.0)
    light = machine.without_data()
    np.testing.assert_array_equal(light.decision_function(X), expected)
    assert light.kernel == "linear"


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_copy_can_be_fitted_again(kernel):
    X, y = samples(3)
    machine = SVM(kernel=kernel).fit(X, y)
    again = machine.without_data().fit(X, y)
    assert again.holds_data
    assert again.certificate().claim is machine.certificate().claim
    np.testing.assert_array_equal(again.predict(X), machine.predict(X))
