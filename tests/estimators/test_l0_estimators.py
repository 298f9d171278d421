"""CrossEntropySVM and OneNormSVM: scikit-learn's conventions, weights, kernels, certificates, bad input."""

from __future__ import annotations

import re
import warnings
from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from helpers.conventions import EQUIVALENCE, broken_conventions
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from formulations import l0, one_norm
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, CrossEntropySettings, CrossEntropySVM, OneNormSVM
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.sparse.certificate import certify_l0

pytestmark = pytest.mark.filterwarnings("ignore:CrossEntropySVM. The iteration limit", "ignore:overflow")

SOLVERS = ["ce", "highs", "global", "one-norm", "exact"]
SETTINGS = {field.name for field in fields(CrossEntropySettings)}
KERNELS = ["linear", "rbf", "poly", "sigmoid"]


def quick(**settings):
    """A machine whose search takes some moments; settings of the machine and of the search alike."""
    how = {"n_samples": 20, "max_iter": 10}
    how |= {name: settings.pop(name) for name in SETTINGS & settings.keys()}
    return CrossEntropySVM(**{"search": CrossEntropySettings(**how), "random_state": 0, **settings})


MACHINES = {"ce": quick(), "one-norm": OneNormSVM()}


def blobs(n=30, seed=0, m=2):
    return two_blobs(n=n, m=m, seed=seed)


@pytest.fixture(params=list(MACHINES))
def machine(request):
    return clone(MACHINES[request.param])


def same(first, second, X, abs=1e-9):
    return first.decision_function(X) == pytest.approx(second.decision_function(X), abs=abs)


# -- scikit-learn's conventions ------------------------------------------------------------


# A copy is another centre to the L0 machine; to the one-norm machine it is a weight, but of several optimal
# points another one may be found.
@pytest.mark.parametrize(
    "machine", [quick(n_samples=5, max_iter=1, flips=False), OneNormSVM()], ids=["ce", "one-norm"]
)
def test_check_estimator_has_no_other_failure(machine):
    assert set(broken_conventions(machine)) <= EQUIVALENCE


def test_a_second_fit_knows_nothing_of_the_first():
    X, y = blobs()
    machine = quick(svm_screen=True).fit(X, y)
    assert machine.search_.runs
    assert len(machine.candidates_) < len(y)
    machine.set_params(search=None, solver="one-norm").fit(X, y)
    assert not any(hasattr(machine, name) for name in ("search_", "candidates_", "candidates_bound_"))
    fresh = quick(solver="one-norm").fit(X, y)
    assert (machine.decision_function(X) == fresh.decision_function(X)).all()


