"""Parameters in groups: set by name, searched by a grid, kept by clones, pickles and files, never changed."""

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
    RelativeMarginMachine,
    SGDSettings,
    load_model,
    save_model,
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


@pytest.mark.parametrize(("kind", "group", "settings", "name", "value"), GROUPS[:-1])
def test_a_parameter_that_moved_is_refused_by_name(kind, group, settings, name, value):
    told = rf"no parameter '{name}': give {group}={settings.__name__}\({name}=...\)"
    with pytest.raises(TypeError, match=told):
        kind(**{name: value})
    with pytest.raises(TypeError, match=told):
        kind().set_params(**{name: value})


def test_parameters_that_are_gone_are_refused_with_what_to_do():
    with pytest.raises(TypeError, match="give inside_label='both'"):
        ConvexPolytopeMachine(double_sided=True)
    with pytest.raises(TypeError, match=r"give fit\(..., bound_training=False\)"):
        RelativeMarginMachine(bound_training=False)
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


@pytest.mark.parametrize("name", [None, "l1", "integers", "double_sided"])
def test_a_file_of_an_earlier_version_has_its_parameters_in_groups(name, samples, tmp_path):
    X, y = samples
    penalty = FacePenalty(**({} if name in (None, "double_sided") else {name: 2}))
    inside = "both" if name == "double_sided" else None
    machine = ConvexPolytopeMachine(1, solver="dual", penalty=penalty, inside_label=inside).fit(X, y)
    saved = machine.without_data()
    saved._asked = dict(saved._asked)
    for state in (vars(saved), saved._asked):
        state.pop("penalty")
        state |= {"l1": 0.0, "signs": None, "group": 0.0, "feature_groups": None, "margin": "total"}
        state |= {"max_features": None, "integers": None, "perplexity": 1.0, "average": True}
        state |= {"feature_scale": 1.0, "double_sided": False, "ties": "scores"}
        state.pop("sgd")
        if name is not None:
            state |= {name: True, "inside_label": None} if name == "double_sided" else {name: 2}
    save_model(saved, tmp_path / "m.skops")
    again = load_model(tmp_path / "m.skops").estimator
    assert (again.decision_function(X) == machine.decision_function(X)).all()
    assert again.inside_label == inside
    assert again.penalty is None if name in (None, "double_sided") else again.penalty.get_params()[name] == 2
