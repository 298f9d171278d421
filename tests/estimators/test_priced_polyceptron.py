"""The Polyceptron with a price and signs: zeros, monotone decisions, duals, names, and what is refused."""

from __future__ import annotations

import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.cases import in_turn
from helpers.conventions import broken_conventions
from sklearn.base import clone

from polyopt import Claim, Polyceptron

NAMES = ["age", "size", "noise", "red", "green", "blue"]
ASKED = {"l1": 1.5, "signs": {"age": -1, "size": -1}, "n_init": 2, "random_state": 0}


@pytest.fixture(scope="module")
def frame():
    """Inside of a corner of age and size; noise, and one column for each of three colours."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(120, 3)), np.eye(3)[rng.integers(0, 3, 120)]])
    inside = np.minimum(0.5 - X[:, 0] + X[:, 3], 0.7 - X[:, 1]) + 0.2 * rng.normal(size=120) > 0
    return pd.DataFrame(X, columns=NAMES), np.where(inside, "well", "ill")


@pytest.fixture(scope="module")
def machine(frame):
    return Polyceptron(2, **ASKED).fit(*frame)


def test_a_sparse_fit_is_proven_and_says_what_it_uses(machine, frame):
    certificate = machine.certificate()
    assert certificate.claim is Claim.STATIONARY
    assert certificate.relative_gap < 1e-9
    assert certificate.primal_value == pytest.approx(machine.solution_.objective, rel=1e-12)
    used = (machine.W_ != 0).any(axis=0)
    assert machine.features_.tolist() == np.flatnonzero(used).tolist()
    assert 0 < machine.n_nonzero_ == np.count_nonzero(machine.W_) < machine.W_.size
    assert machine.score(*frame) > 0.9
    assert machine.solver_ == "highs"


def test_the_programs_and_their_duals_in_highs_agree_on_one_face(frame):
    """Which has one optimum; with more the two may go from vertex to vertex by other ways."""
    both = [
        Polyceptron(1, solver=each, l1=1.0, signs={"age": -1}).fit(*frame).certificate()
        for each in ("exact", "highs")
    ]
    assert both[0].claim is both[1].claim is Claim.OPTIMAL
    assert both[0].primal_value == pytest.approx(both[1].primal_value, rel=1e-9)


def test_no_score_rises_with_a_feature_of_sign_minus_or_falls_with_one_of_sign_plus(machine, frame):
    turned = Polyceptron(3, l1=0.3, signs={"noise": 1, "red": 1}, n_init=1, random_state=0).fit(*frame)
    assert turned.solver_ == "highs"
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(300, 6))
    for fitted, features, sign in ((machine, (0, 1), -1), (turned, (2, 3), 1)):
        for feature in features:
            more = X.copy()
            more[:, feature] += rng.exponential(size=300)
            before, after = (
                fitted.decision_function(pd.DataFrame(each, columns=NAMES)) for each in (X, more)
            )
            assert (sign * (after - before) >= 0).all()
            assert (fitted.W_[:, feature] * sign >= 0).all()
        assert fitted.W_[:, list(features)].any()


def test_signs_are_of_the_later_class_whichever_is_inside(frame):
    X, y = frame
    turned = Polyceptron(2, l1=0.5, signs={"age": -1}, inside_label="ill", n_init=1, random_state=0).fit(X, y)
    more = X.assign(age=X["age"] + 1.0)
    assert (turned.decision_function(more) <= turned.decision_function(X)).all()
    assert (turned.W_[:, 0] >= 0).all()  # positive inside, where the earlier class is
    assert turned.certificate().claim is Claim.STATIONARY


def test_duals_have_rows_for_prices_and_signs(machine):
    duals = machine.duals_
    W = pd.DataFrame(machine.W_, columns=NAMES).stack()
    rows = {name: part.set_index(["face", "feature"]) for name, part in duals.groupby("row")}
    assert set(rows) == {"margin", "upper", "lower", "sign"}
    held = rows["upper"].multiplier - rows["lower"].multiplier
    assert held.abs().max() <= 1.5
    for place, weight in W.items():
        if weight:
            assert held[place] == pytest.approx(1.5 * np.sign(weight), rel=1e-9)
        assert rows["upper"].output[place] == weight
    assert set(rows["sign"].index.get_level_values("feature")) == {"age", "size"}
    assert (rows["sign"].multiplier >= 0).all()
    assert (rows["sign"].multiplier * rows["sign"].output == 0).all()
    margins = duals[duals["row"] == "margin"]
    assert margins.multiplier.sum() == pytest.approx(machine.solution_.objective, rel=1e-9)  # no box holds


def test_groups_of_columns_come_and_go_together_and_are_proven(frame):
    groups = [["red", "green", "blue"]]
    found = Polyceptron(2, group=9.0, feature_groups=groups, n_init=2, random_state=0).fit(*frame)
    assert found.solver_ == "exact"
    assert found.certificate().claim is Claim.STATIONARY
    used = (found.W_ != 0).any(axis=0)
    assert used[3:].all() or not used[3:].any()
    assert 0 < used.sum() < 6
    duals = found.duals_
    assert set(duals.row) == {"margin", "group"}
    held = duals[duals.row == "group"].set_index(["feature", "face"]).multiplier
    for own in (*groups, ["age"], ["size"], ["noise"]):
        length = float(np.linalg.norm(held.loc[own]))
        in_use = used[[NAMES.index(name) for name in own]].any()
        assert length == pytest.approx(9.0, rel=1e-6) if in_use else length < 9.0


def test_a_price_above_every_worth_leaves_nothing_and_says_so(frame):
    with pytest.warns(UserWarning, match=r"no feature is worth its price at l1=1000000\.0, group=0\.0: one"):
        found = Polyceptron(2, l1=1e6, n_init=1, random_state=0).fit(*frame)
    assert found.features_.tolist() == []
    assert found.n_nonzero_ == 0
    assert found.certificate().claim is Claim.STATIONARY
    assert len(set(found.predict(frame[0]))) == 1
    told = " ".join(str(found.explain(frame[0].iloc[[0]])).split())
    assert "Face 0 answers: it has no weights, and its score is -1 whatever the sample" in told


def test_pairs_of_classes_take_names_and_models_keep_their_answers(machine, frame):
    X, y = frame
    for again in (machine.without_data(), pickle.loads(pickle.dumps(machine)), clone(machine).fit(X, y)):
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
        assert again.features_.tolist() == machine.features_.tolist()
    three = np.where(X["noise"] > 0.8, "other", y)
    several = clone(machine).set_params(n_init=1).fit(X, three)
    duals = several.duals_
    assert set(duals[duals["sample"] == -1].row) == {"upper", "lower", "sign"}
    assert several.n_nonzero_ == sum(np.count_nonzero(part.W_) for part in several.estimators_)
    assert several.certificate().claim is Claim.STATIONARY


HOMOGENEOUS = "need solver='highs' or 'exact', not {}: the criterion .* is homogeneous, so that .* W = 0"
REFUSED = [
    ({"l1": 1.0, "solver": "batch"}, HOMOGENEOUS.format("solver='batch'")),
    ({"signs": {"age": 1}, "solver": "online"}, HOMOGENEOUS.format("solver='online'")),
    ({"group": 1.0, "solver": "batch"}, HOMOGENEOUS.format("solver='batch'")),
    ({"group": 1.0, "solver": "highs"}, "group needs solver='exact', not 'highs': it leaves no linear"),
    ({"group": -1.0}, "group must be at least 0"),
    ({"group": 1.0, "feature_groups": [["red", "weight"]]}, "feature_groups names the feature 'weight'"),
    ({"l1": -1.0}, "l1 must be at least 0"),
    ({"l1": np.nan}, "l1 must be"),
    ({"l1": np.inf}, "l1 must be"),
    ({"signs": {"weight": 1}}, "signs names the feature 'weight', but the features are age, size"),
    ({"signs": [1, 0]}, "one entry for each of the 6"),
    ({"signs": {"age": 2}}, r"signs must be -1, 0 or \+1, not 2"),
]


@in_turn("given,sentence", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(frame, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        Polyceptron(2, **given).fit(*frame)


def test_streams_have_neither_prices_nor_signs(frame):
    X, y = frame
    streamed = Polyceptron(2, random_state=0).partial_fit(X, y)
    for machine in (Polyceptron(2, l1=1.0), streamed.set_params(signs={"age": 1})):
        with pytest.raises(AttributeError) as raised:
            machine.partial_fit(X, y)
        assert re.search(HOMOGENEOUS.format("partial_fit"), str(raised.value.__cause__))
        assert not hasattr(machine, "partial_fit")


def test_signs_of_zero_and_no_price_change_nothing(frame):
    one = Polyceptron(2, n_init=1, random_state=0).fit(*frame)
    other = Polyceptron(2, signs={"age": 0}, n_init=1, random_state=0).fit(*frame)
    assert other.solver_ == one.solver_ == "batch"
    np.testing.assert_array_equal(one.W_, other.W_)


def test_a_limit_of_time_keeps_a_point_of_the_right_signs(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Polyceptron(2, l1=1.0, signs={"age": -1}, time_limit=1e-9, random_state=0).fit(*frame)
    assert (found.W_[:, 0] <= 0).all()
    assert np.isfinite(found.certificate().primal_value)
    rows = set(found.duals_.row)
    assert {"margin", "upper", "lower", "sign"} == rows


@pytest.mark.cases(0)
def test_check_estimator_has_no_failure_with_a_price():
    assert broken_conventions(Polyceptron(2, l1=0.01, n_init=1, max_iter=50)) == {}
