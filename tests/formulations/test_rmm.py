"""The Relative Margin Machine: its programs, the misprints mended, and what B does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from formulations import rmm, svm
from formulations.families import hinge_families
from formulations.language.recovery import gram_factor


def threshold(X, y, C):
    """The largest output of the SVM, at the intercept that makes it least: the B above which RMM = SVM."""
    solution, dual = svm.primal(X, y, C).solve(), svm.dual(X, y, C).solve()
    g = X @ solution["w"]
    lo, hi = hinge_families(y, C).intercept_interval(g, {"margin": dual["alpha"]})
    b = np.clip(-(g.max() + g.min()) / 2, lo, hi)
    return float(np.abs(g + b).max()), solution


@pytest.fixture(params=[0.2, 0.5, 0.8])
def pressed(request, blobs):
    """Data with a B between 1 and the threshold, where some bounds are active."""
    X, y = blobs
    theta, _ = threshold(X, y, 1.0)
    assert theta > 1.1
    return X, y, 1.0 + (theta - 1.0) * request.param


def test_the_qcqp_is_the_qp(pressed):
    X, y, B = pressed
    qp, qcqp = rmm.qp(X, y, 1.0, B).solve(), rmm.qcqp(X, y, 1.0, B).solve()
    assert qcqp.objective == pytest.approx(qp.objective, rel=1e-8)
    assert qcqp["w"] == pytest.approx(qp["w"], abs=1e-5)
    sizes = (qp.duals["bound_above"] + qp.duals["bound_below"]) / B
    assert qcqp.duals["spread"] == pytest.approx(sizes, abs=1e-4)


def test_stationarity_of_the_qcqp_has_a_plus(pressed):
    """The paper has a minus before b X'λ."""
    X, y, B = pressed
    solution = rmm.qcqp(X, y, 1.0, B).solve()
    w, b = solution["w"], float(solution["b"])
    alpha, lam = solution.duals["margin"], solution.duals["spread"]
    left = w + X.T @ (lam * (X @ w))
    right = X.T @ (alpha * y)
    size = np.abs(right).max()
    assert np.abs(left + b * (X.T @ lam) - right).max() < 1e-5 * size
    assert np.abs(left - b * (X.T @ lam) - right).max() > 1e-3 * size


def value_of_6(X, y, B, alpha, lam, with_missing_term=True):
    total = lam.sum()
    mu = X.T @ lam / total
    spread = (X * lam[:, None]).T @ X - total * np.outer(mu, mu)
    c = (X - mu).T @ (alpha * y)
    value = alpha.sum() - 0.5 * c @ np.linalg.solve(np.eye(len(mu)) + spread, c) - 0.5 * B**2 * total
    return value - (alpha @ y) ** 2 / (2 * total) if with_missing_term else value


def test_dual_6_needs_its_missing_term(pressed, rng):
    X, y, B = pressed
    solution, dual = rmm.qcqp(X, y, 1.0, B).solve(), rmm.qcqp_dual(X, y, 1.0, B).solve()
    p = solution.objective
    assert dual.objective == pytest.approx(p, rel=1e-7)
    assert value_of_6(X, y, B, dual["alpha"], dual["lam"]) == pytest.approx(p, rel=1e-6)
    assert value_of_6(X, y, B, dual["alpha"], dual["lam"], with_missing_term=False) > p * (1 + 1e-6)
    for _ in range(200):  # weak duality at random points
        alpha = rng.uniform(0, 1, len(y)) * (rng.random(len(y)) < 0.3)
        lam = rng.uniform(0, 1, len(y)) * 10 ** rng.uniform(-4, 0) + 1e-9
        assert value_of_6(X, y, B, alpha, lam) <= p + 1e-9


def test_the_multiplier_of_the_matrix_row_is_the_primal_point(pressed):
    X, y, B = pressed
    p, d = rmm.qcqp(X, y, 1.0, B).solve(), rmm.qcqp_dual(X, y, 1.0, B).solve()
    v = np.concatenate([p["w"], [float(p["b"])], [-1.0]])
    assert d.duals["w_b"] == pytest.approx(0.5 * np.outer(v, v), abs=1e-4)
    assert d.duals["spread"] == pytest.approx(0.5 * (B**2 - (X @ p["w"] + p["b"]) ** 2), abs=1e-4)


def test_above_the_threshold_it_is_the_svm_and_below_it_is_not(blobs):
    X, y = blobs
    theta, plain = threshold(X, y, 1.0)
    above = rmm.qp(X, y, 1.0, 1.001 * theta).solve()
    assert above.objective == pytest.approx(plain.objective, rel=1e-8)
    assert above["w"] == pytest.approx(plain["w"], abs=1e-5)
    assert max(above.duals["bound_above"].max(), above.duals["bound_below"].max()) < 1e-6
    below = rmm.qp(X, y, 1.0, 0.98 * theta).solve()
    assert below.objective > plain.objective + 1e-7
    semidefinite = rmm.qcqp_dual(X, y, 1.0, 1.5 * theta).solve()
    assert semidefinite.objective == pytest.approx(plain.objective, rel=1e-6)


