"""Exact and fast solvers on real data: the same optimum, proven from the data."""

import pytest
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from polyopt import SVM, Claim, RelativeMarginMachine, SigmaSVM, datasets

SETS = ["ionosphere", "sonar", "pima", "bupa", "wbc", "wdbc"]


def standardised(name):
    data = datasets.load(name)
    return StandardScaler().fit_transform(data.X), data.y


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("machine", [SVM(), SigmaSVM(D=0.9), RelativeMarginMachine(B=2.0)])
def test_linear_machines(name, machine):
    """The fast solver's optimum is the explicit program's, and is certified."""
    X, y = standardised(name)
    exact = clone(machine).set_params(kernel="linear", solver="exact").fit(X, y).certificate()
    assert exact.claim is Claim.OPTIMAL
    assert exact.relative_gap < 1e-9
    fast = (
        clone(machine)
        .set_params(kernel="linear", solver="decomposition", tol=1e-4, max_iter=3_000_000)
        .fit(X, y)
    )
    certificate = fast.certificate()
    assert certificate.primal_value == pytest.approx(exact.primal_value, rel=1e-3)
    assert certificate.dual_value <= exact.primal_value * (1 + 1e-9)
    assert certificate.primal_value >= exact.dual_value * (1 - 1e-9)


@pytest.mark.parametrize("name", SETS)
def test_rbf_svm_is_libsvms(name):
    """Objective and outputs are those of scikit-learn's SVC."""
    X, y = standardised(name)
    ours = SVM(solver="decomposition", tol=1e-6).fit(X, y)
    theirs = SVC(tol=1e-6).fit(X, y)
    assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=1e-4)
    assert ours.certificate().relative_gap < 1e-6
