"""Coupled faces: their dual against the explicit program, and what a node proves against every completion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.cases import in_turn

from formulations import cpm, cpm_worst
from polyopt.outer.cpm.prepared import by_distance, merge
from polyopt.solvers.cpm.bound import add_up, moves_for, try_move
from polyopt.solvers.cpm.coupled import price_coupled, raise_coupled, settle_coupled
from polyopt.solvers.cpm.coupled_node import aim, coupled_node_for, prove_coupled
from polyopt.solvers.cpm.coupled_rows import faces_for, of_face
from polyopt.solvers.cpm.explicit_coupled import solve_explicit_coupled
from polyopt.solvers.cpm.tree import Best, examine, paying

COUPLED = [("max", "total"), ("sum", "worst"), ("max", "worst")]


def drawn(seed, K=2, n=9, m=2):
    """Samples, some on a grid, some of which cost much: X, y, C and what the kernels take."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)) if seed % 2 else rng.integers(-2, 3, size=(n, m)).astype(float)
    y = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    C = rng.choice([0.3, 1.0, 10.0], size=n)
    return rng, X, y, C


def faces_of(X, y, C, K, loss, margin):
    data, merged = merge(X, y, C, np.random.default_rng(0))
    return faces_for(data, K, loss == "max", margin == "worst"), merged


def value(faces, W):
    return price_coupled(
        faces, np.ascontiguousarray(W), np.zeros(len(faces.C) - faces.inside, dtype=np.int64)
    )


def cost_of(faces, face, W):
    """What faces cost when each positive is held to its own, by hand."""
    inside, squares = faces.inside, (W**2).sum(axis=1)
    hinge = np.maximum(0.0, 1.0 - faces.given.A @ W.T)
    paid = hinge[:inside].max(axis=1) if faces.shared else hinge[:inside].sum(axis=1)
    at = np.flatnonzero(face >= 0)
    own = faces.C[inside + at] @ hinge[inside + at, face[at]]
    return (squares.max() if faces.worst else squares.sum()) + faces.C[:inside] @ paid + own


def completions(node, K):
    """All assignments that a node allows."""
    return itertools.product(*[np.flatnonzero(row).tolist() for row in node.allowed])


def least_completion(faces, node, K):
    """What the best of all that a node allows costs."""
    found = []
    for one in completions(node, K):
        face = np.array(one, dtype=np.int64)
        found.append(cost_of(faces, face, solve_explicit_coupled(faces, face, K)[0]))
    return min(found)


@in_turn(("loss", "margin"), COUPLED)
@in_turn("seed", range(4))
def test_the_explicit_program_is_that_of_the_formulations(loss, margin, seed):
    _, X, y, C = drawn(seed)
    X = X + np.arange(len(y))[:, None] * 1e-3  # no two samples are the same one
    faces, merged = faces_of(X, y, C, 2, loss, margin)
    face = np.random.default_rng(seed).integers(0, 2, len(y) - faces.inside)
    of_all = np.where(y > 0, face[np.maximum(merged - faces.inside, 0)], -1)
    module = cpm_worst if margin == "worst" else cpm
    known = module.fixed_assignment(X, y, 2, of_all, C, loss).solve()
    W, alpha = solve_explicit_coupled(faces, face, 2)
    assert cost_of(faces, face, W) == pytest.approx(known.objective, rel=1e-7)
    pulls = np.linalg.norm(alpha @ faces.given.A, axis=1)
    dual = alpha.sum() - 0.25 * (pulls.sum() ** 2 if margin == "worst" else (pulls**2).sum())
    assert dual == pytest.approx(known.objective, rel=1e-6)


@in_turn(("loss", "margin"), COUPLED)
@in_turn("seed", range(6))
def test_the_raised_dual_bounds_an_assignment_and_comes_near(loss, margin, seed):
    """Also where some positives have no face and some faces nobody."""
    K = 2 + seed % 2
    rng, X, y, C = drawn(seed)
    faces, _ = faces_of(X, y, C, K, loss, margin)
    node = coupled_node_for(faces.given, K, np.arange(len(faces.C) - faces.inside))
    used = 1 + seed % K
    node.face[:] = rng.integers(-1, used, len(node.face))
    node.alpha[:] = rng.normal(size=node.alpha.shape)  # beyond their caps, too
    used = min(K, int(node.face.max()) + 2)
    raise_coupled(faces, node.face, used, node.alpha, node.faces, node.theta, 20_000, 1e-12, True)
    bound, error = prove_coupled(faces, node)
    exact = cost_of(faces, node.face, solve_explicit_coupled(faces, node.face, K)[0])
    assert bound - error <= exact * (1 + 1e-9)
    assert bound == pytest.approx(exact, rel=2e-2)
    assert error < 1e-12 * exact
    # Feasible, with shares that add up to no more than one.
    own = np.where(node.face == np.arange(K)[:, None], faces.C[faces.inside :], 0.0)
    assert (node.alpha >= 0).all()
    assert (node.alpha[:, faces.inside :] <= own).all()
    inside = node.alpha[:, : faces.inside]
    assert ((inside.sum(axis=0) if loss == "max" else inside) <= faces.C[: faces.inside]).all()
    if margin == "worst":
        assert (1.0 / node.scale**2).sum() <= 1.0
    # Other shares are valid, too, and what is proven of them lower.
    node.theta[:] = rng.dirichlet(np.ones(K)) if margin == "worst" else 1.0
    other, error = prove_coupled(faces, node)
    assert other - error <= bound + 1e-9 * exact


