"""Probabilities of the machines with faces, by scikit-learn's calibration of held-out samples."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from formulations.language.clock import current_clock
from polyopt import PCSLP, PLUME, SPLA1, ConvexPolytopeMachine, FacePenalty, Polyceptron

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MACHINES = {
    "cpm": ConvexPolytopeMachine(2, solver="sgd", max_iter=20, random_state=0),
    "cpm-inside": ConvexPolytopeMachine(2, solver="sgd", max_iter=20, inside_label=1, random_state=0),
    "cpm-sides": ConvexPolytopeMachine(1, solver="sgd", max_iter=20, inside_label="both", random_state=0),
    "polyceptron": Polyceptron(2, n_init=1, max_iter=50, random_state=0),
    "pc-slp": PCSLP(1, random_state=0),
    "spla1": SPLA1(2, n_init=1, inside_label=0, random_state=0),
    "plume": PLUME(2, n_init=1, random_state=0),
    "plume-polytope": PLUME(2, n_init=1, decision="polytope", random_state=0),
}
ONE_FACE = PCSLP(1, random_state=0)  # a linear program, solved to its end


def drawn(n, seed=0):
    return make_classification(
        n, 4, random_state=seed, n_informative=3, n_redundant=0, flip_y=0.15, weights=[0.6]
    )


@pytest.fixture(scope="module")
def data():
    return drawn(60)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("name", MACHINES)
def test_the_curve_is_scikit_learn_s_and_nothing_else_changes(name, how, data):
    X, y = data
    plain = clone(MACHINES[name]).fit(X, y)
    machine = clone(plain).set_params(calibration=how).fit(X, y)
    T = np.random.default_rng(0).normal(size=(200, 4)) * 2
    reference = CalibratedClassifierCV(plain, method=how, ensemble=False, cv=5).fit(X, y)
    assert machine.predict_proba(T) == pytest.approx(reference.predict_proba(T), abs=1e-4)
    assert np.array_equal(machine.decision_function(T), plain.decision_function(T))
    assert np.array_equal(machine.predict(T), plain.predict(T))


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_more_classes_are_coupled(how):
    X, y = load_iris(return_X_y=True)
    machine = clone(ONE_FACE).set_params(calibration=how).fit(X, y)
    plain = clone(ONE_FACE).fit(X, y)
    p = machine.predict_proba(X)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert log_loss(y, p) < 0.2
    assert np.array_equal(machine.predict(X), plain.predict(X))
    assert not hasattr(plain, "predict_proba")
    smooth = SPLA1(1, random_state=0).fit(X, y)  # whose own probabilities decide
    both = clone(smooth).set_params(calibration=how).fit(X, y)
    assert np.array_equal(both.predict(X), smooth.predict(X))
    assert np.array_equal(both.decision_function(X), smooth.decision_function(X))
    assert not np.allclose(both.predict_proba(X), smooth.predict_proba(X))


def test_without_it_nothing_is_there_and_bad_values_are_refused(data):
    machine = clone(MACHINES["cpm"]).fit(*data)
    assert machine.calibration_ is None
    assert not hasattr(machine, "predict_proba")
    assert not hasattr(ConvexPolytopeMachine(), "predict_proba")
    assert hasattr(ConvexPolytopeMachine(calibration="sigmoid"), "predict_proba")
    assert hasattr(SPLA1(), "predict_proba")
    with pytest.raises(AttributeError, match="no attribute 'predict_proba'") as refused:
        machine.predict_proba(data[0])
    assert "calibration='sigmoid' or 'isotonic'" in str(refused.value.__cause__)
    with pytest.raises(ValueError, match="The 'calibration' parameter of PCSLP must be"):
        PCSLP(calibration="platt").fit(*data)
    again = clone(machine).set_params(calibration="sigmoid").fit(*data)
    assert not hasattr(again, "partial_fit")
    again.set_params(calibration=None)
    assert hasattr(again, "predict_proba")  # a parameter set later is for the next fit
    again.partial_fit(*data)
    assert not hasattr(again, "predict_proba")


def test_the_weights_of_classes_are_weights(data):
    X, y = data
    machine = SPLA1(1, random_state=0, calibration="sigmoid", class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    other = SPLA1(1, random_state=0, calibration="sigmoid").fit(X, y, np.where(y == 1, 3.0, 1.0))
    assert np.array_equal(machine.predict_proba(X), other.predict_proba(X))
    plain = SPLA1(1, random_state=0, calibration="sigmoid").fit(X, y)
    assert machine.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1


def test_features_are_named_in_the_folds_too(data):
    X, y = pd.DataFrame(data[0], columns=list("abcd")), data[1]
    machine = ConvexPolytopeMachine(
        1, solver="dual", penalty=FacePenalty(signs={"b": 1}), calibration="sigmoid", random_state=0
    )
    machine.fit(X, y)
    assert machine.W_[0, 1] >= 0.0
    assert machine.predict_proba(X).shape == (60, 2)


def test_a_class_of_one_sample_has_no_probabilities(data):
    X, y = data
    one = np.flatnonzero(y == 1)[:1].tolist() + np.flatnonzero(y == 0).tolist()
    with pytest.warns(ConvergenceWarning, match="not calibrated, as a class has one sample; it has none"):
        machine = clone(ONE_FACE).set_params(calibration="sigmoid").fit(X[one], y[one])
    assert not hasattr(machine, "predict_proba")


# -- time, Ctrl-C, searches --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "machine", [ONE_FACE, MACHINES["cpm"], MACHINES["cpm-sides"], SPLA1(1, random_state=0)]
)
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
    if isinstance(machine, SPLA1):
        assert np.array_equal(machine.predict_proba(X), plain.predict_proba(X))
    else:
        with pytest.raises(AttributeError) as refused:
            machine.predict_proba(X)
        assert "not calibrated: Ctrl-C came before the end of its folds" in str(refused.value.__cause__)


def test_a_limit_that_is_over_leaves_no_time_for_folds_of_any_pair():
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        machine = Polyceptron(1, n_init=1, time_limit=1e-9, calibration="sigmoid", random_state=0).fit(X, y)
    assert sum("not calibrated, as the time limit" in str(one.message) for one in told) == 1
    assert not hasattr(machine, "predict_proba")
