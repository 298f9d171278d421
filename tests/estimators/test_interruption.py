"""Ctrl-C ends a whole fit, with its pairs and sides, and keeps what is there."""

import warnings
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from joblib import delayed, parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from formulations.language.clock import Clock, current_clock, running
from formulations.language.solution import Status
from polyopt import (
    PCSLP,
    PLUME,
    SPLA1,
    SVM,
    ConvexPolytopeMachine,
    CrossEntropySVM,
    FacePenalty,
    LogisticSearch,
    OneNormSVM,
    Polyceptron,
    RelativeMarginMachine,
    SigmaSVM,
)  # fmt: skip
from polyopt.base.parallel import iter_joblib, run_tasks, time_share
from polyopt.base.progress import records_to
from polyopt.estimators.base import PairwiseClassifier, warn_of_interruption
from polyopt.estimators.status import status_of
from polyopt.margin.path import rmm_path
from polyopt.sparse.settings import CrossEntropySettings

MACHINES = [
    SVM(), SVM(solver="exact"), SVM(kernel="rbf", gamma=1.0), SigmaSVM(kernel="rbf"), OneNormSVM(),
    CrossEntropySVM(), CrossEntropySVM(search=CrossEntropySettings(svm_screen=True)),
    RelativeMarginMachine(kernel="poly"), RelativeMarginMachine(bound_cost=1.0),
    *(
        machine.set_params(n_init=2)  # a start to be stopped in, and one to be left out
        for machine in (
            ConvexPolytopeMachine(), ConvexPolytopeMachine(solver="sgd"),
            ConvexPolytopeMachine(penalty=FacePenalty(margin="worst"), solver="exact"),
            ConvexPolytopeMachine(inside_label="both"),
            Polyceptron(), SPLA1(), PCSLP(), PLUME(),
        )
    ),
]  # fmt: skip


