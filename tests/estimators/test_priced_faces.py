"""Sparse and monotone polytopes as a person asks for them: parameters, names, zeros, proofs, refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.conventions import broken_conventions
from sklearn.base import clone

from polyopt import Claim, ConvexPolytopeMachine, FacePenalty, sensitivities

CPM = ConvexPolytopeMachine
NAMES = ["age", "size", "noise", "red", "green", "blue"]


@pytest.fixture(scope="module")
def frame():
    """Two groups outside along age and size, noise, and one column for each of three colours."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(120, 3)), np.eye(3)[rng.integers(0, 3, 120)]])
    y = np.where(np.maximum(X[:, 0] - X[:, 3], X[:, 1]) + 0.2 * rng.normal(size=120) > 0.5, "ill", "healthy")
    return pd.DataFrame(X, columns=NAMES), y[:]


@pytest.fixture(scope="module")
def machine(frame):
    return CPM(
        2,
        penalty=FacePenalty(
            l1=1.5, group=1.0, feature_groups=[["red", "green", "blue"]], signs={"age": +1, "size": +1}
        ),
        n_init=2, random_state=0,
    ).fit(*frame)  # fmt: skip


def test_a_sparse_fit_is_proven_and_says_what_it_uses(machine, frame):
    assert machine.solver_ == "dual"
    certificate = machine.certificate()
    assert certificate.claim is Claim.STATIONARY
    assert certificate.relative_gap < 1e-6
    used = (machine.W_ != 0).any(axis=0)
    assert machine.features_.tolist() == np.flatnonzero(used).tolist()
    assert 0 < machine.n_nonzero_ == np.count_nonzero(machine.W_) < machine.W_.size
    assert used[3:].all() or not used[3:].any()
    assert machine.score(*frame) > 0.8
    multipliers = machine.duals_
    assert (multipliers[multipliers.row == "margin"].multiplier >= 0).all()


def test_duals_have_rows_for_prices_and_signs(machine):
    duals = machine.duals_
    rows = {name: part.set_index(["face", "feature"]) for name, part in duals.groupby("row")}
    held = rows["upper"].multiplier - rows["lower"].multiplier
    assert held.abs().max() <= 1.5
    for place, weight in pd.DataFrame(machine.W_, columns=NAMES).stack().items():
        assert rows["upper"].output[place] == weight
        if weight:
            assert held[place] == pytest.approx(1.5 * np.sign(weight), rel=1e-4)
    lengths = rows["group"].multiplier.unstack()
    assert np.sqrt((lengths[["red", "green", "blue"]] ** 2).sum().sum()) <= 1.0 + 1e-9
    assert set(rows["sign"].index.get_level_values("feature")) == {"age", "size"}
    assert (rows["sign"].multiplier >= 0).all()
    assert (duals[duals["sample"] >= 0].row.isin(["margin", "slack"])).all()


def test_a_decision_never_falls_with_a_feature_that_may_not(machine):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(500, 6))
    for feature in (0, 1):
        more = X.copy()
        more[:, feature] += rng.exponential(size=500)
        frames = [pd.DataFrame(each, columns=NAMES) for each in (X, more)]
        before, after = map(machine.decision_function, frames)
        assert (after >= before).all()
        assert (after > before).any()


@pytest.mark.parametrize("given", [{"inside_label": "ill"}, {"inside_label": "both"}])
def test_signs_are_of_the_later_class_wherever_it_is(frame, given):
    X, y = frame
    machine = CPM(
        2, penalty=FacePenalty(l1=0.5, signs={0: +1, 1: -1}), n_init=1, random_state=0, **given
    ).fit(X, y)
    for feature, sign in ((0, 1), (1, -1)):
        more = X.copy()
        more.iloc[:, feature] += 1.0
        change = sign * (machine.decision_function(more) - machine.decision_function(X))
        assert (change >= -1e-12).all()
    parts = machine.sides_ if given["inside_label"] == "both" else [machine]
    assert all(part.certificate().claim is Claim.STATIONARY for part in parts)
    assert machine.n_nonzero_ == sum(np.count_nonzero(part.W_) for part in parts)


def test_exact_and_dual_agree_where_there_is_one_assignment(frame):
    X, y = frame
    found = [
        CPM(1, penalty=FacePenalty(l1=2.0, group=1.0, signs={"noise": 1}), solver=solver).fit(X, y)
        for solver in ("exact", "dual")
    ]
    one, other = (each.certificate() for each in found)
    assert (one.claim, other.claim) == (Claim.OPTIMAL, Claim.OPTIMAL)
    assert one.primal_value == pytest.approx(other.primal_value, rel=1e-7)
    assert ((found[0].W_ != 0) == (found[1].W_ != 0)).all()
    assert found[0].W_ == pytest.approx(found[1].W_, abs=1e-4)
    csr = CPM(1, penalty=FacePenalty(l1=2.0, group=1.0, signs={2: 1}), solver="dual").fit(
        sp.csr_array(X.to_numpy()), y
    )
    assert csr.W_ == pytest.approx(found[1].W_, abs=1e-5)


