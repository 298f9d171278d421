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

MACHINES = [
    ConvexPolytopeMachine(2, n_init=1, random_state=0),
    ConvexPolytopeMachine(2, n_init=1, random_state=0, inside_label="both"),
    SPLA1(n_init=1, random_state=0),
    LogisticPolytopes((0, 2), n_init=1, random_state=0),
]


def iris():
    frame, codes = load_iris(return_X_y=True, as_frame=True)
    return frame, np.array(["setosa", "versicolor", "virginica"])[codes]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: type(machine).__name__)
def test_votes_of_the_pairs_are_the_labels_and_each_pair_has_rules(machine):
    frame, y = iris()
    scaler = StandardScaler().set_output(transform="pandas").fit(frame)
    machine.fit(scaler.transform(frame), y)
    model = Model.of(machine, [("scaler", scaler)])
    votes = np.zeros((len(y), 3))
    for pair in model.pairs:
        labels = pair.predict(frame)
        votes += labels[:, None] == machine.classes_
        assert set(labels) <= set(pair.estimator.classes_)
        rules = Rules.of(pair)
        assert np.array_equal(rules.predict(frame), labels)
        assert set(rules.labels) == set(pair.estimator.classes_)
        assert frame.columns[0] in rules.texts()[0]
        here = explain_row(pair, frame, 3)
        assert here.label == labels[3]
        assert {here.label, here.other} == set(pair.estimator.classes_)
        assert here.certificate().is_optimal
        assert explain_table(pair, frame).agreement == 1.0
    clear = votes.max(axis=1) == 2
    assert clear.mean() > 0.9
    assert np.array_equal(machine.classes_[votes.argmax(axis=1)][clear], model.predict(frame)[clear])


def test_the_machine_of_a_pair_explains_itself_with_its_labels_and_features():
    frame, y = iris()
    machine = SPLA1(n_init=1, random_state=0).fit(frame, y)
    pair = machine.of_pair("virginica", "setosa")
    assert pair.classes_.tolist() == ["setosa", "virginica"]
    assert pair.explain(frame.iloc[:1]).label == "setosa"
    assert "petal" in pair.polytope_.rules()
    assert pair.explain_model().samples == 100
    assert pair.of_pair("setosa", "virginica") is pair
    assert machine.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    for first, second in (("setosa", "rosa"), ("setosa", "setosa")):
        with pytest.raises(ValueError, match="are not two of the classes"):
            machine.of_pair(first, second)
    with pytest.raises(ValueError, match=r"the machine of a pair, of_pair\(first, second\)"):
        machine.explain(frame.iloc[:1])
    assert len(Model.of(SVM().fit(frame, y)).pairs) == 1  # which has no polytopes


def test_the_commands_tell_the_pairs(tmp_path):
    frame, y = iris()
    data, model = tmp_path / "iris.csv", tmp_path / "iris.skops"
    frame.assign(species=y).to_csv(data, index=False)
    said = worked("fit", data, "--method", "spla1", "--set", "n_init=1", "--out", model)
    assert "3 classes: rules and explanations are of each of the 3 pairs." in said
    text = worked("rules", model, "--data", data)
    heading = "Class 'setosa' against class 'versicolor'."
    assert text.count("' against class '") == 3
    assert heading in text
    assert text.count("These rules agree with the model on") == 3
    content = json.loads(worked("rules", model, "--format", "json"))
    assert content[0]["pair"] == ["setosa", "versicolor"]
    refused = run("rules", model, "--format", "sql")
    assert refused.exit_code == 2
    assert "is of two classes; those of" in refused.output
    rows = json.loads(worked("explain", model, data, "--row", 60, "--json"))
    label = load_model(model).predict(frame)[60]
    assert [label in part["pair"] for part in rows] == [True, True]
    assert {part["label"] for part in rows} == {label}
    assert worked("explain", model, data).count("for one of 100") == 3
