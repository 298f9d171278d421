"""HiGHS says nothing where answers are printed, its name neither, and answers Ctrl-C with its best point."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from formulations import l0
from formulations.language import highs
from formulations.language.clock import Clock
from formulations.language.highs import quiet_highs
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs

SOLVED = {
    "a program": """
from formulations import svm
from formulations.language.toy_data import two_blobs
assert svm.primal(*two_blobs(n=12)).solve("HIGHS").objective > 0.0
""",
    "a linear program that is kept": """
import numpy as np
from polyopt.optim.warm_lp import PersistentLP
one, two = np.ones(2), np.full(2, 2.0)
assert PersistentLP(one, np.eye(2), one, two, -two, two).solve().x.tolist() == [1.0, 1.0]
""",
}


@pytest.mark.parametrize("code", SOLVED.values(), ids=SOLVED)
def test_first_solver_prints_nothing(code):
    """HiGHS is quiet in a new process, through cvxpy and kept."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ctrl_c_keeps_the_best_point(monkeypatch):
    """As far as cvxpy's HiGHS has come in a second."""
    X, y = two_blobs(n=90, separation=0.3)
    real = highs.search
    monkeypatch.setattr(highs, "search", lambda solver, clock, run: (real(solver, Clock(1.0), run)[0], True))
    kernel = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1))
    found = l0.mixed_integer(kernel, y, 1.0).solve(time_limit=60.0)
    assert found.status is Status.INTERRUPTED
    assert found.bound < found.objective < np.inf
    assert found["alpha"].shape == (90,)


def test_usual_solver_is_restored():
    """Within a search cvxpy's HiGHS is another class, afterwards the usual one."""
    highspy, usual = quiet_highs(), quiet_highs().Highs
    with highs.searches_of_cvxpy(Clock()):
        assert highspy.Highs is not usual
    assert highspy.Highs is usual
