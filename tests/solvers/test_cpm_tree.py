"""The parts of a node of the polytope machine's search, and of its bound, each against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from polyopt.solvers.cpm.bound import (
    _MARGIN,
    _charge,
    _joint_move,
    _shift,
    add_up,
    cost_on,
    moves_for,
    try_move,
)
from polyopt.solvers.cpm.face import UNIT, Samples, caps_of, climb, dual_value, hyperplane
from polyopt.solvers.cpm.tree import (
    _ASSIGNED,
    _CLOSED,
    _OPEN,
    Best,
    _after,
    _assign,
    _forbid,
    _forbid_jointly,
    _largest,
    _paying,
    _solve_faces,
    _try_incumbent,
    _try_moves,
    node_for,
)

INSIDE, NPOS, D, K = 4, 6, 3, 4


def drawn(seed):
    """Samples, negatives first, and a node of them with faces allowed at random, at least one to each."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(INSIDE + NPOS, D))
    data = Samples(A, (A * A).sum(axis=1), rng.uniform(0.5, 2.0, INSIDE + NPOS), INSIDE)
    node = node_for(data, K, rng.permutation(NPOS))
    node.allowed[:] = rng.random((NPOS, K)) < 0.5
    node.allowed[np.arange(NPOS), rng.integers(0, K, NPOS)] = True
    return rng, data, node


@pytest.mark.parametrize("seed", range(12))
def test_who_has_one_face_left_is_assigned_and_one_empty_face_is_offered(seed):
    rng, _, node = drawn(seed)
    if seed % 3 == 0:
        node.allowed[:] = True
    node.allowed[: seed % 4] = np.eye(K, dtype=bool)[rng.integers(0, 1 + seed % K, seed % 4)]
    used, opens = _assign(node)
    alone = [int(row.argmax()) if row.sum() == 1 else -1 for row in node.allowed]
    assert node.face.tolist() == alone
    answering = max(alone) + 1
    assert (used, opens) == ((answering + 1, True) if answering < K else (K, False))


def test_a_face_forbidden_is_forbidden_with_all_that_are_empty_like_it():
    for k, opens, left in ((1, True, [1, 0, 1, 1]), (2, True, [1, 1, 0, 0]), (2, False, [1, 1, 0, 1])):
        _, _, node = drawn(0)
        node.allowed[:] = True
        _forbid(node, 3, k, 3, opens)
        assert node.allowed[3].tolist() == left
        assert np.delete(node.allowed, 3, axis=0).all()


@pytest.mark.parametrize(
    ("allowed", "opens", "verdict"),
    [
        ([0, 0, 0, 1], True, _CLOSED),  # the last is not offered
        ([1, 0, 0, 1], True, _ASSIGNED),
        ([0, 1, 0, 0], False, _ASSIGNED),
        ([0, 0, 1, 1], True, _OPEN),  # who opens a face is for the branching to choose
        ([0, 0, 1, 0], False, _ASSIGNED),
        ([1, 0, 1, 0], True, _OPEN),
        ([1, 1, 0, 0], True, _OPEN),
    ],
)
def test_what_is_left_to_a_positive_once_faces_are_forbidden(allowed, opens, verdict):
    _, _, node = drawn(0)
    node.allowed[2] = allowed
    assert _after(node, 2, 3, opens) == verdict


@pytest.mark.parametrize("seed", range(8))
def test_only_positives_that_pay_on_every_face_are_ordered_and_the_dearest_is_branched_on(seed):
    rng, data, node = drawn(seed)
    node.W[:] = 0.7 * rng.normal(size=(K, D))
    node.face[:] = np.where(rng.random(NPOS) < 0.3, 0, -1)
    used = 3
    node.allowed[:, 0] |= ~node.allowed[:, :used].any(axis=1)
    order = _paying(data, node, used)
    hinges = np.where(node.allowed, 1.0 - data.A[INSIDE:] @ node.W.T, np.inf)[:, :used].min(axis=1)
    assert order.tolist() == [p for p in node.order if node.face[p] < 0 and hinges[p] > 0]
    assert node.cost[order] == pytest.approx((data.C[INSIDE:] * hinges)[order])
    cost, added = rng.integers(0, 4, NPOS).astype(float), rng.integers(0, 3, NPOS).astype(float)
    if len(order):
        assert _largest(cost, added, order) == order[(cost - added)[order].argmax()]


