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


def test_a_clock_counts_down():
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


def test_all_clocks_within_a_stopped_one_are_over():
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


def test_a_part_ends_no_later_than_the_whole():
    with running(Clock(0.0)), running(Clock(LONG)) as part:
        assert part.is_over
        assert not part.is_stopped
    with running(Clock(LONG)) as whole, running(Clock(0.0)) as part:
        assert part.is_over
        assert not whole.is_over
    assert Clock(LONG, outer=Clock(0.0)).is_over


def test_another_process_has_the_same_deadline():
    with running(Clock(LONG)) as clock:
        far = pickle.loads(pickle.dumps(clock))
        assert not far.is_over
        assert LONG / 2 < far.left < 2 * LONG
        clock.stop()
        assert pickle.loads(pickle.dumps(Clock())).is_stopped
    assert pickle.loads(pickle.dumps(Clock())).left is None


def test_a_thread_takes_a_clock_with_it():
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


def test_a_clock_takes_a_limit_and_nothing_else():
    with pytest.raises(ValueError, match="time_limit"):
        Clock(-1.0)


def test_an_interrupted_loop_stops_the_clocks_around_it():
    assert interrupted() is Status.INTERRUPTED  # there are none
    with running(Clock()) as whole, running(Clock(LONG)):
        assert interrupted() is Status.INTERRUPTED
    assert whole.is_stopped
