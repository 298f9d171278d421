"""A score of 0 is of ``classes_[0]``: one rule for predictions, polytopes, rules as code, and ONNX graphs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.sql import labels_by_sql
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import _ovr_decision_function

from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    LogisticPolytopes,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
)
from polyopt.explanations import explain_model, explain_sample
from polyopt.explanations.classifier import decision_model_of
from polyopt.models import Model
from polyopt.models.rules import Rules
from polyopt.polytope import Polytope

GRID = np.array([[i, j] for i in range(-3, 4) for j in range(-3, 4)], dtype=float)
SQUARE = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), np.full(4, -2.0)  # |x_j| <= 2
LABELS = np.where(np.abs(GRID).max(axis=1) <= 2, "in", "out")

FACED = {
    "CPM": lambda **given: ConvexPolytopeMachine(4, random_state=0, **given),
    "Polyceptron": lambda **given: Polyceptron(4, random_state=0, **given),
    "PCSLP": lambda **given: PCSLP(4, n_init=1, random_state=0, **given),
    "SPLA1": lambda **given: SPLA1(4, n_init=1, random_state=0, **given),
    "PLUME": lambda **given: PLUME(4, n_init=1, random_state=0, decision="polytope", **given),
}
LINEAR = {
    "SVM": SVM(),
    "SigmaSVM": SigmaSVM(),
    "RMM": RelativeMarginMachine(),
    "one-norm": OneNormSVM(),
    "cross-entropy": CrossEntropySVM(random_state=0),
    "logistic": LogisticPolytopes(2, n_init=1, random_state=0),
    "double-sided": ConvexPolytopeMachine(2, inside_label="both", random_state=0),
    "posterior": PLUME(2, n_init=1, random_state=0),
}


@pytest.fixture(params=[(name, inside) for name in FACED for inside in ("in", "out")], ids="-".join)
def square(request):
    """A machine whose polytope is a square with integer faces, around the class given."""
    name, inside = request.param
    machine = FACED[name](inside_label=inside).fit(GRID, LABELS)
    machine.W_, machine.b_ = machine._outward * SQUARE[0], machine._outward * SQUARE[1]
    return machine


def by_rule(machine, X):
    return machine.classes_[(machine.decision_function(X) > 0).astype(int)]


def test_predict_is_the_sign_rule_on_faces(square):
    """Points on a face have a score of exactly 0, and are of classes_[0] whichever class is inside."""
    on_face = square.decision_function(GRID) == 0
    assert on_face.sum() == 16
    assert (square.predict(GRID)[on_face] == square.classes_[0]).all()
    assert (square.predict(GRID) == by_rule(square, GRID)).all()


def test_the_polytope_contains_what_is_predicted_inside(square):
    """The polytope is closed if its inside is classes_[0], and open if it is classes_[1]."""
    polytope = square.polytope_
    assert polytope.is_closed == (square.inside_label_ == square.classes_[0])
    inside = square.predict(GRID) == square.inside_label_
    assert (polytope.contains(GRID) == inside).all()
    scaled = polytope.within([-9, -9], [9, 9]).section([0, 1], [0, 0]).without_redundant()
    assert (scaled.contains(GRID) == inside).all()


def test_sql_says_what_predict_says(square):
    """The CASE expression gives the machine's label at every grid point."""
    labels = str(square.inside_label_), str(square.outer_label_)
    expected = square.predict(GRID).tolist()
    assert labels_by_sql(square.polytope_.to_sql(*labels), GRID, ["x0", "x1"]) == expected


def test_text_and_json_name_the_strictness(square):
    """Rules say > where a face belongs to the inside, and >= where it does not."""
    polytope = square.polytope_
    assert polytope.rules().count(" > 2" if polytope.is_closed else " >= 2") == 4
    assert ("its limit or more" in polytope.to_json()["rule"]) == (not polytope.is_closed)


def test_onnx_says_what_predict_says(square):
    """The ONNX graph gives the machine's label at every grid point."""
    reference = pytest.importorskip("onnx.reference")
    label = reference.ReferenceEvaluator(square.to_onnx()).run(["label"], {"X": GRID})[0]
    assert label.tolist() == square.predict(GRID).tolist()


