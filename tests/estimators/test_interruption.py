"""Ctrl-C ends a whole fit, with its pairs and starts, and keeps what is there; a limit is shared."""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.methods import CASES, DATA
from joblib import delayed, parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt import PCSLP, SVM
from polyopt.base.parallel import iter_joblib, run_tasks, time_share
from polyopt.base.progress import records_to
from polyopt.estimators.status import status_of
from polyopt.margin.path import rmm_path

X, Y = DATA["three classes"].X, DATA["three classes"].y


LABELLED = np.column_stack([X, Y])  # by which a kernel knows the pair of classes that it is called for
PAIRS = [{0, 1}, {0, 2}, {1, 2}]


class Kernel:
    """A linear kernel of labelled samples, which calls an action for one of the pairs."""

    def __init__(self, action, pair):
        self.action, self.pair = action, pair

    def __call__(self, first, second):
        if {*first[:, -1], *second[:, -1]} == PAIRS[self.pair]:
            self.action()
        return first[:, :-1] @ second[:, :-1].T


def interrupt():
    raise KeyboardInterrupt


def stop_clock():
    current_clock().stop()


# -- pairs of classes --------------------------------------------------------------------------


@pytest.mark.parametrize("action", [interrupt, stop_clock])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_interruption_ends_all_pairs(action, count):
    """A warning says how many pairs are solved, and the status of the others; a new fit has none of it."""
    with pytest.warns(ConvergenceWarning) as caught:
        model = SVM(kernel=Kernel(action, pair=count), solver="exact").fit(LABELLED, Y)
    assert [str(one.message) for one in caught] == [
        f"SVM: {Status.INTERRUPTED} {count} of 3 pairs of classes were solved, "
        "the others are as far as they came."
    ]
    statuses = [one.status for one in model.solution_]
    assert statuses == [Status.SOLVED] * count + [Status.INTERRUPTED] * (3 - count)
    assert status_of(model) is Status.INTERRUPTED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = model.set_params(kernel="linear").fit(X, Y > 0)
    assert status_of(again) is Status.SOLVED


def test_interruption_without_point_is_raised():
    """Ctrl-C before there is a point is the caller's."""
    with pytest.raises(KeyboardInterrupt):
        SVM(kernel=Kernel(interrupt, pair=0)).fit(LABELLED[Y < 2], Y[Y < 2])
    assert current_clock() is None


def test_pairs_after_limit_make_no_rounds():
    """Pairs that begin after the limit have a point of no iteration."""
    with pytest.warns(ConvergenceWarning):
        model = PCSLP(time_limit=1e-9).fit(X, Y)
    assert [(one.status, one.iterations) for one in model.solution_] == [(Status.TIME_LIMIT, 0)] * 3


def test_processes_know_stopped_clock():
    """Workers in other processes end at once under a clock that is stopped."""
    with running(Clock()) as clock:
        clock.stop()
        with pytest.warns(ConvergenceWarning, match="0 of 3 pairs"):
            model = SVM(solver="exact", n_jobs=2).fit(X, Y)
    assert status_of(model) is Status.INTERRUPTED


NOTED = []


class Noting(SVM):
    """A machine that notes every limit that it is given."""

    @property
    def time_limit(self):
        return self.limit

    @time_limit.setter
    def time_limit(self, limit):
        self.limit = limit
        NOTED.append(limit)


def test_pairs_share_limit():
    """Each pair has an equal part of what is left, and keeps the parameter."""
    model = Noting(time_limit=1e6).fit(X, Y)
    shares = [limit for limit in NOTED if limit not in (None, 1e6)]
    assert shares == pytest.approx([1e6 / 3, 1e6 / 2, 1e6], rel=1e-2)
    assert [each.time_limit for each in model.estimators_] == [1e6] * 3


def test_ctrl_c_ends_path():
    """A path of bounds ends with the point that was interrupted."""
    with records_to(lambda record: interrupt()):
        path = rmm_path(X, np.where(Y > 0, 1.0, -1.0), bounds=[2.0, 1.5])
    assert [point.solution.status for point in path] == [Status.INTERRUPTED]


# -- tasks of joblib ---------------------------------------------------------------------------


def test_shares_use_what_is_left():
    """A task's share is what is left, over the tasks that are left, times the workers."""
    clock = Clock(90.0)
    assert time_share(clock, 0, 45, 1) == pytest.approx(2.0, rel=0.1)
    assert time_share(clock, 44, 45, 2) == pytest.approx(90.0, rel=0.1)
    assert time_share(clock, 0, 45, 2) == pytest.approx(4.0, rel=0.1)
    assert time_share(Clock(), 0, 45, 1) is None


class Task(NamedTuple):
    number: int
    other: Any = None


def size(task):
    return abs(task.number)


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_backend_without_generator_is_taken(backend):
    """A backend that answers at the end alone gives the same results."""
    with parallel_config(backend=backend, n_jobs=2):
        assert run_tasks(size, [Task(-1), Task(2), Task(-3)], None, "number") == [1, 2, 3]
        assert list(iter_joblib((delayed(abs)(number) for number in (-1, 2, -3)), None)) == [1, 2, 3]


def test_results_survive_interruption():
    """Tasks that were done keep their results, and the others are called with the clock stopped."""
    seen = []

    def work(task):
        seen.append(task.number)
        if task.number == 2 and seen.count(2) == 1:
            raise KeyboardInterrupt
        return 10 * task.number

    tasks = [Task(number) for number in range(4)]
    with pytest.raises(KeyboardInterrupt):
        run_tasks(work, tasks, None, "piece")
    seen.clear()
    with running(Clock()) as clock:
        assert run_tasks(work, tasks, None, "piece") == [0, 10, 20, 30]
        assert clock.is_stopped
    assert seen == [0, 1, 2, 2, 3]


# -- lines of progress -------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verbose_fit_prints_to_standard_error(case, capsys):
    """Lines begin with the machine's name and tell its seconds; a silent fit prints nothing."""
    machine, told = case.make(n_faces=1), []
    with records_to(told.append), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(machine).fit(X, Y > 0)
        quiet = capsys.readouterr()
        clone(machine).set_params(verbose=2).fit(X, Y > 0)
    loud = capsys.readouterr()
    assert (loud.out, quiet.out, quiet.err) == ("", "", "")
    assert all(line.startswith(type(machine).__name__) and " s" in line for line in loud.err.splitlines())
    assert bool(loud.err) == bool(told)
