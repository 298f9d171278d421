"""Rounds of local steps: the same bits whoever takes them, and never worse than their start."""

from __future__ import annotations

import json
from itertools import chain, pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.checkpoints import killed_at_save
from hypothesis import given
from hypothesis import strategies as st

from formulations import cpm
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import ConvexPolytopeMachine, large
from polyopt.base import threads
from polyopt.cpm.sgd import CpmSgd
from polyopt.large import local_sgd
from polyopt.large.blocks import Recipe
from polyopt.large.executor import LocalExecutor
from polyopt.large.local_sgd import Shards, draw, row_order, solve_cpm_rounds, survey
from polyopt.linalg.rows import as_rows

K = 2
RECIPE = Recipe(("no", "yes"), (1.0, 1.0), 0.1)


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=150, m=4, separation=1.0, seed=0)
    return X, np.where(y > 0, "yes", "no"), np.random.default_rng(0).uniform(0.0, 2.0, 150).round(1)


@pytest.fixture(scope="module")
def start():
    return np.random.default_rng(1).normal(size=(K, 5))


def solve(source, recipe=RECIPE, n_faces=K, **settings):
    usual = {"n_shards": 3, "n_pilot": 60, "max_iter": 3, "seed": 4}
    return solve_cpm_rounds(LocalExecutor(source), recipe, n_faces, **usual | settings)


def bits(found):
    history = [{name: value for name, value in each.items() if name != "seconds"} for each in found.history]
    return found["W"].tobytes(), found.objective, found.iterations, json.dumps(history)


def value(W, X, y, C):
    return cpm.objective(X, np.where(y == "yes", 1.0, -1.0), W, C)


def test_the_objective_is_the_program_s_and_never_above_the_start_s(data, start):
    X, y, weights = data
    recipe = RECIPE._replace(factors=(0.5, 3.0))
    C = 0.1 * weights * np.where(y == "yes", 3.0, 0.5)
    for settings in ({"start": start}, {"start": 100.0 * start, "steps": 1}, {}):
        found = solve(large.Arrays(X, y, weights, rows=17), recipe, **settings)
        assert found.objective == pytest.approx(value(found["W"], X, y, C), rel=1e-9)
        assert found.objective <= found.history[0]["objective"]
        measured = [each["objective"] for each in found.history if each["objective"] == each["objective"]]
        assert found.objective == min(measured)
        assert len(measured) == 4
    best = solve(large.Arrays(X, y, weights, rows=17), recipe, start=found["W"], steps=1)
    assert best.objective == found.objective  # steps that are far too long lose nothing
    assert best["W"].tobytes() == found["W"].tobytes()


def test_one_shard_of_one_block_is_algorithm_1(data, start):
    X, y, _ = data
    found = solve(large.Arrays(X, y), start=start, steps=400, max_iter=2)
    sgd, unseen = CpmSgd(4, K), np.full(150, -1)
    sgd.U[:, :K], sgd.A[:, :K], sgd.steps[0] = 401.0 * start.T, start.T, 400
    values = [value(start, X, y, 0.1)]
    for passes in range(2):
        order = row_order(4, passes, 0, 150)
        sgd.learn(as_rows(X), y == "yes", np.full(150, 7.5), order, unseen.copy(), unseen.copy())
        values.append(min(value(W, X, y, 0.1) for W in sgd.iterates))
        # Between two passes the shards' mean is in double precision.
        sgd.U[:, :K] = (sgd.steps[0] + 1.0) * sgd.iterates[0].T
    assert [each["objective"] for each in found.history] == pytest.approx(values, rel=1e-5)
    assert [each["passes"] for each in found.history] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("steps", [7, 1000])
def test_threads_change_no_bit(steps, data, start, monkeypatch):
    X, y, weights = data
    whole = np.clip(np.round(40.0 * X + 100.0), 0, 255)
    settings = {"start": start, "steps": steps, "scale": 1 / 255}
    sources = [
        large.Arrays(whole.astype(kind), y, weights, rows=17) for kind in (np.uint8, np.float32, np.float64)
    ]
    wanted = bits(solve(sources[0], **settings))
    for source in sources[1:]:  # whose products are rounded otherwise
        assert solve(source, **settings).objective == pytest.approx(wanted[1], rel=1e-3)
    for count in (2, 4):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        assert bits(solve(sources[0], **settings)) == wanted
    assert bits(solve(sources[0], **settings | {"seed": 5})) != wanted
    assert bits(solve(sources[0], **settings | {"n_shards": 2})) != wanted


def test_it_goes_on_from_a_checkpoint_to_the_same_bits(data, tmp_path):
    source, path = large.Arrays(*data, rows=17), tmp_path / "checkpoint"
    wanted = bits(solve(source))
    for stop in (1, 2):
        with killed_at_save(stop), pytest.raises(SystemExit):
            solve(source, checkpoint=path)
        assert bits(solve(source, resume=path)) == wanted
    with pytest.raises(ValueError, match="of another fit: seed was 4"):
        solve(source, resume=path, seed=5)
    with pytest.raises(ValueError, match="of another fit: its samples, labels or weights"):
        solve(large.Arrays(data[0] + 1.0, *data[1:], rows=17), resume=path)


