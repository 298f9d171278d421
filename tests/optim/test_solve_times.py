"""Times that solvers tell of."""

import time

import numpy as np
import pytest

from formulations.families import hinge_families
from formulations.language.toy_data import two_blobs
from polyopt.cpm.dual import solve_cpm_dual
from polyopt.cpm.sgd import solve_cpm_sgd
from polyopt.margin.interior_point import solve_interior_point
from polyopt.sparse.one_norm import solve_one_norm

SOLVES = {
    "one-norm": lambda X, y: solve_one_norm(X @ X.T, y, np.ones(40), np.ones(40)),
    "interior point": lambda X, y: solve_interior_point(X, hinge_families(y, 1.0)),
    "sgd": lambda X, y: solve_cpm_sgd(X, y, np.ones(40), 2, max_iter=2),
    "dual ascent": lambda X, y: solve_cpm_dual(X, y, np.ones(40), 2, np.where(y > 0, 0, -1), tol=1e-10),
}


@pytest.mark.parametrize("solve", SOLVES.values(), ids=SOLVES)
def test_told_seconds_have_passed(solve):
    """Building and solving are parts of the time that has passed, and the records lie within them."""
    X, y = two_blobs(n=40, m=2, seed=0)
    solve(X, y)  # the first call imports
    started = time.perf_counter()
    found = solve(X, y)
    passed = time.perf_counter() - started
    assert found.build_time >= 0.0
    assert found.solve_time >= 0.0
    assert found.build_time + found.solve_time <= passed
    assert found.iterations > 0
    assert all(record["seconds"] <= passed for record in found.history)
