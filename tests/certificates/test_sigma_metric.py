"""The metric of the Sigma-SVM: the rest of a solve is bounded by each of its bounds, by hand."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from polyopt import SigmaSVM
from polyopt.linalg.rounding import Ball
from polyopt.margin.geometry import SigmaLinearGeometry, SigmaMetric, inverse, norms_in_metric, one_minus


@pytest.mark.parametrize("D", [0.3, 1.0])
@pytest.mark.parametrize(("off", "bound"), [(0.0, np.inf), (1e-3, np.inf), (1e-3, 1e-9), (1e-3, 1e9)])
def test_price_is_square_in_inverse_metric(D, off, bound):
    """u'A⁻¹u = v'Av + 2 ρ'v + ρ'A⁻¹ρ for ρ = u − Av; the last is bounded by the least of three numbers."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(9, 3)) * np.array([1.0, 30.0, 0.02])
    A = (1.0 - D) * np.eye(3) + D * Z.T @ Z / 9
    metric, u = SigmaMetric(A, D, 50, None), rng.normal(size=3)
    v = metric.solve(u) * (1.0 + off)
    exact, energy, rho = u @ np.linalg.solve(A, u), v @ A @ v, u - A @ v
    found = metric.dual_norm_sq(v, Ball(energy), Ball(u - (A - (1.0 - D) * np.eye(3)) @ v), bound)
    assert found.mid == pytest.approx(energy + 2.0 * rho @ v, rel=1e-9)
    scale = 1.0 / np.sqrt(A.diagonal())
    least = np.linalg.eigvalsh(A * scale * scale[:, None])[0]
    choices = [bound, ((rho * scale) ** 2).sum() / least] + ([rho @ rho / (1.0 - D)] if D < 1.0 else [])
    if off:
        assert found.rad == pytest.approx(min(choices), rel=1e-2)
    if bound != 1e-9:
        assert found.lower - 1e-12 * exact <= exact <= found.upper + 1e-12 * exact


@pytest.mark.parametrize("mid", [3.0, 1e-200, 7e150])
@pytest.mark.parametrize("share", [0.0, 1e-12, 1e-9, 0.1])
def test_inverse_holds_both_ends(mid, share):
    """A reciprocal holds those of all numbers of its ball, and little more."""
    found = inverse(Ball(mid, share * mid))
    for sign in (-1, 0, 1):
        x = Fraction(mid) + sign * Fraction(share * mid)
        assert Fraction(float(found.lower)) <= 1 / x <= Fraction(float(found.upper))
    assert found.rad <= (1.0 / (1.0 - share) - 1.0) / mid * (1.0 + 1e-8) + 1e-15 / mid


def test_lengths_are_bounded_by_norm_and_weight():
    """A sample is as long as the lesser of what its norm and its weight allow."""
    own, weights = np.array([2.0, 2.0, 0.5]), np.array([1.0, 4.0, 1.0])
    assert norms_in_metric(own, 0.75, weights, 12.0) == pytest.approx([4.0, 2.0, 1.0])
    assert norms_in_metric(own, 0.0, weights, 12.0) == pytest.approx(own)
    assert norms_in_metric(own, 1.0, weights, 12.0) == pytest.approx(np.sqrt([12.0, 3.0, 12.0]))
    assert (norms_in_metric(own, 0.0, weights, 12.0) > own).all()
    assert one_minus(0.25).mid == 0.75


@pytest.mark.parametrize("D", [1.0, 0.6])
def test_price_is_finite_on_degenerate_samples(D):
    """At D = 1 the metric has no inverse there, and the rest is bounded by the weights alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 4)) + 3.0
    s, beta = rng.uniform(0.5, 2.0, 12), rng.normal(size=12)
    beta -= beta.mean()
    centred = X - s @ X / s.sum()
    A = (1.0 - D) * np.eye(4) + D * (centred * s[:, None]).T @ centred / s.sum()
    pulled = centred.T @ beta
    v = np.linalg.pinv(A, rcond=1e-10) @ pulled
    rest = beta - D * s * (centred @ v) / s.sum()
    left = s.sum() * (rest**2 / s).sum() if D == 1.0 else 0.0
    assert SigmaLinearGeometry(X, D, s).dual_norm_sq(beta).upper == pytest.approx(pulled @ v + left, rel=1e-6)


@pytest.mark.parametrize("D", [0.0, 1e-12, 0.5, 1.0])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_extreme_weights_raise_no_warning(kernel, D):
    """With weights from 1e-8 to 1e8 no division leaves the range of doubles."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 2)), np.repeat([-1, 1], 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        machine = SigmaSVM(kernel=kernel, D=D).fit(X, y, sample_weight=10.0 ** rng.choice([-8, 8], 16))
        assert np.isfinite(machine.certificate().primal_value)
