"""The parts of a node of the polytope machine's search, each against its definition."""

import numpy as np
import pytest
from helpers.cpm import FACES, INSIDE, NPOS, WIDTH, add_up, drawn_node, half_assigned
from helpers.cpm_parts import ASSIGNED, CLOSED, OPEN, cost_on, forbid_dear, solve_faces, try_incumbent

from polyopt.cpm.global_search.assignment_tree import node_for, try_move, with_cost
from polyopt.cpm.global_search.face import UNIT, Best, dual_error, dual_value


@pytest.mark.parametrize("seed", range(8))
def test_positives_with_cost_are_ordered(seed):
    """Only unassigned positives with a cost on every allowed face are ordered, each with its least cost."""
    rng, data, node = drawn_node(seed)
    node.W[:] = 0.7 * rng.normal(size=(FACES, WIDTH))
    node.face[:] = np.where(rng.random(NPOS) < 0.3, 0, -1)
    used = 3
    node.allowed[:, 0] |= ~node.allowed[:, :used].any(axis=1)
    order = with_cost(data, node, used)
    hinges = np.where(node.allowed, 1.0 - data.A[INSIDE:] @ node.W.T, np.inf)[:, :used].min(axis=1)
    assert order.tolist() == [p for p in node.order if node.face[p] < 0 and hinges[p] > 0]
    assert node.cost[order] == pytest.approx((data.C[INSIDE:] * hinges)[order])


@pytest.mark.parametrize("used", [2, 3, FACES])
def test_dual_values_of_faces_add_up(used):
    """Multipliers are feasible and near their best, their values add up, and unused faces are copies."""
    rng, data, node = drawn_node(1)
    node.face[:] = rng.integers(-1, used - 1, NPOS)
    total, error = solve_faces(data, node, used, 2000, 1e-12)
    values = []
    for k in range(FACES):
        alpha, own = node.alpha[k], min(k, used - 1)
        caps = np.concatenate([data.C[:INSIDE], np.where(node.face == own, data.C[INSIDE:], 0.0)])
        assert np.array_equal(node.caps[k], caps)
        assert ((alpha >= 0) & (alpha <= caps)).all()
        assert node.W[k] == pytest.approx(0.5 * alpha @ data.A)
        values.append(dual_value(alpha, node.W[k]))
        hinges = np.maximum(1.0 - data.A @ node.W[k], 0.0)
        assert node.W[k] @ node.W[k] + caps @ hinges == pytest.approx(values[-1], abs=1e-6)
    assert total == pytest.approx(sum(values))
    own = sum(dual_error(data, node.alpha[k], node.W[k]) for k in range(FACES))
    least = own + UNIT * FACES * np.abs(values).sum()  # and the rounding of their sum
    assert least <= error <= least + 10 * UNIT * np.abs(values).sum() < 1e-12 * (1.0 + total)


def test_incumbent_is_replaced_by_better():
    """Alternation improves the node's faces, and only a better point replaces the incumbent."""
    rng, data, node = drawn_node(2)
    node.W[:] = 0.3 * rng.normal(size=(FACES, WIDTH))

    def objective(W):
        hinges = np.maximum(1.0 - data.A @ W.T, 0.0)
        costs = np.concatenate([hinges[:INSIDE].sum(axis=1), hinges[INSIDE:].min(axis=1)])
        return (W**2).sum() + data.C @ costs

    best = Best(np.zeros((FACES, WIDTH)), np.array([np.inf, np.inf, 0.0]))
    try_incumbent(data, best, node, 1e-6)
    assert best.limits[0] == pytest.approx(objective(best.W))
    assert best.limits[0] < objective(node.W)  # alternating made something of it
    kept, least = best.W.copy(), best.limits[0]
    try_incumbent(data, best, node, 1e-6)
    assert best.limits[0] == least
    assert np.array_equal(best.W, kept)
    best.limits[0] = 0.5 * least  # so good that nothing is tried
    try_incumbent(data, best, node, 1e-6)
    assert best.limits[0] == 0.5 * least
    assert np.array_equal(best.W, kept)


