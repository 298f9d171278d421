"""Coordinate ascent on the faces of a polytope in C: equal to plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.certificates.coordinate_kernels import add_rows, climb_face, scan, square_lengths, sweep
from polyopt.lanes import in_lanes
from polyopt.rows import as_rows
from polyopt.solvers.cpm.block_ascent import _climb_pairs

SCALE = 0.5
FORMS = {
    "dense": (np.float64, 1.0),
    "single": (np.float32, 1.0),
    "bytes": (np.uint8, 1.0),
    "packed": (np.float64, 0.4),
    "packed single": (np.float32, 0.4),
    "packed bytes": (np.uint8, 0.4),
}


def problem(K, form, seed=0, n=36, m=5):
    """Samples, rows, labels, caps (n, K), and an assignment that leaves the last face without positives."""
    rng = np.random.default_rng(seed)
    dtype, share = FORMS[form]
    X = rng.integers(1, 9, (n, m)) if dtype == np.uint8 else rng.normal(size=(n, m))
    X = (X * (rng.random((n, m)) < share)).astype(dtype)
    y = rng.choice([-1.0, 1.0], n)
    caps = rng.uniform(0.1, 2.0, (n, K)) * (rng.random((n, K)) < 0.8)
    z = np.where(y > 0, rng.integers(0, max(K - 1, 1), n), 0)
    return X.astype(float), as_rows(X), y, caps, z


def lifted(X):
    return np.column_stack([SCALE * X, np.ones(len(X))])


def parts(rows):
    return rows.values, rows.columns, rows.starts, rows.shared


@pytest.mark.parametrize("single", [False, True], ids=["double weights", "single weights"])
@pytest.mark.parametrize("alike", [False, True], ids=["caps of each face", "one cap"])
@pytest.mark.parametrize("K", [1, 3, 9, 70])
@pytest.mark.parametrize("form", FORMS)
def test_a_scan_agrees_with_numpy(form, K, alike, single):
    """Positives are scored; negatives are priced and, where near, listed; faces may be some of all."""
    X, rows, y, caps, _ = problem(K + 1, form)
    caps = caps[:, :1].copy() if alike else caps
    n, faces = len(y), np.arange(1, K + 1)
    W = np.random.default_rng(1).normal(size=(K + 1, X.shape[1] + 1))
    slots = np.cumsum(y > 0) - 1
    U = in_lanes(W[1:], np.float32 if single else np.float64)
    scores, inside = np.full((int((y > 0).sum()), K + 1), np.nan), np.zeros(K + 1)
    pairs, out = np.empty((2, n * K), dtype=np.int32), np.empty_like(U[0])
    used = scan(*parts(rows), SCALE, U, faces, 3, n - 2, y, caps, slots, -1.1, scores, inside, pairs, out)
    s, C = lifted(X) @ W.T, np.broadcast_to(caps, (n, K + 1))
    seen = np.zeros(n, dtype=bool)
    seen[3 : n - 2] = True
    close = {"rel": 1e-4, "abs": 1e-4} if single else {"rel": 1e-12, "abs": 1e-12}
    expected = np.where(seen[y > 0, None] & (np.arange(K + 1) > 0), s[y > 0], np.nan)
    assert scores == pytest.approx(expected, nan_ok=True, **close)
    own = (y < 0) & seen
    assert inside[1:] == pytest.approx((C * np.maximum(0.0, 1.0 + s))[own].sum(axis=0)[1:], **close)
    near = {(i, k) for i in np.flatnonzero(own) for k in faces if s[i, k] > -1.1 and C[i, k] > 0}
    assert {*zip(*pairs[:, :used].tolist(), strict=True)} == near
    assert used == len(near)


@pytest.mark.parametrize("alike", [False, True], ids=["caps of each face", "one cap"])
@pytest.mark.parametrize("K", [1, 3, 9, 70])
@pytest.mark.parametrize("form", FORMS)
def test_a_sweep_steps_on_every_multiplier(form, K, alike):
    """Each step is the best along its coordinate; a positive has one, on its own face."""
    X, rows, y, caps, z = problem(K, form, seed=2)
    caps = caps[:, :1].copy() if alike else caps
    order = np.random.default_rng(3).permutation(len(y))
    A, squares, C = lifted(X), (lifted(X) ** 2).sum(axis=1), np.broadcast_to(caps, (len(y), K))
    U, alpha = in_lanes(np.zeros((K, X.shape[1] + 1))), np.zeros((len(y), K))
    W, mu, work = np.zeros((K, X.shape[1] + 1)), np.zeros((len(y), K)), np.zeros((2, U.shape[1]))
    single, narrow = U.astype(np.float32), alpha.copy()
    for _ in range(2):
        sweep(*parts(rows), SCALE, y, caps, squares, order, z, U, alpha, work)
        sweep(*parts(rows), SCALE, y, caps, squares, order, z, single, narrow, work.astype(np.float32))
        for i in order:
            for k in [z[i]] if y[i] > 0 else range(K):
                slope = 1.0 - y[i] * (A[i] @ W[k])
                after = min(max(mu[i, k] + 2.0 * slope / squares[i], 0.0), C[i, k])
                W[k] += 0.5 * y[i] * (after - mu[i, k]) * A[i]
                mu[i, k] = after
        assert alpha == pytest.approx(mu, abs=1e-12)
        assert U[:, :K].T == pytest.approx(W, abs=1e-12)
        assert narrow == pytest.approx(mu, abs=1e-3)
        assert not U[:, K:].any()
    assert alpha.sum() - (W**2).sum() > 0


@pytest.mark.parametrize("m", [*range(1, 10), 13])
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_added_and_measured(form, m):
    X, rows, *_ = problem(1, form, m=m, n=9)
    A = lifted(X)
    assert square_lengths(rows, SCALE) == pytest.approx((A**2).sum(axis=1), rel=1e-14)
    w, chosen, amounts = np.ones(m + 1), np.array([4, 0, 4]), np.array([0.5, -2.0, 1.0])
    add_rows(rows, SCALE, chosen, amounts, w)
    assert w == pytest.approx(1.0 + amounts @ A[chosen], rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("length", range(1, 10))
def test_a_step_of_a_climb_is_exact(length):
    """One sample alone: a step ends at slope 0 or at its cap, and a pass more finds nothing to do."""
    x = np.random.default_rng(length).normal(size=(1, length))
    rows, a, one = as_rows(x), np.append(SCALE * x, 1.0), np.ones(1)
    start = np.random.default_rng(1).normal(size=length + 1)
    for cap in (0.05, 50.0):
        w, alpha = start.copy(), np.zeros(1)
        slope = 1.0 + a @ w
        made = climb_face(
            rows, SCALE, -one, cap * one, a @ a * one, np.zeros(1, dtype=np.int64), alpha, w, 1e-12, 9, 0,
        )  # fmt: skip
        assert alpha[0] == pytest.approx(min(max(2.0 * slope / (a @ a), 0.0), cap))
        assert w == pytest.approx(start - 0.5 * alpha[0] * a)
        assert made <= 2 or alpha[0] in (0.0, cap)


@pytest.mark.parametrize("m", [1, 3, 8, 13])
@pytest.mark.parametrize("form", FORMS)
def test_a_climb_ends_without_steep_slopes(form, m):
    """No slope is above the accuracy that a multiplier could follow, and one pass alone leaves more."""
    X, rows, y, caps, _ = problem(1, form, m=m, n=40)
    some = np.sort(np.random.default_rng(0).choice(40, 25, replace=False))
    A, labels, bounds = lifted(X)[some], y[some], caps[some, 0]
    squares = square_lengths(rows, SCALE)[some]

    def climbed(passes):
        alpha, w = np.zeros(25), np.zeros(m + 1)
        made = climb_face(rows, SCALE, labels, bounds, squares, some, alpha, w, 1e-7, passes, 3)
        return alpha, w, made

    alpha, w, made = climbed(100_000)
    assert made < 100_000
    assert ((alpha >= 0) & (alpha <= bounds)).all()
    assert w == pytest.approx(0.5 * (alpha * labels) @ A, abs=1e-9)
    slope = 1.0 - labels * (A @ w)
    assert slope[alpha < bounds].max(initial=-np.inf) <= 1e-6
    assert -slope[alpha > 0].min(initial=np.inf) <= 1e-6
    early, at, one = climbed(1)
    assert one == 1
    assert early.sum() - at @ at < alpha.sum() - w @ w


def test_a_climb_in_parts_is_the_same(monkeypatch):
    """Calls of one pass each, as large data have them, give the same bits."""
    X, rows, y, caps, _ = problem(1, "packed", n=40)
    squares, everything = square_lengths(rows, SCALE), np.arange(40)
    found = []
    for entries in (1 << 26, 1):
        monkeypatch.setattr("polyopt.certificates.coordinate_kernels._ENTRIES_PER_CALL", entries)
        alpha, w = np.zeros(40), np.zeros(X.shape[1] + 1)
        made = climb_face(rows, SCALE, y, caps[:, 0].copy(), squares, everything, alpha, w, 1e-9, 500, 7)
        found.append((made, alpha.tobytes(), w.tobytes()))
    assert found[0] == found[1]


def test_a_climb_over_no_samples_ends():
    rows, none, w = as_rows(np.ones((2, 3))), np.zeros(0), np.ones(4)
    assert climb_face(rows, 1.0, none, none, none, np.arange(0), none, w, 0.0, 5, 0) == 1
    assert w.tolist() == [1.0] * 4


@pytest.mark.parametrize("form", FORMS)
def test_a_pass_over_pairs_is_plain_loops(form):
    """Pairs beyond the resting slope of their face fall asleep; the others make the exact step."""
    X, rows, y, caps, _ = problem(3, form, n=20)
    rng, A, caps = np.random.default_rng(1), lifted(X), caps[:, 0].copy()
    chosen, faces, at = (rng.permutation(np.repeat(np.arange(20), 3)), rng.integers(0, 3, 60), np.arange(60))
    alpha = np.where(rng.random(60) < 0.5, 0.0, 1.0) * caps[chosen]
    W, awake, rests, worst = (
        rng.normal(size=(3, 6)),
        np.ones(60, bool),
        np.array([0.3, 1.0, 9.0]),
        np.zeros(3),
    )
    squares = square_lengths(rows, SCALE)
    mu, V, asleep, most = alpha.copy(), W.copy(), [], np.zeros(3)
    for i, k, j in zip(chosen, faces, at, strict=True):
        slope = 1.0 - y[i] * (A[i] @ V[k])
        if (mu[j] <= 0 and slope < -rests[k]) or (mu[j] >= caps[i] and slope > rests[k]):
            asleep.append(j)
            continue
        most[k] = max(most[k], slope if mu[j] < caps[i] else 0.0, -slope if mu[j] > 0 else 0.0)
        after = min(max(mu[j] + 2 * slope / squares[i], 0.0), caps[i])
        V[k] += 0.5 * y[i] * (after - mu[j]) * A[i]
        mu[j] = after
    _climb_pairs(*parts(rows), SCALE, y, caps, squares, chosen, faces, at, alpha, awake, W, rests, worst)
    assert np.flatnonzero(~awake).tolist() == asleep
    assert 0 < len(asleep) < 60
    assert alpha == pytest.approx(mu, abs=1e-11)
    assert pytest.approx(V, abs=1e-11) == W
    assert worst == pytest.approx(most, abs=1e-11)
