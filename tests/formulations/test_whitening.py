"""The metric that a large relative margin implies, against what its multipliers say of the point."""

import numpy as np
import pytest
import scipy.sparse as sp

from formulations import rmm
from formulations.language.toy_data import two_blobs
from formulations.rmm import bounding_spread


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_the_spread_is_that_of_the_multipliers_over_the_bound(kind):
    rng = np.random.default_rng(0)
    X, B = rng.normal(size=(9, 2)), 1.5
    lam, lam_star = rng.uniform(0.0, 2.0, (2, 9)) * (rng.random((2, 9)) < 0.4)
    own = (lam + lam_star) / B
    mean, spread = bounding_spread(kind(X), lam, lam_star, B)
    assert mean == pytest.approx(own @ X / own.sum())
    assert spread == pytest.approx((X - mean).T @ (own[:, None] * (X - mean)))
    # Where no sample is bounded the metric is the SVM's.
    mean, spread = bounding_spread(kind(X), np.zeros(9), np.zeros(9), B)
    assert mean == pytest.approx(X.mean(axis=0))
    assert not spread.any()
    assert spread.shape == (2, 2)


def test_in_it_the_machine_is_stationary():
    X, y = two_blobs(seed=1)
    at = rmm.qp(X, y, C=1.0, B=1.3).solve()
    mean, spread = bounding_spread(X, at.duals["bound_above"], at.duals["bound_below"], 1.3)
    assert spread.any()
    pull = (X - mean).T @ (at.duals["margin"] * y)
    assert (np.eye(len(mean)) + spread) @ at["w"] == pytest.approx(pull, abs=1e-6)
