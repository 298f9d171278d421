"""CrossEntropySVM and OneNormSVM: their programs by the modelling language, weights, kernels, multipliers."""

from __future__ import annotations

import re
import warnings
from dataclasses import fields
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels

from formulations import l0, one_norm
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Claim, CrossEntropySettings, CrossEntropySVM, OneNormSVM
from polyopt.sparse.certificate import certify_l0

pytestmark = pytest.mark.filterwarnings("ignore:CrossEntropySVM. The iteration limit", "ignore:overflow")

SOLVERS = ["ce", "highs", "global", "one-norm", "exact"]
PROVING = ("highs", "global", "exact")
SETTINGS = {field.name for field in fields(CrossEntropySettings)}
GAMMA, C = 0.5, 2.0


def quick(**settings):
    """A machine whose search takes some moments; settings of the machine and of the search alike."""
    how = {"n_samples": 20, "max_iter": 10}
    how |= {name: settings.pop(name) for name in SETTINGS & settings.keys()}
    return CrossEntropySVM(**{"search": CrossEntropySettings(**how), "random_state": 0, **settings})


def blobs(n=30, seed=0, m=2):
    return two_blobs(n=n, m=m, seed=seed)


def kernel_of(X, name):
    """The kernel of all pairs of samples, by scikit-learn."""
    settings = {} if name == "linear" else {"gamma": GAMMA}
    return pairwise_kernels(X, metric=name, **settings)


def asymmetric(n=14):
    """An indefinite matrix in place of a kernel, and labels."""
    y, rng = blobs(n)[1], np.random.default_rng(0)
    K = rng.normal(size=(n, n)) + 0.3 * np.outer(y, y)
    assert np.linalg.eigvalsh(K + K.T)[0] < -1
    return K, y, np.ones(n)


MACHINES = {"ce": quick(gamma=GAMMA), "one-norm": OneNormSVM(gamma=GAMMA)}
by_machine = pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)


def assert_equal_scores(first, second, X):
    """Scores of two machines are equal up to rounding."""
    assert first.decision_function(X) == pytest.approx(second.decision_function(X), abs=1e-9)


# -- the programs --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["highs", "exact"])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "precomputed"])
def test_one_norm_machine_solves_its_program(kernel, solver):
    """The one-norm machine has the optimum of its program in the modelling language."""
    (X, y), K = blobs(14), asymmetric()[0]
    if kernel != "precomputed":
        K = pairwise_kernels(X, metric=kernel, filter_params=True, gamma=GAMMA, coef0=1.0)
    machine = OneNormSVM(C, kernel=kernel, gamma=GAMMA, coef0=1.0, solver=solver)
    certificate = machine.fit(K if kernel == "precomputed" else X, y).certificate()
    assert certificate.claim is Claim.OPTIMAL
    stated = one_norm.primal(K, y, np.full(14, C)).solve().objective
    assert certificate.primal_value == pytest.approx(stated, rel=1e-6)
    assert machine.solver_ == solver


def weighted(n=20):
    """An RBF kernel, labels and weights, some of them 0: samples that are left out, as centres too."""
    X, y = blobs(n)
    return kernel_of(X, "rbf"), y, np.random.default_rng(0).uniform(0.2, 3.0, n) * (np.arange(n) % 4 > 0)


PROBLEMS = {"asymmetric": asymmetric(), "weighted": weighted()}


@cache
def optima(problem):
    """The least score and its lower bound by the relaxation, both from the modelling language."""
    K, y, weights = PROBLEMS[problem]
    kept = weights > 0
    K, y, weights = K[np.ix_(kept, kept)], y[kept], weights[kept]
    exact = l0.mixed_integer(K, y, C, weights).solve(mip_rel_gap=1e-9)
    return exact.objective, l0.relaxation(K, y, C, weights).solve().objective


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_score_is_between_bound_and_trivial(solver, problem):
    """Scores count centres and losses; proving solvers reach the least, others a relaxation's bound."""
    K, y, weights = PROBLEMS[problem]
    machine = quick(kernel="precomputed", solver=solver, C=C).fit(K, y, sample_weight=weights)
    (optimum, relaxed), certificate = optima(problem), machine.certificate()
    scores = K[:, machine.support_] @ machine.dual_coef_[0] + machine.intercept_[0]  # rows are samples
    losses = np.maximum(0.0, 1.0 - y * scores)
    assert machine.decision_function(K) == pytest.approx(scores)
    assert weights[machine.support_].all()
    assert machine.score_ == pytest.approx(len(machine.support_) + C * weights @ losses)
    assert machine.score_ == pytest.approx(certificate.primal_value, rel=1e-12)
    assert certificate.dual_value <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= machine.score_ <= C * weights.sum()
    assert machine.solver_ == solver
    if solver in PROVING:
        assert certificate.claim is Claim.OPTIMAL
        assert machine.score_ == pytest.approx(optimum, rel=1e-6)
    else:
        assert certificate.claim is Claim.SUBOPTIMAL_BY
        assert certificate.dual_value == pytest.approx(relaxed, rel=1e-6)
        assert certificate.eps == pytest.approx(machine.score_ - relaxed, rel=1e-5)