def at_a_node(seed):
    """A node with two positives assigned, the moves of the others, and what they add to the bound."""
    rng, data, caps, alpha, W, moves = half_assigned(seed)
    face, order = np.array([0, 1, -1, -1, -1, -1]), rng.permutation(np.arange(2, NPOS))
    node = node_for(data, 2, np.arange(NPOS))
    node.face[:], node.alpha[:], node.caps[:], node.W[:] = face, alpha, caps, W
    node.allowed[:2] = np.eye(2, dtype=bool)
    best = Best(np.zeros((2, WIDTH)), np.array([np.inf, np.inf, 0.0]))
    base = dual_value(alpha[0], W[0]) + dual_value(alpha[1], W[1])
    return data, best, node, moves, base, order


def expected(node, order, costs, opens):
    """What becomes of the faces allowed, and of the verdict, where moves of these costs are forbidden.

    A positive with one face left is assigned to it, unless that is the empty one, which is the last.
    """
    allowed, verdict = node.allowed.copy(), OPEN
    for p in order:
        for k in range(2):
            if costs.get((p, k), (False,))[0]:
                allowed[p, k] = False
        left = np.flatnonzero(allowed[p])
        alone = len(left) == 1 and not (opens and left[0] == 1)
        verdict = max(verdict, CLOSED if len(left) == 0 else ASSIGNED if alone else OPEN)
        if verdict == CLOSED:
            break
    return allowed, verdict


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_dear_moves_are_forbidden(seed, share, opens):
    """A move whose own bound exceeds the cutoff is forbidden; the least such bound and the error are kept."""
    data, best, node, moves, base, order = at_a_node(seed)
    found, off, error = {}, 0.0, 1e-13
    every = [(p, k) for p in order for k in range(2)]
    tried = {at: try_move(data, node.caps[at[1]], node.alpha[at[1]], node.W[at[1]], *at, moves, np.inf)
             for at in every}  # fmt: skip
    cut = base + np.quantile([cost for cost, _ in tried.values()], share)
    for p, k in every:
        cost, blur = try_move(data, node.caps[k], node.alpha[k], node.W[k], p, k, moves, cut - base)
        found[p, k] = base + cost >= cut, cost
        off = max(off, error + blur + 4.0 * UNIT * (base + abs(cost)))
    allowed, verdict = expected(node, order, found, opens)
    limits = (base, error, cut)
    assert forbid_dear(data, best, node, moves, order, 2, opens, *limits, jointly=False) == verdict
    assert np.array_equal(node.allowed, allowed)
    if verdict != CLOSED:
        assert best.limits[1] == min(
            (base + cost for is_cut, cost in found.values() if is_cut), default=np.inf
        )
        assert best.limits[2] == pytest.approx(off, rel=1e-9, abs=0.0)
        for p in order:
            left = [cost for (q, _), (is_cut, cost) in found.items() if q == p and not is_cut]
            assert node.cost[p] == min(left, default=np.inf)


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("seed", range(3))
def test_moves_dear_with_others_are_forbidden(seed, share, opens):
    """A move is forbidden if the bound with all other moves exceeds the cutoff."""
    data, best, node, moves, base, order = at_a_node(seed)
    for p in order:
        for k in range(2):
            try_move(data, node.caps[k], node.alpha[k], node.W[k], p, k, moves, np.inf)
    bound = base + add_up(data, node.caps, node.alpha, node.W, moves, node.allowed, order, 2, np.inf)
    every = [(p, k) for p in order for k in range(2)]
    costs = {at: cost_on(data, node.alpha[at[1]], node.W[at[1]], moves, order, *at) for at in every}
    totals = {at: bound - moves.increase[at[0]] + cost for at, (cost, _) in costs.items()}
    cut, error = np.quantile(list(totals.values()), share), 1e-13
    allowed, verdict = expected(node, order, {at: (total >= cut,) for at, total in totals.items()}, opens)
    limits = (bound, error, cut)
    assert forbid_dear(data, best, node, moves, order, 2, opens, *limits, jointly=True) == verdict
    assert np.array_equal(node.allowed, allowed)
    if verdict != CLOSED:
        assert best.limits[1] == min((total for total in totals.values() if total >= cut), default=np.inf)
        off = max(error + blur + 4.0 * UNIT * (bound + abs(cost)) for cost, blur in costs.values())
        assert best.limits[2] == pytest.approx(off, rel=1e-9, abs=0.0)
