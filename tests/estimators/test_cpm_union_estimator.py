"""PolytopeUnion: conventions, what it finds, weights, sides, pairs of classes, copies, rules and graphs."""

from __future__ import annotations

import pickle
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.cases import in_turn
from helpers.conventions import broken_conventions
from sklearn.exceptions import ConvergenceWarning

from polyopt import Claim, ConvexPolytopeMachine, Model, PolytopeUnion, load_model, save_model
from polyopt.datasets import make_checkerboard
from polyopt.models.rules import Rules
from polyopt.outer.cpm import union_search
from polyopt.polytope.forms import as_markdown

LABELS = np.array(["dark", "light"])


@pytest.fixture(scope="module")
def board():
    X, y = make_checkerboard(160, 2, random_state=0)
    return pd.DataFrame(X, columns=["row", "column"]), LABELS[(y > 0).astype(int)]


@pytest.fixture(scope="module")
def machine(board):
    return PolytopeUnion(2, C=3.0, inside_label="light", n_init=2, random_state=0).fit(*board)


def model_of(machine):
    return Model.of(machine, method="cpm-union", feature_names=["row", "column"])


def test_check_estimator_has_no_failure(monkeypatch):
    monkeypatch.setattr(union_search, "_EXCHANGES", 0)  # what is drawn and merged comes before them
    machine = PolytopeUnion(n_polytopes=2, n_faces=1, n_init=1, solver="dual", max_iter=10)
    assert broken_conventions(machine) == {}


def test_it_finds_both_fields(board, machine):
    X, y = board
    assert machine.score(X, y) > 0.9
    assert (machine.inside_label_, machine.outer_label_) == ("light", "dark")
    assert len(machine.polytopes_) == 2
    assert machine.solver_ == "exact"
    assert machine.certificate().claim is Claim.STATIONARY
    one = ConvexPolytopeMachine(8, C=3.0, inside_label="light", n_init=2, random_state=0).fit(X, y)
    assert one.score(X, y) < machine.score(X, y) - 0.1
    scores = np.array([polytope.scores(X.to_numpy()).max(axis=1) for polytope in machine.polytopes_]).min(
        axis=0
    )
    assert machine.decision_function(X) == pytest.approx(-scores)  # light, the second class, is inside
    assert np.array_equal(machine.pieces_[machine.active_face(X)], machine.active_piece(X))
    own = machine.face_scores(X)[np.arange(len(X)), machine.active_face(X)]
    assert own == pytest.approx(scores)
    with pytest.raises(AttributeError, match="polytope_ is of one polytope, and there are 2"):
        _ = machine.polytope_


def test_multipliers_are_those_of_their_constraints(board, machine):
    X, _ = board
    frame = machine.duals_.query("row == 'margin'")
    y = np.where(machine.predict(X) == "", 0, machine._y)
    W = np.zeros_like(machine.solution_["W"])
    lifted = np.column_stack([X, np.ones(len(X))])
    for sample, face, alpha in zip(frame["sample"], frame["face"], frame["multiplier"], strict=True):
        W[face] += 0.5 * alpha * y[sample] * lifted[sample]
    assert W == pytest.approx(machine.solution_["W"], abs=1e-6)
    assert np.array_equal(frame["piece"], machine.pieces_[frame["face"]])
    inside = frame[frame["label"] == "light"].groupby("sample")["piece"].nunique()
    outside = frame[frame["label"] == "dark"].groupby("sample")["piece"].nunique()
    assert set(inside) == {1}
    assert set(outside) == {2}


def test_weights_are_repetitions_and_sparse_samples_are_samples(board):
    X, y = board[0].to_numpy()[:60].round(1), board[1][:60]
    weights = np.arange(60) % 3
    whole = PolytopeUnion(2, n_init=2, solver="dual", random_state=3).fit(X, y, sample_weight=weights)
    often = np.repeat(np.arange(60), weights)[::-1]
    again = PolytopeUnion(2, n_init=2, solver="dual", random_state=3).fit(X[often], y[often])
    assert again.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-9)
    sparse = PolytopeUnion(2, n_init=2, solver="dual", random_state=3).fit(sp.csr_array(X), y, weights)
    assert sparse.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-9)
    assert whole.certificate(1e-3).relative_gap <= 1e-3


def test_auto_is_chosen_within_the_training_data(board):
    X, y = board
    found = PolytopeUnion(C=3.0, inside_label="auto", n_init=2, solver="dual", random_state=0).fit(X, y)
    assert found.score(X, y) > 0.9
    history = found.history_
    tried = history[history["error"].notna()]
    assert set(tried["side"]) == {1.0, -1.0}
    assert len(found.polytopes_) >= 2
    again = PolytopeUnion(C=3.0, inside_label="auto", n_init=2, solver="dual", random_state=0).fit(X, y)
    assert np.array_equal(found.W_, again.W_)
    named = np.where(y == "dark", "auto", "z")
    taken = PolytopeUnion(2, inside_label="auto", n_init=1, solver="dual").fit(X, named)
    assert taken.inside_label_ == "auto"  # the class that is called so


