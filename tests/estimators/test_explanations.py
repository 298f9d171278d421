"""Explanations: terms add up, the nearest point is it, counts are those of models without a face."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from polyopt import PLUME, SPLA1, Claim, ConvexPolytopeMachine
from polyopt.explanations import Column, DecisionModel, explain_model, explain_sample
from polyopt.explanations.sample import change_rows
from polyopt.plots import face_weights
from polyopt.polytope import Polytope

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = ["age", "weight", "height", "an exceedingly long name of a feature\x1b", "pulse"]
RNG = np.random.default_rng(3)
RAW = RNG.normal(size=(90, 5)) * [10.0, 1.0, 0.1, 2.0, 5.0] + [50.0, 0.0, 1.7, 0.0, 70.0]
Y = np.where(np.abs((RAW[:, 0] - 50.0) / 10.0) + 0.5 * RAW[:, 1] > 0.8, "out", "in")
X = pd.DataFrame((RAW - RAW.mean(axis=0)) / RAW.std(axis=0) * [1.0, 0.5, 2.0, 1.0, 3.0], columns=NAMES)
MACHINES = {
    "one": ConvexPolytopeMachine(3, solver="sgd", inside_label="in", random_state=0),
    "inside out": SPLA1(2, n_init=1, random_state=0, inside_label="in"),
    "two": ConvexPolytopeMachine(2, inside_label="both", solver="sgd", random_state=0),
    "of probabilities": PLUME(2, n_init=1, random_state=0, inside_label="in"),
}


@pytest.fixture(scope="module")
def machines():
    return {name: machine.fit(X, Y) for name, machine in MACHINES.items()}


@pytest.fixture(params=MACHINES)
def named(request, machines):
    """The name of a machine, and the machine."""
    return request.param, machines[request.param]


@pytest.mark.parametrize("i", [0, 3, 8])
def test_terms_add_up(named, i):
    """A score is its base and one term for each feature, and that of the active face."""
    name, machine = named
    e, x = machine.explain(X.iloc[i]), X.iloc[i].to_numpy()
    assert e.label == machine.predict(X.iloc[[i]])[0]
    assert e.base + sum(term.amount for term in e.terms) == pytest.approx(e.score)
    assert e.score == pytest.approx(e.active_face.w @ x + e.active_face.b)
    assert len(e.terms) == len(NAMES)
    assert e.margin == pytest.approx(e.score / np.linalg.norm(e.active_face.w * X.to_numpy().std(axis=0)))
    if name != "of probabilities":
        sign = 1.0 if e.model.labels[1] == machine.classes_[1] else -1.0
        assert sign * machine.decision_function(X.iloc[[i]])[0] == pytest.approx(e.score)


@pytest.mark.parametrize("i", [0, 3, 8])
def test_way_out_is_the_nearest(named, i):
    """The point across is at the distance stated, is of the other class, and none of 400 is nearer."""
    name, machine = named
    e, x = machine.explain(X.iloc[i]), X.iloc[i].to_numpy()
    spread, way = e.model.spread, e.counterfactual
    assert np.linalg.norm((way.nearest.point - x) / spread) == pytest.approx(way.distance)
    assert np.linalg.norm([change.amount for change in way.changes]) == pytest.approx(way.distance)
    steps = np.random.default_rng(0).normal(size=(400, 5))
    steps *= 0.999 * way.distance / np.linalg.norm(steps, axis=1)[:, None]
    assert (e.model.scores(x + steps * spread) > 0.0).all() == e.is_beyond
    if name != "of probabilities":
        assert e.model.predict(way.crossing[None])[0] == e.other != e.label
        assert way.distance <= way.crossing_distance < way.distance + 1e-9
    assert e.certificate().claim is Claim.OPTIMAL


def test_held_and_bounded_features_stay(machines):
    """Held features do not move, others stay within bounds, and the way is no shorter."""
    x, free = X.iloc[0].to_numpy(), machines["one"].explain(X.iloc[0])
    bounds = X.min().to_numpy(), X.max().to_numpy()
    e = machines["one"].explain(X.iloc[0], held=["age", 4], bounds=bounds)
    point = e.counterfactual.nearest.point
    assert point[[0, 4]].tolist() == x[[0, 4]].tolist()
    assert (bounds[0] <= point).all()
    assert (point <= bounds[1]).all()
    assert e.counterfactual.distance >= free.counterfactual.distance


def test_no_way_is_told(machines):
    """If all features are held, no point of the other class is reached, which is proven."""
    nothing = machines["one"].explain(X.iloc[0], held=NAMES)
    assert nothing.counterfactual.nearest.point is None
    assert "No point of the other class can be reached" in nothing.text()
    assert nothing.to_dict()["nearest"]["distance"] is None
    assert nothing.certificate().claim is Claim.INFEASIBLE


def test_counts_are_of_model_without_face(named):
    """A face's role is counted by the model from which it is deleted."""
    e = named[1].explain_model()
    assert sum(share for _, share in e.shares) == pytest.approx(1.0)
    samples, subject = X.to_numpy(), e.model
    said, truth = subject.scores(samples) > 0.0, subject.labels[1] == Y
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
    active = [
        sum(role.active for role in e.faces if role.name[0] == d) for d in range(len(subject.polytopes))
    ]
    assert active == [len(Y)] * len(active)