@pytest.mark.parametrize("used", [2, 3, K])
def test_faces_that_answer_for_nobody_are_copies_and_the_duals_add_up(used):
    """Each dual is feasible for who is assigned, of the value that it is said to have, and near its best."""
    rng, data, node = drawn(1)
    node.face[:] = rng.integers(-1, used - 1, NPOS)
    total, error = _solve_faces(data, node, used, 2000, 1e-12)
    values = []
    for k in range(K):
        alpha, own = node.alpha[k], min(k, used - 1)
        caps = np.concatenate([data.C[:INSIDE], np.where(node.face == own, data.C[INSIDE:], 0.0)])
        assert np.array_equal(node.caps[k], caps)
        assert ((alpha >= 0) & (alpha <= caps)).all()
        assert node.W[k] == pytest.approx(0.5 * alpha @ data.A)
        values.append(dual_value(alpha, node.W[k]))
        hinges = np.maximum(1.0 - data.A @ node.W[k], 0.0)
        assert node.W[k] @ node.W[k] + caps @ hinges == pytest.approx(values[-1], abs=1e-6)
    assert total == pytest.approx(sum(values))
    assert 0.0 < error < 1e-12 * (1.0 + total)


def test_an_incumbent_is_only_replaced_by_a_better_one():
    rng, data, node = drawn(2)
    node.W[:] = 0.3 * rng.normal(size=(K, D))

    def objective(W):
        hinges = np.maximum(1.0 - data.A @ W.T, 0.0)
        costs = np.concatenate([hinges[:INSIDE].sum(axis=1), hinges[INSIDE:].min(axis=1)])
        return (W**2).sum() + data.C @ costs

    best = Best(np.zeros((K, D)), np.array([np.inf, np.inf, 0.0]))
    _try_incumbent(data, best, node, 1e-6)
    assert best.limits[0] == pytest.approx(objective(best.W))
    assert best.limits[0] < objective(node.W)  # alternating made something of it
    kept, least = best.W.copy(), best.limits[0]
    _try_incumbent(data, best, node, 1e-6)
    assert best.limits[0] == least
    assert np.array_equal(best.W, kept)
    best.limits[0] = 0.5 * least  # so good that nothing is tried
    _try_incumbent(data, best, node, 1e-6)
    assert best.limits[0] == 0.5 * least
    assert np.array_equal(best.W, kept)


# -- the bound of joint moves --------------------------------------------------------------


def made(seed):
    """Moves of four positives to two faces, with the products of all kinds of sign."""
    rng = np.random.default_rng(seed)
    moves = moves_for(4, 8, D, 2)
    moves.shared[:], moves.pull[:] = rng.normal(size=(4, 2, D)), rng.normal(size=(4, 2, D))
    moves.length[:] = np.linalg.norm(moves.shared, axis=2)
    moves.blur[:] = 1e-3 * moves.length
    return rng, moves, np.array([2, 0, 1])


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_face_is_shifted_by_half_of_what_pulls_the_same_way(seed, p):
    """That of p itself is not among them: the products of two different samples are shared."""
    rng, moves, others = made(seed)
    v = rng.normal(size=D)
    wanted = v.copy()
    for r in others[others != p]:
        if moves.shared[r, 1] @ moves.pull[p, 1] > 0:
            wanted += 0.5 * moves.shared[r, 1]
    _shift(v, p, 1, moves, others)
    assert v == pytest.approx(wanted)


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_a_move_is_charged_half_of_its_products_above_zero_and_errs_by_no_more_than_told(seed, p):
    """Wherever within their blurs the true vectors are: half of each product, by Cauchy and Schwarz."""
    rng, moves, others = made(seed)
    e, blur = rng.normal(size=D), 2e-3
    among = others[others != p]
    worth, error = _charge(5.0, 0.25, e, np.linalg.norm(e), blur, p, 1, moves, others)
    products = moves.shared[among, 1] @ e
    assert worth == pytest.approx(5.0 - 0.5 * np.maximum(products, 0.0).sum())
    long, far, size = moves.length[among, 1], moves.blur[among, 1], np.linalg.norm(e)
    most = 0.25 + 0.5 * (far * size + (long + far) * blur).sum()
    assert most <= error <= 0.25 + 1.03 * (most - 0.25) + 1e3 * UNIT


