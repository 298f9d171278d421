"""Sparse and monotone faces of SPLA1 and PLUME: zeros, proofs, signs, names, duals, refusals."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from helpers.cases import in_turn
from helpers.conventions import broken_conventions
from sklearn.base import clone

from formulations import spla1_sparse
from formulations.face_penalty import FacePenalty
from formulations.polyhedral import hard_loss
from polyopt import PLUME, SPLA1, Claim, sensitivities

NAMES = ["age", "size", "noise", "red", "green", "blue"]
ASKED = {
    "l1": 1.5, "group": 1.0, "feature_groups": [["red", "green", "blue"]], "signs": {"age": -1, "size": -1},
    "n_init": 2, "random_state": 0,
}  # fmt: skip
MACHINES = {
    "spla1": lambda **given: SPLA1(2, **{"positives": "all", "ridge": 0.1} | given),
    "plume": lambda **given: PLUME(2, **{"decision": "polytope", "ridge": 0.1} | given),
}


@pytest.fixture(scope="module")
def frame():
    """Inside of a corner of age and size; noise, and one column for each of three colours."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(120, 3)), np.eye(3)[rng.integers(0, 3, 120)]])
    inside = np.minimum(0.5 - X[:, 0] + X[:, 3], 0.7 - X[:, 1]) + 0.2 * rng.normal(size=120) > 0
    return pd.DataFrame(X, columns=NAMES), np.where(inside, "well", "ill")


@pytest.fixture(scope="module", params=MACHINES)
def machine(request, frame):
    return MACHINES[request.param](**ASKED).fit(*frame)


def test_a_sparse_fit_is_proven_and_says_what_it_uses(machine, frame):
    certificate = machine.certificate()
    assert certificate.claim is Claim.STATIONARY
    assert certificate.relative_gap < 1e-6
    used = (machine.W_ != 0).any(axis=0)
    assert machine.features_.tolist() == np.flatnonzero(used).tolist()
    assert 0 < machine.n_nonzero_ == np.count_nonzero(machine.W_) < machine.W_.size
    assert machine.score(*frame) > 0.8


def test_by_the_paper_s_rule_it_is_proven_for_the_cells_that_its_faces_were_fitted_to():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.minimum(0.6 - X[:, 0], 0.8 - X[:, 1]) + 0.5 * rng.normal(size=60) > 0
    fitted = SPLA1(3, l1=0.3, n_init=1, random_state=0).fit(X, y)
    W, cell, signs = fitted.solution_["W"], fitted.solution_["assignment"], np.where(y, 1.0, -1.0)
    own = np.column_stack([X, np.ones(60)]) @ W.T
    moved = int((own[np.arange(60), cell] > own.min(axis=1) + 1e-6).sum())
    assert moved == 17
    proof = fitted.certificate()
    assert proof.relative_gap < 1e-9
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert f"{moved} of 60 samples have a lower score at another face" in proof.sentence
    loss = hard_loss(X, signs, W, ridge=0.1) + 0.3 * np.abs(W[:, :-1]).sum()
    assert f"the loss is {loss:.6g}." in proof.sentence
    assert fitted.solution_.objective == pytest.approx(loss)
    # The explicit program of these cells has that optimum, and the multipliers are of them.
    penalty = FacePenalty.of(3, l1=0.3)
    program = spla1_sparse.fixed_cells(X, signs, len(W), cell, np.ones(60), 0.1, penalty=penalty)
    assert program.solve("CLARABEL").objective == pytest.approx(proof.primal_value, rel=1e-7)
    rows = fitted.duals_[fitted.duals_["row"] == "margin"]
    assert rows["face"].tolist() == cell.tolist()
    pulls = np.zeros((60, len(W)))
    pulls[np.arange(60), cell] = signs * rows["multiplier"]
    assert penalty.shrunk(pulls.T @ np.column_stack([X, np.ones(60)])) / 0.1 == pytest.approx(W, abs=1e-6)


def test_a_decision_never_rises_with_a_feature_that_may_not(machine):
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(300, 6))
    for feature in (0, 1):
        more = X.copy()
        more[:, feature] += rng.exponential(size=300)
        frames = [pd.DataFrame(each, columns=NAMES) for each in (X, more)]
        before, after = map(machine.decision_function, frames)
        assert (after <= before).all()
        assert (after < before).any()


def test_signs_are_of_the_later_class_whichever_is_inside(frame):
    X, y = frame
    turned = MACHINES["spla1"](l1=0.5, signs={"age": -1}, inside_label="ill", n_init=1, random_state=0)
    turned.fit(X, y)
    more = X.assign(age=X["age"] + 1.0)
    assert (turned.decision_function(more) <= turned.decision_function(X) + 1e-12).all()
    assert (turned.W_[:, 0] >= 0).all()  # positive inside, where the earlier class is


