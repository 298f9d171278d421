"""The decomposition solver: against the explicit program, and against itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from formulations import rmm, svm
from formulations.families import hinge_families
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt.certificates import Claim
from polyopt.margin.certify import certify_rmm, certify_svm
from polyopt.margin.decomposition import Options, solve_decomposition


@pytest.mark.parametrize("B", [0.5, 1.0, 1.0001, 1.2, 3.0])
def test_it_solves_dual_8(blobs, B):
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    exact = rmm.kernel_dual(K, y, 1.0, B).solve()
    fast = solve_decomposition(K, hinge_families(y, np.ones(len(y)), B), tol=1e-8)
    assert fast.bound == pytest.approx(exact.objective, rel=1e-7)
    assert fast.objective == pytest.approx(exact.objective, rel=1e-6)
    beta = fast.duals["margin"] * y - fast.duals["bound_above"] + fast.duals["bound_below"]
    exact_beta = exact["alpha"] * y - exact["lam"] + exact["lam_star"]
    assert K @ beta == pytest.approx(K @ exact_beta, abs=1e-5)


def test_it_is_libsvm_without_a_bound(blobs, rng):
    X, y = blobs
    K, costs = rbf_kernel(X, gamma=0.3), rng.uniform(0.1, 2.0, len(y))
    fast = solve_decomposition(K, hinge_families(y, costs), tol=1e-9)
    theirs = SVC(kernel="precomputed", tol=1e-9).fit(K, y, sample_weight=costs)
    assert fast["coef"][theirs.support_] == pytest.approx(theirs.dual_coef_[0], abs=1e-6)
    assert float(fast["b"]) == pytest.approx(theirs.intercept_[0], abs=1e-6)
    assert set(fast.duals) == {"margin"}


@pytest.mark.parametrize("B", [1.2, np.inf])
def test_outputs_are_those_of_the_coefficients_and_the_intercept_within_the_bounds(B):
    X, y = two_blobs(n=30, separation=0.5)
    K = (X + 1.0) @ (X + 1.0).T
    rows = hinge_families(y, np.where(y > 0, 1.0, 0.2), B)
    fast = solve_decomposition(K, rows, tol=0.1)
    assert abs(float(fast["b"])) > 0.01
    assert fast["f"] == pytest.approx(K @ fast["coef"] + fast["b"], rel=1e-9)
    assert np.abs(fast["f"]).max() <= B * (1 + 1e-12)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_violation_left_is_within_the_tolerance(blobs, tol):
    """lo and hi of the intercept, from the multipliers: no b is more than tol away from fitting both."""
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    fast = solve_decomposition(K, hinge_families(y, np.ones(len(y)), 1.2), tol=tol)
    rows = hinge_families(y, 1.0, 1.2)
    g = K @ rows.beta(rows.stacked(fast.duals))
    lo, hi = rows.intercept_interval(g, fast.duals, tol=1e-12)
    assert lo - hi <= tol * (1 + 1e-9)
    assert fast.history[-1]["violation"] <= tol


def test_multipliers_are_exactly_feasible(blobs):
    X, y = blobs
    fast = solve_decomposition(X @ X.T, hinge_families(y, np.full(len(y), 0.3), 1.5), tol=1e-4)
    for multipliers in fast.duals.values():
        assert (multipliers >= 0).all()
    assert (fast.duals["margin"] <= 0.3).all()
    assert abs(fast["coef"].sum()) < 1e-10


def test_the_bound_rises_and_never_passes_the_optimum():
    X, y = two_blobs(n=120, separation=0.3)
    optimum = svm.primal(X, y, 5.0).solve().objective
    options, rows = Options(max_working_set=10, sets_per_record=1), hinge_families(y, np.full(120, 5.0))
    history = solve_decomposition(X @ X.T, rows, tol=1e-6, options=options).history
    bounds = np.array([record["bound"] for record in history])
    assert len(bounds) > 3
    assert (np.diff(bounds) >= -1e-9 * optimum).all()
    assert bounds.max() <= optimum * (1 + 1e-9)
    assert min(record["objective"] for record in history) >= optimum * (1 - 1e-9)


def test_a_limit_keeps_a_point_with_a_proven_gap(blobs):
    X, y = blobs
    K = X @ X.T
    fast = solve_decomposition(K, hinge_families(y, np.ones(len(y)), 1.5), tol=1e-13, max_iter=1)
    assert fast.status is Status.ITERATION_LIMIT
    assert fast.iterations == 1
    certificate = certify_rmm(
        K, y, 1.0, 1.5, w=fast["coef"], b=float(fast["b"]), precomputed=True,
        alpha=fast.duals["margin"], lam=fast.duals["bound_above"], lam_star=fast.duals["bound_below"],
    )  # fmt: skip
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    assert certificate.primal_value == pytest.approx(fast.objective)
    assert certificate.dual_value == pytest.approx(fast.bound)


def test_a_sample_without_cost_takes_no_part(blobs):
    X, y = blobs
    costs = np.where(np.arange(len(y)) < 5, 0.0, 1.0)
    fast = solve_decomposition(X @ X.T, hinge_families(y, costs), tol=1e-8)
    assert (fast.duals["margin"][:5] == 0).all()
    assert fast.bound == pytest.approx(svm.primal(X[5:], y[5:], 1.0).solve().objective, rel=1e-7)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 30), B=st.sampled_from([np.inf, 1.0, 1.5]))
def test_duplicates_and_contradictions(seed, n, B):
    """Equal and contradictory rows give pairs without curvature; every run ends, and certified."""
    generator = np.random.default_rng(seed)
    X = generator.integers(-2, 3, (n, 2)).astype(float)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    K = X @ X.T
    fast = solve_decomposition(K, hinge_families(y, np.ones(n), B), tol=1e-6, max_iter=1_000_000)
    assert fast.status is Status.SOLVED
    vectors = {"w": fast["coef"], "b": float(fast["b"]), "alpha": fast.duals["margin"]}
    if np.isfinite(B):
        vectors |= {"lam": fast.duals["bound_above"], "lam_star": fast.duals["bound_below"]}
        certificate = certify_rmm(K, y, 1.0, B, precomputed=True, tol=1e-4, **vectors)
    else:
        certificate = certify_svm(K, y, 1.0, precomputed=True, tol=1e-4, **vectors)
    assert certificate.claim is Claim.OPTIMAL
