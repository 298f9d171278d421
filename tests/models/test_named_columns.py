"""A saved model, a frame in any order, and categories in any spelling: names and meanings decide."""

import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyopt import SVM, ConvexPolytopeMachine
from polyopt.datasets import fit_preparation, read_csv
from polyopt.models import Model, load_model, save_model
from polyopt.models.rules import Rules

pytestmark = pytest.mark.filterwarnings("error::UserWarning")

NAMES = ["height", "weight", "age"]
X = np.random.default_rng(0).normal(size=(90, 3)) * [1.0, 20.0, 5.0]
Y = np.where(X[:, 0] + X[:, 1] / 20.0 > 0.0, "yes", "no")
FRAME = pd.DataFrame(X, columns=NAMES)


def fitted_to_arrays():
    scaler = StandardScaler().fit(X)
    machine = SVM(kernel="linear").fit(scaler.transform(X), Y)
    return Model.of(machine, [("scaler", scaler)], feature_names=NAMES, method="svm")


def fitted_to_frames():
    return Model.of(SVM(kernel="linear").fit(FRAME, Y), method="svm")


def fitted_to_columns():
    columns = make_column_transformer((StandardScaler(), ["age", "height"]), remainder="passthrough")
    machine = ConvexPolytopeMachine(n_faces=2, n_init=1, random_state=0)
    return Model.of(make_pipeline(columns, machine).fit(FRAME, Y))


@pytest.fixture(params=[fitted_to_arrays, fitted_to_frames, fitted_to_columns], scope="module")
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model"
    save_model(request.param(), path)
    return load_model(path)


@pytest.fixture(params=["pandas", "polars"])
def container(request):
    """The type of frames of a package."""
    return pytest.importorskip(request.param).DataFrame


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=["same", "reversed", "turned"])
def test_columns_are_found_by_name(model, container, order):
    """Labels do not depend on the order of a frame's columns, and equal those of the plain array."""
    frame = container({NAMES[j]: X[:, j] for j in order})
    assert (model.predict(frame) == model.predict(X)).all()


def test_wrong_columns_are_named(model, container):
    """Missing and additional columns are refused, each by name."""
    frame = container({"height": X[:, 0], "age": X[:, 2], "shoe": X[:, 1]})
    with pytest.raises(ValueError, match="X lacks the column 'weight' and has a column 'shoe'"):
        model.predict(frame)


def test_two_columns_of_one_name_are_refused(model):
    """A name that two columns have is refused."""
    with pytest.raises(ValueError, match="X has two columns named 'weight'"):
        model.predict(FRAME.set_axis(["height", "weight", "weight"], axis=1))


# -- categories --------------------------------------------------------------------------------

RNG = np.random.default_rng(1)
SIZE, IS_IN, GRADE = RNG.normal(size=200), RNG.random(200) < 0.5, RNG.integers(1, 4, 200)
TRUTHS = {
    "bool": IS_IN,
    "int": IS_IN.astype(int),
    "float": IS_IN.astype(float),
    "object": IS_IN.astype(object),
    "nullable": pd.array(IS_IN, dtype="boolean"),
    "category": pd.Categorical(IS_IN),
    "lower": np.where(IS_IN, "true", "false"),
    "title": np.where(IS_IN, "True", "False"),
    "upper": np.where(IS_IN, "TRUE", "FALSE"),
    "digits": np.where(IS_IN, "1", "0"),
}
GRADES = {
    "int": GRADE,
    "float": GRADE.astype(float),
    "text": GRADE.astype(str),
    "object": GRADE.astype(object),
    "category": pd.Categorical(GRADE),
    "gaps": pd.array(GRADE, dtype="Int64"),
}


def spelled(truth, grade):
    return pd.DataFrame({"size": SIZE, "is_in": TRUTHS[truth], "grade": GRADES[grade]})


@pytest.fixture(scope="module")
def categorical(tmp_path_factory):
    """A model of a file with truths and grades as categories."""
    path = tmp_path_factory.mktemp("table") / "table.csv"
    labels = np.where(SIZE + 2 * IS_IN + 2 * (GRADE == 2) > 1.5, "yes", "no")
    spelled("lower", "int").assign(label=labels).to_csv(path, index=False)
    found = read_csv(path, categorical=["is_in", "grade"])
    prepared, preparation = fit_preparation(found)
    machine = ConvexPolytopeMachine(n_faces=2, n_init=1, random_state=0).fit(prepared.X, prepared.y)
    names = found.feature_names
    return Model.of(machine, [("prepare", preparation)], feature_names=names, target="label", method="cpm")


@pytest.mark.parametrize("truth", TRUTHS)
@pytest.mark.parametrize("grade", GRADES)
def test_categories_are_read_in_any_spelling(categorical, truth, grade):
    """Truths and grades of any type have the labels of those of the file."""
    expected = categorical.predict(spelled("lower", "int"))
    assert (categorical.predict(spelled(truth, grade)) == expected).all()


SQL_TYPES = [("bool", "int"), ("int", "float"), ("title", "text"), ("lower", "int")]


@pytest.mark.parametrize(("truth", "grade"), SQL_TYPES)
def test_sql_reads_categories_as_the_model(categorical, truth, grade):
    """SQL gives the model's labels, whatever the types of truths and numeric categories."""
    frame, text = spelled(truth, grade), Rules.of(categorical).to_sql()
    with sqlite3.connect(":memory:") as database:
        frame.to_sql("samples", database, index=False)
        labels = [label for (label,) in database.execute(f"SELECT {text} FROM samples")]
    assert labels == categorical.predict(frame).tolist()


@pytest.mark.parametrize("truth", TRUTHS)
def test_graph_reads_truths_as_the_model(categorical, truth):
    """The ONNX graph gives the model's labels for truths as texts in any spelling."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(categorical.to_onnx().SerializeToString())
    frame = spelled(truth, "text")
    texts = {name: frame[[name]].astype(str).to_numpy(dtype=object) for name in ("is_in", "grade")}
    labels = session.run(None, {"size": frame[["size"]].to_numpy(), **texts})[0]
    assert (labels == categorical.predict(spelled("bool", "int"))).all()
