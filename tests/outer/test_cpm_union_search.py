"""The search for a union of polytopes: descent, known answers, pruning, growth, limits, its certificate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.solution import Status
from formulations.union import union_objective, union_scores
from polyopt import Claim, certify_cpm_union
from polyopt.certificates import cpm_union as certified
from polyopt.certificates.cpm import certify_cpm
from polyopt.datasets import make_checkerboard
from polyopt.outer.cpm import union_search
from polyopt.outer.cpm.union import UnionEngine
from polyopt.outer.cpm.union_choice import Choice, Trial, choose
from polyopt.outer.cpm.union_growth import Growth
from polyopt.outer.cpm.union_solve import UnionSettings, solve_cpm_union
from polyopt.solvers.clock import Clock


@pytest.fixture(scope="module")
def board():
    X, y = make_checkerboard(160, 2, random_state=0)  # two fields of each class
    return X - 1.0, y.astype(float)


@pytest.fixture(scope="module")
def ends(board):
    X, y = board
    given = {"n_polytopes": 2, "n_faces": 3, "n_init": 2}
    return {
        name: solve_cpm_union(X, y, np.full(len(y), 3.0), UnionSettings(**given, solver=name), 0)[0]
        for name in ("dual", "exact")
    }


def certificate(board, found, **more):
    X, y = board
    known = {name: found[name] for name in ("pieces", "W", "inside", "outside")}
    return certify_cpm_union(X, y, 3.0, **{**known, "alpha": found.duals["margin"], **more})


def test_the_exact_end_is_a_proven_fixed_point(board, ends):
    exact = ends["exact"]
    found = certificate(board, exact)
    assert exact.status is Status.CONVERGED
    assert found.claim is Claim.STATIONARY
    X, y = board
    W, pieces = exact["W"], exact["pieces"]
    assert found.primal_value == pytest.approx(union_objective(X, y, W, pieces, 3.0), rel=1e-9)
    assert ((union_scores(X @ W[:, :-1].T + W[:, -1], pieces) > 0) == (y > 0)).mean() > 0.9


def test_the_dual_end_is_within_its_tolerance_and_above_no_proven_bound(board, ends):
    found = certificate(board, ends["dual"])
    assert ends["dual"].status is Status.CONVERGED
    assert found.relative_gap <= 1e-4 + 1e-9
    assert found.dual_value <= ends["exact"].objective * (1 + 1e-9) or not np.array_equal(
        ends["dual"]["outside"], ends["exact"]["outside"]
    )
    assert ends["dual"].bound <= ends["dual"].objective


def test_without_multipliers_the_bound_is_built_either_way(board, ends, monkeypatch):
    exact = ends["exact"]
    small = certificate(board, exact, alpha=None, tol=1e-5)
    monkeypatch.setattr(certified, "_LARGE", 0)
    large = certificate(board, exact, alpha=None, tol=1e-5)
    for found in (small, large):
        assert found.dual_value <= found.primal_value
        assert found.relative_gap <= 1e-4


def test_a_perturbed_point_fails(board, ends):
    exact = ends["exact"]
    y = board[1]
    assert certificate(board, exact, W=1.01 * exact["W"]).claim is Claim.SUBOPTIMAL_BY
    assert certificate(board, exact, alpha=0.99 * exact.duals["margin"]).claim is Claim.SUBOPTIMAL_BY
    within = np.flatnonzero(y < 0)
    moved = exact["inside"].copy()
    moved[within[:20]] = 1 - moved[within[:20]]
    worse = certificate(board, exact, inside=moved)
    assert worse.claim is not Claim.STATIONARY
    assert {r.row: r.value for r in worse.residuals}["pieces"] > 0.1
    turned = exact["outside"].copy()
    first = np.flatnonzero(exact["pieces"] == 0)
    turned[y > 0, 0] = first[0]
    found = {r.row: r.value for r in certificate(board, exact, outside=turned).residuals}
    assert len(first) == 1 or found["faces"] > 0.1


def test_one_piece_is_certified_as_a_polytope_is(board):
    X, y = board
    W = np.random.default_rng(0).normal(size=(2, 3))
    union = certify_cpm_union(X, y, W=W, pieces=[0, 0])
    machine = certify_cpm(X, y, W=W)
    assert (union.primal_value, union.dual_value) == (machine.primal_value, machine.dual_value)
    single = certify_cpm_union(X, y, W=W[:1], pieces=[0], tol=0.9)
    assert single.claim in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    for bad in ({"W": W, "pieces": [0]}, {"pieces": [0, 0]}, {"W": W * np.nan, "pieces": [0, 0]}):
        with pytest.raises(ValueError, match=r"W|multipliers"):
            certify_cpm_union(X, y, **bad)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3))
def test_no_round_raises_the_objective_even_where_data_are_degenerate(seed, n_pieces, n_faces):
    """Few different points, of both classes at once; each value against the objective at its faces."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(12, 2)).astype(float)
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    C = rng.uniform(0.1, 5.0, 12)
    engine = UnionEngine(X, y, C)
    point, last = Growth(engine, n_faces).start(n_pieces, rng), np.inf
    for _ in range(4):
        point = engine.refine(point, Clock(None), tol=1e-4, max_rounds=5)
        least = union_objective(X, y, point.W, point.pieces, C)
        assert least <= point.objective * (1 + 1e-12) + 1e-12
        assert point.bound <= point.objective * (1 + 1e-9) + 1e-9
        assert point.objective <= last
        last = point.objective


