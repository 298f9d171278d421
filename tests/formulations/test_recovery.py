"""What the hinge programs share, each against its definition: intercepts, moments, costs, factors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from formulations.families import hinge_families
from formulations.language.recovery import as_costs, gram_factor, moments, slacks, square_sum


def best_intercept(g, y, C):
    return hinge_families(y, C, hard=True).best_intercept(g)


def intercept_interval(g, y, alpha, C, lam=None, lam_star=None, B=np.inf, tol=1e-6):
    given = {"margin": alpha, "bound_above": lam, "bound_below": lam_star}
    multipliers = {name: values for name, values in given.items() if values is not None}
    return hinge_families(y, C, B).intercept_interval(g, multipliers, tol)


def is_optimal(b, g, y, alpha, C, lam, lam_star, B):
    """The conditions of complementarity, sample by sample, as the program states them."""
    f = g + b
    if (np.abs(f) > B).any():
        return False
    for i in range(len(g)):
        margin = y[i] * f[i]
        if alpha[i] > 0 and margin > 1:  # a multiplier, and room in its row
            return False
        if alpha[i] < C[i] and margin < 1:  # slack, and a multiplier under its cap
            return False
        if (lam[i] > 0 and f[i] != B) or (lam_star[i] > 0 and f[i] != -B):
            return False
    return True


@given(st.integers(0, 10**6))
def test_interval_holds_optimal_intercepts_alone(seed):
    """On quarters, which doubles hold exactly, without a tolerance: rows and multipliers of every kind."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    g, y = rng.integers(-12, 13, n) / 4.0, rng.choice([-1.0, 1.0], n)
    C = rng.choice([0.5, 2.0], n)
    B = float(rng.choice([1.0, 2.0, 4.0, np.inf]))
    at = float(rng.integers(-8, 9) / 4)  # where many of the multipliers agree
    margin = y * (g + at)
    alpha = np.where(margin < 1, C, np.where(margin > 1, 0.0, C / 2))
    if rng.random() < 0.2:
        alpha = rng.choice([0.0, 0.5, 1.0], n) * C
    ends = [np.where((g + at == side * B) & (rng.random(n) < 0.8), 1.0, 0.0) for side in (1, -1)]
    lo, hi = intercept_interval(g, y, alpha, C, *ends, B=B, tol=0.0)
    for b in np.arange(-48, 49) / 8.0:
        assert (lo <= b <= hi) == is_optimal(b, g, y, alpha, C, *ends, B)


def test_multiplier_counts_from_tolerance():
    """Costs 1 and 4, tol 0.1: multipliers up to 0.4 are zero, and those within 0.4 of the cost are at it."""
    g, y, C = np.array([0.0, 0.5]), np.array([1.0, 1.0]), np.array([1.0, 4.0])
    ends = {0.3: (1.0, np.inf), 0.5: (1.0, 1.0), 0.7: (0.5, 1.0)}
    for first, expected in ends.items():
        assert intercept_interval(g, y, np.array([first, 0.3]), C, tol=0.1) == pytest.approx(expected)
    one = np.array([0.5, 0.0])
    assert intercept_interval(g, y, 0.0 * one, C, one, None, 3.0, tol=0.1) == pytest.approx((3.0, 2.5))
    assert intercept_interval(g, y, 0.0 * one, C, None, one, 3.0, tol=0.1) == pytest.approx((1.0, -3.0))


def test_hard_margin_outweighs_soft_ones():
    """One hard sample against ten soft ones that cost 3 each and would have b at -5."""
    g, y = np.append(0.0, np.full(10, 4.0)), np.append(1.0, -np.ones(10))
    C = np.append(np.inf, np.full(10, 3.0))
    assert best_intercept(g, y, C) == pytest.approx(1.0)
    assert best_intercept(g, y, np.append(3.0, C[1:])) == pytest.approx(-5.0)
    # Two hard samples that contradict each other: no b satisfies both, and soft ones still have no say.
    g, y, C = np.array([0.0, 0.0, 9.0]), np.array([1.0, -1.0, -1.0]), np.array([np.inf, np.inf, 1.0])
    assert -1.0 <= best_intercept(g, y, C) <= 1.0


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_moments_are_of_repeated_samples(rng, form):
    """Weights 1, 2 and 3 count as that many copies; both forms of samples give numpy's covariance."""
    X, weights = rng.normal([1.0, -2.0, 0.0], size=(9, 3)), rng.integers(1, 4, 9)
    repeated = np.repeat(X, weights, axis=0)
    mean, covariance = moments(form(X), weights)
    np.testing.assert_allclose(mean, repeated.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(repeated.T, bias=True), atol=1e-12)
    mean, covariance = moments(form(X))
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(X.T, bias=True), atol=1e-12)


def test_sums_of_squares_and_slacks_by_hand():
    """Squares are summed over dense and CSR samples; a slack is what lacks to a margin of 1."""
    X = np.array([[3.0, 0.0], [-1.0, 2.0]])
    assert square_sum(X) == square_sum(sp.csr_array(X)) == 14.0
    assert slacks(np.array([3.0, 0.5, -2.0, 2.0]), np.array([1.0, 1.0, 1.0, -1.0])).tolist() == [0, 0.5, 3, 3]


def test_costs_are_one_or_per_sample():
    """A number is one for all; costs may be 0, infinite if hard, and not negative."""
    assert as_costs(2.0, 3).tolist() == as_costs([2.0], 3).tolist() == [2.0] * 3
    assert as_costs([0.0, 1.0, 2.0], 3).tolist() == [0.0, 1.0, 2.0]
    assert as_costs([np.inf, 1.0], 2, hard=True).tolist() == [np.inf, 1.0]
    for wrong in ([1.0, 2.0], [[1.0, 2.0, 3.0]], [0.0, 0.0, 0.0], [1.0, -1e-9, 1.0]):
        with pytest.raises(ValueError, match="C must"):
            as_costs(wrong, 3)


def test_gram_matrix_may_be_off_by_rounding(rng):
    """Errors of 1e-9 of the largest entry are rounding; of 1e-7 they are not."""
    A = rng.normal(size=(6, 6))
    K, skew = A @ A.T, np.triu(np.ones((6, 6)), 1)
    size = np.abs(K).max()
    assert gram_factor(K + 1e-9 * size * skew).shape[0] == 6
    with pytest.raises(ValueError, match="symmetric"):
        gram_factor(K + 1e-7 * size * skew)
    thin = np.diag([1.0, 1.0, -1e-9])
    assert gram_factor(thin).shape == (3, 2)
    with pytest.raises(ValueError, match="smallest eigenvalue"):
        gram_factor(np.diag([1.0, 1.0, -1e-6]))
    # Rounding is up to 1e-8 of the largest entry, and n times that in an eigenvalue.
    assert gram_factor(K + 0.9e-8 * size * skew).shape[0] == 6
    assert gram_factor(np.diag([1.0, 1.0, -2.9e-8])).shape == (3, 2)
    for wrong in (K + 1.1e-8 * size * skew, np.diag([1.0, 1.0, -3.1e-8]), np.ones((2, 3)), np.ones(4)):
        with pytest.raises(ValueError, match="the Gram matrix must be"):
            gram_factor(wrong)
    # Directions of 1e-12 of the largest are zero; of 1e-11 they are not.
    assert gram_factor(np.diag([1e6, 1e-5, 1e-7])).shape == (3, 2)
