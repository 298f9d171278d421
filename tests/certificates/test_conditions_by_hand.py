"""The certificate of a projection at points and rays of no merit, feature by feature."""

import numpy as np
import pytest

from polyopt.certificates.certificate import Claim
from polyopt.certificates.projection import certify_projection
from polyopt.polytope.projection import Question
from polyopt.polytope.region import Rows


@pytest.mark.parametrize("seed", range(4))
def test_projection_bound_is_least_parabola(seed):
    """The bound is λ·(Wx + b) and, per feature, the least of ½ d²/s² + g d over the steps d that it has."""
    rng = np.random.default_rng(seed)
    g, unit, x = 2.0 * rng.normal(size=8), rng.uniform(0.3, 3.0, 8), rng.normal(size=8)
    low, high = x - rng.uniform(0.0, 3.0, 8), x + rng.uniform(0.0, 3.0, 8)
    low[0], high[1] = -np.inf, np.inf
    b = 200.0 - g @ x
    question = Question.of(x, spread=unit, low=low, high=high)
    found = certify_projection(question, Rows.of(g[None], [b]), x, [1.0])
    d = np.clip(-(unit**2) * g, low - x, high - x)
    least = (0.5 * d**2 / unit**2 + g * d).sum()
    assert found.dual_value <= 200.0 + least
    assert found.dual_value == pytest.approx(200.0 + least, rel=1e-12)


@pytest.mark.parametrize(("g", "level", "reach"), [
    ([1.0, -2.0], 6.0, np.inf),  # both are bounded: 6 - 1 · 1 - 2 · 2 = 1 is left at every point
    ([1.0, -2.0], 4.0, None),  # and here less than nothing
    ([1.0, 3.0, 0.0], 3.0, 2.0 / (3.0 * 0.5)),  # the second may go down without end
    ([-1.0, 3.0, 0.0], 5.0, 2.0),  # and here the first may go up: slopes of 2 and 3/2 per spread
    ([-1.0, -4.0, 1.0], 9.0, None),
])  # fmt: skip
def test_ray_excludes_points_by_its_level(g, level, reach):
    """A ray whose slope is bounded proves that no point is feasible; else none within a distance."""
    m = len(g)
    low, high = np.array([-1.0, -np.inf, -1.0])[:m], np.array([np.inf, 2.0, 1.0])[:m]
    normals, unit = [g, np.zeros(m)], np.array([2.0, 0.5, 1.0])[:m]
    question = Question.of(np.zeros(m), spread=unit, low=low, high=high)
    found = certify_projection(question, Rows.of(normals, [level, 0.0]), None, [1.0, -1.0])
    if reach is None:
        assert found.dual_value == 0.0
        assert "no ray" in found.note
    elif np.isinf(reach):
        assert found.claim is Claim.INFEASIBLE
    else:
        assert found.claim is Claim.NONE
        assert found.dual_value == pytest.approx(0.5 * reach**2, rel=1e-8)
        assert found.dual_value < 0.5 * reach**2
