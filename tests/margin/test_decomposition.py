"""The decomposition solver: against the explicit dual and libsvm, on degenerate data, and how it ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from formulations import rmm, svm
from formulations.families import Families, Family, hinge_families, margin_family
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.base.progress import records_to
from polyopt.certificates import Claim
from polyopt.linalg.kernels import Kernel, SampleGram
from polyopt.margin.certify import certify_rmm, certify_svm
from polyopt.margin.decomposition import Decomposition, Options, solve_decomposition
from polyopt.margin.decomposition.driver import StallDetector
from polyopt.margin.decomposition.state import Dual

RBF = Kernel("rbf", gamma=0.4)


def certificate(K, y, C, B, found, tol=1e-4):
    """The certificate of a solution for one cost C."""
    vectors = {"w": found["coef"], "b": float(found["b"]), "alpha": found.duals["margin"], "tol": tol}
    if np.isinf(B):
        return certify_svm(K, y, C, precomputed=True, **vectors)
    bounds = {"lam": found.duals["bound_above"], "lam_star": found.duals["bound_below"]}
    return certify_rmm(K, y, C, B, precomputed=True, **vectors, **bounds)


def measured(K, y, C, B, found):
    """Violation and relative gap of a solution, from the whole matrix."""
    dual = Dual(hinge_families(y, np.broadcast_to(C, len(y)), B))
    beta = dual.families.beta(dual.families.stacked(found.duals))
    m, M = dual.extremes(beta, K @ beta)
    values = dual.values(beta, K @ beta)
    return m - M, (values["objective"] - values["bound"]) / max(map(abs, values.values()))


@pytest.fixture(scope="module")
def overlapping():
    X, y = two_blobs(n=600, separation=0.3)
    return SampleGram(X, RBF), y, np.full(600, 5.0)


# -- the optimum -------------------------------------------------------------------------------


@pytest.mark.parametrize("B", [0.5, 1.0, 1.0001, 1.2, 3.0])
def test_it_solves_dual_8(blobs, B):
    """The multipliers are feasible and optimal for dual (8), and the outputs lie within the bounds."""
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    exact = rmm.kernel_dual(K, y, 1.0, B).solve()
    fast = solve_decomposition(K, hinge_families(y, np.ones(len(y)), B), tol=1e-8)
    assert fast.bound == pytest.approx(exact.objective, rel=1e-7)
    assert fast.objective == pytest.approx(exact.objective, rel=1e-6)
    alpha, lam, lam_star = (fast.duals[name] for name in ("margin", "bound_above", "bound_below"))
    assert min(alpha.min(), lam.min(), lam_star.min()) >= 0.0
    assert (alpha <= 1.0).all()
    assert abs(fast["coef"].sum()) < 1e-10
    exact_beta = exact["alpha"] * y - exact["lam"] + exact["lam_star"]
    assert K @ (alpha * y - lam + lam_star) == pytest.approx(K @ exact_beta, abs=1e-5)
    assert fast["f"] == pytest.approx(K @ fast["coef"] + fast["b"], rel=1e-9)
    assert np.abs(fast["f"]).max() <= B * (1 + 1e-12)


def test_without_bound_it_is_libsvm(blobs, rng):
    """Without a bound on the outputs, coefficients and intercept are those of libsvm."""
    X, y = blobs
    K, costs = rbf_kernel(X, gamma=0.3), rng.uniform(0.1, 2.0, len(y))
    fast = solve_decomposition(K, hinge_families(y, costs), tol=1e-9)
    theirs = SVC(kernel="precomputed", tol=1e-9).fit(K, y, sample_weight=costs)
    assert fast["coef"][theirs.support_] == pytest.approx(theirs.dual_coef_[0], abs=1e-6)
    assert float(fast["b"]) == pytest.approx(theirs.intercept_[0], abs=1e-6)
    assert set(fast.duals) == {"margin"}


def test_sample_without_cost_takes_no_part(blobs):
    """A sample of cost 0 has no multiplier, and the optimum is that of the other samples."""
    X, y = blobs
    costs = np.where(np.arange(len(y)) < 5, 0.0, 1.0)
    fast = solve_decomposition(X @ X.T, hinge_families(y, costs), tol=1e-8)
    assert (fast.duals["margin"][:5] == 0).all()
    assert fast.bound == pytest.approx(svm.primal(X[5:], y[5:], 1.0).solve().objective, rel=1e-7)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), B=st.sampled_from([np.inf, 1.0, 1.5]))
def test_contradictory_duplicates_end_certified(seed, n, B):
    """Equal and contradictory samples give pairs without curvature; every run ends with a proof."""
    X = np.random.default_rng(seed).integers(-2, 3, (n, 2)).astype(float)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    K = X @ X.T
    fast = solve_decomposition(K, hinge_families(y, np.ones(n), B), tol=1e-6, max_iter=1_000_000)
    assert fast.status is Status.SOLVED
    assert certificate(K, y, 1.0, B, fast).claim is Claim.OPTIMAL


HEAVY = {  # kernel, C, B: a small violation leaves a large gap
    "rbf": (RBF, 1.8e4, np.inf),
    "narrow rbf, bound": (Kernel("rbf", 2.0), 1e6, 1.05),
    "cubic": (Kernel("poly", 0.2, 3, 1.0), 3170.0, np.inf),
    "rbf, bound": (Kernel("rbf", 1.0), 1e4, 1.5),
    "wide rbf, bound": (Kernel("rbf", 0.05), 1e5, 3.0),
}


@pytest.mark.parametrize(("kernel", "C", "B"), HEAVY.values(), ids=HEAVY)
def test_optimal_closes_violation_and_gap(kernel, C, B):
    """At any tolerance an optimal point is within the tolerance in violation and within ten in gap."""
    X, y = two_blobs(n=150, separation=1.0)
    for tol in (1e-1, 1e-2, 1e-3, 1e-5):
        found = solve_decomposition(SampleGram(X, kernel), hinge_families(y, np.full(150, C), B), tol=tol)
        violation, gap = measured(kernel(X), y, C, B, found)
        assert found.status is Status.SOLVED
        assert violation <= tol * (1 + 1e-6)
        assert gap <= min(10 * tol, 0.1) * (1 + 1e-6)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-8])
def test_small_machines_are_exact(tol, blobs):
    """A machine of few samples is solved to ten digits whatever the tolerance."""
    X, y = blobs
    found = solve_decomposition(SampleGram(X, RBF), hinge_families(y, np.ones(len(y)), 1.3), tol=tol)
    assert found.status is Status.SOLVED
    assert found.objective - found.bound <= 1e-10 * found.objective


def test_bound_rises_up_to_the_optimum():
    """The bound never falls, and never exceeds the optimum, nor the objective undercuts it."""
    X, y = two_blobs(n=120, separation=0.3)
    optimum = svm.primal(X, y, 5.0).solve().objective
    options, rows = Options(max_working_set=10, sets_per_record=1), hinge_families(y, np.full(120, 5.0))
    history = solve_decomposition(X @ X.T, rows, tol=1e-6, options=options).history
    bounds = np.array([record["bound"] for record in history])
    assert len(bounds) > 3
    assert (np.diff(bounds) >= -1e-9 * optimum).all()
    assert bounds.max() <= optimum * (1 + 1e-9)
    assert min(record["objective"] for record in history) >= optimum * (1 - 1e-9)


# -- memory and precision ----------------------------------------------------------------------


@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_cache_of_few_rows_changes_nothing(B, overlapping):
    """A cache of 43 rows of 600 gives the same bound, by computing more rows."""
    gram, y, C = overlapping
    large, small = (
        solve_decomposition(gram, hinge_families(y, C, B), tol=1e-6, cache_size=size) for size in (500.0, 0.2)
    )
    assert small.status is Status.SOLVED
    assert small.bound == pytest.approx(large.bound, rel=1e-8)
    assert small.history[-1]["rows"] > large.history[-1]["rows"]


def test_samples_are_set_aside_and_return(overlapping):
    """With samples set aside on the way, violation and outputs at the end are right for all of them."""
    gram, y, C = overlapping
    options = Options(max_newton_cost_ratio=0.0, max_active_share=0.99, max_working_set=20)
    found = solve_decomposition(gram, hinge_families(y, C, 1.3), tol=1e-5, cache_size=0.3, options=options)
    assert min(record["active"] for record in found.history) < 600
    K = RBF(gram.X)
    assert measured(K, y, C, 1.3, found)[0] <= 1.01e-5
    assert found["f"] == pytest.approx(K @ found["coef"] + found["b"], abs=1e-9)


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-8])
@pytest.mark.parametrize("kernel", [RBF, Kernel("poly", 0.05, 3, 1.0)], ids=["rbf", "poly"])
def test_single_precision_reaches_the_tolerance(tol, kernel):
    """With kernel rows in single precision the violation in double precision is within the tolerance."""
    X, y = two_blobs(n=300, separation=0.3)
    K = kernel(X)
    for C, B in ((1.0, np.inf), (1e3, np.inf), (10.0, 1.1)):
        rows, options = hinge_families(y, np.full(300, C), B), Options(max_small_samples=0)
        found = solve_decomposition(SampleGram(X, kernel), rows, tol=tol, options=options)
        rounding = 4.0 * np.finfo(float).eps * np.abs(rows.beta(rows.stacked(found.duals))).sum() * K.max()
        assert found.status in (Status.SOLVED, Status.INACCURATE)
        assert measured(K, y, C, B, found)[0] <= 1.2 * tol + rounding


@pytest.mark.parametrize("scale", [1e-25, 1e20, 1e33])
def test_pairs_of_like_samples_stay_finite(scale, rng):
    """The curvature of like samples is rounding in the kernel's scale, and no kink ends a step past B."""
    n = 30
    X = np.sqrt(scale) * (1.0 + 1e-15 * rng.normal(size=(n, 1)))
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    found = solve_decomposition(X @ X.T, hinge_families(y, np.full(n, 1e-5), 2.0), tol=1e-8, max_iter=200)
    assert np.isfinite(found["coef"]).all()
    assert np.abs(found["coef"]).max() <= 1.0


