"""The Relative Margin Machine with bounds at further samples: exact, fast and proven, for any samples."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from formulations import rmm_bounded
from polyopt import SVM, Claim, RelativeMarginMachine, binding
from polyopt.margin.certify import certify_rmm_bounded
from polyopt.models import Model, load_model, save_model
from polyopt.plots import whitening

C, B = 10.0, 1.2


def machine(kernel="linear", **settings):
    chosen = {"kernel": kernel, "coef0": 1.0, "degree": 2, "gamma": 0.05, "tol": 1e-8, **settings}
    return RelativeMarginMachine(C, B, **chosen)


@pytest.fixture
def further(blobs):
    """Samples around those with labels, some of them farther out."""
    X, _ = blobs
    rng = np.random.default_rng(1)
    centre = X.mean(axis=0)
    return centre + 1.3 * (X[::4] - centre) + 0.3 * rng.normal(size=(10, X.shape[1]))


# -- agreement ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bound_training", [True, False])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_every_solver_reaches_the_exact_solution(kernel, bound_training, blobs, further):
    X, y = blobs
    exact = machine(kernel, solver="exact")
    exact.fit(X, y, X_bounded=further, bound_training=bound_training)
    value = exact.certificate().primal_value
    plain = machine(kernel).fit(X, y)
    assert np.abs(plain.decision_function(further)).max() > 1.05 * B  # the further bounds are none too many
    solvers = ["decomposition", "interior-point", "auto"] if kernel == "linear" else ["decomposition"]
    for solver in solvers:
        fast = clone(exact).set_params(solver=solver)
        fast.fit(X, y, X_bounded=further, bound_training=bound_training)
        certificate = fast.certificate()
        assert certificate.claim is Claim.OPTIMAL
        assert certificate.primal_value == pytest.approx(value, rel=1e-6)
        assert np.abs(fast.decision_function(further)).max() <= B * (1 + 1e-9)
        assert fast.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-4)
        assert fast.outputs_ == pytest.approx(fast.decision_function(np.vstack([X, further])), abs=1e-9)


@pytest.mark.parametrize("solver", ["exact", "decomposition", "interior-point"])
def test_bounds_of_a_price_at_further_samples(solver, blobs, further):
    X, y = blobs
    for training in (True, False):
        value = rmm_bounded.qp(X, y, further, 1.0, B, training=training, D=0.05).solve().objective
        soft = RelativeMarginMachine(1.0, B, bound_cost=0.05, kernel="linear", solver=solver, tol=1e-8)
        certificate = soft.fit(X, y, X_bounded=further, bound_training=training).certificate()
        assert certificate.claim is Claim.OPTIMAL
        assert certificate.primal_value == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["auto", "exact"])
def test_samples_that_are_bounded_already_change_nothing(kernel, solver, blobs):
    X, y = blobs
    plain = machine(kernel, solver=solver).fit(X, y)
    points = np.random.default_rng(0).normal(size=(30, X.shape[1])) + X.mean(axis=0)
    for U in (None, X, X[:1], np.repeat(X[:2], 5, axis=0)):
        same = machine(kernel, solver=solver).fit(X, y, X_bounded=U)
        assert same.decision_function(points) == pytest.approx(plain.decision_function(points), abs=2e-5)
    alone = machine(kernel, solver=solver).fit(X, y, X_bounded=X, bound_training=False)
    assert alone.decision_function(points) == pytest.approx(plain.decision_function(points), abs=2e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_without_a_bound_the_further_samples_do_not_count(kernel, blobs, further):
    X, y = blobs
    svm = SVM(C, kernel=kernel, gamma=0.05, tol=1e-8).fit(X, y)
    for free in (machine(kernel).set_params(B=np.inf), machine(kernel).set_params(B=1e3)):
        outputs = free.fit(X, y, X_bounded=further).decision_function(further)
        assert outputs == pytest.approx(svm.decision_function(further), abs=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_order_and_storage_do_not_matter(kernel, blobs, further):
    X, y = blobs
    fitted = machine(kernel).fit(X, y, X_bounded=further)
    expected, order = fitted.decision_function(X), np.random.default_rng(0).permutation(len(y))
    for given in (
        (X, y, further[::-1]), (X[order], y[order], further), (sp.csr_array(X), y, sp.csr_matrix(further)),
        (sp.csr_array(X), y, further), (X, y, sp.csr_array(further)), (X, y, further.tolist()),
    ):  # fmt: skip
        again = machine(kernel).fit(given[0], given[1], X_bounded=given[2])
        assert again.decision_function(X) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_weights_are_repetitions_of_labels_and_not_of_bounds(kernel, blobs, further):
    X, y = blobs
    times = np.where(np.arange(len(y)) % 3 == 0, 2, np.where(np.arange(len(y)) % 3 == 1, 1, 0))
    weighted = machine(kernel).fit(X, y, sample_weight=times, X_bounded=further)
    repeated = machine(kernel).fit(np.repeat(X, times, axis=0), np.repeat(y, times), X_bounded=further)
    value = weighted.certificate().primal_value
    assert value == pytest.approx(repeated.certificate().primal_value, rel=1e-7)
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-5)
    held = weighted.duals_
    assert set(held["sample"]) == {*np.flatnonzero(times), *range(len(y), len(y) + len(further))}


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_degenerate_further_samples(kernel, blobs):
    """One far out, equal ones, and all zeros: proven all the same."""
    X, y = blobs
    for U in (50.0 * X[:1], np.repeat(X[:1] + 3.0, 7, axis=0), np.zeros((4, X.shape[1]))):
        fitted = machine(kernel).fit(X, y, X_bounded=U)
        assert fitted.certificate().claim is Claim.OPTIMAL
        assert np.abs(fitted.decision_function(U)).max() <= B * (1 + 1e-7)


def test_gamma_is_that_of_the_samples_with_labels(blobs, further):
    X, y = blobs
    fitted = machine("rbf", gamma="scale").fit(X, y, X_bounded=100.0 * further)
    assert fitted.gamma_ == pytest.approx(machine("rbf", gamma="scale").fit(X, y).gamma_, rel=1e-12)


# -- what is shown of it -----------------------------------------------------------------------


@pytest.mark.parametrize("bound_training", [True, False])
def test_the_duals_have_the_rows_that_there_are(bound_training, blobs, further):
    X, y = blobs
    fitted = machine().fit(X, y, X_bounded=further, bound_training=bound_training)
    frame, n, count = fitted.duals_, len(y), len(y) + len(further)
    held = list(range(0 if bound_training else n, count))
    for row, samples in (
        ("margin", range(n)), ("slack", range(n)), ("bound_above", held), ("bound_below", held)
    ):  # fmt: skip
        assert frame.loc[frame["row"] == row, "sample"].tolist() == list(samples)
    further_rows = frame[frame["sample"] >= n]
    assert further_rows["label"].isna().all()
    assert set(frame.loc[frame["sample"] < n, "label"]) == {-1.0, 1.0}
    used = further_rows[further_rows["multiplier"] > 1e-6]
    assert len(used)
    assert used["output"].abs().to_numpy() == pytest.approx(B)
    named = binding(fitted).set_index("row")["samples"]
    assert any(sample in named[row] for row, sample in used[["row", "sample"]].to_numpy())
    assert set(used["sample"]) <= set(fitted.support_)
    flat = {"X_bounded": further[:, :2], "bound_training": bound_training}
    whitening(machine().fit(X[:, :2], y, **flat))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_bound_on_the_error_is_of_the_samples_with_labels(kernel, blobs, further):
    """Where no bound holds the machine, it is the SVM's; and with bounds at U the class H knows of it."""
    X, y = blobs
    wide = machine(kernel).set_params(B=1e3).fit(X, y, X_bounded=further)
    svm = SVM(C, kernel=kernel, gamma=0.05, tol=1e-8).fit(X, y)
    for given in (None, further):
        ours, theirs = (each.generalization_bound(X_unlabelled=given) for each in (wide, svm))
        assert ours.total == pytest.approx(theirs.total, rel=1e-6)


