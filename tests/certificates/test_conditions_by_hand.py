"""Conditions of optimality at points that meet none of them, sample by sample, without arrays."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.polytope import margin_weights
from polyopt.certificates import projection
from polyopt.certificates.certificate import Claim
from polyopt.cpm import certificate_hard as cpm_hard
from polyopt.linalg.rounding import Ball

N, K = 9, 2


def drawn(seed):
    rng = np.random.default_rng(seed)
    X, y = np.column_stack([rng.normal(size=(N, 2)), np.ones(N)]), np.where(np.arange(N) % 3, 1.0, -1.0)
    Z = np.where(y[:, None] > 0, np.eye(K)[rng.integers(0, K, N)], 1.0)
    return rng, X, y, Z


def by_name(residuals):
    return {(r.condition, r.row): r for r in residuals}


@pytest.mark.parametrize("margin", ["total", "worst"])
@pytest.mark.parametrize("seed", range(3))
def test_conditions_of_a_polytope_with_hard_margins(margin, seed):
    rng, X, y, _ = drawn(seed)
    W, alpha = rng.normal(size=(K, 3)), rng.uniform(-0.3, 1.5, (N, K))
    assignment = np.where(y > 0, rng.integers(0, K, N), -1)
    point = cpm_hard._point(X[:, :2], y, W, alpha, assignment, margin)
    found = by_name(cpm_hard._conditions(point, margin))
    Z = np.where(y[:, None] > 0, np.eye(K)[assignment], 1.0)
    v = ((alpha * y[:, None]).T @ X) / np.linalg.norm((alpha * y[:, None]).T @ X, axis=1)[:, None]
    pulls = (alpha * y[:, None]).T @ X
    theta = np.ones(K) if margin == "total" else margin_weights(pulls)
    largest, zeta = np.abs(alpha).max(), np.zeros(K)
    for k in range(K):
        outputs = y * (X @ W[k])
        own = Z[:, k] > 0
        least = outputs[own].min()
        zeta[k] = least / np.linalg.norm(W[k])
        sign = max(max(-alpha[i, k], 0.0 if own[i] else abs(alpha[i, k])) for i in range(N))
        slack = max(abs(alpha[i, k] * (outputs[i] - least) / abs(least)) for i in range(N) if own[i])
        off = theta[k] * np.abs(W[k] / np.linalg.norm(W[k]) - v[k]).max()
        assert found["sign", f"margin(face {k})"].relative == pytest.approx(sign / largest)
        assert found["stationarity", f"w(face {k})"].relative == pytest.approx(off)
        assert found["complementarity", f"margin(face {k})"].relative == pytest.approx(slack / largest)
    if margin == "worst":
        spare = max(theta[k] * (1.0 - (zeta.min() / zeta[k] if zeta[k] > 0.0 else 0.0)) for k in range(K))
        assert found["complementarity", "norm"].relative == pytest.approx(max(spare, 0.0))
    assert cpm_hard._separation(point).relative == pytest.approx(max((-zeta).max(), 0.0))
    feasible = np.where(Z > 0, np.maximum(alpha, 0.0), 0.0)
    lengths = np.linalg.norm((feasible * y[:, None]).T @ X, axis=1)
    reached, most = cpm_hard._margins(point, margin), cpm_hard._most(point, margin)
    if margin == "total":
        assert reached[0] == pytest.approx(zeta)
        assert most[0] == pytest.approx(lengths / feasible.sum(axis=0))
    else:
        assert reached[0] == pytest.approx([zeta.min()])
        assert most[0] == pytest.approx([lengths.sum() / feasible.sum()])
    assert (np.maximum(reached[1], 0.0) <= np.maximum(reached[0], 0.0)).all()
    assert (most[1] >= most[0]).all()
    assert most[1] == pytest.approx(most[0], rel=2e-9)


# -- projections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_least_of_a_parabola_in_a_room(seed):
    """½ d²/s² + g d for d from one end to the other, each where there is one."""
    rng = np.random.default_rng(seed)
    g, unit, rad = 2.0 * rng.normal(size=8), rng.uniform(0.3, 3.0, 8), 0.05
    low, high = -rng.uniform(0.0, 3.0, 8), rng.uniform(0.0, 3.0, 8)
    low[0], high[1] = -np.inf, np.inf
    found = projection._least(Ball(g), [Ball(low), Ball(high)], unit)
    d = np.clip(-(unit**2) * g, low, high)
    least = (0.5 * d**2 / unit**2 + g * d).sum()
    assert found.lower <= least
    assert found.mid == pytest.approx(least, rel=1e-12)
    wide = projection._least(Ball(g, rad), [Ball(low), Ball(high)], unit)
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
    found = projection._no_point(
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
