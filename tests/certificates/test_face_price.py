"""What prices leave of pulls, with enclosures: against the price itself, and with radii that can be seen."""

import numpy as np
import pytest

from formulations.face_penalty import FacePenalty
from polyopt.cpm.penalty_term import (
    penalty_value,
    shrunk_square_sum,
    sign_residuals,
    thresholded_sizes,
)
from polyopt.linalg.rounding import Ball

K, M = 2, 5
PENALTIES = [
    FacePenalty.of(M, l1=0.4),
    FacePenalty.of(M, signs={0: 1, 3: -1}),
    FacePenalty.of(M, l1=0.3, signs={1: -1}),
    FacePenalty.of(M, group=0.6),
    FacePenalty.of(M, l1=0.2, group=0.5, groups=[[0, 2], [1, 3]], signs={2: 1}),
]


def drawn(seed, rad):
    """An enclosure of pulls, and some of the pulls in it."""
    rng = np.random.default_rng(seed)
    pulls = Ball(rng.normal(size=(M + 1, K)), np.full((M + 1, K), rad))
    shares = rng.choice([-1.0, 1.0, 0.3], (60, M + 1, K))
    return pulls, pulls.mid + shares * pulls.rad


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("seed", range(3))
def test_left_squares_enclose_every_member(penalty, seed):
    """What is left of pulls encloses that of each of them and not much more."""
    for rad in (0.0, 0.05):
        pulls, members = drawn(seed, rad)
        found, sizes = shrunk_square_sum(penalty, pulls), thresholded_sizes(penalty, pulls[:-1])
        for V in members:
            left = penalty.shrunk(V.T)
            assert found.lower <= (left**2).sum() <= found.upper
            cut = np.abs(penalty.soft_thresholded(V.T)[:, :-1]).T
            assert ((sizes.lower <= cut + 1e-300) & (cut <= sizes.upper)).all()
        assert found.rad <= 20.0 * rad + 1e-12
        assert (sizes.rad <= rad * (1.0 + 1e-9) + 1e-12).all()
    pulls, _ = drawn(seed, 0.0)
    assert found.mid == pytest.approx((penalty.shrunk(pulls.mid.T) ** 2).sum(), rel=0.5)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_price_is_enclosed(penalty, rng):
    W = rng.normal(size=(K, M + 1))
    found = penalty_value(penalty, W)
    assert found.lower <= penalty.value(W) <= found.upper
    assert found.rad <= 1e-12


def test_broken_signs_are_a_residual():
    """Signs that are not kept are a residual relative to the largest weight."""
    penalty, asked = FacePenalty.of(2, signs={0: 1}), np.array([[-3.0, 2.0, 6.0]])
    (one,) = sign_residuals(penalty, asked, penalty.enforce_signs(asked))
    assert (one.value, one.relative, one.worst) == (3.0, 0.5, 0)
    assert sign_residuals(FacePenalty.of(2, l1=1.0), asked, asked) == []