def test_the_same_seed_is_the_same_model_on_one_worker_and_on_two():
    X, y = blobs(40)
    one, two = (quick(C=3.0, n_init=2, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert (one.dual_coef_ == two.dual_coef_).all()
    assert (one.support_ == two.support_).all()
    assert one.intercept_ == two.intercept_
    assert one.search_.work == two.search_.work
    columns = ["restart", "best", "elite_threshold", "mean_p", "entropy"]
    assert one.history_[columns].equals(two.history_[columns])
    X, y = load_iris(return_X_y=True)
    with parallel_config(backend="threading"):
        one, two = (quick(n_jobs=jobs).fit(X[::4], y[::4]) for jobs in (1, 2))
    assert (one.decision_function(X) == two.decision_function(X)).all()


# -- the programs --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["highs", "exact"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_one_norm_machine_solves_its_program(kernel, solver):
    X, y = blobs(40)
    machine = OneNormSVM(2.0, kernel=kernel, solver=solver).fit(X, y)
    certificate = machine.certificate()
    assert certificate.claim is Claim.OPTIMAL
    stated = one_norm.primal(machine._training_kernel()[0], y, np.full(40, 2.0)).solve().objective
    assert certificate.primal_value == pytest.approx(stated, rel=1e-6)
    assert machine.solver_ == solver


@cache
def optima(kernel):
    """The least score and its lower bound by the relaxation, both from the modelling language."""
    X, y = blobs(18)
    K, _ = quick(kernel=kernel, solver="one-norm", C=2.0).fit(X, y)._training_kernel()
    exact, relaxed = l0.mixed_integer(K, y, 2.0).solve(mip_rel_gap=1e-9), l0.relaxation(K, y, 2.0).solve()
    return exact.objective, relaxed.objective


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_solver_is_between_the_bound_and_what_is_trivial(solver, kernel):
    X, y = blobs(18)
    machine = quick(kernel=kernel, solver=solver, C=2.0).fit(X, y)
    optimum, relaxed = optima(kernel)
    certificate = machine.certificate()
    assert machine.score_ == pytest.approx(certificate.primal_value, rel=1e-12)
    assert certificate.dual_value <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= machine.score_ <= 2.0 * 18
    assert machine.score_ == pytest.approx(
        len(machine.support_) + 2.0 * np.maximum(0.0, 1.0 - y * machine.decision_function(X)).sum()
    )
    assert machine.solver_ == solver
    if solver in ("highs", "global", "exact"):
        assert certificate.claim is Claim.OPTIMAL
        assert machine.score_ == pytest.approx(optimum, rel=1e-6)
    else:
        assert certificate.dual_value == pytest.approx(relaxed, rel=1e-6)
        assert certificate.claim is Claim.SUBOPTIMAL_BY
        assert certificate.eps == pytest.approx(machine.score_ - relaxed, rel=1e-5)


def test_a_perturbed_point_fails_its_certificate():
    X, y = blobs(24)
    machine = quick(solver="highs", C=2.0).fit(X, y)
    (K, _), found = machine._training_kernel(), machine.solution_
    common = {"u": found["margin"], "v": found["relaxation"], "bound": found.bound}
    b = float(machine.intercept_[0])
    assert certify_l0(K, y, 2.0, alpha=found["alpha"], b=b, **common).claim is Claim.SOLVERS_WORD
    assert machine.certificate().claim is Claim.OPTIMAL
    rng = np.random.default_rng(0)
    moved = np.clip(found["alpha"] + 0.05 * rng.normal(size=24) * (found["alpha"] > 0), 0.0, 2.0)
    assert certify_l0(K, y, 2.0, alpha=moved, b=b, **common).claim is Claim.SUBOPTIMAL_BY
    assert certify_l0(K, y, 2.0, alpha=found["alpha"], b=b + 0.1, **common).claim is Claim.SUBOPTIMAL_BY
    assert certify_l0(K, y, 2.0, alpha=found["alpha"] - 0.1, b=b, **common).claim is Claim.NONE
    # What the model itself would say, had its coefficients been changed.
    machine.intercept_ += 0.1
    assert machine.certificate().claim is Claim.SUBOPTIMAL_BY
    one = OneNormSVM().fit(X, y)
    one.intercept_ += 0.1
    assert one.certificate().claim is Claim.SUBOPTIMAL_BY


# -- weights -------------------------------------------------------------------------------


def test_a_weight_of_zero_is_an_absence(machine):
    X, y = blobs(40)
    weights = np.where(np.arange(40) % 3 == 0, 0.0, 1.0)
    kept = np.flatnonzero(weights)
    weighted = clone(machine).fit(X, y, sample_weight=weights)
    without = clone(machine).fit(X[kept], y[kept])
    assert (weighted.decision_function(X) == without.decision_function(X)).all()
    assert (weighted.support_ == kept[without.support_]).all()
    assert set(weighted.duals_["sample"]) == set(kept)
    K = rbf_kernel(X, gamma=0.5)
    computed = clone(machine).set_params(kernel="precomputed").fit(K, y, sample_weight=weights)
    named = clone(machine).set_params(gamma=0.5).fit(X, y, sample_weight=weights)
    assert computed.decision_function(K) == pytest.approx(named.decision_function(X), abs=1e-9)
    assert (computed.support_ == named.support_).all()
    assert weights[computed.support_].all()


@pytest.mark.parametrize("solver", ["ce", "highs", "one-norm"])
def test_the_weights_of_the_l0_machine_weigh_its_loss(solver, rng):
    X, y = blobs(24)
    weights = rng.uniform(0.2, 3.0, 24)
    machine = quick(solver=solver, C=2.0).fit(X, y, sample_weight=weights)
    losses = np.maximum(0.0, 1.0 - y * machine.decision_function(X))
    assert machine.score_ == pytest.approx(len(machine.support_) + 2.0 * weights @ losses)
    optimum = l0.mixed_integer(machine._training_kernel()[0], y, 2.0, weights).solve(mip_rel_gap=1e-9)
    assert machine.score_ >= optimum.objective * (1 - 1e-7)
    assert solver != "highs" or machine.score_ == pytest.approx(optimum.objective, rel=1e-6)


def test_class_weights_are_weights(machine):
    X, y = blobs(40)
    X, y = X[:32], y[:32]
    given = clone(machine).set_params(class_weight={-1: 0.5, 1: 2.0}).fit(X, y)
    weighed = clone(machine).fit(X, y, sample_weight=np.where(y > 0, 2.0, 0.5))
    plain = clone(machine).fit(X, y)
    assert given.gamma_ != weighed.gamma_ or same(given, weighed, X)
    for name in ({-1: 0.5, 1: 2.0}, "balanced"):
        heavy = clone(machine).set_params(class_weight=name, gamma=0.3).fit(X, y)
        totals = {-1.0: 32 / (2 * (y < 0).sum()), 1.0: 32 / (2 * (y > 0).sum())}
        by_hand = [totals[label] if name == "balanced" else name[int(label)] for label in y]
        assert same(heavy, clone(machine).set_params(gamma=0.3).fit(X, y, sample_weight=by_hand), X)
    assert not same(given, plain, X)


# -- kernels -------------------------------------------------------------------------------


def test_precomputed_and_callable_kernels_are_the_named_ones(machine):
    X, y = blobs(40)
    new = blobs(15, seed=9)[0]
    named = clone(machine).set_params(gamma=0.5).fit(X, y)
    called = clone(machine).set_params(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5)).fit(X, y)
    given = clone(machine).set_params(kernel="precomputed").fit(rbf_kernel(X, gamma=0.5), y)
    assert same(called, named, new)
    at = given.decision_function(rbf_kernel(new, X, gamma=0.5))
    assert at == pytest.approx(named.decision_function(new), abs=1e-9)
    assert (called.support_ == named.support_).all()
    assert (given.support_ == named.support_).all()


@pytest.mark.parametrize("solver", ["ce", "highs", "one-norm"])
def test_an_indefinite_asymmetric_matrix_is_a_kernel(solver, rng):
    y = blobs(14)[1]
    K = rng.normal(size=(14, 14)) + 0.3 * np.outer(y, y)
    assert np.linalg.eigvalsh(K + K.T)[0] < -1
    machine = quick(solver=solver, kernel="precomputed").fit(K, y)
    scores = K[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0]  # rows are samples
    assert machine.decision_function(K) == pytest.approx(scores)
    optimum = l0.mixed_integer(K, y, 1.0).solve(mip_rel_gap=1e-9).objective
    assert machine.certificate().dual_value <= optimum * (1 + 1e-9)
    assert machine.score_ >= optimum * (1 - 1e-9)
    one = OneNormSVM(kernel="precomputed").fit(K, y)
    assert one.certificate().claim is Claim.OPTIMAL


def test_the_hyperplane_is_the_expansion(machine):
    X, y = blobs(40, m=3)
    machine.set_params(kernel="linear").fit(X, y)
    assert machine.coef_.shape == (1, 3)
    assert machine.coef_[0] == pytest.approx(machine.dual_coef_[0] @ X[machine.support_])
    assert machine.decision_function(X) == pytest.approx(X @ machine.coef_[0] + machine.intercept_[0])
    assert not hasattr(clone(machine).set_params(kernel="rbf").fit(X, y), "coef_")


def test_the_support_is_by_class_and_in_input_order(machine):
    X, y = blobs(40)
    order = np.random.default_rng(1).permutation(40)
    machine.set_params(C=5.0, gamma=0.5).fit(X[order], y[order])
    assert len(machine.support_) >= 2
    for part in np.split(machine.support_, np.cumsum(machine.n_support_)[:-1]):
        assert (np.diff(part) > 0).all()
    signs = np.sign(machine.dual_coef_[0])
    assert (signs == y[order][machine.support_]).all()
    K = rbf_kernel(X, X[order][machine.support_], gamma=0.5)
    assert machine.decision_function(X) == pytest.approx(K @ machine.dual_coef_[0] + machine.intercept_[0])


def test_three_classes_vote_in_pairs(machine):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], np.array(["a", "b", "c"])[y[::3]]
    machine.fit(X, y)
    assert machine.score(X, y) > 0.9
    assert machine.pairs_ == [("a", "b"), ("a", "c"), ("b", "c")]
    duals = machine.duals_
    assert set(duals["pair"]) == {"a vs b", "a vs c", "b vs c"}
    for pair, table in duals.groupby("pair"):
        places = table.loc[table["row"] == "margin", "sample"].to_numpy()
        assert places.tolist() == np.flatnonzero(np.isin(y, pair.split(" vs "))).tolist()
    certificate = machine.certificate()
    assert certificate.claim is (Claim.OPTIMAL if isinstance(machine, OneNormSVM) else Claim.SUBOPTIMAL_BY)
    assert certificate.primal_value == pytest.approx(sum(s.objective for s in machine.solution_))
    # To the last bit the same kernel: the search may end elsewhere for another.
    K = SampleGram(X, Kernel("rbf", 0.3)).careful(always=True).panel(None, np.float64).rows(np.arange(len(X)))
    given = clone(machine).set_params(kernel="precomputed").fit(K, y)
    named = clone(machine).set_params(gamma=0.3).fit(X, y)
    assert given.decision_function(K) == pytest.approx(named.decision_function(X), abs=1e-9)


