"""Local steps of the polytope machine: a run on its way is Algorithm 1's, and the mean of runs is a mean."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from formulations import cpm
from formulations.language.toy_data import two_blobs
from polyopt.cpm.local_steps import Point, begin, mean, visit
from polyopt.cpm.sgd import AVERAGE, CpmSgd, losses
from polyopt.linalg.rows import as_rows

K = 3


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=90, m=4, separation=1.0, seed=0)
    rng = np.random.default_rng(0)
    return as_rows(X), y > 0, rng.uniform(0.5, 2.0, 90), rng.normal(size=(K, 5))


def test_a_run_is_algorithm_1_wherever_its_samples_are_cut(data):
    rows, outside, gains, W = data
    order = np.random.default_rng(1).permutation(90)
    whole = CpmSgd(4, K, dtype=np.float64)
    whole.U[:, :K], whole.A[:, :K], whole.steps[0] = 51.0 * W.T, W.T, 50
    unseen = np.full(90, -1)
    whole.learn(rows, outside, gains, order, unseen, unseen.copy())
    for cuts in ((), (1,), (20, 20, 70)):
        run = begin(Point(W, W, 50), np.float64)
        for part in np.split(order, cuts):
            before = run.U.tobytes(), run.A.tobytes()
            after = visit(run, rows, outside, gains, part, K)
            assert (run.U.tobytes(), run.A.tobytes()) == before  # a lost task can be done again
            run = after
        assert run.U.tobytes() == whole.U.tobytes()
        assert run.A.tobytes() == whole.A.tobytes()
        assert (run.steps, run.weight) == (140, whole.tally[AVERAGE])
        end = mean([run], [90], K)
        assert end.W.tobytes() == whole.iterates[0].tobytes()
        assert end.A.tobytes() == whole.iterates[1].tobytes()


def test_the_mean_counts_samples(data):
    rows, outside, gains, W = data
    first = begin(Point(W, W, 50), np.float64)
    runs = [visit(first, rows, outside, gains, np.arange(*part), K) for part in ((0, 30), (30, 90))]
    ends = [mean([run], [1], K) for run in runs]
    found = mean(runs, [30, 60], K)
    assert found.W == pytest.approx((ends[0].W + 2.0 * ends[1].W) / 3.0, rel=1e-12)
    assert found.A == pytest.approx((ends[0].A + 2.0 * ends[1].A) / 3.0, rel=1e-12)
    assert (found.steps, found.weight) == (110, runs[1].weight)
    assert mean(runs, [0, 5], K).W.tobytes() == ends[1].W.tobytes()


def test_the_losses_are_those_of_the_program():
    X, y = two_blobs(n=40, m=4, separation=0.5, seed=2)
    C, W = np.random.default_rng(2).uniform(size=40), np.random.default_rng(3).normal(size=(K, 5))
    wanted = cpm.objective(X, y, W, C)
    for samples in (X, sp.csr_array(X)):
        assert (W**2).sum() + losses(W, as_rows(samples), y > 0, C) == pytest.approx(wanted, rel=1e-12)
    assert losses(W, as_rows(X[:0]), y[:0] > 0, C[:0]) == 0.0
