"""Kernel classifiers: libsvm's SVM, limits and forms of kernels, class weights, multipliers, extreme data."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import DATA, assert_true_bounds
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets

from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, OneNormSVM, RelativeMarginMachine, SigmaSVM

RMM = RelativeMarginMachine
MACHINES = {"svm": SVM(), "sigma-svm": SigmaSVM(D=0.7), "rmm": RMM(B=1.2)}
IRIS, CODES = load_iris(return_X_y=True)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[CODES]

by_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
by_kernel = pytest.mark.parametrize("kernel", ["linear", "rbf"])


def fit_and_warnings(machine, X, y):
    """The fitted machine, and the text of all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = machine.fit(X, y)
    return machine, " ".join(str(each.message) for each in caught)


# -- other solvers, other kernels --------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_loose_tolerance_is_admitted(tol, blobs):
    """A fast solver that ends early keeps the bounds on outputs, and its certificate tells the gap."""
    X, y = blobs
    fast = RMM(B=1.2, solver="decomposition", tol=tol).fit(X, y)
    certificate = fast.certificate(tol=1e-9)
    assert (certificate.claim is Claim.OPTIMAL) == (certificate.relative_gap <= 1e-9)
    assert certificate.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert_true_bounds(certificate, RMM(B=1.2, solver="exact").fit(X, y).certificate())
    assert np.abs(fast.decision_function(X)).max() <= 1.2 * (1 + 1e-9)


AUTO = {
    "rbf": (SVM(), (60, 3), "decomposition"),
    "linear": (SVM(kernel="linear"), (60, 3), "interior-point"),
    "wide": (SVM(kernel="linear"), (30, 50), "decomposition"),
}


@pytest.mark.parametrize(("machine", "shape", "solver"), AUTO.values(), ids=AUTO)
def test_auto_picks_solver_by_shape(machine, shape, solver, rng):
    """Linear machines are solved in their features unless there are more of them than samples."""
    machine.fit(rng.normal(size=shape), np.arange(shape[0]) % 2)
    assert machine.solver_ == solver
    assert machine.certificate().claim is Claim.OPTIMAL


@by_kernel
def test_infinite_bound_and_zero_metric_are_svm(kernel, blobs):
    """Without a bound on outputs, or without their whitening, a machine is the SVM."""
    X, y = blobs
    plain = SVM(kernel=kernel).fit(X, y).decision_function(X)
    assert RMM(B=np.inf, kernel=kernel).fit(X, y).decision_function(X) == pytest.approx(plain, abs=1e-6)
    assert SigmaSVM(D=0.0, kernel=kernel).fit(X, y).decision_function(X) == pytest.approx(plain, abs=1e-5)


def test_kernel_may_be_precomputed_or_callable(blobs):
    """A Gram matrix and a function give the scores of the named kernel."""
    X, y = blobs
    T = X[:7] + 0.1
    expected = RMM(B=1.2, gamma=0.3).fit(X, y).decision_function(T)
    by_call = RMM(B=1.2, kernel=lambda A, Z: rbf_kernel(A, Z, gamma=0.3)).fit(X, y)
    gram = RMM(B=1.2, kernel="precomputed").fit(rbf_kernel(X, gamma=0.3), y)
    assert by_call.decision_function(T) == pytest.approx(expected, abs=1e-9)
    assert gram.decision_function(rbf_kernel(T, X, gamma=0.3)) == pytest.approx(expected, abs=1e-9)


# -- classes and weights -----------------------------------------------------------------------


def test_pairs_in_parallel_are_equal():
    """With two jobs the pairs are those of one, up to the rounding of fewer BLAS threads."""
    weights = np.linspace(0.5, 2.0, 150)
    one = SigmaSVM().fit(IRIS, CODES, sample_weight=weights).decision_function(IRIS)
    with parallel_config(backend="threading"):
        two = SigmaSVM(n_jobs=2).fit(IRIS, CODES, sample_weight=weights).decision_function(IRIS)
    assert two == pytest.approx(one, abs=1e-8)


