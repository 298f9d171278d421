"""Balls hold the true numbers: every operation against exact rational arithmetic."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from polyopt.certificates.rounding import Ball, gamma, product, transposed_product

FLOATS = st.floats(-1e12, 1e12, allow_subnormal=True)


def exact(values):
    return [Fraction(float(x)) for x in np.ravel(values)]


def holds(ball, truth):
    return all(
        Fraction(float(low)) <= t <= Fraction(float(high))
        for low, high, t in zip(np.ravel(ball.lower), np.ravel(ball.upper), truth, strict=True)
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=12))
def test_sums_products_and_inner_products_hold_the_rational_ones(pairs):
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    A, B = exact(a), exact(b)
    dot = sum(x * y for x, y in zip(A, B, strict=True))
    assert holds(Ball(a) + b, [x + y for x, y in zip(A, B, strict=True)])
    assert holds(1.0 - Ball(a) * b, [1 - x * y for x, y in zip(A, B, strict=True)])
    assert holds(Ball(a).sum(), [sum(A)])
    assert holds(Ball(a).dot(b), [dot])
    assert holds((Ball(a) * b).sum() * 0.5, [dot / 2])
    assert holds(Ball(a).square_sum(), [sum(x * x for x in A)])
    assert holds((Ball(a) - 1.0).positive(), [max(x - 1, 0) for x in A])


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_matrix_products_hold_the_rational_ones(wrap, offset):
    rng = np.random.default_rng(0)
    X, v, u = rng.standard_normal((30, 7)) + offset, rng.standard_normal(7), rng.standard_normal((30, 2))
    rows = [exact(row) for row in X]
    truth = [sum(x * w for x, w in zip(row, exact(v), strict=True)) for row in rows]
    assert holds(product(wrap(X), v), truth)
    # A product of a ball: the radii of the vector are carried.
    moved = v + 1e-9
    assert holds(product(wrap(X), Ball(moved, 2e-9)), truth)
    columns = [
        sum(row[j] * c for row, c in zip(rows, exact(u[:, k]), strict=True))
        for j in range(7)
        for k in range(2)
    ]
    assert holds(transposed_product(wrap(X), u), columns)


def test_a_ball_is_no_wider_than_rounding_asks():
    x = np.random.default_rng(1).standard_normal(1000)
    assert Ball(x).sum().rad <= 1.01 * gamma(1000) * np.abs(x).sum()
    assert not holds(Ball(x) + 1.0, [Fraction(float(t)) + 1 + Fraction(1, 10**12) for t in x])


@pytest.mark.parametrize("size", [1e-160, 3e-162, 1e-200])
def test_products_that_underflow_are_still_held(size):
    """A product under the smallest normal number keeps few digits or none, and its ball is wider by that."""
    rng = np.random.default_rng(0)
    a, b = size * rng.standard_normal(9), size * rng.standard_normal(9)
    A, B = exact(a), exact(b)
    products = [x * y for x, y in zip(A, B, strict=True)]
    assert holds(Ball(a) * b, products)
    assert holds(Ball(a).dot(b), [sum(products)])
    assert holds(Ball(a).square_sum(), [sum(x * x for x in A)])
    assert holds(product(a[None], b), [sum(products)])
    assert holds(transposed_product(a[:, None], b), [sum(products)])
    assert (Ball(a) * b).rad.max() <= 1e-307


def test_norms_and_softplus_hold_what_a_longer_arithmetic_gives():
    mpmath = pytest.importorskip("mpmath")
    x = np.array([3.0, -40.0, 1e-9, 700.0, -1e4])
    with mpmath.workdps(60):
        norm = mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(t)) ** 2 for t in x))
        soft = [mpmath.log1p(mpmath.exp(mpmath.mpf(float(t)))) for t in x]
        assert Ball(x).norm().lower <= norm <= Ball(x).norm().upper
        found = Ball(x).softplus()
        assert all(low <= t <= high for low, t, high in zip(found.lower, soft, found.upper, strict=True))


def test_shares_and_logarithms_of_sums_hold_what_a_longer_arithmetic_gives():
    """At the midpoints and at every corner of the balls that rows are given in."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(2)
    rows = np.vstack([rng.normal(size=(4, 3)) * 30.0, [[0.0, 0.0, 0.0], [700.0, -700.0, 699.0]]])
    for radius in (0.0, 1e-3, 0.3, 2.0):
        balls = Ball(rows, np.full(rows.shape, radius))
        sums, shares, logistic = balls.log_sum_exp(), balls.softmax(), balls.logistic()
        for i, corner in itertools.product(range(len(rows)), itertools.product((-1, 0, 1), repeat=3)):
            with mpmath.workdps(60):
                x = [
                    mpmath.mpf(float(t)) + c * mpmath.mpf(radius)
                    for t, c in zip(rows[i], corner, strict=True)
                ]
                powers = [mpmath.exp(t) for t in x]
                total = mpmath.fsum(powers)
                assert sums.lower[i] <= mpmath.log(total) <= sums.upper[i]
                for j, power in enumerate(powers):
                    assert shares.lower[i, j] <= power / total <= shares.upper[i, j]
                    assert logistic.lower[i, j] <= power / (1 + power) <= logistic.upper[i, j]
        # And they are no wider than the rules say: e^t - 1 of twice the largest move of a row, by 2t.
        assert (sums.rad <= radius + 1e-12).all()
        if 2 * radius <= 1:
            assert (shares.rad <= shares.mid * (4.01 * radius + 1e-11) + 1e-300).all()
        assert (logistic.rad <= 0.251 * radius + 1e-12).all()
