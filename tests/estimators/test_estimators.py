"""The kernel classifiers: scikit-learn's conventions, exact against fast, weights, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.conventions import broken_conventions
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsOneClassifier
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets

from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, ConvexPolytopeMachine, RelativeMarginMachine, SigmaSVM

MACHINES = [SVM, SigmaSVM, RelativeMarginMachine]


# With the RBF kernel they are solved by the decomposition, linear ones by the interior point.
@pytest.mark.parametrize(
    ("machine", "kernel"),
    [(SVM, "linear"), (SVM, "rbf"), (SigmaSVM, "rbf"), (RelativeMarginMachine, "linear")],
)
def test_check_estimator_has_no_failure(machine, kernel):
    of_all = {"all_forms": kernel == "linear", "first": kernel == "rbf"} if machine is SVM else {}
    assert broken_conventions(machine(kernel=kernel), **of_all) == {}


# -- exact against fast --------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_a_loose_tolerance_is_admitted(tol, blobs):
    X, y = blobs
    fast = RelativeMarginMachine(B=1.2, solver="decomposition", tol=tol).fit(X, y)
    optimum = RelativeMarginMachine(B=1.2, solver="exact").fit(X, y).certificate().primal_value
    certificate = fast.certificate(tol=1e-9)
    assert certificate.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert (certificate.claim is Claim.OPTIMAL) == (certificate.relative_gap <= 1e-9)
    assert certificate.dual_value <= optimum + 1e-8 <= certificate.primal_value + 2e-8
    assert np.abs(fast.decision_function(X)).max() <= 1.2 * (1 + 1e-9)


def test_the_solver_that_auto_picked_is_named(rng):
    X, y = two_blobs(n=60)
    assert SVM().fit(X, y).solver_ == "decomposition"
    assert SVM(kernel="linear").fit(X, y).solver_ == "interior-point"
    wide = SVM(kernel="linear").fit(rng.normal(size=(30, 50)), np.arange(30) % 2)
    assert wide.solver_ == "decomposition"
    assert wide.certificate().claim is Claim.OPTIMAL  # solved in its samples


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
def test_the_svm_is_libsvm_s(kernel, blobs):
    X, y = blobs
    X = X / 5
    settings = {"C": 0.7, "kernel": kernel, "gamma": 0.4, "coef0": 0.5 if kernel != "sigmoid" else 0.0}
    theirs = SVC(tol=1e-9, **settings).fit(X, y)
    if kernel == "sigmoid":
        with pytest.raises(ValueError, match="positive semidefinite"):
            SVM(**settings).fit(X, y)
        return
    ours = SVM(**settings).fit(X, y)
    assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=1e-5)
    assert set(ours.support_) == set(theirs.support_)


def test_infinite_B_and_zero_D_are_the_svm(blobs):
    X, y = blobs
    for kernel in ("linear", "rbf"):
        plain = SVM(kernel=kernel).fit(X, y).decision_function(X)
        assert RelativeMarginMachine(B=np.inf, kernel=kernel).fit(X, y).decision_function(X) == pytest.approx(
            plain, abs=1e-6
        )
        assert SigmaSVM(D=0.0, kernel=kernel).fit(X, y).decision_function(X) == pytest.approx(plain, abs=1e-5)


def test_a_precomputed_and_a_callable_kernel_are_the_named_one(blobs):
    X, y = blobs
    named = RelativeMarginMachine(B=1.2, gamma=0.3).fit(X, y)
    by_call = RelativeMarginMachine(B=1.2, kernel=lambda A, Z: rbf_kernel(A, Z, gamma=0.3)).fit(X, y)
    gram = RelativeMarginMachine(B=1.2, kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    T = X[:7] + 0.1
    expected = named.decision_function(T)
    assert by_call.decision_function(T) == pytest.approx(expected, abs=1e-9)
    assert gram.decision_function(rbf_kernel(T, X, gamma=0.3)) == pytest.approx(expected, abs=1e-9)
    iris = load_iris()
    G = rbf_kernel(iris.data, gamma=0.3)
    many = SVM(kernel="precomputed").fit(G, iris.target).predict(G)
    assert (many == SVM(gamma=0.3).fit(iris.data, iris.target).predict(iris.data)).all()


@pytest.mark.parametrize("machine", [SVM(), SigmaSVM(D=0.7), RelativeMarginMachine(B=1.2)])
def test_sparse_data_give_the_dense_answer(machine, blobs):
    X, y = blobs
    X = np.where(np.abs(X) < 0.8, 0.0, X)
    for kernel in ("linear", "rbf", "poly"):
        machine = clone(machine).set_params(kernel=kernel)
        dense, sparse = clone(machine).fit(X, y), clone(machine).fit(sp.csr_matrix(X), y)
        assert sparse.decision_function(sp.csr_matrix(X)) == pytest.approx(
            dense.decision_function(X), abs=1e-7
        )
        assert sparse.certificate().claim is Claim.OPTIMAL


# -- weights and classes -------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SVM(), SigmaSVM(D=0.7), RelativeMarginMachine(B=1.2)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_weight_is_a_repetition_and_zero_an_absence(machine, kernel, blobs, rng):
    X, y = blobs
    weights = rng.integers(0, 4, len(y))
    machine = clone(machine).set_params(kernel=kernel)
    weighted = clone(machine).fit(X, y, sample_weight=weights)
    rows = np.repeat(np.arange(len(y)), weights)
    repeated = clone(machine).fit(X[rows], y[rows])
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-6)
    assert set(weighted.duals_["sample"]) == set(np.flatnonzero(weights))


def test_a_class_without_weight_is_left_out():
    X, y = load_iris(return_X_y=True)
    weights = np.where(y == 1, 0.0, 1.0)
    without = SVM(gamma=0.5).fit(X[y != 1], y[y != 1])
    weighted = SVM(gamma=0.5).fit(X, y, sample_weight=weights)
    assert weighted.classes_.tolist() == [0, 2]
    assert weighted.decision_function(X) == pytest.approx(without.decision_function(X), abs=1e-6)
    some = np.where(np.arange(150) % 7 == 0, 0.0, 1.0)
    K = rbf_kernel(X, gamma=0.5)
    gram = SVM(kernel="precomputed").fit(K, y, sample_weight=some)
    named = SVM(gamma=0.5).fit(X, y, sample_weight=some)
    assert gram.decision_function(K) == pytest.approx(named.decision_function(X), abs=1e-6)
    assert set(named.duals_["sample"]) == set(np.flatnonzero(some))


@pytest.mark.parametrize("weight", [0.0, -1.0])
def test_class_weights_are_positive(weight, blobs):
    with pytest.raises(ValueError, match="class_weight must be positive"):
        SVM(class_weight={-1: weight, 1: 1.0}).fit(*blobs)


def test_class_weight_multiplies_the_cost(blobs):
    X, y = blobs
    by_class = SVM(class_weight={-1: 1.0, 1: 5.0}, kernel="linear").fit(X, y)
    by_sample = SVM(kernel="linear").fit(X, y, sample_weight=np.where(y > 0, 5.0, 1.0))
    assert by_class.coef_ == pytest.approx(by_sample.coef_, abs=1e-8)
    theirs = SVC(kernel="linear", class_weight="balanced", tol=1e-9).fit(X[5:], y[5:])
    ours = SVM(kernel="linear", class_weight="balanced").fit(X[5:], y[5:])
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-5)


def test_string_labels_and_which_side_is_positive(blobs):
    X, y = blobs
    named = np.where(y > 0, "yes", "no")
    machine = RelativeMarginMachine(B=1.2).fit(X, named)
    assert machine.classes_.tolist() == ["no", "yes"]
    assert ((machine.decision_function(X) > 0) == (machine.predict(X) == "yes")).all()
    flipped = RelativeMarginMachine(B=1.2).fit(X, np.where(y > 0, "a", "b"))
    assert flipped.decision_function(X) == pytest.approx(-machine.decision_function(X), abs=1e-6)


def test_three_classes_vote_in_pairs():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    ours = SVM(gamma=0.5).fit(X, names)
    theirs = OneVsOneClassifier(SVC(gamma=0.5, tol=1e-9)).fit(X, names)
    assert (ours.predict(X) == theirs.predict(X)).all()
    assert ours.pairs_ == [("setosa", "versicolor"), ("setosa", "virginica"), ("versicolor", "virginica")]
    certificate = ours.certificate()
    assert certificate.claim is Claim.OPTIMAL
    parts = [machine.certificate().primal_value for machine in ours.estimators_]
    assert certificate.primal_value == pytest.approx(sum(parts))
    duals = ours.duals_
    assert set(duals["pair"]) == {"setosa vs versicolor", "setosa vs virginica", "versicolor vs virginica"}
    one = duals[(duals["pair"] == "setosa vs virginica") & (duals["row"] == "margin")]
    assert one["sample"].tolist() == [*range(50), *range(100, 150)]


@pytest.mark.parametrize("machine", [SVM(), ConvexPolytopeMachine(2, solver="exact", random_state=0)])
def test_the_multipliers_of_pairs_carry_the_labels_of_the_data(machine):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    frame = machine.fit(X[::3], names[::3]).duals_
    assert (frame["label"] == names[::3][frame["sample"]]).all()


def test_pairs_in_parallel_are_the_pairs_in_turn():
    X, y = load_iris(return_X_y=True)
    weights = np.linspace(0.5, 2.0, 150)
    one = SigmaSVM().fit(X, y, sample_weight=weights).decision_function(X)
    with parallel_config(backend="threading"):  # processes are for pairs of any machine: test_polyhedral_use
        two = SigmaSVM(n_jobs=2).fit(X, y, sample_weight=weights).decision_function(X)
    assert two == pytest.approx(one, abs=1e-8)  # workers have fewer BLAS threads, which round otherwise


# -- what is read off a fitted machine -----------------------------------------------------


def test_the_table_of_multipliers(blobs):
    X, y = blobs
    machine = RelativeMarginMachine(B=1.3, kernel="linear").fit(X, np.where(y > 0, "p", "n"))
    duals = machine.duals_
    n = len(y)
    assert duals["row"].tolist() == ["margin"] * n + ["slack"] * n + ["bound_above"] * n + ["bound_below"] * n
    assert duals["sample"].tolist() == list(range(n)) * 4
    table = duals.pivot(index="sample", columns="letter", values="multiplier")
    beta = table["alpha"] * y - table["lam"] + table["lam_star"]
    assert X.T @ beta.to_numpy() == pytest.approx(machine.coef_[0], abs=1e-6)
    assert (table["alpha"] + table["beta"]).to_numpy() == pytest.approx(np.ones(n))
    assert (duals["multiplier"] * duals["slack"]).abs().max() < 1e-6
    f = machine.decision_function(X)
    state = duals[duals["row"] == "margin"]["state"].to_numpy()
    assert (y * f)[state == "beyond the margin"].min() > 1 - 1e-6
    assert (y * f)[state == "on the margin"] == pytest.approx(1.0, abs=1e-6)
    assert (y * f)[state == "inside the margin"].max() < 1 + 1e-6
    held = duals[duals["state"] == "held at +B"]
    assert held["output"].to_numpy() == pytest.approx(1.3, abs=1e-6)
    assert len(held) >= 1


def test_history_of_the_fast_solver_closes_the_gap(blobs):
    history = SVM(solver="decomposition", tol=1e-8).fit(*blobs).history_
    assert (history["objective"] >= history["bound"] - 1e-9).all()
    last = history.iloc[-1]
    assert last["objective"] - last["bound"] < 1e-5
    assert last["violation"] <= 1e-8


@pytest.mark.parametrize("machine", [SVM(), SVM(kernel="linear"), ConvexPolytopeMachine(2, random_state=0)])
@pytest.mark.parametrize("form", [np.array, sp.csr_matrix])
def test_what_happens_to_the_data_afterwards_is_no_matter(machine, form, blobs):
    X, y = form(blobs[0]), blobs[1].copy()
    machine = clone(machine).fit(X, y)
    before = machine.certificate()
    X *= 0.0
    y *= -1.0
    assert machine.certificate() == before


def test_sigma_svm_warns_where_it_forgets_the_data(rng):
    X = rng.normal(size=(20, 2))
    with pytest.warns(UserWarning, match="interpolates the labels"):
        SigmaSVM(D=1.0, kernel="rbf", gamma=100.0).fit(X, np.arange(20) % 2)


# -- bad and extreme input -----------------------------------------------------------------

GOOD_X, GOOD_Y = two_blobs(n=12)
SPOILT = GOOD_X.copy()
SPOILT[3, 1] = np.nan
ENDLESS = GOOD_X.copy()
ENDLESS[3, 1] = np.inf


def test_a_sparse_gram_matrix_is_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        SVM(kernel="precomputed").fit(sp.csr_matrix(GOOD_X @ GOOD_X.T), GOOD_Y)


def test_more_samples_than_a_kernel_matrix_can_hold():
    X = np.zeros((20_001, 1))
    y = np.arange(20_001) % 2
    with pytest.raises(ValueError, match=r"20001 samples need a kernel matrix of 3 GB.*another solver"):
        SVM(solver="exact").fit(X, y)
    with pytest.raises(ValueError, match="a linear kernel"):
        SigmaSVM().fit(X, y)


@pytest.mark.parametrize("machine", [SVM(), SigmaSVM(D=0.7), RelativeMarginMachine(B=1.2)])
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_extreme_scales_give_a_right_answer_or_say_so(machine, scale):
    """The certificate decides: optimal, or a warning that says by how much it is not."""
    X, y = two_blobs(n=30)
    for kernel in ("linear", "rbf"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = clone(machine).set_params(kernel=kernel, solver="exact").fit(scale * X, y)
        certificate = fitted.certificate()
        assert certificate.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
        if certificate.relative_gap > 1e-6:
            assert any("Short of exact" in str(w.message) for w in caught)
            assert kernel == "linear"
            assert scale > 1
        assert np.isfinite(fitted.decision_function(scale * X)).all()


@pytest.mark.parametrize("machine", [SVM(), SigmaSVM(D=0.7), RelativeMarginMachine(B=1.2)])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e-12, 1e-6, 1e6, 1e9, 1e12])
def test_extreme_costs_give_a_right_answer_or_say_so(machine, kernel, C):
    X, y = two_blobs(seed=0)
    machine = clone(machine).set_params(kernel=kernel, C=C, solver="exact")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            certificate = machine.fit(X, y).certificate()
        except RuntimeError:  # which says that C is out of scale with the features
            assert C > 1e6
            return
    if not certificate.relative_gap <= 1e-6:
        # Outputs are known to 1e-13, and a huge C makes a price of that.
        assert C > 1e6 or certificate.rounding > 2e-7 * certificate.primal_value
        assert any("Short of exact" in str(w.message) for w in caught)
    if C < 1:  # in its own units, the solution of a small C is that of C = 1 on smaller features
        alike = clone(machine).set_params(C=1.0).fit(np.sqrt(C) * X, y) if kernel == "linear" else None
        if alike is not None and not isinstance(machine, SigmaSVM):
            assert certificate.primal_value == pytest.approx(C * alike.certificate().primal_value, rel=1e-6)
            assert machine.solution_.objective == pytest.approx(certificate.primal_value, rel=1e-6)


@given(
    seed=st.integers(0, 10_000),
    kernel=st.sampled_from(["linear", "rbf", "poly"]),
    machine=st.sampled_from(
        [SVM(), SigmaSVM(D=0.9), RelativeMarginMachine(B=1.05), RelativeMarginMachine(B=1.0)]
    ),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
    trouble=st.sampled_from(
        ["ties", "duplicates", "contradictions", "zero feature", "zero data", "lone sample"]
    ),
)
def test_degenerate_data_are_solved_and_certified(seed, kernel, machine, C, trouble):
    X, y = two_blobs(n=16, m=2, seed=seed)
    if trouble == "ties":
        X = np.round(X)
    elif trouble == "duplicates":
        X, y = np.vstack([X, X]), np.concatenate([y, y])
    elif trouble == "contradictions":
        X, y = np.vstack([X, X]), np.concatenate([y, -y])
    elif trouble == "zero feature":
        X[:, 0] = 0.0
    elif trouble == "zero data":
        X[:] = 0.0
    else:
        keep = np.concatenate([np.flatnonzero(y > 0)[:1], np.flatnonzero(y < 0)])
        X, y = X[keep], y[keep]
    machine = clone(machine).set_params(kernel=kernel, C=C, degree=2, coef0=1.0)
    exact = clone(machine).set_params(solver="exact").fit(X, y).certificate()
    assert exact.claim is Claim.OPTIMAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fast = (
            clone(machine)
            .set_params(solver="decomposition", tol=1e-4, max_iter=200_000)
            .fit(X, y)
            .certificate()
        )
    assert fast.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert fast.dual_value <= exact.primal_value * (1 + 1e-7) + 1e-9
    assert fast.primal_value >= exact.dual_value * (1 - 1e-7) - 1e-9


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("n_classes", [12, 11])
def test_more_classes_than_half_of_the_samples_are_told_of(words, n_classes):
    """Labels of plain kinds are not looked at, but for that: scikit-learn's own warning, at its own count."""
    y = np.arange(22) % n_classes
    X = y[:, None] + 0.01 * np.arange(22)[:, None]
    y = y.astype(str) if words else y

    def told(run):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run()
        return sum("number of unique classes" in str(one.message) for one in caught)

    assert told(lambda: SVM(kernel="linear").fit(X, y)) == told(lambda: check_classification_targets(y))


