"""Parts of the sparse machines' certificates: no ball is too small, and none is larger than rounding asks."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from formulations.l0_data import column_sizes
from polyopt.linalg.rounding import Ball, gamma
from polyopt.sparse.certificate import loss, outputs, rate_balls


def exact(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


def test_radius_of_rates():
    """Rates are off by the roundings of their sums and by what is given."""
    u = Ball([1.0, -2.0, 0.5], [1e-9, 0.0, 2e-9])
    sizes, errors = np.array([3.0, 0.0, 1e-3]), np.array([0.0, 1e-6, 1e-7])
    rates = np.array([7.0, 8.0, 9.0])
    found = rate_balls(SimpleNamespace(rates=lambda _: rates, column_sizes=(sizes, errors)), u)
    assert found.mid.tolist() == [7.0, 8.0, 9.0]
    total, carried = 3.5, 3e-9
    least = sizes * (gamma(7) * total + carried) + errors * (total + carried)
    assert (found.rad >= least).all()
    assert found.rad == pytest.approx(least, rel=1e-9, abs=1e-300)
    zero = np.zeros(1)
    underflow = rate_balls(SimpleNamespace(rates=lambda _: zero, column_sizes=(zero, zero)), u)
    assert 3 * 2.0**-1074 <= underflow.rad[0] <= 1e-300


@pytest.mark.parametrize("shape", [(), (4,), (5, 4), (5, 1)])
def test_outputs_enclose_kernels_within_the_entry_error(shape):
    """Outputs hold those of every kernel within the error of its entries."""
    rng = np.random.default_rng(1)
    K, c = rng.normal(size=(5, 4)), np.array([0.5, 0.0, -2.0, 1.0])
    error = 1e-3 * rng.random(shape)
    found, most = outputs(K, c, 0.25, error), np.broadcast_to(error, K.shape)
    plain = outputs(K, c, 0.25)
    assert plain.mid == pytest.approx(K @ c + 0.25)
    assert (plain.rad <= 1e-14).all()
    for sign in (-1.0, 1.0):
        for i, row in enumerate(K + sign * most * np.sign(c)):
            meant = sum(x * t for x, t in zip(exact(row), exact(c), strict=True)) + Fraction(1, 4)
            slack = Fraction(1e-15)  # rounding of the row itself
            assert Fraction(float(found.lower[i])) - slack <= meant <= Fraction(float(found.upper[i])) + slack
    assert found.rad == pytest.approx(most @ np.abs(c), rel=1e-9)
    assert (found.rad >= most @ np.abs(c)).all()
    # Without coefficients the outputs are the intercept, exactly.
    none = outputs(K, np.zeros(4), 0.1, error)
    assert (none.mid == 0.1).all()
    assert not none.rad.any()


def test_a_loss_of_zero_is_exact_and_one_that_may_be_more_is_not():
    y, costs = np.array([1.0, -1.0, 1.0]), np.array([1.0, 2.0, 4.0])
    beyond = loss(Ball([1.0, -3.0, 2.0]), y, costs)
    assert (beyond.mid, beyond.rad) == (0.0, 0.0)
    assert loss(Ball([1.0, -3.0, 2.0], [0.0, 0.0, 0.5]), y, costs).upper <= 1e-290
    assert loss(Ball([1.0, -3.0, 1.0], [0.0, 0.0, 0.5]), y, costs).upper == pytest.approx(2.0)
    some = loss(Ball([0.5, 0.5, 2.0]), y, costs)
    assert some.mid == pytest.approx(0.5 + 2.0 * 1.5)
    assert some.rad <= 1e-14


@pytest.mark.parametrize(
    "error", [0.0, 0.25, np.linspace(0.0, 1.0, 3), np.linspace(0.0, 1.0, 12).reshape(4, 3)]
)
def test_sizes_of_columns_are_of_their_largest_entries_of_either_sign(error):
    K = np.array([[1.0, -1.0, 0.5], [2.0, -7.0, -3.0], [3.0, -2.0, 2.0], [-0.5, -0.1, 0.0]])
    sizes, errors = column_sizes(K, error)
    assert sizes.tolist() == [3.0, 7.0, 3.0]
    assert errors == pytest.approx(np.broadcast_to(error, K.shape).max(axis=0))
    assert (
        column_sizes(np.abs(K), error)[0].tolist()
        == column_sizes(-np.abs(K), error)[0].tolist()
        == [3.0, 7.0, 3.0]
    )