# -- the table of multipliers --------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_table_of_multipliers_proves_the_pattern(solver, rng):
    X, y = blobs(24)
    weights = rng.uniform(0.5, 2.0, 24) * (np.arange(24) % 5 > 0)
    kept = np.flatnonzero(weights)
    machine = quick(solver=solver, C=2.0, gamma=0.7)
    duals = machine.fit(X, np.where(y > 0, "in", "out"), sample_weight=weights).duals_
    margin, slack, sign, cap = (duals[duals["row"] == row] for row in ("margin", "slack", "sign", "cap"))
    for table in (margin, slack, sign, cap):
        assert table["sample"].tolist() == kept.tolist()
        assert (table["multiplier"] >= -1e-9).all()
        assert (table["slack"] >= -1e-9).all()
    y = np.where(y > 0, -1.0, 1.0)  # "out" is the second class
    y, w, K = y[kept], weights[kept], rbf_kernel(X[kept], gamma=0.7)
    u = margin["multiplier"].to_numpy()
    sigma = np.isin(kept, machine.support_)
    assert slack["multiplier"].to_numpy() == pytest.approx(w - u)
    assert y @ u == pytest.approx(0.0, abs=1e-8)
    rates = y * (K.T @ (y * u))
    assert cap["multiplier"].to_numpy() - sign["multiplier"].to_numpy() == pytest.approx(rates, abs=1e-9)
    # Complementarity: the multiplier of a row is paid for by its slack, that of an unused cap by nothing.
    for table in (margin, slack, sign, cap):
        assert (table["multiplier"] * table["slack"]).abs().max() < 1e-6
    # Strong duality from the table alone.
    loss = w @ slack["slack"].to_numpy()
    assert u.sum() - 2.0 * cap["multiplier"].to_numpy()[sigma].sum() == pytest.approx(loss, abs=1e-6)
    assert sigma.sum() + 2.0 * loss == pytest.approx(machine.score_)
    assert (sign["state"] == "support vector").to_numpy().tolist() == sigma.tolist()
    assert (cap["state"] == "held at 0").to_numpy().tolist() == (~sigma).tolist()
    assert margin["output"].to_numpy() == pytest.approx(machine.decision_function(X[kept]))
    inside = (margin["state"] == "inside the margin").to_numpy()
    assert u[inside] == pytest.approx(w[inside], abs=1e-6)


