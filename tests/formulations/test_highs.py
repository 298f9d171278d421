"""HiGHS says nothing where answers are printed: not its name either, which 1.16 prints of itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from formulations.highs import SIMPLEX, quiet_highs

SOLVED = {
    "a program": """
from formulations import svm
from formulations.samples import two_blobs
assert svm.primal(*two_blobs(n=12)).solve("HIGHS").objective > 0.0
""",
    "a linear program that is kept": """
import numpy as np
from polyopt.solvers.persistent_lp import PersistentLP
one, two = np.ones(2), np.full(2, 2.0)
assert PersistentLP(one, np.eye(2), one, two, -two, two).solve().x.tolist() == [1.0, 1.0]
""",
}


@pytest.mark.parametrize("code", SOLVED.values(), ids=SOLVED)
def test_nothing_is_printed_by_the_first_solver_of_a_process(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_is_solved_again_is_so_by_the_serial_dual_simplex_from_its_basis():
    """Options by the names that HiGHS has for them; presolve would throw the basis away."""
    highs = quiet_highs()
    one = highs.Highs()
    for name, value in SIMPLEX.items():
        assert one.setOptionValue(name, value) == highs.HighsStatus.kOk, name
    given = [SIMPLEX[name] for name in ("output_flag", "threads", "parallel", "presolve", "solver")]
    assert given == [False, 1, "off", "off", "simplex"]
    assert SIMPLEX["simplex_strategy"] == 1  # by HiGHS's list of options: dual, serial