def half_assigned(seed):
    """Faces with two positives of six assigned, raised a little, and room for the moves of the others."""
    rng, data, _ = drawn(seed)
    n, faces = len(data.C), 2
    caps, alpha, W = np.zeros((faces, n)), np.zeros((faces, n)), np.zeros((faces, D))
    for k in range(faces):
        caps_of(data, np.array([0, 1, -1, -1, -1, -1]), k, caps[k])
        climb(data, np.zeros(n), caps[k], alpha[k], W[k], 3, np.inf, 0.0)
        hyperplane(data, alpha[k], W[k])
    return rng, data, caps, alpha, W, moves_for(NPOS, n, D, faces)


@pytest.mark.parametrize("seed", range(6))
def test_a_move_by_itself_raises_the_dual_by_what_it_is_said_to_cost(seed):
    """Within the boxes, with that of the sample's own opened; to the optimum, or as far as is asked."""
    _, data, caps, alpha, W, moves = half_assigned(seed)
    n, kept, p, k = len(data.C), caps.copy(), 4, seed % 2
    box = caps[k].copy()
    box[INSIDE + p] = data.C[INSIDE + p]
    a, w = alpha[k].copy(), W[k].copy()
    climb(data, np.zeros(n), box, a, w, 10_000, np.inf, 0.0)
    most = dual_value(a, w) - dual_value(alpha[k], W[k])
    gains = []
    for enough in (np.inf, 0.3 * most):
        gain, error = try_move(data, caps[k], alpha[k], W[k], p, k, moves, enough)
        made = alpha[k] + moves.delta[p, k]
        assert made == pytest.approx(np.clip(made, 0.0, box), abs=1e-15)
        assert moves.pull[p, k] == pytest.approx(moves.delta[p, k] @ data.A)
        w = 0.5 * made @ data.A
        assert gain == moves.gain[p, k]
        assert gain == pytest.approx(made.sum() - w @ w - dual_value(alpha[k], W[k]))
        assert 0.0 < error < 1e-12
        gains.append(gain)
    assert 0.9 * most <= gains[0] <= most * (1 + 1e-9)
    assert gains[1] >= 0.3 * most * (1 - 1e-9)
    assert np.array_equal(caps, kept)
    assert W[k] == pytest.approx(0.5 * alpha[k] @ data.A)


