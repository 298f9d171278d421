"""A second fit: nothing of the first one is left, and one that fails changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from polyopt import SPLA1, SVM, ConvexPolytopeMachine, FacePenalty, LogisticPolytopes, Polyceptron
from polyopt.methods import METHODS

KINDS = sorted({method.estimator_class for method in METHODS.values()}, key=lambda kind: kind.__name__)
SMALL = {"random_state": 0, "n_init": 1, "max_iter": 5}


def quick(made):
    """A machine with few starts and rounds, and a seed."""
    known = made.get_params()
    return made.set_params(**{name: value for name, value in SMALL.items() if name in known})


def samples(n_classes, m=3):
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(36, m))
    edges = [0.0] if n_classes == 2 else [-0.4, 0.4]
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=36), edges)


def assert_same(machine, fresh):
    """The same attributes, and those that are arrays or numbers with the same values."""
    assert set(vars(machine)) == set(vars(fresh))
    for name, value in vars(fresh).items():
        if isinstance(value, np.ndarray | float | int | str):
            np.testing.assert_array_equal(getattr(machine, name), value, err_msg=name)


ESTIMATORS = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


CHANGES = [
    pytest.param(SVM(), {"time_limit": 1e-9}, id="svm, whole then stopped"),
    pytest.param(ConvexPolytopeMachine(inside_label="both"), {"inside_label": None}, id="two sides then one"),
    pytest.param(ConvexPolytopeMachine(), {"inside_label": "both"}, id="one side then two"),
    pytest.param(
        ConvexPolytopeMachine(penalty=FacePenalty(integers=3)),
        {"penalty": None},
        id="whole numbers then real",
    ),
    pytest.param(LogisticPolytopes(n_faces=(0, 2)), {"n_faces": 2}, id="one polytope then several"),
    pytest.param(SPLA1(n_faces=1), {"n_faces": 3}, id="one face then three"),
]


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "kernel" in kind().get_params()], ids=lambda kind: kind.__name__
)
def test_a_refit_with_another_kernel_is_a_fresh_fit(kind):
    """Each fit with another kernel leaves the attributes that it leaves on a new machine."""
    X, y = samples(2)
    machine = quick(kind())
    for kernel in ("rbf", "linear", "poly", "linear", "rbf"):
        machine.set_params(kernel=kernel, coef0=1.0, degree=2).fit(X, y)
        assert_same(machine, clone(machine).fit(X, y))


@pytest.mark.parametrize(("machine", "change"), CHANGES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_refit_with_other_parameters_is_a_fresh_fit(machine, change, n_classes):
    """Whatever was set, and whatever was asked of the machine in between."""
    X, y = samples(n_classes)
    machine = quick(clone(machine)).fit(X, y)
    machine.predict(X)
    _ = machine.duals_, getattr(machine, "polytope_", None)
    machine.set_params(**change).fit(X, y)
    assert_same(machine, clone(machine).fit(X, y))


@pytest.mark.parametrize("kind", [ConvexPolytopeMachine, Polyceptron])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_stream_after_a_fit_is_a_new_stream(kind, n_classes):
    """The first chunk begins anew, also with other classes than the fit had."""
    X, y = samples(n_classes)
    machine = quick(kind()).fit(*samples(5 - n_classes))
    fresh = clone(machine)
    for _ in range(2):
        assert_same(machine.partial_fit(X, y), fresh.partial_fit(X, y))
    assert_same(machine.fit(X, y), clone(machine).fit(X, y))


@ESTIMATORS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_machine_without_its_data_fits_anew(kind, n_classes):
    """A copy without data is a machine like any other."""
    X, y = samples(n_classes)
    machine = quick(kind()).fit(*samples(2)).without_data()
    assert_same(machine.fit(X, y), clone(machine).fit(X, y))


FAILURES = [
    pytest.param(lambda X, y: (X, np.zeros(len(y))), id="one class"),
    pytest.param(lambda X, y: (np.where(X == X.max(), np.nan, X), y), id="not a number"),
    pytest.param(lambda X, y: (X[:, :1], y[:-1]), id="lengths"),
]


@ESTIMATORS
@pytest.mark.parametrize("spoil", FAILURES)
def test_a_fit_that_fails_leaves_the_machine_as_it_was(kind, spoil):
    """Every attribute of a fitted machine stays, and a new one is as new."""
    X, y = samples(2)
    for machine in (quick(kind()), quick(kind()).fit(X, y)):
        before = dict(vars(machine))
        with pytest.raises(ValueError, match=r"."):
            machine.fit(*spoil(X, y))
        assert vars(machine) == before


def test_a_solver_that_fails_leaves_the_machine_as_it_was():
    """Also where the error comes after the data were taken: a kernel that is not semidefinite."""
    X, y = samples(2)
    machine = SVM(kernel="precomputed").fit(X @ X.T, y)
    before = dict(vars(machine))
    with pytest.raises(ValueError, match="semidefinite"):
        machine.fit(-X @ X.T, y)
    assert vars(machine) == before


def test_attributes_of_other_packages_stay():
    """A pipeline's own marks on its last step, and requests for metadata, outlive a fit."""
    X, y = samples(2)
    machine = SVM()
    machine._mark_of_another_package = "here"
    make_pipeline(machine).fit(X, y).fit(X, y)
    assert machine._mark_of_another_package == "here"