def test_class_without_weight_is_left_out():
    """A class whose samples all have weight 0 is none of the machine's classes."""
    without = SVM(gamma=0.5).fit(IRIS[CODES != 1], CODES[CODES != 1])
    weighted = SVM(gamma=0.5).fit(IRIS, CODES, sample_weight=1.0 * (CODES != 1))
    assert weighted.classes_.tolist() == [0, 2]
    assert weighted.decision_function(IRIS) == pytest.approx(without.decision_function(IRIS), abs=1e-6)


def test_gram_matrix_without_some_samples():
    """The columns of samples of weight 0 are left out of a Gram matrix in fit and predict."""
    K, weights = rbf_kernel(IRIS, gamma=0.5), np.where(np.arange(150) % 7 == 0, 0.0, 1.0)
    gram = SVM(kernel="precomputed").fit(K, CODES, sample_weight=weights)
    named = SVM(gamma=0.5).fit(IRIS, CODES, sample_weight=weights)
    assert gram.decision_function(K) == pytest.approx(named.decision_function(IRIS), abs=1e-6)


def test_class_weight_multiplies_cost(blobs):
    """A class weight is a weight of its samples; "balanced" is as in SVC."""
    X, y = blobs
    by_class = SVM(class_weight={-1: 1.0, 1: 5.0}, kernel="linear").fit(X, y)
    by_sample = SVM(kernel="linear").fit(X, y, sample_weight=np.where(y > 0, 5.0, 1.0))
    assert by_class.coef_ == pytest.approx(by_sample.coef_, abs=1e-8)
    theirs = SVC(kernel="linear", class_weight="balanced", tol=1e-9).fit(X[5:], y[5:])
    ours = SVM(kernel="linear", class_weight="balanced").fit(X[5:], y[5:])
    assert ours.coef_ == pytest.approx(theirs.coef_, abs=1e-5)


@pytest.mark.parametrize("labels", [("1", "2"), ("001", "1"), (True, False), ("1", "x")], ids=str)
def test_class_weights_are_of_labels_as_given(labels):
    """A text of digits is a label of its own, and not its number."""
    X, names = np.array([[0.0], [1.0], [0.8], [2.0], [0.2]]), np.array(labels)[[0, 1, 0, 1, 1]]
    weights = dict(zip(labels, (3.0, 0.5), strict=True))
    weighted = SVM(class_weight=weights).fit(X, names)
    plain = SVM().fit(X, names, sample_weight=[weights[name] for name in names.tolist()])
    assert weighted.decision_function(X) == pytest.approx(plain.decision_function(X))


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("n_classes", [12, 11])
def test_many_classes_are_warned_of(kind, n_classes):
    """More classes than half of the samples have scikit-learn's own warning, at its own count."""
    y = np.arange(22) % n_classes
    X, y = y[:, None] + 0.01 * np.arange(22)[:, None], y.astype(kind)
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        check_classification_targets(y)
    _, ours = fit_and_warnings(SVM(kernel="linear"), X, y)
    assert ours.count("number of unique classes") == len(theirs)


# -- multipliers and history -------------------------------------------------------------------


def test_multipliers_make_the_machine(blobs):
    """The table of multipliers is complementary to the slacks, is the weights, and names the states."""
    X, y = blobs
    machine = RMM(B=1.3, kernel="linear").fit(X, np.where(y > 0, "p", "n"))
    duals, f = machine.duals_, machine.decision_function(X)
    rows = ["margin", "slack", "bound_above", "bound_below"]
    assert duals["row"].tolist() == [row for row in rows for _ in y]
    assert duals["sample"].tolist() == list(range(len(y))) * 4
    table = duals.pivot(index="sample", columns="letter", values="multiplier")
    beta = table["alpha"] * y - table["lam"] + table["lam_star"]
    assert X.T @ beta.to_numpy() == pytest.approx(machine.coef_[0], abs=1e-6)
    assert (table["alpha"] + table["beta"]).to_numpy() == pytest.approx(np.ones(len(y)))
    assert (duals["multiplier"] * duals["slack"]).abs().max() < 1e-6
    state = duals[duals["row"] == "margin"]["state"].to_numpy()
    assert (y * f)[state == "beyond the margin"].min() > 1 - 1e-6
    assert (y * f)[state == "on the margin"] == pytest.approx(1.0, abs=1e-6)
    assert (y * f)[state == "inside the margin"].max() < 1 + 1e-6
    held = duals[duals["state"] == "held at +B"]
    assert len(held) >= 1
    assert held["output"].to_numpy() == pytest.approx(1.3, abs=1e-6)


