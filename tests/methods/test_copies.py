"""Every method: copies, pickles, model files, ONNX graphs and refits answer as the machine does."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import CASES, DATA, NAMES, Case, fit, fitted
from sklearn.base import clone

from polyopt.models import Model, load_model, save_model

by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_name = pytest.mark.parametrize("name", NAMES)
by_data = pytest.mark.parametrize("data", DATA)


def assert_equal_answers(found, machine, X):
    """Labels and scores are the same to the last bit."""
    assert found.predict(X).tolist() == machine.predict(X).tolist()
    assert np.array_equal(found.decision_function(X), machine.decision_function(X))


@by_case
def test_clone_and_pickle(case):
    """A clone fitted anew and a pickle have the same bits; the pickle has the certificate as well."""
    machine, samples = fitted(case), DATA["overlapping"]
    assert clone(machine).get_params() == machine.get_params()
    assert_equal_answers(fit(clone(machine), samples), machine, samples.X)
    again = pickle.loads(pickle.dumps(machine))
    assert_equal_answers(again, machine, samples.X)
    assert again.certificate() == machine.certificate()


@by_case
def test_refit_is_fresh_fit(case):
    """Nothing of a fit to other data and three classes is left in a machine that is fitted again."""
    machine = fit(fit(case.make(), DATA["three classes"]), DATA["sparse"])
    fresh, X = fitted(case, "sparse"), DATA["sparse"].X
    assert_equal_answers(machine, fresh, X)
    assert sorted(vars(machine)) == sorted(vars(fresh))
    assert machine.certificate() == fresh.certificate()


@by_name
@by_data
def test_model_file(name, data, tmp_path):
    """A saved model comes back with its answers, with the data of its fit and without."""
    machine, X = fitted(Case(name, "auto"), data), DATA[data].X
    model = Model.of(machine, method=name)
    for each in (model, model.without_data()):
        save_model(each, tmp_path / "model.skops")
        assert_equal_answers(load_model(tmp_path / "model.skops").estimator, machine, X)


@by_name
@by_data
def test_onnx(name, data):
    """The exported graph has the machine's scores, and its labels where no score is 0 up to rounding."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    machine, X = fitted(Case(name, "auto"), data), DATA[data].X
    session = runtime.InferenceSession(machine.to_onnx().SerializeToString())
    labels, scores = session.run(["label", "scores"], {"X": X.toarray() if sp.issparse(X) else X})
    expected = machine.decision_function(X)
    room = 1e-9 * (1.0 + np.abs(expected).max())
    assert scores.reshape(expected.shape) == pytest.approx(expected, abs=room)
    is_clear = (np.abs(expected.reshape(len(labels), -1)) > room).all(axis=1)
    assert (labels == machine.predict(X))[is_clear].all()