def test_several_classes_by_pairs_with_a_side_for_each(board):
    X, y = board
    three = np.where(X["row"] > 1.5, "third", y)
    found = PolytopeUnion(2, C=3.0, inside_label="auto", n_init=1, solver="dual", random_state=0).fit(
        X, three
    )
    assert found.score(X, three) > 0.8
    assert len(found.estimators_) == 3
    assert found.certificate(1e-3).claim in (Claim.STATIONARY, Claim.SUBOPTIMAL_BY)
    with pytest.raises(ValueError, match="inside_label='dark' needs two classes"):
        PolytopeUnion(inside_label="dark").fit(X, three)


@in_turn(
    ("settings", "text"),
    [
        ({"n_polytopes": 0}, "n_polytopes must be an integer"),
        ({"n_polytopes": "many"}, "n_polytopes"),
        ({"n_faces": 0}, "n_faces must be an integer of at least 1"),
        ({"C": 0.0}, "C must be"),
        ({"solver": "sgd"}, "solver"),
        ({"n_init": 0}, "n_init must be"),
        ({"inside_label": "grey"}, "inside_label must be one of"),
    ],
)
def test_what_cannot_be_is_told(board, settings, text):
    with pytest.raises(ValueError, match=text):
        PolytopeUnion(**settings).fit(*board)


def test_a_time_limit_keeps_a_point(board):
    with pytest.warns(ConvergenceWarning, match="time limit"):
        found = PolytopeUnion(time_limit=0.0, random_state=0).fit(*board)
    assert np.isfinite(found.W_).all()
    assert found.certificate().claim in (Claim.SUBOPTIMAL_BY, Claim.STATIONARY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(found.predict(board[0])) == len(board[0])


def test_the_nearest_point_of_the_other_class_is_proven_and_is_of_it(board, machine):
    for place in (0, 1, 2):
        x = board[0].iloc[[place]]
        found = machine.explain(x)
        told = found.to_dict()
        assert told["label"] == machine.predict(x)[0] != told["other"]
        assert found.certificate().claim is Claim.OPTIMAL
        z = found.way.found.point
        beyond = pd.DataFrame([z + 1e-6 * (z - x.to_numpy()[0])], columns=x.columns)
        assert machine.predict(beyond)[0] == told["other"]


# -- elsewhere -------------------------------------------------------------------------------


def test_copies_and_files_answer_alike(board, machine, tmp_path):
    X, _ = board
    light = machine.without_data()
    assert not light.holds_data
    save_model(model_of(machine), tmp_path / "union.skops")
    kept = load_model(tmp_path / "union.skops")
    for other in (light, pickle.loads(pickle.dumps(machine)), kept.estimator):
        assert np.array_equal(other.decision_function(X), machine.decision_function(X))
        assert other.rules_ == machine.rules_
    with pytest.raises(ValueError, match="needs the training data"):
        light.certificate()


def test_the_graph_is_the_machine(board, machine):
    runtime = pytest.importorskip("onnxruntime")
    X = np.random.default_rng(0).uniform(-1.0, 3.0, (200, 2))
    session = runtime.InferenceSession(machine.to_onnx().SerializeToString())
    labels, scores = session.run(["label", "scores"], {"X": X})
    named = pd.DataFrame(X, columns=board[0].columns)
    assert scores == pytest.approx(machine.decision_function(named), abs=1e-12)
    assert np.array_equal(labels, machine.predict(named))


def test_rules_are_the_machine_in_every_form(machine):
    rules = Rules.of(model_of(machine))
    X = pd.DataFrame(np.random.default_rng(1).uniform(-0.5, 2.5, (300, 2)), columns=["row", "column"])
    labels = machine.predict(X)
    assert np.array_equal(rules.predict(X), labels)
    assert rules.agreement(X).share == 1.0
    space: dict[str, object] = {}
    exec(rules.to_python(), space)
    assert [space["classify"](row) for row in X.to_dict("records")] == labels.tolist()
    with sqlite3.connect(":memory:") as base:
        X.to_sql("samples", base)
        asked = base.execute(f'SELECT {rules.to_sql()} FROM samples ORDER BY "index"').fetchall()
    assert [label for (label,) in asked] == labels.tolist()
    (found,) = rules.to_json()
    inside = [
        any(
            all(
                sum(term["coefficient"] * row[term["feature"]] for term in face["terms"]) <= face["limit"]
                for face in piece["faces"]
            )
            for piece in found["pieces"]
        )
        for row in X.to_dict("records")
    ]
    assert np.array_equal(np.where(inside, found["inside"], found["outside"]), labels)


def test_rules_read_as_lists_of_conditions(machine):
    heading, *lines = machine.rules_.split("\n")
    told = "if all conditions of one piece hold; else outside, class 'dark':"
    assert heading == f"Inside, class 'light', {told}"
    assert [line for line in lines if "piece" in line] == ["  if piece 0:", "  or piece 1:"]
    assert sum(" < " in line for line in lines) == len(machine.W_)  # open: its inside is classes_[1]
    marked = as_markdown(machine.rules_).split("\n")
    assert sum(line.startswith("- ") for line in marked) == 2
    assert sum(line.startswith("  - ") for line in marked) == len(machine.W_)
    short = Rules.of(model_of(machine)).shortened(digits=2, terms=1)
    assert short.most_terms == 1
    assert "row" in short.texts(2, 1)[0]
