"""Exported models in ONNX Runtime: in float64 the same labels, in float32 those that no rounding decides.

Scores agree to 1e-5 of their scale; in float32 logarithms of coupled probabilities to 1e-2.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
from helpers.commands import run, worked
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from polyopt import PLUME, SPLA1, ConvexPolytopeMachine, Hinges, LogisticPolytopes, OneNormSVM
from polyopt.datasets import load
from polyopt.margin.svm import SVM
from polyopt.methods import METHODS
from polyopt.models import Model, load_model

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def onnxruntime():
    pytest.importorskip("onnx")
    return pytest.importorskip("onnxruntime")


def agrees(onnxruntime, model, given, X):
    """Labels are equal and scores agree, where both see the same samples."""
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    labels, scores = session.run(["label", "scores"], given)
    expected = model.estimator.decision_function(model.transform(X))
    assert labels.tolist() == model.predict(X).tolist()
    assert scores.shape == expected.shape
    scale = np.abs(expected).max()
    assert np.abs(scores - expected).max() <= 1e-5 * scale
    single = onnxruntime.InferenceSession(model.to_onnx("float32").SerializeToString())
    assert [entry.name for entry in single.get_outputs()] == [entry.name for entry in session.get_outputs()]
    real = {entry.type for entry in (*single.get_inputs(), *single.get_outputs()[1:])}
    assert real <= {"tensor(float)", "tensor(string)"}
    rounded = {name: cells.astype("f4") if cells.dtype == float else cells for name, cells in given.items()}
    labels, scores = single.run(["label", "scores"], rounded)
    several = expected if expected.ndim > 1 else np.column_stack([0.0 * expected, expected])
    best, second = -np.sort(-several, axis=1)[:, :2].T
    are_log = expected.ndim > 1 and getattr(model.estimator, "_decides_by_model", False)
    tolerance = (1e-2 if are_log else 1e-5) * scale
    assert np.abs(scores - expected).max() <= tolerance
    assert (labels == model.predict(X))[best - second > tolerance].all()
    return session


def check(onnxruntime, machine, scaler, X, method=""):
    steps = [] if scaler is None else [("scaler", scaler)]
    return agrees(onnxruntime, Model.of(machine, steps, method=method), {"X": X}, X)


def made(name, X, y, **more):
    method = METHODS[name]
    given = {"n_init": 1} if method.has_faces else {}
    given |= {"inside_label": None} if method.tuned == "inside_label" else {}
    return method.make("auto", method.settings_for(X, y, **(given | more))).fit(X, y)


# Of the machines with one kind of graph, one; every method on wdbc.
KINDS = ("svm", "svm-rbf", "one-norm-svm-rbf", "cpm", "spla1", "plume", "logistic")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        *((name, "wdbc") for name in METHODS),
        *((name, data) for name in KINDS for data in ("ionosphere", "sonar")),
    ],
)
def test_two_classes_of_real_data(onnxruntime, name, data):
    found = load(data)
    step = 8 if name.startswith("ce") else 3
    X, y = found.X[::step], found.y[::step]
    scaler = StandardScaler().fit(X)
    more = {"max_iter": 20} if name in ("cpm", "plume", "spla1") else {}
    check(onnxruntime, made(name, scaler.transform(X), y, **more), scaler, found.X)


@pytest.mark.parametrize("name", KINDS)
def test_many_classes_of_real_data(onnxruntime, name):
    """Ten, whose 45 pairs vote; of machines of faces four, whose graphs join as many pairs of any number."""
    X, y = load_digits(n_class=4 if METHODS[name].has_faces else 10, return_X_y=True)
    part = np.concatenate([np.flatnonzero(y == label)[:12] for label in np.unique(y)])
    scaler = StandardScaler().fit(X[part])
    more = {"max_iter": 10} if METHODS[name].has_faces else {}
    check(onnxruntime, made(name, scaler.transform(X[part]), y[part], **more), scaler, X)


@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "rbf", "linear"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_kernel(onnxruntime, kernel, n_classes):
    X, y = load_iris(return_X_y=True)
    kept = y >= 3 - n_classes
    X, y = X[kept][::2], np.array(["a", "b", "c"])[y[kept]][::2]
    machine = OneNormSVM(kernel=kernel, coef0=0.5, degree=2, gamma=0.1).fit(X, y)
    check(onnxruntime, machine, None, X)


@pytest.mark.parametrize("labels", [(False, True), (0.0, 1.0), ("no", "yes"), (-1, 1)])
def test_labels_keep_their_type(onnxruntime, labels):
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], np.array(labels)[y[y > 0] - 1]
    session = check(onnxruntime, SVM(kernel="linear").fit(X, y), None, X)
    kinds = {bool: "bool", float: "double", str: "string", int: "int64"}
    assert session.get_outputs()[0].type == f"tensor({kinds[type(labels[0])]})"


def test_a_sample_on_a_face_is_of_the_first_class(onnxruntime):
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0][:, :2], y[y > 0]
    for inside in (1, 2):
        machine = ConvexPolytopeMachine(1, inside_label=inside, random_state=0).fit(X, y)
        machine.W_, machine.b_ = np.array([[1.0, 0.0]]), np.array([-3.0])
        points = np.array([[3.0, 0.0], [2.0, 5.0], [4.0, 1.0]])
        check(onnxruntime, machine, None, points)
        assert machine.predict(points)[0] == machine.classes_[0]


def test_two_sides_and_votes_of_a_polytope(onnxruntime):
    X, y = load_iris(return_X_y=True)
    for kept in (y > 0, y >= 0):
        machine = ConvexPolytopeMachine(2, inside_label="both", n_init=2, random_state=0).fit(
            X[kept], y[kept]
        )
        check(onnxruntime, machine, None, X)


@pytest.mark.parametrize(
    "machine", [PLUME(decision="polytope"), PLUME(gamma=0.0), SPLA1(), LogisticPolytopes((0, 2))]
)
def test_probabilities_and_polytopes_of_three_classes(onnxruntime, machine):
    X, y = load_iris(return_X_y=True)
    machine.set_params(n_init=1, random_state=0, max_iter=20)
    check(onnxruntime, machine.fit(X, y), None, X)


SCALERS = (MinMaxScaler(), MaxAbsScaler(), RobustScaler())


@pytest.mark.parametrize("scaler", [*SCALERS, StandardScaler(with_mean=False)])
def test_every_scaler(onnxruntime, scaler):
    X, y = load_iris(return_X_y=True)
    scaler.fit(X[::3])
    check(onnxruntime, SVM(kernel="rbf").fit(scaler.transform(X), y), scaler, X)


def table():
    rng = np.random.default_rng(1)
    X = np.empty((60, 4), dtype=object)
    X[:, 0], X[:, 2] = rng.normal(size=60), rng.normal(size=60)
    X[:, 1] = rng.choice(["red", "green"], 60)
    X[:, 3] = rng.choice(["s", "m", "l"], 60)
    return X, (X[:, 0].astype(float) + (X[:, 1] == "red") > 0.5).astype(int)


@pytest.mark.parametrize("gaps", [False, True])
def test_a_pipeline_with_text_and_gaps(onnxruntime, gaps):
    X, y = table()
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    parts = [("numbers", "passthrough", [0, 2]), ("text", encoder, [1, 3])]
    if gaps:
        X[5, 0], X[6, 3] = np.nan, None
        texts = make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), encoder)
        parts = [("numbers", SimpleImputer(strategy="median"), [0, 2]), ("text", texts, [1, 3])]
    prepare = ColumnTransformer(parts, sparse_threshold=0, verbose_feature_names_out=False).fit(X[:40])
    scaler = StandardScaler().fit(prepare.transform(X))
    machine = SVM(kernel="rbf").fit(scaler.transform(prepare.transform(X)), y)
    names = ["p", "the colour", "q", "size"]
    model = Model.of(machine, [("prepare", prepare), ("scaler", scaler)], feature_names=names)
    X[50, 1] = "blue"  # which the fit did not see
    given = {
        name: np.array([["" if value is None else value] for value in X[:, j]], dtype=kind)
        for j, (name, kind) in enumerate(zip(names, (float, object, float, object), strict=True))
    }
    agrees(onnxruntime, model, given, X)


def test_numbers_with_gaps_come_in_as_one_matrix(onnxruntime):
    X, y = load_iris(return_X_y=True)
    X[::7, 1] = np.nan
    fill = SimpleImputer(strategy="median").fit(X)
    prepare = ColumnTransformer([("numbers", fill, [0, 1, 2, 3])]).fit(X)
    for step in (fill, prepare):
        model = Model.of(SVM(kernel="rbf").fit(step.transform(X), y), [("prepare", step)])
        agrees(onnxruntime, model, {"X": X}, X)


def test_hinges_and_indicators_of_gaps_have_a_graph(onnxruntime):
    X, y = load_iris(return_X_y=True)
    X[::7, 1] = np.nan
    fill = SimpleImputer(strategy="median", add_indicator=True).fit(X)
    scaler = StandardScaler().fit(X[~np.isnan(X).any(axis=1)])
    hinges = Hinges(n_knots=3).fit(np.nan_to_num(X))
    for steps, given in (([fill], X), ([hinges], np.nan_to_num(X)), ([scaler, hinges], np.nan_to_num(X))):
        Z = given
        for step in steps:
            Z = step.transform(Z)
        model = Model.of(SVM(kernel="rbf").fit(Z, y), [(f"s{i}", step) for i, step in enumerate(steps)])
        agrees(onnxruntime, model, {"X": given}, given)


def test_what_has_no_graph_is_told(onnxruntime):
    X, y = load_iris(return_X_y=True)
    K = X @ X.T
    for machine, samples, message in (
        (SVM(kernel="precomputed"), K, "fit with the kernel's name"),
        (SVM(kernel=lambda A, B: np.asarray(A @ B.T)), X, "a kernel that is a function has no ONNX graph"),
    ):
        with pytest.raises(ValueError, match=message):
            machine.fit(samples, y).to_onnx()
    step = Normalizer().fit(X)
    with pytest.raises(ValueError, match="has no ONNX graph: the step Normalizer is before the machine"):
        Model.of(SVM(kernel="linear").fit(X, y), [("norm", step)]).to_onnx()
    step = MinMaxScaler(clip=True).fit(X)
    with pytest.raises(ValueError, match=r"has no ONNX graph: .* clips, .*: set clip=False"):
        Model.of(SVM(kernel="linear").fit(X, y), [("scale", step)]).to_onnx()


def test_numbers_that_no_float32_holds_are_told(onnxruntime):
    X, y = load_iris(return_X_y=True)
    machine = SVM(kernel="linear").fit(X[y > 0], y[y > 0])
    machine.coef_[0, 0] = 1e300
    machine.to_onnx()
    with pytest.raises(ValueError, match="too large for float32: export it as float64"):
        machine.to_onnx("float32")
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32', not 'float16'"):
        machine.to_onnx("float16")


def test_outputs_have_the_names_and_the_order_of_skl2onnx(onnxruntime):
    X, y = load_iris(return_X_y=True)
    machine = SPLA1(n_init=1, random_state=0).fit(X[y > 0], y[y > 0])
    for dtype in ("float64", "float32"):
        session = onnxruntime.InferenceSession(machine.to_onnx(dtype).SerializeToString())
        assert [entry.name for entry in session.get_outputs()] == ["label", "probabilities", "scores"]
        _, probabilities, _ = session.run(None, {"X": X.astype(dtype)})
        assert np.abs(probabilities - machine.predict_proba(X)).max() <= 1e-5


def test_the_command_writes_what_the_model_says(onnxruntime, tmp_path):
    path, out = tmp_path / "m.skops", tmp_path / "m.onnx"
    worked("fit", "sonar", "--method", "svm", "--out", path)
    said = worked("export", path, "--out", out)
    assert "float64, opset 19, input X" in said
    assert "float32, opset 19" in worked("export", path, "--out", out, "--dtype", "float32")
    worked("export", path, "--out", out)
    X = load("sonar").X
    labels, _ = onnxruntime.InferenceSession(str(out)).run(None, {"X": X})
    assert labels.tolist() == load_model(path).predict(X).tolist()
    refused = run("export", path, "--out", tmp_path / "no" / "m.onnx")
    assert refused.exit_code == 2
    assert "does not exist" in refused.output


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    X, y = load_iris(return_X_y=True)
    machine = SVM(kernel="linear").fit(X, y)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'polyopt\[onnx\]'"):
        machine.to_onnx()