def test_slopes_are_those_of_the_optimum(frame):
    X, y = frame

    def fit(**given):
        return CPM(1, given.pop("C", 1.0), penalty=FacePenalty(**{"l1": 2.0, "group": 1.0} | given)).fit(X, y)

    found = sensitivities(fit()).set_index("parameter")
    assert set(found.index) == {"C", "l1", "group"}
    for name, one in found.iterrows():
        ends = [fit(**{name: one.value + step}).certificate().primal_value for step in (-1e-3, 1e-3)]
        assert (ends[1] - ends[0]) / 2e-3 == pytest.approx(one.derivative, rel=1e-4)


def test_a_price_above_every_worth_leaves_nothing_and_says_so(frame):
    with pytest.warns(UserWarning, match="every weight is zero at the penalty"):
        machine = CPM(2, penalty=FacePenalty(l1=1e6), n_init=1, random_state=0).fit(*frame)
    assert machine.features_.tolist() == []
    assert machine.n_nonzero_ == 0
    assert len(set(machine.predict(frame[0]))) == 1
    assert machine.certificate().claim is Claim.STATIONARY
    assert machine.polytope_.redundant.all()


def test_without_a_price_nothing_is_different(frame):
    X, y = frame
    plain = CPM(2, n_init=2, random_state=0).fit(X, y)
    named = CPM(
        2, n_init=2, random_state=0, penalty=FacePenalty(feature_groups=[["red", "blue"]], signs={"age": 0})
    ).fit(X, y)
    assert plain.solver_ == named.solver_ == "exact"
    np.testing.assert_array_equal(plain.W_, named.W_)


def test_pairs_of_classes_take_names_and_models_keep_their_answers(frame, machine):
    X, y = frame
    three = np.where(X["noise"] > 0.8, "other", y)
    several = CPM(2, penalty=FacePenalty(l1=1.0, signs={"age": 1}), n_init=1, random_state=0).fit(X, three)
    assert several.n_nonzero_ == sum(np.count_nonzero(part.W_) for part in several.estimators_)
    light = machine.without_data()
    for again in (light, pickle.loads(pickle.dumps(machine)), clone(machine).fit(X, y)):
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
        assert again.features_.tolist() == machine.features_.tolist()


REFUSED = [
    ({"penalty__l1": -1.0}, "l1 must be"),
    ({"penalty__l1": 1.0, "solver": "global"}, "need solver='exact' or 'dual', not 'global'"),
    ({"penalty__l1": 1.0, "loss": "max"}, "need loss='sum' and margin='total', not loss='max'"),
    ({"penalty__l1": 1.0, "penalty__margin": "worst"}, "need loss='sum' and margin='total'"),
    ({"penalty__l1": 1.0, "solver": "sgd"}, "need solver='exact' or 'dual', not 'sgd'"),
    ({"penalty__l1": 1.0, "penalty__max_features": 2}, "excludes a penalty"),
    ({"penalty__l1": 1.0, "sgd__perplexity": 1.5}, "perplexity=1.5 needs"),
    ({"penalty__signs": {"weight": 1}}, "signs names the feature 'weight', but the features are age, size"),
    ({"penalty__signs": {"age": 3}}, "signs must be -1, 0 or"),
    ({"penalty__signs": [1, 1]}, "one entry for each of the 6"),
    ({"penalty__l1": 1.0, "penalty__feature_groups": [["age", "age"]]}, "feature 0 is in two"),
    ({"penalty__l1": 1.0, "penalty__feature_groups": [1, 2]}, "a label for each of the 6 features"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(frame, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        CPM(2).set_params(**given).fit(*frame)


def test_names_need_names_and_streams_have_no_price(frame):
    X, y = frame
    with pytest.raises(ValueError, match=r"the training data have no names.*set_output"):
        CPM(2, penalty=FacePenalty(signs={"age": 1})).fit(X.to_numpy(), y)
    with pytest.raises(ValueError, match="no l1, group or signs"):
        CPM(2, penalty=FacePenalty(l1=1.0)).partial_fit(X, y)


def test_a_limit_of_time_keeps_a_point(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = CPM(3, penalty=FacePenalty(l1=1.0), time_limit=1e-9, random_state=0).fit(*frame)
    assert machine.W_.shape == (3, 6)
    assert np.isfinite(machine.certificate().primal_value)


def test_check_estimator_has_no_failure_with_a_price():
    found = broken_conventions(CPM(1, penalty=FacePenalty(l1=0.01), solver="dual", max_iter=10))
    # What streams is the solver without a price alone.
    assert {name for name, error in found.items() if "partial_fit is Algorithm 1" not in str(error)} == set()
