"""Coordinate ascent on the faces of a polytope: kernels against plain loops, state against definitions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.cpm import clusters

from polyopt.certificates.coordinate import FaceAscent
from polyopt.certificates.coordinate_kernels import climb_face, scan_kernel, sweep_kernel
from polyopt.rows import as_rows

SCALE = 0.5


def problem(K, form, seed=0, n=36, m=5):
    """Samples, their rows, labels, caps, and an assignment that leaves the last face without positives."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) * (1.0 if form == "full" else rng.random((n, m)) < 0.6)
    if form == "bytes":
        X = rng.integers(0, 9, (n, m)).astype(np.uint8)
    y = rng.choice([-1.0, 1.0], n)
    caps = np.broadcast_to((rng.uniform(0.1, 2.0, n) * (rng.random(n) < 0.8))[:, None], (n, K + 1))
    z = np.where(y > 0, rng.integers(0, max(K - 1, 1), n), 0)
    return X, as_rows(X), y, caps, z


def lifted(X, scale=SCALE):
    return np.column_stack([scale * X.astype(float), np.ones(len(X))])


def parts(rows):
    return rows.values, rows.columns, rows.starts, rows.shared


@pytest.mark.parametrize("form", ["full", "sparse", "bytes"])
@pytest.mark.parametrize("K", [1, 3])
def test_a_scan_agrees_with_plain_loops(K, form):
    """A scan scores positives prices negatives and lists those that are near."""
    X, rows, y, caps, _ = problem(K, form)
    n, faces = len(y), np.arange(K + 1)[-K:]  # all of more faces but the first
    W = np.random.default_rng(1).normal(size=(K + 1, X.shape[1] + 1))
    slots = np.cumsum(y > 0) - 1
    U = np.zeros((X.shape[1] + 1, 8))
    U[:, :K], U[-1, K:] = W[faces].T, -1e30
    scores, inside = np.full((int((y > 0).sum()), K + 1), np.nan), np.zeros(K + 1)
    found, owners = np.empty((2, n * K), dtype=np.int32)
    first, last, reach = 3, n - 2, -1.1
    used = scan_kernel(8)(
        *parts(rows), SCALE, U, faces, first, last, y, caps, slots, reach, scores, inside, found, owners
    )
    s = lifted(X) @ W.T
    seen = (np.arange(n) >= first) & (np.arange(n) < last)
    for i in np.flatnonzero(y > 0):
        assert scores[slots[i], 1:] == pytest.approx(s[i, 1:] if seen[i] else np.nan, nan_ok=True)
    near = {
        (i, k) for i in np.flatnonzero((y < 0) & seen) for k in faces if s[i, k] > reach and caps[i, k] > 0
    }
    assert {*zip(found[:used].tolist(), owners[:used].tolist(), strict=True)} == near
    assert used == len(near)
    for k in faces:
        own = (y < 0) & seen
        assert inside[k] == pytest.approx(caps[own, k] @ np.maximum(0.0, 1.0 + s[own, k]))


@pytest.mark.parametrize("form", ["full", "sparse", "bytes"])
@pytest.mark.parametrize("K", [1, 3])
def test_a_sweep_makes_the_exact_step_on_every_multiplier_in_turn(K, form):
    """Each step is the best along its coordinate; a positive has one, on its own face."""
    X, rows, y, caps, z = problem(K, form, seed=2)
    order = np.random.default_rng(3).permutation(len(y))
    A, squares = lifted(X), (lifted(X) ** 2).sum(axis=1)
    U, alpha = np.zeros((X.shape[1] + 1, 8)), np.zeros((len(y), K))
    W, mu = np.zeros((K, X.shape[1] + 1)), np.zeros((len(y), K))
    for _ in range(2):
        sweep_kernel(8)(*parts(rows), SCALE, y, caps, squares, order, z, U, alpha)
        for i in order:
            for k in [z[i]] if y[i] > 0 else range(K):
                slope = 1.0 - y[i] * (A[i] @ W[k])
                after = min(max(mu[i, k] + 2.0 * slope / squares[i], 0.0), caps[i, 0])
                W[k] += 0.5 * y[i] * (after - mu[i, k]) * A[i]
                mu[i, k] = after
        assert alpha == pytest.approx(mu, abs=1e-12)
        assert U[:, :K].T == pytest.approx(W, abs=1e-12)
    assert alpha.sum() - (W**2).sum() > 0


@pytest.mark.parametrize("length", range(1, 10))
def test_a_step_of_a_climb_is_exact_whatever_the_length_of_a_row(length):
    """One sample alone: a step ends at slope 0 or at its cap, and a pass more finds nothing to do."""
    x = np.random.default_rng(length).normal(size=(1, length))
    rows, a, one = as_rows(x), np.append(SCALE * x, 1.0), np.ones(1)
    start = np.random.default_rng(1).normal(size=length + 1)
    for cap in (0.05, 50.0):
        w, alpha = start.copy(), np.zeros(1)
        slope = 1.0 + a @ w
        made = climb_face(
            *parts(rows), SCALE, -one, cap * one, a @ a * one, np.zeros(1, dtype=np.int64), alpha, w,
            1e-12, 9, 0,
        )  # fmt: skip
        assert alpha[0] == pytest.approx(min(max(2.0 * slope / (a @ a), 0.0), cap))
        assert w == pytest.approx(start - 0.5 * alpha[0] * a)
        assert made <= 2 or alpha[0] in (0.0, cap)


