"""The Relative Margin Machine with bounds at further samples: exact, fast and proven, for any samples."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from formulations import rmm_bounded
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, RelativeMarginMachine, binding
from polyopt.margin.certify import certify_rmm_bounded
from polyopt.models import load_model, save_model
from polyopt.plots import whitening

C, B = 10.0, 1.2
X, Y = two_blobs(n=40, seed=0)
# Samples around those with labels, some of them farther out.
FURTHER = X.mean(axis=0) + 1.3 * (X[::4] - X.mean(axis=0))
FURTHER += 0.3 * np.random.default_rng(1).normal(size=FURTHER.shape)

by_kernel = pytest.mark.parametrize("kernel", ["linear", "rbf"])
by_training = pytest.mark.parametrize("bound_training", [True, False], ids=["both bounded", "further alone"])


def machine(kernel="linear", **settings):
    chosen = {"kernel": kernel, "coef0": 1.0, "degree": 2, "gamma": 0.05, "tol": 1e-8, **settings}
    return RelativeMarginMachine(C, B, **chosen)


# -- agreement ---------------------------------------------------------------------------------

SOLVERS = [("linear", "interior-point"), *((kernel, "decomposition") for kernel in ("linear", "rbf", "poly"))]


@by_training
@pytest.mark.parametrize(("kernel", "solver"), SOLVERS)
def test_every_solver_reaches_the_optimum(kernel, solver, bound_training):
    """Fast solvers keep the further bounds and have the exact solver's value and scores."""
    given = {"X_bounded": FURTHER, "bound_training": bound_training}
    exact = machine(kernel, solver="exact").fit(X, Y, **given)
    plain = machine(kernel).fit(X, Y)
    assert np.abs(plain.decision_function(FURTHER)).max() > 1.05 * B  # the further bounds do hold it
    fast = machine(kernel, solver=solver).fit(X, Y, **given)
    certificate = fast.certificate()
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.primal_value == pytest.approx(exact.certificate().primal_value, rel=1e-6)
    assert np.abs(fast.decision_function(FURTHER)).max() <= B * (1 + 1e-9)
    assert fast.decision_function(X) == pytest.approx(exact.decision_function(X), abs=1e-4)
    assert fast.outputs_ == pytest.approx(fast.decision_function(np.vstack([X, FURTHER])), abs=1e-9)


@by_training
@pytest.mark.parametrize("solver", ["exact", "decomposition", "interior-point"])
def test_further_bounds_may_have_a_price(solver, bound_training):
    """With slack on the bounds every solver has the explicit program's value."""
    program = rmm_bounded.qp(X, Y, FURTHER, 1.0, B, training=bound_training, D=0.05)
    soft = RelativeMarginMachine(1.0, B, bound_cost=0.05, kernel="linear", solver=solver, tol=1e-8)
    certificate = soft.fit(X, Y, X_bounded=FURTHER, bound_training=bound_training).certificate()
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.primal_value == pytest.approx(program.solve().objective, rel=1e-6)


@by_kernel
@pytest.mark.parametrize("bound", [np.inf, 1e3])
def test_further_samples_do_not_count_without_bound(kernel, bound):
    """Where no bound holds the machine it is the SVM, and so is the bound on its error."""
    svm = SVM(C, kernel=kernel, gamma=0.05, tol=1e-8).fit(X, Y)
    free = machine(kernel).set_params(B=bound).fit(X, Y, X_bounded=FURTHER)
    assert free.decision_function(FURTHER) == pytest.approx(svm.decision_function(FURTHER), abs=1e-6)
    if bound < np.inf:
        for given in (None, FURTHER):
            ours, theirs = (each.generalization_bound(X_unlabelled=given) for each in (free, svm))
            assert ours.total == pytest.approx(theirs.total, rel=1e-6)


@by_kernel
def test_order_and_storage_do_not_matter(kernel):
    """Permuted, sparse and listed samples have the same scores."""
    expected = machine(kernel).fit(X, Y, X_bounded=FURTHER).decision_function(X)
    order = np.random.default_rng(0).permutation(40)
    for samples, y, U in (
        (X, Y, FURTHER[::-1]),
        (X[order], Y[order], FURTHER.tolist()),
        (sp.csr_array(X), Y, sp.csr_matrix(FURTHER)),
        (sp.csr_array(X), Y, FURTHER),
        (X, Y, sp.csr_array(FURTHER)),
    ):
        again = machine(kernel).fit(samples, y, X_bounded=U)
        assert again.decision_function(X) == pytest.approx(expected, abs=1e-6)


@by_kernel
def test_weights_are_of_labels_and_not_of_bounds(kernel):
    """A weight repeats a sample with a label; a further sample is bounded once."""
    times = np.arange(40) % 3
    weighted = machine(kernel).fit(X, Y, sample_weight=times, X_bounded=FURTHER)
    repeated = machine(kernel).fit(np.repeat(X, times, axis=0), np.repeat(Y, times), X_bounded=FURTHER)
    value = weighted.certificate().primal_value
    assert value == pytest.approx(repeated.certificate().primal_value, rel=1e-7)
    assert weighted.decision_function(X) == pytest.approx(repeated.decision_function(X), abs=1e-5)
    assert set(weighted.duals_["sample"]) == {*np.flatnonzero(times), *range(40, 50)}


