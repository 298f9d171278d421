"""Probabilities of the machines with faces: calibrated on held-out samples, and never against predict."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from helpers.cases import in_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.utils import estimator_checks

from formulations.clock import current_clock
from polyopt import PCSLP, PLUME, SPLA1, ConvexPolytopeMachine, FaceSearch, Polyceptron
from polyopt.estimators.calibration import agreeing, calibrate
from polyopt.estimators.calibration_folds import folds_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MACHINES = {
    "cpm": ConvexPolytopeMachine(2, solver="sgd", max_iter=20, random_state=0),
    "cpm-inside": ConvexPolytopeMachine(2, solver="sgd", max_iter=20, inside_label="yes", random_state=0),
    "cpm-sides": ConvexPolytopeMachine(1, solver="sgd", max_iter=20, double_sided=True, random_state=0),
    "polyceptron": Polyceptron(2, n_init=1, max_iter=50, random_state=0),
    "pc-slp": PCSLP(1, random_state=0),
    "spla1": SPLA1(2, n_init=1, inside_label="no", random_state=0),
    "plume": PLUME(2, n_init=1, random_state=0),
    "plume-polytope": PLUME(2, n_init=1, decision="polytope", random_state=0),
}
ONE_FACE = PCSLP(1, random_state=0)  # a linear program, solved to its end


def drawn(n, seed=0, **more):
    settings = {"n_informative": 3, "n_redundant": 0, "flip_y": 0.15, "weights": [0.6], **more}
    X, y = make_classification(n, 4, random_state=seed, **settings)
    return X, np.where(y > 0, "yes", "no")


@pytest.fixture(scope="module")
def data():
    return drawn(60)


@pytest.fixture(scope="module")
def fitted(data):
    """Of each machine, itself without and with each curve."""
    found = {}
    for name, machine in MACHINES.items():
        found[name] = {
            how: clone(machine).set_params(calibration=how).fit(*data)
            for how in (None, "sigmoid", "isotonic")
        }
    return found


def agree(machine, X):
    p = machine.predict_proba(X)
    assert p.shape == (len(X), len(machine.classes_))
    assert np.allclose(p.sum(axis=1), 1.0)
    assert (p >= 0).all()
    assert np.array_equal(machine.classes_[p.argmax(axis=1)], machine.predict(X))
    return p


# -- what a calibration does to a machine ------------------------------------------------------------


@in_turn("how", ["sigmoid", "isotonic"])
def test_predict_is_the_more_probable_class_and_only_the_zero_of_the_scores_moves(how, fitted):
    X = np.random.default_rng(0).normal(size=(2000, 4)) * 2
    for name, machines in fitted.items():
        plain, machine = machines[None], machines[how]
        p, scores = agree(machine, X), machine.decision_function(X)
        assert machine.shift_, name
        assert scores + machine.shift_ == pytest.approx(plain.decision_function(X), abs=1e-9), name
        order = np.argsort(scores)
        assert (np.diff(p[order, 1]) >= 0).all(), name
        assert np.array_equal(p[:, 1] > 0.5, scores > 0), name
        if name == "pc-slp":
            own, other = plain.certificate(), machine.certificate()
            assert (own.primal_value, own.dual_value) == (other.primal_value, other.dual_value)


@in_turn("how", ["sigmoid", "isotonic"])
def test_the_polytope_is_what_predict_says(how, fitted):
    X = np.random.default_rng(1).normal(size=(500, 4)) * 2
    for name in ("cpm", "cpm-inside", "polyceptron", "pc-slp", "spla1", "plume-polytope"):
        machine, plain = fitted[name][how], fitted[name][None]
        inside = machine.polytope_.contains(X)
        assert np.array_equal(inside, machine.predict(X) == machine.inside_label_)
        move = machine.b_ - plain.b_
        assert move == pytest.approx(np.full(len(move), move[0]), abs=1e-12)
        assert abs(move[0]) == pytest.approx(abs(machine.shift_))
        assert np.array_equal(machine.W_, plain.W_)


def test_a_sample_on_the_boundary_has_a_probability_that_agrees(fitted):
    """A score of 0, and one so small that its sigmoid rounds to one half; either class inside."""
    tiny = np.array([[0.0, 0, 0, 0], [1e-300, 0, 0, 0], [-1e-300, 0, 0, 0], [1e-17, 0, 0, 0]])
    for name in ("cpm", "cpm-inside", "pc-slp", "spla1"):
        for how in ("sigmoid", "isotonic", None) if name == "spla1" else ("sigmoid", "isotonic"):
            machine = pickle.loads(pickle.dumps(fitted[name][how]))
            machine.W_, machine.b_ = np.eye(2, 4)[:1], np.zeros(1)
            p = agree(machine, tiny)
            assert p[0] == pytest.approx([0.5, 0.5]) or how == "isotonic"  # which may rise steeply there
            assert machine.predict(tiny)[0] == machine.classes_[0]


def test_without_it_nothing_is_there_and_bad_values_are_refused(data, fitted):
    machine = fitted["cpm"][None]
    assert not hasattr(machine, "predict_proba")
    assert machine.shift_ == 0.0
    assert machine.calibration_ is None
    assert not hasattr(ConvexPolytopeMachine(), "predict_proba")
    assert hasattr(ConvexPolytopeMachine(calibration="sigmoid"), "predict_proba")
    assert hasattr(SPLA1(), "predict_proba")
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'") as refused:
        machine.predict_proba(data[0])
    assert "calibration='sigmoid' or 'isotonic'" in str(refused.value.__cause__)
    with pytest.raises(ValueError, match="The 'calibration' parameter of PCSLP must be"):
        PCSLP(calibration="platt").fit(*data)
    with pytest.raises(ValueError, match="ties='random' is of votes"):
        ConvexPolytopeMachine(calibration="sigmoid", ties="random").fit(*data)
    with pytest.raises(ValueError, match="from which calibration moved the boundary"):
        fitted["cpm"]["sigmoid"].generalization_bound()
    assert not hasattr(fitted["cpm"]["sigmoid"], "partial_fit")
    again = clone(fitted["cpm"]["sigmoid"]).fit(*data).set_params(calibration=None)
    assert hasattr(again, "predict_proba")  # a parameter set later is for the next fit
    again.partial_fit(*data)
    assert again.shift_ == 0.0
    assert not hasattr(again, "predict_proba")


@pytest.mark.cases(0)
def test_probabilities_are_better_than_a_sigmoid_of_the_score():
    """On each of five sets for the sigmoid, and in the mean for the isotonic curve."""
    losses = []
    for seed in range(5):
        X, y = drawn(900, seed)
        plain = clone(ONE_FACE).fit(X[:300], y[:300])
        naive = expit(plain.decision_function(X[300:]))
        row = [log_loss(y[300:], naive)]
        for how in ("sigmoid", "isotonic"):
            machine = clone(ONE_FACE).set_params(calibration=how).fit(X[:300], y[:300])
            row.append(log_loss(y[300:], machine.predict_proba(X[300:])))
        losses.append(row)
    naive, sigmoid, isotonic = np.array(losses).T
    assert (sigmoid < naive).all()
    assert isotonic.mean() < naive.mean()


def test_the_curve_is_of_scores_that_scikit_learn_s_cross_validation_gives(data):
    """The same folds by ``cross_val_predict``, and Platt's sigmoid by logistic regression."""
    X, y = data
    machine = clone(ONE_FACE).set_params(calibration="sigmoid").fit(X, y)
    signs = np.where(y == "yes", 1.0, -1.0)
    scores = cross_val_predict(ONE_FACE, X, y, cv=folds_of(X, signs), method="decision_function")
    n = [np.sum(signs < 0), np.sum(signs > 0)]
    targets = np.where(signs > 0, (n[1] + 1) / (n[1] + 2), 1 / (n[0] + 2))
    both, labels = np.append(scores, scores)[:, None], np.repeat([1, 0], len(y))
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    regression.fit(both, labels, sample_weight=np.append(targets, 1 - targets))
    T = np.random.default_rng(2).normal(size=(50, 4))
    expected = regression.predict_proba(clone(ONE_FACE).fit(X, y).decision_function(T)[:, None])
    assert machine.predict_proba(T) == pytest.approx(expected, abs=1e-4)
    assert machine.calibration_.n_folds == 5


