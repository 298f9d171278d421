"""The parts of a node of the polytope machine's search, each against its definition."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cpm import FACES, INSIDE, NPOS, WIDTH, drawn_node, half_assigned

from polyopt.solvers.cpm import tree
from polyopt.solvers.cpm.bound import add_up, cost_on, try_move
from polyopt.solvers.cpm.face import UNIT, dual_error, dual_value
from polyopt.solvers.cpm.tree import (
    _ASSIGNED,
    _CLOSED,
    _OPEN,
    Best,
    _after,
    _assign,
    _forbid,
    _forbid_jointly,
    _solve_faces,
    _try_incumbent,
    _try_moves,
    largest,
    node_for,
    paying,
)


@pytest.mark.parametrize("seed", range(12))
def test_who_has_one_face_left_is_assigned_and_one_empty_face_is_offered(seed):
    rng, _, node = drawn_node(seed)
    if seed % 3 == 0:
        node.allowed[:] = True
    node.allowed[: seed % 4] = np.eye(FACES, dtype=bool)[rng.integers(0, 1 + seed % FACES, seed % 4)]
    used, opens = _assign(node)
    alone = [int(row.argmax()) if row.sum() == 1 else -1 for row in node.allowed]
    assert node.face.tolist() == alone
    answering = max(alone) + 1
    assert (used, opens) == ((answering + 1, True) if answering < FACES else (FACES, False))


def test_a_face_forbidden_is_forbidden_with_all_that_are_empty_like_it():
    for k, opens, left in ((1, True, [1, 0, 1, 1]), (2, True, [1, 1, 0, 0]), (2, False, [1, 1, 0, 1])):
        _, _, node = drawn_node(0)
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
    _, _, node = drawn_node(0)
    node.allowed[2] = allowed
    assert _after(node, 2, 3, opens) == verdict


@pytest.mark.parametrize("seed", range(8))
def test_only_positives_that_pay_on_every_face_are_ordered_and_the_dearest_is_branched_on(seed):
    rng, data, node = drawn_node(seed)
    node.W[:] = 0.7 * rng.normal(size=(FACES, WIDTH))
    node.face[:] = np.where(rng.random(NPOS) < 0.3, 0, -1)
    used = 3
    node.allowed[:, 0] |= ~node.allowed[:, :used].any(axis=1)
    order = paying(data, node, used)
    hinges = np.where(node.allowed, 1.0 - data.A[INSIDE:] @ node.W.T, np.inf)[:, :used].min(axis=1)
    assert order.tolist() == [p for p in node.order if node.face[p] < 0 and hinges[p] > 0]
    assert node.cost[order] == pytest.approx((data.C[INSIDE:] * hinges)[order])
    cost, added = rng.integers(0, 4, NPOS).astype(float), rng.integers(0, 3, NPOS).astype(float)
    if len(order):
        assert largest(cost, added, order) == order[(cost - added)[order].argmax()]


@pytest.mark.parametrize("used", [2, 3, FACES])
def test_faces_that_answer_for_nobody_are_copies_and_the_duals_add_up(used):
    """Each dual is feasible for who is assigned, of the value that it is said to have, and near its best."""
    rng, data, node = drawn_node(1)
    node.face[:] = rng.integers(-1, used - 1, NPOS)
    total, error = _solve_faces(data, node, used, 2000, 1e-12)
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


@pytest.mark.parametrize(("bound", "error"), [(1.0, 0.2), (3.0, 0.2), (7.0, 0.05), (7.0, 0.2)])
def test_faces_are_solved_to_a_share_of_the_way_to_the_incumbent_and_the_worst_rounding_is_kept(
    bound, error, monkeypatch
):
    """4 faces, to 1e-4 of what each is short of the incumbent's cost of 4 within 10 %, or of these 10 %."""
    _, data, node = drawn_node(0)
    asked = []

    def solved(data, node, used, sweeps, tol):
        asked.append((sweeps, tol))
        return np.inf, error

    monkeypatch.setattr(tree, "_solve_faces", solved)
    monkeypatch.setattr(tree, "_try_incumbent", lambda *_: None)
    best = Best(np.zeros((FACES, WIDTH)), np.array([4.0, np.inf, 0.1]))
    found = tree.examine.py_func(data, best, node, None, bound, 0.1)
    assert asked == [(200, pytest.approx(1e-4 * max(3.6 - bound, 0.36) / 4))]
    assert best.limits.tolist() == [4.0, np.inf, max(error, 0.1)]
    assert found[:3] == (np.inf, np.inf, -1)


