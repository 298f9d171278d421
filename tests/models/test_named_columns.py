"""A saved model, a frame in any order, and categories in any spelling: names and meanings decide."""

from __future__ import annotations

import sqlite3
import warnings

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyopt import SVM, ConvexPolytopeMachine
from polyopt.datasets import fit_preparation, read_csv
from polyopt.models import Model, load_model, save_model
from polyopt.models.rules import Rules

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAMES = ["height", "weight", "age"]
CONTAINERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)) * [1.0, 20.0, 5.0]
    return X, np.where(X[:, 0] + X[:, 1] / 20.0 > 0.0, "yes", "no")


def fitted_to_arrays(X, y):
    scaler = StandardScaler().fit(X)
    machine = SVM(kernel="linear").fit(scaler.transform(X), y)
    return Model.of(machine, [("scaler", scaler)], feature_names=NAMES, method="svm")


def fitted_to_frames(X, y):
    frame = pd.DataFrame(X, columns=NAMES)
    return Model.of(SVM(kernel="linear").fit(frame, y), method="svm")


def fitted_to_columns(X, y):
    frame = pd.DataFrame(X, columns=NAMES)
    columns = make_column_transformer((StandardScaler(), ["age", "height"]), remainder="passthrough")
    machine = ConvexPolytopeMachine(n_faces=2, random_state=0)
    return Model.of(make_pipeline(columns, machine).fit(frame, y))


@pytest.fixture(params=[fitted_to_arrays, fitted_to_frames, fitted_to_columns])
def model(request, samples, tmp_path):
    save_model(request.param(*samples), tmp_path / "model")
    return load_model(tmp_path / "model")


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=["same", "reversed", "turned"])
def test_a_model_finds_columns_by_name(model, samples, container, order):
    """Labels do not depend on the order of a frame's columns, and equal those of the plain array."""
    X, _ = samples
    frame = CONTAINERS[container]({NAMES[j]: X[:, j] for j in order})
    assert (model.predict(frame) == model.predict(X)).all()


@pytest.mark.parametrize("container", CONTAINERS)
def test_wrong_columns_are_named(model, samples, container):
    """Missing and additional columns are refused, each by name."""
    X, _ = samples
    frame = CONTAINERS[container]({"height": X[:, 0], "age": X[:, 2], "shoe": X[:, 1]})
    with pytest.raises(ValueError, match="X lacks the column 'weight' and has a column 'shoe'"):
        model.predict(frame)


def test_two_columns_of_one_name_are_named(model, samples):
    """A name that two columns have is refused."""
    frame = pd.DataFrame(samples[0], columns=["height", "weight", "weight"])
    with pytest.raises(ValueError, match="X has two columns named 'weight'"):
        model.predict(frame)


# -- categories ------------------------------------------------------------------------------------

TRUTHS = {
    "bool": lambda is_in: is_in,
    "int": lambda is_in: is_in.astype(int),
    "float": lambda is_in: is_in.astype(float),
    "object": lambda is_in: is_in.astype(object),
    "nullable": lambda is_in: pd.array(is_in, dtype="boolean"),
    "category": lambda is_in: pd.Categorical(is_in),
    "lower": lambda is_in: np.where(is_in, "true", "false"),
    "title": lambda is_in: np.where(is_in, "True", "False"),
    "upper": lambda is_in: np.where(is_in, "TRUE", "FALSE"),
    "digits": lambda is_in: np.where(is_in, "1", "0"),
}
GRADES = {
    "int": lambda grade: grade,
    "float": lambda grade: grade.astype(float),
    "text": lambda grade: grade.astype(str),
    "object": lambda grade: grade.astype(object),
    "category": lambda grade: pd.Categorical(grade),
    "gaps": lambda grade: pd.array(grade, dtype="Int64"),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    is_in, grade = rng.random(200) < 0.5, rng.integers(1, 4, 200)
    size = rng.normal(size=200)
    return size, is_in, grade, np.where(size + 2 * is_in + 2 * (grade == 2) > 1.5, "yes", "no")


def spelled(table, truth, grade):
    return pd.DataFrame(
        {"size": table[0], "is_in": TRUTHS[truth](table[1]), "grade": GRADES[grade](table[2])}
    )


def from_a_file(table, tmp_path):
    frame = spelled(table, "lower", "int").assign(label=table[3])
    frame.to_csv(tmp_path / "table.csv", index=False)
    found = read_csv(tmp_path / "table.csv", categorical=["is_in", "grade"])
    prepared, preparation = fit_preparation(found)
    machine = ConvexPolytopeMachine(n_faces=2, random_state=0).fit(prepared.X, prepared.y)
    return Model.of(
        machine, [("prepare", preparation)], feature_names=found.feature_names, target="label", method="cpm"
    )


def test_exported_code_reads_categories_as_the_model(table, tmp_path):
    """SQL gives the model's labels, whatever the types of truths and numeric categories."""
    model = from_a_file(table, tmp_path)
    wanted = model.predict(spelled(table, "bool", "int"))
    rules = Rules.of(model)
    for truth, grade in (("bool", "int"), ("int", "float"), ("title", "text"), ("lower", "int")):
        frame = spelled(table, truth, grade)
        assert (model.predict(frame) == wanted).all()
        with sqlite3.connect(":memory:") as database:
            frame.to_sql("samples", database, index=False)
            labels = [label for (label,) in database.execute(f"SELECT {rules.to_sql()} FROM samples")]
        assert labels == wanted.tolist()


def test_a_graph_reads_truths_as_the_model(table, tmp_path):
    """The ONNX graph gives the model's labels for truths as texts in any spelling."""
    onnxruntime = pytest.importorskip("onnxruntime")
    model = from_a_file(table, tmp_path)
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    wanted = model.predict(spelled(table, "bool", "int"))
    for truth in TRUTHS:
        frame = spelled(table, truth, "text")
        texts = {name: frame[[name]].astype(str).to_numpy(dtype=object) for name in ("is_in", "grade")}
        assert (session.run(None, {"size": frame[["size"]].to_numpy(), **texts})[0] == wanted).all()