def test_states_follow_outputs():
    """A one-norm SVM's samples are inside, on or beyond the margin by y f - 1, to 1e-6."""
    X, y = DATA["overlapping"].X, DATA["overlapping"].y
    margin = OneNormSVM(kernel="linear").fit(X, y).duals_.query("row == 'margin'")
    excess = y[margin["sample"]] * margin["output"].to_numpy() - 1.0
    sides = np.where(np.abs(excess) <= 1e-6, 0, np.sign(excess))
    words = {-1: "inside the margin", 0: "on the margin", 1: "beyond the margin"}
    assert margin["state"].tolist() == [words[side] for side in sides]
    assert set(sides) == {-1, 0, 1}


def test_history_closes_the_gap(blobs):
    """The fast solver's bound is never above its objective and meets it."""
    history = SVM(solver="decomposition", tol=1e-8).fit(*blobs).history_
    assert (history["objective"] >= history["bound"] - 1e-9).all()
    last = history.iloc[-1]
    assert last["objective"] - last["bound"] < 1e-5
    assert last["violation"] <= 1e-8


# -- extreme and degenerate data ---------------------------------------------------------------


def test_interpolation_is_warned_of(rng):
    """A σ-SVM with D = 1 whose kernel separates all samples forgets the data, and says so."""
    with pytest.warns(UserWarning, match="interpolates the labels"):
        SigmaSVM(D=1.0, kernel="rbf", gamma=100.0).fit(rng.normal(size=(20, 2)), np.arange(20) % 2)


@by_machine
@by_kernel
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_extreme_scales_are_solved_or_told(machine, kernel, scale):
    """The certificate decides: optimal, or a warning that says by how much it is not."""
    X, y = two_blobs(n=30)
    machine = clone(machine).set_params(kernel=kernel, solver="exact")
    fitted, told = fit_and_warnings(machine, scale * X, y)
    assert np.isfinite(fitted.decision_function(scale * X)).all()
    if fitted.certificate().relative_gap > 1e-6:
        assert "Short of exact" in told
        assert kernel == "linear"
        assert scale > 1


@by_machine
@by_kernel
@pytest.mark.parametrize("C", [1e-12, 1e-6, 1e6, 1e12])
def test_extreme_costs_are_solved_or_told(machine, kernel, C):
    """A cost out of scale with the features is an error or a warning if the gap is not closed."""
    X, y = two_blobs(n=24)
    machine = clone(machine).set_params(kernel=kernel, C=C, solver="exact")
    try:
        fitted, told = fit_and_warnings(machine, X, y)
    except RuntimeError:  # which says that C is out of scale
        assert C > 1e6
        return
    certificate = fitted.certificate()
    if not certificate.relative_gap <= 1e-6:  # outputs are known to 1e-13, and a huge C makes a price of that
        assert C > 1e6 or certificate.rounding > 2e-7 * certificate.primal_value
        assert "Short of exact" in told


@pytest.mark.parametrize("machine", [SVM(kernel="linear"), RMM(B=1.2, kernel="linear")], ids=["svm", "rmm"])
@pytest.mark.parametrize("C", [1e-12, 1e-6])
def test_small_cost_is_scale_of_features(machine, C):
    """The solution for a cost C is that for C = 1 on features times √C, its value times C."""
    X, y = DATA["overlapping"].X, DATA["overlapping"].y
    small = clone(machine).set_params(C=C, solver="exact").fit(X, y)
    alike = clone(machine).set_params(solver="exact").fit(np.sqrt(C) * X, y)
    expected = C * alike.certificate().primal_value
    assert small.certificate().primal_value == pytest.approx(expected, rel=1e-6)
    assert small.solution_.objective == pytest.approx(expected, rel=1e-6)