@pytest.mark.parametrize("cost", [1e-8, 1e8, 1e12])
def test_extreme_costs_end_with_a_bound(cost, blobs):
    """Costs out of all proportion end within the time, with a bound that is not above the objective."""
    X, y = blobs
    rows = hinge_families(y, np.full(len(y), cost))
    found = solve_decomposition(SampleGram(X, RBF), rows, tol=1e-8, time_limit=20)
    assert found.status in (Status.SOLVED, Status.INACCURATE)
    assert found.bound <= found.objective + 1e-9 * abs(found.objective)


# -- how it ends -------------------------------------------------------------------------------


def test_it_continues_after_an_interruption(overlapping):
    """After Ctrl-C the point has its proven gap, and the same machine goes on from it to the optimum."""
    gram, y, C = overlapping
    machine = Decomposition(gram, options=Options(max_working_set=20, sets_per_record=1))

    def interrupt(record):
        if record["iteration"] >= 3:
            raise KeyboardInterrupt

    with records_to(interrupt):
        stopped = machine.solve(hinge_families(y, C, 1.3))
    assert stopped.status is Status.INTERRUPTED
    proof = certificate(RBF(gram.X), y, 5.0, 1.3, stopped)
    assert proof.claim is Claim.SUBOPTIMAL_BY
    assert proof.dual_value == pytest.approx(stopped.bound)
    assert machine.solve(hinge_families(y, C, 1.3), tol=1e-8).status is Status.SOLVED


