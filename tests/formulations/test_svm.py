"""The SVM: its programs, their duality, and what is known about its solutions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, LinearSVC

from formulations import svm
from formulations.families import best_intercept, hinge_families
from formulations.language.recovery import gram_factor, slacks


def test_agrees_with_libsvm(blobs):
    X, y = blobs
    machine = SVC(C=2.0, kernel="linear", tol=1e-9).fit(X, y)
    solution = svm.primal(X, y, 2.0).solve()
    assert solution["w"] == pytest.approx(machine.coef_[0], abs=1e-5)
    assert float(solution["b"]) == pytest.approx(machine.intercept_[0], abs=1e-5)


def test_agrees_with_libsvm_for_a_kernel(blobs):
    X, y = blobs
    K = rbf_kernel(X, gamma=0.5)
    machine = SVC(C=2.0, kernel="precomputed", tol=1e-9).fit(K, y)
    solution = svm.kernel_dual(K, y, 2.0).solve()
    signed = np.zeros(len(y))
    signed[machine.support_] = machine.dual_coef_[0]
    assert solution["alpha"] * y == pytest.approx(signed, abs=1e-5)


def test_sample_costs_agree_with_libsvm_weights(blobs, rng):
    X, y = blobs
    weights = rng.uniform(0.2, 3.0, len(y))
    machine = SVC(C=1.0, kernel="linear", tol=1e-9).fit(X, y, sample_weight=weights)
    assert svm.primal(X, y, weights).solve()["w"] == pytest.approx(machine.coef_[0], abs=1e-5)


def test_alpha_is_the_price_of_the_margin(blobs):
    """alpha_i = d p*/d(required margin of i): the margin 1 of sample i is raised by adding data."""
    import cvxpy as cp

    X, y = blobs
    solution = svm.primal(X, y, 1.0).solve()
    alpha = solution.duals["margin"]
    i = int(np.argmax(np.minimum(alpha, 1.0 - alpha)))

    def value(required):
        w, b, xi = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(len(y))
        rows = [cp.multiply(y, X @ w + b) >= required - xi, xi >= 0]
        problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + cp.sum(xi)), rows)
        return problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)

    step = 1e-4
    raised, lowered = np.ones(len(y)), np.ones(len(y))
    raised[i] += step
    lowered[i] -= step
    assert (value(raised) - value(lowered)) / (2 * step) == pytest.approx(alpha[i], abs=1e-4)


def test_the_norm_identity(blobs):
    solution = svm.primal(*blobs, 1.0).solve()
    w, xi, alpha = solution["w"], solution["xi"], solution.duals["margin"]
    assert w @ w == pytest.approx(alpha.sum() - xi.sum(), rel=1e-7)


def test_scaling_and_translation(blobs):
    X, y = blobs
    base = svm.primal(X, y, 1.0).solve()
    scaled = svm.primal(3.0 * X, y, 1.0 / 9.0).solve()
    assert scaled["w"] == pytest.approx(base["w"] / 3.0, abs=1e-7)
    assert float(scaled["b"]) == pytest.approx(float(base["b"]), abs=1e-6)
    assert scaled.objective == pytest.approx(base.objective / 9.0, rel=1e-8)
    shift = np.array([5.0, -3.0, 11.0])
    moved = svm.primal(X + shift, y, 1.0).solve()
    assert moved["w"] == pytest.approx(base["w"], abs=1e-6)
    assert float(moved["b"]) == pytest.approx(float(base["b"]) - base["w"] @ shift, abs=1e-5)


def test_no_free_support_vector():
    """x = -1, +1 with C = 0.1: alpha = (0.1, 0.1), and every b in [-0.8, 0.8] is optimal."""
    X, y = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0])
    solution = svm.dual(X, y, 0.1).solve()
    assert solution["alpha"] == pytest.approx([0.1, 0.1], abs=1e-7)
    g = X @ (X.T @ (solution["alpha"] * y))
    assert hinge_families(y, 0.1).intercept_interval(g, {"margin": solution["alpha"]}) == pytest.approx(
        (-0.8, 0.8), abs=1e-6
    )
    assert best_intercept(g, y, 0.1) == pytest.approx(0.0, abs=1e-7)


def test_one_class_costs_nothing():
    X = np.arange(6.0).reshape(3, 2)
    for label in (1.0, -1.0):
        solution = svm.primal(X, np.full(3, label), 1.0).solve()
        assert solution.objective == pytest.approx(0.0, abs=1e-8)
        assert svm.recover(X, np.full(3, label), 1.0, np.zeros(3))["b"] == pytest.approx(label)


def test_the_penalised_bias_machine_is_another_program(blobs):
    X, y = blobs
    lifted = np.column_stack([X, np.ones(len(y))])
    penalised = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6).fit(lifted, y)
    value = 0.5 * penalised.coef_[0] @ penalised.coef_[0] + slacks(lifted @ penalised.coef_[0], y).sum()
    assert value > svm.primal(X, y, 1.0).solve().objective + 1e-4


# -- recovery ------------------------------------------------------------------------------


def test_the_factor_of_a_singular_gram_matrix(rng):
    A = rng.normal(size=(12, 4))
    F = gram_factor(A @ A.T)
    assert F.shape == (12, 4)
    assert pytest.approx(A @ A.T, abs=1e-10) == F @ F.T
    assert gram_factor(np.zeros((3, 3))).tolist() == [[0.0]] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[np.nan]], [1], 1.0), "X must be finite"),
        ((np.empty((0, 2)), [], 1.0), "at least one row"),
        (([[0.0], [1.0]], [1], 1.0), r"y must have shape \(2,\)"),
        (([[0.0], [1.0]], [0, 1], 1.0), "only -1 and \\+1"),
        (([[0.0], [1.0]], [-1, 1], 0.0), "C must be positive and finite"),
        (([[0.0], [1.0]], [-1, 1], np.nan), "C must be positive and finite"),
        (([[0.0], [1.0]], [-1, 1], np.inf), "C must be positive and finite"),
    ],
)
def test_bad_data_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        svm.primal(*arguments)
