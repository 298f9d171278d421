"""The metric of the Sigma-SVM: what is left of a solve is bounded by each of its bounds, by hand."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from polyopt import SigmaSVM
from polyopt.certificates.rounding import Ball
from polyopt.certificates.sigma_geometry import SigmaLinearGeometry
from polyopt.certificates.sigma_metric import SigmaMetric, inverse, kept, sizes_in_metric

EPS = np.finfo(float).eps


def drawn(D, n=50, centre=None, size=1.0):
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(9, 3)) * np.array([1.0, 30.0, 0.02])
    return rng, SigmaMetric(size * ((1.0 - D) * np.eye(3) + D * Z.T @ Z / 9), D, n, centre)


@pytest.mark.parametrize("centre", [None, np.array([0.5, -60.0, 0.1])])
@pytest.mark.parametrize("n", [50, 10**11, 10**14])
def test_the_least_eigenvalue_is_counted_less_what_rounding_may_have_made_of_it(n, centre):
    rng, space = drawn(0.8, n, centre)
    rho = Ball(rng.normal(size=3), np.full(3, 0.01))
    T = 1.0 / np.sqrt(np.diag(space.A))
    error = 3 * (n + 24 + 40) * EPS
    if centre is not None:
        error *= 1.0 + np.abs(centre * T).max() ** 2  # whose square was taken off
    least = np.linalg.eigvalsh(T[:, None] * space.A * T)[0] - error
    most = ((np.abs(rho.mid) + 0.01) * T) ** 2
    found = space._by_least_eigenvalue(rho)
    if least <= 0.0:
        assert found == np.inf
    else:
        assert found == pytest.approx(most.sum() / least, rel=1e-2)
        assert found >= (rho.mid * T) ** 2 @ np.ones(3) / least


def test_a_feature_of_zeros_adds_nothing_and_may_have_no_rest():
    space = SigmaMetric(np.diag([0.0, 4.0]), 1.0, 10, None)
    assert space._by_least_eigenvalue(Ball([0.0, 6.0])) == pytest.approx(9.0)
    assert space._by_least_eigenvalue(Ball([1e-200, 6.0])) == np.inf
    assert space.unit == 2.0
    assert space.solve(np.array([5.0, 6.0])) == pytest.approx([0.0, 1.5])


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_a_solve_solves(size):
    rng, space = drawn(0.7, size=size)
    u = rng.normal(size=3)
    assert space.A @ space.solve(u) == pytest.approx(u, rel=1e-9)
    assert space.unit == pytest.approx(np.sqrt(np.diag(space.A).max()))


@pytest.mark.parametrize("D", [0.3, 1.0])
def test_what_is_priced_is_the_square_in_the_inverse_metric_and_no_less(D):
    """u'A⁻¹u = v'Av + 2 ρ'v + ρ'A⁻¹ρ for ρ = u − Av; the last is bounded by the least of three numbers."""
    rng, space = drawn(D)
    u = rng.normal(size=3)
    exact = u @ np.linalg.solve(space.A, u)
    spread = space.A - (1.0 - D) * np.eye(3)
    for off, bound in ((0.0, np.inf), (1e-3, np.inf), (1e-3, 1e-9), (1e-3, 1e9)):
        v = space.solve(u) * (1.0 + off)
        energy = v @ space.A @ v
        rho = u - space.A @ v
        found = space.price(v, Ball(energy), Ball(u - spread @ v), bound)
        assert found.mid == pytest.approx(energy + 2.0 * rho @ v, rel=1e-9)
        choices = [bound] + ([rho @ rho / (1.0 - D)] if D < 1.0 else [])
        if off:
            if min(choices) > 1e-12 * energy:
                choices.append(space._by_least_eigenvalue(Ball(rho)))
            assert found.rad == pytest.approx(min(choices), rel=1e-2)
        if bound != 1e-9:
            assert found.lower - 1e-12 * exact <= exact <= found.upper + 1e-12 * exact


@pytest.mark.parametrize("mid", [3.0, 1e-200, 7e150])
@pytest.mark.parametrize("share", [0.0, 1e-9, 0.1])
def test_an_inverse_holds_those_of_both_ends_and_little_more(mid, share):
    found = inverse(Ball(mid, share * mid))
    for x in (Fraction(mid) * (1 - Fraction(share)), Fraction(mid), Fraction(mid) * (1 + Fraction(share))):
        assert Fraction(float(found.lower)) <= 1 / x <= Fraction(float(found.upper))
    assert found.rad <= (1.0 / (1.0 - share) - 1.0) / mid * (1.0 + 1e-8) + 1e-15 / mid


def test_a_sample_is_as_long_as_the_lesser_of_what_its_norm_and_its_weight_allow():
    own, weights = np.array([2.0, 2.0, 0.5]), np.array([1.0, 4.0, 1.0])
    assert sizes_in_metric(own, 0.75, weights, 12.0) == pytest.approx([4.0, 2.0, 1.0])
    assert sizes_in_metric(own, 0.0, weights, 12.0) == pytest.approx(own)
    assert sizes_in_metric(own, 1.0, weights, 12.0) == pytest.approx(np.sqrt([12.0, 3.0, 12.0]))
    assert (sizes_in_metric(own, 0.0, weights, 12.0) > own).all()
    assert kept(0.25).mid == 0.75


def test_the_price_of_samples_in_fewer_directions_than_features_is_finite_by_their_spread():
    """At D = 1 the metric has no inverse there, and what is left is bounded by the weights alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 4)) + 3.0
    s, beta = rng.uniform(0.5, 2.0, 12), rng.normal(size=12)
    beta -= beta.mean()
    centred = X - s @ X / s.sum()
    for D in (1.0, 0.6):
        A = (1.0 - D) * np.eye(4) + D * (centred * s[:, None]).T @ centred / s.sum()
        pulled = centred.T @ beta
        v = np.linalg.pinv(A, rcond=1e-10) @ pulled
        rest = beta - D * s * (centred @ v) / s.sum()
        left = s.sum() * (rest**2 / s).sum() if D == 1.0 else 0.0
        found = SigmaLinearGeometry(X, D, s).price(beta)
        assert found.upper == pytest.approx(pulled @ v + left, rel=1e-6)


@pytest.mark.parametrize("D", [0.0, 1e-12, 0.5, 1.0])
def test_weights_of_any_size_are_fitted_without_a_warning(D):
    """Shares from 0 to 1 with weights from 1e-8 to 1e8: no division leaves the range of doubles."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 2)), np.repeat([-1, 1], 8)
    weights = 10.0 ** rng.choice([-8, 8], 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        for kernel in ("linear", "poly"):
            SigmaSVM(kernel=kernel, D=D).fit(X, y, sample_weight=weights).certificate()
