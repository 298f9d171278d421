"""Faces on blocks of samples, however many at once, have the certificate of all samples in memory."""

import numpy as np
import pytest

from polyopt.certificates.tally import merge
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.certificate_by_blocks import (
    AssignedBlock,
    Multipliers,
    certify_multipliers,
    reduce_dual,
    reduce_primal,
)

K, N, SCALE, LEAST = 3, 50, 0.25, 0.4


@pytest.mark.parametrize("slice_size", [1 << 14, 7])
@pytest.mark.parametrize("blocks", [1, 3])
def test_blocks_certify_as_the_whole(blocks, slice_size):
    """Values and residuals of drawn faces and multipliers are those of all samples in memory."""
    rng = np.random.default_rng(slice_size)
    outside = rng.random(N) < 0.5
    assigned, costs = np.where(outside, rng.integers(0, K, N), -1), rng.uniform(0.0, 2.0, N)
    X, W = np.round(8 * rng.normal(size=(N, 2))), rng.normal(size=(K, 3))
    places = rng.permutation(rng.choice(N * K, 60, replace=False))
    alpha = rng.uniform(-0.1, 2.0, 60)
    duals, primals = [], []
    for part in np.array_split(np.arange(N), blocks):
        block = AssignedBlock(X[part], outside[part], costs[part], assigned[part], SCALE)
        own = np.isin(places // K, part)
        given = Multipliers(places[own] // K - part[0], places[own] % K, alpha[own])
        duals.append(reduce_dual(block, given, K, slice_size))
        primals.append(reduce_primal(block, given, W, LEAST, slice_size))
    primal = merge(primals)
    found = certify_multipliers(merge(duals), primal, W, 1e-6)
    A, y = np.zeros(N * K), np.where(outside, 1.0, -1.0)
    A[places] = alpha
    caps = costs[:, None] * (~outside[:, None] | (assigned[:, None] == np.arange(K)))
    raw, held = (
        certify_cpm(SCALE * X, y, costs, W=W, alpha=given, assignment=assigned)
        for given in (A.reshape(N, K), np.clip(A.reshape(N, K), 0.0, caps))
    )
    assert found.primal_value == pytest.approx(raw.primal_value)
    assert found.dual_value == pytest.approx(raw.dual_value)
    # Stationarity is of the multipliers within their caps, the other conditions of those given.
    whole = [r for r in held.residuals if r.row[0] == "w"] + [r for r in raw.residuals if r.row[0] != "w"]
    expected = {(r.condition, r.row): (pytest.approx(r.value), r.worst) for r in whole}
    assert {(r.condition, r.row): (r.value, r.worst) for r in found.residuals} == expected
    hinges = np.maximum(1.0 - (SCALE * X @ W[:, :-1].T + W[:, -1]), 0.0)
    gain = np.where(outside, hinges[np.arange(N), assigned] - hinges.min(axis=1), 0.0)
    assert primal.sums["moved"] == pytest.approx(costs[gain > LEAST].sum())
    assert 0.0 < primal.sums["moved"] < costs[outside].sum()
