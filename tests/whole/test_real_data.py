"""Exact and fast solvers on real data: the same optimum, proven from the data."""

from __future__ import annotations

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
def test_the_rbf_svm_is_libsvm_s(name):
    X, y = standardised(name)
    ours = SVM(solver="decomposition", tol=1e-6).fit(X, y)
    theirs = SVC(tol=1e-6).fit(X, y)
    assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=1e-4)
    assert ours.certificate().relative_gap < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("sonar", SVM(C=10)),
        ("sonar", SigmaSVM(C=10, D=0.9)),
        ("sonar", RelativeMarginMachine(C=10, B=1.2)),
        ("ionosphere", RelativeMarginMachine(C=10, B=1.2)),
    ],
)
def test_kernel_machines(name, machine):
    X, y = standardised(name)
    X, y = X[::2], y[::2]  # as seven programs are solved
    for kernel in ("rbf", "poly") if name == "sonar" else ("rbf",):
        settings = {"kernel": kernel, "degree": 2, "coef0": 1.0}
        exact = clone(machine).set_params(solver="exact", **settings).fit(X, y)
        fast = clone(machine).set_params(solver="decomposition", tol=1e-6, **settings).fit(X, y)
        optimum, reached = exact.certificate(), fast.certificate(tol=1e-4)
        assert optimum.claim is Claim.OPTIMAL
        assert reached.claim is Claim.OPTIMAL
        # An output off by the tolerance costs at most that much of every multiplier there is.
        duals = fast.duals_
        price = 1e-6 * duals.loc[duals["letter"] != "beta", "multiplier"].sum() + 1e-6 * 10 * len(y)
        assert optimum.dual_value - 1e-6 <= reached.primal_value <= optimum.primal_value + 2 * price
        assert fast.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-3)
