"""Points brought back to their hard rows along their ray, by hand."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from formulations.families import hinge_families
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import to_feasible

HARD, SOFT = np.inf, 1.0
FEW = Fraction(7, 2**52)  # five units of rounding that are added, and what the quotient's own may be


def factors(outputs, costs, B=np.inf, rad=0.0):
    """Of outputs of class +1, exact or within `rad`."""
    f = np.array(outputs)
    program = SimpleNamespace(rows=hinge_families(np.ones(len(f)), costs, B, hard=True))
    return to_feasible(program, Ball(f, np.full(len(f), rad)))


@pytest.mark.parametrize(
    ("outputs", "costs", "B", "scale"),
    [
        ([0.5, 3.0], [HARD, SOFT], np.inf, 2.0),  # a hard margin is short: up
        ([0.5, 0.25], [HARD, HARD], np.inf, 4.0),
        ([0.5, 0.25], [HARD, SOFT], np.inf, 2.0),
        ([1.5, 3.0], [HARD, SOFT], np.inf, 1.0),  # beyond the margin, and left there
        ([1.0, 3.0], [HARD, SOFT], np.inf, 1.0),
        ([0.0, 3.0], [HARD, SOFT], np.inf, np.inf),  # no factor helps
        ([-1.0, 3.0], [HARD, SOFT], np.inf, np.inf),
        ([-1.0, 0.2], [SOFT, SOFT], np.inf, 1.0),  # soft margins ask for nothing
        ([-1.0, 4.0], [SOFT, SOFT], 2.0, 0.5),  # beyond a bound: down
        ([-8.0, 4.0], [SOFT, SOFT], 2.0, 0.25),
        ([1.0, 2.0], [SOFT, SOFT], 2.0, 1.0),  # at it
        ([0.5, 1.0], [HARD, SOFT], 3.0, 2.0),  # up, with room for it
        ([0.5, 2.0], [HARD, SOFT], 3.0, np.inf),  # up, into a bound
        ([1.5, 4.0], [HARD, SOFT], 2.0, np.inf),  # down is not asked of hard margins
    ],
)
def test_factor_by_hand(outputs, costs, B, scale):
    """A short hard margin is made longer, an output beyond its bound shorter, if one factor does both."""
    assert factors(outputs, costs, B) == pytest.approx((scale, scale), rel=1e-14)


@pytest.mark.parametrize("output", [0.3, 1.7, 2.9, 7.1])
def test_rounding_is_on_the_safe_side(output):
    """The first is on the safe side of the quotient of its numbers, the second on the other, and near it."""
    for rad in (0.0, 1e-3, 0.1):
        most, least = Fraction(output + rad), Fraction(output - rad)
        for end in (0.7, 1 / 3):  # down to a bound
            scale, enough = factors([output, end / 9], [SOFT, SOFT], end, rad=rad)
            if least > end:
                assert 0 <= 1 - Fraction(scale) * most / Fraction(end) <= FEW
                assert 0 <= Fraction(enough) * least / Fraction(end) - 1 <= FEW
        scale, enough = factors([output / 9, 8.0], [HARD, SOFT], rad=rad / 9)  # up to a margin
        if output < 8.0 and rad < output:
            assert 0 <= Fraction(scale) * Fraction(output / 9 - rad / 9) - 1 <= FEW
            assert 0 <= 1 - Fraction(enough) * Fraction(output / 9 + rad / 9) <= FEW