@pytest.mark.parametrize("seed", range(6))
def test_joint_moves_cost_alike_on_every_face_and_add_up_to_the_bound(seed):
    """Each is worth, by the theorem's formula, what it adds; and boxes are left what it does not take."""
    rng, data, caps, alpha, W, moves = half_assigned(seed)
    order, faces = rng.permutation(np.arange(2, NPOS)), range(2)
    allowed = np.ones((NPOS, 2), dtype=bool)
    allowed[order[1], seed % 2] = False
    for p in order:
        for k in faces:
            try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    moves.shared[:] = moves.taken[:] = moves.length[:] = moves.blur[:] = np.nan  # of another node
    total = add_up(data, caps, alpha, W, moves, allowed, order, 2, np.inf)
    assert total == pytest.approx(moves.added[order].sum())
    up, down = caps - alpha - _MARGIN * caps, alpha - _MARGIN * caps
    for place, p in enumerate(order):
        for k in faces:
            taken, e, own = moves.taken[p, k], moves.shared[p, k], np.arange(len(data.C)) == INSIDE + p
            if not allowed[p, k]:
                assert not taken.any()
                assert not e.any()
                assert moves.length[p, k] == moves.blur[p, k] == 0.0
                continue
            assert e == pytest.approx(taken @ data.A, abs=1e-12)
            products = moves.shared[order[:place], k] @ e
            worth = taken @ (1.0 - data.A @ W[k]) - e @ e / 4 - np.maximum(products, 0.0).sum() / 2
            assert worth == pytest.approx(moves.added[p], abs=1e-12)
            assert 1.0 <= moves.length[p, k] / np.linalg.norm(e) <= 1.02 if e.any() else True
            assert 0.0 <= moves.blur[p, k] <= 1e-13
            assert (np.where(own, 0.0, taken) <= np.maximum(up[k], 0.0) + 1e-15).all()
            assert (np.where(own, 0.0, -taken) <= np.maximum(down[k], 0.0) + 1e-15).all()
            assert 0.0 <= taken[INSIDE + p] <= data.C[INSIDE + p]
            up[k] = np.maximum(up[k] - np.where(own, 0.0, np.maximum(taken, 0.0)), 0.0)
            down[k] = np.maximum(down[k] - np.where(own, 0.0, np.maximum(-taken, 0.0)), 0.0)
        assert (0.0 < moves.error[p] <= 1e-13) == (moves.added[p] > 0)
    assert moves.up == pytest.approx(np.maximum(up, 0.0), abs=1e-14)
    assert moves.down == pytest.approx(np.maximum(down, 0.0), abs=1e-14)
    assert total > 0
    # Once it is enough it ends.
    added = moves.added.copy()
    moves.added[:] = -1.0
    assert add_up(data, caps, alpha, W, moves, allowed, order, 2, 0.5 * total) >= 0.5 * total
    done = [p for p in order if moves.added[p] >= 0]
    assert moves.added[done] == pytest.approx(added[done])
    assert added[done[:-1]].sum() < 0.5 * total


@pytest.mark.parametrize("seed", range(4))
def test_what_a_sample_costs_beside_all_others_leaves_their_moves_as_they_are(seed):
    """For the last in order that is what it adds on its face, with its own moves given back to the boxes."""
    _, data, caps, alpha, W, moves = half_assigned(seed)
    order, allowed = np.arange(2, NPOS), np.ones((NPOS, 2), dtype=bool)
    for p in order:
        for k in range(2):
            try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    add_up(data, caps, alpha, W, moves, allowed, order, 2, np.inf)
    before = [part.copy() for part in moves]
    last = order[-1]
    costs = [cost_on(data, alpha[k], W[k], moves, order, last, k) for k in range(2)]
    assert min(cost for cost, _ in costs) == pytest.approx(moves.added[last])
    assert all(0.0 < error < 1e-12 for _, error in costs)
    for part, kept in zip(moves, before, strict=True):
        assert np.array_equal(part, kept)


@pytest.mark.parametrize("seed", range(4))
def test_a_joint_move_errs_by_no_less_than_its_roundings_may_and_hardly_more(seed):
    """A sum of n products is off by n units of what it adds up; a slope by what its face is; see there."""
    _, data, caps, alpha, W, moves = half_assigned(seed)
    n, p, k = len(data.C), 3, seed % 2
    try_move(data, caps[k], alpha[k], W[k], p, k, moves, np.inf)
    moves.up[k], moves.down[k] = caps[k] - alpha[k], alpha[k]
    change, e = np.empty(n), np.empty(D)
    nobody = np.empty(0, dtype=np.int64)
    worth, square, blur, error = _joint_move(
        data, alpha[k], W[k], p, k, moves, nobody, moves.delta[p, k], change, e
    )
    slope, lengths, steps = 1.0 - data.A @ W[k], np.sqrt(data.q), np.abs(change)
    assert e == pytest.approx(change @ data.A)
    assert (worth, square) == (pytest.approx(change @ slope), pytest.approx(e @ e))
    least = UNIT * n * (steps @ lengths)
    assert least <= blur <= 1.5 * least
    face = UNIT * (n + 2) / 2 * (alpha[k] @ lengths)  # how far the face itself may be off
    slopes = UNIT * (D + 2) * (1.0 + np.linalg.norm(W[k]) * lengths) + face * lengths
    least = steps @ slopes + UNIT * n * (steps @ np.abs(slope) + square) + np.linalg.norm(e) * blur / 2
    assert least <= error <= 2.0 * least


