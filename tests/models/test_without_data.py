"""Copies without training data, where they are not those of any method: Gram matrices, two sides, changes."""

import pickle

import numpy as np
import pytest
from helpers.methods import DATA

from polyopt import SVM, ConvexPolytopeMachine


@pytest.mark.parametrize("data", ["overlapping", "three classes"])
def test_gram_matrix_is_read_at_support(data):
    """A copy of a machine with a precomputed kernel keeps the places of its support vectors alone."""
    X, y = DATA[data].X.repeat(4, axis=0), DATA[data].y.repeat(4)
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    machine = SVM(kernel="precomputed").fit(K, y)
    light = machine.without_data()
    assert np.array_equal(light.decision_function(K), machine.decision_function(K))
    assert len(pickle.dumps(light)) < 0.5 * len(pickle.dumps(machine))


def test_two_sides_are_both_copied():
    """A copy of a machine with two polytopes has both, their rules and their shares, and no data."""
    X, y = DATA["overlapping"].X, DATA["overlapping"].y
    machine = ConvexPolytopeMachine(2, inside_label="both", solver="sgd", max_iter=5, random_state=0)
    light = machine.fit(X, y).without_data()
    assert np.array_equal(light.decision_function(X), machine.decision_function(X))
    assert not light.holds_data
    assert all(solution.primal == {} for solution in light.solution_)
    for whole, part in zip(machine.sides_, light.sides_, strict=True):
        assert part.polytope_.rules(max_terms=2) == whole.polytope_.rules(max_terms=2)
        assert part.perplexity_ == whole.perplexity_
    with pytest.raises(ValueError, match="needs the training data"):
        light.certificate()


def test_later_parameters_change_no_answer():
    """A copy answers by the parameters of the fit, whatever was set afterwards."""
    X, y = DATA["three classes"].X, DATA["three classes"].y
    machine = SVM(kernel="rbf", gamma=0.3).fit(X, y)
    expected = machine.decision_function(X)
    light = machine.set_params(kernel="linear", C=9.0).without_data()
    assert np.array_equal(light.decision_function(X), expected)
    assert light.kernel == "linear"
