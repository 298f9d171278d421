"""Every method and solver at a limit or an interruption: the point is kept, status and proof are true."""

import warnings

import numpy as np
import pytest
from helpers.methods import CASES, DATA, assert_true_bounds, certified, fit, fitted
from sklearn.exceptions import ConvergenceWarning

from formulations.language.clock import Clock, running
from formulations.language.solution import Status
from polyopt.base.progress import records_to

by_case = pytest.mark.parametrize("case", CASES, ids=str)
ENDED = {Status.SOLVED, Status.CONVERGED, Status.INACCURATE}


def assert_point_is_kept(case, machine, data):
    """The machine predicts the classes of its data, and its certificate proves nothing false."""
    samples = DATA[data]
    assert set(machine.predict(samples.X)) <= set(samples.y)
    assert np.isfinite(machine.decision_function(samples.X)).all()
    assert_true_bounds(machine.certificate(), certified(case, data, n_faces=1))


@by_case
@pytest.mark.parametrize("data", ["overlapping", "weighted"])
def test_one_iteration(case, data):
    """A cap of one iteration is kept, and the status says whether it ended the run."""
    machine = fit(case.make(n_faces=1, max_iter=1), DATA[data])
    assert_point_is_kept(case, machine, data)
    if "max_iter" in machine.get_params() and machine.solution_.status is Status.ITERATION_LIMIT:
        with pytest.warns(ConvergenceWarning, match="iteration limit"):
            case.make(n_faces=1, max_iter=1).fit(DATA[data].X, DATA[data].y)


@by_case
@pytest.mark.parametrize("data", ["overlapping", "three classes"])
def test_stopped_at_once(case, data):
    """Ctrl-C before the first iteration leaves a machine that predicts, with its status and a true proof."""
    with running(Clock()) as clock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clock.stop()
        machine = case.make(n_faces=1).fit(DATA[data].X, DATA[data].y)
    parts = machine.solution_ if isinstance(machine.solution_, list) else [machine.solution_]
    assert {part.status for part in parts} <= {Status.INTERRUPTED, *ENDED}
    if data == "overlapping":
        assert_point_is_kept(case, machine, data)


@by_case
@pytest.mark.parametrize("record", [2, 3, None], ids=["second", "third", "last"])
def test_ctrl_c_in_solver(case, record):
    """Ctrl-C when the solver has told of two iterates, three or the last, leaves its best point."""
    whole, told = [], []

    def interrupt(state):
        told.append(state)
        if len(told) == (record or len(whole)):
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if record is None:
            with records_to(whole.append):
                case.make(n_faces=1).fit(DATA["overlapping"].X, DATA["overlapping"].y)
        with records_to(interrupt):
            machine = case.make(n_faces=1).fit(DATA["overlapping"].X, DATA["overlapping"].y)
    assert_point_is_kept(case, machine, "overlapping")
    if machine.solution_.status is not Status.INTERRUPTED:  # it was over by then
        expected = fitted(case, n_faces=1).solution_.objective
        assert machine.solution_.objective == pytest.approx(expected, rel=1e-9)


@by_case
def test_time_limit(case):
    """A limit of a nanosecond keeps a point, and a warning tells of it unless the answer is there."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine = case.make(n_faces=1, time_limit=1e-9).fit(DATA["overlapping"].X, DATA["overlapping"].y)
    assert_point_is_kept(case, machine, "overlapping")
    is_told = any("time limit" in str(each.message) for each in caught)
    assert is_told == (machine.solution_.status is Status.TIME_LIMIT)
