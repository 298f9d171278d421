"""Linear machines of samples read by blocks: the optimum of those in memory, from every kind of source."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import polyopt
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, SigmaSVM, scale


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=120, m=4, separation=1.2, seed=0)
    return X, np.where(y > 0, "yes", "no"), np.random.default_rng(0).uniform(0.0, 2.0, 120).round(1)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SVM", {"class_weight": "balanced"}),
        ("SigmaSVM", {"D": 0.4}),
        ("RelativeMarginMachine", {"B": 1.5, "class_weight": {"yes": 3.0}}),
    ],
)
def test_the_machine_is_that_of_the_samples_in_memory(name, settings, data):
    X, y, weights = data
    settings = settings | {"C": 0.7}
    whole = getattr(polyopt, name)(kernel="linear", **settings).fit(X, y, weights)
    parts = getattr(polyopt, name)(kernel="linear", **settings).fit(scale.Arrays(X, y, weights, rows=17))
    assert parts.certificate().claim is Claim.OPTIMAL
    assert parts.certificate().primal_value == pytest.approx(whole.certificate().primal_value, rel=1e-7)
    assert parts.coef_ == pytest.approx(whole.coef_, abs=1e-4)
    assert parts.intercept_ == pytest.approx(whole.intercept_, abs=1e-4)
    assert (parts.predict(X) == whole.predict(X)).all()
    assert parts.decision_function(X) == pytest.approx(whole.decision_function(X), abs=1e-3)
    again = pickle.loads(pickle.dumps(parts))
    assert (again.predict(X) == parts.predict(X)).all()


def test_every_source_has_the_same_bits(data, tmp_path):
    X, y, _ = data
    y = np.where(y == "yes", 1, 2)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    sources = [
        scale.Arrays(X, y, rows=50),
        scale.NpyFiles(tmp_path / "X.npy", tmp_path / "y.npy", rows=50),
        scale.Generated(lambda k: (X[50 * k : 50 * k + 50], y[50 * k : 50 * k + 50]), 3),
    ]
    fits = [SVM(kernel="linear").fit(source) for source in sources]
    assert len({fit.coef_.tobytes() + fit.intercept_.tobytes() for fit in fits}) == 1
    rows = sp.csr_array(X)
    sparse = SVM(kernel="linear").fit(scale.Arrays(rows, y, rows=50))
    assert sparse.coef_ == pytest.approx(fits[0].coef_, abs=1e-4)
    assert sparse.certificate().claim is Claim.OPTIMAL


def test_several_classes_have_a_machine_for_each_pair(data):
    X, y, _ = data
    y = np.where(X[:, 0] > 1.0, "other", y)
    whole = polyopt.SVM(kernel="linear").fit(X, y)
    parts = SVM(kernel="linear").fit(scale.Arrays(X, y, rows=17))
    assert parts.pairs_ == whole.pairs_
    assert parts.certificate().claim is Claim.OPTIMAL
    assert parts.certificate().primal_value == pytest.approx(whole.certificate().primal_value, rel=1e-7)
    assert parts.coef_ == pytest.approx(whole.coef_, abs=1e-4)
    assert parts.intercept_ == pytest.approx(whole.intercept_, abs=1e-4)
    assert (parts.predict(X) == whole.predict(X)).all()
    assert set(parts.history_["pair"]) == {"no vs other", "no vs yes", "other vs yes"}
    assert "pair" not in SVM(kernel="linear").fit(scale.Arrays(X, y == "yes")).history_
    assert (parts.without_data().predict(X) == whole.predict(X)).all()
    with pytest.raises(ValueError, match="does not hold"):
        parts.duals_  # noqa: B018
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        parts.predict_proba(X)


def test_a_fit_that_fails_leaves_the_machine_as_it_was(data):
    X, y, _ = data
    machine = SVM(kernel="linear").fit(scale.Arrays(X, y))
    labels = machine.predict(X)
    with pytest.raises(ValueError, match="at least two classes"):
        machine.fit(scale.Arrays(X, np.zeros(len(y))))
    assert (machine.predict(X) == labels).all()


def test_blocks_may_be_empty_or_of_one_class_or_integers(data):
    X, y, _ = data
    X = np.round(10.0 * X)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    cuts = [0, 0, 3, 40, 40, 119, 120, 120]
    part = lambda k: slice(cuts[k], cuts[k + 1])  # noqa: E731
    source = scale.Generated(lambda k: (X[part(k)].astype(np.int16), y[part(k)]), 7)
    found = SVM(kernel="linear").fit(source)
    assert found.certificate().primal_value == pytest.approx(
        polyopt.SVM(kernel="linear").fit(X, y).certificate().primal_value, rel=1e-7
    )


def test_a_limit_is_told_and_keeps_a_proven_bound(data):
    X, y, _ = data
    with pytest.warns(ConvergenceWarning, match="iteration"):
        short = SVM(kernel="linear", max_iter=2).fit(scale.Arrays(X, y))
    assert short.solution_.status is Status.ITERATION_LIMIT
    assert short.certificate().claim is Claim.SUBOPTIMAL_BY


@pytest.mark.parametrize("D", [None, 0.5])
def test_a_fit_goes_on_from_its_checkpoint_to_the_same_bits(D, data, tmp_path):
    X, y, weights = data
    machine = SVM(kernel="linear") if D is None else SigmaSVM(kernel="linear", D=D)
    source, path = scale.Arrays(X, y, weights, rows=30), tmp_path / "checkpoint"
    whole = machine.fit(source)
    wanted = whole.coef_.tobytes(), whole.intercept_.tobytes(), whole.certificate().dual_value
    for stop in (1, 5):
        with pytest.warns(ConvergenceWarning):
            machine.set_params(max_iter=stop).fit(source, checkpoint=path)
        machine.set_params(max_iter=None).fit(source, resume=path)
        found = machine.coef_.tobytes(), machine.intercept_.tobytes(), machine.certificate().dual_value
        assert found == wanted
        assert machine.n_iter_ == whole.n_iter_
    with pytest.raises(ValueError, match="of another fit: C was"):
        machine.set_params(C=2.0).fit(source, resume=path)
    with pytest.raises(ValueError, match="of another fit: its samples, labels or weights"):
        machine.set_params(C=1.0).fit(scale.Arrays(X + 1.0, y, weights, rows=30), resume=path)
    path.write_bytes(path.read_bytes()[:100])
    np.save(tmp_path / "X.npy", X)
    for other in (path, tmp_path / "X.npy"):
        with pytest.raises(ValueError, match="is no checkpoint"):
            machine.fit(source, resume=other)


def test_a_full_disk_costs_the_checkpoint_and_not_the_fit(data, tmp_path):
    resource = pytest.importorskip("resource")  # of Unix
    source, path = scale.Arrays(*data, rows=30), tmp_path / "checkpoint"
    whole, machine = SVM(kernel="linear").fit(source), SVM(kernel="linear")
    with pytest.warns(ConvergenceWarning):
        machine.set_params(max_iter=4).fit(source, checkpoint=path)
    before, limits = path.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    machine.set_params(max_iter=None)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, limits[1]))
        with pytest.warns(RuntimeWarning, match=r"cannot write .*checkpoint.* The fit goes on") as told:
            machine.fit(source, checkpoint=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert len(told) == 1
    assert machine.coef_.tobytes() == whole.coef_.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]
    assert machine.fit(source, resume=path).coef_.tobytes() == whole.coef_.tobytes()
    with pytest.raises(ValueError, match=r"the folder .* does not exist"):
        machine.fit(source, checkpoint=tmp_path / "none" / "checkpoint")


def parts(**changes):
    def make(k):
        X, y = np.ones((5, 2)) * (k + 1), np.array([0, 1, 0, 1, 0])
        X[:, 0] = np.arange(5)
        found = {"X": X, "y": y, "weights": None}
        if k == 3:
            found |= {name: change(found[name]) for name, change in changes.items()}
        return found["X"], found["y"], found["weights"]

    return scale.Generated(make, 5)


def labels(*given):
    return lambda _: np.array(given, dtype=object)


def with_nan(array):
    array = np.array(array, dtype=float)
    array.ravel()[5 if array.ndim == 2 else 2] = np.nan
    return array


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (parts(X=with_nan), "X has NaN or an infinite value in partition 3, row 2, feature 1"),
        (parts(X=lambda X: sp.csr_array(with_nan(X))), "in partition 3, row 2, feature 1"),
        (parts(y=with_nan), "y has NaN or an infinite value in partition 3, row 2"),
        (parts(y=lambda y: y[:, None]), "y has 2 dimensions in partition 3, and needs one"),
        (parts(y=labels("a", None, "b", "a", "b")), "y has no label in partition 3, row 1"),
        (parts(y=labels("a", "a", "b", pd.NA, "b")), "y has no label in partition 3, row 3"),
        (parts(weights=lambda _: np.ones((5, 1))), "sample_weight has 2 dimensions in partition 3"),
        (parts(y=lambda y: y[:4]), "y has 4 entries in partition 3, and X has 5 rows"),
        (parts(weights=lambda _: np.array([1, 1, -1, 1, 1])), "in partition 3, row 2, it is -1.0"),
        (parts(X=lambda X: X[:, :1]), r"some with \[1, 2\]"),
        (parts(X=lambda X: X[:, 0]), "X has 1 dimensions in partition 3"),
        (parts(X=sp.csr_array), "all dense or all sparse"),
        (scale.Generated(lambda k: (np.ones((3, 1)), np.zeros(3)), 2), "at least two classes"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(source, message):
    with pytest.raises(ValueError, match=message):
        SVM(kernel="linear").fit(source)


def test_arguments_that_do_not_fit_are_refused(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="needs labels y"):
        SVM(kernel="linear").fit(X, executor="threads")
    with pytest.raises(ValueError, match="leave y and sample_weight out"):
        SVM(kernel="linear").fit(scale.Arrays(X, y), y)
    with pytest.raises(ValueError, match="C must be positive"):
        SVM(kernel="linear", C=0.0).fit(scale.Arrays(X, y))
    with pytest.raises(ValueError, match="executor must be 'threads', 'dask' or a client of Dask, not 3"):
        SVM(kernel="linear").fit(X, y, executor=3)
    with pytest.raises(ValueError, match="y has 3 entries, and X has 120 rows"):
        scale.Arrays(X, y[:3])


@pytest.mark.parametrize(
    ("machine", "given", "message"),
    [
        (SVM(), {}, "need kernel='linear', not 'rbf'"),
        (SVM(kernel="linear", solver="exact"), {}, "need solver='interior-point' or 'auto'"),
        (polyopt.RelativeMarginMachine(kernel="linear", bound_cost=2.0), {}, "leave bound_cost infinite"),
        (polyopt.RelativeMarginMachine(kernel="linear"), {"bound_training": False}, "leave X_bounded"),
        (polyopt.ConvexPolytopeMachine(loss="max"), {}, "leave loss='max' out"),
        (polyopt.ConvexPolytopeMachine(penalty=polyopt.FacePenalty(l1=1.0)), {}, "leave penalty out"),
        (polyopt.ConvexPolytopeMachine(solver="global"), {}, "leave solver='global' out"),
        (polyopt.ConvexPolytopeMachine(inside_label="both"), {}, "leave inside_label='both' out"),
        (polyopt.ConvexPolytopeMachine(sgd=polyopt.SGDSettings(perplexity=2.0)), {}, "leave perplexity out"),
    ],
)
def test_what_blocks_cannot_do_is_refused(machine, given, message, data):
    """A kernel, a penalty or another solver is refused by a sentence that names it."""
    with pytest.raises(ValueError, match=message):
        machine.fit(scale.Arrays(*data), **given)


def test_arrays_with_an_executor_or_a_checkpoint_are_in_blocks(data, tmp_path):
    """An argument for blocks makes blocks of arrays."""
    X, y, weights = data
    wanted = SVM(kernel="linear").fit(scale.Arrays(X, y, weights))
    for given in ({"executor": "threads"}, {"checkpoint": tmp_path / "checkpoint"}):
        assert SVM(kernel="linear").fit(X, y, weights, **given).coef_.tolist() == wanted.coef_.tolist()
