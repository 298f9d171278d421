"""What a long run tells on the way: each record as a phrase, and no more than one within a time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from polyopt.solvers import progress


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