def test_the_table_of_the_one_norm_machine(rng):
    X, y = blobs(40)
    weights = rng.uniform(0.5, 2.0, 40)
    machine = OneNormSVM(1.5, gamma=0.7).fit(X, y, sample_weight=weights)
    tables = [machine.duals_[machine.duals_["row"] == row] for row in ("margin", "slack", "sign", "cap")]
    margin, slack, sign, cap = tables
    assert all((table["multiplier"] * table["slack"]).abs().max() < 1e-6 for table in tables)
    assert all((table["multiplier"] >= -1e-9).all() for table in tables)
    assert all(table["sample"].tolist() == list(range(40)) for table in tables)
    costs = 1.5 * weights
    dual = margin["multiplier"].sum() - costs @ cap["multiplier"].to_numpy()
    paid = sign["slack"].sum() + costs @ slack["slack"].to_numpy()
    assert dual == pytest.approx(paid)
    assert paid == pytest.approx(machine.solution_.objective)
    assert margin["multiplier"].to_numpy() + slack["multiplier"].to_numpy() == pytest.approx(costs)
    # What a coefficient earns is its price and its cap's, but for what its sign takes off.
    earned = y * (rbf_kernel(X, gamma=0.7) @ (y * margin["multiplier"].to_numpy()))
    assert earned == pytest.approx(1.0 + cap["multiplier"].to_numpy() - sign["multiplier"].to_numpy())
    assert (sign["multiplier"] > 1e-3).any()
    assert (cap["multiplier"].to_numpy() * sign["multiplier"].to_numpy()).max() < 1e-9


