"""Machines with scores only have probabilities by scikit-learn's ``CalibratedClassifierCV``."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from polyopt import PCSLP, SPLA1, ConvexPolytopeMachine, Polyceptron

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

MACHINES = [
    pytest.param(ConvexPolytopeMachine(2, solver="sgd", max_iter=20, random_state=0), id="cpm"),
    pytest.param(
        ConvexPolytopeMachine(1, solver="sgd", max_iter=20, inside_label="both", random_state=0),
        id="two sides",
    ),
    pytest.param(Polyceptron(2, n_init=1, max_iter=50, random_state=0), id="polyceptron"),
    pytest.param(PCSLP(1, random_state=0), id="pc-slp"),
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_scikit_learn_calibrates_machines(machine, method):
    """With ``ensemble=False`` the machine inside is that fitted to all data."""
    X, y = load_iris(return_X_y=True)
    X, y = X[y > 0], y[y > 0]
    calibrated = CalibratedClassifierCV(machine, method=method, ensemble=False).fit(X, y)
    assert log_loss(y, calibrated.predict_proba(X)) < 0.5
    inner = calibrated.calibrated_classifiers_[0].estimator
    assert np.array_equal(inner.decision_function(X), clone(machine).fit(X, y).decision_function(X))


@pytest.mark.parametrize("machine", MACHINES)
def test_scores_alone_name_remedy(machine):
    """A machine without probabilities says how to have them."""
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError) as caught:
        _ = machine.predict_proba
    assert "CalibratedClassifierCV(" in str(caught.value.__cause__)


def test_own_probabilities_add_up():
    """A machine with probabilities has those of three classes, and good ones."""
    X, y = load_iris(return_X_y=True)
    p = SPLA1(1, random_state=0).fit(X, y).predict_proba(X)
    assert p.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert log_loss(y, p) < 0.2
