"""Parameters in groups: set by name, searched by a grid, kept by clones and pickles, never changed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from polyopt import (
    PLUME,
    ConvexPolytopeMachine,
    CrossEntropySettings,
    CrossEntropySVM,
    EMSettings,
    FacePenalty,
    LogisticPolytopes,
    PerceptronSettings,
    Polyceptron,
    SGDSettings,
)
from polyopt.methods import METHODS

GROUPS = [
    (ConvexPolytopeMachine, "penalty", FacePenalty, "l1", 0.5),
    (ConvexPolytopeMachine, "sgd", SGDSettings, "perplexity", 1.5),
    (LogisticPolytopes, "penalty", FacePenalty, "group", 0.5),
    (PLUME, "em", EMSettings, "anneal", False),
    (Polyceptron, "passes", PerceptronSettings, "step", 1.0),
    (CrossEntropySVM, "search", CrossEntropySettings, "n_samples", 50),
]


@pytest.fixture
def samples():
    X = np.random.default_rng(0).normal(size=(40, 2))
    return X, (X[:, 0] > 0.3).astype(int)


@pytest.mark.parametrize("kind", dict.fromkeys(m.estimator_class for m in METHODS.values()))
def test_a_class_has_at_most_16_parameters_and_three_bases(kind):
    assert len(kind().get_params(deep=False)) <= 16
    bases = [base for base in kind.__mro__[1:] if base.__module__.startswith("polyopt.")]
    assert len(bases) <= 3


@pytest.mark.parametrize(("kind", "group", "settings", "name", "value"), GROUPS)
def test_one_of_a_group_is_set_by_name(kind, group, settings, name, value):
    machine = kind().set_params(**{f"{group}__{name}": value})
    assert getattr(machine, group).get_params() == settings(**{name: value}).get_params()
    before = getattr(machine, group)
    machine.set_params(**{f"{group}__{name}": value})
    assert getattr(machine, group) is not before  # a changed copy: the fit keeps what it was fitted with
    for again in (clone(machine), pickle.loads(pickle.dumps(machine))):
        assert getattr(again, group).get_params() == before.get_params()
    with pytest.raises(ValueError, match=f"Invalid parameter 'nonsense' of {group}"):
        machine.set_params(**{f"{group}__nonsense": 1})


def test_penalties_that_a_machine_lacks_are_named():
    with pytest.raises(ValueError, match="LogisticPolytopes has no integers"):
        LogisticPolytopes(penalty=FacePenalty(integers=2)).fit([[0.0], [1.0]], [0, 1])


def test_a_grid_searches_one_of_a_group(samples):
    machine = ConvexPolytopeMachine(1, solver="dual", penalty=FacePenalty(signs={0: 1}))
    search = GridSearchCV(machine, {"penalty__l1": [0.0, 100.0]}, cv=2).fit(*samples)
    assert search.best_params_ == {"penalty__l1": 0.0}
    assert search.best_estimator_.penalty.signs == {0: 1}


def test_a_model_answers_by_the_group_of_its_fit(samples):
    X, y = samples
    machine = ConvexPolytopeMachine(1, solver="dual", penalty=FacePenalty(l1=0.5)).fit(X, y)
    value = machine.certificate().primal_value
    machine.set_params(penalty__l1=5.0)
    assert machine.certificate().primal_value == value
