"""Every method and solver that takes samples in blocks: the problem, and its optimum, of the arrays."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.blocks import odd_blocks
from helpers.methods import DATA, Case, Samples, assert_true_bounds, certified, fit

from polyopt.scale import Arrays

CASES = [
    *(Case(name, "auto") for name in ("svm", "sigma-svm", "rmm")),
    *(Case("cpm", solver) for solver in ("exact", "dual")),
]


def fit_blocks(case, source):
    """A machine of one face, fitted to a source that has labels and weights."""
    return fit(case.make(n_faces=1, n_init="auto"), Samples(source, None))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("data", DATA)
def test_blocks_are_array(case, data):
    """Blocks of seven samples have the optimum of all samples, and a machine that pickles."""
    samples = DATA[data]
    machine = fit_blocks(case, Arrays(samples.X, samples.y, samples.weights, rows=7))
    assert_true_bounds(machine.certificate(), certified(case, data, n_faces=1))
    assert machine.certificate().relative_gap <= machine.tol
    again = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(again.decision_function(samples.X), machine.decision_function(samples.X))


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("data", ["overlapping", "three classes", "sparse"])
def test_odd_blocks_are_array(case, data):
    """Blocks may be empty, of one sample or of one class."""
    samples = replace(DATA[data], weights=None)
    machine = fit_blocks(case, odd_blocks(samples.X, samples.y))
    assert_true_bounds(machine.certificate(), certified(case, data, n_faces=1))
    assert machine.certificate().relative_gap <= machine.tol