def test_the_price_of_B_is_the_sum_of_the_bounds_multipliers(pressed):
    X, y, B = pressed
    program = rmm.qp(X, y, 1.0, B)
    solution = program.solve()
    total = solution.duals["bound_above"].sum() + solution.duals["bound_below"].sum()
    step = 1e-4
    slope = (program.set(B=B + step).solve().objective - program.set(B=B - step).solve().objective) / (
        2 * step
    )
    assert slope == pytest.approx(-total, rel=1e-3, abs=1e-5)


def test_the_optimal_value_is_convex_and_falling_in_B(blobs):
    program = rmm.qp(*blobs, 1.0, 1.0)
    values = np.array([program.set(B=B).solve().objective for B in np.linspace(0.0, 3.0, 13)])
    assert values[0] == pytest.approx(len(blobs[1]), rel=1e-7)  # p*(0) = nC
    assert (np.diff(values) <= 1e-7).all()
    assert (np.diff(values, 2) >= -1e-6).all()


@pytest.mark.parametrize("B", [0.5, 0.999])
def test_below_one_every_margin_is_out_of_reach(blobs, B):
    X, y = blobs
    solution = rmm.qp(X, y, 1.0, B).solve()
    assert solution.duals["margin"] == pytest.approx(np.ones(len(y)), abs=1e-6)


def test_a_sample_meets_one_bound_on_its_wrong_side(pressed):
    X, y, B = pressed
    duals = rmm.qp(X, y, 1.0, B).solve().duals
    assert np.minimum(duals["bound_above"], duals["bound_below"]).max() < 1e-6
    own = np.where(y > 0, duals["bound_above"], duals["bound_below"])
    assert np.minimum(own, duals["margin"]).max() < 1e-6


def test_translation_changes_nothing_but_b(pressed):
    X, y, B = pressed
    shift = np.array([10.0, -20.0, 3.0])
    base, moved = rmm.qp(X, y, 1.0, B).solve(), rmm.qp(X + shift, y, 1.0, B).solve()
    assert moved["w"] == pytest.approx(base["w"], abs=1e-5)
    assert float(moved["b"]) == pytest.approx(float(base["b"]) - base["w"] @ shift, abs=1e-3)


def test_the_kernel_dual_is_the_qp_in_features(blobs):
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    F = gram_factor(K)
    dual, primal = rmm.kernel_dual(K, y, 1.0, 1.2).solve(), rmm.qp(F, y, 1.0, 1.2).solve()
    assert dual.objective == pytest.approx(primal.objective, rel=1e-7)
    beta = dual["alpha"] * y - dual["lam"] + dual["lam_star"]
    assert K @ beta == pytest.approx(F @ primal["w"], abs=1e-4)


# -- subproblem (9) ------------------------------------------------------------------------


def value_of_8(K, y, B, alpha, lam, lam_star):
    beta = alpha * y - lam + lam_star
    return -0.5 * beta @ K @ beta + alpha.sum() - B * (lam.sum() + lam_star.sum())


def test_block_steps_climb_to_the_optimum(blobs, rng):
    X, y = blobs
    K = rbf_kernel(X, gamma=0.3)
    B, n = 1.2, len(y)
    optimum = rmm.kernel_dual(K, y, 1.0, B).solve().objective
    point = [np.zeros(n), np.zeros(n), np.zeros(n)]
    value = 0.0
    for _ in range(25):
        free = np.sort(rng.choice(n, 20, replace=False))
        solution = rmm.subproblem(K, y, 1.0, B, *point, free).solve()
        for whole, name in zip(point, ("alpha", "lam", "lam_star"), strict=True):
            whole[free] = np.maximum(solution[name], 0.0)
        stepped = value_of_8(K, y, B, *point)
        assert stepped >= value - 1e-7
        value = stepped
    assert value <= optimum + 1e-6
    assert value == pytest.approx(optimum, rel=1e-4)


def test_the_cross_term_of_9_is_whole(blobs):
    """A rise of the subproblem is the same rise of (8); the printed factor ½ would break this."""
    X, y = blobs
    K, zeros = X @ X.T, np.zeros(len(y))
    start = np.where(y > 0, 0.01, 0.01)
    free = np.arange(0, len(y), 2)
    program = rmm.subproblem(K, y, 1.0, 1.5, start, zeros, zeros, free)
    before = program.value({"alpha": start[free], "lam": zeros[free], "lam_star": zeros[free]})
    solution = program.solve()
    point = [start.copy(), zeros.copy(), zeros.copy()]
    for whole, name in zip(point, ("alpha", "lam", "lam_star"), strict=True):
        whole[free] = solution[name]
    rise = value_of_8(K, y, 1.5, *point) - value_of_8(K, y, 1.5, start, zeros, zeros)
    assert solution.objective - before == pytest.approx(rise, rel=1e-6)
    assert rise > 0


@pytest.mark.parametrize("free", [[], [-1], [40]])
def test_a_bad_working_set_is_refused(blobs, free):
    X, y = blobs
    zeros = np.zeros(40)
    with pytest.raises(ValueError, match="free must hold sample numbers from 0 to 39"):
        rmm.subproblem(X @ X.T, y, 1.0, 1.5, zeros, zeros, zeros, free)


@pytest.mark.parametrize("B", [-0.1, np.inf, np.nan])
def test_a_bad_bound_is_refused(B):
    for program in (rmm.qp, rmm.qcqp, rmm.qp_dual, rmm.qcqp_dual):
        with pytest.raises(ValueError, match="B must be at least 0 and finite"):
            program([[0.0], [1.0]], [-1, 1], 1.0, B)
