"""Support vectors, their coefficients and hyperplanes: as scikit-learn's SVC has them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from polyopt import (
    PLUME,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    OneNormSVM,
    RelativeMarginMachine,
    SigmaSVM,
)

KERNELS = ["linear", "poly", "rbf"]
NAMES = ["support_", "n_support_", "support_vectors_", "dual_coef_", "intercept_", "coef_"]
MACHINES = {
    "svm": SVM(),
    "sigma-svm": SigmaSVM(),
    "rmm": RelativeMarginMachine(B=1.3),
    "one-norm": OneNormSVM(C=3.0),
    "cross-entropy": CrossEntropySVM(C=3.0, random_state=0),
}
by_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def samples(n_classes, n=60):
    """Overlapping classes with text labels in an order of their own."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(n, 4))
    edges = {2: [0.1], 3: [-0.4, 0.4], 4: [-0.7, 0.0, 0.7]}[n_classes]
    return X, np.array(list("dbac"))[np.digitize(X[:, 0] + 0.4 * rng.normal(size=n), edges)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_attributes_are_those_of_svc(kernel, n_classes, container):
    """Every attribute of SVC has the same shape, order, sign and value."""
    X, y = samples(n_classes)
    theirs = SVC(kernel=kernel, tol=1e-9).fit(X, y)
    ours = SVM(kernel=kernel).fit(container(X), y)
    for name in NAMES if kernel == "linear" else NAMES[:-1]:
        own = getattr(ours, name)
        own = own.toarray() if sp.issparse(own) else own
        np.testing.assert_allclose(own, getattr(theirs, name), atol=1e-4, err_msg=name)
    assert hasattr(ours, "coef_") == (kernel == "linear")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", [name for name in MACHINES if name != "sigma-svm"])
def test_scores_are_the_expansion(name, kernel):
    """Two classes: f(x) = Σ dual_coef_ k(support vector, x) + intercept_."""
    X, y = samples(2, 40)
    machine = MACHINES[name].set_params(kernel=kernel).fit(X, y)
    parameters = {"gamma": machine.gamma_, "degree": 3, "coef0": 0.0}
    K = pairwise_kernels(machine.support_vectors_, X, metric=kernel, filter_params=True, **parameters)
    scores = (machine.dual_coef_ @ K)[0] + machine.intercept_[0]
    np.testing.assert_allclose(scores, machine.decision_function(X), atol=2e-5)
    if kernel == "linear":
        np.testing.assert_allclose(machine.dual_coef_ @ machine.support_vectors_, machine.coef_, atol=1e-5)


@by_machine
@pytest.mark.parametrize("n_classes", [2, 3])
def test_support_is_numbered_by_class(machine, n_classes):
    """support_ numbers the rows of support_vectors_, by class, as n_support_ counts; copies too."""
    X, y = samples(n_classes, 40)
    machine.set_params(kernel="rbf").fit(X, y)
    assert (machine.support_vectors_ == X[machine.support_]).all()
    assert machine.dual_coef_.shape == (n_classes - 1, len(machine.support_))
    assert (y[machine.support_] == np.repeat(machine.classes_, machine.n_support_)).all()
    light = machine.without_data()
    for name in NAMES[:-1]:
        assert (getattr(light, name) == getattr(machine, name)).all(), name


def test_numbers_are_those_of_all_samples():
    """Samples of weight 0 are left out, and the others keep their numbers."""
    X, y = samples(3)
    weights = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.0)
    machine = SVM().fit(X, y, sample_weight=weights)
    assert (weights[machine.support_] > 0).all()
    assert (machine.support_vectors_ == X[machine.support_]).all()


def test_bounded_samples_are_of_no_class():
    """Samples that X_bounded adds come last in support_, and n_support_ does not count them."""
    X, y = samples(2)
    machine = RelativeMarginMachine(B=1.05, kernel="linear").fit(X, y, X_bounded=3.0 * X)
    own, further = np.split(machine.support_, [machine.n_support_.sum()])
    assert len(further) > 0
    assert (further >= len(X)).all()
    assert (own < len(X)).all()


def test_precomputed_kernel_has_no_vectors():
    """As SVC's, support_vectors_ is empty, and the coefficients expand the Gram matrix."""
    X, y = samples(2)
    machine = SVM(kernel="precomputed").fit(X @ X.T, y)
    assert machine.support_vectors_.shape == (0, 0)
    scores = (X @ X.T)[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0]
    np.testing.assert_allclose(scores, machine.decision_function(X @ X.T), atol=1e-6)


@pytest.mark.parametrize("machine", [SVM(kernel="linear"), OneNormSVM(kernel="linear")], ids=["svm", "one"])
def test_features_are_selected_by_coefficients(machine):
    """RFE and SelectFromModel find the feature that tells three classes apart."""
    X, y = samples(3)
    assert RFE(machine, n_features_to_select=1).fit(X, y).support_.tolist() == [True, False, False, False]
    assert SelectFromModel(machine, max_features=1).fit(X, y).get_support()[0]


@by_machine
def test_missing_probabilities_name_the_remedy(machine):
    """hasattr is false before and after a fit, and the error names what gives probabilities."""
    for each in (type(machine)(), machine.fit(*samples(2))):
        assert not hasattr(each, "predict_proba")
        with pytest.raises(AttributeError, match=r"no probabilities.*CalibratedClassifierCV\(.*\)"):
            _ = each.predict_proba
    assert hasattr(PLUME(), "predict_proba")
    assert not hasattr(ConvexPolytopeMachine(), "predict_proba")
