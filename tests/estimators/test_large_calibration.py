"""Folds in place, and probabilities of machines whose samples are read by blocks."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.blocks import ROWS, fold_of, weighted_blobs
from helpers.cases import few
from sklearn.exceptions import ConvergenceWarning

from polyopt import large
from polyopt.estimators.calibration import calibrate
from polyopt.large.held import Here
from polyopt.large.sieve import Sieve


@pytest.fixture(scope="module")
def data():
    return weighted_blobs(separation=1.2, seed=0)


@pytest.fixture(scope="module")
def three(data):
    X, y, _ = data
    return np.where(X[:, 0] > 1.0, "other", y)


def fitted(hands, machine):
    from formulations.clock import Run

    machine._fit(hands, Run(), None, None)
    return machine


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_fold_in_place_is_the_samples_without_its_rows_to_the_bit(form, data):
    X, y, weights = data
    hands = Here(large.Arrays(form(X), y, weights, rows=ROWS))
    out = fold_of(len(y)) == 2
    for is_held, kept in ((False, ~out), (True, out)):
        some = hands.sieved(Sieve(2, 5, is_held=is_held))
        blocks = [np.flatnonzero(kept[k : k + ROWS]) + k for k in range(0, len(y), ROWS)]
        copied = large.Generated(lambda k, b=blocks: (form(X[b[k]]), y[b[k]], weights[b[k]]), len(blocks))
        machine = large.RelativeMarginMachine(B=1.5, class_weight="balanced", max_iter=6)
        here, there = fitted(some, machine._like()), fitted(Here(copied), machine)
        assert here.coef_.tobytes() + here.intercept_.tobytes() == there.coef_.tobytes() + (
            there.intercept_.tobytes()
        )
        assert here.certificate() == there.certificate()
    assert sum(each.weights.sum() for each in hands.look()) == pytest.approx(weights.sum())
    # A sieve behind another: only rows that pass both.
    both = hands.sieved(Sieve(2, 5)).sieved(Sieve(1, 3, is_held=True)).look()
    kept = ~out & (fold_of(len(y), 3) == 1)
    assert sum(each.weights.sum() for each in both) == pytest.approx(weights[kept].sum())


def held_out(machine, X, y, weights):
    """Scores by machines of the other folds, in memory."""
    folds, scores = fold_of(len(y)), np.zeros(len(y))
    blocks = [np.arange(k, min(k + ROWS, len(y))) for k in range(0, len(y), ROWS)]
    for fold in range(5):
        kept = [block[folds[block] != fold] for block in blocks]
        source = large.Generated(lambda k, b=kept: (X[b[k]], y[b[k]], weights[b[k]]), len(kept))
        part = machine._like(calibration=None).fit(source)
        scores[folds == fold] = part.decision_function(X[folds == fold])
    return scores


MACHINES = [
    large.SVM(C=0.5),
    large.ConvexPolytopeMachine(2, pilot=60, max_passes=1, max_rounds=1, tol=1e-4, inside_label="yes"),
    large.ConvexPolytopeMachine(2, pilot=60, max_passes=1, max_rounds=1),
    large.SigmaSVM(D=0.4),
    large.RelativeMarginMachine(B=1.5),
]


@pytest.mark.parametrize("machine", few(MACHINES[:2], MACHINES), ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_curve_is_that_of_the_scores_in_memory(machine, data):
    X, y, weights = data
    source = large.Arrays(X, y, weights, rows=ROWS)
    plain = machine._like().fit(source)
    found = machine._like(calibration="sigmoid").fit(source)
    scores = held_out(machine, X, y, weights)
    wanted, (curve,) = calibrate(scores, y == "yes", weights, "sigmoid", 5), found.calibrations_
    assert curve.n_folds == 5
    assert not curve.is_flat
    assert curve.shift == pytest.approx(wanted.shift, abs=1e-6)
    assert curve.slope == pytest.approx(wanted.slope, rel=1e-6)
    # The zero moves by the shift; what is proven stays that of the program's own point.
    assert found.certificate() == plain.certificate()
    assert found.decision_function(X) == pytest.approx(plain.decision_function(X) - curve.shift, abs=1e-12)
    p = found.predict_proba(X)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert (found.classes_[p.argmax(axis=1)] == found.predict(X)).all()
    assert p[:, 1] == pytest.approx(wanted.probability(plain.decision_function(X) - wanted.shift), abs=1e-6)
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.predict_proba(X), p)


def test_the_curve_is_the_optimum_of_its_program(data):
    """Points about it cost more."""
    X, y, _ = data
    machine = large.SVM(C=0.5, calibration="sigmoid").fit(large.Arrays(X, y, rows=ROWS))
    scores, up = held_out(machine, X, y, np.ones(len(y))), y == "yes"
    targets = np.where(up, (up.sum() + 1) / (up.sum() + 2), 1 / ((~up).sum() + 2))
    (curve,) = machine.calibrations_

    def loss(shift, slope):
        odds = slope * (scores - shift)
        return float(np.logaddexp(0, odds).sum() - targets @ odds)

    least = loss(curve.shift, curve.slope)
    for of_shift, of_slope in ((1e-5, 0), (-1e-5, 0), (0, 1e-5), (0, -1e-5)):
        assert loss(curve.shift + of_shift, curve.slope * (1 + of_slope)) > least


def test_more_than_two_classes_are_coupled(data, three):
    X, _, weights = data
    machine = large.SVM(class_weight="balanced", calibration="sigmoid")
    machine.fit(large.Arrays(X, three, weights, rows=ROWS))
    assert [curve.n_folds for curve in machine.calibrations_] == [5, 5, 5]
    p = machine.predict_proba(X)
    assert p.shape == (len(X), 3)
    assert p.sum(axis=1) == pytest.approx(1.0)
    assert (machine.classes_[p.argmax(axis=1)] == machine.predict(X)).all()
    assert np.exp(machine.decision_function(X)) == pytest.approx(p)
    # A pair by itself has the same curve, where its rows have the same folds and weights.
    factors = dict(zip(machine.classes_.tolist(), weights.sum() / 3 / [
        weights[three == label].sum() for label in machine.classes_
    ], strict=True))  # fmt: skip
    two = np.where(np.isin(three, ["no", "yes"]), weights, 0.0)
    one = large.SVM(class_weight={k: factors[k] for k in ("no", "yes")}, calibration="sigmoid")
    one.fit(large.Arrays(X, three, two, rows=ROWS))
    assert machine.pairs_[0] == ("no", "other")
    assert one.calibrations_[0].shift == pytest.approx(machine.calibrations_[1].shift, abs=1e-7)
    assert one.calibrations_[0].slope == pytest.approx(machine.calibrations_[1].slope, rel=1e-6)


def test_scores_that_say_nothing_give_the_shares():
    y = np.where(np.arange(120) % 3 == 0, "yes", "no")
    with pytest.warns(ConvergenceWarning, match="do not rise from one class to the other"):
        flat = large.SVM(C=1e-3, calibration="sigmoid").fit(large.Arrays(np.zeros((120, 2)), y, rows=ROWS))
    targets = np.where(y == "yes", 41 / 42, 1 / 82)
    assert flat.calibrations_[0].is_flat
    assert flat.predict_proba(np.ones((3, 2)))[:, 1] == pytest.approx(targets.mean())
    assert set(flat.predict(np.zeros((2, 2)))) == {"no"}


def test_a_class_in_one_fold_is_named(data):
    X, y, _ = data
    labels = np.full(len(y), "one")
    labels[[3, 3 + ROWS - 1]] = "two"  # rows 3 of block 0 and 2 of block 1
    with pytest.raises(ValueError, match="fold 4 of 5 has all samples of class 'two'"):
        large.SVM(calibration="sigmoid").fit(large.Arrays(X, labels, rows=ROWS))


def why_not(machine):
    with pytest.raises(AttributeError) as caught:
        _ = machine.predict_proba
    return str(caught.value.__cause__)


@pytest.mark.filterwarnings("ignore:SVM. The time limit")
def test_without_curves_there_are_no_probabilities(data, monkeypatch):
    X, y, _ = data
    machine = large.SVM()
    assert not hasattr(machine, "predict_proba")
    assert why_not(machine) == "SVM has probabilities with calibration='sigmoid'"
    assert why_not(machine.fit(X, y)) == "SVM has probabilities with calibration='sigmoid'"
    with pytest.raises(ValueError, match="'calibration' parameter of SVM must be"):
        large.SVM(calibration="isotonic").fit(X, y)
    kept = machine.decision_function(X)
    whole = large.SVM(calibration="sigmoid")
    with pytest.warns(ConvergenceWarning, match="not calibrated, as the time limit came before the end of"):
        whole.set_params(time_limit=0).fit(X, y)
    assert not hasattr(whole, "predict_proba")
    assert whole.predict(X).shape == y.shape

    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("polyopt.large.calibrated.platt", pressed)
    with pytest.warns(ConvergenceWarning, match="not calibrated, as Ctrl-C came before the end of its folds"):
        whole.set_params(time_limit=None).fit(X, y)
    assert np.array_equal(whole.decision_function(X), kept)
    assert "is not calibrated: Ctrl-C came before the end of its folds" in why_not(whole)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        whole.fit(X, y)
    assert hasattr(whole, "predict_proba")