# -- weights, classes, folds -------------------------------------------------------------------------


@in_turn("how", ["sigmoid", "isotonic"])
def test_a_weight_is_so_many_copies_in_whatever_order(how, data):
    X, y = data
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 3, len(y))
    machine = clone(ONE_FACE).set_params(calibration=how).fit(X, y, sample_weight=weights)
    copies = rng.permutation(np.repeat(np.arange(len(y)), weights))
    other = clone(machine).fit(X[copies], y[copies])
    assert other.predict_proba(X) == pytest.approx(machine.predict_proba(X), abs=1e-5)
    assert other.shift_ == pytest.approx(machine.shift_, abs=1e-5)


def test_the_weights_of_classes_are_weights(data):
    X, y = data
    machine = SPLA1(1, random_state=0, calibration="sigmoid", class_weight={"no": 1.0, "yes": 3.0}).fit(X, y)
    other = SPLA1(1, random_state=0, calibration="sigmoid").fit(X, y, np.where(y == "yes", 3.0, 1.0))
    assert np.array_equal(machine.predict_proba(X), other.predict_proba(X))
    plain = SPLA1(1, random_state=0, calibration="sigmoid").fit(X, y)
    assert machine.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_features_are_named_in_the_folds_too(data):
    X, y = pd.DataFrame(data[0], columns=list("abcd")), data[1]
    machine = ConvexPolytopeMachine(1, solver="dual", signs={"b": 1}, calibration="sigmoid", random_state=0)
    machine.fit(X, y)
    assert machine.W_[0, 1] >= 0.0
    agree(machine, X)


