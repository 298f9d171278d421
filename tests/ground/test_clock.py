"""Clocks: limits, parts, being stopped, and how a clock travels to threads and other processes."""

import pickle
import threading

import pytest

from formulations.language.clock import (
    Clock,
    OutOfTimeError,
    current_clock,
    interrupted,
    is_out_of_time,
    running,
)
from formulations.language.solution import Status

LONG = 1e9


def test_clock_counts_down():
    """A clock with a limit has time left or is over; one without has no limit."""
    clock = Clock(LONG)
    assert not clock.is_over
    assert clock.left < LONG
    assert clock.part(0.25).left == pytest.approx(LONG / 4, rel=1e-3)
    assert clock.seconds > 0
    over = Clock(0.0)
    assert over.is_over
    assert 0 < over.left < 1
    with pytest.raises(OutOfTimeError):
        over.check()
    free = Clock()
    assert free.left is None
    assert free.part(0.5).left is None


def test_clocks_within_stopped_one_are_over():
    """Stopping one ends the running clock and what is started within it, and no clock before it."""
    before = Clock()
    with running(Clock()) as whole:
        clock, limited = Clock(), Clock(LONG)
        assert clock.left is None
        assert not is_out_of_time()
        limited.stop()
        assert whole.is_stopped
        assert is_out_of_time()
        assert clock.is_over
        assert limited.left < 1
    assert not before.is_over
    assert not Clock().is_over
    assert current_clock() is None


def test_part_ends_within_whole():
    """A clock within another one ends no later than that one."""
    with running(Clock(0.0)), running(Clock(LONG)) as part:
        assert part.is_over
        assert not part.is_stopped
    with running(Clock(LONG)) as whole, running(Clock(0.0)) as part:
        assert part.is_over
        assert not whole.is_over
    assert Clock(LONG, outer=Clock(0.0)).is_over


def test_another_process_has_the_same_deadline():
    """A pickled clock keeps its end and its stop."""
    with running(Clock(LONG)) as clock:
        far = pickle.loads(pickle.dumps(clock))
        assert not far.is_over
        assert LONG / 2 < far.left < 2 * LONG
        clock.stop()
        assert pickle.loads(pickle.dumps(Clock())).is_stopped
    assert pickle.loads(pickle.dumps(Clock())).left is None


def test_thread_has_clock_of_its_caller():
    """A thread runs within a clock only if it is given one."""
    found = []

    def work(clock):
        assert current_clock() is None
        with running(clock):
            found.append(Clock().is_over)

    with running(Clock()) as clock:
        clock.stop()
        thread = threading.Thread(target=work, args=(clock,))
        thread.start()
        thread.join()
    assert found == [True]


def test_clock_refuses_bad_limits():
    """A negative limit is named."""
    with pytest.raises(ValueError, match="time_limit"):
        Clock(-1.0)


def test_interruption_stops_outer_clocks():
    """Ctrl-C within a loop ends the loops around it too."""
    assert interrupted() is Status.INTERRUPTED  # there are none
    with running(Clock()) as whole, running(Clock(LONG)):
        assert interrupted() is Status.INTERRUPTED
    assert whole.is_stopped
