"""Kernels of the polytope machine's global search against formulas in numpy.

Their parts are held to their formulas in tests/cpm/test_cpm_faces.py, test_cpm_bound.py, test_cpm_tree.py
and test_priced_box.py, and whole searches in tests/cpm.
"""

import numpy as np
import pytest
from helpers.cpm import add_up
from helpers.draws import anywhere, drawn_calls

from formulations.language.clock import Clock
from polyopt.cpm.global_search.assignment_tree import examine, moves_for, node_for, try_move, with_cost
from polyopt.cpm.global_search.face import (
    Best,
    Samples,
    alternate,
    caps_of,
    climb,
    dual_error,
    dual_value,
    hyperplane,
    total_cost,
)
from polyopt.cpm.global_search.prices import examine_face_box, face_box_for, priced_cost, priced_face
from polyopt.cpm.global_search.spread import (
    FaceSamples,
    FixedMultipliers,
    Multipliers,
    best_shares,
    raise_multipliers,
)

# Negatives, positives and features of the samples.
SIZES = {"inside": [0, 1, 2, 5, 20], "npos": [0, 1, 2, 7, 13], "d": range(1, 18)}
SMALL = {"inside": [0, 1, 2, 9], "npos": [0, 1, 2, 7], "d": range(1, 10)}


def samples(rng, inside, npos, d):
    """Samples with a bias, negatives first."""
    A = anywhere(rng, rng.normal(size=(inside + npos, d)))
    A[:, -1] = np.where(np.arange(len(A)) < inside, -1.0, 1.0)
    return Samples(A, *anywhere(rng, (A * A).sum(axis=1), rng.uniform(0.5, 2.0, len(A))), inside)


@drawn_calls("cpm_hyperplane", "cpm_dual_value", "cpm_dual_error", "cpm_caps_of", "cpm_price", **SIZES)
def test_face_is_its_formulas(rng, inside, npos, d):
    """The hyperplane, the dual value and its error, boxes, and the cost of faces."""
    data, n = samples(rng, inside, npos, d), inside + npos
    a, w, W = rng.uniform(0.0, 1.0, n), np.ones(d), anywhere(rng, rng.normal(size=(3, d)))
    hyperplane(data, a, w)
    assert w == pytest.approx(0.5 * a @ data.A)
    assert dual_value(a, w) == pytest.approx(a.sum() - w @ w)
    assert 0.0 <= dual_error(data, a, w) <= 1e-12 * (1.0 + a.sum() + w @ w)
    face, caps = rng.integers(0, 2, npos), np.empty(n)
    caps_of(data, face, 1, caps)
    assert caps.tolist() == np.where(np.append(np.ones(inside), face) == 1, data.C, 0.0).tolist()
    hinges = np.maximum(1.0 - data.A @ W.T, 0.0)
    least = np.append(hinges[:inside].sum(axis=1), hinges[inside:].min(axis=1))
    cost, best = total_cost(data, W)
    assert cost == pytest.approx((W**2).sum() + data.C @ least)
    assert best.tolist() == hinges[inside:].argmin(axis=1).tolist()


def swept(data, caps, a, w):
    """One sweep over a face, and its gain, in plain Python."""
    gained = 0.0
    for i in range(len(a)):
        slope = 1.0 - data.A[i] @ w
        step = min(max(a[i] + 2.0 * slope / data.q[i], 0.0), caps[i]) - a[i]
        a[i] += step
        gained += step * slope - 0.25 * data.q[i] * step**2
        w += 0.5 * step * data.A[i]
    return gained


@drawn_calls("cpm_climb", **SIZES)
def test_climb_is_its_sweeps(rng, inside, npos, d):
    """The compiled ascent is the plain one, sweep by sweep."""
    data, n = samples(rng, inside, npos, d), inside + npos
    a, w, other, v = np.zeros(n), np.zeros(d), np.zeros(n), np.zeros(d)
    gained = climb(data, np.zeros(n), data.C, a, w, 3, np.inf, -1.0)
    assert gained == pytest.approx(sum(swept(data, data.C, other, v) for _ in range(3)), abs=1e-12)
    assert a == pytest.approx(other, abs=1e-9)
    assert w == pytest.approx(v, abs=1e-9)
    assert dual_value(a, w) == pytest.approx(gained, abs=1e-9)