def test_folds_are_of_the_samples_themselves(data):
    X, y = data
    signs = np.where(y == "yes", 1.0, -1.0)
    splits = folds_of(X, signs)
    assert sorted(np.concatenate([held for _, held in splits]).tolist()) == list(range(len(y)))
    reference = [np.sum(signs[held] > 0) for _, held in StratifiedKFold(5).split(X, signs)]
    assert sorted(np.sum(signs[held] > 0) for _, held in splits) == sorted(reference)
    order = np.random.default_rng(0).permutation(len(y))
    for (_, held), (_, other) in zip(splits, folds_of(X[order], signs[order]), strict=True):
        assert set(held.tolist()) == set(order[other].tolist())
    for (train, _), (other, _) in zip(splits, folds_of(sp.csr_array(X), signs), strict=True):
        assert np.array_equal(train, other)
    twice = np.tile(np.arange(len(y)), 2)
    for _, held in folds_of(X[twice], signs[twice]):
        assert np.array_equal(held[: len(held) // 2] + len(y), held[len(held) // 2 :])
    few = np.flatnonzero(signs > 0)[:3].tolist() + np.flatnonzero(signs < 0).tolist()
    assert len(folds_of(X[few], signs[few])) == 3
    assert all((signs[few][train] > 0).sum() == 2 for train, _ in folds_of(X[few], signs[few]))
    one = np.flatnonzero(signs > 0)[:1].tolist() + np.flatnonzero(signs < 0).tolist()
    assert folds_of(X[one], signs[one]) == []


def test_a_class_of_one_sample_and_scores_that_say_nothing_give_shares(data):
    X, y = data
    one = np.flatnonzero(y == "yes")[:1].tolist() + np.flatnonzero(y == "no").tolist()
    machine = clone(ONE_FACE).set_params(calibration="sigmoid")
    with pytest.warns(
        ConvergenceWarning, match=r"a class has one sample \(equal samples are one here\), so that"
    ):
        machine.fit(X[one], y[one])
    n = len(one) - 1
    share = (n / (n + 2) + 2 / 3) / (n + 1)
    p = agree(machine, X)
    assert p[machine.predict(X) == "no", 1] == pytest.approx(share)
    plain = clone(ONE_FACE).fit(X[one], y[one])
    assert np.array_equal(machine.predict(X), plain.predict(X))

    def falling(machines, X, y, *others):
        return -1e-6 * y

    for how in ("sigmoid", "isotonic"):
        machine = clone(ONE_FACE).set_params(calibration=how)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("polyopt.estimators.calibrated.held_out_scores", falling)
            with pytest.warns(ConvergenceWarning, match="scores of held-out samples do not rise"):
                machine.fit(X, y)
        p = agree(machine, X)
        assert np.ptp(p[machine.predict(X) == "no", 1]) == 0.0
        assert p[:, 1].min() == pytest.approx((y == "yes").mean(), abs=0.01)
        assert abs(machine.shift_) < 1.1e-6


@in_turn("how", ["sigmoid", "isotonic"])
def test_more_classes_are_decided_by_their_probabilities(how):
    X, y = load_iris(return_X_y=True)
    machine = clone(ONE_FACE).set_params(calibration=how).fit(X, y)
    T = np.random.default_rng(0).uniform(0, 7, size=(400, 4))
    p = agree(machine, T)
    assert machine.decision_function(T) == pytest.approx(np.log(p))
    assert log_loss(y, machine.predict_proba(X)) < 0.2
    assert all(part.shift_ for part in machine.estimators_)
    with pytest.raises(AttributeError, match="shift_ is of two classes"):
        _ = machine.shift_
    plain = clone(machine).set_params(calibration=None).fit(X, y)
    assert not hasattr(plain, "predict_proba")


# -- time, Ctrl-C, searches --------------------------------------------------------------------------


@in_turn("machine", [ONE_FACE, MACHINES["cpm"], MACHINES["cpm-sides"], SPLA1(1, random_state=0)])
def test_a_fit_that_is_stopped_in_a_fold_keeps_the_machine_and_says_so(machine, data):
    X, y = data
    plain = clone(machine).fit(X, y)
    machine = clone(machine).set_params(calibration="sigmoid")
    original, calls = type(machine)._fit_binary, []

    def stop_in_the_third(self, *arguments):
        calls.append(self)
        if len(calls) == 3:
            current_clock().stop()
        original(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(machine), "_fit_binary", stop_in_the_third)
        with pytest.warns(ConvergenceWarning, match="as Ctrl-C came"):
            machine.fit(X, y)
    assert len(calls) == 3
    assert np.array_equal(machine.decision_function(X), plain.decision_function(X))
    assert machine.shift_ == 0.0
    if isinstance(machine, SPLA1):
        assert np.array_equal(machine.predict_proba(X), plain.predict_proba(X))
    else:
        with pytest.raises(AttributeError) as refused:
            machine.predict_proba(X)
        assert "not calibrated: Ctrl-C came before the end of its folds" in str(refused.value.__cause__)


def test_a_limit_that_is_over_leaves_no_time_for_folds_of_any_pair(data):
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        machine = Polyceptron(1, n_init=1, time_limit=1e-9, calibration="sigmoid", random_state=0).fit(X, y)
    assert sum("not calibrated, as the time limit" in str(one.message) for one in told) == 1
    assert not hasattr(machine, "predict_proba")
    assert all(part.calibration_ is None for part in machine.estimators_)
    assert set(machine.predict(X)) <= set(y)


def test_a_search_has_the_probabilities_of_the_machine_it_chose(data):
    search = FaceSearch(clone(ONE_FACE).set_params(calibration="sigmoid"), n_faces=(1,), cv=2)
    assert hasattr(search, "predict_proba")
    assert not hasattr(FaceSearch(ONE_FACE), "predict_proba")
    search.fit(*data)
    assert np.array_equal(search.predict_proba(data[0]), search.best_estimator_.predict_proba(data[0]))


# -- the curves ----------------------------------------------------------------------------------------


@st.composite
def scored(draw):
    """Scores on a grid, with ties, of any scale and place; labels of both classes; weights."""
    n = draw(st.integers(2, 12))
    grid = draw(st.lists(st.integers(-4, 4), min_size=n, max_size=n))
    second = draw(st.lists(st.booleans(), min_size=n, max_size=n).filter(lambda s: 0 < sum(s) < len(s)))
    weights = draw(st.lists(st.sampled_from([1.0, 2.0, 0.5, 100.0]), min_size=n, max_size=n))
    scale, place = draw(st.sampled_from([1.0, 1e-9, 1e9])), draw(st.sampled_from([0.0, 1.0, -30.0]))
    return scale * (np.array(grid) + place), np.array(second), np.array(weights)


@settings(max_examples=60, deadline=None)
@given(scored(), st.sampled_from(["sigmoid", "isotonic"]))
def test_a_curve_rises_passes_one_half_at_zero_and_has_no_units(samples, how):
    scores, second, weights = samples
    curve = calibrate(scores, second, weights, how, 5)
    width = np.ptp(scores) or 1.0
    line = np.concatenate([np.linspace(-2, 2, 81) * width, scores - curve.shift, [0.0]])
    line.sort()
    p = agreeing(curve.probability(line), line > 0)
    assert (np.diff(p) >= 0).all()
    assert (p > 0).all()
    assert (p < 1).all() or how == "sigmoid"  # which rounds to 1 far away
    assert np.array_equal(p > 0.5, line > 0)
    within = (line > scores.min() - curve.shift) & (line < scores.max() - curve.shift)
    assert p[within] == pytest.approx(curve.probability(line)[within], abs=1e-6)
    other = calibrate(scores * 1024.0, second, weights, how, 5)
    assert other.shift == pytest.approx(1024.0 * curve.shift, rel=1e-6)
    assert other.probability(1024.0 * line) == pytest.approx(curve.probability(line), abs=1e-6)


def test_the_isotonic_curve_is_scikit_learn_s_but_for_its_ends():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=200)
    second = rng.random(200) < expit(2 * scores + 1)
    curve = calibrate(scores, second, np.ones(200), "isotonic", 5)
    plain = IsotonicRegression(out_of_bounds="clip").fit(scores, second).predict(np.linspace(-3, 3, 99))
    low, high = 1 / (np.sum(~second) + 2), (np.sum(second) + 1) / (np.sum(second) + 2)
    assert curve.probability(np.linspace(-3, 3, 99) - curve.shift) == pytest.approx(
        low + (high - low) * plain
    )


# -- scikit-learn's conventions --------------------------------------------------------------------------


def test_the_conventions_that_know_of_probabilities_and_weights_hold():
    """All of them hold; these are those that a calibration could break, but for weights, which are above."""
    names = {"check_classifiers_train", "check_decision_proba_consistency", "check_fit2d_1sample"}
    machine, tried = SPLA1(1, calibration="isotonic", random_state=0), set()
    for estimator, check in estimator_checks.estimator_checks_generator(machine):
        name = getattr(check, "func", check).__name__
        if name in names:
            check(estimator)
            tried.add(name)
    assert tried == names
