"""Coordinate ascent on the faces of a polytope in C: equal to plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, length, pick, rows_anywhere

from formulations.language.types import dense
from polyopt.linalg.rows import as_rows, in_lanes
from polyopt.optim.coordinate_ascent import _copies, _scan, _sweep, add_rows, climb_face, square_lengths

SCALE = 0.5
MOST_PASSES = 10_000
FORMS = {
    "dense": (np.float64, 1.0),
    "single": (np.float32, 1.0),
    "bytes": (np.uint8, 1.0),
    "packed": (np.float64, 0.4),
    "packed single": (np.float32, 0.4),
    "packed bytes": (np.uint8, 0.4),
}


def problem(K, form, seed=0, n=36, m=5):
    """Samples, rows, labels, caps (n, K), and an assignment that leaves the last face without positives.

    seed: a number, or a generator.
    """
    rng = np.random.default_rng(seed)
    dtype, share = FORMS[form]
    X = rng.integers(1, 9, (n, m)) if dtype == np.uint8 else rng.normal(size=(n, m))
    X = (X * (rng.random((n, m)) < share)).astype(dtype)
    y = rng.choice([-1.0, 1.0], n)
    caps = rng.uniform(0.1, 2.0, (n, K)) * (rng.random((n, K)) < 0.8)
    z = np.where(y > 0, rng.integers(0, max(K - 1, 1), n), 0)
    rows = rows_anywhere(rng, X)
    return X.astype(float), rows, anywhere(rng, y), anywhere(rng, caps), anywhere(rng, z)


def assert_near(found, expected, *, rel=0.0, abs=0.0):
    """As pytest.approx, which is slow for many arrays."""
    np.testing.assert_allclose(found, expected, rtol=rel, atol=abs)


def lifted(X):
    return np.column_stack([SCALE * X, np.ones(len(X))])


def parts(rows):
    return rows.values, rows.columns, rows.starts, rows.shared


@pytest.mark.parametrize("single", [False, True], ids=["double weights", "single weights"])
@pytest.mark.parametrize("K", [1, 3, 9, 70])
@pytest.mark.parametrize("form", FORMS)
def test_a_scan_agrees_with_numpy(form, K, single):
    """Positives are scored; negatives are priced and, where near, listed; faces may be some of all."""
    check_scan(np.random.default_rng(0), form, K, single, 36, 5)


def check_scan(rng, form, K, single, n, m):
    X, rows, y, caps, _ = problem(K + 1, form, rng, n, m)
    first, last = np.sort(rng.integers(0, n + 1, 2)).tolist()
    faces, W = np.arange(1, K + 1), rng.normal(size=(K + 1, m + 1))
    slots = np.cumsum(y > 0) - 1
    U = anywhere(rng, in_lanes(W[1:], np.float32 if single else np.float64))
    scores, inside = np.full((int((y > 0).sum()), K + 1), np.nan), np.zeros(K + 1)
    pairs, out = np.empty((2, n * K), dtype=np.int32), anywhere(rng, np.empty_like(U[0]))
    used = _scan(*parts(rows), SCALE, U, faces, first, last, y, caps, slots, -1.1, scores, inside, pairs, out)
    s, C = lifted(X) @ W.T, caps
    seen = np.zeros(n, dtype=bool)
    seen[first:last] = True
    close = {"rel": 1e-4, "abs": 1e-4} if single else {"rel": 1e-12, "abs": 1e-12}
    expected = np.where(seen[y > 0, None] & (np.arange(K + 1) > 0), s[y > 0], np.nan)
    assert_near(scores, expected, **close)
    own = (y < 0) & seen
    assert_near(inside[1:], (C * np.maximum(0.0, 1.0 + s))[own].sum(axis=0)[1:], **close)
    listed = {*zip(*pairs[:, :used].tolist(), strict=True)}
    assert used == len(listed)
    reach = 1.1 - (1e-4 if single else 1e-12)  # scores next to it are listed or not
    sure, near = (
        {(i, k) for i in np.flatnonzero(own) for k in faces if s[i, k] > -at and C[i, k] > 0}
        for at in (reach, 2.2 - reach)
    )
    assert sure <= listed <= near


@drawn_calls("ascent_scan")
def test_drawn_scans(rng):
    """Drawn lengths, types and values."""
    check_scan(
        rng, pick(rng, FORMS), pick(rng, [1, 2, 3, 9, 70]), rng.random() < 0.5, length(rng), length(rng)
    )


@pytest.mark.parametrize("K", [1, 3, 9, 70])
@pytest.mark.parametrize("form", FORMS)
def test_a_sweep_steps_on_every_multiplier(form, K):
    """Each step is the best along its coordinate; a positive has one, on its own face."""
    alpha, W = check_sweep(np.random.default_rng(2), form, K, 36, 5)
    assert alpha.sum() - (W**2).sum() > 0


def check_sweep(rng, form, K, n, m):
    """Make two sweeps in either precision, and return the multipliers and the faces."""
    X, rows, y, caps, z = problem(K, form, rng, n, m)
    order = anywhere(rng, rng.permutation(n))
    A, squares, C = lifted(X), (lifted(X) ** 2).sum(axis=1), caps
    U, alpha = anywhere(rng, in_lanes(np.zeros((K, m + 1)))), anywhere(rng, np.zeros((n, K)))
    W, mu, work = np.zeros((K, m + 1)), np.zeros((n, K)), anywhere(rng, np.zeros((2, U.shape[1])))
    single, narrow = U.astype(np.float32), alpha.copy()
    for _ in range(2):
        _sweep(*parts(rows), SCALE, y, caps, squares, order, z, U, alpha, work)
        _sweep(*parts(rows), SCALE, y, caps, squares, order, z, single, narrow, work.astype(np.float32))
        for i in order:
            for k in [z[i]] if y[i] > 0 else range(K):
                slope = 1.0 - y[i] * (A[i] @ W[k])
                after = min(max(mu[i, k] + 2.0 * slope / squares[i], 0.0), C[i, k])
                W[k] += 0.5 * y[i] * (after - mu[i, k]) * A[i]
                mu[i, k] = after
        assert_near(alpha, mu, abs=1e-12)
        assert_near(U[:, :K].T, W, abs=1e-12)
        assert_near(narrow, mu, abs=1e-3)
        assert not U[:, K:].any()
    return alpha, W


@drawn_calls("ascent_sweep")
def test_drawn_sweeps(rng):
    """Drawn lengths, types and values."""
    check_sweep(rng, pick(rng, FORMS), pick(rng, [1, 2, 3, 9]), length(rng, 15), length(rng, 15))


@pytest.mark.parametrize("m", [*range(1, 10), 13])
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_added_and_measured(form, m):
    """Sums of rows and their square norms are numpy's."""
    check_rows(np.random.default_rng(m), form, 9, m, 3)