class Faulty:
    """The RBF kernel, of which some calls are interrupted by the user, or overflow."""

    first, times, calls = np.inf, 1, 0

    def __init__(self, error=None):
        self.error = error

    def __call__(self, A, Z):
        self.calls += 1
        if not self.first <= self.calls < self.first + self.times:
            return rbf_kernel(A, Z, gamma=RBF.gamma)
        if self.error:
            raise self.error
        return np.full((A.shape[0], Z.shape[0]), 1e308)


@pytest.mark.parametrize("times", [1, 10**6], ids=["once", "always"])
def test_overflow_restarts_the_run(times, overlapping):
    """Scores that overflow restart the run once; if they overflow again, it ends at a finite point."""
    gram, y, C = overlapping
    kernel, options = Faulty(), Options(max_small_samples=0, max_working_set=40)
    machine = Decomposition(SampleGram(gram.X, Kernel(kernel)), options=options)
    kernel.first, kernel.times = kernel.calls + 3, times
    with np.errstate(over="ignore", invalid="ignore"):
        found = machine.solve(hinge_families(y, C, 1.2), tol=1e-3)
    assert np.isfinite([found.objective, found.bound, *found["coef"]]).all()
    assert found.status is (Status.SOLVED if times == 1 else Status.STALLED)
    if times == 1:
        plain = solve_decomposition(gram, hinge_families(y, C, 1.2), tol=1e-3)
        assert found.bound == pytest.approx(plain.bound, rel=1e-2)