def test_explanations_say_what_predict_says(square):
    """The faces agree with every prediction, and the sentence on a point's side with its own."""
    explained = explain_model(decision_model_of(square), GRID)
    assert explained.agreement == 1.0
    for x in ([2.0, 0.0], [0.0, 0.0], [3.0, 0.0]):
        sample = explain_sample(decision_model_of(square), x)
        assert (sample.label == square.outer_label_) == sample.is_beyond
        assert "decides by its probabilities" not in sample.text()


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("classes", [2, 3])
def test_predict_and_decision_function_agree(name, classes):
    """Two classes by the sign of the score, more by the largest, on data made for scores of exactly 0."""
    X = GRID[np.abs(GRID).max(axis=1) <= 2]
    X = X[X[:, 0] != 0]
    y = np.where(X[:, 0] > 0, 2, np.where(X[:, 1] > 0, 1, 0)) if classes == 3 else (X[:, 0] > 0).astype(int)
    machine = LINEAR[name].fit(X, y)
    scores = machine.decision_function(GRID)
    expected = scores > 0 if classes == 2 else scores.argmax(axis=1)
    assert (machine.predict(GRID) == machine.classes_[np.asarray(expected, dtype=int)]).all()


@pytest.mark.parametrize("inside", ["in", "out"])
def test_probabilities_are_on_the_side_of_the_label(inside):
    """At a score of 0 the probability of classes_[1] is at most one half."""
    machine = FACED["SPLA1"](inside_label=inside).fit(GRID, LABELS)
    machine.W_, machine.b_ = -SQUARE[0], -SQUARE[1]
    second = machine.predict_proba(GRID)[:, 1] > 0.5
    assert (second == (machine.decision_function(GRID) > 0)).all()


def test_votes_of_pairs_follow_the_rule():
    """A pair whose score is 0 votes for its first class."""
    machine = ConvexPolytopeMachine(1, random_state=0).fit(GRID, np.arange(len(GRID)) % 3)
    for pair in machine.estimators_:
        pair.W_, pair.b_ = np.array([[1.0, 0.0]]), np.zeros(1)
    pairs = np.column_stack([pair.decision_function(GRID) for pair in machine.estimators_])
    votes = _ovr_decision_function(pairs > 0, pairs, 3)
    assert (machine.decision_function(GRID) == votes).all()
    assert (machine.predict(GRID[GRID[:, 0] == 0]) == 0).all()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_a_face_without_normal_and_offset(closed):
    """A face 0·x + 0 shuts nothing out of a closed polytope, and everything out of an open one."""
    polytope = Polytope(np.vstack([SQUARE[0], np.zeros(2)]), np.append(SQUARE[1], 0.0), is_closed=closed)
    assert polytope.is_empty == (not closed)
    assert polytope.contains(GRID).any() == closed
    assert polytope.redundant.tolist() == [not closed] * 4 + [closed]
    [label] = labels_by_sql(polytope.to_sql(), np.zeros((1, 2)), ["x0", "x1"])
    assert (label == "inside") == closed
    assert ("always outside" in polytope.rules()) == (not closed)


@pytest.mark.parametrize("inside", ["in", "out"])
@pytest.mark.parametrize("double", [False, True], ids=["one-polytope", "two-polytopes"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_rules_of_a_model_say_what_it_predicts(inside, double, scaled):
    """Rules in the units before a scaler, as labels and SQL, decide ties as the model does."""
    choice = {"inside_label": "both"} if double else {"inside_label": inside}
    scaler = StandardScaler().fit(GRID)  # of mean 0 and variance 4
    X = scaler.transform(GRID) if scaled else GRID
    machine = ConvexPolytopeMachine(4, random_state=0, **choice).fit(X, LABELS)
    for side in machine.sides_ if double else [machine]:
        side.W_, side.b_ = (2.0 * SQUARE[0], 2.0 * SQUARE[1]) if scaled else SQUARE
    model = Model.of(machine, [("scaler", scaler)] if scaled else [], method="cpm")
    rules = Rules.of(model)
    expected = model.predict(GRID).tolist()
    assert rules.predict(GRID).tolist() == expected
    if double:
        return  # no code has the difference of two polytopes
    assert labels_by_sql(rules.to_sql(), GRID, ["x0", "x1"]) == expected


@pytest.mark.parametrize("order", [1, -1], ids=["inside-first", "inside-second"])
@pytest.mark.parametrize("faces", [(1, 4), (0, 4), (2, 3)], ids=str)
def test_regions_of_logistic_polytopes_follow_the_rule(faces, order):
    """The polytopes of the class inside contain what is predicted so, ties of its faces with others' too."""
    machine = LogisticPolytopes(faces[::order], n_init=1, random_state=0).fit(GRID, LABELS)
    rng = np.random.default_rng(0)
    machine.W_ = rng.integers(-2, 3, machine.W_.shape).astype(float)
    machine.b_ = rng.integers(-2, 3, machine.b_.shape).astype(float)
    assert (machine.decision_function(GRID) == 0).any()
    assert (machine.predict(GRID) == by_rule(machine, GRID)).all()
    regions = machine.polytopes_ if min(faces) > 1 else [machine.polytope_]
    inside = np.any([region.contains(GRID) for region in regions], axis=0)
    assert (inside == (machine.predict(GRID) == machine.inside_label_)).all()
