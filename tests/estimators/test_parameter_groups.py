"""Parameters in groups: set by name, searched by a grid, kept by clones and pickles, never changed."""

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

GROUPS = [
    (ConvexPolytopeMachine, "penalty", FacePenalty, "l1", 0.5),
    (ConvexPolytopeMachine, "sgd", SGDSettings, "perplexity", 1.5),
    (LogisticPolytopes, "penalty", FacePenalty, "group", 0.5),
    (PLUME, "em", EMSettings, "anneal", False),
    (Polyceptron, "passes", PerceptronSettings, "step", 1.0),
    (CrossEntropySVM, "search", CrossEntropySettings, "n_samples", 50),
]
X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0.3).astype(int)


@pytest.mark.parametrize(("kind", "group", "settings", "name", "value"), GROUPS)
def test_one_of_a_group_is_set_by_name(kind, group, settings, name, value):
    """set_params puts a changed copy of the group in its place, which clones and pickles keep."""
    machine = kind().set_params(**{f"{group}__{name}": value})
    before = getattr(machine, group)
    assert before.get_params() == settings(**{name: value}).get_params()
    assert getattr(machine.set_params(**{f"{group}__{name}": value}), group) is not before
    for again in (clone(machine), pickle.loads(pickle.dumps(machine))):
        assert getattr(again, group).get_params() == before.get_params()
    with pytest.raises(ValueError, match=f"Invalid parameter 'nonsense' of {group}"):
        machine.set_params(**{f"{group}__nonsense": 1})


def test_missing_penalties_are_named():
    """A penalty that a machine lacks is named."""
    with pytest.raises(ValueError, match="LogisticPolytopes has no integers"):
        LogisticPolytopes(penalty=FacePenalty(integers=2)).fit([[0.0], [1.0]], [0, 1])


def test_grid_searches_one_of_a_group():
    """A grid over one parameter of a group keeps the others."""
    machine = ConvexPolytopeMachine(1, solver="dual", penalty=FacePenalty(signs={0: 1}))
    search = GridSearchCV(machine, {"penalty__l1": [0.0, 100.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"penalty__l1": 0.0}
    assert search.best_estimator_.penalty.signs == {0: 1}


def test_fitted_machine_keeps_its_group():
    """A certificate is of the group of the fit, whatever is set afterwards."""
    machine = ConvexPolytopeMachine(1, solver="dual", penalty=FacePenalty(l1=0.5)).fit(X, Y)
    value = machine.certificate().primal_value
    assert machine.set_params(penalty__l1=5.0).certificate().primal_value == value
