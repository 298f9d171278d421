"""Coordinate ascent on the faces of a polytope in C: equal to plain loops."""

import numpy as np
import pytest
from helpers.draws import FORMS, anywhere, drawn_calls, rows_anywhere

from formulations.language.types import dense
from polyopt.linalg.rows import as_rows, in_lanes
from polyopt.optim.coordinate_ascent import add_rows, climb_face, copied_rows, scan, square_lengths, sweep

SCALE = 0.5
MOST_PASSES = 10_000


def problem(rng, form, K, n, m):
    """Samples, rows, labels, caps (n, K), and an assignment that leaves the last face without positives."""
    dtype, share = FORMS[form]
    X = rng.integers(1, 9, (n, m)) if dtype == np.uint8 else rng.normal(size=(n, m))
    X = (X * (rng.random((n, m)) < share)).astype(dtype)
    y = rng.choice([-1.0, 1.0], n)
    caps = rng.uniform(0.1, 2.0, (n, K)) * (rng.random((n, K)) < 0.8)
    z = np.where(y > 0, rng.integers(0, max(K - 1, 1), n), 0)
    return X.astype(float), rows_anywhere(rng, X), *anywhere(rng, y, caps, z)


def assert_near(found, expected, *, rel=0.0, abs=0.0):
    """As pytest.approx, which is slow for many arrays."""
    np.testing.assert_allclose(found, expected, rtol=rel, atol=abs)


def lifted(X):
    return np.column_stack([SCALE * X, np.ones(len(X))])


@drawn_calls(
    "ascent_scan", form=FORMS, K=[1, 2, 3, 9, 70], dtype=[np.float32, np.float64], n=range(36), m=range(36)
)
def test_scan_agrees_with_numpy(rng, form, K, dtype, n, m):
    """Positives are scored; negatives are priced and, where near, listed; faces may be some of all."""
    X, rows, y, caps, _ = problem(rng, form, K + 1, n, m)
    first, last = np.sort(rng.integers(0, n + 1, 2)).tolist()
    faces, W = np.arange(1, K + 1), rng.normal(size=(K + 1, m + 1))
    slots = np.cumsum(y > 0) - 1
    U = anywhere(rng, in_lanes(W[1:], dtype))
    scores, inside = np.full((int((y > 0).sum()), K + 1), np.nan), np.zeros(K + 1)
    pairs, out = np.empty((2, n * K), dtype=np.int32), anywhere(rng, np.empty_like(U[0]))
    used = scan(*rows[:4], SCALE, U, faces, first, last, y, caps, slots, -1.1, scores, inside, pairs, out)
    s, near = lifted(X) @ W.T, 1e-4 if dtype == np.float32 else 1e-12
    is_seen = (np.arange(n) >= first) & (np.arange(n) < last)
    expected = np.where(is_seen[y > 0, None] & (np.arange(K + 1) > 0), s[y > 0], np.nan)
    assert_near(scores, expected, rel=near, abs=near)
    own = (y < 0) & is_seen
    assert_near(inside[1:], (caps * np.maximum(0.0, 1.0 + s))[own].sum(axis=0)[1:], rel=near, abs=near)
    listed = {*zip(*pairs[:, :used].tolist(), strict=True)}
    assert used == len(listed)
    sure, possible = (  # scores next to the threshold are listed or not
        {(i, k) for i in np.flatnonzero(own) for k in faces if s[i, k] > -reach and caps[i, k] > 0}
        for reach in (1.1 - near, 1.1 + near)
    )
    assert sure <= listed <= possible


@drawn_calls("ascent_sweep", form=FORMS, K=[1, 2, 3, 9, 70], n=range(36), m=range(16))
def test_sweep_steps_on_every_multiplier(rng, form, K, n, m):
    """Each step is the best along its coordinate; a positive has one, on its own face."""
    X, rows, y, caps, z = problem(rng, form, K, n, m)
    order = anywhere(rng, rng.permutation(n))
    A, squares = lifted(X), (lifted(X) ** 2).sum(axis=1)
    U, alpha = anywhere(rng, in_lanes(np.zeros((K, m + 1))), np.zeros((n, K)))
    W, mu, work = np.zeros((K, m + 1)), np.zeros((n, K)), anywhere(rng, np.zeros((2, U.shape[1])))
    single, narrow = U.astype(np.float32), alpha.copy()
    for _ in range(2):
        sweep(*rows[:4], SCALE, y, caps, squares, order, z, U, alpha, work)
        sweep(*rows[:4], SCALE, y, caps, squares, order, z, single, narrow, work.astype(np.float32))
        for i in order:
            for k in [z[i]] if y[i] > 0 else range(K):
                slope = 1.0 - y[i] * (A[i] @ W[k])
                after = min(max(mu[i, k] + 2.0 * slope / squares[i], 0.0), caps[i, k])
                W[k] += 0.5 * y[i] * (after - mu[i, k]) * A[i]
                mu[i, k] = after
        assert_near(alpha, mu, abs=1e-12)
        assert_near(U[:, :K].T, W, abs=1e-12)
        assert_near(narrow, mu, abs=1e-3)
        assert not U[:, K:].any()


