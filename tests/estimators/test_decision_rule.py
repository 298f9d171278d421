"""A score of 0 is of ``classes_[0]``: one rule for predictions, polytopes, rules as code, and ONNX graphs."""

from functools import cache

import numpy as np
import pytest
from helpers.methods import NAMES, usual
from helpers.sql import labels_by_sql
from sklearn.preprocessing import StandardScaler

from polyopt import PCSLP, PLUME, SPLA1, ConvexPolytopeMachine, LogisticPolytopes, Polyceptron
from polyopt.explanations import explain_model, explain_sample
from polyopt.explanations.classifier import decision_model_of
from polyopt.models import Model
from polyopt.models.rules import Rules
from polyopt.polytope import Polytope

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

GRID = np.array([[i, j] for i in range(-3, 4) for j in range(-3, 4)], dtype=float)
SQUARE = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), np.full(4, -2.0)  # |x_j| <= 2
LABELS = np.where(np.abs(GRID).max(axis=1) <= 2, "in", "out")
CPM = ConvexPolytopeMachine(4, solver="sgd", max_iter=5, n_init=1, random_state=0)
# Machines of faces, and the sign of their faces' scores outside.
FACED = {
    "cpm": (CPM, 1.0),
    "polyceptron": (Polyceptron(4, n_init=1, random_state=0), -1.0),
    "pc-slp": (PCSLP(4, n_init=1, random_state=0), -1.0),
    "spla1": (SPLA1(4, n_init=1, random_state=0), -1.0),
    "plume": (PLUME(4, n_init=1, random_state=0, decision="polytope"), -1.0),
}


@cache
def square_around(name, inside):
    """A machine whose polytope is a square with integer faces, around the class given."""
    machine, sign = FACED[name]
    machine = type(machine)(**machine.get_params()).set_params(inside_label=inside).fit(GRID, LABELS)
    machine.W_, machine.b_ = sign * SQUARE[0], sign * SQUARE[1]
    return machine


@pytest.fixture(params=[(name, inside) for name in FACED for inside in ("in", "out")], ids="-".join)
def square(request):
    return square_around(*request.param)


def by_rule(machine, X):
    return machine.classes_[(machine.decision_function(X) > 0).astype(int)]


def test_tie_is_of_first_class(square):
    """Points on a face have a score of exactly 0, and are of classes_[0] whichever class is inside."""
    on_face = square.decision_function(GRID) == 0
    assert on_face.sum() == 16
    assert (square.predict(GRID)[on_face] == square.classes_[0]).all()
    assert (square.predict(GRID) == by_rule(square, GRID)).all()
    is_closed = square.inside_label_ == square.classes_[0]
    assert (square.predict(GRID) == square.inside_label_).sum() == (25 if is_closed else 9)


def test_polytope_contains_the_class_inside(square):
    """The polytope is closed if its inside is classes_[0], and open if it is classes_[1]."""
    polytope = square.polytope_
    assert polytope.is_closed == (square.inside_label_ == square.classes_[0])
    inside = square.predict(GRID) == square.inside_label_
    assert (polytope.contains(GRID) == inside).all()
    scaled = polytope.within([-9, -9], [9, 9]).section([0, 1], [0, 0]).without_redundant()
    assert (scaled.contains(GRID) == inside).all()


def test_rules_name_the_strictness(square):
    """SQL gives the labels; text and JSON say > if a face belongs to the inside, and else >=."""
    polytope = square.polytope_
    labels = str(square.inside_label_), str(square.outer_label_)
    assert labels_by_sql(polytope.to_sql(*labels), GRID, ["x0", "x1"]) == square.predict(GRID).tolist()
    assert polytope.rules().count(" > 2" if polytope.is_closed else " >= 2") == 4
    assert ("its limit or more" in polytope.to_json()["rule"]) == (not polytope.is_closed)


def test_graph_decides_ties_alike(square):
    """The ONNX graph gives the machine's label at every grid point."""
    reference = pytest.importorskip("onnx.reference")
    label = reference.ReferenceEvaluator(square.to_onnx()).run(["label"], {"X": GRID})[0]
    assert label.tolist() == square.predict(GRID).tolist()