def test_perturbed_point_fails_certificate():
    """A point that is moved is suboptimal, one of negative coefficients is infeasible."""
    X, y = blobs(20)
    machine = quick(solver="highs", kernel="linear", C=C).fit(X, y)
    K, found, b = X @ X.T, machine.solution_, float(machine.intercept_[0])
    common = {"u": found["margin"], "v": found["relaxation"], "bound": found.bound}

    def claim(alpha, b):
        return certify_l0(K, y, C, alpha=alpha, b=b, **common).claim

    rng = np.random.default_rng(0)
    moved = np.clip(found["alpha"] + 0.05 * rng.normal(size=20) * (found["alpha"] > 0), 0.0, C)
    assert claim(found["alpha"], b) is Claim.SOLVERS_WORD
    assert claim(moved, b) is Claim.SUBOPTIMAL_BY
    assert claim(found["alpha"], b + 0.1) is Claim.SUBOPTIMAL_BY
    assert claim(found["alpha"] - 0.1, b) is Claim.NONE
    for each in (machine, OneNormSVM().fit(X, y)):
        assert each.certificate().claim is Claim.OPTIMAL
        each.intercept_ += 0.1
        assert each.certificate().claim is Claim.SUBOPTIMAL_BY


# -- kernels -------------------------------------------------------------------------------


@by_machine
def test_computed_and_callable_kernels_are_named_ones(machine):
    """A kernel by its name, as a function and as a matrix gives one machine."""
    (X, y), new = blobs(40), blobs(15, seed=9)[0]
    named = clone(machine).fit(X, y)
    called = clone(machine).set_params(kernel=lambda A, B: pairwise_kernels(A, B, metric="rbf", gamma=GAMMA))
    given = clone(machine).set_params(kernel="precomputed").fit(kernel_of(X, "rbf"), y)
    assert_equal_scores(called.fit(X, y), named, new)
    at = given.decision_function(pairwise_kernels(new, X, metric="rbf", gamma=GAMMA))
    assert at == pytest.approx(named.decision_function(new), abs=1e-9)
    assert called.support_.tolist() == given.support_.tolist() == named.support_.tolist()


@by_machine
def test_expansion_has_support_of_each_class(machine):
    """Scores are those of the support, by class and in input order; a hyperplane is its sum."""
    X, y = blobs(40, m=3)
    order = np.random.default_rng(1).permutation(40)
    X, y = X[order], y[order]
    found = clone(machine).set_params(C=5.0).fit(X, y)
    assert len(found.support_) >= 2
    for part in np.split(found.support_, np.cumsum(found.n_support_)[:-1]):
        assert (np.diff(part) > 0).all()
    assert (np.sign(found.dual_coef_[0]) == y[found.support_]).all()
    scores = kernel_of(X, "rbf")[:, found.support_] @ found.dual_coef_[0] + found.intercept_[0]
    assert found.decision_function(X) == pytest.approx(scores)
    assert not hasattr(found, "coef_")
    linear = clone(machine).set_params(kernel="linear").fit(X, y)
    assert linear.coef_[0] == pytest.approx(linear.dual_coef_[0] @ X[linear.support_])
    assert linear.decision_function(X) == pytest.approx(X @ linear.coef_[0] + linear.intercept_[0])


@by_machine
def test_kernel_that_is_not_finite_is_named(machine):
    """Infinity from a function, or from powers, is refused."""
    X, y = blobs(20)
    infinite = clone(machine).set_params(kernel=lambda A, B: np.full((len(A), len(B)), np.inf))
    with pytest.raises(ValueError, match="must return finite real numbers"):
        infinite.fit(X, y)
    with pytest.raises(ValueError, match="kernel has values that are not finite"):
        clone(machine).set_params(kernel="poly", degree=30, gamma=1.0).fit(1e12 * X, y)


# -- the table of multipliers --------------------------------------------------------------

ROWS = ("margin", "slack", "sign", "cap")


def tables_of(machine, kept):
    """The rows of each constraint; multipliers and slacks are positive, one of them 0."""
    tables = [machine.duals_[machine.duals_["row"] == row] for row in ROWS]
    for table in tables:
        assert table["sample"].tolist() == list(kept)
        assert (table[["multiplier", "slack"]] >= -1e-9).all(axis=None)
        assert (table["multiplier"] * table["slack"]).abs().max() < 1e-6
    return tables


