"""Landmarks and the least trace by them, each part by its definition, with inverses written out."""

from __future__ import annotations

import numpy as np
import pytest

from formulations import landmarks
from formulations.landmarks import Landmarks


def drawn(seed, n=9, n_u=5, m=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, m)), rng.normal(size=(n_u, m))


def parts(seed, r=3, n_u=5):
    """A point of the interior point: R (n_u, r), S (r, r), weights, and a direction between weights."""
    rng = np.random.default_rng(seed)
    B, p = rng.normal(size=(r, r)), rng.uniform(0.2, 1.0, n_u)
    dp = rng.normal(size=n_u)
    return rng, rng.normal(size=(n_u, r)), B @ B.T, p / p.sum(), dp - dp.mean()


def trace_at(R, S, p):
    return np.trace(
        S @ np.linalg.inv(np.eye(len(S)) + sum(w * np.outer(r, r) for w, r in zip(p, R, strict=True)))
    )


@pytest.mark.parametrize("constant", [0.0, 1.5])
@pytest.mark.parametrize("at_once", [4, 1 << 12])
def test_samples_as_seen_from_the_landmarks_and_what_their_span_leaves(constant, at_once, monkeypatch):
    monkeypatch.setattr(landmarks, "_ROWS", at_once)
    X, U = drawn(0, n_u=2)
    found = Landmarks.linear(X, U)
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
    assert found.outside == pytest.approx(((X - X @ span @ span.T) ** 2).sum())
    assert found.missing == pytest.approx([0.0, 0.0], abs=1e-7)
    for D in (0.0, 0.7):
        inverse = np.linalg.inv(np.eye(X.shape[1]) + D / 2 * U.T @ U)
        least = found.least(D)
        assert found.equal_weights(D) >= least.trace * (1.0 - 1e-9)
        at = np.linalg.inv(np.eye(X.shape[1]) + D * U.T @ np.diag(least.weights) @ U)
        assert least.trace == pytest.approx(np.trace(X @ at @ X.T))
        assert np.trace(X @ inverse @ X.T) >= least.trace * (1.0 - 1e-9)
        assert found.equal_weights([D, D]) == pytest.approx([found.equal_weights(D)] * 2)


def test_nothing_is_seen_from_landmarks_that_are_0():
    X, U = drawn(1)
    found = Landmarks.linear(X, 0.0 * U)
    assert found.outside == pytest.approx((X**2).sum())
    assert found.least(2.0).trace == found.equal_weights(2.0) == pytest.approx((X**2).sum())


@pytest.mark.parametrize("seed", range(3))
def test_the_trace_and_its_slopes_are_those_of_the_inverse(seed):
    _, R, S, p, dp = parts(seed)
    inside, Y, q = landmarks._look(R, S, p)
    assert inside == pytest.approx(trace_at(R, S, p))
    assert Y == pytest.approx(np.linalg.inv(np.eye(3) + R.T @ np.diag(p) @ R) @ R.T)
    for j in range(5):
        h = 1e-6 * (np.arange(5) == j)
        assert (trace_at(R, S, p + h) - trace_at(R, S, p - h)) / 2e-6 == pytest.approx(-q[j], rel=1e-5)
    H = 2.0 * (R @ Y) * (Y.T @ S @ Y)
    ahead, behind = (landmarks._look(R, S, p + t * dp)[2] for t in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx(-H @ dp, rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_direction_solves_the_linearised_conditions(seed):
    """−q + H dp + ν − z − dz = 0, Σ dp = 0 and z p + z dp + p dz = mu, all at once."""
    rng, R, S, p, _ = parts(seed)
    _, Y, q = landmarks._look(R, S, p)
    z, mu, H = rng.uniform(0.1, 1.0, 5), 0.03, 2.0 * (R @ Y) * (Y.T @ S @ Y)
    system = np.zeros((11, 11))
    system[:5, :5], system[:5, 5:10], system[:5, 10], system[5, :5] = H, -np.eye(5), 1.0, 1.0
    system[6:, :5], system[6:, 5:10] = np.diag(z), np.diag(p)
    wanted = np.linalg.solve(system, np.concatenate([q + z, [0.0], mu - z * p]))
    dp, dz = landmarks._direction(H.copy(), p, z, q, mu)
    assert dp == pytest.approx(wanted[:5])
    assert dz == pytest.approx(wanted[5:10])


def test_the_room_ends_at_the_first_entry_that_vanishes():
    assert landmarks._room(np.array([1.0, 2.0, 3.0]), np.array([-0.5, -4.0, 1.0])) == 0.5
    assert landmarks._room(np.array([1.0, 2.0]), np.array([0.5, 0.0])) == np.inf


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_step_is_the_first_of_halves_that_falls_by_a_share_of_the_slope(seed, size):
    _, R, S, p, dp = parts(seed)
    mu, (inside, _, q) = 0.02, landmarks._look(R, S, p)

    def barrier(x):
        return trace_at(R, S, x) - mu * np.log(x).sum()

    slope = -(q + mu / p) @ dp
    dp = -np.sign(slope) * size * dp
    slope = -(q + mu / p) @ dp
    step, first = 1.0, landmarks._REACH * min(-v / d for v, d in zip(p, dp, strict=True) if d < 0)
    step = min(step, first)
    while barrier(p + step * dp) > barrier(p) + 1e-4 * step * slope:
        step /= 2
    assert landmarks._descent(R, S, p, dp, inside, q, mu) == pytest.approx(step)
    assert landmarks._descent(R, S, p, -dp, inside, q, mu) in (0.0, pytest.approx(0.0, abs=1e-9))


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_the_least_trace_beat_all_others_by_what_is_proven(seed):
    X, U = drawn(seed, n_u=4, m=2)
    found, rng = Landmarks.linear(X, U), np.random.default_rng(seed)
    for D, max_iter in ((1.3, 100), (1.3, 2), (40.0, 100)):
        least = found.least(D, 1e-7, max_iter)
        assert least.iterations <= max_iter
        assert (least.gap <= 1e-7) == (max_iter > 2)
        assert least.weights.sum() == pytest.approx(1.0)
        assert (least.weights >= 0).all()
        for p in [*np.eye(4), *rng.dirichlet(np.ones(4), 30)]:
            M = np.eye(2) + D * U.T @ np.diag(p) @ U
            assert np.trace(X @ np.linalg.inv(M) @ X.T) >= least.trace * (1.0 - least.gap) * (1.0 - 1e-9)