# -- several classes ---------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_every_pair_of_classes_has_all_further_samples(kernel, tmp_path):
    X, labels = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"])
    X, y, U = X[::3], names[labels[::3]], X[1::3]
    whole = machine(kernel, tol=1e-6).fit(X, y, X_bounded=U)
    assert whole.certificate(tol=1e-5).claim is Claim.OPTIMAL
    for part, (first, second) in zip(whole.estimators_, whole.pairs_, strict=True):
        own = np.isin(y, (first, second))
        alone = machine(kernel, tol=1e-6).fit(X[own], y[own], X_bounded=U)
        assert part.decision_function(U) == pytest.approx(alone.decision_function(U), abs=1e-5)
        assert np.abs(part.decision_function(U)).max() <= B * (1 + 1e-7)
    frame = whole.duals_
    above = frame[(frame["row"] == "bound_above") & (frame["sample"] >= len(y))]
    assert above["sample"].tolist() == 3 * list(range(len(y), len(y) + len(U)))
    assert above["label"].isna().all()
    rest = frame[frame["sample"] < len(y)]
    assert (rest["label"] == y[rest["sample"]]).all()
    scores = whole.decision_function(U)
    save_model(Model.of(whole, method="rmm"), tmp_path / "machine.skops")
    saved = load_model(tmp_path / "machine.skops").estimator
    assert saved.certificate(tol=1e-5).claim is Claim.OPTIMAL
    for again in (whole.without_data(), pickle.loads(pickle.dumps(whole)), saved):
        assert again.decision_function(U) == pytest.approx(scores, abs=1e-12)


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("U", "message"), [
    (np.zeros((0, 3)), "X_bounded: Found array with 0 sample"),
    (np.zeros((2, 4)), "X_bounded: X has 4 features"),
    (np.full((2, 3), np.nan), "X_bounded: Input .* contains NaN"), (np.zeros(3), "X_bounded: Expected 2D"),
    (np.full((2, 3), np.inf), "X_bounded: Input .* contains inf"),
])  # fmt: skip
def test_further_samples_that_do_not_fit_are_named(U, message, blobs):
    fitted = machine()
    with pytest.raises(ValueError, match=message):
        fitted.fit(*blobs, X_bounded=U)
    assert "_bounded" not in vars(fitted)