def at_a_node(seed):
    """A node with two positives assigned, the moves of the others, and what they add to the bound."""
    rng, data, caps, alpha, W, moves = half_assigned(seed)
    face, order = np.array([0, 1, -1, -1, -1, -1]), rng.permutation(np.arange(2, NPOS))
    node = node_for(data, 2, np.arange(NPOS))._replace(face=face, alpha=alpha, caps=caps, W=W, order=order)
    node.allowed[:2] = np.eye(2, dtype=bool)
    best = Best(np.zeros((2, D)), np.array([np.inf, np.inf, 0.0]))
    base = dual_value(alpha[0], W[0]) + dual_value(alpha[1], W[1])
    return data, best, node, moves, base


def expected(node, costs, opens):
    """What becomes of the faces allowed, and of the verdict, where moves of these costs are forbidden."""
    verdict = _OPEN
    for p in node.order:
        for k in range(2):
            if costs.get((p, k), (False,))[0]:
                _forbid(node, p, k, 2, opens)
        verdict = max(verdict, _after(node, p, 2, opens))
        if verdict == _CLOSED:
            break
    return node.allowed, verdict


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_moves_that_cost_too_much_by_themselves_are_forbidden(seed, share, opens):
    """And the least of these costs is a bound of what was cut; errors are kept, the largest of them."""
    data, best, node, moves, base = at_a_node(seed)
    found, off, error = {}, 0.0, 1e-13
    every = [(p, k) for p in node.order for k in range(2)]
    tried = {at: try_move(data, node.caps[at[1]], node.alpha[at[1]], node.W[at[1]], *at, moves, np.inf)
             for at in every}  # fmt: skip
    cut = base + np.quantile([cost for cost, _ in tried.values()], share)
    for p, k in every:
        cost, blur = try_move(data, node.caps[k], node.alpha[k], node.W[k], p, k, moves, cut - base)
        found[p, k] = base + cost >= cut, cost
        off = max(off, error + blur + 4.0 * UNIT * (base + abs(cost)))
    copy = node._replace(allowed=node.allowed.copy())
    allowed, verdict = expected(copy, found, opens)
    assert _try_moves(data, best, node, moves, node.order, 2, opens, base, error, cut) == verdict
    assert np.array_equal(node.allowed, allowed)
    if verdict != _CLOSED:
        assert best.limits[1] == min(
            (base + cost for is_cut, cost in found.values() if is_cut), default=np.inf
        )
        assert best.limits[2] == pytest.approx(off, rel=1e-9)
        for p in node.order:
            left = [cost for (q, _), (is_cut, cost) in found.items() if q == p and not is_cut]
            assert node.cost[p] == min(left, default=np.inf)


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_moves_that_cost_too_much_together_with_all_others_are_forbidden(seed, share, opens):
    data, best, node, moves, base = at_a_node(seed)
    for p in node.order:
        for k in range(2):
            try_move(data, node.caps[k], node.alpha[k], node.W[k], p, k, moves, np.inf)
    bound = base + add_up(data, node.caps, node.alpha, node.W, moves, node.allowed, node.order, 2, np.inf)
    every = [(p, k) for p in node.order for k in range(2)]
    costs = {at: cost_on(data, node.alpha[at[1]], node.W[at[1]], moves, node.order, *at) for at in every}
    totals = {at: bound - moves.added[at[0]] + cost for at, (cost, _) in costs.items()}
    cut, error = np.quantile(list(totals.values()), share), 1e-13
    copy = node._replace(allowed=node.allowed.copy())
    allowed, verdict = expected(copy, {at: (total >= cut,) for at, total in totals.items()}, opens)
    assert _forbid_jointly(data, best, node, moves, node.order, 2, opens, bound, error, cut) == verdict
    assert np.array_equal(node.allowed, allowed)
    if verdict != _CLOSED:
        assert best.limits[1] == min((total for total in totals.values() if total >= cut), default=np.inf)
        off = max(error + blur + 4.0 * UNIT * (bound + abs(cost)) for cost, blur in costs.values())
        assert best.limits[2] == pytest.approx(off, rel=1e-9)
