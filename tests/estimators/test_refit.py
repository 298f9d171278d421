"""Fits after other fits, parameters, kernels and streams: nothing of the first is left."""

import joblib
import numpy as np
import pytest
from helpers.methods import DATA
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from polyopt import SPLA1, SVM, ConvexPolytopeMachine, FacePenalty, LogisticPolytopes, Polyceptron
from polyopt.methods import METHODS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = DATA["overlapping"].X, DATA["overlapping"].y
THREE = DATA["three classes"].y
KINDS = {method.estimator_class.__name__: method.estimator_class for method in METHODS.values()}
KERNEL_KINDS = {name: kind for name, kind in KINDS.items() if "kernel" in kind().get_params()}
by_labels = pytest.mark.parametrize("y", [Y, THREE], ids=["two classes", "three classes"])


def quick(machine):
    """A machine with few starts and rounds, and a seed."""
    small = {"random_state": 0, "n_init": 1, "max_iter": 5}
    return machine.set_params(**{name: small[name] for name in small if name in machine.get_params()})


def assert_same(machine, fresh):
    """The same attributes, and those that are arrays or numbers with the same values."""
    assert set(vars(machine)) == set(vars(fresh))
    for name, value in vars(fresh).items():
        if isinstance(value, np.ndarray | float | int | str):
            np.testing.assert_array_equal(getattr(machine, name), value, err_msg=name)


@pytest.mark.parametrize("kind", KERNEL_KINDS.values(), ids=KERNEL_KINDS)
def test_refit_with_another_kernel(kind):
    """Each fit with another kernel leaves the attributes that it leaves on a new machine."""
    machine = quick(kind())
    for kernel in ("rbf", "linear", "poly", "linear"):
        machine.set_params(kernel=kernel, coef0=1.0, degree=2).fit(X, Y)
        assert_same(machine, clone(machine).fit(X, Y))


CPM = ConvexPolytopeMachine
CHANGES = {
    "svm, whole then stopped": (SVM(), {"time_limit": 1e-9}),
    "two sides then one": (CPM(2, inside_label="both"), {"inside_label": None}),
    "one side then two": (CPM(2), {"inside_label": "both"}),
    "whole numbers then real": (CPM(2, penalty=FacePenalty(integers=3)), {"penalty": None}),
    "one polytope then several": (LogisticPolytopes(n_faces=(0, 2)), {"n_faces": 2}),
    "one face then three": (SPLA1(n_faces=1), {"n_faces": 3}),
}


@pytest.mark.parametrize(("machine", "change"), CHANGES.values(), ids=CHANGES)
@by_labels
def test_refit_with_other_parameters(machine, change, y):
    """Whatever was set, and whatever was asked of the machine in between, a refit is a fresh fit."""
    machine = quick(clone(machine)).fit(X, y)
    machine.predict(X)
    _ = machine.duals_, getattr(machine, "polytope_", None)
    machine.set_params(**change).fit(X, y)
    assert_same(machine, clone(machine).fit(X, y))


STREAMS = {
    "cpm": CPM(random_state=0, solver="sgd"),
    "cpm of two sides": CPM(random_state=0, solver="sgd", inside_label="both"),
    "polyceptron": Polyceptron(random_state=0, n_init=1),
}


@pytest.mark.parametrize("machine", STREAMS.values(), ids=STREAMS)
@by_labels
def test_stream_after_fit_is_new(machine, y):
    """The first chunk begins anew, also with other classes than the fit had; so does a fit afterwards."""
    machine = quick(clone(machine)).fit(X, THREE if y is Y else Y)
    fresh = clone(machine)
    for _ in range(2):
        assert_same(machine.partial_fit(X, y), fresh.partial_fit(X, y))
    assert_same(machine.fit(X, y), clone(machine).fit(X, y))


@pytest.mark.parametrize("machine", STREAMS.values(), ids=STREAMS)
@by_labels
def test_stream_goes_on_from_read_only_memory(machine, y, tmp_path):
    """A stream that joblib maps from a file learns as in memory, and the file stays as it was."""
    here = clone(machine).partial_fit(X, y)
    joblib.dump(here, tmp_path / "m.joblib")
    there, kept = (joblib.load(tmp_path / "m.joblib", mmap_mode="r") for _ in range(2))
    before = kept.decision_function(X)
    assert (there.partial_fit(X, y).decision_function(X) == here.partial_fit(X, y).decision_function(X)).all()
    assert (kept.decision_function(X) == before).all()
    assert (before != here.decision_function(X)).any()


def test_failing_solver_changes_nothing():
    """An error after the data were taken, a kernel that is not semidefinite, leaves the machine as it was."""
    machine = SVM(kernel="precomputed").fit(X @ X.T, Y)
    before = dict(vars(machine))
    with pytest.raises(ValueError, match="semidefinite"):
        machine.fit(-X @ X.T, Y)
    assert vars(machine) == before


def test_attributes_of_other_packages_stay():
    """Marks of another package on the last step of a pipeline outlive a fit."""
    machine = SVM()
    machine.mark_of_another_package = "here"
    make_pipeline(machine).fit(X, Y).fit(X, Y)
    assert machine.mark_of_another_package == "here"