@by_kernel
@pytest.mark.parametrize("U", [50.0 * X[:1], np.repeat(X[:1] + 3.0, 7, axis=0), np.zeros((4, 3))])
def test_degenerate_further_samples_are_proven(kernel, U):
    """One far out, equal ones, and all zeros."""
    fitted = machine(kernel).fit(X, Y, X_bounded=U)
    assert fitted.certificate().claim is Claim.OPTIMAL
    assert np.abs(fitted.decision_function(U)).max() <= B * (1 + 1e-7)


def test_gamma_is_of_samples_with_labels():
    """The scale of the kernel does not depend on further samples."""
    fitted = machine("rbf", gamma="scale").fit(X, Y, X_bounded=100.0 * FURTHER)
    assert fitted.gamma_ == pytest.approx(machine("rbf", gamma="scale").fit(X, Y).gamma_, rel=1e-12)


# -- multipliers and pairs ---------------------------------------------------------------------


@by_training
def test_duals_have_rows_of_further_samples(bound_training):
    """Further samples have rows of bounds alone, no labels, and numbers after those with labels."""
    fitted = machine().fit(X, Y, X_bounded=FURTHER, bound_training=bound_training)
    frame, held = fitted.duals_, list(range(0 if bound_training else 40, 50))
    for row, samples in {
        "margin": list(range(40)), "slack": list(range(40)), "bound_above": held, "bound_below": held
    }.items():  # fmt: skip
        assert frame.loc[frame["row"] == row, "sample"].tolist() == samples
    further = frame[frame["sample"] >= 40]
    assert further["label"].isna().all()
    assert set(frame.loc[frame["sample"] < 40, "label"]) == {-1.0, 1.0}
    used = further[further["multiplier"] > 1e-6]
    assert len(used)
    assert used["output"].abs().to_numpy() == pytest.approx(B)
    named = binding(fitted).set_index("row")["samples"]
    assert any(sample in named[row] for row, sample in used[["row", "sample"]].to_numpy())
    assert set(used["sample"]) <= set(fitted.support_)
    whitening(machine().fit(X[:, :2], Y, X_bounded=FURTHER[:, :2], bound_training=bound_training))


@by_kernel
def test_every_pair_has_all_further_samples(kernel, tmp_path):
    """Each pair of classes bounds all further samples, and copies and files keep them."""
    samples, codes = load_iris(return_X_y=True)
    samples, y, U = samples[::3], np.array(["a", "b", "c"])[codes[::3]], samples[1::3]
    whole = machine(kernel, tol=1e-6).fit(samples, y, X_bounded=U)
    assert whole.certificate(tol=1e-5).claim is Claim.OPTIMAL
    for part, pair in zip(whole.estimators_, whole.pairs_, strict=True):
        own = np.isin(y, pair)
        alone = machine(kernel, tol=1e-6).fit(samples[own], y[own], X_bounded=U)
        assert part.decision_function(U) == pytest.approx(alone.decision_function(U), abs=1e-5)
        assert np.abs(part.decision_function(U)).max() <= B * (1 + 1e-7)
    frame = whole.duals_
    above = frame[(frame["row"] == "bound_above") & (frame["sample"] >= len(y))]
    assert above["sample"].tolist() == 3 * list(range(len(y), len(y) + len(U)))
    assert above["label"].isna().all()
    save_model(whole, tmp_path / "machine.skops")
    saved = load_model(tmp_path / "machine.skops").estimator
    assert saved.certificate(tol=1e-5).claim is Claim.OPTIMAL
    for again in (whole.without_data(), pickle.loads(pickle.dumps(whole)), saved):
        assert again.decision_function(U) == pytest.approx(whole.decision_function(U), abs=1e-12)


# -- names and refusals ------------------------------------------------------------------------

