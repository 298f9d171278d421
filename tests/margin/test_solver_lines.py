"""Why single lines of solvers are as they are."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from formulations.families import hinge_families
from formulations.language.toy_data import two_blobs
from polyopt.base import progress as progress
from polyopt.cpm.sgd import solve_cpm_sgd
from polyopt.linalg.kernels import MatrixGram
from polyopt.margin.decomposition import Options
from polyopt.margin.decomposition.state import RowCache
from polyopt.margin.interior_point import intercept, solve_interior_point
from polyopt.polyhedral.logistic_loss import FaceLoss
from polyopt.scale.crew import Change, catch_up
from polyopt.sparse.one_norm import solve_one_norm


def test_rows_that_are_asked_for_now_do_not_make_room_for_others():
    K = np.arange(100.0).reshape(10, 10)
    rows = RowCache(MatrixGram(K), 1e4, np.float64, Options(max_fresh_rows=3))
    rows.fetch(np.array([0, 1, 2]))
    wanted = np.array([0, 1, 3, 4])
    assert np.array_equal(rows.table[rows.fetch(wanted)], K[wanted])
    assert rows.is_cached(np.arange(5)).all()


def test_a_sample_without_weight_has_no_probability_and_no_warning():
    given = SimpleNamespace(c=np.array([0.0, 2.0, 4.0]))
    with np.errstate(all="raise"):
        assert FaceLoss.probabilities(given, np.array([0.0, 1.0, 4.0])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("solve", [
    lambda X, y: solve_one_norm(X @ X.T, y, np.ones(40), np.ones(40)),
    lambda X, y: solve_interior_point(X, hinge_families(y, 1.0)),
    lambda X, y: solve_cpm_sgd(X, y, np.ones(40), 2, max_iter=2),
])  # fmt: skip
def test_seconds_that_are_told_are_no_more_than_have_passed(solve):
    X, y = two_blobs(n=40, m=2, seed=0)
    solve(X, y)  # what is imported at first is nobody's
    started = time.perf_counter()
    found = solve(X, y)
    passed = time.perf_counter() - started
    assert found.build_time >= 0.0
    assert found.solve_time >= 0.0
    assert found.build_time + found.solve_time <= passed
    assert found.iterations > 0


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_slopes_that_only_rounding_makes_are_none(size):
    """0.1 + 0.2 down against 0.3 up: between them the slacks cost the same."""
    y, costs = np.array([-1.0, -1.0, 1.0, 1.0]), size * np.array([0.1, 0.2, 0.3, 1.0])
    rows, g = hinge_families(y, costs), np.array([0.0, 0.0, -3.0, 9.0])
    parts = {"breakpoint_range": intercept.breakpoint_range, "list_breakpoints": intercept.list_breakpoints}
    found = intercept.best_intercept_interval(
        lambda name, w, *more: [parts[name](rows, g, *more)], lambda values: sum(values), np.zeros(1)
    )
    assert found == pytest.approx((-1.0, 4.0))


def test_slopes_that_rounding_makes_late_are_taken_at_the_last_end():
    """Sums of a bin each may fall short of what costs together: what rises then seems to rise at no end."""
    ends = intercept.BreakpointRange(0.0, 8.0, 10**9, 10.0, 4.0, True)
    asked = []

    def ask(name, w, *more):
        asked.append((name, more))
        if name == "breakpoint_range":
            return [ends]
        if name == "list_breakpoints":
            return [intercept.ListedBreakpoints(3.0, np.array([more[1]]), np.array([1.0]), np.inf)]
        edges = more[0]
        found = np.zeros((2, len(edges) + 1))
        found[0, -1], found[1] = 4.0, 1.0  # all of it beyond the last edge
        return [found]

    found = intercept.best_intercept_interval(ask, lambda values: sum(values), np.zeros(1))
    (_, (low, high)) = asked[-1]
    assert low < high == 8.0
    assert found == (8.0, np.inf)


def test_a_block_goes_through_the_part_of_the_log_that_it_has_missed():
    """A log that begins at its change 2, for a block that has been through 3."""
    block = SimpleNamespace(n_applied=3, last_result=None)
    block.move = lambda step: ("moved", step)
    log = [Change("move", (step,)) for step in (2, 3, 4)]
    assert catch_up(block, log, 2, None) == ("moved", 4)
    assert block.n_applied == 5
    block = SimpleNamespace(n_applied=4, last_result="as it was", move=pytest.fail)
    assert catch_up(block, log[:2], 2, None) == "as it was"


@pytest.mark.parametrize(
    ("record", "phrase"),
    [
        ({}, "1.3 s"),
        ({"iteration": 1200.0, "violation": 0.0123}, "1.3 s, iteration 1200, violation 1.23e-02"),
        ({"objective": 3.5, "bound": 3.0}, "1.3 s, gap 5.00e-01"),
        ({"objective": 3.5, "bound": float("nan")}, "1.3 s"),
        ({"rows": 12345.0, "nodes": 1000.0}, "1.3 s, 12,345 kernel rows, 1,000 nodes"),
        ({"best": 0.25, "elite_threshold": 0.5}, "1.3 s, best 0.25, elite up to 0.5"),
    ],
)
def test_a_record_is_told_as_far_as_it_goes(record, phrase):
    assert progress.describe({"seconds": 1.25001, **record}) == phrase


def test_records_are_told_no_more_often_than_each_so_many_seconds(monkeypatch, capsys):
    now = [10.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    show = progress.printer("a run")
    for seconds in (0.5, 0.999, 1.0, 1.5, 2.0, 2.5, 4.0):
        now[0] = 10.0 + seconds
        show({"seconds": seconds})
    assert capsys.readouterr().err.splitlines() == [f"a run: {t:.1f} s" for t in (1.0, 2.0, 4.0)]


def test_progress_is_seen_at_once(monkeypatch):
    told = []
    stream = SimpleNamespace(write=told.append, flush=lambda: told.append("seen"))
    monkeypatch.setattr("sys.stderr", stream)
    progress.printer("a fit", 0.0)({"seconds": 1.0, "objective": 2.0})
    assert told == ["a fit: 1.0 s, objective 2", "\n", "seen"]
