"""Faces on blocks of samples: what they pay and every condition, sample by sample, however many at once."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.cpm import certificate_by_blocks as cpm_blocks
from polyopt.cpm.certificate_by_blocks import AssignedBlock, Multipliers, reduce_dual, reduce_primal

K, N, SCALE, LEAST = 3, 50, 0.25, 0.4


def drawn(seed):
    rng = np.random.default_rng(seed)
    outside = rng.random(N) < 0.5
    assigned = np.where(outside, rng.integers(0, K, N), -1)
    X, costs = np.round(8 * rng.normal(size=(N, 2))), rng.uniform(0.0, 2.0, N)
    block = AssignedBlock(X, outside, costs, assigned, SCALE)
    places = np.sort(rng.choice(N * K, 60, replace=False))
    alpha = rng.uniform(-0.1, 2.0, 60)
    order = rng.permutation(60)
    return (
        block,
        Multipliers(*(each[order] for each in (places // K, places % K, alpha))),
        rng.normal(size=(K, 3)),
    )


@pytest.mark.parametrize("at_once", [1 << 14, 7])
def test_every_pair_is_weighed_once(at_once, monkeypatch):
    monkeypatch.setattr(cpm_blocks, "SAMPLES_PER_SLICE", at_once)
    block, given, W = drawn(at_once)
    A = np.zeros((N, K))
    A[given.rows, given.faces] = given.alpha
    sums, unused = {"loss": 0.0, "moved": 0.0}, np.zeros((2, N, K))
    worst = {("stationarity", "assignment"): np.zeros(N)}
    for k in range(K):
        worst |= {(of, f"margin(face {k})"): np.zeros(N) for of in ("sign", "complementarity")}
    for i in range(N):
        scores = [SCALE * block.X[i] @ w[:-1] + w[-1] for w in W]
        for k, score in enumerate(scores):
            lead = score if block.outside[i] else -score
            cap = block.costs[i] if not block.outside[i] or block.assigned[i] == k else 0.0
            hinge = max(1.0 - lead, 0.0)
            sums["loss"] += cap * hinge
            worst["sign", f"margin(face {k})"][i] = -A[i, k]
            worst["complementarity", f"margin(face {k})"][i] = abs(A[i, k]) * max(lead - 1.0, 0.0)
            unused[:, i, k] = A[i, k] - cap, abs(cap - A[i, k]) * hinge
        if block.outside[i]:
            best = max(1.0 - max(scores), 0.0)
            gain = max(1.0 - scores[block.assigned[i]], 0.0) - best
            sums["moved"] += block.costs[i] * (gain > LEAST)
            worst["stationarity", "assignment"][i] = gain
    worst["sign", "slack"], worst["complementarity", "slack"] = unused.max(axis=2)
    found = reduce_primal(block, given, W, LEAST)
    assert found.n == N
    assert found.sums["loss"].mid == pytest.approx(sums["loss"])
    assert found.sums["moved"] == pytest.approx(sums["moved"])
    assert 0.0 < found.sums["moved"] < block.costs[block.outside].sum()
    assert set(found.worst) == set(worst)
    for key, violation in worst.items():
        assert found.worst[key] == (pytest.approx(violation.max()), violation.argmax()), key
    assert found.largest == {"multiplier": np.abs(A).max(), "cost": block.costs.max()}


@pytest.mark.parametrize("at_once", [1 << 14, 7])
def test_multipliers_gain_and_pull_what_is_within_their_caps(at_once, monkeypatch):
    monkeypatch.setattr(cpm_blocks, "SAMPLES_PER_SLICE", at_once)
    block, given, _ = drawn(at_once)
    gain, pulled, sizes = 0.0, np.zeros((3, K)), np.zeros((3, K))
    for i, k, alpha in zip(*given, strict=True):
        cap = block.costs[i] if not block.outside[i] or block.assigned[i] == k else 0.0
        a, sample = min(max(alpha, 0.0), cap), np.append(SCALE * block.X[i], 1.0)
        gain += a
        pulled[:, k] += (1.0 if block.outside[i] else -1.0) * a * sample
        sizes[:, k] += abs(alpha * sample)
    found = reduce_dual(block, given, K)
    assert found.n == N
    assert found.sums["alpha"].mid == pytest.approx(gain)
    assert found.sums["v"].mid == pytest.approx(pulled)
    assert (np.abs(found.sums["v"].mid - pulled) <= found.sums["v"].rad + 1e-13).all()
    assert found.sums["sizes"] == pytest.approx(sizes)