def test_duals_have_rows_for_prices_and_signs(machine):
    duals = machine.duals_
    W = pd.DataFrame(machine.W_, columns=NAMES).stack()
    rows = {name: part.set_index(["face", "feature"]) for name, part in duals.groupby("row")}
    held = rows["upper"].multiplier - rows["lower"].multiplier
    assert held.abs().max() <= 1.5
    for place, weight in W.items():
        if weight:
            assert held[place] == pytest.approx(1.5 * np.sign(weight), rel=1e-9)
        assert rows["upper"].output[place] == weight
    lengths = rows["group"].multiplier.unstack()
    assert np.sqrt((lengths[["red", "green", "blue"]] ** 2).sum().sum()) <= 1.0 + 1e-9
    assert set(rows["sign"].index.get_level_values("feature")) == {"age", "size"}
    assert (rows["sign"].multiplier >= 0).all()
    assert (duals[duals["sample"] >= 0].row.isin(["margin", "score"])).all()


@pytest.mark.parametrize("name", MACHINES)
def test_the_program_and_the_steps_agree_on_one_face(frame, name):
    X, y = frame
    given = {"l1": 2.0, "group": 1.0, "signs": {"noise": 1}, "n_faces": 1}
    both = [MACHINES[name](solver=each).set_params(**given).fit(X, y) for each in ("exact", "newton")]
    one, other = (each.certificate(tol=1e-6) for each in both)
    assert (one.claim, other.claim) == (Claim.OPTIMAL, Claim.OPTIMAL)
    assert one.primal_value == pytest.approx(other.primal_value, rel=1e-7)
    assert ((both[0].W_ != 0) == (both[1].W_ != 0)).all()


def test_a_price_above_every_worth_leaves_nothing_and_says_so(frame):
    for make in MACHINES.values():
        with pytest.warns(UserWarning, match="every weight is zero, as no feature is worth its price"):
            found = make(l1=1e6, n_init=1, random_state=0).fit(*frame)
        assert found.features_.tolist() == []
        assert found.certificate().claim in (Claim.STATIONARY, Claim.OPTIMAL)


def test_pairs_of_classes_take_names_and_models_keep_their_answers(machine, frame):
    X, y = frame
    for again in (machine.without_data(), pickle.loads(pickle.dumps(machine)), clone(machine).fit(X, y)):
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
        assert again.features_.tolist() == machine.features_.tolist()
    three = np.where(X["noise"] > 0.8, "other", y)
    several = clone(machine).set_params(n_init=1).fit(X, three)
    duals = several.duals_
    assert set(duals[duals["sample"] == -1].row) == {"upper", "lower", "group", "sign"}
    assert duals[duals["sample"] == -1].label.isna().all()
    assert duals[duals["sample"] >= 0].label.notna().all()
    assert several.n_nonzero_ == sum(np.count_nonzero(part.W_) for part in several.estimators_)


REFUSED = [
    ("spla1", {"l1": 1.0, "solver": "bfgs"}, "need solver='newton' or 'exact'"),
    ("plume", {"group": 1.0, "solver": "gradient"}, "'gradient' is for what is smooth"),
    ("plume", {"l1": 1.0, "ridge": 0.0}, "need a positive ridge"),
    ("plume", {"signs": {"age": 1}, "decision": "posterior"}, "signs need decision='polytope'"),
    ("spla1", {"l1": -1.0}, "l1 must be"),
    ("spla1", {"signs": {"weight": 1}}, "signs names the feature 'weight', but the features are age, size"),
    ("plume", {"l1": 1.0, "feature_groups": [["age", "age"]]}, "feature 0 is in two"),
]


@in_turn("name,given,sentence", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(frame, name, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        MACHINES[name](**given).fit(*frame)


def test_a_limit_of_time_keeps_a_point_of_the_right_signs(frame):
    for make in MACHINES.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make(l1=1.0, signs={"age": -1}, time_limit=1e-9, random_state=0).fit(*frame)
        assert (found.W_[:, 0] <= 0).all()
        assert np.isfinite(found.certificate().primal_value)


@pytest.mark.cases(0)
def test_check_estimator_has_no_failure_with_a_price():
    assert broken_conventions(SPLA1(2, l1=0.01, n_init=1, max_iter=10, positives="all")) == {}


def test_slopes_are_those_of_the_optimum(frame):
    X, y = frame

    def fit(**given):
        return SPLA1(1, **{"ridge": 0.5, "l1": 2.0, "group": 1.0} | given).fit(X, y)

    found = sensitivities(fit()).set_index("parameter")
    assert set(found.index) == {"ridge", "l1", "group"}
    for name, one in found.iterrows():
        ends = [fit(**{name: one.value + step}).certificate().primal_value for step in (-1e-3, 1e-3)]
        assert (ends[1] - ends[0]) / 2e-3 == pytest.approx(one.derivative, rel=1e-4)
