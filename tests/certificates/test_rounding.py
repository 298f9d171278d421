"""Balls hold the true numbers: every operation against exact rational arithmetic, or mpmath's."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from polyopt.linalg.rounding import (
    UNIT,
    Ball,
    careful_transposed_product,
    gamma,
    product,
    strongly_convex_bound,
    transposed_product,
)

FLOATS = st.floats(-1e12, 1e12, allow_subnormal=True)
U = Fraction(UNIT)


def exact(values):
    return [Fraction(float(x)) for x in np.ravel(values)]


def holds(ball, truth):
    ends = zip(exact(ball.lower), truth, exact(ball.upper), strict=True)
    return all(low <= t <= high for low, t, high in ends)


def covers(found, wanted):
    """No radius is below what the theory of rounding asks for, and none is above it by much."""
    for rad, least in zip(exact(found.rad), np.ravel(wanted), strict=True):
        assert least <= rad <= least * (1 + Fraction(1, 10**9)) + Fraction(2.0**-1000)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=12))
def test_vector_operations_hold_rationals(pairs):
    """Sums, products, signs, sizes, largest and inner products hold the rational ones."""
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    A, B = exact(a), exact(b)
    products = [x * y for x, y in zip(A, B, strict=True)]
    found, dot = Ball(a) * b, sum(products)
    for ball, truth in (
        (Ball(a) + b, [x + y for x, y in zip(A, B, strict=True)]),
        (Ball(a) - Ball(b), [x - y for x, y in zip(A, B, strict=True)]),
        (2.0 - Ball(a), [2 - x for x in A]),
        (1.0 - found, [1 - x for x in products]),
        (Ball(a).sum(), [sum(A)]),
        (Ball(a).dot(b), [dot]),
        (found.sum() * 0.5, [dot / 2]),
        (Ball(a).square_sum(), [sum(x * x for x in A)]),
        ((Ball(a) - 1.0).positive(), [max(x - 1, 0) for x in A]),
        (-found, [-x for x in products]),
        (found.absolute(), [abs(x) for x in products]),
        (found.max(), [max(products)]),
    ):
        assert holds(ball, truth)
    for size, mid, rad in zip(exact(found.size), exact(found.mid), exact(found.rad), strict=True):
        assert size >= abs(mid) + rad


def test_matrix_operations_hold_rationals():
    """Sums and maxima along an axis, the transpose and rows with signs hold the rational ones."""
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
    products, found = [x * y for x, y in zip(exact(a), exact(b), strict=True)], Ball(a) * b
    assert holds(found.max(axis=0), [max(products[k::3]) for k in range(3)])
    assert holds(found.sum(axis=1), [sum(products[3 * k : 3 * k + 3]) for k in range(4)])
    assert holds(found.transposed()[1], products[1::3])
    signs = [1, -1, 0, -1]
    truth = [signs[i // 3] * x for i, x in enumerate(products)]
    assert holds(found.signed(np.array(signs, dtype=float)[:, None]), truth)
    assert not found.signed(0.0).rad.any()


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_matrix_products_hold_rationals(wrap, offset):
    """A product with a vector, or with a ball around it, and the transposed one hold the rational ones."""
    rng = np.random.default_rng(0)
    X, v, u = rng.standard_normal((30, 7)) + offset, rng.standard_normal(7), rng.standard_normal((30, 2))
    rows = np.array(exact(X)).reshape(30, 7)
    truth = rows @ np.array(exact(v))
    assert holds(product(wrap(X), v), truth)
    assert holds(product(wrap(X), Ball(v + 1e-9, 2e-9)), truth)
    assert holds(transposed_product(wrap(X), u), (rows.T @ np.array(exact(u)).reshape(30, 2)).ravel())


def test_sum_is_no_wider_than_needed():
    """The radius of a sum is γ_n of its sizes, and a number 1e-12 away is outside."""
    x = np.random.default_rng(1).standard_normal(1000)
    assert Ball(x).sum().rad <= 1.01 * gamma(1000) * np.abs(x).sum()
    assert not holds(Ball(x) + 1.0, [Fraction(float(t)) + 1 + Fraction(1, 10**12) for t in x])


@pytest.mark.parametrize("size", [1e-160, 3e-162, 1e-200])
def test_underflowing_products_are_held(size):
    """A product under the smallest normal number keeps few digits or none, and its ball is wider by that."""
    rng = np.random.default_rng(0)
    a, b = size * rng.standard_normal(9), size * rng.standard_normal(9)
    products = [x * y for x, y in zip(exact(a), exact(b), strict=True)]
    assert holds(Ball(a) * b, products)
    assert (Ball(a) * b).rad.max() <= 1e-307
    assert holds(Ball(a).square_sum(), [sum(x * x for x in exact(a))])
    for dot in (Ball(a).dot(b), product(a[None], b), transposed_product(a[:, None], b)):
        assert holds(dot, [sum(products)])


def test_norm_and_softplus_hold_mpmath():
    """Norms and softplus hold what sixty digits give."""
    x = np.array([3.0, -40.0, 1e-9, 700.0, -1e4])
    with mpmath.workdps(60):
        norm = mpmath.sqrt(mpmath.fsum(mpmath.mpf(float(t)) ** 2 for t in x))
        soft = [mpmath.log1p(mpmath.exp(mpmath.mpf(float(t)))) for t in x]
        assert Ball(x).norm().lower <= norm <= Ball(x).norm().upper
        found = Ball(x).softplus()
        assert all(low <= t <= high for low, t, high in zip(found.lower, soft, found.upper, strict=True))


@pytest.mark.parametrize("radius", [0.0, 1e-3, 0.3, 2.0])
def test_softmax_and_logsumexp_hold_mpmath(radius):
    """They hold the values at the midpoints and at every corner of the balls, and are little wider."""
    rng = np.random.default_rng(2)
    rows = np.vstack([rng.normal(size=(4, 3)) * 30.0, [[0.0, 0.0, 0.0], [700.0, -700.0, 699.0]]])
    balls = Ball(rows, np.full(rows.shape, radius))
    sums, shares, logistic = balls.log_sum_exp(), balls.softmax(), balls.logistic()
    for i, corner in itertools.product(range(len(rows)), itertools.product((-1, 0, 1), repeat=3)):
        with mpmath.workdps(60):
            x = [
                mpmath.mpf(t) + c * mpmath.mpf(radius) for t, c in zip(rows[i].tolist(), corner, strict=True)
            ]
            powers = [mpmath.exp(t) for t in x]
            total = mpmath.fsum(powers)
            assert sums.lower[i] <= mpmath.log(total) <= sums.upper[i]
            for j, power in enumerate(powers):
                assert shares.lower[i, j] <= power / total <= shares.upper[i, j]
                assert logistic.lower[i, j] <= power / (1 + power) <= logistic.upper[i, j]
    # They are no wider than the rules say: e^t - 1 of twice the largest move of a row, by 2t.
    assert (sums.rad <= radius + 1e-12).all()
    if 2 * radius <= 1:
        assert (shares.rad <= shares.mid * (4.01 * radius + 1e-11) + 1e-300).all()
    assert (logistic.rad <= 0.251 * radius + 1e-12).all()


def test_radii_follow_the_theory():
    """An operation is off by 2^-53 of its result, k in a row by γ_k of the sizes, and by given radii."""
    rng = np.random.default_rng(3)
    a, b = (Ball(rng.standard_normal(7), 1e-9 * rng.random(7)) for _ in range(2))
    (p, r), (q, s) = ((exact(ball.mid), exact(ball.rad)) for ball in (a, b))
    A, B = [abs(x) for x in p], [abs(x) for x in q]

    def off(k):
        return k * U / (1 - k * U)

    moved = [x * t + r_ * (y + t) for x, y, r_, t in zip(A, B, r, s, strict=True)]
    for found in (a + b, a - b):
        covers(found, [U * abs(x) + t + v for x, t, v in zip(exact(found.mid), r, s, strict=True)])
    covers(a * b, [U * abs(x) + t for x, t in zip(exact((a * b).mid), moved, strict=True)])
    covers(a.sum(), [off(7) * sum(A) + sum(r)])
    covers(a.dot(b), [off(7) * sum(x * y for x, y in zip(A, B, strict=True)) + sum(moved)])
    X = rng.standard_normal((520, 3))
    sizes = np.array(exact(np.abs(X))).reshape(520, 3)
    covers(product(X, a[:3]), sizes @ np.array([off(5) * y + t for y, t in zip(A[:3], r[:3], strict=True)]))
    c = Ball(rng.standard_normal(520), 1e-9 * rng.random(520))
    # 512 terms of a block, and the sums of two blocks.
    terms = np.array([off(515) * abs(x) + t for x, t in zip(exact(c.mid), exact(c.rad), strict=True)])
    covers(transposed_product(X, c), sizes.T @ terms)
    covers(a.logistic(), [t / 4 + 8 * U * x for t, x in zip(r, exact(a.logistic().mid), strict=True)])
    covers(a.softplus(), [t + 8 * U * x for t, x in zip(r, exact(a.softplus().mid), strict=True)])


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-3, 0.3, 2.0])
def test_radii_of_logarithms_shares_norms(scale):
    """They are those of elementary functions, of sums of k terms, and of what the entries may move."""
    rng, elementary, k = np.random.default_rng(5), 8 * UNIT, 3
    x = Ball(rng.normal(size=(5, k)) * 4.0, scale * rng.random((5, k)))
    most, top = x.rad.max(axis=1), x.mid.max(axis=1)
    sums = np.log(np.exp(x.mid - top[:, None]).sum(axis=1))
    own = gamma(2 * k) + 2 * elementary * (1 + sums) + UNIT * np.abs(top + sums)
    covers(x.log_sum_exp(), exact((most + own) * (1 - 1e-14)))
    shares, moved = x.softmax(), 2.0 * np.broadcast_to(most[:, None], x.mid.shape)
    relative = 2 * moved + gamma(2 * k) + 4 * elementary + UNIT * (top[:, None] - x.mid)
    covers(shares, exact(np.where(moved <= 1.0, shares.mid * relative * (1 - 1e-14), 1.0)))
    norms, whole = x.norm(axis=1), x.norm()
    covers(norms, exact((gamma(k + 2) * norms.mid + np.sqrt((x.rad**2).sum(axis=1))) * (1 - 1e-14)))
    covers(whole, exact((gamma(5 * k + 2) * whole.mid + np.sqrt((x.rad**2).sum())) * (1 - 1e-14)))


def test_softmax_of_wide_ball_is_anything():
    """A share of entries that may move by more than a half is between 0 and 1."""
    edge = Ball(np.zeros((2, 2)), np.array([[0.5, 0.0], [0.501, 0.0]])).softmax()
    assert edge.rad[0] == pytest.approx(1.0)
    assert (edge.rad[1] == 1.0).all()


def test_positive_part_keeps_its_range():
    """A number that may be positive has the radius of what it may be."""
    found = Ball([-2.0, -0.25, 0.0, 3.0], [1.0, 1.0, 0.5, 0.5]).positive()
    assert found.mid.tolist() == [0.0, 0.0, 0.0, 3.0]
    assert found.rad == pytest.approx([0.0, 0.75, 0.5, 0.5], abs=1e-15)
    assert found.rad[0] == 0.0


@pytest.mark.parametrize("k", [1, 1000, 2**40, 2**49])
def test_gamma_bounds_k_roundings(k):
    """(1 + u)^k − 1 and 1 − (1 − u)^k are at most k u / (1 − k u), and no less by far while k u is small."""
    assert gamma(k) == pytest.approx(float(k * U / (1 - k * U)), rel=1e-15)
    assert np.expm1(k * np.log1p(UNIT)) <= gamma(k) * (1 + 1e-15)
    assert -np.expm1(k * np.log1p(-UNIT)) <= gamma(k) * (1 + 1e-15)


def test_norm_along_axes():
    """A norm is off by the norm of the radii, along each axis."""
    found = Ball([3.0, -4.0], [6e-3, 8e-3]).norm()
    assert (found.mid, found.rad) == (5.0, pytest.approx(1e-2, rel=1e-9))
    assert Ball([[3.0, 4.0], [0.0, 2.0]]).norm(axis=1).mid.tolist() == [5.0, 2.0]
    assert Ball([[3.0, 4.0], [0.0, 2.0]]).norm(axis=0).mid == pytest.approx([3.0, np.sqrt(20.0)])


def test_strongly_convex_bound_of_parabola():
    """Of f = v + ρ/2 ‖x‖² the least value is f − ‖∇f‖²/(2ρ) from anywhere; it is never taken below 0."""
    x, rho = np.array([1.0, -2.0, 0.5]), 4.0
    found = strongly_convex_bound(Ball(3.0 + 0.5 * rho * (x @ x)), Ball(rho * x), rho)
    assert found.mid == pytest.approx(3.0, rel=1e-14)
    assert found.lower <= 3.0
    assert strongly_convex_bound(Ball(1.0), Ball(rho * x), rho).upper <= 1e-300


@pytest.mark.parametrize("left", [0.0, 2.0**-40])
@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_radius_of_careful_sum(n, left):
    """A careful sum is off by a rounding of itself and the square of a plain one."""
    rng = np.random.default_rng(n)
    X, m = rng.standard_normal((n, 3)), rng.standard_normal(n)
    m[1:2] = 0.0  # such terms are left out
    X, m = np.vstack([X, X]), np.r_[m, -m]  # all cancels
    m[:n:2] *= 1.0 + left
    found = careful_transposed_product(X, m[:, None])
    assert holds(found, np.array(exact(X)).reshape(-1, 3).T @ np.array(exact(m)))
    size = np.abs(X).T @ np.abs(m)
    own = UNIT * np.abs(found.mid[:, 0]) + 4.0 * gamma(np.count_nonzero(m) + 3) ** 2 * size
    assert (found.rad[:, 0] >= own).all()
    assert (found.rad[:, 0] <= 1.02 * own + 1e-290).all()


@pytest.mark.parametrize(("left", "right"), [(1e305, 1e-305), (1e-305, 1e305), (2.0**481, 1.0)])
def test_overflowing_halves_are_summed_plainly(left, right):
    """A sum is careful only if the halves of its terms cannot overflow."""
    rng = np.random.default_rng(0)
    X, M = left * rng.random((6, 2)), right * (rng.random((6, 2)) - 0.5)
    found, plain = careful_transposed_product(X, M), transposed_product(X, M)
    assert np.isfinite(found.upper).all()
    assert (found.mid == plain.mid).all()
    assert (found.rad == plain.rad).all()
    inside = X / left * 2.0**479, M / right  # a little smaller
    assert (careful_transposed_product(*inside).rad < 0.5 * transposed_product(*inside).rad).all()


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_unknown_entry_moves_all_shares(at, sign):
    """The radius of one entry is one of all shares of its row."""
    mid, rad = np.array([[0.5, -0.25, 0.0]]), 0.25 * (np.arange(3) == at)[None]
    powers = np.exp(mid + sign * rad)
    moved, found = powers / powers.sum(), Ball(mid, rad).softmax()
    assert (found.lower <= moved).all()
    assert (moved <= found.upper).all()
    assert (found.rad <= 1.01 * found.mid).all()