@pytest.mark.parametrize("solver", ["ce", "highs", "exact"])
def test_table_of_multipliers_proves_pattern(solver):
    """The table alone proves the loss of the machine's centres, by strong duality."""
    X, y = blobs(24)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 24) * (np.arange(24) % 5 > 0)
    kept = np.flatnonzero(weights)
    machine = quick(solver=solver, C=C, gamma=GAMMA)
    machine.fit(X, np.where(y > 0, "in", "out"), sample_weight=weights)
    margin, slack, sign, cap = tables_of(machine, kept)
    y = np.where(y > 0, -1.0, 1.0)  # "out" is the second class
    y, w, K = y[kept], weights[kept], kernel_of(X[kept], "rbf")
    u, sigma = margin["multiplier"].to_numpy(), np.isin(kept, machine.support_)
    assert slack["multiplier"].to_numpy() == pytest.approx(w - u)
    assert y @ u == pytest.approx(0.0, abs=1e-8)
    rates = y * (K.T @ (y * u))
    assert cap["multiplier"].to_numpy() - sign["multiplier"].to_numpy() == pytest.approx(rates, abs=1e-9)
    loss = w @ slack["slack"].to_numpy()
    assert u.sum() - C * cap["multiplier"].to_numpy()[sigma].sum() == pytest.approx(loss, abs=1e-6)
    assert sigma.sum() + C * loss == pytest.approx(machine.score_)
    assert (sign["state"] == "support vector").to_numpy().tolist() == sigma.tolist()
    assert (cap["state"] == "held at 0").to_numpy().tolist() == (~sigma).tolist()
    assert margin["output"].to_numpy() == pytest.approx(machine.decision_function(X[kept]))
    inside = (margin["state"] == "inside the margin").to_numpy()
    assert u[inside] == pytest.approx(w[inside], abs=1e-6)


def test_table_of_one_norm_machine_proves_optimum():
    """The table alone proves the optimum of the one-norm machine, by strong duality."""
    X, y = blobs(40)
    costs = 1.5 * np.random.default_rng(0).uniform(0.5, 2.0, 40)
    machine = OneNormSVM(1.5, gamma=GAMMA).fit(X, y, sample_weight=costs / 1.5)
    margin, slack, sign, cap = tables_of(machine, range(40))
    dual = margin["multiplier"].sum() - costs @ cap["multiplier"].to_numpy()
    paid = sign["slack"].sum() + costs @ slack["slack"].to_numpy()
    assert dual == pytest.approx(paid)
    assert paid == pytest.approx(machine.solution_.objective)
    assert margin["multiplier"].to_numpy() + slack["multiplier"].to_numpy() == pytest.approx(costs)
    # What a coefficient earns is its price and its cap's, but for what its sign takes off.
    earned = y * (kernel_of(X, "rbf") @ (y * margin["multiplier"].to_numpy()))
    assert earned == pytest.approx(1.0 + cap["multiplier"].to_numpy() - sign["multiplier"].to_numpy())
    assert (sign["multiplier"] > 1e-3).any()
    assert (cap["multiplier"].to_numpy() * sign["multiplier"].to_numpy()).max() < 1e-9


# -- the search and its screen -------------------------------------------------------------


