"""Nodes of the L0 tree: what multipliers prove of one, and what is left open and closed of several."""

import itertools

import numpy as np
import pytest
from helpers.draws import anywhere, drawn_calls, placed

from formulations.l0_data import as_l0_data
from formulations.language.clock import Clock
from polyopt.linalg.rounding import ABOVE, UNIT
from polyopt.sparse import tree
from polyopt.sparse.certificate import UNDERFLOW
from polyopt.sparse.node_program import FREE, OFF, ON, Problem, bound_of
from polyopt.sparse.pattern_lp import PatternLP


def a_problem(rng, n, p):
    """A problem of random numbers, some of them 0."""
    signed = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.8)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    sizes = np.abs(signed).max(axis=0, initial=0.0)
    return Problem(*anywhere(rng, signed, y, rng.uniform(0.1, 2.0, n), sizes, UNIT * sizes))


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


MULTIPLIERS = ["all 0", "beyond their caps", "not finite"]


@drawn_calls("l0_bound_of", given=MULTIPLIERS, n=[1, 2, 8, 17, 33], p=[1, 5, 9, 40])
def test_bound_of_multipliers_is_its_formula(rng, given, n, p):
    """Multipliers below 0, over their caps, infinite, nan and all 0; arrays that begin anywhere."""
    of, fixed = a_problem(rng, n, p), anywhere(rng, rng.choice([OFF, FREE, ON], p).astype(np.int8))
    u = anywhere(rng, rng.uniform(-0.5, 3.0, n) * (rng.random(n) < 0.8) * (given != "all 0"))
    if given == "not finite":
        u[rng.integers(n)] = rng.choice([np.nan, np.inf, -np.inf])
    rates = anywhere(rng, np.zeros((2, p)))
    bound, expected = bound_of(of, fixed, u, rates), proven_by(of, fixed, u)
    assert bound == pytest.approx(expected[0], rel=1e-12, abs=1e-12)
    assert rates == pytest.approx(expected[1], rel=1e-12, abs=1e-12)
    assert (rates[0] < rates[1]).all()


def test_nan_data_prove_nothing():
    """The bound is minus infinity."""
    of, u = a_problem(np.random.default_rng(0), 6, 3), np.ones(6)
    of.signed[2, 1] = np.nan
    assert np.isnan(bound_of(of, np.zeros(3, np.int8), u))


def test_bits_do_not_depend_on_start():
    """Of arrays at any address."""
    rng = np.random.default_rng(3)
    of, u, fixed = a_problem(rng, 33, 41), rng.random(33), np.zeros(41, np.int8)
    other = Problem(placed(of.signed, 1), of.y, of.caps, of.sizes, of.errors)
    assert bound_of(of, fixed, u) == bound_of(other, fixed, u)


@drawn_calls("l0_open_root", "l0_expand", n=[2, 3, 7, 11], p=[1, 2, 5], tol=[1e-6, 0.5])
def test_tree_bounds_all_its_patterns(rng, n, p, tol):
    """No pattern within a node scores less than the least bound of its parts, open and closed."""
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    data = as_l0_data(rng.normal(size=(n, p)), y, 2.0, rng.uniform(0.5, 2.0, n), rng.choice([-1.0, 1.0], p))
    fixed = rng.choice([OFF, FREE, FREE, ON], p).astype(np.int8)
    model, options = PatternLP(data), tree.Options(nodes_per_call=int(rng.integers(1, 6)))
    within = [
        data.pattern_score(pattern, model.solve(pattern).value)
        for pattern in itertools.product((0.0, 1.0), repeat=p)
        if all(mark == FREE or used == (mark == ON) for used, mark in zip(pattern, fixed, strict=True))
    ]
    search = tree.L0Tree(data, tol, Clock(), options)
    assert search.solve_root(fixed)
    for _ in range(4):
        assert search.bound <= min(within) * (1 + 1e-9)
        assert search.objective == pytest.approx(data.score(search.alpha, search.b), rel=1e-12)
        if search.is_done:
            break
        before = search.nodes
        search.step()
        assert search.nodes - before <= options.nodes_per_call
    while not search.is_done:
        search.step()
    assert search.bound <= min(within) * (1 + 1e-9)
    assert search.objective <= min(within) * (1 + 1.01 * tol)
