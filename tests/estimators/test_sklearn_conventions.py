"""scikit-learn's own checks of every estimator."""

import pytest
from helpers.conventions import EQUIVALENCE, broken_conventions

from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySettings,
    CrossEntropySVM,
    FacePenalty,
    Hinges,
    LogisticPolytopes,
    LogisticSearch,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
)

LOGISTIC = LogisticPolytopes(2, n_init=1, max_iter=5, tol=1e-2, random_state=0)
# A kernel is solved by the decomposition, a linear margin by the interior point.
ESTIMATORS = {
    "svm": (SVM(kernel="linear"), {"all_forms": True}),
    "svm-rbf": (SVM(kernel="rbf"), {"first": True}),
    "sigma-svm-rbf": (SigmaSVM(kernel="rbf"), {}),
    "rmm": (RelativeMarginMachine(kernel="linear"), {}),
    "cpm": (ConvexPolytopeMachine(2, n_init=1, max_iter=5), {}),
    "batch": (Polyceptron(n_init=1, random_state=0), {"first": True}),
    "highs": (Polyceptron(solver="highs", n_init=1, random_state=0), {}),
    "spla1": (SPLA1(n_init=1, max_iter=5, random_state=0), {}),
    "pc-slp": (PCSLP(n_init=1, random_state=0), {}),
    "plume": (PLUME(n_init=1, max_iter=2, random_state=0), {}),
    "logistic": (LOGISTIC, {}),
    "search": (LogisticSearch(LOGISTIC, max_faces=1, cv=2), {}),
    "hinges": (Hinges(), {}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "forms"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_no_convention_is_broken(estimator, forms):
    """No check of check_estimator fails; what all machines share is asked of the first of a family."""
    assert broken_conventions(estimator, **forms) == {}


# A weight is a repetition up to the tolerance only if samples come in random order; it multiplies a step of
# the online perceptron, and is no second visit; a copy is another centre to the L0 machine; of several
# optimal points of the one-norm machine, a copy may lead to another one.
WITHOUT_EQUIVALENCE = {
    "sgd": ConvexPolytopeMachine(solver="sgd", n_init=1, max_iter=60),
    "online": Polyceptron(solver="online", n_init=1, max_iter=100, random_state=0),
    "ce-svm": CrossEntropySVM(
        search=CrossEntropySettings(n_samples=5, max_iter=1, flips=False), random_state=0
    ),
    "one-norm-svm": OneNormSVM(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("machine", WITHOUT_EQUIVALENCE.values(), ids=WITHOUT_EQUIVALENCE)
def test_equivalence_alone_is_broken(machine):
    """Every check passes but those of weights as repetitions."""
    assert set(broken_conventions(machine)) <= EQUIVALENCE


RESTRICTED = {
    "price": ConvexPolytopeMachine(1, penalty=FacePenalty(l1=0.01), solver="dual", max_iter=10),
    "few features": ConvexPolytopeMachine(1, penalty=FacePenalty(max_features=1), n_init=1),
}


@pytest.mark.parametrize("machine", RESTRICTED.values(), ids=RESTRICTED)
def test_restricted_faces_break_streams_alone(machine):
    """With a penalty that the stream has not, partial_fit is refused, and no other convention is broken."""
    found = broken_conventions(machine)
    assert [name for name, error in found.items() if "partial_fit is Algorithm 1" not in str(error)] == []