@pytest.fixture
def examined(monkeypatch):
    """A node whose faces have a dual value of 2; the incumbent costs 4 and is to be beaten by 10 %."""

    def examine(paying=((0, 1, 2),), moved=(_OPEN,), jointly=(_OPEN,), total=0.5):
        _, data, node = drawn_node(0)
        node.allowed[:] = True
        node.cost[:] = [3.0, 5.0, 4.0, 9.0, 9.0, 9.0]
        moves = SimpleNamespace(error=np.arange(6.0), added=np.array([0.0, 4.5, 0.5, 0.0, 0.0, 0.0]))
        best = Best(np.zeros((FACES, WIDTH)), np.array([4.0, np.inf, 0.25]))
        told = []
        answers = {
            "_solve_faces": [(2.0, 0.125)] * 9,
            "_try_incumbent": [None] * 9,
            "paying": [np.array(order, dtype=int) for order in paying],
            "_try_moves": list(moved),
            "add_up": [total] * 9,
            "_forbid_jointly": list(jointly),
        }

        def scripted(name):
            def answer(*given):
                told.append((name, *(x for x in given if isinstance(x, float | bool))))
                return answers[name].pop(0)

            return answer

        for name in answers:
            monkeypatch.setattr(tree, name, scripted(name))
        found = tree.examine.py_func(data, best, node, moves, 1.0, 0.1)
        return found, [call for call in told if call[0] != "_try_incumbent"], best.limits.tolist()

    return examine


def test_a_node_that_leaves_nothing_to_branch_on_is_solved_finely(examined):
    found, told, limits = examined(paying=[(), ()])
    assert found == (2.0, 2.0, -1, 1)
    assert [call[0] for call in told] == ["_solve_faces", "paying"] * 2
    assert told[0][1] == pytest.approx(1e-4 * (3.6 - 1.0) / FACES)
    assert told[2][1] == pytest.approx(1e-7 * (3.6 - 2.0) / FACES)
    assert limits == [4.0, np.inf, 0.25]


def test_a_node_is_branched_on_where_it_pays_most(examined):
    """Beyond what the bound has of it already."""
    found, told, limits = examined()
    assert found == (2.5, 2.0, 2, 1)
    assert told[2:] == [
        ("_try_moves", True, 2.0, 0.125, 3.6),
        ("add_up", 3.6 - 2.0),
        ("_forbid_jointly", True, 2.5, 0.125 + 3.0, 3.6),
    ]
    assert limits == [4.0, np.inf, 0.125 + 3.0]  # the error of all moves that were added up


def test_a_node_is_closed_by_its_moves_or_its_bound_and_looked_at_again_once_somebody_is_assigned(examined):
    assert examined(moved=[_CLOSED])[0] == (np.inf, 2.0, -1, 1)
    assert examined(jointly=[_CLOSED])[0] == (np.inf, 2.0, -1, 1)
    found, told, _ = examined(total=1.75)  # more than it needs
    assert found == (3.75, 2.0, -1, 1)
    assert told[-1][0] == "add_up"
    twice = [(0, 1, 2)] * 2
    for verdicts in ({"moved": [_ASSIGNED, _OPEN]}, {"moved": [_OPEN] * 2, "jointly": [_ASSIGNED, _OPEN]}):
        found, told, _ = examined(twice, **verdicts)
        assert found == (2.5, 2.0, 2, 1)
        assert [call[0] for call in told].count("_solve_faces") == 2


def test_an_incumbent_is_only_replaced_by_a_better_one():
    rng, data, node = drawn_node(2)
    node.W[:] = 0.3 * rng.normal(size=(FACES, WIDTH))

    def objective(W):
        hinges = np.maximum(1.0 - data.A @ W.T, 0.0)
        costs = np.concatenate([hinges[:INSIDE].sum(axis=1), hinges[INSIDE:].min(axis=1)])
        return (W**2).sum() + data.C @ costs

    best = Best(np.zeros((FACES, WIDTH)), np.array([np.inf, np.inf, 0.0]))
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


def at_a_node(seed):
    """A node with two positives assigned, the moves of the others, and what they add to the bound."""
    rng, data, caps, alpha, W, moves = half_assigned(seed)
    face, order = np.array([0, 1, -1, -1, -1, -1]), rng.permutation(np.arange(2, NPOS))
    node = node_for(data, 2, np.arange(NPOS))._replace(face=face, alpha=alpha, caps=caps, W=W, order=order)
    node.allowed[:2] = np.eye(2, dtype=bool)
    best = Best(np.zeros((2, WIDTH)), np.array([np.inf, np.inf, 0.0]))
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
        assert best.limits[2] == pytest.approx(off, rel=1e-9, abs=0.0)
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
        assert best.limits[2] == pytest.approx(off, rel=1e-9, abs=0.0)
