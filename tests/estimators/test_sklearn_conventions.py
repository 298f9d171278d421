"""scikit-learn's own checks of an estimator, which find no failure in any of these."""

import pytest
from helpers.conventions import EQUIVALENCE, broken_conventions

from polyopt import SVM, ConvexPolytopeMachine, FacePenalty, Hinges, RelativeMarginMachine, SigmaSVM

# A kernel is solved by the decomposition, a linear machine by the interior point.
ESTIMATORS = {
    "svm": (SVM(kernel="linear"), {"all_forms": True}),
    "svm-rbf": (SVM(kernel="rbf"), {"first": True}),
    "sigma-svm-rbf": (SigmaSVM(kernel="rbf"), {}),
    "rmm": (RelativeMarginMachine(kernel="linear"), {}),
    "cpm": (ConvexPolytopeMachine(2, n_init=1, max_iter=5), {}),
    "hinges": (Hinges(), {}),
}


@pytest.mark.parametrize(("estimator", "forms"), ESTIMATORS.values(), ids=ESTIMATORS)
def test_no_convention_is_broken(estimator, forms):
    """No check of check_estimator fails."""
    assert broken_conventions(estimator, **forms) == {}


def test_sgd_breaks_equivalence_alone():
    """Samples come in random order, so that a weight is a repetition up to the tolerance only."""
    machine = ConvexPolytopeMachine(solver="sgd", n_init=1, max_iter=60)
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
