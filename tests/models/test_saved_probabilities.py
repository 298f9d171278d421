"""Machines with probabilities in files, as rules and as graphs: the same labels and probabilities."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from helpers.commands import run, worked
from helpers.sql import labels_by_sql
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from polyopt import PLUME, SPLA1, LogisticPolytopes, datasets
from polyopt.models import Model, load_model, save_model
from polyopt.models.rules import Rules

pytestmark = pytest.mark.filterwarnings("ignore")
MACHINES = [
    (LogisticPolytopes(2, n_init=1, random_state=0), "logistic"),
    (SPLA1(1, random_state=0), "spla1"),
    (PLUME(2, n_init=1, max_iter=20, random_state=0), "plume"),
]


@pytest.fixture(scope="module")
def models():
    """Of two classes and of three, machines after a scaler."""
    found = []
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).normal(scale=0.5, size=X.shape)
    for classes in (2, 3):
        own, labels = X[y >= 3 - classes], np.array(["a", "b", "c"])[y[y >= 3 - classes]]
        scaler = StandardScaler().fit(own)
        for machine, method in MACHINES if classes == 2 else MACHINES[:2]:
            fitted = type(machine)(**machine.get_params()).fit(scaler.transform(own), labels)
            found.append((Model.of(fitted, [("scaler", scaler)], method=method), own))
    return found


def test_files_copies_and_graphs_have_the_probabilities(models, tmp_path):
    pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    for number, (model, X) in enumerate(models):
        T = X.mean(axis=0) + 2 * np.random.default_rng(number).normal(size=(300, 4)) * X.std(axis=0)
        p, labels = model.predict_proba(T), model.predict(T)
        save_model(model.without_data(), tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        assert np.array_equal(loaded.predict_proba(T), p)
        assert np.array_equal(loaded.predict(T), labels)
        session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
        names, scores, shown = session.run(["label", "scores", "probabilities"], {"X": T})
        assert names.tolist() == labels.tolist()
        assert shown == pytest.approx(p, abs=1e-9)
        expected = model.estimator.decision_function(model.transform(T))
        assert scores == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_rules_and_their_code_have_the_labels(models):
    for model, X in models:
        if len(model.estimator.classes_) > 2 or model.method == "plume":
            continue
        rules, T = Rules.of(model), X + 0.7
        assert np.array_equal(rules.predict(T), model.predict(T))
        if rules.decision.kind == "difference":  # two polytopes, which no code has
            continue
        names = [f"x{j}" for j in range(T.shape[1])]
        assert labels_by_sql(rules.to_sql(), T, names) == model.predict(T).tolist()


def test_predict_writes_the_table(tmp_path):
    model, table = tmp_path / "model.skops", tmp_path / "table.csv"
    worked("fit", "wbc", "--method", "spla1", "--faces", 1, "--out", model)
    assert "probabilities the model's own" in " ".join(worked("info", model).split())
    worked("predict", model, "wbc", "--probabilities", "--out", table)
    head, *rows = csv.reader(io.StringIO(table.read_text(encoding="utf-8")))
    assert head == ["label", "p(0)", "p(1)"]
    p = np.array([row[1:] for row in rows], dtype=float)
    data = datasets.load("wbc")
    assert np.array_equal(p, load_model(model).predict_proba(data.X))
    assert [row[0] for row in rows] == [str(label) for label in load_model(model).predict(data.X)]
    worked("fit", "wbc", "--method", "pc-slp", "--faces", 1, "--out", model)
    done = run("predict", model, "wbc", "--probabilities")
    assert done.exit_code in (1, 2)
    assert "CalibratedClassifierCV(PCSLP(...), ensemble=False)" in " ".join(done.output.split())