@pytest.mark.parametrize("work", [0.0, np.inf], ids=["point of the last evaluation", "scores anew"])
@pytest.mark.parametrize("call", [2, 30, 100])
def test_interrupted_update_leaves_consistent_scores(call, work, overlapping):
    """Ctrl-C while rows are computed, between changes of beta and of its scores, leaves both agreeing."""
    gram, y, C = overlapping
    options = Options(max_working_set=20, sets_per_record=1, max_recovery_work=work)
    kernel = Faulty(KeyboardInterrupt)
    machine = Decomposition(SampleGram(gram.X, Kernel(kernel)), cache_size=0.2, options=options)
    kernel.first = kernel.calls + call
    found = machine.solve(hinge_families(y, C, 1.3), tol=1e-9)
    assert found.status is Status.INTERRUPTED
    proof = certificate(RBF(gram.X), y, 5.0, 1.3, found)
    assert proof.dual_value == pytest.approx(found.bound, rel=2e-9)
    assert proof.primal_value == pytest.approx(found.objective, rel=2e-9)


def test_every_working_set_checks_the_clock(ticking):
    """A time limit of so many ticks of the clock ends the run after as many working sets at most."""
    X, y = two_blobs(n=300, separation=0.3)
    rows, options = hinge_families(y, np.full(300, 5.0)), Options(max_working_set=10)
    for ticks in (2, 4, 8):
        found = solve_decomposition(
            SampleGram(X, RBF), rows, tol=1e-8, options=options, time_limit=0.01 * ticks
        )
        assert found.status is Status.TIME_LIMIT
        assert found.iterations <= ticks
        assert 0 <= found.bound <= found.objective


def test_records_tell_of_rows_and_active_samples(overlapping):
    """The records that a listener receives are the history; the last one has the state at the end."""
    gram, y, C = overlapping
    seen = []
    with records_to(seen.append):
        found = solve_decomposition(gram, hinge_families(y, C, 1.2), tol=1e-8)
    assert list(found.history) == seen
    last = seen[-1]
    assert last["violation"] <= 1e-8
    assert last["objective"] - last["bound"] <= 1e-6 * last["bound"]
    assert 0 < last["rows"] <= 600 + len(y)
    assert last["active"] == 600
    seconds = [record["seconds"] for record in seen]
    assert seconds == sorted(seconds)


def test_flat_dual_values_are_a_stall():
    """Twenty records without a rise of the dual value are a stall; the least rise, or no value, is none."""
    flat, rising, unknown = (StallDetector(Options(max_flat_records=20)) for _ in range(3))
    assert [flat.is_flat(7.0) for _ in range(21)] == [False] * 20 + [True]
    assert not any(rising.is_flat(7.0 + 1e-12 * k) for k in range(60))
    assert not any(unknown.is_flat(np.nan) for _ in range(60))


@pytest.mark.parametrize("kink", [0.5, 2.0])
def test_hard_constraints_unmet_by_zero_are_refused(kink):
    """Constraints without slack are refused unless the outputs 0 satisfy them."""
    y = np.array([1.0, -1.0])
    must = Family("must", "nu", y, kink, np.full(2, np.inf))
    with pytest.raises(ValueError, match="needs finite costs; an explicit program"):
        Dual(Families(margin_family(y, np.ones(2)), must))