def test_rounds_that_are_parts_of_a_pass_can_be_gone_on_from(data, start, tmp_path):
    source, path = large.Arrays(*data, rows=17), tmp_path / "checkpoint"
    settings = {"start": start, "steps": 4}
    whole = solve(source, **settings)
    assert 0.0 < whole.history[1]["passes"] < 1.0
    steps, visit = [], local_sgd._visit

    def broken(*given):
        steps.append(1)
        if len(steps) == 8:
            raise KeyboardInterrupt
        return visit(*given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local_sgd, "_visit", broken)
        short = solve(source, **settings, checkpoint=path)
    assert short.status is Status.INTERRUPTED
    assert short.objective == whole.history[0]["objective"]
    assert 0.0 < short.history[-1]["passes"] < 1.0
    assert bits(solve(source, **settings, resume=path)) == bits(whole)


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=12).filter(any),
    n_shards=st.integers(1, 14),
    cuts=st.lists(st.integers(0, 40), max_size=4),
)
def test_a_pass_visits_every_row_once(counts, n_shards, cuts):
    local_sgd = Shards(counts, n_shards, seed=3)
    assert sorted(chain(*local_sgd.blocks)) == [number for number, count in enumerate(counts) if count]
    places = [0, *sorted(min(cut, local_sgd.longest) for cut in cuts), local_sgd.longest]
    for shard, blocks in enumerate(local_sgd.blocks):
        seen = {number: [] for number in blocks}
        for first, last in pairwise(places):
            taken = 0
            for number, (low, high) in local_sgd.stops(shard, 1, first, last):
                seen[number] += row_order(3, 1, number, counts[number])[low:high].tolist()
                taken += high - low
            assert taken <= last - first  # no shard takes more steps than the longest
        assert all(sorted(rows) == list(range(counts[number])) for number, rows in seen.items())


def test_a_pilot_is_drawn_from_more_than_1e9_samples():
    """From 1e9 on; no block gives more than it has, and shares are those of the blocks."""
    rng, counts = np.random.default_rng(0), np.array([0, 3, 6 * 10**9, 3 * 10**9])
    takes = local_sgd._counts_per_block(rng, counts, 20_000)
    assert (takes <= counts).all()
    assert takes[0] == 0
    assert takes[2] / takes.sum() == pytest.approx(2 / 3, abs=0.02)
    assert local_sgd._counts_per_block(rng, np.array([1, 2]), 3).tolist() == [1, 2]


def test_a_sample_is_of_both_classes_and_its_weights_count_all(data):
    X, y, _ = data
    y = np.where(np.arange(150) < 7, "yes", "no")
    source = large.Generated(lambda k: (X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20]), 8)
    facts = survey(LocalExecutor(source), RECIPE)
    assert [part.outside for part in facts.parts] == [7] + 7 * [0]
    for size, rare in ((10, 1), (60, 6), (1000, 7)):
        drawn = draw(LocalExecutor(source), RECIPE, facts, size, 0)
        assert drawn.outside.sum() == rare
        assert drawn.weights[drawn.outside].sum() == pytest.approx(7.0)
        assert drawn.weights[~drawn.outside].sum() == pytest.approx(143.0)
        assert len(np.unique(drawn.X, axis=0)) == len(drawn.X)  # none twice
        assert {row.tobytes() for row in drawn.X} <= {row.tobytes() for row in X}


def test_blocks_may_be_empty_or_of_one_class_or_sparse(data, start):
    X, y, _ = data
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    cuts = [0, 0, 3, 40, 40, 119, 150, 150]
    part = lambda k: slice(cuts[k], cuts[k + 1])  # noqa: E731
    dense = large.Generated(lambda k: (X[part(k)], y[part(k)]), 7)
    sparse = large.Generated(lambda k: (sp.csr_array(X[part(k)]), y[part(k)]), 7)
    found = [solve(source, start=start, steps=500, n_shards=9) for source in (dense, sparse)]
    assert bits(found[0]) == bits(found[1])
    assert found[0].objective < found[0].history[0]["objective"]


def test_one_face_comes_near_the_optimum(data):
    X, y, _ = data
    best = ConvexPolytopeMachine(1, 0.1, solver="exact", inside_label="no").fit(X, y).solution_.objective
    found = solve(large.Arrays(X, y, rows=17), n_faces=1, max_iter=60, tol=1e-3)
    assert best * (1 - 1e-9) <= found.objective <= 1.05 * best


def test_a_limit_is_told(data, start):
    source = large.Arrays(*data, rows=17)
    assert solve(source, start=start, max_iter=1).status is Status.ITERATION_LIMIT
    assert solve(source, start=start, steps=10**9, tol=0.5).status is Status.CONVERGED
    for first in (None, start):
        short = solve(source, start=first, time_limit=0.0)
        assert short.status is Status.TIME_LIMIT
        assert np.isinf(short.objective)
        assert np.array_equal(short["W"], np.zeros((K, 5)) if first is None else start)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_faces": 0}, "n_faces"),
        ({"n_shards": 0}, "n_shards"),
        ({"scale": 0.0}, "scale"),
        ({"start": np.zeros((1, 5))}, "start must be finite, of shape 2 x 5"),
        ({"recipe": RECIPE._replace(classes=("no", "maybe"))}, "no sample of class 'maybe'"),
    ],
)
def test_what_is_wrong_is_named(settings, message, data):
    with pytest.raises(ValueError, match=message):
        solve(large.Arrays(*data), **settings)


def test_what_is_not_finite_is_named_with_its_block(data):
    X, y, _ = data
    for bad in (np.nan, -np.inf):
        worse = X.copy()
        worse[40, 1] = bad
        with pytest.raises(ValueError, match="NaN or an infinite value in partition 2"):
            solve(large.Arrays(worse, y, rows=17))
