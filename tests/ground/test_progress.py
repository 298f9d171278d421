"""Records of a run as lines: what is told of a record, when, and that it is seen at once."""

import contextlib
from types import SimpleNamespace

import pytest

from polyopt.base.progress import describe, printer

PHRASES = {
    "seconds alone": ({}, "1.3 s"),
    "iteration": (
        {"iteration": 1200.0, "violation": 0.0123}, "1.3 s, iteration 1200, violation 1.23e-02",
    ),
    "gap": ({"objective": 3.5, "bound": 3.0}, "1.3 s, gap 5.00e-01"),
    "no bound yet": ({"objective": 3.5, "bound": float("nan")}, "1.3 s"),
    "rows and nodes": ({"rows": 12345.0, "nodes": 1000.0}, "1.3 s, 12,345 kernel rows, 1,000 nodes"),
    "cross-entropy": ({"best": 0.25, "elite_threshold": 0.5}, "1.3 s, best 0.25, elite up to 0.5"),
}  # fmt: skip


@pytest.mark.parametrize(("record", "phrase"), PHRASES.values(), ids=PHRASES)
def test_record_is_described(record, phrase):
    """A record is described by the numbers that it has."""
    assert describe({"seconds": 1.25001, **record}) == phrase


@pytest.mark.parametrize(("interval", "count"), [(0.0, 3), (1e9, 0)])
def test_records_are_printed_at_intervals(interval, count, capsys):
    """A record is printed if the interval since the last line has passed, on standard error."""
    show = printer("a run", interval)
    for seconds in (1.0, 2.0, 4.0):
        show({"seconds": seconds})
    told = capsys.readouterr()
    assert told.err.splitlines() == [f"a run: {t:.1f} s" for t in (1.0, 2.0, 4.0)][:count]
    assert told.out == ""


def test_line_is_flushed():
    """A line is seen at once: the stream is flushed after it."""
    told = []
    with contextlib.redirect_stderr(SimpleNamespace(write=told.append, flush=lambda: told.append("seen"))):
        printer("a fit", 0.0)({"seconds": 1.0, "objective": 2.0})
    assert told == ["a fit: 1.0 s, objective 2", "\n", "seen"]
