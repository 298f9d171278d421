"""A classifier's parameters are declared once and described once, and its help shows all of them."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

import pytest
from sklearn.base import BaseEstimator, clone

import polyopt
from polyopt import LogisticSearch
from polyopt.estimators.parameters import estimator
from polyopt.methods import METHODS

CLASSIFIERS = [
    *dict.fromkeys(method.estimator_class for method in METHODS.values()),
    LogisticSearch,
]


def entries(cls: type, heading: str) -> list[str]:
    section = inspect.getdoc(cls).split(f"\n{heading}\n{'-' * len(heading)}\n")[1].split("\n\n")[0]
    return re.findall(r"^\S.*$", section, re.M)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_the_help_has_every_parameter_once_in_order_and_with_its_default(cls):
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


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_the_help_has_an_attribute_once(cls):
    names = [name for line in entries(cls, "Attributes") for name in line.split(" : ")[0].split(", ")]
    assert len(names) == len(set(names))
    assert {"classes_", "solution_", "solver_", "duals_"} <= set(names) or "best_estimator_" in names


@estimator
class Base(BaseEstimator):
    """A base.

    Parameters
    ----------
    size : int, default=3
        How large.

        And how small.
    slow : bool, default=False
        Whether it may take its time.
    gone : int, default=1
        What one of them has not.

    Attributes
    ----------
    shared_ : int
        Of all.
    a_, b_ : float
        Two.
    """

    size: int = 3
    _: KW_ONLY
    slow: bool = False
    gone: int = 1
    found_: float = field(init=False)
    _own: float = field(init=False, default=0.5)


@estimator
class Special(Base):
    """A special one.

    It has two paragraphs.

    Parameters
    ----------
    slow : bool, default=True
        Whether it may take long.
    more : int, default=2
        What it alone has.

    Attributes
    ----------
    special_ : str
        Its own.
    a_, b_ : float
        Three.

    Notes
    -----
    It is noted::

        Parameters

    References
    ----------
    .. [1] Somebody, 2000.
    """

    more: int = 2
    _: KW_ONLY
    slow: bool = True
    gone: ClassVar[Any] = 0


SPECIAL = """\
A special one.

It has two paragraphs.

Parameters
----------
size : int, default=3
    How large.

    And how small.
more : int, default=2
    What it alone has.
slow : bool, default=True
    Whether it may take long.

Attributes
----------
special_ : str
    Its own.
shared_ : int
    Of all.
a_, b_ : float
    Three.

Notes
-----
It is noted::

    Parameters

References
----------
.. [1] Somebody, 2000."""


def test_a_docstring_is_completed_from_the_bases():
    assert inspect.getdoc(Special) == SPECIAL


def test_a_parameter_is_taken_by_the_constructor_and_by_scikit_learn():
    machine = Special(5, 6)
    assert machine.get_params() == {"size": 5, "more": 6, "slow": True}
    assert vars(machine) == {"size": 5, "more": 6, "slow": True}
    assert machine._own == 0.5
    assert not hasattr(machine, "found_")
    for made in (clone(machine), pickle.loads(pickle.dumps(machine))):
        assert repr(made) == "Special(more=6, size=5)"
        assert made != machine  # a classifier is itself alone, whatever its parameters
    assert len({machine, Special(5, 6)}) == 2
    with pytest.raises(TypeError, match="positional"):
        Special(5, 6, False)
    with pytest.raises(TypeError, match="gone"):
        Special(gone=1)


def test_a_class_without_a_docstring_stays_so():
    @estimator
    class Silent(BaseEstimator):
        size: int = 1

    @estimator
    class Brief(Silent):
        """One line."""

    assert Silent.__doc__ is None  # as every class is by python -OO
    assert Silent(2).get_params() == Brief(2).get_params() == {"size": 2}
    assert inspect.getdoc(Brief) == "One line."


def test_the_module_is_importable_by_all():
    assert {cls.__name__ for cls in CLASSIFIERS} <= set(polyopt.__all__)
