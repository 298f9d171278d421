"""What the sparse machines prove is true of real numbers: bounds and values against exact rationals."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.l0 import solve_l0_tree

from formulations.l0_data import as_l0_data
from polyopt import Claim, CrossEntropySettings, CrossEntropySVM, OneNormSVM
from polyopt.sparse.certificate import certify_l0, certify_l0_data, certify_one_norm
from polyopt.sparse.pattern_lp import PatternLP

FEW = CrossEntropySettings(n_samples=20, max_iter=5)


def problem(seed, *, n=6, spread=3.0):
    """Small data of mixed scales, every other time with duplicates or integers."""
    rng = np.random.default_rng(seed)
    K = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-spread, spread)
    if seed % 3 == 1:
        K = np.round(3 * K / np.abs(K).max())
    if seed % 3 == 2:
        K[n // 2 :] = K[: n - n // 2]
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return K, y, 10.0 ** rng.uniform(-2, 4), 10.0 ** rng.uniform(-spread, spread, n), rng


exact = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])


def loss_exactly(K, y, costs, alpha, b):
    """The loss in rational arithmetic."""
    outputs = exact(K) @ (exact(alpha) * y.astype(int)) + Fraction(float(b))
    return exact(costs) @ np.maximum(1 - y.astype(int) * outputs, Fraction(0))


# 100 and 600: coefficients that matter are far under the cap; the others are ordinary and degenerate.
@pytest.mark.parametrize("seed", [*range(4), 100, 600])
def test_tree_finds_the_best_pattern(seed):
    """The tree's bound is below the least exact score of all patterns, and its point attains it."""
    K, y, C, weights, _ = problem(seed, n=5, spread=1.0)
    C = 4e7 / np.abs(K).max() / weights.max() if seed >= 100 else C
    data = as_l0_data(K, y, C, weights)
    found = solve_l0_tree(data, tol=1e-9)
    patterns, best = PatternLP(data), None
    for sigma in itertools.product((0.0, 1.0), repeat=len(y)):
        value = patterns.solve(np.array(sigma))
        loss = loss_exactly(K, y, weights, value.alpha, value.b)
        score = int((value.alpha > 0).sum()) + Fraction(C) * loss
        best = score if best is None else min(best, score)
    assert Fraction(found.bound) <= best
    assert found.objective <= float(best) * (1 + 1e-6)
    proof = certify_l0_data(data, found["alpha"], float(found["b"]), searched=found.bound)
    # Where a score of 1 is the difference of numbers of 1e7, the gap may be that of rounding.
    assert proof.claim is Claim.OPTIMAL or (seed >= 100 and proof.gap <= 1.001 * proof.rounding)
    assert "leaves" in proof.note
    loss = loss_exactly(K, y, weights, found["alpha"], found["b"])
    assert Fraction(proof.primal_value) >= int((found["alpha"] > 0).sum()) + Fraction(C) * loss


@pytest.mark.parametrize("seed", range(6))
def test_certificate_holds_within_entry_error(seed):
    """An entry error makes the certificate one for every kernel within it."""
    K, y, C, weights, rng = problem(seed, spread=0.5)
    error = 1e-3 * np.abs(K).max() * rng.uniform(0.0, 1.0, K.shape)
    data = replace(as_l0_data(K, y, C, weights), entry_error=error)
    found = PatternLP(data).solve(np.ones(len(y)))
    alpha, b, u = found.alpha, found.b, found.u
    proof = certify_l0_data(data, alpha, b, u=u, v=C * u)
    linear = certify_one_norm(
        K, y, C * weights, alpha=np.minimum(alpha, C * weights), b=b, u=C * u, entry_error=error
    )
    assert certify_l0_data(replace(data, entry_error=0.0), alpha, b, u=u).claim is Claim.STATIONARY
    if alpha.any():  # else the kernel does not matter
        assert certify_l0_data(data, alpha, b, u=u).claim is Claim.SUBOPTIMAL_BY
    for _ in range(4):
        other = K + rng.choice([-1.0, 1.0], K.shape) * error * (1 - 1e-12)
        true = certify_l0(other, y, C, alpha=alpha, b=b, weights=weights, u=u, v=C * u)
        assert proof.primal_value >= true.primal_value - true.rounding
        assert proof.dual_value <= true.dual_value + true.rounding
        same = certify_one_norm(other, y, C * weights, alpha=np.minimum(alpha, C * weights), b=b, u=C * u)
        assert linear.primal_value >= same.primal_value - same.rounding
        assert linear.dual_value <= same.dual_value + same.rounding


