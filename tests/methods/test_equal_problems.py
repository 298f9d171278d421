"""Every method and solver on data that state one problem in two ways: no bound is above the other's value.

The machines have one face, so that each program is convex and its bound is that of the whole problem.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import CASES, DATA, Samples, assert_true_bounds, certified, fit, fitted

# HiGHS solves the integer programs of "exact" as well, and test_optima compares the two.
STATED = [case for case in CASES if not (case.method.is_integer and case.solver == "highs")]
by_case = pytest.mark.parametrize("case", STATED, ids=str)
ORDER = np.random.default_rng(0).permutation(24)


def assert_one_optimum(case, first, second):
    """Two certificates have one optimal value, as far as both know; an exact solver knows it."""
    assert_true_bounds(first, second)
    if case.solver == "exact":
        assert max(first.relative_gap, second.relative_gap) <= 1e-6


@by_case
@pytest.mark.parametrize("data", DATA)
def test_restated_data(case, data):
    """The order of the samples, the order of the features and the container do not matter."""
    samples = DATA[data]
    X = samples.X.toarray() if sp.issparse(samples.X) else sp.csr_array(samples.X)
    weights = None if samples.weights is None else samples.weights[ORDER]
    restated = Samples(X[ORDER][:, ::-1], samples.y[ORDER], weights)
    second = fit(case.make(n_faces=1), restated).certificate()
    assert_one_optimum(case, certified(case, data, n_faces=1), second)


@pytest.mark.parametrize("case", [case for case in STATED if not case.method.is_integer], ids=str)
def test_weight_is_repetition(case):
    """A sample of the weight 3 is three samples. (For an L0 machine those have three kernel centres.)"""
    samples = DATA["weighted"]
    count = samples.weights.astype(int)
    repeated = Samples(samples.X.repeat(count, axis=0), samples.y.repeat(count))
    second = fit(case.make(n_faces=1), repeated).certificate()
    assert_one_optimum(case, certified(case, "weighted", n_faces=1), second)


@by_case
def test_zero_weight_is_absence(case):
    """Samples of the weight 0 are left out, and the multipliers of the others keep their numbers."""
    samples, is_there = DATA["overlapping"], np.arange(24) % 5 > 0
    machine = fit(case.make(n_faces=1), replace(samples, weights=1.0 * is_there))
    without = fit(case.make(n_faces=1), Samples(samples.X[is_there], samples.y[is_there]))
    assert_one_optimum(case, machine.certificate(), without.certificate())
    assert {number for number in machine.duals_["sample"] if number >= 0} == {*np.flatnonzero(is_there)}


@by_case
@pytest.mark.parametrize("data", ["overlapping", "separable", "weighted", "degenerate"])
def test_swapped_labels(case, data):
    """With the names of the classes swapped, and the same samples inside, the optimum stays."""
    inside = {"inside_label": -fitted(case, data, n_faces=1).inside_label_} if case.method.has_faces else {}
    swapped = fit(case.make(n_faces=1, **inside), replace(DATA[data], y=-DATA[data].y))
    assert_one_optimum(case, certified(case, data, n_faces=1), swapped.certificate())
