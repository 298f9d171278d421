"""Explanations: terms add up, the nearest point is it, counts are those of models without a face."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from polyopt import PLUME, SPLA1, ConvexPolytopeMachine
from polyopt.certificates import Claim
from polyopt.explanations import Column, DecisionModel, explain_model, explain_sample
from polyopt.explanations.sample import change_rows
from polyopt.plots import face_weights
from polyopt.polytope import Polytope

NAMES = ["age", "weight", "height", "an exceedingly long name of a feature\x1b", "pulse"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 5)) * [10.0, 1.0, 0.1, 2.0, 5.0] + [50.0, 0.0, 1.7, 0.0, 70.0]
    y = np.where(np.abs((X[:, 0] - 50.0) / 10.0) + 0.5 * X[:, 1] > 0.8, "out", "in")
    return pd.DataFrame(X, columns=NAMES), y


@pytest.fixture(scope="module")
def machines(data):
    X, y = data
    scaled = (X - X.mean()) / X.std()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scaled, y, {
            "one": ConvexPolytopeMachine(3, solver="sgd", inside_label="in", random_state=0).fit(scaled, y),
            "inside out": SPLA1(2, n_init=1, random_state=0, inside_label="in").fit(scaled, y),
            "two": ConvexPolytopeMachine(2, inside_label="both", solver="sgd", random_state=0).fit(scaled, y),
            "of probabilities": PLUME(2, n_init=1, random_state=0, inside_label="in").fit(scaled, y),
        }  # fmt: skip


EVERY = ["one", "inside out", "two", "of probabilities"]


@pytest.mark.parametrize("name", EVERY)
def test_terms_add_up_and_the_way_out_is_the_nearest(machines, name):
    X, _y, found = machines
    machine, rng = found[name], np.random.default_rng(0)
    for i in (0, 3, 8):
        e = machine.explain(X.iloc[i])
        x, (label,) = X.iloc[i].to_numpy(), machine.predict(X.iloc[[i]])
        assert e.label == label
        assert e.base + sum(term.amount for term in e.terms) == pytest.approx(e.score)
        assert e.score == pytest.approx(e.active_face.w @ x + e.active_face.b)
        assert len(e.terms) == len(NAMES)
        if name != "of probabilities":
            signed = machine.decision_function(X.iloc[[i]])[0]
            sign = 1.0 if e.model.labels[1] == machine.classes_[1] else -1.0
            assert sign * signed == pytest.approx(e.score)
        spread, way = e.model.spread, e.counterfactual
        assert np.linalg.norm((way.nearest.point - x) / spread) == pytest.approx(way.distance)
        steps = rng.normal(size=(400, 5))
        steps *= 0.999 * way.distance / np.linalg.norm(steps, axis=1)[:, None]
        assert (e.model.scores(x + steps * spread) > 0.0).all() == e.is_beyond
        if name != "of probabilities":
            assert e.model.predict(way.crossing[None])[0] == e.other != label
            assert way.distance <= way.crossing_distance < way.distance + 1e-9
        assert e.certificate().claim is Claim.OPTIMAL


def test_what_is_held_and_bounded_stays_there(machines):
    X, _, found = machines
    x, free = X.iloc[0].to_numpy(), found["one"].explain(X.iloc[0])
    bounds = X.min().to_numpy(), X.max().to_numpy()
    e = found["one"].explain(X.iloc[0], held=["age", 4], bounds=bounds)
    point = e.counterfactual.nearest.point
    assert point[[0, 4]].tolist() == x[[0, 4]].tolist()
    assert (point >= X.to_numpy().min(axis=0)).all()
    assert (point <= X.to_numpy().max(axis=0)).all()
    assert e.counterfactual.distance >= free.counterfactual.distance
    nothing = found["one"].explain(X.iloc[0], held=NAMES)
    assert nothing.counterfactual.nearest.point is None
    assert "No point of the other class can be reached" in nothing.text()
    assert nothing.to_dict()["nearest"]["distance"] is None
    assert nothing.certificate().claim is Claim.INFEASIBLE


@pytest.mark.parametrize("name", EVERY)
def test_counts_are_those_of_the_model_without_the_face(machines, name):
    X, y, found = machines
    e = found[name].explain_model()
    assert sum(share for _, share in e.shares) == pytest.approx(1.0)
    samples, subject = X.to_numpy(), e.model
    said = subject.scores(samples) > 0.0
    truth = y == subject.labels[1]
    assert e.error == pytest.approx((said != truth).mean())
    for role in e.faces:
        piece, face = role.name
        own = subject.polytopes[piece]
        rest = Polytope(np.delete(own.W, face, 0), np.delete(own.b, face))
        beyond = own.scores(samples)[:, face] > 0.0
        assert role.beyond == beyond.sum()
        assert role.alone == (beyond & rest.contains(samples)).sum()
        polytopes = tuple(rest if d == piece else each for d, each in enumerate(subject.polytopes))
        without = DecisionModel(polytopes, subject.kind, subject.labels, subject.predict, subject.columns)
        now = without.scores(samples) > 0.0
        assert role.changed == (now != said).sum()
        assert role.error_without == pytest.approx((now != truth).mean())
    by_piece = [
        sum(role.active for role in e.faces if role.name[0] == d) for d in range(len(subject.polytopes))
    ]
    if subject.kind == "union":
        by_piece = [sum(by_piece)]
    assert by_piece == [len(y)] * len(by_piece)


@pytest.mark.parametrize("name", EVERY)
def test_words_fit_in_80_columns_and_dictionaries_in_json(machines, name):
    X, _, found = machines
    e, whole = found[name].explain(X.iloc[2], top=2), found[name].explain_model(top=3)
    for text in (e.text(), str(whole)):
        assert max(map(len, text.split("\n"))) <= 80
        assert "\x1b" not in text
    assert "3 others" in e.text()
    assert e.model.predict(e.counterfactual.crossing[None])[0] == e.other
    hidden = np.linalg.norm([change.amount for change in e.counterfactual.changes[2:]])
    assert change_rows(e)[-1] == ("3 others", "", "", f"{hidden:.4g}")
    json.dumps([e.to_dict(), whole.to_dict()], allow_nan=False)
    if name == "of probabilities":
        assert "decides by its probabilities" in str(whole) or whole.agreement == 1.0


def test_a_face_alone_in_its_polytope_and_faces_without_data():
    one = Polytope(np.array([[1.0, 0.0]]), np.array([-1.0]))
    columns = (Column("a", (0,)), Column("b", (1,)))
    subject = DecisionModel(
        (one,), "polytope", ("in", "out"), lambda X: np.where(X[:, 0] > 1, "out", "in"), columns
    )
    whole = explain_model(subject, [[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]])
    [role] = whole.faces
    assert (role.active, role.beyond, role.alone, role.changed) == (3, 2, 2, 2)
    assert whole.error is None
    assert whole.shares == (("a", 1.0), ("b", 0.0))
    e = explain_sample(subject, [0.25, 9.0])
    assert e.counterfactual.distance == pytest.approx(0.75)
    assert [(c.column, c.after) for c in e.counterfactual.changes] == [("a", pytest.approx(1.0))]
    assert "all are measured in their own units" in e.text()
    two = DecisionModel((one, one), "difference", ("in", "out"), subject.predict, columns)
    assert {role.changed for role in explain_model(two, [[0.0, 0.0]]).faces} == {None}


def test_a_union_is_left_through_every_piece_and_entered_by_the_nearest():
    left = Polytope(np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0]))  # -1 to 1
    right = Polytope(np.array([[1.0], [-1.0]]), np.array([-3.0, 0.5]))  # 0.5 to 3
    columns = (Column("a", (0,)),)

    def predict(X):
        return np.where((X[:, 0] >= -1.0) & (X[:, 0] <= 3.0), "in", "out")

    subject = DecisionModel((left, right), "union", ("in", "out"), predict, columns)
    inner, outer = explain_sample(subject, [0.75]), explain_sample(subject, [-4.0])
    assert inner.counterfactual.nearest.point == pytest.approx([-1.0])
    assert inner.counterfactual.distance == pytest.approx(1.75)
    assert outer.counterfactual.nearest.point == pytest.approx([-1.0])
    assert outer.active_face.name == (0, 1)
    assert "face 1 of piece 0" in outer.text()
    assert max(map(len, str(explain_model(subject, [[0.0], [2.0], [5.0]])).split("\n"))) <= 80


def test_machines_without_data_explain_as_well(machines):
    X, _, found = machines
    light = found["two"].without_data()
    whole, bare = found["two"].explain(X.iloc[4]), light.explain(X.iloc[4])
    assert bare.counterfactual.distance == whole.counterfactual.distance
    with pytest.raises(ValueError, match="holds no dense training data"):
        light.explain_model()
    assert light.explain_model(X).samples == len(X)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_what_cannot_be_explained_is_told(machines):
    X, y, found = machines
    machine = found["one"]
    for wrong, message in [
        ({"x": X.iloc[:2]}, "one sample at a time"),
        ({"held": ["wage"]}, "no feature 'wage' to hold; there are age, weight"),
        ({"held": [5]}, "no feature 5"),
        ({"top": 0}, "top must be an integer"),
        ({"bounds": (np.ones(5), np.zeros(5))}, "low must not be above high"),
    ]:
        with pytest.raises(ValueError, match=message):
            machine.explain(**{"x": X.iloc[0], **wrong})
    with pytest.raises(ValueError, match="y must have shape"):
        machine.explain_model(X, y[:3])
    with pytest.raises(ValueError, match="takes dense samples"):
        machine.explain_model(sp.csr_array(X.to_numpy()))
    many = ConvexPolytopeMachine(1, solver="sgd", max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many.fit(X.to_numpy(), np.arange(len(X)) % 3)
    with pytest.raises(ValueError, match="explanations are of two classes, and there are 3"):
        many.explain(X.iloc[0].to_numpy())  # fitted without names


def test_each_face_is_drawn_with_its_weights(machines):
    e = machines[2]["one"].explain_model()
    panels = [axes for axes in face_weights(e, most=3).axes if axes.patches]
    roles = sorted(e.faces, key=lambda role: -role.active)
    assert len(panels) == len(roles)
    for axes, role in zip(panels, roles, strict=True):
        assert [bar.get_width() for bar in axes.patches] == [weight for _, weight in role.weights[:3]]
        assert axes.get_title(loc="left") == f"face {role.name[1]}, {role.active} samples"
        assert "2 others have" in axes.get_xlabel()
