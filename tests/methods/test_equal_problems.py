"""Every method and solver on data that state one problem in two ways: no bound is above the other's value.

The machines have one face, so that each program is convex and its bound is that of the whole problem.
"""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.methods import CASES, DATA, METHODS, Samples, assert_true_bounds, certified, fit, fitted

by_case = pytest.mark.parametrize("case", CASES, ids=str)
by_data = pytest.mark.parametrize("data", DATA)
ORDER = np.random.default_rng(0).permutation(24)


def assert_one_optimum(case, data, other, **settings):
    """Two data sets have one optimal value, as far as both certificates know; an exact solver knows it."""
    first = certified(case, data, n_faces=1)
    second = fit(case.make(n_faces=1, **settings), other).certificate()
    assert_true_bounds(first, second)
    if case.solver == "exact":
        assert max(first.relative_gap, second.relative_gap) <= 1e-6


@by_case
@by_data
def test_permuted_samples(case, data):
    """The order of the samples does not matter."""
    samples = DATA[data]
    weights = None if samples.weights is None else samples.weights[ORDER]
    assert_one_optimum(case, data, Samples(samples.X[ORDER], samples.y[ORDER], weights))


@by_case
@by_data
def test_reversed_features(case, data):
    """The order of the features does not matter."""
    assert_one_optimum(case, data, replace(DATA[data], X=DATA[data].X[:, ::-1]))


@by_case
@by_data
def test_sparse_or_dense(case, data):
    """A CSR array and the dense array with its values are one data set."""
    X = DATA[data].X
    assert_one_optimum(case, data, replace(DATA[data], X=X.toarray() if sp.issparse(X) else sp.csr_array(X)))


@pytest.mark.parametrize("case", [case for case in CASES if not METHODS[case.name].is_integer], ids=str)
def test_weight_is_repetition(case):
    """A sample of the weight 3 is three samples. (For an L0 machine those have three kernel centres.)"""
    samples = DATA["weighted"]
    count = samples.weights.astype(int)
    assert_one_optimum(case, "weighted", Samples(samples.X.repeat(count, axis=0), samples.y.repeat(count)))


@by_case
@pytest.mark.parametrize("data", ["overlapping", "separable", "weighted", "degenerate"])
def test_swapped_labels(case, data):
    """With the names of the classes swapped, and the same samples inside, the optimum stays."""
    inside = {"inside_label": -fitted(case, data, n_faces=1).inside_label_} if case.method.has_faces else {}
    assert_one_optimum(case, data, replace(DATA[data], y=-DATA[data].y), **inside)
