"""More than two classes: rules and explanations of each pair, in Python and by the commands."""

import json

import numpy as np
import pytest
from helpers.commands import run, worked
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from polyopt import SPLA1, SVM, ConvexPolytopeMachine, LogisticPolytopes
from polyopt.models import Model, load_model
from polyopt.models.explained import explain_row, explain_table
from polyopt.models.rules import Rules

pytestmark = pytest.mark.filterwarnings("ignore")

FRAME, CODES = load_iris(return_X_y=True, as_frame=True)
Y = np.array(["setosa", "versicolor", "virginica"])[CODES]
MACHINES = {
    "one side": ConvexPolytopeMachine(2, n_init=1, random_state=0),
    "two sides": ConvexPolytopeMachine(2, n_init=1, random_state=0, inside_label="both"),
    "cells": SPLA1(n_init=1, random_state=0),
    "logistic": LogisticPolytopes((0, 2), n_init=1, random_state=0),
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_pairs_have_rules_and_vote(machine):
    """Each pair's rules and explanations are its labels, and most votes of the pairs are the machine's."""
    scaler = StandardScaler().set_output(transform="pandas").fit(FRAME)
    model = Model.of(machine.fit(scaler.transform(FRAME), Y), [("scaler", scaler)])
    votes = np.zeros((len(Y), 3))
    for pair in model.pairs:
        labels, classes = pair.predict(FRAME), set(pair.estimator.classes_)
        votes += labels[:, None] == machine.classes_
        rules = Rules.of(pair)
        assert np.array_equal(rules.predict(FRAME), labels)
        assert set(rules.labels) == classes
        assert FRAME.columns[0] in rules.texts()[0]
        here = explain_row(pair, FRAME, 3)
        assert here.label == labels[3]
        assert {here.label, here.other} == classes
        assert here.certificate().is_optimal
        assert explain_table(pair, FRAME).agreement == 1.0
    clear = votes.max(axis=1) == 2
    assert clear.mean() > 0.9
    assert np.array_equal(machine.classes_[votes.argmax(axis=1)][clear], model.predict(FRAME)[clear])


def test_machine_of_a_pair_explains_itself():
    """The machine of two of three classes has their labels, their samples and the features' names."""
    machine = SPLA1(n_init=1, random_state=0).fit(FRAME, Y)
    pair = machine.of_pair("virginica", "setosa")
    assert pair.classes_.tolist() == ["setosa", "virginica"]
    assert pair.explain(FRAME.iloc[:1]).label == "setosa"
    assert "petal" in pair.polytope_.rules()
    assert pair.explain_model().samples == 100
    assert pair.of_pair("setosa", "virginica") is pair
    assert machine.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    for first, second in (("setosa", "rosa"), ("setosa", "setosa")):
        with pytest.raises(ValueError, match="are not two of the classes"):
            machine.of_pair(first, second)
    with pytest.raises(ValueError, match=r"the machine of a pair, of_pair\(first, second\)"):
        machine.explain(FRAME.iloc[:1])
    assert len(Model.of(SVM().fit(FRAME, Y)).pairs) == 1  # without polytopes


def test_commands_tell_the_pairs(tmp_path):
    """``fit``, ``rules`` and ``explain`` of three classes speak of each pair; SQL is of two classes."""
    data, model = tmp_path / "iris.csv", tmp_path / "iris.skops"
    FRAME.assign(species=Y).to_csv(data, index=False)
    said = worked("fit", data, "--method", "spla1", "--set", "n_init=1", "--out", model)
    assert "3 classes: rules and explanations are of each of the 3 pairs." in said
    text = worked("rules", model, "--data", data)
    assert "Class 'setosa' against class 'versicolor'." in text
    assert text.count("' against class '") == 3
    assert text.count("These rules agree with the model on") == 3
    assert json.loads(worked("rules", model, "--format", "json"))[0]["pair"] == ["setosa", "versicolor"]
    refused = run("rules", model, "--format", "sql")
    assert refused.exit_code == 2
    assert "is of two classes; those of" in refused.output
    rows = json.loads(worked("explain", model, data, "--row", 60, "--json"))
    label = load_model(model).predict(FRAME)[60]
    assert [label in part["pair"] for part in rows] == [True, True]
    assert {part["label"] for part in rows} == {label}
    assert worked("explain", model, data).count("for one of 100") == 3