@pytest.mark.parametrize(
    ("labels", "given"),
    [
        (["1", "2"], {"1": 3.0, "2": 0.5}),
        (["001", "1"], {"001": 3.0, "1": 0.5}),
        ([True, False], {True: 3.0, False: 0.5}),
        (["1", "x"], {"1": 3.0, "x": 0.5}),
    ],
)
def test_class_weights_are_those_of_the_labels_as_they_are(labels, given):
    X, y = np.array([[0.0], [1.0], [0.8], [2.0], [0.2]]), np.array([0, 1, 0, 1, 1])
    names = np.array(labels)[y]
    weighted = SVM(class_weight=given).fit(X, names)
    plain = SVM().fit(X, names, sample_weight=[given[name] for name in names.tolist()])
    assert weighted.decision_function(X) == pytest.approx(plain.decision_function(X))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({1: 2.0, "x": 1.0}, r"has the labels \[1, 'x'\], and none for \['1'\] of \['1', 'x'\]"),
        ({"1": "much", "x": 1.0}, "class_weight must be numbers"),
        ({"1": float("nan"), "x": 1.0}, "must be positive and finite"),
        ({"1": float("inf"), "x": 1.0}, "must be positive and finite"),
        ({"1": -1.0}, "must be positive"),
    ],
)
def test_class_weights_that_fit_no_class_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        SVM(class_weight=given).fit([[0.0], [1.0]], ["1", "x"])
