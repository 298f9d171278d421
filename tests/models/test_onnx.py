"""Graphs of models in ONNX Runtime: in float64 the same labels, in float32 those that no rounding decides.

``tests/methods`` exports every method; here are the votes of many classes, kernels, steps and refusals.
"""

import sys

import numpy as np
import pytest
from helpers.commands import run, worked
from helpers.methods import Case
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

from polyopt import PLUME, SPLA1, SVM, ConvexPolytopeMachine, Hinges, LogisticPolytopes, OneNormSVM
from polyopt.datasets import load
from polyopt.models import Model, load_model

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore")

IRIS, CODES = load_iris(return_X_y=True)
GAPS = np.where((np.arange(150)[:, None] % 7 == 0) & (np.arange(4) == 1), np.nan, IRIS)


def assert_graph_agrees(estimator, X, given=None, names=None, logarithmic=False):
    """Both graphs of an estimator have its scores; labels agree, in float32 unless rounding decides them.

    Scores agree to 1e-5 of their scale, logarithms of probabilities in float32 to 1e-2.
    """
    model, given = Model.of(estimator, feature_names=names), given or {"X": X}
    expected, predicted = model.estimator.decision_function(model.transform(X)), model.predict(X)
    scale = np.abs(expected).max()
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    labels, scores = session.run(["label", "scores"], given)
    assert labels.tolist() == predicted.tolist()
    assert scores == pytest.approx(expected, abs=1e-5 * scale)

    single = onnxruntime.InferenceSession(model.to_onnx("float32").SerializeToString())
    assert [each.name for each in single.get_outputs()] == [each.name for each in session.get_outputs()]
    kinds = {each.type for each in (*single.get_inputs(), *single.get_outputs()[1:])}
    assert kinds <= {"tensor(float)", "tensor(string)"}
    rounded = {name: cells.astype("f4") if cells.dtype == float else cells for name, cells in given.items()}
    labels, scores = single.run(["label", "scores"], rounded)
    room = (1e-2 if logarithmic else 1e-5) * scale
    assert scores == pytest.approx(expected, abs=room)
    several = expected if expected.ndim > 1 else np.column_stack([np.zeros(len(expected)), expected])
    second, best = np.sort(several, axis=1)[:, -2:].T
    assert (labels == predicted)[best - second > room].all()
    return session


# Of methods with one kind of graph, one; of machines with faces only four classes, as fits take longer.
VOTES = {
    **dict.fromkeys(["svm", "svm-rbf", "one-norm-svm-rbf"], 10),
    **dict.fromkeys(["cpm", "spla1", "plume", "logistic"], 4),
}


