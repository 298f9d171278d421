"""A run: one deadline and one Ctrl-C for all that is done within."""

import os
import pickle
import signal
import threading
import time

import pytest

from formulations import runs
from formulations.clock import Clock, Run, current_run
from formulations.runs import Terminated, one_run, raise_terminated, run_here, whole_or_nothing

LONG = 1e9


@pytest.fixture
def patient(monkeypatch):
    """What looks at no clock is never woken."""
    monkeypatch.setattr(runs, "_PATIENCE", (LONG, LONG))


def test_all_clocks_of_a_stopped_run_are_over():
    before = Clock()
    with one_run() as run:
        clock, limited = Clock(), Clock(LONG)
        assert clock.left is None
        assert not clock.is_over
        run.stop()
        assert run.signal == signal.SIGINT
        assert clock.is_over
        assert limited.is_over
        assert limited.left < 1
    assert not before.is_over
    assert not Clock().is_over
    assert current_run() is None


def test_a_part_of_a_run_ends_no_later_than_it_and_is_stopped_with_it():
    with one_run(0.0) as run, one_run(LONG) as part:
        assert part.is_over
        assert not part.is_stopped
        part.stop(15)
        assert run.signal == 15
    with one_run(LONG) as run, one_run(0.0) as part:
        assert part.is_over
        assert not run.is_over


def test_another_process_hears_of_it(tmp_path):
    with one_run(LONG) as run:
        sent = pickle.dumps(run)
        far, late = pickle.loads(sent), pickle.loads(sent)
        assert not far.is_over
        assert LONG / 2 < far.left < 2 * LONG
        run.stop(15)
        file = run._stop._file
        assert late.signal == 15
        assert pickle.loads(pickle.dumps(run)).signal == 15
    assert not os.path.exists(os.path.dirname(file))


def test_a_thread_is_a_part_of_a_run():
    found = []

    def work(run):
        assert current_run() is None
        with run_here(run):
            found.append(Clock().is_over)

    with one_run() as run:
        run.stop()
        thread = threading.Thread(target=work, args=(run,))
        thread.start()
        thread.join()
    assert found == [True]


def test_the_first_signal_stops_the_run_and_raises_nothing(interruptible, patient):
    with one_run() as run:
        signal.raise_signal(signal.SIGINT)
        assert run.signal == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_ends_at_once_whatever_catches_the_first_kind(interruptible, patient):
    caught = []

    def fit():
        with one_run(), one_run():
            signal.raise_signal(signal.SIGINT)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                caught.append("a solver")

    with pytest.raises(KeyboardInterrupt):
        fit()
    assert caught == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert current_run() is None


def test_what_looks_at_no_clock_is_woken(interruptible, monkeypatch):
    monkeypatch.setattr(runs, "_PATIENCE", (0.0, LONG))

    def sleep():
        signal.raise_signal(signal.SIGINT)
        time.sleep(1e4)

    with one_run() as run:
        with pytest.raises(KeyboardInterrupt):
            sleep()
        assert run.is_stopped


def test_what_looks_at_its_clock_is_left_alone(interruptible, monkeypatch):
    monkeypatch.setattr(signal, "pthread_kill", lambda *_: pytest.fail("it was told"))
    with one_run() as run:
        run.stop()
        looks = Looks(lambda: run.is_over)
        runs._Signals(run)._nudge(signal.SIGINT, looks)
    assert looks.seen == [True] * 3


class Looks:
    """An event that is waited for twice in vain; meanwhile something looks at its clock, or does not."""

    def __init__(self, look):
        self.seen, self._look = [], look

    def wait(self, seconds):
        self.seen.append(self._look())
        return len(self.seen) == 3


def test_what_is_being_finished_is_left_alone(interruptible, monkeypatch):
    told = []
    monkeypatch.setattr(signal, "pthread_kill", lambda *_: told.append(1))
    with one_run() as run:
        run.stop()
        with run.finishing(), one_run() as part:
            assert part.is_finishing
            runs._Signals(run)._nudge(signal.SIGINT, Looks(lambda: None))
        assert told == []
        assert not run.is_finishing
        runs._Signals(run)._nudge(signal.SIGINT, Looks(lambda: None))
    assert told == [1, 1]


def test_other_answers_to_signals_stay():
    heard = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    try:
        with one_run() as run:
            signal.raise_signal(signal.SIGINT)
        assert heard == [1]
        assert not run.is_stopped
    finally:
        signal.signal(signal.SIGINT, before)


def test_sigterm_is_answered_where_the_command_says_so(patient):
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
        with one_run() as run:
            signal.raise_signal(signal.SIGTERM)
        assert run.signal == signal.SIGTERM
        with pytest.raises(Terminated), whole_or_nothing():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_takes_a_limit_and_nothing_else():
    with pytest.raises(ValueError, match="time_limit"):
        Run(-1.0)