@in_turn(("loss", "margin"), COUPLED)
@in_turn("seed", range(12))
def test_no_completion_costs_less_than_what_a_node_proves(loss, margin, seed):
    """Whichever faces are forbidden, whatever the multipliers and the shares that it begins with."""
    K = 2 + (seed % 3 == 0)
    rng, X, y, C = drawn(seed)
    faces, _ = faces_of(X, y, C, K, loss, margin)
    npos = len(faces.C) - faces.inside
    node = coupled_node_for(faces.given, K, by_distance(faces.given))
    node.allowed[:] = True
    node.allowed[0] = np.arange(K) == 0
    if seed % 2:
        node.allowed[1] = np.arange(K) == rng.integers(0, 2)
    node.alpha[:] = rng.uniform(0.0, 1.0, node.alpha.shape)
    node.target[:] = rng.dirichlet(np.ones(K)) if seed % 4 else 0.0
    node.target[2:] = node.target[1]
    best = Best(np.zeros((K, X.shape[1] + 1)), np.array([np.inf, np.inf, 0.0]))
    least = least_completion(faces, node, K)
    moves = moves_for(npos, len(faces.C), X.shape[1] + 1, K)
    bound, _, branch, used = examine(faces, best, node, moves, 0.0, 1e-6, True)
    assert min(bound, *best.limits[:2]) - best.limits[2] <= least * (1 + 1e-9)  # of those forbidden, too
    assert best.limits[0] >= least_completion(faces, _open(node), K) * (1 - 1e-9)
    if branch >= 0:
        aim(faces, node, moves.shared, paying(faces, node, used), used)
        if margin == "worst":
            assert node.target.sum() == pytest.approx(1.0)
            assert (node.target > 0).all()


def _open(node):
    return node._replace(allowed=np.ones_like(node.allowed))


@in_turn(("loss", "margin"), COUPLED)
@in_turn("seed", range(8))
def test_moves_made_together_are_feasible_and_prove_what_they_add(loss, margin, seed):
    """For every assignment of those that are open: the multipliers of all faces, put together."""
    K = 2
    _, X, y, C = drawn(seed, n=8)
    faces, _ = faces_of(X, y, C, K, loss, margin)
    inside, npos = faces.inside, len(faces.C) - faces.inside
    node = coupled_node_for(faces.given, K, np.arange(npos))
    node.face[:] = -1
    node.face[0] = 0
    raise_coupled(faces, node.face, 2, node.alpha, node.faces, node.theta, 100, 0.0, True)
    if margin == "worst":
        node.theta[:] = 0.5 * node.theta + 0.25
    base, _ = prove_coupled(faces, node)
    moves = moves_for(npos, len(faces.C), X.shape[1] + 1, K)
    free = np.flatnonzero(node.face < 0)
    for p in free:
        for k in range(K):
            try_move(of_face(faces, k), node.caps[k], node.alpha[k], node.W[k], p, k, moves, np.inf)
    allowed = np.ones((npos, K), dtype=bool)
    total = add_up(faces, node.caps, node.alpha, node.W, moves, allowed, free, K, np.inf)
    assert total > 0.0
    for chosen in itertools.product(range(K), repeat=len(free)):
        alpha = node.alpha.copy()
        for p, k in zip(free, chosen, strict=True):
            alpha[k] += moves.taken[p, k]
        own = np.where(np.arange(npos) == 0, 0, -1)
        own[free] = chosen
        caps = np.where(own == np.arange(K)[:, None], faces.C[inside:], 0.0)
        assert alpha.min() >= 0.0
        assert (alpha[:, inside:] <= caps).all()
        of_negatives = alpha[:, :inside].sum(axis=0) if loss == "max" else alpha[:, :inside].max(axis=0)
        assert (of_negatives <= faces.C[:inside]).all()
        pulls = np.linalg.norm(alpha @ faces.given.A, axis=1) ** 2
        dual = alpha.sum() - 0.25 * (pulls / node.theta if margin == "worst" else pulls).sum()
        assert dual >= base + total - 1e-9 * (base + total)


@in_turn(("loss", "margin"), COUPLED)
def test_alternating_leaves_faces_that_cost_what_it_says(loss, margin):
    for seed in range(4):
        rng, X, y, C = drawn(seed)
        faces, _ = faces_of(X, y, C, 2, loss, margin)
        face = rng.integers(0, 2, len(faces.C) - faces.inside)
        first, W = face.copy(), np.zeros((2, X.shape[1] + 1))
        cost = settle_coupled(faces, face, W, 1e-9)
        assert cost == pytest.approx(value(faces, W))
        assert cost <= cost_of(faces, first, solve_explicit_coupled(faces, first, 2)[0]) * (1 + 1e-3)