def test_pruning_lowers_the_objective_and_leaves_out_what_nobody_needs(board):
    X, y = board
    engine = UnionEngine(X, y, np.full(len(y), 3.0))
    growth = Growth(engine, 3)
    point = engine.refine(growth.start(6, np.random.default_rng(0)), Clock(None), tol=1e-3, max_rounds=200)
    less = growth.pruned(point)
    before, after = (union_objective(X, y, p.W, p.pieces, 3.0) for p in (point, less))
    assert len(less.pieces) < len(point.pieces)
    assert after < before
    assert growth.pruned(less) is less
    for more in growth.grown(point, np.random.default_rng(0)):
        assert more.n_pieces == point.n_pieces + 1


def test_the_number_of_pieces_is_that_of_the_groups():
    """Three squares far apart, with nothing but the other class between them."""
    rng = np.random.default_rng(0)
    centres = 3.0 * np.column_stack([np.cos([0.0, 2.1, 4.2]), np.sin([0.0, 2.1, 4.2])])
    squares = np.repeat(centres, 25, axis=0) + rng.uniform(-0.7, 0.7, (75, 2))
    angles, far = rng.uniform(0.0, 2.0 * np.pi, 150), rng.uniform(1.5, 2.0, 150)
    around = np.repeat(centres, 50, axis=0) + far[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    X, y = np.vstack([squares, around]), np.r_[-np.ones(75), np.ones(len(around))]
    how = {"n_faces": 4, "n_init": 2, "clock": Clock(None), "seed": 0}
    chosen = choose(X, -y, np.full(len(y), 10.0), n_pieces=None, sides=(1.0, -1.0), **how)
    assert chosen.side == -1.0  # the squares are convex, what is around them is not
    assert chosen.chosen.point.n_pieces == 3
    few = np.r_[np.flatnonzero(y < 0)[:9], np.flatnonzero(y > 0)]
    assert choose(X[few], y[few], np.ones(len(few)), n_pieces=None, sides=(1.0,), **how) is None


def test_the_fewest_within_one_standard_error_of_the_difference():
    weights = np.full(100, 0.01)

    def wrong(count, first=0):
        return Trial(None, (np.arange(100) - first < count).astype(float) * (np.arange(100) >= first))

    choice = Choice(1.0, weights)
    choice.trials = [wrong(30), wrong(11), wrong(10), wrong(10)]
    assert choice.chosen is choice.trials[1]  # one sample more: within one error of it
    choice.trials = [wrong(30), wrong(14), wrong(10)]
    assert choice.chosen is choice.trials[2]  # four more, all on one side: two errors
    choice.trials = [wrong(12, first=50), wrong(10)]
    assert choice.chosen is choice.trials[0]  # others are wrong: their difference says little
    assert not choice.has_settled
    choice.trials = [wrong(10)] + [wrong(11)] * 3
    assert choice.has_settled


def test_a_limit_keeps_a_point(board):
    X, y = board
    found, _ = solve_cpm_union(X, y, np.full(len(y), 3.0), UnionSettings(None, 3, time_limit=0.0), 0)
    assert found.status is Status.TIME_LIMIT
    assert np.isfinite(found["W"]).all()
    value = union_objective(X, y, found["W"], found["pieces"], 3.0)
    assert value <= found.objective * (1 + 1e-9)


def test_a_coarse_point_is_not_called_settled(board):
    X, y = board
    search = union_search.UnionSearch(X, y, np.full(len(y), 3.0), 3, Clock(None))
    search.begin(2, 1, 0)
    search.best = replace(search.best, is_fixed=True)
    search.clock = Clock(0.0)
    assert search.finish(1e-6, 100) is Status.TIME_LIMIT
    search.clock = Clock(None)
    assert search.finish(1e-6, 1) is Status.ITERATION_LIMIT
    assert search.finish(1e-3, 1000) is Status.CONVERGED


@pytest.mark.parametrize("n_pieces", [None, 2])
@pytest.mark.parametrize("last", [1, 2, 3])
def test_ctrl_c_keeps_the_best_point_of_the_search(board, monkeypatch, n_pieces, last):
    X, y = board
    coarse, made = union_search.UnionSearch.coarse, []

    def interrupted(search, point):
        if len(made) >= last:
            raise KeyboardInterrupt
        made.append(coarse(search, point))
        return made[-1]

    monkeypatch.setattr(union_search.UnionSearch, "coarse", interrupted)
    found, _ = solve_cpm_union(X, y, np.full(len(y), 3.0), UnionSettings(n_pieces, 3), 0)
    assert found.status is Status.INTERRUPTED
    assert found["W"].shape == (len(found["pieces"]), 3)
    assert np.isfinite(found.objective)
    monkeypatch.setattr(union_search.UnionSearch, "coarse", lambda *_: interrupted(*[None] * 2))
    with pytest.raises(KeyboardInterrupt):
        solve_cpm_union(X, y, np.full(len(y), 3.0), UnionSettings(n_pieces, 3), 0)


def test_ctrl_c_within_a_round_keeps_the_last_point(board, monkeypatch):
    X, y = board
    engine = UnionEngine(X, y, np.full(len(y), 3.0))
    start = Growth(engine, 3).start(2, np.random.default_rng(0))
    climbs, made = engine.climb_face, []

    def climb(*arguments):
        made.append(1)
        if len(made) > 20:
            raise KeyboardInterrupt
        climbs(*arguments)

    monkeypatch.setattr(engine, "climb_face", climb)
    point = engine.refine(start, Clock(None), tol=1e-8, max_rounds=500)
    assert point.is_interrupted
    assert point.objective >= union_objective(X, y, point.W, point.pieces, 3.0) * (1 - 1e-12)
    monkeypatch.setattr(engine, "climb_face", lambda *arguments: climb())
    with pytest.raises(KeyboardInterrupt):
        engine.refine(start, Clock(None), tol=1e-8, max_rounds=500)