def check_rows(rng, form, n, m, r):
    """Square lengths, sums and copies of r chosen rows."""
    X, rows, *_ = problem(1, form, rng, n, m)
    A, chosen = lifted(X), anywhere(rng, rng.integers(0, n, r if n else 0))
    assert_near(square_lengths(rows, SCALE), (A**2).sum(axis=1), rel=1e-14)
    w, amounts = anywhere(rng, np.ones(m + 1)), anywhere(rng, rng.normal(size=len(chosen)))
    add_rows(rows, SCALE, chosen, amounts, w)
    assert_near(w, 1.0 + amounts @ A[chosen], rel=1e-13, abs=1e-12)
    assert np.array_equal(dense(_copies(rows, chosen).matrix()), X[chosen])


@drawn_calls("square_lengths", "add_rows", "copy_rows")
def test_drawn_rows(rng):
    """Drawn lengths, types and values."""
    check_rows(
        rng, pick(rng, ["packed", "packed single", "packed bytes"]), length(rng), length(rng), length(rng)
    )
    check_rows(rng, pick(rng, FORMS), length(rng), length(rng), length(rng))


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
    alpha, w, made, climbed = check_climb(np.random.default_rng(0), form, 40, m, 25)
    assert made < MOST_PASSES
    early, at, one = climbed(1)
    assert one == 1
    assert early.sum() - at @ at < alpha.sum() - w @ w


def check_climb(rng, form, n, m, r):
    """Climb over r samples, and check the point; of rows that nearly depend, an optimum takes too long."""
    X, rows, y, caps, _ = problem(1, form, rng, n, m)
    some = anywhere(rng, np.sort(rng.choice(n, r, replace=False)))
    A, labels, bounds = lifted(X)[some], anywhere(rng, y[some]), anywhere(rng, caps[some, 0])
    squares = anywhere(rng, square_lengths(rows, SCALE)[some])

    def climbed(passes):
        alpha, w = anywhere(rng, np.zeros(r)), anywhere(rng, np.zeros(m + 1))
        made = climb_face(rows, SCALE, labels, bounds, squares, some, alpha, w, 1e-7, passes, 3)
        return alpha, w, made

    alpha, w, made = climbed(MOST_PASSES)
    assert ((alpha >= 0) & (alpha <= bounds)).all()
    assert_near(w, 0.5 * (alpha * labels) @ A, abs=1e-9)
    if made < MOST_PASSES:
        slope = 1.0 - labels * (A @ w)
        assert slope[alpha < bounds].max(initial=-np.inf) <= 1e-6
        assert -slope[alpha > 0].min(initial=np.inf) <= 1e-6
    return alpha, w, made, climbed


@drawn_calls("climb_face")
def test_drawn_climbs(rng):
    """Drawn lengths, types and values."""
    n = length(rng)
    check_climb(rng, pick(rng, FORMS), n, length(rng), int(rng.integers(0, n + 1)))


def test_a_climb_in_parts_is_the_same():
    """Calls of one pass each, as large data have them, give the same bits."""
    X, rows, y, caps, _ = problem(1, "packed", n=40)
    squares, everything = square_lengths(rows, SCALE), np.arange(40)
    found = []
    for entries in (1 << 26, 1):
        alpha, w = np.zeros(40), np.zeros(X.shape[1] + 1)
        made = climb_face(
            rows, SCALE, y, caps[:, 0].copy(), squares, everything, alpha, w, 1e-9, 500, 7, entries
        )
        found.append((made, alpha.tobytes(), w.tobytes()))
    assert found[0] == found[1]


def test_climb_over_no_samples_ends():
    """Without a step."""
    rows, none, w = as_rows(np.ones((2, 3))), np.zeros(0), np.ones(4)
    assert climb_face(rows, 1.0, none, none, none, np.arange(0), none, w, 0.0, 5, 0) == 1
    assert w.tolist() == [1.0] * 4