@drawn_calls("cpm_examine", n_faces=[1, 2, 5], **SMALL)
def test_node_is_bounded_by_its_faces(rng, n_faces, inside, npos, d):
    """Bounds are no more than the cost of faces, of the root and of what a positive is assigned to."""
    data = samples(rng, inside, npos, d)
    best = Best(np.zeros((n_faces, d)), np.array([np.inf, np.inf, 0.0]))
    moves = moves_for(npos, inside + npos, d, n_faces)
    node = node_for(data, n_faces, np.arange(npos))
    bound, base, branch, used = examine(data, best, node, moves, 0.0, 1e-6)
    cost, _ = total_cost(data, best.W)
    assert best.limits[0] == pytest.approx(cost, abs=1e-9)
    assert 0.0 <= base <= bound + 1e-9
    assert used == 1
    assert branch in range(-1, npos)
    if branch >= 0:
        assert bound < cost
        dear = node.cost.copy()
        order = with_cost(data, node, used)
        assert branch in order
        assert order[(dear - moves.increase)[order].argmax()] == branch
        node.allowed[branch] = np.arange(n_faces) == 0
        assert examine(data, best, node, moves, bound, 1e-6)[0] >= bound


@drawn_calls("cpm_paying", n_faces=[1, 2, 3, 5], **SMALL)
def test_paying_positives_are_by_formula(rng, n_faces, inside, npos, d):
    """Unassigned positives with a loss on all allowed faces pay the least of the losses."""
    data = samples(rng, inside, npos, d)
    node, used = node_for(data, n_faces, rng.permutation(npos)), int(rng.integers(1, n_faces + 1))
    node.W[:], node.face[:] = rng.normal(size=node.W.shape), rng.integers(-1, 2, npos)
    node.allowed[:] = rng.random(node.allowed.shape) < 0.7
    slopes = 1.0 - data.A[inside:] @ node.W[:used].T
    least = np.where(node.allowed[:, :used], slopes, np.inf).min(axis=1)
    order = with_cost(data, node, used)
    assert order.tolist() == [p for p in node.order if node.face[p] < 0 and least[p] > 0]
    assert node.cost[order] == pytest.approx((data.C[inside:] * least)[order])


@drawn_calls("cpm_try_move", "cpm_add_up", **SMALL)
def test_moves_add_up_to_a_bound(rng, inside, npos, d):
    """With one face the completion is known: its optimum is no less than the bound."""
    data, n = samples(rng, inside, npos, d), inside + npos
    caps, alpha, W = np.zeros((1, n)), np.zeros((1, n)), np.zeros((1, d))
    caps_of(data, np.full(npos, -1), 0, caps[0])
    climb(data, np.zeros(n), caps[0], alpha[0], W[0], 100, np.inf, 1e-12)
    base, moves = dual_value(alpha[0], W[0]), moves_for(npos, n, d, 1)
    for p in range(npos):
        gain, error = try_move(data, caps[0], alpha[0], W[0], p, 0, moves, np.inf)
        assert gain >= -1e-9
        assert error >= 0.0
    everywhere = np.ones((npos, 1), dtype=bool)
    a, w = np.zeros(n), np.zeros(d)
    climb(data, np.zeros(n), data.C, a, w, 10_000, np.inf, 1e-13)
    for order in (np.arange(npos), np.arange(npos)[::-1].copy(), np.arange(0)):
        total = add_up(data, caps, alpha, W, moves, everywhere, order, 1, np.inf)
        assert 0.0 <= total <= dual_value(a, w) - base + 1e-6


@drawn_calls("cpm_alternate", n_faces=[1, 2, 3], **SMALL)
def test_alternating_ends_on_best_faces(rng, n_faces, inside, npos, d):
    """Every positive is on its face of the greatest score."""
    data = samples(rng, inside, npos, d)
    face, W = rng.integers(0, n_faces, npos), np.zeros((n_faces, d))
    J = alternate(data, face, W, 1e-9, Clock())
    cost, best = total_cost(data, W)
    assert cost == pytest.approx(J)
    assert best.tolist() == face.tolist()


