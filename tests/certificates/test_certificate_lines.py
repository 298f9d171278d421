"""Why single lines of certificates and claims are as they are."""

from fractions import Fraction

import numpy as np
import pytest

from polyopt.certificates.certificate import Claim, conclude_infeasible, residual
from polyopt.certificates.points import balancing
from polyopt.certificates.tally import Tally, merge
from polyopt.linalg.kernels import MatrixGram
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import stationarity
from polyopt.margin.geometry import KernelGeometry, residual_bound_by_samples


def test_bound_by_samples_is_rounded_up():
    """The product of a square and a total is an upper bound, and tight."""
    for square, total in ((1.0, 1.0), (0.1, 3.0), (1e200, 7.0)):
        found = residual_bound_by_samples(Ball(square), Ball(total))
        assert Fraction(found) >= Fraction(square) * Fraction(total)
        assert found <= square * total * (1.0 + 1e-9)


@pytest.mark.parametrize("values", [
    [1.0, 3.0, 3.0, -2.0, 0.5], [-1.0, -2.0, -0.0, -3.0, -4.0], [1.0, np.nan, 9.0, np.nan, 2.0],
    [1.0, 9.0, 3.0, np.nan, 2.0],
])  # fmt: skip
def test_tally_of_parts_is_the_whole(values):
    """Parts of the samples, merged, have the residual of all, ties and NaN included."""
    whole = np.array(values)
    for ends in ([5], [2, 5], [1, 2, 3, 4, 5]):
        tallies, begin = [], 0
        for end in ends:
            part = Tally(end - begin, sums={"s": float(end)}, least={"t": 7.0 - end})
            part.note("sign", "alpha", whole[begin:end])
            tallies.append(part)
            begin = end
        found = merge(tallies)
        assert found.n == 5
        assert found.sums == {"s": float(sum(ends))}
        assert found.least == {"t": 2.0}
        for scale in (2.0, 0.0):
            one, other = found.residual("sign", "alpha", scale), residual("sign", "alpha", whole, scale)
            assert str(one) == str(other)  # NaN is not equal to itself


def test_gradient_is_relative_to_its_terms():
    """A gradient is relative to the largest of itself, the pull, the terms, and the unit at its energy."""
    for gradient, pulled, terms, unit, value, scale in (
        ([3.0, 0.0], [1.0, 0.0], 1.0, 1.0, 1.0, 3.0), ([0.0, 1.0], [0.0, -4.0], 1.0, 1.0, 1.0, 4.0),
        ([0.0], [1e-9], 5.0, 0.0, 1.0, 5e-8), ([0.0], [1e-9], 0.0, 3.0, 8.0, 1.2e-3),
    ):  # fmt: skip
        (found,) = stationarity(np.array(gradient), np.array(pulled), terms, unit, value)
        most = np.abs(np.subtract(gradient, pulled)).max()
        assert (found.value, found.relative) == pytest.approx((most, most / scale))
    assert stationarity(np.zeros(0), np.zeros(0), 1.0, 1.0, 1.0) == []


SUMS = (0.0, 1e-310, 2e-310, 0.1, 2.0, 3.0, 1e300)


@pytest.mark.parametrize("rad", [0.0, 1e-13])
@pytest.mark.parametrize(("own", "other"), [(own, other) for own in SUMS[1:] for other in SUMS])
def test_balancing_encloses_the_factor(own, other, rad):
    """The factor of the heavier class holds those of all sums within their radii."""
    found, _ = balancing(Ball(own, rad * own), Ball(other, rad * other))
    for turn in (-1, 0, 1):
        off = turn * Fraction(rad) / 2
        factor = min(Fraction(other) * (1 - off) / (Fraction(own) * (1 + off)), Fraction(1))
        assert abs(factor - Fraction(float(found.mid))) <= Fraction(float(found.rad))
    assert found.rad <= 3e-13 or own < 1e-300


def test_negative_square_is_zero():
    """A square that rounding makes negative is 0 with an error of its size."""
    energy = KernelGeometry(MatrixGram(np.array([[-1e-13, 0.0], [0.0, -1e-13]])), 1e-12).energy(np.ones(2))
    assert energy.mid == 0.0
    assert 2e-13 <= energy.rad <= 1e-11


def test_infeasible_has_no_evidence():
    """An infeasible program has no optimum, no rounding and no evidence."""
    found = conclude_infeasible("a program", 3.0, [residual("sign", "alpha", np.array([0.5]), 1.0)], 1e-6)
    assert (found.claim, found.primal_value, found.dual_value) == (Claim.INFEASIBLE, 3.0, np.inf)
    assert (found.rounding, found.stated, found.evidence, found.note) == (0.0, None, (), "")
    assert (found.sense, found.scope, found.tol) == ("minimise", "the program", 1e-6)
