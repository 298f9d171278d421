"""What is saved can be loaded: the same answers, or a sentence and the old file untouched."""

import csv
import io
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.commands import run, worked
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
    load_model,
    save_model,
)
from polyopt.models.rules import Rules

CONTAINERS = [sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix]
SAMPLES = np.random.default_rng(2).normal(size=(40, 3))
LABELS = (SAMPLES[:, 0] > 0.3 * SAMPLES[:, 1]).astype(int)
FRAME = pd.DataFrame(SAMPLES, columns=["a", "b", "c"])


def assert_comes_back(estimator, X, path):
    """Saved with and without the training data, an estimator predicts the same."""
    for model in (Model.of(estimator), Model.of(estimator).without_data()):
        save_model(model, path)
        assert (load_model(path).predict(X) == estimator.predict(X)).all()


@pytest.mark.parametrize("container", CONTAINERS, ids=lambda kind: kind.__name__)
def test_models_of_sparse_data(container, tmp_path):
    """A model comes back whatever sparse container its fit had."""
    X = container(np.where(np.abs(SAMPLES) < 0.5, 0.0, SAMPLES))
    pipeline = make_pipeline(MaxAbsScaler(), SVM()).fit(X, LABELS)
    assert_comes_back(pipeline, X, tmp_path / "m.skops")


@pytest.mark.parametrize("step", [Hinges(), StandardScaler()], ids=repr)
def test_steps_come_back(step, tmp_path):
    """Hinges are saved as scalers are."""
    pipeline = make_pipeline(step, LogisticPolytopes(n_init=1, random_state=0)).fit(SAMPLES, LABELS)
    assert_comes_back(pipeline, SAMPLES, tmp_path / "m.skops")


def product(A, B):
    return A @ B.T


def double(X):
    return 2.0 * X


UNSAVABLE = {
    "kernel function": (lambda: SVM(kernel=product).fit(SAMPLES, LABELS), "product"),
    "lambda": (lambda: SVM(kernel=lambda A, B: A @ B.T).fit(SAMPLES, LABELS), "<lambda>"),
    "function in a step": (
        lambda: make_pipeline(FunctionTransformer(double), SVM()).fit(SAMPLES, LABELS),
        "double",
    ),
    "object of another package": (
        lambda: make_pipeline(SplineTransformer(), SVM()).fit(SAMPLES, LABELS),
        "BSpline",
    ),
    "unknown method": (lambda: Model.of(SVM().fit(SAMPLES, LABELS), method="svn"), "svn"),
    "method of another machine": (lambda: Model.of(SVM().fit(SAMPLES, LABELS), method="cpm"), ""),
    "unfitted": (lambda: Model.of(SVM()), "not fitted"),
}


@pytest.mark.parametrize(("make", "named"), UNSAVABLE.values(), ids=UNSAVABLE)
def test_unsavable_model_leaves_files_alone(make, named, tmp_path):
    """One sentence names the object; a file that was there stays, and no other is made."""
    path, new = tmp_path / "m.skops", tmp_path / "new.skops"
    save_model(SVM().fit(SAMPLES, LABELS), path)
    before = path.read_bytes()
    for target in (path, new):
        with pytest.raises(ValueError, match=rf"cannot be saved.*{named}") as refused:
            save_model(make(), target)
        assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.skops"]


def test_path_may_be_text(tmp_path):
    """A path is taken as a text, and a missing file is named."""
    machine = SVM().fit(SAMPLES, LABELS)
    save_model(machine, str(tmp_path / "m.skops"))
    assert (load_model(str(tmp_path / "m.skops")).predict(SAMPLES) == machine.predict(SAMPLES)).all()
    with pytest.raises(FileNotFoundError, match=r"no model file '.*other\.skops'"):
        load_model(str(tmp_path / "other.skops"))


@pytest.mark.parametrize("order", ["<", ">"], ids=["little endian", "big endian"])
def test_labels_beyond_unicode_are_refused(order, tmp_path):
    """An array of texts with an invalid code point is a sentence at load, and not a crash at predict."""
    whole, spoilt = tmp_path / "m.skops", tmp_path / "spoilt.skops"
    save_model(SVM(kernel="linear").fit(SAMPLES, np.array(["no", "yes"])[LABELS]), whole)
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


