"""The OSQP twin: against the explicit program, against itself along a path, and with its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cases import in_turn
from sklearn.metrics.pairwise import rbf_kernel

from formulations import rmm, svm
from formulations.families import hinge_families
from formulations.samples import two_blobs
from formulations.solution import Solution, Status
from polyopt.certificates import Claim, certify_rmm, certify_svm
from polyopt.solvers.decomposition import solve_decomposition
from polyopt.solvers.osqp_dual import OsqpDual, solve_osqp_dual

BOUNDS = [np.inf, 1e6, 3.0, 1.5, 1.0001, 1.0, 0.5]


def problems():
    """Named (K, y, C)."""
    X, y = two_blobs(n=40, seed=0)
    far, apart = two_blobs(n=40, separation=8.0, seed=1)
    twice = np.vstack([X, X[:15]])
    some = np.where(np.arange(40)[:, None] < 12, 0.0, X)  # a dozen samples without features
    spread = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 40)
    return {
        "rbf": (rbf_kernel(X, gamma=0.3), y, 1.0),
        "linear": (X @ X.T, y, 1.0),
        "separable": (far @ far.T, apart, 1.0),
        "tiny C": (rbf_kernel(X, gamma=0.3), y, 1e-8),
        "C over six orders": (rbf_kernel(X, gamma=0.3), y, spread),
        "duplicates": (rbf_kernel(twice, gamma=0.3), np.append(y, y[:15]), 1.0),
        "contradictions": (rbf_kernel(twice, gamma=0.3), np.append(y, -y[:15]), 1.0),
        "equal rows": (some @ some.T, y, 1.0),
        "no features": (np.zeros((40, 40)), y, 1.0),
        "one against many": (rbf_kernel(X, gamma=0.3), np.where(np.arange(40) == 7, 1.0, -1.0), 1.0),
        "two samples": (np.eye(2), np.array([1.0, -1.0]), 1.0),
        "large features": (1e3 * X @ X.T, y, 1.0),
    }


PROBLEMS = problems()


def vectors(solution: Solution, B: float) -> dict[str, object]:
    names = {"margin": "alpha"} | ({"bound_above": "lam", "bound_below": "lam_star"} if B < np.inf else {})
    return {
        "w": solution["coef"],
        "b": float(solution["b"]),
        **{letter: solution.duals[row] for row, letter in names.items()},
    }


def certify(K, y, C, B, **given):
    if np.isinf(B):
        return certify_svm(K, y, C, precomputed=True, **given)
    return certify_rmm(K, y, C, B, precomputed=True, **given)


def explicit(K, y, C, B):
    """The optimal value by the explicit program, in units that suit Clarabel's tolerances."""
    unit = min(1.0, float(np.max(C)))
    K, C = unit * K, C / unit
    program = svm.kernel_dual(K, y, C) if np.isinf(B) else rmm.kernel_dual(K, y, C, B)
    return unit * program.solve().objective


# Every bound for a full kernel and for one of low rank; for the others none, a common one, and the least.
@pytest.mark.cases(16)
@pytest.mark.parametrize(
    ("name", "B"),
    [
        *product(["rbf", "linear"], BOUNDS),
        *product([name for name in PROBLEMS if name not in ("rbf", "linear")], [np.inf, 1.5, 0.5]),
    ],
)
def test_it_agrees_with_the_explicit_program(name, B):
    K, y, C = PROBLEMS[name]
    twin, exact = solve_osqp_dual(K, y, C, B), explicit(K, y, C, B)
    assert twin.status is Status.SOLVED
    assert twin.bound == pytest.approx(exact, rel=1e-6)
    assert twin.objective == pytest.approx(exact, rel=1e-6)
    assert twin.bound <= twin.objective * (1 + 1e-12)
    for multipliers in twin.duals.values():
        assert (multipliers >= 0).all()
    assert (twin.duals["margin"] <= C).all()
    assert np.abs(K @ twin["coef"] + twin["b"]).max() <= B * (1 + 1e-9)
    assert certify(K, y, C, B, **vectors(twin, B)).claim is Claim.OPTIMAL


def hard_margins():
    X, y = two_blobs(n=40, seed=0)
    far, apart = two_blobs(n=40, separation=8.0, seed=1)
    return {"linear": (far @ far.T, apart), "rbf": (rbf_kernel(X, gamma=0.3), y)}