FRAME, U_FRAME = (pd.DataFrame(samples, columns=["u", "v", "w"]) for samples in (X, FURTHER))
REFUSED = {
    "no sample": (machine(), X, {"X_bounded": X[:0]}, "X_bounded: Found array with 0 sample"),
    "columns": (machine(), X, {"X_bounded": np.zeros((2, 4))}, "X_bounded: X has 4 features"),
    "NaN": (machine(), X, {"X_bounded": X[:2] + np.nan}, "X_bounded: Input .* contains NaN"),
    "infinity": (machine(), X, {"X_bounded": X[:2] + np.inf}, "X_bounded: Input .* contains inf"),
    "one dimension": (machine(), X, {"X_bounded": X[0]}, "X_bounded: Expected 2D"),
    "no bound": (machine(), X, {"bound_training": False}, "bound_training=False leaves no sample"),
    "text": (machine(), X, {"X_bounded": FURTHER, "bound_training": "no"}, "bound_training"),
    "Gram matrix": (
        machine("precomputed"), X @ X.T, {"X_bounded": FURTHER}, "X_bounded needs a kernel that can be comp"
    ),
    "names": (
        machine(),
        FRAME,
        {"X_bounded": U_FRAME.set_axis(["u", "v", "x"], axis=1)},
        "X_bounded: The feature names should match",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("unfitted", "samples", "given", "sentence"), REFUSED.values(), ids=REFUSED)
def test_impossible_further_samples_are_refused(unfitted, samples, given, sentence):
    """Further samples that do not fit are named, and nothing is kept of them."""
    before = dict(vars(unfitted))
    with pytest.raises(ValueError, match=sentence):
        unfitted.fit(samples, Y, **given)
    assert vars(unfitted) == before


def test_warning_names_the_line_of_the_caller():
    """A warning of a fit is located in the file that called it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        machine(max_iter=1).fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]


# -- the certificate ---------------------------------------------------------------------------

ROWS = ("margin", "bound_above", "bound_below")


def optimum(training=True, U=FURTHER):
    found = rmm_bounded.qp(X, Y, U, 1.0, B, training=training).solve()
    return {"w": found["w"], "b": float(found["b"]), **{row: found.duals[row] for row in ROWS}}


def certified(vectors, training=True):
    point = {"w": vectors["w"], "b": vectors["b"], "multipliers": {row: vectors[row] for row in ROWS}}
    return certify_rmm_bounded(X, Y, FURTHER, 1.0, B, training=training, **point)


@by_training
def test_gram_matrix_is_certified(bound_training):
    """The dual's solution is proven optimal from a Gram matrix, and the point alone from samples."""
    vectors, training = optimum(bound_training), {"training": bound_training}
    alone = certify_rmm_bounded(X, Y, FURTHER, 1.0, B, w=vectors["w"], b=vectors["b"], **training)
    assert alone.claim is Claim.OPTIMAL
    Z = np.vstack([X, FURTHER])
    found = rmm_bounded.kernel_dual(Z @ Z.T, Y, 1.0, B, **training).solve()
    named = {"margin": found["alpha"], "bound_above": found["lam"], "bound_below": found["lam_star"]}
    given = {"precomputed": True, "multipliers": named, "tol": 1e-5, **training}
    assert certify_rmm_bounded(Z @ Z.T, Y, None, 1.0, B, **given).claim is Claim.OPTIMAL


@by_training
@pytest.mark.parametrize("name", ["w", "b", *ROWS])
def test_perturbed_optimum_is_not_proven(name, bound_training, rng):
    """A change of any part of the solution breaks a condition."""
    vectors = optimum(bound_training)
    value = np.asarray(vectors[name], dtype=float)
    changed = {**vectors, name: value + 1e-2 * rng.choice([-1.0, 1.0], value.shape)}
    certificate = certified(changed, bound_training)
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.worst.relative > certificate.tol


def test_broken_further_bound_is_named():
    """The optimum without further bounds breaks one, and the residual names its sample."""
    vectors = optimum(U=X)
    point = {"w": vectors["w"], "b": vectors["b"]}
    certificate = certify_rmm_bounded(X, Y, FURTHER, 1.0, B, **point, max_iter=20)
    assert certificate.claim is not Claim.OPTIMAL
    broken = [r for r in certificate.residuals if r.condition == "primal" and r.value > 1e-6]
    outputs = FURTHER @ vectors["w"] + vectors["b"]
    assert 40 + int(np.abs(outputs).argmax()) in {r.worst for r in broken}


@pytest.mark.parametrize("row", ["bound_above", "bound_below"])
def test_other_multipliers_bound_nothing_above(row):
    """If training samples are free, any multipliers of further bounds stay below the optimum."""
    vectors = optimum(training=False)
    value = certified(vectors, training=False).primal_value
    moved = {**vectors, row: np.ones(len(FURTHER))}
    assert certified(moved, training=False).dual_value <= value * (1 + 1e-9)
    with pytest.raises(ValueError, match="shape"):
        certified(optimum(training=True), training=False)


ARGUMENTS = [
    ({"U": None}, "U must be the further samples"),
    ({"precomputed": True}, "None if X is a Gram matrix"),
    ({"U": None, "precomputed": True}, "more rows than there are labels"),
    ({"B": -1.0}, "B must be"),
    ({"multipliers": {"margin": np.ones(3)}}, "shape"),
    ({"U": np.ones((2, 5))}, "3 features"),
]


@pytest.mark.parametrize(("arguments", "sentence"), ARGUMENTS, ids=lambda value: str(value)[:30])
def test_impossible_arguments_are_refused(arguments, sentence):
    """The certificate names what does not fit."""
    samples = X @ X.T if arguments.get("precomputed") else X
    with pytest.raises(ValueError, match=sentence):
        certify_rmm_bounded(samples, Y, **{"U": FURTHER, "w": np.zeros(samples.shape[1]), **arguments})