def test_explanations_decide_ties_alike(square):
    """The faces agree with every prediction, and the sentence on a point's side with its own."""
    model = decision_model_of(square)
    assert explain_model(model, GRID).agreement == 1.0
    for x in ([2.0, 0.0], [0.0, 0.0], [3.0, 0.0]):
        sample = explain_sample(model, x)
        assert (sample.label == square.outer_label_) == sample.is_beyond
        assert "decides by its probabilities" not in sample.text()


MACHINES = {name: usual(name).make() for name in NAMES} | {
    "two sides": ConvexPolytopeMachine(2, inside_label="both", n_init=1, random_state=0),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", MACHINES)
def test_label_is_sign_or_largest_score(name, n_classes):
    """Two classes by the sign of the score, more by the largest, on data made for scores of exactly 0."""
    X = GRID[(np.abs(GRID).max(axis=1) <= 2) & (GRID[:, 0] != 0)]
    y = np.where(X[:, 0] > 0, n_classes - 1, (X[:, 1] > 0) * (n_classes - 2))
    machine = MACHINES[name].fit(X, y)
    scores = machine.decision_function(GRID)
    expected = scores > 0 if n_classes == 2 else scores.argmax(axis=1)
    assert (machine.predict(GRID) == machine.classes_[np.asarray(expected, dtype=int)]).all()


@pytest.mark.parametrize("inside", ["in", "out"])
def test_probability_is_on_the_side_of_the_label(inside):
    """At a score of 0 the probability of classes_[1] is at most one half."""
    machine = square_around("spla1", inside)
    second = machine.predict_proba(GRID)[:, 1] > 0.5
    assert (second == (machine.decision_function(GRID) > 0)).all()


def test_tie_of_pair_favours_first_class():
    """A pair whose score is 0 votes for its first class."""
    machine = ConvexPolytopeMachine(1, random_state=0).fit(GRID, np.arange(len(GRID)) % 3)
    for pair in machine.estimators_:
        pair.W_, pair.b_ = np.array([[1.0, 0.0]]), np.zeros(1)
    assert (machine.predict(GRID[GRID[:, 0] == 0]) == 0).all()
    assert (machine.predict(GRID[GRID[:, 0] > 0]) == 2).all()


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_face_without_normal_and_offset(closed):
    """A face 0·x + 0 shuts nothing out of a closed polytope, and everything out of an open one."""
    polytope = Polytope(np.vstack([SQUARE[0], np.zeros(2)]), np.append(SQUARE[1], 0.0), is_closed=closed)
    assert polytope.is_empty == (not closed)
    assert polytope.contains(GRID).any() == closed
    assert polytope.redundant.tolist() == [not closed] * 4 + [closed]
    [label] = labels_by_sql(polytope.to_sql(), np.zeros((1, 2)), ["x0", "x1"])
    assert (label == "inside") == closed
    assert ("always outside" in polytope.rules()) == (not closed)


@pytest.mark.parametrize("inside", ["in", "out", "both"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_rules_of_a_model_decide_ties_alike(inside, scaled):
    """Rules in the units before a scaler, as labels and SQL, decide ties as the model does."""
    scaler = StandardScaler().fit(GRID)  # of mean 0 and variance 4
    machine = ConvexPolytopeMachine(**CPM.get_params()).set_params(inside_label=inside)
    machine.fit(scaler.transform(GRID) if scaled else GRID, LABELS)
    for side in machine.sides_ if inside == "both" else [machine]:
        side.W_, side.b_ = (2.0 * SQUARE[0], 2.0 * SQUARE[1]) if scaled else SQUARE
    model = Model.of(machine, [("scaler", scaler)] if scaled else [], method="cpm")
    rules, expected = Rules.of(model), model.predict(GRID).tolist()
    assert rules.predict(GRID).tolist() == expected
    if inside != "both":  # no code has the difference of two polytopes
        assert labels_by_sql(rules.to_sql(), GRID, ["x0", "x1"]) == expected


@pytest.mark.parametrize("order", [1, -1], ids=["inside-first", "inside-second"])
@pytest.mark.parametrize("faces", [(1, 4), (0, 4), (2, 3)], ids=str)
def test_regions_of_logistic_polytopes_decide_ties_alike(faces, order):
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