# -- the screen ----------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["ce", "highs", "one-norm"])
def test_the_screens_bound_is_one_for_the_candidates(solver):
    X, y = blobs(22)
    weights = np.where(np.arange(22) % 7 == 0, 0.0, 1.0)
    machine = quick(solver=solver, C=2.0, svm_screen=True).fit(X, y, sample_weight=weights)
    kept = np.flatnonzero(weights)
    svm_itself = SVM(2.0).fit(X, y, sample_weight=weights)
    assert set(machine.candidates_) == set(svm_itself.support_)
    assert set(machine.support_) <= set(machine.candidates_)
    assert weights[machine.candidates_].all()
    (K, _), places = machine._training_kernel(), np.searchsorted(kept, machine.candidates_)
    y = y[kept]
    within = l0.mixed_integer(K[:, places], y, 2.0, centres=y[places]).solve(mip_rel_gap=1e-9).objective
    overall = l0.mixed_integer(K, y, 2.0).solve(mip_rel_gap=1e-9).objective
    relaxed = l0.relaxation(K, y, 2.0).solve().objective
    assert machine.candidates_bound_ <= within * (1 + 1e-7)
    assert machine.candidates_bound_ >= relaxed * (1 - 1e-7)
    assert machine.score_ >= within * (1 - 1e-7)
    certificate = machine.certificate()
    assert certificate.dual_value <= overall * (1 + 1e-7)
    assert certificate.dual_value == pytest.approx(relaxed, rel=1e-6)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert solver != "highs" or machine.score_ == pytest.approx(within, rel=1e-6)


def test_the_screen_needs_a_mercer_kernel_and_says_so(rng):
    y = blobs(20)[1]
    K = rng.normal(size=(20, 20))
    with pytest.raises(ValueError, match="svm_screen"):
        quick(kernel="precomputed", svm_screen=True).fit(K + K.T, y)


# -- limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["ce", "highs", "global", "one-norm", "exact"])
def test_a_time_limit_keeps_a_point_and_is_told(solver):
    X, y = blobs(150, m=4)
    with pytest.warns(ConvergenceWarning, match="CrossEntropySVM: .*"):
        machine = quick(C=10.0, solver=solver, n_samples=100, n_init=10**4, time_limit=1e-3).fit(X, y)
    certificate = machine.certificate()
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.primal_value == pytest.approx(machine.score_)
    assert machine.score_ <= 10.0 * 150 * (1 + 1e-9)
    assert 0.0 <= certificate.dual_value <= machine.score_