TEXTS = {
    "line break": "two\nlines",
    "quotes": 'it\'s "so"',
    "backslash": r"a\nb",
    "tab": "a\tb",
    "unicode": "日本 ü\u2028é",
    "markup": "[red]{x}%s;,",
    "escape": "\x1b[31m",
}


@pytest.mark.parametrize("label", TEXTS.values(), ids=TEXTS)
def test_label_is_the_same_everywhere(label, tmp_path):
    """A label stays as it is in the model's file, the command's, rules as SQL and JSON, and in ONNX."""
    ort = pytest.importorskip("onnxruntime")
    path, table, out = tmp_path / "m.skops", tmp_path / "t.csv", tmp_path / "labels"
    machine = ConvexPolytopeMachine(2, n_init=1, random_state=0)
    save_model(machine.fit(FRAME, np.where(LABELS == 1, label, "other")), path)
    expected, model = machine.predict(FRAME).tolist(), load_model(path)
    assert set(expected) == {label, "other"}
    assert model.predict(FRAME).tolist() == expected

    FRAME.to_csv(table, index=False, float_format="%.17g")
    worked("predict", path, table, "--out", out)
    assert out.read_bytes().decode() == "".join(f'"{e}"\n' if "\n" in e else f"{e}\n" for e in expected)

    rules = Rules.of(model)
    assert labels_by_sql(rules.to_sql(), SAMPLES, "abc") == expected
    assert {rules.to_json()[0][side] for side in ("inside", "outside")} == {label, "other"}
    session = ort.InferenceSession(model.to_onnx().SerializeToString())
    assert session.run(["label"], {session.get_inputs()[0].name: SAMPLES})[0].tolist() == expected


def test_table_of_probabilities_is_csv(tmp_path):
    """``polyopt predict --probabilities`` writes labels of any characters and the model's probabilities."""
    path, table, out = tmp_path / "m.skops", tmp_path / "t.csv", tmp_path / "p.csv"
    names = np.array(["two\nlines", 'a,"b"', "c\rd"])
    machine = LogisticPolytopes(n_faces=1, n_init=1).fit(FRAME, names[np.arange(40) % 3])
    save_model(machine, path)
    FRAME.to_csv(table, index=False, float_format="%.17g")
    worked("predict", path, table, "--probabilities", "--out", out)
    with open(out, newline="") as lines:
        head, *rows = csv.reader(lines)
    assert head == ["label", *(f"p({name})" for name in sorted(names))]
    assert [row[0] for row in rows] == machine.predict(FRAME).tolist()
    assert np.array_equal(np.array([row[1:] for row in rows], float), machine.predict_proba(FRAME))
    save_model(SVM().fit(FRAME, LABELS), path)
    refused = run("predict", path, table, "--probabilities")
    assert refused.exit_code in (1, 2)
    assert "CalibratedClassifierCV(SVM(...), ensemble=False)" in " ".join(refused.output.split())


SEARCH = LogisticSearch(LogisticPolytopes(n_init=1, random_state=0), cv=2, max_faces=1)
ESTIMATORS = {
    "machine": (SVM(), "svm"),
    "pipeline": (make_pipeline(StandardScaler(), SVM()), "svm"),
    "grid": (GridSearchCV(SVM(kernel="linear"), {"C": [1.0]}, cv=2), "svm"),
    "search": (SEARCH, "logistic"),
}


@pytest.mark.parametrize(("estimator", "method"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_estimator_is_saved_as_its_model(estimator, method, tmp_path):
    """A machine, a pipeline or a search's choice is saved with its method and finds columns by name."""
    save_model(estimator.fit(FRAME, LABELS), tmp_path / "m.skops")
    model = load_model(tmp_path / "m.skops")
    assert model.method == method
    assert (model.predict(FRAME[["c", "a", "b"]]) == estimator.predict(FRAME)).all()


def test_faces_of_many_columns_are_saved(tmp_path):
    """A model that is zero but for few of a million columns comes back, however well it compresses."""
    X = sp.random_array((30, 1 << 20), density=1e-6, rng=np.random.default_rng(0), format="csr")
    machine = ConvexPolytopeMachine(4, solver="sgd", max_iter=1, n_init=1, random_state=0)
    machine.fit(X, np.arange(30) % 2)
    save_model(machine, tmp_path / "m.skops")
    assert (load_model(tmp_path / "m.skops").predict(X) == machine.predict(X)).all()
