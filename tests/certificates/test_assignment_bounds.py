"""The bounds of the tree over assignments hold for real numbers: against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers.cpm import add_up

from polyopt.cpm.global_search.assignment_tree import moves_for, try_move
from polyopt.cpm.global_search.face import Samples, climb, dual_error, dual_value, hyperplane
from polyopt.cpm.global_search.search import solve_cpm_global

KINDS = ["plain", "offset", "scales", "grid", "costs"]


def drawn(kind, n=14, m=2, seed=0):
    """Data that are ordinary, far from the origin, of mixed scales, with repeats, or of mixed costs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, m))
    y = np.where(np.arange(n) % 3 > 0, -1.0, 1.0)
    C = rng.uniform(0.3, 3.0, n)
    if kind == "offset":
        X += 1e4
    if kind == "scales":
        X *= np.array([1e-5, 1e5])[:m]
    if kind == "grid":
        X = np.round(X)
    if kind == "costs":
        C = 10.0 ** rng.uniform(-8, 8, n)
    return X, y, C


def exact(array):
    return np.vectorize(lambda x: Fraction(float(x)), otypes=[object])(np.asarray(array, dtype=float))


def lifted(X):
    return exact(np.column_stack([X, np.ones(len(X))]))


def hinges(X, y, W):
    slack = 1 - exact(y)[:, None] * (lifted(X) @ exact(W).T)
    return np.vectorize(lambda t: max(t, Fraction(0)), otypes=[object])(slack)


def samples(kind, seed):
    X, y, C = drawn(kind, seed=seed)
    order = np.argsort(y, kind="stable")
    A = np.column_stack([X, np.ones(len(X))])[order] * y[order, None]
    return Samples(A, (A * A).sum(axis=1), C[order], int((y < 0).sum()))


def rational_dual(data, a):
    v = exact(a) @ exact(data.A) / 2
    return exact(a).sum() - (v**2).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_dual_value_is_within_its_error(kind):
    """The dual value of a leaf is the rational one up to its error."""
    data = samples(kind, 2)
    rng = np.random.default_rng(3)
    for power in (0, -4, -8):
        a = data.C * rng.random(len(data.C)) * 10.0**power
        w = np.empty(data.A.shape[1])
        hyperplane(data, a, w)
        off = abs(Fraction(dual_value(a, w)) - rational_dual(data, a))
        assert off <= Fraction(dual_error(data, a, w))


@pytest.mark.parametrize("kind", KINDS)
def test_additive_bound_is_within_its_error(kind):
    """The additive bound is off by no more than its error and keeps its boxes."""
    data = samples(kind, 4)
    (n, d), K, inside = data.A.shape, 2, data.inside
    npos = n - inside
    caps, alpha, W = np.zeros((K, n)), np.zeros((K, n)), np.zeros((K, d))
    moves = moves_for(npos, n, d, K)
    for k in range(K):
        caps[k, :inside] = data.C[:inside]
        caps[k, inside + k] = data.C[inside + k]  # one positive is on each face
        climb(data, np.zeros(n), caps[k], alpha[k], W[k], 20, np.inf, 0.0)
        hyperplane(data, alpha[k], W[k])
    free = np.arange(2, npos)
    for p in free:
        for k in range(K):
            gain, error = try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
            trial = alpha[k].copy()
            trial += moves.delta[p, k]
            room = float(abs(rational_dual(data, alpha[k]))) + abs(gain)
            off = abs(gain - float(rational_dual(data, trial) - rational_dual(data, alpha[k])))
            assert off <= error + dual_error(data, alpha[k], W[k]) + 1e-13 * room
    add_up(data, caps, alpha, W, moves, np.ones((npos, K), dtype=bool), free, K, np.inf)
    taken, A = exact(moves.joint_delta), exact(data.A)
    for k in range(K):
        for j in range(n):
            own = [p for p in free if inside + p != j]
            assert sum(max(taken[p, k, j], 0) for p in own) <= Fraction(caps[k, j]) - Fraction(alpha[k, j])
            assert sum(max(-taken[p, k, j], 0) for p in own) <= Fraction(alpha[k, j])
    e = {(p, k): taken[p, k] @ A for p in free for k in range(K)}
    slopes = [1 - A @ (exact(alpha[k]) @ A / 2) for k in range(K)]
    for place, p in enumerate(free):
        worth = []
        for k in range(K):
            charged = sum(max(e[r, k] @ e[p, k], 0) for r in free[:place])
            worth.append(taken[p, k] @ slopes[k] - (e[p, k] @ e[p, k]) / 4 - charged / 2)
        assert min(worth) >= Fraction(moves.increase[p]) - Fraction(moves.error[p])
    assert sum(moves.increase[free]) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_search_bound_is_below_its_point(kind):
    """The search's bound is below the rational value of its point."""
    X, y, C = drawn(kind, n=11)
    found = solve_cpm_global(X, y, C, 2, max_nodes=3000)
    hinge = hinges(X, y, found["W"])
    paid = np.array([min(row) if label > 0 else row.sum() for row, label in zip(hinge, y, strict=True)])
    value = (exact(found["W"]) ** 2).sum() + exact(C) @ paid
    assert 0 < Fraction(found.bound) < value
    if kind in ("plain", "grid"):
        assert float(value) - found.bound <= 1e-6 * float(value)