def test_stated_bound_is_no_proof():
    """A bound that a solver states, and nothing proves, makes its word the claim."""
    K, y, C, weights, _ = problem(3, n=5, spread=1.0)
    data = as_l0_data(K, y, C, weights)
    found = solve_l0_tree(data, tol=1e-9)
    point = {"alpha": found["alpha"], "b": float(found["b"]), "weights": weights, "u": found["margin"]}
    word = certify_l0(K, y, C, **point, bound=found.bound)
    assert word.claim is Claim.SOLVERS_WORD
    assert not word.is_optimal
    assert word.dual_value < word.stated == found.bound
    assert "solver states" in word.sentence


def test_repair_is_told():
    """The note says that tiny coefficients are dropped, or others clipped."""
    K, y = np.eye(4), np.array([1.0, -1.0, 1.0, -1.0])
    used = np.array([1.0, 1.0, 0.0, 0.0])
    assert "without coefficients under 1e-9" not in certify_l0(K, y, 1.0, alpha=used).note
    for tiny in (1e-12, -1e-12):
        proof = certify_l0(K, y, 1.0, alpha=used + tiny * (used == 0))
        assert "without coefficients under 1e-9" in proof.note
        assert proof.primal_value == certify_l0(K, y, 1.0, alpha=used).primal_value
    assert "clipped" in certify_one_norm(K, y, 1.0, alpha=used * (1 + 1e-12)).note


# -- fitted models --------------------------------------------------------------------------


def samples(seed=0, n=14):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, -1)


def asymmetric(A, B):
    """The first argument is the sample to be classified, the second the support vector."""
    return np.exp(-((A[:, None, :] - 2.0 * B[None, :, :]) ** 2).sum(axis=2)) + A[:, :1]


@pytest.mark.parametrize("machine", [
    CrossEntropySVM(5.0, search=FEW, random_state=0, kernel=asymmetric), OneNormSVM(5.0, kernel=asymmetric)
], ids=["ce", "one-norm"])  # fmt: skip
def test_asymmetric_kernel_takes_sample_first(machine):
    """Outputs and the certified objective are of k(sample, support vector)."""
    X, y = samples()
    machine.fit(X, y)
    assert len(machine.support_) > 0
    new = samples(1)[0]
    by_hand = asymmetric(new, X[machine.support_]) @ machine.dual_coef_[0] + machine.intercept_[0]
    assert machine.decision_function(new) == pytest.approx(by_hand, rel=1e-12)
    other_way = asymmetric(X[machine.support_], new).T @ machine.dual_coef_[0] + machine.intercept_[0]
    assert np.abs(by_hand - other_way).max() > 0.1
    # The program that was solved is of the same matrix.
    xi = np.maximum(0.0, 1.0 - y * machine.decision_function(X))
    sizes = np.abs(machine.dual_coef_)
    price = (sizes > 0).sum() if isinstance(machine, CrossEntropySVM) else sizes.sum()
    assert machine.certificate().primal_value == pytest.approx(price + 5.0 * xi.sum(), rel=1e-9)


def test_screen_without_time_keeps_all():
    """Out of time, a screen rules out no candidate."""
    X, y = samples(4, n=40)
    machine = CrossEntropySVM(search=CrossEntropySettings(svm_screen=True), time_limit=1e-9, random_state=0)
    with pytest.warns(UserWarning, match="time limit"):
        machine.fit(X, y)
    assert (machine.candidates_ == np.arange(40)).all()
    assert machine.certificate().claim is Claim.SUBOPTIMAL_BY
