"""What is saved can be loaded: the same answers, or a sentence and the old file untouched."""

from __future__ import annotations

import csv
import io
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.commands import run
from helpers.sql import labels_by_sql
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, SplineTransformer, StandardScaler

from polyopt import (
    SVM,
    ConvexPolytopeMachine,
    Hinges,
    LogisticPolytopes,
    LogisticSearch,
    Model,
    OneNormSVM,
    load_model,
    save_model,
)
from polyopt.methods import METHODS
from polyopt.models.rules import Rules

SPARSE = [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix]
METHOD_NAMES = [name for name, method in METHODS.items() if method.home.startswith("polyopt.")]


def samples(n_classes=2):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(40, 3))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=40), [0.0] if n_classes == 2 else [-0.4, 0.4])


def fitted(machine, X, y, steps=()):
    """A model of a machine after some steps."""
    for _, step in steps:
        X = step.fit_transform(X, y)
    return Model.of(machine.fit(X, y), steps)


def assert_comes_back(model, X, path):
    """Saved with and without the training data, it predicts the same."""
    for each in (model, model.without_data()):
        save_model(each, path)
        assert (load_model(path).predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("container", SPARSE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "machine", [SVM(), OneNormSVM(), ConvexPolytopeMachine(n_init=1, random_state=0)], ids=repr
)
def test_models_of_sparse_data_come_back(machine, n_classes, container, tmp_path):
    """Whatever container the fit had."""
    X, y = samples(n_classes)
    X = container(np.where(np.abs(X) < 0.5, 0.0, X))
    assert_comes_back(fitted(machine, X, y, [("scale", MaxAbsScaler())]), X, tmp_path / "m.skops")


@pytest.mark.parametrize("step", [Hinges(), StandardScaler()], ids=repr)
def test_models_with_steps_of_ours_come_back(step, tmp_path):
    """Hinges are data, as scalers are."""
    X, y = samples()
    machine = LogisticPolytopes(n_init=1, random_state=0)
    assert_comes_back(fitted(machine, X, y, [("step", step)]), X, tmp_path / "m.skops")


def product(A, B):
    return A @ B.T


def double(X):
    return 2.0 * X


UNSAVABLE = [
    pytest.param(SVM(kernel=product), (), "product", id="kernel function"),
    pytest.param(SVM(kernel=lambda A, B: A @ B.T), (), "<lambda>", id="lambda"),
    pytest.param(SVM(), [("step", FunctionTransformer(double))], "double", id="function in a step"),
    pytest.param(SVM(), [("step", SplineTransformer())], "BSpline", id="object of another package"),
]


@pytest.mark.parametrize(("machine", "steps", "named"), UNSAVABLE)
def test_what_cannot_be_saved_is_named(machine, steps, named, tmp_path):
    """One sentence with the object, and the file that was there stays; without one there is none."""
    X, y = samples()
    path, new = tmp_path / "m.skops", tmp_path / "new.skops"
    save_model(fitted(SVM(), X, y), path)
    before = path.read_bytes()
    model = fitted(machine, X, y, steps)
    for target in (path, new):
        with pytest.raises(ValueError, match=rf"cannot be saved.*{named}") as refused:
            save_model(model, target)
        assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.skops"]


@pytest.mark.parametrize("method", ["svn", "cpm"], ids=["unknown", "of another machine"])
def test_a_wrong_method_cannot_be_saved(method, tmp_path):
    """A method that there is not, or that is not the machine's."""
    X, y = samples()
    with pytest.raises(ValueError, match="cannot be saved"):
        save_model(Model.of(SVM().fit(X, y), method=method), tmp_path / "m.skops")
    assert not list(tmp_path.iterdir())


def test_a_machine_that_is_not_fitted_cannot_be_saved(tmp_path):
    """As load_model would refuse it."""
    with pytest.raises(ValueError, match=r"cannot be saved.*not fitted"):
        save_model(Model.of(SVM()), tmp_path / "m.skops")


def test_paths_may_be_texts(tmp_path, monkeypatch):
    """A name in the working folder is enough."""
    monkeypatch.chdir(tmp_path)
    X, y = samples()
    model = fitted(SVM(), X, y)
    save_model(model, "m.skops")
    assert (load_model("m.skops").predict(X) == model.predict(X)).all()
    with pytest.raises(FileNotFoundError, match=r"no model file 'other\.skops'"):
        load_model("other.skops")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("machine", [SVM(kernel="linear"), SVM()], ids=repr)
def test_labels_beyond_unicode_are_refused(machine, order, tmp_path):
    """An array of texts with an invalid code point is a sentence at load, and not a crash at predict."""
    X, y = samples()
    whole, spoilt = tmp_path / "m.skops", tmp_path / "spoilt.skops"
    save_model(fitted(machine, X, np.array(["no", "yes"])[y]), whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(spoilt, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(".npy") and (array := np.load(io.BytesIO(content))).dtype.kind == "U":
                points = np.full((len(array), 3), 0x110000, dtype=f"{order}u4")
                made = io.BytesIO()
                np.save(made, np.frombuffer(points.tobytes(), dtype=f"{order}U3"))
                content = made.getvalue()
            new.writestr(name, content)
    with pytest.raises(ValueError, match="is refused: it holds a text with the code point 0x110000"):
        load_model(spoilt)


LABELS = {
    "line break": "two\nlines", "quotes": "it's \"so\"", "backslash": r"a\nb", "tab": "a\tb",
    "unicode": "日本 ü\u2028é", "markup": "[red]{x}%s;,", "escape": "\x1b[31m",
}  # fmt: skip


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_a_label_is_the_same_everywhere(label, tmp_path):
    """In the loaded model, in the command's file, in rules as Python, SQL and JSON, and in ONNX."""
    ort = pytest.importorskip("onnxruntime")
    X, y = samples()
    path, table, out = tmp_path / "m.skops", tmp_path / "t.csv", tmp_path / "labels"
    labels = np.where(y == 1, label, "other")
    model = Model.of(
        ConvexPolytopeMachine(n_init=1, random_state=0).fit(X, labels), feature_names=["a", "b", "c"]
    )
    given = model.predict(X).tolist()
    assert set(given) == {label, "other"}
    save_model(model, path)
    found = load_model(path)
    assert found.predict(X).tolist() == given

    np.savetxt(table, X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    assert run("predict", path, table, "--out", out).exit_code == 0
    text = out.read_bytes().decode()
    assert text == "".join(f'"{one}"\n' if "\n" in one else f"{one}\n" for one in given)

    rules = Rules.of(found)
    assert labels_by_sql(rules.to_sql(), X, "abc") == given
    assert {rules.to_json()[0][side] for side in ("inside", "outside")} == {label, "other"}
    session = ort.InferenceSession(found.to_onnx().SerializeToString())
    assert session.run(["label"], {session.get_inputs()[0].name: X})[0].tolist() == given


def test_a_table_of_probabilities_is_csv(tmp_path):
    """A reader of CSV finds the labels as they are, whatever characters they have."""
    X, y = samples(3)
    names = np.array(["two\nlines", 'a,"b"', "c\rd"])
    path, table, out = tmp_path / "m.skops", tmp_path / "t.csv", tmp_path / "p.csv"
    save_model(fitted(LogisticPolytopes(n_faces=1, n_init=1), X, names[y]), path)
    np.savetxt(table, X, delimiter=",", header="x0,x1,x2", comments="", fmt="%.17g")
    assert run("predict", path, table, "--probabilities", "--out", out).exit_code == 0
    with open(out, newline="") as lines:
        head, *rows = csv.reader(lines)
    assert head == ["label", *(f"p({name})" for name in sorted(names))]
    assert {row[0] for row in rows} <= set(names)
    assert len(rows) == len(X)


@pytest.mark.parametrize(
    "wrap", [lambda m: m, lambda m: make_pipeline(StandardScaler(), m)], ids=["machine", "pipeline"]
)
def test_a_machine_is_saved_as_its_model(wrap, tmp_path):
    """A fitted machine or pipeline is saved without more, and its frame's names decide afterwards."""
    X, y = samples()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    estimator = wrap(SVM()).fit(frame, y)
    save_model(estimator, tmp_path / "model.skops")
    model = load_model(tmp_path / "model.skops")
    assert model.method == "svm"
    assert (model.predict(frame[["c", "a", "b"]]) == estimator.predict(frame)).all()


@pytest.mark.parametrize(
    "search",
    [LogisticSearch(cv=2), GridSearchCV(ConvexPolytopeMachine(random_state=0), {"C": [1.0]}, cv=2)],
    ids=lambda search: type(search).__name__,
)
def test_a_search_is_saved_as_what_it_chose(search, tmp_path):
    """A search is saved as its best estimator, and finds the columns of a frame by name."""
    X, y = samples()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    save_model(search.fit(frame, y), tmp_path / "model.skops")
    assert (
        load_model(tmp_path / "model.skops").predict(frame[["c", "a", "b"]]) == search.predict(frame)
    ).all()


def test_faces_of_very_many_columns_are_saved(tmp_path):
    """A model that is zero but for few of a million columns comes back, however well it compresses."""
    X = sp.random_array((30, 1 << 20), density=1e-6, rng=np.random.default_rng(0), format="csr")
    machine = LogisticPolytopes(n_faces=4, n_init=1, max_iter=3, random_state=0).fit(X, np.arange(30) % 2)
    save_model(machine, tmp_path / "model.skops")
    assert (load_model(tmp_path / "model.skops").predict(X) == machine.predict(X)).all()