@pytest.mark.parametrize("B", [np.inf, 3.0])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_a_huge_cost_is_a_hard_margin(name, B):
    """Any cost above the largest multiplier is the same program; the explicit one takes a modest one."""
    K, y = hard_margins()[name]
    twin = solve_osqp_dual(K, y, 1e8, B)
    largest = float(twin.duals["margin"].max())
    assert largest < 1e7
    exact = explicit(K, y, 10.0 * largest, B)
    assert twin.bound == pytest.approx(exact, rel=1e-6)
    # The primal objective holds 1e8 times the rounding of the outputs.
    assert twin.objective == pytest.approx(exact, rel=1e-4)


def test_a_huge_cost_that_no_hyperplane_meets_is_not_called_optimal():
    """Within ±1.5 these classes have no margin of 1: the slacks cost millions: too much for OSQP."""
    X, y = two_blobs(n=40, separation=8.0, seed=1)
    twin = solve_osqp_dual(X @ X.T, y, 1e8, 1.5, max_iter=10_000)
    primal = rmm.qp(X, y, 1e8, 1.5).solve()
    assert primal.status is Status.SOLVED
    exact = primal.objective
    assert exact > 1e6
    assert twin.status is not Status.SOLVED
    assert twin.bound <= exact * (1 + 1e-6)
    assert exact * (1 - 1e-6) <= twin.objective


def test_at_a_bound_of_zero_nothing_can_be_said(blobs):
    X, y = blobs
    twin = solve_osqp_dual(X @ X.T, y, 0.7, 0.0)
    assert (twin.objective, twin.bound) == pytest.approx((0.7 * len(y), 0.7 * len(y)), rel=1e-9)
    assert (twin["coef"] == 0).all()


def test_it_agrees_with_the_decomposition(blobs):
    X, y = blobs
    K, C = rbf_kernel(X, gamma=0.3), np.linspace(0.5, 2.0, len(y))
    twin, fast = solve_osqp_dual(K, y, C, 1.2), solve_decomposition(K, hinge_families(y, C, 1.2), tol=1e-9)
    assert twin["coef"] == pytest.approx(fast["coef"], abs=1e-6)
    assert float(twin["b"]) == pytest.approx(float(fast["b"]), abs=1e-6)
    for row in ("margin", "bound_above", "bound_below"):
        assert twin.duals[row] == pytest.approx(fast.duals[row], abs=1e-6)


@pytest.mark.parametrize("name", ["w", "b", "alpha", "lam", "lam_star"])
@pytest.mark.parametrize("size", [1e-2, 1e-4])
def test_a_perturbed_solution_fails(name, size, blobs, rng):
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    given = vectors(solve_osqp_dual(K, y, 1.0, 1.2), 1.2)
    assert certify(K, y, 1.0, 1.2, **given).claim is Claim.OPTIMAL
    value = np.asarray(given[name])
    given[name] = value + size * rng.choice([-1.0, 1.0], value.shape)
    assert certify(K, y, 1.0, 1.2, **given).claim is not Claim.OPTIMAL


PATH = [np.inf, 3.0, 2.0, 1.5, 1.2, 1.1, 1.0001]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_path_gives_what_cold_starts_give(kernel):
    for seed in range(3):
        X, y = two_blobs(n=40, seed=seed)
        K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.3)
        dual, step = OsqpDual(K, y, 1.0), None
        for B in PATH:
            step = dual.solve(B, start=step)
            alone = solve_osqp_dual(K, y, 1.0, B)
            assert step.status is alone.status is Status.SOLVED
            assert set(step.duals) == set(alone.duals)
            assert step.bound == pytest.approx(alone.bound, rel=1e-9)
            assert step.objective == pytest.approx(alone.objective, rel=1e-7)
            assert K @ step["coef"] + step["b"] == pytest.approx(K @ alone["coef"] + alone["b"], abs=1e-5)


@pytest.mark.parametrize("B", [np.inf, 1.2])
def test_a_start_at_the_optimum_is_one(B, blobs):
    """All of OSQP's own multipliers are made from the house's: at its first look, after 25, it may stop."""
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    solution = solve_decomposition(K, hinge_families(y, np.ones(len(y)), B), tol=1e-12)
    assert solve_osqp_dual(K, y, 1.0, B, max_iter=25).status is Status.ITERATION_LIMIT
    again = solve_osqp_dual(K, y, 1.0, B, start=solution, max_iter=25)
    assert again.status is Status.SOLVED
    assert again.bound == pytest.approx(solution.bound, rel=1e-12)


