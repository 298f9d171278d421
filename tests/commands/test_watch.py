"""What a long run tells on the way: shares that are right and never fall, and a line on a terminal alone."""

import io
import time
from contextlib import redirect_stderr

import pytest
from rich.console import Console

from polyopt.base.progress import steps, tell, watching
from polyopt.cli.console import bar_of, progress


def test_share_counts_inner_loops():
    """The share of a loop within a loop is right, and never falls."""
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


@pytest.mark.parametrize(
    ("terminal", "after", "quiet", "is_shown"),
    [
        (True, 0.0, False, True),
        (False, 0.0, False, False),
        (True, 0.0, True, False),
        (True, 1e6, False, False),
    ],
    ids=["long", "pipe", "quiet", "short"],
)
def test_long_run_is_shown_on_terminal(terminal, after, quiet, is_shown, monkeypatch):
    """A run of more than two seconds is shown on a terminal, and none on a pipe or if it is quiet."""
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    with redirect_stderr(stream), progress("family", quiet, 2, after=after) as step:
        step.name("svm")
        deadline = time.monotonic() + 20.0
        while is_shown and "svm" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        step.done()
    assert ("family 1 of 2: svm" in stream.getvalue()) == is_shown
    assert is_shown or stream.getvalue() == ""


@pytest.mark.parametrize("width", [40, 80, 120])
def test_line_fits_terminal(width):
    """The bar, the share and the time left fit on one line of the terminal."""
    with watching() as watch, steps(4, "fit") as step:
        step.name("a name that is far too long for a narrow terminal, and goes on for quite a while")
        step.done()
        drawn = Console(width=width).render_lines(bar_of(watch, "").get_renderable(), pad=False)
    lines = ["".join(segment.text for segment in line) for line in drawn]
    assert len(lines) == 1
    assert len(lines[0]) <= width
    assert " 25% 0:00:00" in lines[0]
