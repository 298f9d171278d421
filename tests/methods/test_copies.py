"""Every method: copies, pickles, model files, ONNX graphs and refits answer as the machine does."""

import pickle
from copy import copy

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import CASES, DATA, NAMES, Samples, fit, fitted, usual
from sklearn.base import clone

from polyopt import sensitivities
from polyopt.models import Model, load_model, save_model

by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_name = pytest.mark.parametrize("name", NAMES)
by_data = pytest.mark.parametrize("data", DATA)


def assert_equal_answers(found, machine, X):
    """Labels, scores and probabilities are the same to the last bit."""
    assert found.predict(X).tolist() == machine.predict(X).tolist()
    assert np.array_equal(found.decision_function(X), machine.decision_function(X))
    if hasattr(machine, "predict_proba"):
        assert np.array_equal(found.predict_proba(X), machine.predict_proba(X))


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
    machine = fit(copy(fitted(case, "three classes")), DATA["sparse"])
    fresh, X = fitted(case, "sparse"), DATA["sparse"].X
    assert_equal_answers(machine, fresh, X)
    assert sorted(vars(machine)) == sorted(vars(fresh))
    assert machine.certificate() == fresh.certificate()


@by_name
@pytest.mark.parametrize("data", ["overlapping", "three classes", "sparse"])
def test_model_file(name, data, tmp_path):
    """A saved model comes back with its answers, with the data of its fit and without."""
    machine, X = fitted(usual(name), data), DATA[data].X
    model = Model.of(machine, method=name)
    for each in (model, model.without_data()):
        save_model(each, tmp_path / "model.skops")
        assert_equal_answers(load_model(tmp_path / "model.skops").estimator, machine, X)


@by_name
@pytest.mark.parametrize("data", ["overlapping", "three classes"])
def test_copy_without_data(name, data):
    """A copy without its data answers, says what it lacks, can be fitted, and leaves the machine whole."""
    machine, X = fitted(usual(name), data), DATA[data].X
    before = machine.certificate()
    light = machine.without_data()
    for again in (light, light.without_data(), pickle.loads(pickle.dumps(light))):
        assert_equal_answers(again, machine, X)
        assert not again.holds_data
    for ask in (light.certificate, lambda: light.duals_, lambda: sensitivities(light)):
        with pytest.raises(ValueError, match=r"needs the training data.*--keep-data"):
            ask()
    assert machine.holds_data
    assert machine.certificate() == before
    assert_equal_answers(fit(light, DATA[data]), machine, X)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sigma-svm-rbf"])  # which needs all
def test_copy_holds_support_vectors_alone(name):
    """The bytes of a copy without data have a sample only if its kernel is evaluated there."""
    machine, X = fitted(usual(name)), DATA["overlapping"].X
    kept = machine.support_ if "rbf" in name else []
    light = pickle.dumps(machine.without_data())
    assert [row for row in range(len(X)) if X[row].tobytes() in light] == sorted(kept)


FAILURES = {
    "one class": lambda X, y: (X, np.zeros(len(y))),
    "a gap": lambda X, y: (np.where(X == X.max(), np.nan, X), y),
    "lengths": lambda X, y: (X[:, :1], y[:-1]),
}


@by_name
@pytest.mark.parametrize("spoil", FAILURES.values(), ids=FAILURES)
def test_failed_fit_changes_nothing(name, spoil):
    """Every attribute of a fitted machine stays, and a new machine is as new."""
    samples = DATA["overlapping"]
    for machine in (usual(name).make(), fitted(usual(name))):
        before = dict(vars(machine))
        with pytest.raises(ValueError, match=r"."):
            machine.fit(*spoil(samples.X, samples.y))
        assert vars(machine) == before


@by_name
@pytest.mark.parametrize("data", ["overlapping", "sparse"])
def test_changed_data_change_nothing(name, data):
    """A machine does not depend on what happens to its data after the fit."""
    X, y = DATA[data].X.copy(), DATA[data].y.copy()
    machine = fit(usual(name).make(), Samples(X, y))
    X *= 0.0
    y *= -1.0
    assert machine.certificate() == fitted(usual(name), data).certificate()


@by_name
@pytest.mark.parametrize("data", ["overlapping", "three classes"])
def test_machine_in_read_only_memory(name, data, tmp_path):
    """A machine that joblib maps from a file answers, proves, is copied, and is fitted again."""
    machine, X = fitted(usual(name), data), DATA[data].X
    joblib.dump(machine, tmp_path / "machine")
    mapped = joblib.load(tmp_path / "machine", mmap_mode="r")
    assert mapped.certificate() == machine.certificate()
    assert mapped.duals_.equals(machine.duals_)
    for each in (mapped, mapped.without_data(), fit(mapped, DATA[data])):
        assert_equal_answers(each, machine, X)


@by_name
@by_data
@pytest.mark.parametrize(("dtype", "accuracy"), [("float64", 1e-9), ("float32", 1e-5)])
def test_onnx(name, data, dtype, accuracy):
    """The graph has the machine's scores and probabilities, and its labels but for scores near 0."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    machine, X = fitted(usual(name), data), DATA[data].X
    session = runtime.InferenceSession(machine.to_onnx(dtype).SerializeToString())
    samples = (X.toarray() if sp.issparse(X) else X).astype(dtype)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, {"X": samples}), strict=True))
    expected = machine.decision_function(X)
    if hasattr(machine, "predict_proba"):
        assert found["probabilities"] == pytest.approx(machine.predict_proba(X), abs=accuracy)
        accuracy *= 1e3 if expected.ndim > 1 and dtype == "float32" else 1.0  # logarithms of probabilities
    room = accuracy * (1.0 + np.abs(expected).max())
    assert found["scores"].reshape(expected.shape) == pytest.approx(expected, abs=room)
    several = expected if expected.ndim > 1 else np.column_stack([np.zeros(len(expected)), expected])
    second, best = np.sort(several, axis=1)[:, -2:].T
    assert (found["label"] == machine.predict(X))[best - second > room].all()
