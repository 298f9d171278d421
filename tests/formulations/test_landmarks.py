"""Landmarks and the least trace by them, each part by its definition, with inverses written out."""

from __future__ import annotations

import numpy as np
import pytest

from formulations.error_bounds.margin_bounds import Landmarks


def drawn(seed, n=9, n_u=5, m=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), rng.normal(size=(n_u, m))


@pytest.mark.parametrize("constant", [0.0, 1.5])
@pytest.mark.parametrize("at_once", [4, 1 << 12])
def test_samples_seen_from_landmarks_and_what_is_left(constant, at_once):
    """The samples in the span of the landmarks, and what the span leaves of them."""
    X, U = drawn(0, n_u=2)
    found = Landmarks.linear(X, U, block_rows=at_once)
    if constant:
        found = found.with_constant(constant)
        X, U = (np.column_stack([A, np.full(len(A), constant)]) for A in (X, U))
    assert found.kernel == pytest.approx(U @ U.T)
    assert found.products == pytest.approx(U @ X.T @ X @ U.T)
    assert found.sums == pytest.approx((X @ U.T).sum(axis=0))
    assert (found.n, found.trace) == (9, pytest.approx((X**2).sum()))
    span = np.linalg.qr(U.T)[0]
    assert found.basis @ found.basis.T == pytest.approx(U @ U.T)
    assert np.linalg.eigvalsh(found.moments) == pytest.approx(np.linalg.eigvalsh(span.T @ X.T @ X @ span))
    assert found.distances == pytest.approx(((X - X @ span @ span.T) ** 2).sum())
    assert found.omitted_norms == pytest.approx([0.0, 0.0], abs=1e-7)
    for D in (0.0, 0.7):
        inverse = np.linalg.inv(np.eye(X.shape[1]) + D / 2 * U.T @ U)
        least = found.minimise_tau(D)
        assert found.tau_at_equal_weights(D) >= least.tau * (1.0 - 1e-9)
        at = np.linalg.inv(np.eye(X.shape[1]) + D * U.T @ np.diag(least.weights) @ U)
        assert least.tau == pytest.approx(np.trace(X @ at @ X.T))
        assert np.trace(X @ inverse @ X.T) >= least.tau * (1.0 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_the_least_trace_beat_all_others(seed):
    X, U = drawn(seed, n_u=4, m=2)
    found, rng = Landmarks.linear(X, U), np.random.default_rng(seed)
    for D, max_iter in ((1.3, 100), (1.3, 2), (40.0, 100)):
        least = found.minimise_tau(D, 1e-7, max_iter)
        assert least.iterations <= max_iter
        assert (least.gap <= 1e-7) == (max_iter > 2)
        assert least.weights.sum() == pytest.approx(1.0)
        assert (least.weights >= 0).all()
        for p in [*np.eye(4), *rng.dirichlet(np.ones(4), 30)]:
            M = np.eye(2) + D * U.T @ np.diag(p) @ U
            assert np.trace(X @ np.linalg.inv(M) @ X.T) >= least.tau * (1.0 - least.gap) * (1.0 - 1e-9)
