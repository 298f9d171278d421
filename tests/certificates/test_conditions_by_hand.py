"""Conditions of optimality at points that meet none of them, sample by sample, without arrays."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.certificates import projection
from polyopt.certificates.certificate import Claim
from polyopt.linalg.rounding import Ball

# -- projections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_least_of_a_parabola_in_a_room(seed):
    """½ d²/s² + g d for d from one end to the other, each where there is one."""
    rng = np.random.default_rng(seed)
    g, unit, rad = 2.0 * rng.normal(size=8), rng.uniform(0.3, 3.0, 8), 0.05
    low, high = -rng.uniform(0.0, 3.0, 8), rng.uniform(0.0, 3.0, 8)
    low[0], high[1] = -np.inf, np.inf
    found = projection._dual_minimum(Ball(g), [Ball(low), Ball(high)], unit)
    d = np.clip(-(unit**2) * g, low, high)
    least = (0.5 * d**2 / unit**2 + g * d).sum()
    assert found.lower <= least
    assert found.mid == pytest.approx(least, rel=1e-12)
    wide = projection._dual_minimum(Ball(g, rad), [Ball(low), Ball(high)], unit)
    ends = []
    for moved in (g - rad, g + rad):
        d = np.clip(-(unit**2) * moved, low, high)
        ends.append(0.5 * d**2 / unit**2 + moved * d)
    assert wide.mid == pytest.approx(np.minimum(*ends).sum(), rel=1e-9)


@pytest.mark.parametrize(("g", "level", "reach"), [
    ([1.0, -2.0], 6.0, np.inf),  # both are held: 6 - 1 · 1 - 2 · 2 = 1 is left whatever the point
    ([1.0, -2.0], 4.0, None),  # and here nothing is
    ([1.0, 3.0, 0.0], 3.0, 2.0 / (3.0 * 0.5)),  # the second may go down without end
    ([-1.0, -4.0, 1.0], 9.0, None),
])  # fmt: skip
def test_a_ray_excludes_what_its_level_leaves(g, level, reach):
    g = np.array(g)
    low, high = np.array([-1.0, -np.inf, -1.0])[: len(g)], np.array([np.inf, 2.0, 1.0])[: len(g)]
    unit = np.array([2.0, 0.5, 1.0])[: len(g)]
    found = projection._certify_empty(
        Ball(level), Ball(g), [Ball(low), Ball(high)], unit, np.array([2.0, -1.0]), 1e-9
    )
    if reach is None:
        assert found.dual_value == 0.0
        assert "no ray" in found.note
        return
    (sign,) = found.residuals
    assert (sign.value, sign.relative) == (1.0, 0.5)
    if np.isinf(reach):
        assert found.claim is Claim.INFEASIBLE
    else:
        assert found.claim is Claim.NONE
        assert found.dual_value == pytest.approx(0.5 * reach**2, rel=1e-8)
        assert found.dual_value < 0.5 * reach**2