@pytest.fixture
def ascent():
    """Faces of which the last two have no positives and, as costs are alike, the same program."""
    X, y, directions = clusters(60, 3, 0, widen=1.5)
    C = np.random.default_rng(0).uniform(0.3, 2.0, 60)
    z = np.where(y > 0, (X @ directions.T).argmax(axis=1), -1)
    caps = np.broadcast_to(C[:, None], (60, 5))
    return FaceAscent(as_rows(X), y, caps, z), lifted(X, 1.0), y, C, z


def values(A, y, C, z, W, alpha):
    """Primal and dual value of every face, by their definitions."""
    hinge = np.maximum(0.0, 1.0 - y[:, None] * (A @ W.T))
    answers = (y < 0)[:, None] | (z[:, None] == np.arange(len(W)))
    primal = (W**2).sum(axis=1) + C @ (hinge * answers)
    pull = 0.5 * (alpha * y[:, None]).T @ A
    return primal, alpha.sum(axis=0) - (pull**2).sum(axis=1)


def run(of, tol):
    of.sweep(times=2)
    of.scan()
    while of.gap > tol:
        of.climb(tol)
        of.scan()


def test_values_after_a_scan_are_those_of_the_faces(ascent):
    of, A, y, C, z = ascent
    run(of, 1e-4)
    primal, dual = values(A, y, C, z, of.W, of.alpha)
    assert of.primal == pytest.approx(primal, rel=1e-12)
    assert of.dual == pytest.approx(dual, rel=1e-12)
    assert of.gap <= 1e-4
    assert of.check() == pytest.approx(of.gap)
    assert (of.W[3] == of.W[4]).all()
    assert (of.alpha[:, 3] == of.alpha[:, 4]).all()
    own = 0.5 * of.alpha[np.arange(60), np.maximum(z, 0)] * (A**2).sum(axis=1)
    assert of.own_pull() == pytest.approx(own[y > 0])
    assert of.inside == pytest.approx(of.primal - (of.W**2).sum(axis=1) - [
        C[z == k] @ np.maximum(0.0, 1.0 - A[z == k] @ of.W[k]) for k in range(5)
    ])  # fmt: skip


def test_a_face_whose_gap_is_closed_is_left_alone(ascent):
    of, *_ = ascent
    run(of, 1e-6)
    before = of.alpha.copy()
    of.climb(1e-2)
    assert of.active == 0
    assert (of.alpha == before).all()
    # One that is open is climbed, and no other: with a tolerance between its gap and theirs.
    gaps = (of.primal - of.dual) / (of.primal + of.primal.mean())
    k = int(gaps[:4].argmax())
    of.climb(2.0 * np.sort(gaps[:4])[-2:].mean())
    changed = np.flatnonzero((of.alpha != before).any(axis=0))
    assert of.active > 0
    assert set(changed.tolist()) <= {k}


def test_a_reassigned_positive_loses_its_multiplier(ascent):
    """A positive that changes its face takes its multiplier off the old one."""
    of, A, y, C, z = ascent
    run(of, 1e-3)
    moved = np.flatnonzero((z == 0) & (of.alpha[:, 0] > 0))[:3]
    other = z.copy()
    other[moved] = [1, 1, 3][: len(moved)]
    before = of.alpha.copy()
    of.reassign(other)
    assert (of.alpha[moved] == 0).all()
    keep = ~np.isin(np.arange(60), moved)
    assert (of.alpha[keep] == before[keep]).all()
    of.scan()
    primal, dual = values(A, y, C, other, of.W, of.alpha)
    assert of.primal == pytest.approx(primal, rel=1e-9)
    assert of.dual == pytest.approx(dual, rel=1e-9)
    run(of, 1e-6)
    fresh = FaceAscent(as_rows(A[:, :-1]), y, np.broadcast_to(C[:, None], (60, 5)), other)
    run(fresh, 1e-6)
    assert of.dual == pytest.approx(fresh.dual, rel=1e-5)


def test_multipliers_to_begin_from_are_made_feasible(ascent):
    of, A, y, C, z = ascent
    given = 2.0 * np.random.default_rng(5).random((60, 5)) * C[:, None] - 0.1
    of.begin_from(given)
    answers = (y < 0)[:, None] | (z[:, None] == np.arange(5))
    held = np.clip(given, 0.0, C[:, None]) * answers
    assert (of.alpha[:, :4] == held[:, :4]).all()
    assert (of.alpha[:, 4] == of.alpha[:, 3]).all()  # the faces without positives are one
    assert of.W == pytest.approx(0.5 * (of.alpha * y[:, None]).T @ A)
    for wrong in (np.ones((1, 60, 5)), np.where(given > 0, np.nan, given)):
        with pytest.raises(ValueError, match="alpha must be finite, of shape"):
            of.begin_from(wrong)
