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
    block = AssignedBlock(np.round(8 * rng.normal(size=(N, 2))), outside, rng.uniform(0.0, 2.0, N), assigned)
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
    sums = {
        "losses": np.zeros(K),
        "inside": 0.0,
        "held": 0.0,
        "moved": 0.0,
    }
    worst = {("stationarity", "assignment"): np.zeros(N)}
    for row in ("margin", "slack"):
        worst |= {(of, f"{row} {k}"): np.zeros(N) for of in ("sign", "complementarity") for k in range(K)}
    for i in range(N):
        scores = [SCALE * block.X[i] @ w[:-1] + w[-1] for w in W]
        for k, score in enumerate(scores):
            lead = score if block.outside[i] else -score
            cap = block.costs[i] if not block.outside[i] or block.assigned[i] == k else 0.0
            hinge = max(1.0 - lead, 0.0)
            sums["losses"][k] += cap * hinge
            sums["held" if block.outside[i] else "inside"] += cap * hinge
            worst["sign", f"margin {k}"][i], worst["sign", f"slack {k}"][i] = -A[i, k], A[i, k] - cap
            worst["complementarity", f"margin {k}"][i] = abs(A[i, k]) * max(lead - 1.0, 0.0)
            worst["complementarity", f"slack {k}"][i] = abs(cap - A[i, k]) * hinge
        if block.outside[i]:
            best = max(1.0 - max(scores), 0.0)
            gain = max(1.0 - scores[block.assigned[i]], 0.0) - best
            sums["moved"] += block.costs[i] * (gain > LEAST)
            worst["stationarity", "assignment"][i] = gain
    found = reduce_primal(block, given, W, SCALE, LEAST)
    assert found.n == N
    assert found.sums["losses"].mid == pytest.approx(sums.pop("losses"))
    assert set(found.sums) == {"losses", *sums}
    for name, wanted in sums.items():
        assert found.sums[name] == pytest.approx(wanted), name
    assert 0.0 < found.sums["moved"] < block.costs[block.outside].sum()
    assert set(found.worst) == set(worst)
    for key, violation in worst.items():
        assert found.worst[key] == (pytest.approx(violation.max()), violation.argmax()), key
    assert found.largest == {f"multiplier {k}": np.abs(A[:, k]).max() for k in range(K)}


@pytest.mark.parametrize("at_once", [1 << 14, 7])
def test_multipliers_gain_and_pull_what_is_within_their_caps(at_once, monkeypatch):
    monkeypatch.setattr(cpm_blocks, "SAMPLES_PER_SLICE", at_once)
    block, given, _ = drawn(at_once)
    gain, pulled = np.zeros(K), np.zeros((3, K))
    for i, k, alpha in zip(*given, strict=True):
        cap = block.costs[i] if not block.outside[i] or block.assigned[i] == k else 0.0
        a = min(max(alpha, 0.0), cap)
        gain[k] += a
        pulled[:, k] += (0.5 if block.outside[i] else -0.5) * a * np.append(block.X[i], 1.0)
    found = reduce_dual(block, given, K)
    assert found.sums["alpha_sum"].mid == pytest.approx(gain)
    assert found.sums["faces"].mid == pytest.approx(pulled)
    assert (np.abs(found.sums["faces"].mid - pulled) <= found.sums["faces"].rad + 1e-13).all()
