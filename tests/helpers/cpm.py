"""Data for the proofs of the Convex Polytope Machine."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.c_parts import kernel

from formulations import cpm
from polyopt.cpm.global_search.assignment_tree import moves_for, node_for
from polyopt.cpm.global_search.face import Samples, caps_of, climb, dual_value, hyperplane

LOSSES = ["sum", "max"]
INSIDE, NPOS, WIDTH, FACES = 4, 6, 3, 4  # of a drawn node


def clusters(n, K, seed, widen=1.0):
    """Negatives around the origin, positives in K clusters around them; the clusters' directions."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(K) / K + 0.3
    directions = np.c_[np.cos(angles), np.sin(angles)]
    X = 2.0 * directions[rng.integers(0, K, n // 2)] + rng.normal(size=(n // 2, 2)) * 0.55
    X = np.r_[X, widen * 0.6 * rng.normal(size=(n - n // 2, 2))]
    return X, np.r_[np.ones(n // 2), -np.ones(n - n // 2)], directions


def face_value(X, y, costs):
    """The optimum of one face by coordinate ascent: a dual value, with a primal one close to it."""
    A = cpm.lift(X) * y[:, None]
    data = Samples(A, (A * A).sum(axis=1), costs, 0)
    a, w = np.zeros(len(y)), np.zeros(A.shape[1])
    climb(data, np.zeros(len(y)), costs, a, w, 200_000, np.inf, 1e-15)
    hyperplane(data, a, w)
    primal = w @ w + costs @ np.maximum(0.0, 1.0 - A @ w)
    dual = dual_value(a, w)
    assert primal == pytest.approx(dual, rel=1e-5, abs=1e-9)
    return dual


def brute_force(X, y, C, K):
    """The least sum of face optima over all assignments."""
    positives = np.flatnonzero(y > 0)
    C = np.broadcast_to(C, y.shape)
    negatives = np.where(y < 0, C, 0.0)
    values = {}

    def value(subset):
        if subset not in values:
            costs = negatives.copy()
            costs[list(subset)] = C[list(subset)]
            values[subset] = face_value(X, y, costs)
        return values[subset]

    best = np.inf
    for z in itertools.product(range(K), repeat=len(positives)):
        if all(z[i] <= max(z[:i], default=-1) + 1 for i in range(len(z))):  # one of each renaming
            best = min(best, sum(value(tuple(positives[np.array(z) == k])) for k in range(K)))
    return best


def drawn_node(seed):
    """Samples, negatives first, and a node of them with faces allowed at random, at least one to each."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(INSIDE + NPOS, WIDTH))
    data = Samples(A, (A * A).sum(axis=1), rng.uniform(0.5, 2.0, INSIDE + NPOS), INSIDE)
    node = node_for(data, FACES, rng.permutation(NPOS))
    node.allowed[:] = rng.random((NPOS, FACES)) < 0.5
    node.allowed[np.arange(NPOS), rng.integers(0, FACES, NPOS)] = True
    return rng, data, node


def half_assigned(seed):
    """Faces with two positives of six assigned, raised a little, and room for the moves of the others."""
    rng, data, _ = drawn_node(seed)
    n, faces = len(data.C), 2
    caps, alpha, W = np.zeros((faces, n)), np.zeros((faces, n)), np.zeros((faces, WIDTH))
    for k in range(faces):
        caps_of(data, np.array([0, 1, -1, -1, -1, -1]), k, caps[k])
        climb(data, np.zeros(n), caps[k], alpha[k], W[k], 3, np.inf, 0.0)
        hyperplane(data, alpha[k], W[k])
    return rng, data, caps, alpha, W, moves_for(NPOS, n, WIDTH, faces)


_add_up = kernel(
    "cpm_add_up",
    "data: Samples; caps: f8 (K, n); alpha: f8 (K, n); W: f8 (K, d); moves: Moves; allowed: b1 (p, K); "
    "order: i8 (r); used: i8; enough: f8; block: f8 (b)",
    returns="f8",
)


def add_up(data, caps, alpha, W, moves, allowed, order, used, enough):
    """Sum the increases of the bound by the positives in `order`: Σ_i min_k (...) of the theorem of the tree.

    `allowed` (npos, K) are the faces, among the first `used`, that each may go to; :func:`try_move` has been
    called for them. The sum ends early once it is `enough`.
    """
    block = np.zeros(100_000)  # room for any small node
    return float(_add_up(data, caps, alpha, W, moves, allowed, order, used, enough, block))