@pytest.mark.parametrize(("name", "n_classes"), VOTES.items(), ids=VOTES)
def test_votes_of_many_classes(name, n_classes):
    """The pairs of ten classes of digits, or four, vote in a graph as in the machine."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    part = np.concatenate([np.flatnonzero(y == label)[:12] for label in np.unique(y)])
    machine = Case(name, "auto").make()
    if "max_iter" in machine.get_params() and n_classes == 4:
        machine.set_params(max_iter=10)
    pipeline = make_pipeline(StandardScaler(), machine).fit(X[part], y[part])
    assert_graph_agrees(pipeline, X, logarithmic=name in ("spla1", "plume", "logistic"))


@pytest.mark.parametrize("kernel", ["poly", "sigmoid", "rbf", "linear"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_kernels(kernel, n_classes):
    """Every kernel is a graph, of two classes and of three, with texts as labels."""
    kept = CODES >= 3 - n_classes
    X, y = IRIS[kept][::2], np.array(["a", "b", "c"])[CODES[kept]][::2]
    assert_graph_agrees(OneNormSVM(kernel=kernel, coef0=0.5, degree=2, gamma=0.1).fit(X, y), X)


@pytest.mark.parametrize(
    ("labels", "kind"),
    [((False, True), "bool"), ((0.0, 1.0), "double"), (("no", "yes"), "string"), ((-1, 1), "int64")],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_labels_keep_their_type(labels, kind):
    """The graph's labels are of the type that the fit's labels had."""
    X, y = IRIS[CODES > 0], np.array(labels)[CODES[CODES > 0] - 1]
    session = assert_graph_agrees(SVM(kernel="linear").fit(X, y), X)
    assert session.get_outputs()[0].type == f"tensor({kind})"


MACHINES = {
    "both sides": (ConvexPolytopeMachine(2, inside_label="both"), False),
    "polytope of a mixture": (PLUME(decision="polytope"), False),
    "mixture": (PLUME(gamma=0.0), True),
    "cells": (SPLA1(), True),
    "logistic": (LogisticPolytopes((0, 2)), True),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(("machine", "logarithmic"), MACHINES.values(), ids=MACHINES)
def test_polytopes_and_probabilities(machine, logarithmic, n_classes):
    """Differences of polytopes, mixtures and posteriors have their graphs."""
    X, y = IRIS[CODES >= 3 - n_classes], CODES[CODES >= 3 - n_classes]
    machine.set_params(n_init=1, random_state=0, max_iter=20).fit(X, y)
    assert_graph_agrees(machine, X, logarithmic=logarithmic and n_classes == 3)


SCALERS = [MinMaxScaler(), MaxAbsScaler(), RobustScaler(), StandardScaler(with_mean=False)]


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_scalers(scaler):
    """Every scaler of scikit-learn is a part of the graph."""
    assert_graph_agrees(make_pipeline(scaler, SVM()).fit(IRIS, CODES), IRIS)


FILL = SimpleImputer(strategy="median")
STEPS = {
    "imputer": ([FILL], GAPS),
    "imputer of columns": ([ColumnTransformer([("numbers", FILL, [0, 1, 2, 3])])], GAPS),
    "indicators of gaps": ([SimpleImputer(strategy="median", add_indicator=True)], GAPS),
    "hinges": ([Hinges(n_knots=3)], IRIS),
    "scaler and hinges": ([StandardScaler(), Hinges(n_knots=3)], IRIS),
}


@pytest.mark.parametrize(("steps", "X"), STEPS.values(), ids=STEPS)
def test_steps(steps, X):
    """Numbers with gaps, and hinges, come in as one matrix."""
    assert_graph_agrees(make_pipeline(*steps, SVM()).fit(X, CODES), X)


@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "with gaps"])
def test_texts_come_in_by_column(gaps):
    """Each column of a table with texts is an input; unseen texts and gaps are read as in the model."""
    rng = np.random.default_rng(1)
    numbers, X = rng.normal(size=(60, 2)), np.empty((60, 4), dtype=object)
    X[:, [0, 2]] = numbers
    X[:, 1], X[:, 3] = rng.choice(["red", "green"], 60), rng.choice(["s", "m", "l"], 60)
    y = (numbers[:, 0] + (X[:, 1] == "red") > 0.5).astype(int)
    read, encoder = "passthrough", OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    if gaps:
        X[5, 0], X[6, 3] = np.nan, None
        fill = SimpleImputer(strategy="most_frequent", missing_values=None)
        read, encoder = SimpleImputer(strategy="median"), make_pipeline(fill, encoder)
    parts = [("numbers", read, [0, 2]), ("texts", encoder, [1, 3])]
    prepare = ColumnTransformer(parts, sparse_threshold=0, verbose_feature_names_out=False)
    pipeline = make_pipeline(prepare, StandardScaler(), SVM()).fit(X, y)
    X[50, 1] = "blue"  # not among the texts of the fit
    names = ["p", "the colour", "q", "size"]
    given = {
        name: np.array([["" if value is None else value] for value in X[:, j]], dtype=kind)
        for j, (name, kind) in enumerate(zip(names, (float, object, float, object), strict=True))
    }
    assert_graph_agrees(pipeline, X, given, names)


@pytest.mark.parametrize("inside", [1, 2])
def test_tie_is_of_first_class(inside):
    """A sample on a face is of classes_[0] in the graph as in the machine."""
    X, y = IRIS[CODES > 0][:, :2], CODES[CODES > 0]
    machine = ConvexPolytopeMachine(1, inside_label=inside, random_state=0).fit(X, y)
    machine.W_, machine.b_ = np.array([[1.0, 0.0]]), np.array([-3.0])
    points = np.array([[3.0, 0.0], [2.0, 5.0], [4.0, 1.0]])
    assert_graph_agrees(machine, points)
    assert machine.predict(points)[0] == machine.classes_[0]


REFUSED = {
    "Gram matrix": (SVM(kernel="precomputed"), IRIS @ IRIS.T, "fit with the kernel's name"),
    "kernel function": (SVM(kernel=lambda A, B: A @ B.T), IRIS, "a kernel that is a function has no ONNX"),
    "step": (
        make_pipeline(Normalizer(), SVM()),
        IRIS,
        "has no ONNX graph: the step Normalizer is before the machine",
    ),
    "clipping": (make_pipeline(MinMaxScaler(clip=True), SVM()), IRIS, "clips, .*: set clip=False"),
}


@pytest.mark.parametrize(("estimator", "X", "sentence"), REFUSED.values(), ids=REFUSED)
def test_model_without_graph_says_so(estimator, X, sentence):
    """What ONNX has no operator for is refused with the remedy."""
    with pytest.raises(ValueError, match=sentence):
        Model.of(estimator.fit(X, CODES)).to_onnx()


def test_numbers_beyond_float32_are_refused():
    """A coefficient that float32 does not hold is refused in float32 alone; other types are unknown."""
    machine = SVM(kernel="linear").fit(IRIS[CODES > 0], CODES[CODES > 0])
    machine.coef_[0, 0] = 1e300
    machine.to_onnx()
    with pytest.raises(ValueError, match="too large for float32: export it as float64"):
        machine.to_onnx("float32")
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32', not 'float16'"):
        machine.to_onnx("float16")


def test_outputs_have_names_of_skl2onnx():
    """Outputs are in the order of skl2onnx: label, probabilities, and then scores."""
    machine = SPLA1(n_init=1, random_state=0).fit(IRIS[CODES > 0], CODES[CODES > 0])
    outputs = onnxruntime.InferenceSession(machine.to_onnx().SerializeToString()).get_outputs()
    assert [output.name for output in outputs] == ["label", "probabilities", "scores"]


def test_command_writes_graph(tmp_path):
    """``polyopt export`` writes the graph that has the labels of the model's file."""
    path, out = tmp_path / "m.skops", tmp_path / "m.onnx"
    worked("fit", "sonar", "--method", "svm", "--out", path)
    assert "float32, opset 19" in worked("export", path, "--out", out, "--dtype", "float32")
    assert "float64, opset 19, input X" in worked("export", path, "--out", out)
    X = load("sonar").X
    labels, _ = onnxruntime.InferenceSession(str(out)).run(None, {"X": X})
    assert labels.tolist() == load_model(path).predict(X).tolist()
    refused = run("export", path, "--out", tmp_path / "no" / "m.onnx")
    assert refused.exit_code == 2
    assert "does not exist" in refused.output


def test_missing_package_is_named(monkeypatch):
    """Without onnx, a sentence says what to install."""
    machine = SVM(kernel="linear").fit(IRIS, CODES)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ValueError, match=r"pip install 'polyopt\[onnx\]'"):
        machine.to_onnx()
