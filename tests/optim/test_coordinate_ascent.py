"""Coordinate ascent on the faces of a polytope: state against definitions."""

import numpy as np
import pytest
from helpers.cpm import clusters

from polyopt.linalg.rows import as_rows
from polyopt.optim.coordinate_ascent import FaceAscent


def lifted(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.fixture
def ascent():
    """Faces of which the last two have no positives."""
    X, y, directions = clusters(60, 3, 0, widen=1.5)
    C = np.random.default_rng(0).uniform(0.3, 2.0, 60)
    z = np.where(y > 0, (X @ directions.T).argmax(axis=1), -1)
    caps = np.repeat(C[:, None], 5, axis=1)
    return FaceAscent(as_rows(X), y, caps, z), lifted(X), y, C, z


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


def test_scan_has_values_of_faces(ascent):
    """After a scan, primal and dual values, scores and losses are those of the faces by definition."""
    of, A, y, C, z = ascent
    run(of, 1e-4)
    primal, dual = values(A, y, C, z, of.W, of.alpha)
    assert of.primal == pytest.approx(primal, rel=1e-12)
    assert of.dual == pytest.approx(dual, rel=1e-12)
    assert of.gap <= 1e-4
    assert of.check() == pytest.approx(of.gap)
    assert of.dual[3] == pytest.approx(of.dual[4], rel=1e-3)
    own = 0.5 * of.alpha[np.arange(60), np.maximum(z, 0)] * (A**2).sum(axis=1)
    assert of.score_of_own_multiplier() == pytest.approx(own[y > 0])
    assert of.loss_on_negatives == pytest.approx(of.primal - (of.W**2).sum(axis=1) - [
        C[z == k] @ np.maximum(0.0, 1.0 - A[z == k] @ of.W[k]) for k in range(5)
    ])  # fmt: skip


def test_closed_faces_are_left_alone(ascent):
    """Only faces whose gap exceeds the tolerance are climbed."""
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


def test_reassigned_positive_loses_its_multiplier(ascent):
    """A positive that changes its face loses its multiplier, and the ascent goes on to the optimum."""
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
    fresh = FaceAscent(as_rows(A[:, :-1]), y, np.repeat(C[:, None], 5, axis=1), other)
    run(fresh, 1e-6)
    assert of.dual == pytest.approx(fresh.dual, rel=1e-5)