def test_what_cannot_be_is_said(blobs, further):
    X, y = blobs
    with pytest.raises(ValueError, match="bound_training=False leaves no sample within the bounds"):
        machine().fit(X, y, bound_training=False)
    with pytest.raises(ValueError, match="X_bounded needs a kernel that can be computed"):
        machine("precomputed").fit(X @ X.T, y, X_bounded=further)
    with pytest.raises(ValueError, match="bound_training"):
        machine().fit(X, y, X_bounded=further, bound_training="no")


def test_a_warning_names_the_caller_s_line(blobs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        machine(max_iter=1).fit(*blobs)
    assert [warning.filename for warning in caught] == [__file__]


def test_features_have_names_in_both(blobs, further):
    X, y = blobs
    names = ["u", "v", "w"]
    frame = pd.DataFrame(X, columns=names)
    fitted = machine().fit(frame, y, X_bounded=pd.DataFrame(further, columns=names))
    assert fitted.coef_ == pytest.approx(machine().fit(X, y, X_bounded=further).coef_, abs=1e-9)
    with pytest.raises(ValueError, match="X_bounded: The feature names should match"):
        machine().fit(frame, y, X_bounded=pd.DataFrame(further, columns=["u", "v", "x"]))


# -- the certificate ---------------------------------------------------------------------------


def optimum(X, y, U, training):
    found = rmm_bounded.qp(X, y, U, 1.0, B, training=training).solve()
    return {"w": found["w"], "b": float(found["b"]), "multipliers": dict(found.duals)}


def certified(X, y, U, vectors, training=True, **more):
    named = {name: vectors["multipliers"][name] for name in ("margin", "bound_above", "bound_below")}
    return certify_rmm_bounded(
        X, y, U, 1.0, B, training=training, **{**vectors, "multipliers": named}, **more
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_explicit_optimum_is_proven(training, blobs, further):
    X, y = blobs
    vectors = optimum(X, y, further, training)
    assert certified(X, y, further, vectors, training).claim is Claim.OPTIMAL
    alone = certify_rmm_bounded(X, y, further, 1.0, B, training=training, w=vectors["w"], b=vectors["b"])
    assert alone.claim is Claim.OPTIMAL
    Z = np.vstack([X, further])
    kernel = rmm_bounded.kernel_dual(Z @ Z.T, y, 1.0, B, training=training).solve()
    named = {"margin": kernel["alpha"], "bound_above": kernel["lam"], "bound_below": kernel["lam_star"]}
    gram = certify_rmm_bounded(
        Z @ Z.T, y, None, 1.0, B, training=training, precomputed=True, multipliers=named, tol=1e-5
    )
    assert gram.claim is Claim.OPTIMAL


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["w", "b", "margin", "bound_above", "bound_below"])
def test_a_perturbed_optimum_is_not(name, training, blobs, rng, further):
    X, y = blobs
    vectors = optimum(X, y, further, training)
    home = vectors if name in vectors else vectors["multipliers"]
    value = np.asarray(home[name], dtype=float)
    home[name] = value + 1e-2 * rng.choice([-1.0, 1.0], value.shape)
    certificate = certified(X, y, further, vectors, training)
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol


def test_the_optimum_without_the_further_bounds_is_not_one_with_them(blobs, further):
    """Beyond a further bound, which alone says that this is no optimum: the residual names the sample."""
    X, y = blobs
    vectors = optimum(X, y, X, True)
    certificate = certify_rmm_bounded(X, y, further, 1.0, B, w=vectors["w"], b=vectors["b"], max_iter=20)
    assert certificate.claim is not Claim.OPTIMAL
    broken = [r for r in certificate.residuals if r.condition == "primal" and r.value > 1e-6]
    outputs = further @ vectors["w"] + vectors["b"]
    assert len(y) + int(np.abs(outputs).argmax()) in {r.worst for r in broken}


def test_a_multiplier_of_a_row_that_is_not_there_bounds_nothing(blobs, further):
    """Of class H, the bounds at samples with labels have no multiplier."""
    X, y = blobs
    vectors = optimum(X, y, further, False)
    value = certified(X, y, further, vectors, False).primal_value
    both = optimum(X, y, further, True)
    with pytest.raises(ValueError, match="shape"):
        certified(X, y, further, both, False)
    for multiplier in ("bound_above", "bound_below"):
        moved = {**vectors, "multipliers": {**vectors["multipliers"], multiplier: np.ones(len(further))}}
        assert certified(X, y, further, moved, False).dual_value <= value * (1 + 1e-9)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"U": None}, "U must be the further samples"), ({"precomputed": True}, "None if X is a Gram matrix"),
    ({"U": None, "precomputed": True}, "more rows than there are labels"), ({"B": -1.0}, "B must be"),
    ({"multipliers": {"margin": np.ones(3)}}, "shape"), ({"U": np.ones((2, 5))}, "3 features"),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments, message, blobs, further):
    X, y = blobs
    X = X @ X.T if arguments.get("precomputed") else X
    given = {"U": further, "w": np.zeros(X.shape[1]), **arguments}
    with pytest.raises(ValueError, match=message):
        certify_rmm_bounded(X, y, **given)
