"""scikit-learn's own checks of the polyhedral and sparse classifiers, and of their search."""

from __future__ import annotations

import pytest
from helpers.conventions import EQUIVALENCE, broken_conventions

from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    CrossEntropySettings,
    CrossEntropySVM,
    LogisticPolytopes,
    LogisticSearch,
    OneNormSVM,
    Polyceptron,
)

LOGISTIC = LogisticPolytopes(2, n_init=1, max_iter=5, tol=1e-2, random_state=0)
NONE = frozenset()
# The machine, and the checks that fail for what it is: a weight multiplies a step of the online perceptron,
# and is no second visit; a copy is another centre to the L0 machine; of several optimal points of the
# one-norm machine, a copy may lead to another one.
MACHINES = {
    "batch": (Polyceptron(n_init=1, random_state=0), NONE),
    "online": (Polyceptron(solver="online", n_init=1, max_iter=100, random_state=0), EQUIVALENCE),
    "highs": (Polyceptron(solver="highs", n_init=1, random_state=0), NONE),
    "spla1": (SPLA1(n_init=1, max_iter=5, random_state=0), NONE),
    "pc-slp": (PCSLP(n_init=1, random_state=0), NONE),
    "plume": (PLUME(n_init=1, max_iter=2, random_state=0), NONE),
    "ce-svm": (
        CrossEntropySVM(search=CrossEntropySettings(n_samples=5, max_iter=1, flips=False), random_state=0),
        EQUIVALENCE,
    ),
    "one-norm-svm": (OneNormSVM(), EQUIVALENCE),
    "logistic": (LOGISTIC, NONE),
    "search": (LogisticSearch(LOGISTIC, max_faces=1, cv=2), NONE),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MACHINES)
def test_conventions_hold(name):
    """Every check passes but those that a machine is exempt from; what all share is asked of the first."""
    machine, exempt = MACHINES[name]
    assert set(broken_conventions(machine, first=name == "batch")) <= exempt
