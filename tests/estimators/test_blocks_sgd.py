"""Algorithm 1 through blocks: the same bits on any threads, and never worse than its start."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.checkpoints import killed_at_save

from formulations import cpm
from formulations.language.clock import Clock
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import ConvexPolytopeMachine, scale
from polyopt.base import threads
from polyopt.cpm import sgd_by_blocks as by_blocks
from polyopt.cpm.sgd import CpmSgd
from polyopt.cpm.sgd_by_blocks import Options, Passes, draw_sample, row_order, summarize
from polyopt.linalg.rows import as_rows
from polyopt.scale.blocks import Pair
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.executor import ThreadExecutor

K = 2
PAIR = Pair(("no", "yes"), (1.0, 1.0), 0.1)


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=150, m=4, separation=1.0, seed=0)
    return X, np.where(y > 0, "yes", "no"), np.random.default_rng(0).uniform(0.0, 2.0, 150).round(1)


@pytest.fixture(scope="module")
def start():
    return np.random.default_rng(1).normal(size=(K, 5))


def solve(
    source, pair=PAIR, n_faces=K, start=None, steps=6000, checkpoint=None, resume=None, time_limit=None,
    seed=4, scale=1.0, **options,
):  # fmt: skip
    """Passes from the pilot, or from faces that count for so many steps in its place."""
    executor, clock = ThreadExecutor(source), Clock(time_limit)
    options = Options(**{"pilot_samples": 60, "max_passes": 3} | options)
    summary = summarize(executor.inspect(), pair)
    save = Checkpoint(checkpoint, resume, executor, pair)
    with pytest.MonkeyPatch.context() as patched:
        if start is not None:
            patched.setattr(Passes, "_solve_pilot", lambda run, clock: (start, steps))
        return Passes(executor, pair, summary, n_faces, save, scale, seed, options).solve(clock)


def bits(found):
    history = [{name: value for name, value in each.items() if name != "seconds"} for each in found.history]
    return found["W"].tobytes(), found.objective, found.iterations, json.dumps(history)


def value(W, X, y, C):
    return cpm.objective(X, np.where(y == "yes", 1.0, -1.0), W, C)


def test_the_objective_is_the_program_s_and_never_above_the_start_s(data, start):
    X, y, weights = data
    pair = PAIR._replace(factors=(0.5, 3.0))
    C = 0.1 * weights * np.where(y == "yes", 3.0, 0.5)
    for settings in ({"start": start}, {"start": 100.0 * start, "steps": 1}, {}):
        found = solve(scale.Arrays(X, y, weights, rows=17), pair, **settings)
        assert found.objective == pytest.approx(value(found["W"], X, y, C), rel=1e-9)
        assert found.objective <= found.history[0]["objective"]
        measured = [each["objective"] for each in found.history if each["objective"] == each["objective"]]
        assert found.objective == min(measured)
        assert len(measured) == 4
    best = solve(scale.Arrays(X, y, weights, rows=17), pair, start=found["W"], steps=1)
    assert best.objective == found.objective  # steps that are far too long lose nothing
    assert best["W"].tobytes() == found["W"].tobytes()


def at_start(start):
    sgd = CpmSgd(4, K)
    sgd.U[:, :K], sgd.A[:, :K], sgd.steps[0] = 401.0 * start.T, start.T, 400
    return sgd


def take_steps(sgd, X, y, order):
    unassigned = np.full(len(y), -1)
    rows, gains = as_rows(X), np.full(len(y), 7.5)
    sgd.take_steps(sgd.step_arguments(rows, y == "yes", gains, unassigned, unassigned.copy()), rows, order)


def test_one_block_is_algorithm_1(data, start):
    X, y, _ = data
    found = solve(scale.Arrays(X, y), start=start, steps=400, max_passes=2)
    sgd = at_start(start)
    values = [value(start, X, y, 0.1)]
    for passes in range(2):
        order = row_order(4, passes, 0, 150)
        take_steps(sgd, X, y, order)
        values.append(min(value(W, X, y, 0.1) for W in sgd.iterates))
    assert [each["objective"] for each in found.history] == pytest.approx(values, rel=1e-5)
    assert [each["epoch"] for each in found.history] == [0.0, 1.0, 2.0]


def test_a_pass_visits_every_sample_once_block_after_block(data, start):
    """The blocks in one of their orders, each with its samples in the order of its seed."""
    X, y, _ = data
    found = solve(scale.Arrays(X, y, rows=60), start=start, steps=400, max_passes=1)
    ends = []
    for blocks in permutations(range(3)):
        sgd = at_start(start)
        for number in blocks:
            part = slice(60 * number, 60 * number + 60)
            take_steps(sgd, X[part], y[part], row_order(4, 0, number, len(y[part])))
        ends.append(min(value(W, X, y, 0.1) for W in sgd.iterates))
    assert found.objective in [pytest.approx(end, rel=1e-6) for end in ends]


@pytest.mark.parametrize("steps", [7, 1000])
def test_threads_change_no_bit(steps, data, start, monkeypatch):
    X, y, weights = data
    whole = np.clip(np.round(40.0 * X + 100.0), 0, 255)
    settings = {"start": start, "steps": steps, "scale": 1 / 255}
    sources = [
        scale.Arrays(whole.astype(kind), y, weights, rows=17) for kind in (np.uint8, np.float32, np.float64)
    ]
    wanted = bits(solve(sources[0], **settings))
    for source in sources[1:]:  # whose products are rounded otherwise
        assert solve(source, **settings).objective == pytest.approx(wanted[1], rel=1e-3)
    for count in (2, 4):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        assert bits(solve(sources[0], **settings)) == wanted
    assert bits(solve(sources[0], **settings | {"seed": 5})) != wanted


def test_it_goes_on_from_a_checkpoint_to_the_same_bits(data, tmp_path):
    source, path = scale.Arrays(*data, rows=17), tmp_path / "checkpoint"
    wanted = bits(solve(source))
    for stop in (1, 2):
        with killed_at_save(stop), pytest.raises(SystemExit):
            solve(source, checkpoint=path)
        assert bits(solve(source, resume=path)) == wanted
    with pytest.raises(ValueError, match="of another fit: its samples, labels or weights"):
        solve(scale.Arrays(data[0] + 1.0, *data[1:], rows=17), resume=path)


def test_an_interrupted_pass_is_dropped_and_resumed(data, start, tmp_path):
    source, path = scale.Arrays(*data, rows=17), tmp_path / "checkpoint"
    settings = {"start": start, "steps": 4}
    whole = solve(source, **settings)
    visits, take_steps = [], by_blocks._take_steps

    def broken(*arguments):
        visits.append(1)
        if len(visits) == 14:
            raise KeyboardInterrupt
        return take_steps(*arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(by_blocks, "_take_steps", broken)
        short = solve(source, **settings, checkpoint=path)
    assert short.status is Status.INTERRUPTED
    assert short.iterations == 1
    assert short.objective == min(each["objective"] for each in whole.history[:2])
    assert bits(solve(source, **settings, resume=path)) == bits(whole)


def test_a_sample_is_of_both_classes_and_its_weights_count_all(data):
    X, y, _ = data
    y = np.where(np.arange(150) < 7, "yes", "no")
    source = scale.Generated(lambda k: (X[20 * k : 20 * k + 20], y[20 * k : 20 * k + 20]), 8)
    summary = summarize(ThreadExecutor(source).inspect(), PAIR)
    assert summary.counts.tolist() == [[13, 7]] + 6 * [[20, 0]] + [[10, 0]]
    assert (summary.n, summary.m, summary.max_entry) == (150, 4, np.abs(X).max())
    assert (summary.min_cost, summary.max_cost) == (0.1, 0.1)
    assert summary.total_cost == pytest.approx(15.0)
    for size, rare in ((10, 1), (60, 6), (1000, 7)):
        drawn = draw_sample(ThreadExecutor(source), PAIR, summary, size, 0)
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
    dense = scale.Generated(lambda k: (X[part(k)], y[part(k)]), 7)
    sparse = scale.Generated(lambda k: (sp.csr_array(X[part(k)]), y[part(k)]), 7)
    found = [solve(source, start=start, steps=500) for source in (dense, sparse)]
    assert bits(found[0]) == bits(found[1])
    assert found[0].objective < found[0].history[0]["objective"]


def test_one_face_comes_near_the_optimum(data):
    X, y, _ = data
    best = ConvexPolytopeMachine(1, 0.1, solver="exact", inside_label="no").fit(X, y).solution_.objective
    found = solve(scale.Arrays(X, y, rows=17), n_faces=1, max_passes=60)
    assert best * (1 - 1e-9) <= found.objective <= 1.05 * best


def test_a_limit_is_told(data, start):
    source = scale.Arrays(*data, rows=17)
    assert solve(source, start=start, max_passes=1).status is Status.ITERATION_LIMIT
    assert solve(source, start=start, steps=10**9, tol=0.5).status is Status.CONVERGED
    for first in (None, start):
        short = solve(source, start=first, time_limit=0.0)
        assert short.status is Status.TIME_LIMIT
        assert np.isinf(short.objective)
        assert np.array_equal(short["W"], np.zeros((K, 5)) if first is None else start)