@drawn_calls("cpm_examine_face_box", **SIZES)
def test_box_is_bounded_below(rng, inside, npos, d):
    """The bound is below the cost of every point of the box."""
    data = samples(rng, inside, npos, d)
    prices, box = rng.uniform(0.0, 1.0, npos), face_box_for(data)
    box.low[:], box.high[:] = -0.5, 0.7
    bound, cost, j, at = examine_face_box(data, prices, box, np.zeros(inside + npos, np.uint8), 1e3)
    for w in rng.uniform(-0.5, 0.7, (20, d)):
        own = np.maximum(1.0 - data.A @ w, 0.0) * data.C
        worth = w @ w + own[:inside].sum() + np.minimum(own[inside:], prices).sum()
        assert priced_cost(data, prices, w) == pytest.approx(worth)
        assert bound <= worth + 1e-12
    assert bound <= cost + 1e-12
    assert j == -1 or box.low[j] <= at <= box.high[j]
    assert np.isfinite(priced_face(data, prices, rng.random(npos) < 0.5)).all()


def spread_value(ground, at, mu):
    """Φ with its barrier."""
    up = ground.C - at.a - np.maximum(at.delta, 0).sum(axis=0)
    down = at.a - np.maximum(-at.delta, 0).sum(axis=0)
    matrix = np.eye(ground.A.shape[1]) - (at.e / at.length[:, None]).T @ at.e
    v, share = at.a @ ground.A + ground.shares @ at.e, ground.shares
    worth = at.a.sum() + share @ (at.beta + at.delta.sum(axis=1)) - 0.25 * v @ v
    barrier = np.log(up).sum() + np.log(down).sum() + np.linalg.slogdet(matrix)[1]
    return worth - 0.25 * (share * (1.0 - share)) @ at.length + mu * barrier


@drawn_calls("cpm_raise_spread", n=[0, 1, 2, 5, 9], p=[0, 1, 2, 7], d=range(1, 10), sweeps=range(1, 10))
def test_sweeps_raise_the_spread(rng, n, p, d, sweeps):
    """The dual value rises, and the products kept are those of the multipliers."""
    A, P = anywhere(rng, rng.normal(size=(n, d)), rng.normal(size=(p, d)))
    ground = FaceSamples(A, (A * A).sum(axis=1), np.ones(n), P, np.ones(p), rng.uniform(0.2, 0.8, p))
    at = Multipliers(np.full(n, 0.5), np.zeros((p, n)), np.full(p, 0.1), 0.1 * P, np.full(p, 1e3))
    before = spread_value(ground, at, 0.01)
    raise_multipliers(ground, at, 0.01, sweeps)
    assert spread_value(ground, at, 0.01) >= before - 1e-9
    assert at.e == pytest.approx(at.beta[:, None] * P + at.delta @ A, abs=1e-9)


@drawn_calls("cpm_best_shares", F=[1, 2, 3], p=[0, 1, 3, 7], d=range(1, 8))
def test_shares_move_to_least_cost(rng, F, p, d):
    """No share is moved to a face that is not allowed, and those of a sample add up to 1."""
    e, slope = anywhere(rng, rng.normal(size=(F, p, d)), rng.normal(size=(F, p)))
    allowed = rng.random((F, p)) < 0.7
    allowed[0] = True
    fixed = FixedMultipliers(slope, e, (e * e).sum(axis=2) * p + 1.0, np.ones(F), allowed)
    share = allowed / allowed.sum(axis=0)
    best_shares(fixed, share, 1000, 0.0)
    assert share.sum(axis=0) == pytest.approx(np.ones(p))
    assert not share[~allowed].any()
    bent = [np.diag(fixed.length[k]) - e[k] @ e[k].T for k in range(F)]
    slopes = np.where(allowed, [slope[k] + 0.5 * bent[k] @ share[k] for k in range(F)], np.inf)
    is_used = share > 1e-9
    least = np.broadcast_to(slopes.min(axis=0), (F, p))
    assert slopes[is_used] == pytest.approx(least[is_used], abs=1e-4)