@drawn_calls("square_lengths", "add_rows", "copy_rows", form=FORMS, n=range(36), m=[*range(10), 13, 34])
def test_rows_are_added_and_measured(rng, form, n, m):
    """Square lengths, sums and copies of chosen rows are numpy's."""
    X, rows, *_ = problem(rng, form, 1, n, m)
    A, chosen = lifted(X), anywhere(rng, rng.integers(0, n, min(n, 5)))
    assert_near(square_lengths(rows, SCALE), (A**2).sum(axis=1), rel=1e-14)
    w, amounts = anywhere(rng, np.ones(m + 1), rng.normal(size=len(chosen)))
    add_rows(rows, SCALE, chosen, amounts, w)
    assert_near(w, 1.0 + amounts @ A[chosen], rel=1e-13, abs=1e-12)
    assert np.array_equal(dense(copied_rows(rows, chosen).matrix()), X[chosen])


@pytest.mark.parametrize("cap", [0.05, 50.0])
@pytest.mark.parametrize("m", range(1, 10))
def test_step_of_a_climb_is_exact(m, cap):
    """One sample alone: a step ends at slope 0 or at its cap, and a pass more finds nothing to do."""
    x = np.random.default_rng(m).normal(size=(1, m))
    a, one, start = np.append(SCALE * x, 1.0), np.ones(1), np.random.default_rng(1).normal(size=m + 1)
    w, alpha, slope = start.copy(), np.zeros(1), 1.0 + a @ start
    squares, chosen = a @ a * one, np.zeros(1, dtype=np.int64)
    made = climb_face(as_rows(x), SCALE, -one, cap * one, squares, chosen, alpha, w, 1e-12, 9, 0)
    assert alpha[0] == pytest.approx(min(max(2.0 * slope / (a @ a), 0.0), cap))
    assert w == pytest.approx(start - 0.5 * alpha[0] * a)
    assert made <= 2 or alpha[0] in (0.0, cap)


@drawn_calls("climb_face", form=FORMS, n=range(41), m=[0, 1, 3, 8, 13])
def test_climb_ends_without_steep_slopes(rng, form, n, m):
    """No slope is above the accuracy that a multiplier could follow, and one pass alone proves less."""
    X, rows, y, caps, _ = problem(rng, form, 1, n, m)
    some = anywhere(rng, np.sort(rng.choice(n, 5 * n // 8, replace=False)))
    A = lifted(X)[some]
    labels, bounds, squares = anywhere(rng, y[some], caps[some, 0], square_lengths(rows, SCALE)[some])

    def climbed(passes):
        alpha, w = anywhere(rng, np.zeros(len(some)), np.zeros(m + 1))
        made = climb_face(rows, SCALE, labels, bounds, squares, some, alpha, w, 1e-7, passes, 3)
        return alpha, w, made

    alpha, w, made = climbed(MOST_PASSES)
    assert ((alpha >= 0) & (alpha <= bounds)).all()
    assert_near(w, 0.5 * (alpha * labels) @ A, abs=1e-9)
    if made < MOST_PASSES:  # of rows that nearly depend, an optimum takes too long
        slope = 1.0 - labels * (A @ w)
        assert slope[alpha < bounds].max(initial=-np.inf) <= 1e-6
        assert -slope[alpha > 0].min(initial=np.inf) <= 1e-6
    early, v, one = climbed(1)
    assert one == 1
    assert early.sum() - v @ v < alpha.sum() - w @ w or n < 40 or m == 0


def test_climb_in_parts_is_the_same():
    """Calls of one pass each, as large data have them, give the same bits."""
    X, rows, y, caps, _ = problem(np.random.default_rng(0), "packed", 1, 40, 5)
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