def test_text_fits_and_dictionaries_are_json(named):
    """Text is of 80 columns without control characters, and counts what it leaves out."""
    name, machine = named
    e, whole = machine.explain(X.iloc[2], top=2), machine.explain_model(top=3)
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


HALF = Polytope(np.array([[1.0, 0.0]]), np.array([-1.0]))
COLUMNS = (Column("a", (0,)), Column("b", (1,)))


def by_half(samples):
    return np.where(samples[:, 0] > 1, "out", "in")


def test_single_face_is_explained():
    """A face alone in its polytope has all counts; a sample without data has its own units."""
    subject = DecisionModel((HALF,), "polytope", ("in", "out"), by_half, COLUMNS)
    whole = explain_model(subject, [[0.0, 0.0], [2.0, 0.0], [3.0, 1.0]])
    [role] = whole.faces
    assert (role.active, role.beyond, role.alone, role.changed) == (3, 2, 2, 2)
    assert whole.error is None
    assert whole.shares == (("a", 1.0), ("b", 0.0))
    e = explain_sample(subject, [0.25, 9.0])
    assert e.counterfactual.distance == pytest.approx(0.75)
    assert [(c.column, c.after) for c in e.counterfactual.changes] == [("a", pytest.approx(1.0))]
    assert "all are measured in their own units" in e.text()
    two = DecisionModel((HALF, HALF), "difference", ("in", "out"), by_half, COLUMNS)
    assert {role.changed for role in explain_model(two, [[0.0, 0.0]]).faces} == {None}


def test_union_is_left_through_every_piece():
    """From inside, the way out of a union leaves all pieces; from outside, it enters the nearest."""
    left = Polytope(np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0]))  # -1 to 1
    right = Polytope(np.array([[1.0], [-1.0]]), np.array([-3.0, 0.5]))  # 0.5 to 3

    def predict(samples):
        return np.where((samples[:, 0] >= -1.0) & (samples[:, 0] <= 3.0), "in", "out")

    subject = DecisionModel((left, right), "union", ("in", "out"), predict, COLUMNS[:1])
    inner, outer = explain_sample(subject, [0.75]), explain_sample(subject, [-4.0])
    assert inner.counterfactual.nearest.point == pytest.approx([-1.0])
    assert inner.counterfactual.distance == pytest.approx(1.75)
    assert outer.counterfactual.nearest.point == pytest.approx([-1.0])
    assert outer.active_face.name == (0, 1)
    assert "face 1 of piece 0" in outer.text()
    whole = explain_model(subject, [[0.0], [2.0], [5.0]])
    assert sum(role.active for role in whole.faces) == 3
    assert max(map(len, str(whole).split("\n"))) <= 80


def test_machine_without_data_explains(machines):
    """A copy without data explains a sample as before, and itself by samples that are given."""
    light = machines["two"].without_data()
    whole, bare = machines["two"].explain(X.iloc[4]), light.explain(X.iloc[4])
    assert bare.counterfactual.distance == whole.counterfactual.distance
    with pytest.raises(ValueError, match="holds no dense training data"):
        light.explain_model()
    assert light.explain_model(X).samples == len(X)


REFUSED = [
    ({"x": X.iloc[:2]}, "one sample at a time"),
    ({"held": ["wage"]}, "no feature 'wage' to hold; there are age, weight"),
    ({"held": [5]}, "no feature 5"),
    ({"top": 0}, "top must be an integer"),
    ({"bounds": (np.ones(5), np.zeros(5))}, "low must not be above high"),
]


@pytest.mark.parametrize(
    ("wrong", "sentence"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_impossible_questions_are_refused(machines, wrong, sentence):
    """Samples, features and bounds that do not fit are named."""
    with pytest.raises(ValueError, match=sentence):
        machines["one"].explain(**{"x": X.iloc[0], **wrong})


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_impossible_data_are_refused(machines):
    """Labels of another number, sparse samples and three classes are refused."""
    with pytest.raises(ValueError, match="y must have shape"):
        machines["one"].explain_model(X, Y[:3])
    with pytest.raises(ValueError, match="takes dense samples"):
        machines["one"].explain_model(sp.csr_array(X.to_numpy()))
    many = ConvexPolytopeMachine(1, solver="sgd", max_iter=5, random_state=0).fit(RAW, np.arange(90) % 3)
    with pytest.raises(ValueError, match="explanations are of two classes, and there are 3"):
        many.explain(RAW[0])


def test_each_face_is_drawn_with_its_weights(machines):
    """A panel of each face has its largest weights, in the order of the samples that it decides."""
    e = machines["one"].explain_model()
    panels = [axes for axes in face_weights(e, most=3).axes if axes.patches]
    roles = sorted(e.faces, key=lambda role: -role.active)
    assert len(panels) == len(roles)
    for axes, role in zip(panels, roles, strict=True):
        assert [bar.get_width() for bar in axes.patches] == [weight for _, weight in role.weights[:3]]
        assert axes.get_title(loc="left") == f"face {role.name[1]}, {role.active} samples"
        assert "2 others have" in axes.get_xlabel()