TROUBLES = {
    "ties": lambda X, y: (np.round(X), y),
    "duplicates": lambda X, y: (np.vstack([X, X]), np.concatenate([y, y])),
    "contradictions": lambda X, y: (np.vstack([X, X]), np.concatenate([y, -y])),
    "zero feature": lambda X, y: (X * [0.0, 1.0], y),
    "zero data": lambda X, y: (0.0 * X, y),
    "lone sample": lambda X, y: (X[np.cumsum(y > 0) * (y > 0) <= 1], y[np.cumsum(y > 0) * (y > 0) <= 1]),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@given(
    seed=st.integers(0, 10_000),
    kernel=st.sampled_from(["linear", "rbf", "poly"]),
    machine=st.sampled_from([SVM(), SigmaSVM(D=0.9), RMM(B=1.05), RMM(B=1.0)]),
    C=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_degenerate_data_are_solved(trouble, seed, kernel, machine, C):
    """Exact and fast solvers agree, and the exact one is optimal, on data of which little is left."""
    X, y = TROUBLES[trouble](*two_blobs(n=16, m=2, seed=seed))
    machine = clone(machine).set_params(kernel=kernel, C=C, degree=2, coef0=1.0)
    exact = clone(machine).set_params(solver="exact").fit(X, y).certificate()
    assert exact.claim is Claim.OPTIMAL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fast = machine.set_params(solver="decomposition", tol=1e-4, max_iter=200_000).fit(X, y).certificate()
    assert fast.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert fast.dual_value <= exact.primal_value * (1 + 1e-7) + 1e-9
    assert fast.primal_value >= exact.dual_value * (1 - 1e-7) - 1e-9


# -- what is refused ---------------------------------------------------------------------------

LARGE = np.zeros((20_001, 1))
KERNEL_REFUSALS = {
    "sigmoid": (SVM(kernel="sigmoid", gamma=0.4), two_blobs(seed=0)[0] / 5, "positive semidefinite"),
    "interior point of a kernel": (SVM(solver="interior-point"), IRIS, "works on linear features"),
    "sparse Gram matrix": (SVM(kernel="precomputed"), sp.csr_matrix(IRIS @ IRIS.T), "[Ss]parse"),
    "20001 samples, exact": (
        SVM(solver="exact"),
        LARGE,
        "20001 samples need a kernel matrix of 3 GB.*solver",
    ),
    "20001 samples": (SigmaSVM(), LARGE, "a linear kernel"),
    "no class weight": (SVM(class_weight={0: 0.0, 1: 1.0}), IRIS, "class_weight must be positive"),
    "negative class weight": (SVM(class_weight={0: -1.0}), IRIS, "must be positive"),
    "class weight of a text": (SVM(class_weight={0: 1.0, 1: "much"}), IRIS, "class_weight must be numbers"),
    "NaN as class weight": (SVM(class_weight={0: np.nan, 1: 1.0}), IRIS, "must be positive and finite"),
    "infinite class weight": (SVM(class_weight={0: np.inf, 1: 1.0}), IRIS, "must be positive and finite"),
    "class weight of no class": (
        SVM(class_weight={"0": 2.0, 1: 1.0}),
        IRIS,
        r"has the labels \['0', 1\], and none for \[0\] of \[0, 1\]",
    ),
}


@pytest.mark.parametrize(("machine", "X", "sentence"), KERNEL_REFUSALS.values(), ids=KERNEL_REFUSALS)
def test_impossible_fit_is_refused(machine, X, sentence):
    """Kernels, sizes and class weights that cannot be are refused with the reason."""
    with pytest.raises((ValueError, TypeError), match=sentence):
        machine.fit(X, np.arange(X.shape[0]) % 2)