def three(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 1.5 * np.column_stack([y == 1, y == 2]), y


@pytest.fixture
def stopped_after(monkeypatch):
    """A fit that is stopped once so many of its pairs are done, within a solver or between two."""

    def stop_after(count, how):
        done = []
        original = SVM._fit_binary

        def fit(self, *arguments):
            if len(done) == count and how == "raised":
                done.append(self)
                raise KeyboardInterrupt
            if len(done) == count and how == "stopped":
                current_clock().stop()
            done.append(self)
            original(self, *arguments)

        monkeypatch.setattr(SVM, "_fit_binary", fit)

    return stop_after


@pytest.mark.parametrize("how", ["raised", "stopped"])
@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_interruption_ends_all_pairs_and_says_how_many_are_solved(stopped_after, how, count):
    X, y = three()
    stopped_after(count, how)
    with pytest.warns(ConvergenceWarning) as caught:
        model = SVM(solver="exact").fit(X, y)
    assert [str(one.message) for one in caught] == [
        f"SVM: {Status.INTERRUPTED} {count} of 3 pairs of classes were solved, "
        "the others are as far as they came."
    ]
    statuses = [one.status for one in model.solution_]
    assert statuses == [Status.SOLVED] * count + [Status.INTERRUPTED] * (3 - count)
    assert status_of(model) is Status.INTERRUPTED
    assert [one.status for one in clone(model).fit(X[:, ::-1], y > 0).solution_.runs] == []


def test_an_interruption_before_there_is_a_point_is_the_callers(stopped_after):
    X, y = three()
    stopped_after(0, "raised")
    with pytest.raises(KeyboardInterrupt):
        SVM().fit(X, y > 0)
    assert current_clock() is None


def test_pairs_after_the_whole_limit_make_no_rounds():
    X, y = three()
    with pytest.warns(ConvergenceWarning):
        model = PCSLP(time_limit=1e-9).fit(X, y)
    assert [(one.status, one.iterations) for one in model.solution_] == [(Status.TIME_LIMIT, 0)] * 3


def test_workers_in_other_processes_know_a_clock_that_is_stopped():
    X, y = three()
    with running(Clock()) as clock:
        clock.stop()
        with pytest.warns(ConvergenceWarning, match="0 of 3 pairs"):
            model = SVM(solver="exact", n_jobs=2).fit(X, y)
    assert status_of(model) is Status.INTERRUPTED


def test_pairs_share_the_limit_and_keep_their_parameters():
    X, y = three()
    limits = []
    machine = SVM(time_limit=1e6)
    original = PairwiseClassifier._warn_if_incomplete

    class Seen(SVM):
        def _warn_if_incomplete(self, certify):
            limits.append(self.time_limit)
            original(self, certify)

    model = Seen(**machine.get_params()).fit(X, y)
    assert limits == pytest.approx([1e6 / 3, 1e6 / 2, 1e6], rel=1e-2)
    assert [each.time_limit for each in model.estimators_] == [1e6] * 3


def test_a_search_that_is_broken_off_has_no_best(stopped_after):
    X, y = three()
    stopped_after(1, "stopped")

    with running(Clock()) as clock, pytest.warns(ConvergenceWarning, match="1 of 3 pairs"):
        SVM().fit(X, y)
    assert clock.is_stopped
    with running(Clock()) as clock:
        clock.stop()
        with pytest.raises(KeyboardInterrupt):
            LogisticSearch(cv=2).fit(X, y > 0)


def test_ctrl_c_ends_a_path():
    X, y = three()
    y = np.where(y > 0, 1.0, -1.0)

    def interrupt(record):
        raise KeyboardInterrupt

    with records_to(interrupt):
        path = rmm_path(X, y, bounds=[2.0, 1.5])
    assert [point.solution.status for point in path] == [Status.INTERRUPTED]


def test_shares_use_what_is_left():
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
def test_a_backend_that_answers_at_the_end_alone_is_taken_as_well(backend):
    with parallel_config(backend=backend, n_jobs=2):
        assert run_tasks(size, [Task(-1), Task(2), Task(-3)], None, "number") == [1, 2, 3]
        assert list(iter_joblib((delayed(abs)(number) for number in (-1, 2, -3)), None)) == [1, 2, 3]


def test_what_was_done_is_dealt_out_before_the_interruption():
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
    assert seen == [0, 1, 2, 2, 3]  # what was left out is called with the clock stopped


@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_verbose_is_for_all_and_silent_on_standard_output(machine, monkeypatch, capsys):
    from polyopt.base import progress as progress

    monkeypatch.setattr(progress.printer, "__defaults__", (0.0,))
    X, y = three()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(machine).set_params(verbose=1).fit(X, y > 0)
        loud = capsys.readouterr()
        clone(machine).fit(X, y > 0)
    quiet = capsys.readouterr()
    assert (loud.out, quiet.out, quiet.err) == ("", "", "")
    name = type(machine).__name__
    assert all(line.startswith(name) and " s" in line for line in loud.err.splitlines())
    if machine.solver != "exact" and not isinstance(machine, OneNormSVM):
        assert loud.err


def test_pairs_of_an_earlier_fit_are_no_part_of_this_one():
    """Of two classes the machine's own solution counts, whatever is left of three; of three, the pairs'."""
    good, bad = SimpleNamespace(status=Status.SOLVED), SimpleNamespace(status=Status.INTERRUPTED)
    left = [SimpleNamespace(solution_=bad), SimpleNamespace(solution_=good), SimpleNamespace(solution_=good)]
    for n_classes, own, said in (
        (2, good, []),
        (2, bad, [f"SimpleNamespace: {Status.INTERRUPTED}"]),
        (
            3,
            [bad, good, good],
            [f"SimpleNamespace: {Status.INTERRUPTED} 2 of 3 pairs of classes were solved, "],
        ),
    ):
        machine = SimpleNamespace(classes_=np.arange(n_classes), estimators_=left, solution_=own, _frames=0)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warn_of_interruption(machine)
        assert [str(each.message)[: len(text)] for each, text in zip(told, said, strict=True)] == said