def test_a_start_without_a_point_is_a_cold_one(blobs):
    X, y = blobs
    failed = Solution(Status.FAILED, {}, {}, np.nan, None, "osqp")
    cold = solve_osqp_dual(X @ X.T, y, 1.0, 1.5)
    again = solve_osqp_dual(X @ X.T, y, 1.0, 1.5, start=failed)
    assert (again.iterations, again.bound) == (cold.iterations, cold.bound)


def test_limits_are_told_apart_and_keep_a_proven_point():
    X, y = two_blobs(n=200, separation=0.3)
    K, C = X @ X.T, 100.0
    optimum = solve_decomposition(K, hinge_families(y, np.full(200, C)), tol=1e-4).objective
    for limit, status in (
        ({"max_iter": 30}, Status.ITERATION_LIMIT),
        ({"time_limit": 1e-9}, Status.TIME_LIMIT),
    ):
        short = solve_osqp_dual(K, y, C, 1.05, **limit)
        assert short.status is status
        assert short.bound < short.objective
        assert short.objective > optimum  # that of the SVM, which is below
        certificate = certify(K, y, C, 1.05, **vectors(short, 1.05))
        assert certificate.claim is Claim.SUBOPTIMAL_BY
        assert certificate.primal_value == pytest.approx(short.objective)
        assert certificate.dual_value == pytest.approx(short.bound)


def test_a_limit_holds_for_one_solve_only(blobs):
    X, y = blobs
    dual = OsqpDual(rbf_kernel(X, gamma=0.3), y, 1.0)
    assert dual.solve(1.2, max_iter=5).status is Status.ITERATION_LIMIT
    assert dual.solve(1.2).status is Status.SOLVED


def test_a_loose_tolerance_is_not_called_optimal(blobs):
    X, y = blobs
    loose = solve_osqp_dual(X @ X.T, y, 10.0, 1.5, tol=1e-2)
    assert loose.status is Status.INACCURATE
    assert loose.objective - loose.bound > 1e-6 * loose.objective


@in_turn(
    ("arguments", "message"),
    [
        ({"B": -1.0}, "B must be at least 0"),
        ({"B": np.nan}, "B must be at least 0"),
        ({"C": 0.0}, "C must be positive and finite"),
        ({"C": np.inf}, "C must be positive and finite"),
        ({"K": -np.eye(4)}, "must be positive semidefinite"),
        ({"y": np.ones(3)}, "y must have shape"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    given = {"K": np.eye(4), "y": np.array([1.0, 1.0, -1.0, -1.0]), "C": 1.0, "B": 2.0, **arguments}
    with pytest.raises(ValueError, match=message):
        solve_osqp_dual(**given)


def test_a_stage_that_ends_at_a_limit_or_proves_enough_is_the_last(monkeypatch):
    K, y, C = PROBLEMS["rbf"]
    solver, calls = OsqpDual(K, y, C), []
    solution = solver._solution
    whole = solver.solve(1.5)
    for status in (Status.TIME_LIMIT, Status.INTERRUPTED, None):
        calls.clear()

        def ended(*given, status=status):
            calls.append(1)
            found = solution(*given)
            return found if status is None else replace(found, status=status)

        monkeypatch.setattr(solver, "_solution", ended)
        found = solver.solve(1.5)
        assert len(calls) == 1 or status is None
        assert found.status is (status or whole.status)
    # A gap that is small enough ends it at the first stage, one that is not goes on to the last.
    counts = []
    for closed in (np.inf, 0.0):
        calls.clear()
        monkeypatch.setattr("polyopt.solvers.osqp_dual._CLOSED", closed)
        solver.solve(1.5)
        counts.append(len(calls))
    assert counts[0] == 1
    assert counts[1] > 1


def test_seconds_of_polishing_count_and_a_word_that_is_not_known_is_a_failure():
    X, y = two_blobs(n=12, m=2, seed=0)
    machine = OsqpDual(X @ X.T, y, 1.0)
    info = SimpleNamespace(status="nonsense", setup_time=1.0, solve_time=2.0, polish_time=4.0, iter=7)
    found = machine._solution(SimpleNamespace(info=info, x=np.zeros(1)), 2.0)
    assert (found.status, found.build_time, found.solve_time, found.iterations) == (
        Status.FAILED,
        1.0,
        6.0,
        7,
    )
