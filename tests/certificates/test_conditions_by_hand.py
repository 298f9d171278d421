"""Conditions of optimality at points that meet none of them, sample by sample, without arrays."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.l0_data import as_l0_data
from formulations.polytope import shares
from polyopt.certificates import cpm_hard, cpm_point, l0, projection
from polyopt.certificates.certificate import Claim
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.rounding import Ball

N, K = 9, 2


def drawn(seed):
    rng = np.random.default_rng(seed)
    X, y = np.column_stack([rng.normal(size=(N, 2)), np.ones(N)]), np.where(np.arange(N) % 3, 1.0, -1.0)
    Z = np.where(y[:, None] > 0, np.eye(K)[rng.integers(0, K, N)], 1.0)
    return rng, X, y, Z


def by_name(residuals):
    return {(r.condition, r.row): r for r in residuals}


@pytest.mark.parametrize("margin", ["total", "worst"])
@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("seed", range(2))
def test_conditions_of_a_polytope(loss, margin, seed):
    rng, X, y, Z = drawn(seed)
    C, W, alpha = rng.uniform(0.5, 2.0, N), rng.normal(size=(K, 3)), rng.uniform(-0.3, 1.5, (N, K))
    point = cpm_point.CpmPoint(LinearGeometry(X), y, C, Z, W, alpha, False)
    found = by_name(cpm_point._residuals(point, alpha, loss, margin))
    largest, v = np.abs(alpha).max(), np.zeros((K, 3))
    for i in range(N):
        for k in range(K):
            v[k] += alpha[i, k] * y[i] * X[i]
    lengths = np.linalg.norm(v, axis=1)
    theta = np.ones(K) if margin == "total" else lengths / lengths.sum()
    weight = max(np.abs(2 * theta[:, None] * W).max(), np.abs(v).max())
    for k in range(K):
        sign, slack, off = 0.0, 0.0, np.abs(2 * theta[k] * W[k] - v[k]).max()
        for i in range(N):
            hinges = [max(0.0, 1.0 - y[i] * X[i] @ W[each]) for each in range(K)]
            xi = max(hinges) if loss == "max" and y[i] < 0 else hinges[k]
            sign = max(sign, -alpha[i, k])
            slack = max(slack, abs(alpha[i, k] * (y[i] * X[i] @ W[k] - 1.0 + xi)))
        assert found["sign", f"margin(face {k})"].relative == pytest.approx(sign / largest)
        assert found["stationarity", f"w(face {k})"].relative == pytest.approx(off / weight)
        assert found["complementarity", f"margin(face {k})"].relative == pytest.approx(slack / largest)
    sign = slack = 0.0
    for i in range(N):
        for k in range(K):
            hinges = [max(0.0, 1.0 - y[i] * X[i] @ W[each]) for each in range(K)]
            shared = loss == "max" and y[i] < 0
            beta = C[i] - alpha[i].sum() if shared else C[i] * Z[i, k] - alpha[i, k]
            sign = max(sign, -beta)
            slack = max(slack, abs(beta * (max(hinges) if shared else hinges[k])))
    assert found["sign", "slack"].relative == pytest.approx(sign / largest)
    assert found["complementarity", "slack"].relative == pytest.approx(slack / largest)
    squares = (W**2).sum(axis=1)
    assert (("complementarity", "norm") in found) == (margin == "worst")
    if margin == "worst":
        spare = (theta * (squares.max() - squares)).max() / squares.max()
        assert found["complementarity", "norm"].relative == pytest.approx(spare)
    implied = cpm_point.CpmPoint(LinearGeometry(X), y, C, Z, W, alpha, True)
    assert "stationarity" not in {r.condition for r in cpm_point._residuals(implied, alpha, loss, margin)}
    none = by_name(cpm_point._residuals(point, 0.0 * alpha, loss, margin))
    assert none["sign", "slack"].relative == 0.0
    assert none["complementarity", "slack"].relative == pytest.approx(
        max(
            (C[i] if loss == "max" and y[i] < 0 else C[i] * Z[i, k])
            * max(
                0.0,
                *(1.0 - y[i] * X[i] @ W[each] for each in (range(K) if loss == "max" and y[i] < 0 else [k])),
            )
            for i in range(N)
            for k in range(K)
        )
        / C.max()
    )


def test_what_a_positive_would_gain_on_its_best_face_is_told_in_units_of_the_margin():
    X, y = np.array([[2.0, 1.0], [0.5, 1.0], [1.0, 1.0]]), np.array([1.0, 1.0, -1.0])
    Z = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    W = np.array([[1.0, 0.0], [0.25, 0.0]])  # hinges 0 and 0.5; 0.5 and 0.875
    point = cpm_point.CpmPoint(LinearGeometry(X), y, np.ones(3), Z, W, None, False)
    found = cpm_point.assignment_residual(point)
    assert (found.value, found.relative, found.worst) == (0.5, 0.5, 0)


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
    theta = np.ones(K) if margin == "total" else shares(pulls)
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


def test_what_hard_margins_state_is_told_with_what_is_certain():
    two, sure = np.array([0.5, 2.0]), np.array([0.5, 1.0])
    margins = cpm_hard._stated(two, sure, "margins")
    assert (margins.mid, margins.rad) == (-2.5, pytest.approx(1.0))
    norms = cpm_hard._stated(two, sure, "norms")
    assert (norms.mid, norms.rad) == (4.25, pytest.approx(0.75))
    assert cpm_hard._stated(two, np.array([0.5, 0.0]), "norms").mid == np.inf


def test_conditions_of_a_pattern():
    """The products with multipliers add up to the gap within the pattern, in costs of samples."""
    rng, _, y, _ = drawn(4)
    weights, C = rng.uniform(0.5, 2.0, N), 0.75
    data = as_l0_data(rng.normal(size=(N, N)), y, C, weights)
    alpha, f, u = rng.uniform(0.1, 0.7, N), rng.normal(size=N), rng.uniform(-0.5, 2.5, N)
    pattern = np.arange(N) % 2 == 0
    found = by_name(l0._conditions(data, alpha, f, u, pattern, 3.0))
    xi = [max(0.0, 1.0 - y[i] * f[i]) for i in range(N)]
    rates = data.rates(u)
    wanted = {
        ("sign", "margin"): max(-u) / weights.max(),
        ("sign", "slack"): max(u - weights) / weights.max(),
        ("stationarity", "b"): abs(y @ u) / np.abs(u).sum(),
        ("complementarity", "margin"): max(abs(u[i] * (y[i] * f[i] - 1.0 + xi[i])) for i in range(N)) / 3.0,
        ("complementarity", "slack"): max(abs((weights[i] - u[i]) * xi[i]) for i in range(N)) / 3.0,
        ("complementarity", "sign"): max(alpha[i] * max(-rates[i], 0.0) for i in range(N) if pattern[i])
        / 3.0,
        ("complementarity", "cap"): max((C - alpha[i]) * max(rates[i], 0.0) for i in range(N) if pattern[i])
        / 3.0,
    }
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert value > 0.0
        assert found[name].relative == pytest.approx(value), name
    none = by_name(l0._conditions(data, alpha, f, 0.0 * u, pattern, 3.0))
    assert none["stationarity", "b"].relative == 0.0


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


def test_rows_of_a_projection_are_told_in_spreads():
    W, b, z = np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([-1.0, -2.0]), np.array([1.0, 0.5])
    unit, ends = np.array([1.0, 2.0]), [np.array([0.0, 1.0]), np.array([0.25, 3.0])]
    found = by_name(projection._residuals(W, b, z, unit, ends, np.array([0.5, 0.25]), 8.0))
    far, length = 1.0 + 4.0, np.sqrt(9.0 + 64.0)
    assert found["primal", "bounds"].relative == pytest.approx(0.75 / far)
    assert found["primal", "face"].relative == pytest.approx(4.0 / length / far)
    assert found["complementarity", "face"].relative == 0.0  # the first is reached, the second has no length
    below = by_name(projection._residuals(W, b - 9.0, z, unit, ends, np.array([0.5, 0.25]), 8.0))
    assert below["primal", "face"].relative == 0.0
    assert below["complementarity", "face"].relative == pytest.approx(0.5 * 5.0 / 8.0)