# -- bad input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"C": 0.0}, "C must be positive and finite, not 0.0"),
        ({"C": -1.0}, "C must be positive and finite, not -1.0"),
        ({"C": np.nan}, "C"),
        ({"solver": "smo"}, "'solver' parameter .* Got 'smo'"),
        ({"search": {"n_samples": 20}}, "'search' parameter .* CrossEntropySettings"),
        ({"time_limit": -1.0}, "time_limit must be seconds, at least 0, or None, not -1.0"),
        ({"kernel": "cosine"}, "'kernel' parameter .* Got 'cosine'"),
        ({"gamma": 0.0}, "'gamma' parameter .* Got 0.0"),
        ({"class_weight": {-1: 0.0, 1: 1.0}}, "class_weight must be positive"),
        ({"kernel": "precomputed"}, "the Gram matrix must be square, not of shape (20, 2)"),
    ],
)
def test_a_bad_setting_is_named(settings, sentence):
    X, y = blobs(20)
    pattern = ".*".join(re.escape(part) for part in sentence.split(" .* "))
    shared = set(settings) <= set(OneNormSVM().get_params())
    for machine in [CrossEntropySVM, *([OneNormSVM] if shared else [])]:
        with pytest.raises(ValueError, match=pattern):
            machine(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("rho", 1.5, "over 0 and at most 1"),
        ("prior", 0.0, '"relaxation", or a number over 0 and under 1'),
        ("prior", 1.0, '"relaxation", or a number over 0 and under 1'),
        ("prior", "svm", '"relaxation", or a number over 0 and under 1'),
        ("n_init", 0, "an integer of at least 1"),
        ("flips", "no", "True or False"),
        ("svm_screen", None, "True or False"),
    ],
)
def test_a_bad_setting_of_the_search_is_named_at_once(name, value, allowed):
    with pytest.raises(ValueError, match=re.escape(f"{name} must be {allowed}, not {value!r}")):
        CrossEntropySettings(**{name: value})


def test_a_kernel_that_is_not_finite_is_named(machine):
    X, y = blobs(20)
    machine.set_params(kernel=lambda A, B: np.full((len(A), len(B)), np.inf))
    with pytest.raises(ValueError, match="must return finite real numbers"):
        machine.fit(X, y)
    with pytest.raises(ValueError, match="kernel has values that are not finite"):
        clone(machine).set_params(kernel="poly", degree=30, gamma=1.0).fit(1e12 * X, y)


# -- extreme scales ------------------------------------------------------------------------


def honest(machine, X, y):
    """The certificate of a fit, all of whose figures are true; None of one that is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            machine.fit(X, y)
        except ValueError as error:
            refusal = str(error)
        else:
            refusal = ""
    if refusal:
        assert re.search("scale the features .* or choose a smaller C", refusal)
        return None
    certificate = machine.certificate()
    losses = np.maximum(0.0, 1.0 - y * machine.decision_function(X)).sum()
    l0 = isinstance(machine, CrossEntropySVM)
    paid = len(machine.support_) if l0 else machine.solution_["alpha"].sum()
    rounding = 1e-12 * machine.C * (1.0 + machine.solution_["alpha"].sum())
    assert certificate.primal_value == pytest.approx(paid + machine.C * losses, rel=1e-6, abs=rounding)
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9)
    assert certificate.relative_gap <= 1e-6 or certificate.claim is not Claim.OPTIMAL
    # What is left of the gap beside the rounding, which is much where C times the kernel is.
    assert l0 or certificate.gap - certificate.rounding <= 1e-5 * certificate.primal_value
    assert certificate.primal_value <= machine.C * len(y) * (1 + 1e-9)  # as good as no centre at all
    return certificate


@pytest.mark.parametrize("C", [1e-9, 1.0, 1e6, 1e9])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["ce", "highs", "one-norm machine"])
def test_extreme_scales_are_solved_or_refused(solver, kernel, C):
    X, y = blobs(12 if solver == "highs" else 20)  # few enough for the integer program to end by itself
    one_norm = solver == "one-norm machine"
    machine = OneNormSVM(C) if one_norm else quick(C=C, solver=solver)
    limit = 1e12 if one_norm else 1e8
    machine.set_params(kernel=kernel)
    plain = honest(clone(machine), X, y)
    for scale in (1e-12, 1e3, 1e12) if kernel == "linear" else (1e-12, 1e12):
        here = honest(clone(machine), scale * X, y)
        largest = np.abs(X @ X.T).max() * scale**2 if kernel == "linear" else 1.0
        assert (here is None) == (largest * C > limit)
        # The RBF kernel does not see the scale; to the linear one a larger scale is a larger cap.
        if here is not None and plain is not None and (kernel == "rbf" or scale > 1):
            assert here.dual_value <= plain.primal_value * (1 + 1e-6)
            assert kernel == "linear" or plain.dual_value <= here.primal_value * (1 + 1e-6)
