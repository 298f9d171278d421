"""A classifier's parameters are declared once and described once, and its help shows all of them."""

import ast
import inspect
import pickle
import re

import pytest
from sklearn.base import BaseEstimator, clone

import polyopt
from polyopt import LogisticSearch
from polyopt.estimators.parameters import estimator
from polyopt.methods import METHODS

CLASSIFIERS = [*dict.fromkeys(method.estimator_class for method in METHODS.values()), LogisticSearch]
by_class = pytest.mark.parametrize("cls", CLASSIFIERS, ids=lambda cls: cls.__name__)


def entries(cls: type, heading: str) -> list[str]:
    section = inspect.getdoc(cls).split(f"\n{heading}\n{'-' * len(heading)}\n")[1].split("\n\n")[0]
    return re.findall(r"^\S.*$", section, re.M)


@by_class
def test_help_has_every_parameter_once(cls):
    """The help lists the constructor's parameters in order, with their defaults."""
    described = [line.split(" : ") for line in entries(cls, "Parameters")]
    parameters = inspect.signature(cls).parameters
    assert [name for name, _ in described] == list(parameters)
    for name, kind in described:
        default = parameters[name].default
        if default is None:
            assert kind.endswith((", optional", "default=None")), name
        elif default is not inspect.Parameter.empty and "default=" in kind:
            stated = kind.split("default=")[1]
            assert (float("inf") if stated == "inf" else ast.literal_eval(stated)) == default, name


@by_class
def test_help_has_every_attribute_once(cls):
    """The help lists no attribute twice, and none of those of all classifiers is missing."""
    names = [name for line in entries(cls, "Attributes") for name in line.split(" : ")[0].split(", ")]
    assert len(names) == len(set(names))
    assert {"classes_", "solution_", "solver_", "duals_"} <= set(names) or "best_estimator_" in names


@by_class
def test_class_is_public_and_small(cls):
    """A classifier is public, has at most 16 parameters and at most three bases of this package."""
    assert cls.__name__ in polyopt.__all__
    if cls is not LogisticSearch:
        assert len(inspect.signature(cls).parameters) <= 16
        assert len([base for base in cls.__mro__[1:] if base.__module__.startswith("polyopt.")]) <= 3


@by_class
def test_parameters_are_fields(cls):
    """A machine is its parameters, which clones and pickles keep, and is equal to itself alone."""
    machine = cls()
    assert machine.get_params(deep=False) == vars(machine)
    for made in (clone(machine), pickle.loads(pickle.dumps(machine))):
        assert repr(made) == repr(machine)
        assert made != machine
    assert len({machine, cls()}) == 2
    with pytest.raises(TypeError, match="positional"):
        cls(*inspect.signature(cls).parameters)
    with pytest.raises(TypeError, match="unknown"):
        cls(unknown=1)


def test_missing_docstring_stays_missing():
    """A class without a docstring, as every class is by python -OO, has its parameters all the same."""

    @estimator
    class Silent(BaseEstimator):
        size: int = 1

    @estimator
    class Brief(Silent):
        """One line."""

    assert Silent.__doc__ is None
    assert Silent(2).get_params() == Brief(2).get_params() == {"size": 2}
    assert inspect.getdoc(Brief) == "One line."
