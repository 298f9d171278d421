"""The metric of the Sigma-SVM: what is left of a solve is bounded by each of its bounds, by hand."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from polyopt import SigmaSVM
from polyopt.linalg.rounding import Ball
from polyopt.margin.geometry import SigmaLinearGeometry, SigmaMetric, inverse, norms_in_metric, one_minus


def drawn(D, n=50, centre=None, size=1.0):
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(9, 3)) * np.array([1.0, 30.0, 0.02])
    return rng, SigmaMetric(size * ((1.0 - D) * np.eye(3) + D * Z.T @ Z / 9), D, n, centre)


@pytest.mark.parametrize("D", [0.3, 1.0])
def test_the_price_is_the_square_in_the_inverse_metric(D):
    """u'A⁻¹u = v'Av + 2 ρ'v + ρ'A⁻¹ρ for ρ = u − Av; the last is bounded by the least of three numbers."""
    rng, space = drawn(D)
    u = rng.normal(size=3)
    exact = u @ np.linalg.solve(space.A, u)
    spread = space.A - (1.0 - D) * np.eye(3)
    for off, bound in ((0.0, np.inf), (1e-3, np.inf), (1e-3, 1e-9), (1e-3, 1e9)):
        v = space.solve(u) * (1.0 + off)
        energy = v @ space.A @ v
        rho = u - space.A @ v
        found = space.dual_norm_sq(v, Ball(energy), Ball(u - spread @ v), bound)
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


def test_sizes_are_bounded_by_norm_and_by_weight():
    """A sample is as long as the lesser of what its norm and its weight allow."""
    own, weights = np.array([2.0, 2.0, 0.5]), np.array([1.0, 4.0, 1.0])
    assert norms_in_metric(own, 0.75, weights, 12.0) == pytest.approx([4.0, 2.0, 1.0])
    assert norms_in_metric(own, 0.0, weights, 12.0) == pytest.approx(own)
    assert norms_in_metric(own, 1.0, weights, 12.0) == pytest.approx(np.sqrt([12.0, 3.0, 12.0]))
    assert (norms_in_metric(own, 0.0, weights, 12.0) > own).all()
    assert one_minus(0.25).mid == 0.75


def test_the_price_at_d_one_is_finite_by_the_spread():
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
        found = SigmaLinearGeometry(X, D, s).dual_norm_sq(beta)
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
