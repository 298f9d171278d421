"""The worst-case margin: its programs, its certificate, alternating with it; certificates with a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.cpm import LOSSES, clusters
from hypothesis import given
from hypothesis import strategies as st

from formulations import cpm
from formulations.language.solution import Status
from formulations.polytope import margin_weights
from polyopt.certificates import Claim
from polyopt.certificates.kkt import certify_program
from polyopt.cpm.alternating import PolytopeProblem
from polyopt.cpm.certificate import certify_cpm, certify_cpm_search
from polyopt.cpm.global_search.search import solve_cpm_global
from polyopt.optim.rounds import run_rounds


@pytest.fixture(params=[0, 1])
def fixed(request):
    """Overlapping data with an assignment: X, y, K, assignment, costs."""
    X, y, directions = clusters(40, 3, request.param, widen=1.5)
    costs = np.random.default_rng(request.param).uniform(0.5, 2.0, len(y))
    return X, y, 3, np.where(y > 0, (X @ directions.T).argmax(axis=1), -1), costs


def value(X, y, W, C, Z, loss):
    """The objective at W, from its definition."""
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (cpm.lift(X) @ W.T)) * Z
    paid = np.where((y < 0) & (loss == "max"), hinge.max(axis=1), hinge.sum(axis=1))
    return max(w @ w for w in W) + C @ paid


# -- programs ------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_primal_dual_shares_and_recovery(loss, fixed):
    X, y, K, z, C = fixed
    primal, dual = (
        f(X, y, K, z, C, loss, "worst") for f in (cpm.fixed_assignment, cpm.fixed_assignment_dual)
    )
    p, d = primal.solve(), dual.solve()
    assert p.objective == pytest.approx(d.objective, rel=1e-8)
    assert p.objective == pytest.approx(
        value(X, y, p["W"], C, cpm.assignment_matrix(y, K, z), loss), rel=1e-7
    )
    alpha = p.duals["margin"]
    v = (cpm.lift(X).T @ (alpha * y[:, None])).T
    theta = p.duals["norm"]
    assert theta == pytest.approx(margin_weights(v), abs=1e-5)
    assert theta.sum() == pytest.approx(1.0, abs=1e-7)
    assert 2 * theta[:, None] * p["W"] == pytest.approx(v, abs=1e-4)
    assert (theta * ((p["W"] ** 2).sum(axis=1) - p["t"])) == pytest.approx(0.0, abs=1e-5)
    radius = d.duals["norm"]
    assert radius[0] == pytest.approx(np.sqrt(p["t"]), rel=1e-4)  # the longest face's norm
    assert primal.value(cpm.recover(X, y, d["alpha"], loss, "worst", radius)) == pytest.approx(p.objective)
    if theta.min() > 1e-3:
        assert cpm.recover(X, y, d["alpha"], loss, "worst")["W"] == pytest.approx(p["W"], abs=1e-3)
        assert -radius[1:].T == pytest.approx(p["W"], abs=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_face_without_alpha_is_in_the_multipliers(loss):
    """Its two samples lie far beyond the others: v is 0 there, and 0 is not a face that is optimal."""
    X = np.array([[-3.0], [-3.1], [0.0], [0.4], [1.0], [1.2]])
    y, z = np.array([1, 1, -1, -1, 1, 1]), np.array([0, 0, -1, -1, 1, 1])
    primal, dual = (
        f(X, y, 2, z, 10.0, loss, "worst") for f in (cpm.fixed_assignment, cpm.fixed_assignment_dual)
    )
    p, d = primal.solve(), dual.solve()
    assert (p.status, d.status) == (Status.SOLVED, Status.SOLVED)
    theta = margin_weights((cpm.lift(X).T @ (d["alpha"] * y[:, None])).T)
    assert theta == pytest.approx([0.0, 1.0], abs=1e-6)
    assert certify_program(dual, d.primal, d.duals).worst.relative < 1e-8
    right = cpm.recover(X, y, d["alpha"], loss, "worst", d.duals["norm"])
    assert primal.value(right) == pytest.approx(p.objective, rel=1e-7)
    assert max(primal.violations(right).values()) < 1e-7
    without = cpm.recover(X, y, np.where(d["alpha"] < 1e-6, 0.0, d["alpha"]), loss, "worst")
    assert primal.value(without) > 2 * p.objective
    moved = {**d.duals, "norm": d.duals["norm"] + 1e-3}
    assert certify_program(dual, d.primal, moved).worst.relative > 1e-6


@pytest.mark.parametrize("loss", LOSSES)
def test_worst_is_between_a_kth_of_the_total_and_the_total(loss, fixed):
    X, y, K, z, C = fixed
    worst = cpm.fixed_assignment(X, y, K, z, C, loss, "worst").solve()
    total = cpm.fixed_assignment(X, y, K, z, C, loss).solve()
    assert worst.objective < total.objective
    # With max_k‖W_k‖² ≥ ‖W‖²/K, costs times K make the worst a bound on the total.
    lifted = cpm.fixed_assignment(X, y, K, z, C / K, loss, "worst").solve()
    assert K * lifted.objective >= total.objective * (1 - 1e-8)
    one = cpm.fixed_assignment(X, y, 1, 0 * y, C, loss, "worst").solve()
    assert one.objective == pytest.approx(cpm.face(X, y, C).solve().objective, rel=1e-8)


# -- certificates --------------------------------------------------------------------------


def solved(fixed, loss):
    X, y, K, z, C = fixed
    solution = cpm.fixed_assignment(X, y, K, z, C, loss, "worst").solve()
    return {"W": solution["W"], "alpha": solution.duals["margin"], "assignment": z}, solution.objective


@pytest.mark.parametrize("loss", LOSSES)
def test_the_certificate_of_the_worst_case(loss, fixed):
    X, y, _, z, C = fixed
    point, optimum = solved(fixed, loss)
    certificate = certify_cpm(X, y, C, loss=loss, margin="worst", **point)
    assert certificate.relative_gap < 1e-7
    conditions = [r for r in certificate.residuals if r.row != "assignment"]
    assert max(r.relative for r in conditions) < 1e-5
    assert ("complementarity", "norm") in {(r.condition, r.row) for r in conditions}
    assert certificate.primal_value == pytest.approx(optimum, rel=1e-7)
    # The total's certificate of the same point sees that it is not the total's.
    assert certify_cpm(X, y, C, loss=loss, **point).claim is Claim.SUBOPTIMAL_BY
    without = certify_cpm(X, y, C, loss=loss, margin="worst", W=point["W"], assignment=z)
    assert without.dual_value == pytest.approx(optimum, rel=1e-6)
    assert without.dual_value <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_moved_worst_case_point_fails(loss, fixed):
    X, y, _, _, C = fixed
    point, _ = solved(fixed, loss)
    theta = margin_weights((cpm.lift(X).T @ (point["alpha"] * y[:, None])).T)
    k = int(theta.argmax())
    W = point["W"].copy()
    W[k, 0] += 1e-2
    certificate = certify_cpm(X, y, C, loss=loss, margin="worst", **{**point, "W": W})
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    moved = next(r for r in certificate.residuals if r.row == f"w(face {k})")
    assert moved.value == pytest.approx(2 * theta[k] * 1e-2, rel=1e-2)
    alpha = point["alpha"].copy()
    i = int(np.flatnonzero(y < 0)[0])
    alpha[i, k] = -0.25
    certificate = certify_cpm(X, y, C, loss=loss, margin="worst", **{**point, "alpha": alpha})
    labels = {r.label: r.value for r in certificate.residuals}
    assert labels[f"sign of margin(face {k})[{i}]"] == pytest.approx(0.25)


@given(st.integers(0, 10**6))
def test_the_worst_case_bound_holds_for_any_vectors(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(10, 2)).astype(float)
    y = np.r_[np.ones(5), -np.ones(5)]
    K, loss = int(rng.integers(1, 4)), str(rng.choice(LOSSES))
    z, C = rng.integers(0, K, 10), rng.choice([0.5, 1.0, 3.0], size=10)
    optimum = cpm.fixed_assignment(X, y, K, z, C, loss, "worst").solve().objective
    W, alpha = rng.normal(size=(K, 3)), rng.normal(size=(10, K)) * rng.choice([0.1, 1.0, 10.0])
    for given_ in ({"W": W}, {"alpha": alpha}, {"W": W, "alpha": alpha}):
        certificate = certify_cpm(X, y, C, loss=loss, margin="worst", assignment=z, **given_)
        assert certificate.dual_value <= optimum + 1e-7
        assert optimum <= certificate.primal_value + 1e-7


def test_a_margin_is_total_or_worst():
    with pytest.raises(ValueError, match="margin must be 'total' or 'worst', not 'mean'"):
        certify_cpm([[1.0], [2.0]], [1, -1], W=np.ones((1, 2)), margin="mean")


# -- alternating ---------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_never_rises_and_ends_at_a_fixed_point(loss, fixed):
    X, y, K, _, C = fixed
    longest = 0
    for seed in range(3):
        problem = PolytopeProblem(X, y, C, K, loss, "worst")
        rng = np.random.default_rng(seed)
        directions = rng.normal(size=(2, K))  # poor starts, so that there is something to move
        solution = run_rounds(problem, np.where(y > 0, (X @ directions).argmax(axis=1), -1))
        values = [record["objective"] for record in solution.history]
        assert (np.diff(values) <= 1e-7 * values[0]).all()
        longest = max(longest, len(values))
        certificate = certify_cpm(
            X, y, C, W=solution["W"], alpha=solution.duals["margin"], loss=loss, margin="worst",
            assignment=solution["assignment"], tol=1e-4,
        )  # fmt: skip
        assert certificate.claim is Claim.STATIONARY
        Z = cpm.assignment_matrix(y, K, solution["assignment"])
        assert solution.objective == pytest.approx(value(X, y, solution["W"], C, Z, loss), rel=1e-9)
    assert longest >= 3


# -- certificates with a bound from a search -----------------------------------------------


@pytest.fixture(scope="module")
def searched():
    X, y, _ = clusters(30, 3, 4, widen=1.8)
    C = np.random.default_rng(4).uniform(0.5, 2.0, len(y))
    return X, y, C, solve_cpm_global(X, y, C, 3)


def test_the_search_s_own_bound_makes_the_global_optimum_optimal(searched):
    X, y, C, best = searched
    point = {"W": best["W"], "alpha": best.duals["margin"], "assignment": best["assignment"]}
    alone = certify_cpm(X, y, C, **point)
    assert alone.claim is Claim.STATIONARY
    certificate = certify_cpm_search(X, y, C, best)
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.scope == "the Convex Polytope Machine"
    assert "this package's own branch and bound over all assignments" in certificate.sentence
    assert certificate.dual_value == best.bound


def test_a_worse_fixed_point_is_suboptimal_by_its_distance(searched):
    X, y, C, best = searched
    z = np.where(y > 0, 0, -1)  # all on one face: a fixed point far from the optimum
    found = cpm.fixed_assignment(X, y, 3, z, C).solve()

    def searched_at(W, alpha, z=best["assignment"]):
        point = replace(best, primal={"W": W, "assignment": z}, duals={"margin": alpha})
        return certify_cpm_search(X, y, C, point)

    certificate = searched_at(found["W"], found.duals["margin"], z)
    assert certificate.claim is Claim.SUBOPTIMAL_BY
    value_ = cpm.objective(X, y, found["W"], C)
    assert certificate.eps == pytest.approx(value_ - best.bound)
    assert certificate.eps > 0.01 * best.objective
    assert "of the optimum of the Convex Polytope Machine" in certificate.sentence
    # A point that is off by little is no optimum either, and neither is one with wrong multipliers.
    W, alpha = best["W"].copy(), best.duals["margin"]
    W[0, 0] += 1e-2
    assert searched_at(W, alpha).claim is Claim.SUBOPTIMAL_BY
    assert searched_at(best["W"], alpha + 0.1).claim is Claim.SUBOPTIMAL_BY
