"""What a long run tells on the way: shares that are right and never fall, and a line on a terminal alone."""

from __future__ import annotations

import io
import sys
import time

import pytest
from rich.console import Console

from polyopt.base.progress import steps, tell, watching
from polyopt.cli import console as module
from polyopt.cli.console import progress


def test_a_share_counts_loops_within_loops():
    with watching() as watch:
        assert watch.fraction is None
        with steps(4, "fit") as fits:
            fits.done(2)
            assert watch.fraction == 0.5
            with steps(10, "pair") as pairs:
                pairs.done(5)
                assert watch.fraction == 0.625
                pairs.name("a vs b")
                tell({"iteration": 12.0, "objective": 2.0, "bound": 1.0})
                assert watch.text == "fit 3 of 4, pair 6 of 10: a vs b, iteration 12, gap 5e-01"
            assert watch.fraction == 0.625, "it never falls"
            fits.done(2)
            assert watch.fraction == 1.0
        assert watch.text == ""


def shown(monkeypatch, terminal, silent, quiet=False, total=2):
    """What is written on standard error during a run of a few tenths of a second."""
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "_SECONDS_BEFORE_PROGRESS", silent)
    monkeypatch.setenv("TERM", "xterm")
    with progress("family", quiet, total) as step:
        step.name("svm")
        deadline = time.monotonic() + 20.0
        while terminal and not quiet and silent == 0.0 and "svm" not in stream.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        step.done()
    return stream.getvalue()


def test_a_long_run_is_shown_on_a_terminal(monkeypatch):
    assert "family 1 of 2: svm" in shown(monkeypatch, True, 0.0)


@pytest.mark.parametrize(
    ("terminal", "silent", "quiet"), [(False, 0.0, False), (True, 0.0, True), (True, 1e6, False)]
)
def test_pipes_quiet_runs_and_short_ones_show_nothing(monkeypatch, terminal, silent, quiet):
    assert shown(monkeypatch, terminal, silent, quiet) == ""


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_line_fits_the_terminal_and_tells_the_time_left(width):
    with watching() as watch, steps(4, "fit") as step:
        step.name("a name that is far too long for a narrow terminal, and goes on for quite a while")
        step.done()
        drawn = Console(width=width).render_lines(module.bar_of(watch, "").get_renderable(), pad=False)
    lines = ["".join(segment.text for segment in line) for line in drawn]
    assert len(lines) == 1
    assert len(lines[0]) <= width
    assert " 25% 0:00:00" in lines[0]