def test_two_workers_make_same_search():
    """The starts of a seed, their work and their history do not depend on the number of workers."""
    X, y = blobs(40)
    one, two = (quick(C=3.0, n_init=2, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert (one.dual_coef_ == two.dual_coef_).all()
    assert (one.support_ == two.support_).all()
    assert one.intercept_ == two.intercept_
    assert one.search_.work == two.search_.work
    columns = ["restart", "best", "elite_threshold", "mean_p", "entropy"]
    assert one.history_[columns].equals(two.history_[columns])


def test_other_solver_forgets_search():
    """A fit by another solver has nothing of the search before."""
    X, y = blobs()
    machine = quick(svm_screen=True).fit(X, y)
    assert machine.search_.runs
    assert len(machine.candidates_) < len(y)
    machine.set_params(search=None, solver="one-norm").fit(X, y)
    assert not any(hasattr(machine, name) for name in ("search_", "candidates_", "candidates_bound_"))
    fresh = quick(solver="one-norm").fit(X, y)
    assert (machine.decision_function(X) == fresh.decision_function(X)).all()


@pytest.mark.parametrize("solver", ["ce", "highs", "one-norm"])
def test_screen_bound_is_of_candidates(solver):
    """The screen keeps the SVM's support vectors, with a bound of these and one of all samples."""
    X, y = blobs(16)
    weights = np.where(np.arange(16) % 7 == 0, 0.0, 1.0)
    machine = quick(solver=solver, C=C, gamma=GAMMA, svm_screen=True).fit(X, y, sample_weight=weights)
    kept = np.flatnonzero(weights)
    svm_itself = SVM(C, gamma=GAMMA).fit(X, y, sample_weight=weights)
    assert set(machine.candidates_) == set(svm_itself.support_)
    assert set(machine.support_) <= set(machine.candidates_)
    K, places = kernel_of(X[kept], "rbf"), np.searchsorted(kept, machine.candidates_)
    y = y[kept]
    within = l0.mixed_integer(K[:, places], y, C, centres=y[places]).solve(mip_rel_gap=1e-9).objective
    overall = l0.mixed_integer(K, y, C).solve(mip_rel_gap=1e-9).objective
    relaxed = l0.relaxation(K, y, C).solve().objective
    assert relaxed * (1 - 1e-7) <= machine.candidates_bound_ <= within * (1 + 1e-7)
    assert machine.score_ >= within * (1 - 1e-7)
    certificate = machine.certificate()
    assert certificate.dual_value <= overall * (1 + 1e-7)
    assert certificate.dual_value == pytest.approx(relaxed, rel=1e-6)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert solver != "highs" or machine.score_ == pytest.approx(within, rel=1e-6)


# -- bad input -----------------------------------------------------------------------------

REFUSED = {
    "search": ({"search": {"n_samples": 20}}, "'search' parameter .* CrossEntropySettings"),
    "shape": ({"kernel": "precomputed"}, "the Gram matrix must be square, not of shape (20, 2)"),
}


@pytest.mark.parametrize(("settings", "sentence"), REFUSED.values(), ids=REFUSED)
def test_bad_setting_is_named(settings, sentence):
    """Settings of the search are an object of their own; a precomputed kernel is square."""
    pattern = ".*".join(re.escape(part) for part in sentence.split(" .* "))
    with pytest.raises(ValueError, match=pattern):
        CrossEntropySVM(**settings).fit(*blobs(20))


def test_screen_needs_mercer_kernel():
    """An indefinite matrix has no SVM that could screen."""
    K = np.random.default_rng(0).normal(size=(20, 20))
    with pytest.raises(ValueError, match="svm_screen"):
        quick(kernel="precomputed", svm_screen=True).fit(K + K.T, blobs(20)[1])


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
def test_bad_setting_of_search_is_named(name, value, allowed):
    """A setting out of its range is refused before there is a fit."""
    with pytest.raises(ValueError, match=re.escape(f"{name} must be {allowed}, not {value!r}")):
        CrossEntropySettings(**{name: value})


# -- extreme scales ------------------------------------------------------------------------


def certificate_or_none(machine, X, y):
    """The certificate of a fit, all of whose figures are true; None of one that is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            machine.fit(X, y)
        except ValueError as error:
            if re.search("scale the features .* or choose a smaller C", str(error)):
                return None
            raise
    certificate, alpha = machine.certificate(), machine.solution_["alpha"]
    losses = np.maximum(0.0, 1.0 - y * machine.decision_function(X)).sum()
    is_l0 = isinstance(machine, CrossEntropySVM)
    paid = len(machine.support_) if is_l0 else alpha.sum()
    rounding = 1e-12 * machine.C * (1.0 + alpha.sum())
    assert certificate.primal_value == pytest.approx(paid + machine.C * losses, rel=1e-6, abs=rounding)
    assert certificate.dual_value <= certificate.primal_value * (1 + 1e-9)
    assert certificate.relative_gap <= 1e-6 or certificate.claim is not Claim.OPTIMAL
    # What is left of the gap beside the rounding, which is much where C times the kernel is.
    assert is_l0 or certificate.gap - certificate.rounding <= 1e-5 * certificate.primal_value
    assert certificate.primal_value <= machine.C * len(y) * (1 + 1e-9)  # as good as no centre at all
    return certificate


@pytest.mark.parametrize("cost", [1e-9, 1.0, 1e6, 1e9])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["ce", "highs", "one-norm machine"])
def test_extreme_scales_are_solved_or_refused(solver, kernel, cost):
    """Above a limit of C times the kernel a fit is refused; below, certificates are true at any scale."""
    X, y = blobs(10)
    one_norm = solver == "one-norm machine"
    machine = OneNormSVM(cost, kernel=kernel) if one_norm else quick(C=cost, solver=solver, kernel=kernel)
    plain = certificate_or_none(clone(machine), X, y)
    for scale in (1e-12, 1e3, 1e12) if kernel == "linear" else (1e-12, 1e12):
        here = certificate_or_none(clone(machine), scale * X, y)
        largest = np.abs(X @ X.T).max() * scale**2 if kernel == "linear" else 1.0
        assert (here is None) == (largest * cost > (1e12 if one_norm else 1e8))
        # The RBF kernel does not see the scale; to the linear one a larger scale is a larger cap.
        if here is not None and plain is not None and (kernel == "rbf" or scale > 1):
            assert here.dual_value <= plain.primal_value * (1 + 1e-6)
            assert kernel == "linear" or plain.dual_value <= here.primal_value * (1 + 1e-6)
