"""The L0 tree's kernels: what multipliers prove, the order of open nodes, and parts that do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, length, pick
from scipy.optimize import linprog

from formulations.l0_data import as_l0_data
from polyopt.linalg.rounding import ABOVE, UNIT
from polyopt.sparse import node_program as bases
from polyopt.sparse import tree as branch
from polyopt.sparse import tree as nodes
from polyopt.sparse.certificate import UNDERFLOW
from polyopt.sparse.node_program import FREE, OFF, ON, Problem, bound_of, pivot_program_of, problem_of

SHAPES = [(1, 1), (2, 1), (1, 9), (3, 7), (8, 8), (17, 5), (33, 40)]


def a_problem(rng, n, p):
    """A problem of random numbers, some of them 0."""
    signed = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.8)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    sizes = np.abs(signed).max(axis=0, initial=0.0)
    return Problem(
        *(anywhere(rng, each) for each in (signed, y, rng.uniform(0.1, 2.0, n), sizes, UNIT * sizes))
    )


def proven_by(of, fixed, u):
    """The bound and the rates, in numpy."""
    n, p = of.signed.shape
    near = np.where(u > 0.0, np.minimum(u, of.caps), 0.0)
    sums = np.where(of.y > 0.0, near[of.y > 0.0].sum(), near[of.y < 0.0].sum())
    light = min(near[of.y > 0.0].sum(), near[of.y < 0.0].sum())
    off = 4.0 * (n + 3) * UNIT
    unsure = np.where(sums <= (1.0 - off) * sums.max(), 0.0, off)
    near = near * np.divide(light, sums, out=np.zeros(n), where=sums > 0.0)
    total, loose = near.sum(), (near * (unsure + 4.0 * UNIT) + UNDERFLOW).sum() * ABOVE
    middle = near @ of.signed
    own = ((n + 8) * UNIT * total + loose) * ABOVE
    width = (of.sizes * own + of.errors * (total + loose)) * ABOVE + 4.0 * UNIT * (np.abs(middle) + 1.0)
    rates = np.array([middle - width, middle + width])
    paid = (fixed == ON).sum()
    saved = np.maximum(rates[1] - (fixed == FREE), 0.0)[fixed != OFF].sum()
    return paid + total - saved - loose - 4.0 * (n + p + 8) * UNIT * (paid + total + saved), rates


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_bound_of_multipliers_is_its_formula(shape):
    """Multipliers below 0, over their caps, infinite, nan and all 0; arrays that begin anywhere."""
    n, p = shape
    rng = np.random.default_rng(n + p)
    for turn in range(12):
        check_bound(rng, n, p, turn)


@drawn_calls("l0_bound_of")
def test_drawn_bounds(rng):
    check_bound(rng, length(rng, least=1), length(rng, least=1), int(rng.integers(12)))


def check_bound(rng, n, p, turn):
    of, fixed = a_problem(rng, n, p), anywhere(rng, rng.choice([OFF, FREE, ON], p).astype(np.int8))
    u = anywhere(rng, rng.uniform(-0.5, 3.0, n) * (rng.random(n) < 0.8) * (turn > 0))
    if turn % 3 == 2:
        u[rng.integers(n)] = rng.choice([np.nan, np.inf, -np.inf])
    rates = anywhere(rng, np.zeros((2, p)))
    bound, expected = bound_of(of, fixed, u, rates), proven_by(of, fixed, u)
    assert bound == pytest.approx(expected[0], rel=1e-12, abs=1e-12)
    assert rates == pytest.approx(expected[1], rel=1e-12, abs=1e-12)
    assert (rates[0] < rates[1]).all()


def test_data_that_are_no_numbers_prove_nothing():
    of, u = a_problem(np.random.default_rng(0), 6, 3), np.ones(6)
    of.signed[2, 1] = np.nan
    assert np.isnan(bound_of(of, np.zeros(3, np.int8), u))


def test_the_same_bits_wherever_arrays_begin():
    rng = np.random.default_rng(3)
    of, u, fixed = a_problem(rng, 33, 41), rng.random(33), np.zeros(41, np.int8)
    moved = np.empty(33 * 41 + 1)[1:].reshape(33, 41)
    moved[:] = of.signed
    other = Problem(moved, of.y, of.caps, of.sizes, of.errors)
    assert bound_of(of, fixed, u) == bound_of(other, fixed, u)


# -- open nodes ----------------------------------------------------------------------------


def parts(n, p, slots=64, room=64, rng=None):
    """A search of a problem of that size, in which nothing is open."""
    rng = rng or np.random.default_rng(n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    of = problem_of(as_l0_data(rng.normal(size=(n, p)), y, 1.0, None, np.where(np.arange(p) % 3, 1.0, -1.0)))
    memory = nodes.new_search_state(p, np.inf, 0.0, 10)
    return of, pivot_program_of(of), nodes.empty_nodes(n, p, slots, room), memory, nodes.new_workspace(n, p)


def opened(bounds, room=64):
    """Open nodes of these bounds, one after the other."""
    search = parts(6, 3, room=room)
    for bound in bounds:
        branch.adopt(*search, np.zeros(3, np.int8), nodes.BASE, bound, False)
    return search[2], search[3]


def test_the_node_of_the_least_bound_is_first():
    """Among equal bounds the one opened first; closed nodes give their slots back."""
    rng = np.random.default_rng(4)
    for count in (0, 1, 2, 3, 8, 31, 60):
        bounds = rng.integers(1, 20, count).astype(float)
        found, memory = opened(bounds)
        order = np.lexsort((np.arange(count), bounds))
        for at in order:
            slot = nodes.next_node(found)
            assert found.bound[slot] == nodes.lower_bound(found, memory) == bounds[at]
            assert found.number[slot] == at + 1
            nodes.remove_node(found, slot)
        assert nodes.next_node(found) == -1
        assert found.counts[:3].tolist() == [0, 0, 64]
        assert sorted(found.spare) == list(range(64))


def test_a_full_heap_leaves_the_rest_to_a_stack():
    """The last node put on the stack is the first taken, and any may be closed."""
    found, memory = opened([5.0, 4.0, 3.0, 6.0, 2.0], room=2)
    assert found.counts[:2].tolist() == [2, 3]
    assert nodes.lower_bound(found, memory) == 2.0
    assert found.bound[nodes.next_node(found)] == 2.0
    nodes.remove_node(found, int(found.stack[0]))
    assert [found.bound[slot] for slot in found.stack[:2]] == [6.0, 2.0]
    for bound in (2.0, 6.0, 4.0, 5.0):
        slot = nodes.next_node(found)
        assert found.bound[slot] == bound
        nodes.remove_node(found, slot)
    memory.values[nodes.CLOSED] = 1.5
    assert nodes.lower_bound(found, memory) == 1.5


@drawn_calls("l0_adopt", "l0_first_open", "l0_close", "l0_proven")
def test_drawn_orders(rng):
    """Nodes come and go in any order; a list of what is open says which one is first."""
    found, memory = opened([], room=pick(rng, [2, 64]))
    search, is_open = parts(6, 3), {}
    search = (*search[:2], found, memory, search[4])
    for number in range(1, 1 + length(rng, 20)):
        bound = float(rng.integers(1, 20))
        branch.adopt(*search, np.zeros(3, np.int8), nodes.BASE, bound, False)
        is_open[number] = bound
        assert nodes.lower_bound(found, memory) == min(is_open.values())
        while is_open and rng.random() < 0.4:
            slot = nodes.next_node(found)
            bound = is_open.pop(int(found.number[slot]))
            assert found.bound[slot] == bound
            if found.counts[1] == 0 and found.counts[0] == len(is_open) + 1:  # all are in the heap
                assert bound <= min(is_open.values(), default=np.inf)
            nodes.remove_node(found, slot)
    assert found.counts[:2].sum() == len(is_open)
    assert (nodes.next_node(found) == -1) == (not is_open)


# -- the search ----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 1), (3, 1), (2, 6), (9, 4), (7, 9)], ids=str)
def test_searches_of_any_shape_come_to_an_end(shape):
    """With slots and steps for one node at a time; the best point has the score that is proven."""
    check_search(np.random.default_rng(shape[0]), *shape)


@drawn_calls("l0_plant", "l0_grow")
def test_drawn_searches(rng):
    check_search(rng, int(rng.integers(2, 8)), int(rng.integers(1, 3)), int(rng.integers(1, 4)))


def check_search(rng, n, p, steps=1):
    of, given, found, memory, desk = parts(n, p, rng=rng)
    memory.values[nodes.BEST], memory.values[nodes.TOL], memory.counts[nodes.MAX_NODES] = 1e6, 1e-6, 10_000
    given.cap[:] = given.full_cap
    assert bases.begin(given, desk.states[nodes.BASE])
    assert branch.solve_root(of, given, found, memory, desk, np.zeros(p, np.int8))
    while (ended := branch.explore(of, given, found, memory, desk, steps)) == branch.PAUSED:
        assert nodes.next_node(found) >= 0
    assert ended == branch.SOLVED
    score, proven = memory.values[nodes.BEST], nodes.lower_bound(found, memory)
    assert score * (1.0 - 2e-6) <= proven <= score
    assert score == pytest.approx(least_score(of), rel=1e-6)


def least_score(of):
    """The least over all patterns of their programs' values and their numbers of centres."""
    n, p = of.signed.shape
    values = []
    for code in range(2**p):
        on = np.flatnonzero((code >> np.arange(p)) & 1)
        cost = np.r_[np.zeros(len(on)), 0.0, of.caps]
        rows = -np.c_[of.signed[:, on], of.y, np.eye(n)]
        bounds = [(0, 1)] * len(on) + [(None, None)] + [(0, None)] * n
        values.append(len(on) + linprog(cost, rows, -np.ones(n), bounds=bounds).fun)
    return min(values)


@pytest.mark.parametrize(
    ("shape", "letter", "places"), [((6, 4), "p", (1, 2, 3, 4)), ((7, 3), "n", (1, 2, 4))], ids=["p", "n"]
)
def test_parts_of_other_problems_are_refused(shape, letter, places):
    """The memory has no numbers of samples."""
    one, other = parts(6, 3), parts(*shape)
    for place in places:
        mixed = [*one[:place], other[place], *one[place + 1 :]]
        with pytest.raises(ValueError, match=f"has {letter} = "):
            branch.solve_root(*mixed, np.zeros(3, np.int8))
        with pytest.raises(ValueError, match=f"has {letter} = "):
            branch.explore(*mixed, 1)
    with pytest.raises(ValueError, match="decided has shape"):
        branch.solve_root(*one, np.zeros(4, np.int8))
    with pytest.raises(ValueError, match="decided has shape"):
        branch.adopt(*one, np.zeros(4, np.int8), nodes.BASE, 1.0, False)
    assert nodes.next_node(one[2]) == -1
