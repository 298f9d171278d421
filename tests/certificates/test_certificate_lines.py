"""Why single lines of certificates and claims are as they are."""

from fractions import Fraction

import pytest

from polyopt.certificates.claims.exact import to_digits
from polyopt.certificates.claims.repair import shares_of
from polyopt.certificates.rounding import Ball
from polyopt.certificates.sigma_metric import left_by_spread


@pytest.mark.parametrize("lengths", [[3.0, 1.0], [1.0, 1.0, 1.0], [5e-300, 0.0, 1.0], [2.0**-60, 7.0]])
def test_shares_are_the_lengths_over_their_sum_and_none_is_lost(lengths):
    found, total = shares_of(lengths), sum(Fraction(v) for v in lengths)
    assert sum(found) == 1
    for share, length in zip(found, lengths, strict=True):
        assert abs(share - Fraction(length) / total) <= Fraction(2, 2**50)
        assert (share > 0) == (length > 0.0)


def test_refined_solutions_have_digits_of_two_and_as_many_as_asked():
    """So that a claim's numbers stay short, and are written as hexadecimal ones."""
    A, right = [[Fraction(3), Fraction(1)], [Fraction(1), Fraction(7)]], [Fraction(1), Fraction(2)]
    for bits in (60, 120, 200):
        for v in to_digits(bits)(A, right, right):
            assert v.denominator & (v.denominator - 1) == 0
            assert v.denominator <= 2 ** (bits + 2)


def test_what_is_left_by_the_spread_is_never_rounded_down():
    for square, total in ((1.0, 1.0), (0.1, 3.0), (1e200, 7.0)):
        found = left_by_spread(Ball(square), Ball(total))
        assert Fraction(found) >= Fraction(square) * Fraction(total)
        assert found <= square * total * (1.0 + 1e-9)
