"""Parameters of estimators: declaration as fields of a class, groups of parameters, and checks of values.

A parameter is a field of the class, as in a dataclass, with its type and its default. A base class declares
and describes the parameters of several classifiers; the docstring of a classifier describes its additional
parameters and those that differ, and :func:`estimator` completes it from the bases.

Parameters that belong together are the fields of one :class:`Settings` object. It has ``get_params``, so that
a grid search can set ``penalty__l1``. A parameter of an earlier version that is such a field now is refused
with a message (:func:`refuse_moved`).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from numbers import Integral
from typing import Any, ClassVar, TypeVar, dataclass_transform

from sklearn.utils._param_validation import StrOptions, make_constraint, validate_parameter_constraints

from formulations.language.arguments import (
    at_least,
    positive,
    seconds,
    tolerance,
    whole,
    whole_or_none,
    within,
)

T = TypeVar("T")

_HEADING = re.compile(r"^(?=\S.*\n-+$)", re.MULTILINE)


# -- declaration -----------------------------------------------------------------------------------------


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Decorate a class with an ``__init__`` for its parameters, and a docstring that describes all of them.

    scikit-learn reads the parameters from the signature of ``__init__``, those of the bases first. An
    annotated name that is not a parameter is a ``ClassVar`` or a ``field(init=False)``.

    The docstring's sections Parameters and Attributes are completed from the bases' docstrings. An entry of
    the class replaces a base's entry of the same names.
    """
    docstring = cls.__doc__
    declared = dataclass(eq=False, repr=False)(cls)
    declared.__doc__ = _completed(declared, docstring) if docstring else docstring
    if getattr(declared, "_moved", None):
        declared.__init__ = _refusing_moved(declared.__init__)  # type: ignore[method-assign]
    return declared


def _refusing_moved(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def checked(self: Any, *args: Any, **parameters: Any) -> None:
        refuse_moved(type(self), parameters)
        init(self, *args, **parameters)

    return checked


def refuse_moved(cls: Any, names: Iterable[str]) -> None:
    """Raise TypeError for a parameter of an earlier version; the message names the one to use instead."""
    for name in names:
        if (new := getattr(cls, "_moved", {}).get(name)) is not None:
            group, _, part = new.partition("__")
            if part:
                settings = cls._settings[group].__name__
                new = f"give {group}={settings}({part}=...), or set_params({new}=...)"
            raise TypeError(f"{cls.__name__} has no parameter {name!r}: {new}")


def _completed(cls: type, docstring: str) -> str:
    """Return the docstring with the Parameters and Attributes of all bases."""
    summary, *sections = _HEADING.split(inspect.cleandoc(docstring))
    described = _entries(cls, "Parameters")
    parameters = [described[name] for name in inspect.signature(cls).parameters if name in described]
    attributes = list(_entries(cls, "Attributes").values())
    completed = [
        f"{heading}\n{'-' * len(heading)}\n" + "\n".join(entries)
        for heading, entries in (("Parameters", parameters), ("Attributes", attributes))
        if entries
    ]
    other_sections = [
        text for text in sections if text.partition("\n")[0] not in ("Parameters", "Attributes")
    ]
    return "\n\n".join(part.strip() for part in (summary, *completed, *other_sections)) + "\n"


def _entries(cls: type, heading: str) -> dict[str, str]:
    """Return the entries of a section by name, a class's own entries before those of its bases."""
    entries: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        base_entries = dict(_entries_of(vars(base).get("__doc__") or "", heading))
        new_entries = {name: text for name, text in base_entries.items() if name not in entries}
        entries = new_entries | entries | base_entries
    return entries


def _entries_of(docstring: str, heading: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each entry of a section."""
    for section in _HEADING.split(inspect.cleandoc(docstring)):
        if section.startswith(f"{heading}\n"):
            for entry in re.split(r"\n(?=\S)", section.rstrip())[2:]:  # after the heading and the line below
                yield re.split(" : |\n", entry)[0], entry


# -- parameters that belong together ---------------------------------------------------------------------


class Settings:
    """Base of frozen dataclasses that group parameters of an estimator, such as ``penalty__l1``.

    ``set_params`` of the estimator replaces the object by a changed copy. The constraints of the fields are
    in ``_parameter_constraints``.
    """

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the fields by name."""
        return {parameter.name: getattr(self, parameter.name) for parameter in fields(self)}  # type: ignore[arg-type]

    def check(self) -> None:
        """Raise ValueError if a field has a value that is not allowed."""
        check_parameters(self._parameter_constraints, self.get_params(), type(self).__name__)


# -- rules -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ruled:
    """A constraint given by a function of the value that raises ValueError if the value is not allowed."""

    rule: Callable[[Any], object]


def ruled(name: str, rule: Callable[..., object], *limits: Any, **options: Any) -> list[Any]:
    """Return the constraint of a parameter by a function of :mod:`formulations.language.arguments`."""
    return [Ruled(lambda value: rule(name, value, *limits, **options))]


_SHARED: dict[str, list[Any]] = {
    **{name: ruled(name, positive) for name in ("C", "ridge", "step")},
    **{name: ruled(name, whole) for name in ("n_faces", "n_init", "max_iter", "patience", "inner")},
    "radius": ruled("radius", positive, infinite=True),
    "B": ruled("B", at_least, 1.0, infinite=True),
    "D": ruled("D", within, 0.0, 1.0),
    "tol": [Ruled(tolerance)],
    "time_limit": [Ruled(seconds)],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}
MACHINE = (
    "n_faces", "C", "tol", "max_iter", "time_limit", "class_weight", "random_state", "n_jobs", "verbose",
)  # fmt: skip
"""Names of the parameters that every Convex Polytope Machine has."""


def shared(*names: str, optional: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return the constraints of parameters by name; the `optional` ones are integers or None."""
    return {name: _SHARED[name] for name in names} | {name: ruled(name, whole_or_none) for name in optional}


def check_parameters(constraints: Mapping[str, Any], values: Mapping[str, Any], caller: str) -> None:
    """Raise ValueError for the first value that is not allowed.

    The message is that of the :class:`Ruled` constraint, if there is one, else that of scikit-learn, which
    names the `caller`.
    """
    plain = {}
    for name, allowed in constraints.items():
        rules = [constraint for constraint in allowed if isinstance(constraint, Ruled)]
        if not rules:
            plain[name] = allowed
            continue
        alternatives = [make_constraint(option) for option in allowed if not isinstance(option, Ruled)]
        if not any(constraint.is_satisfied_by(values[name]) for constraint in alternatives):
            rules[0].rule(values[name])
    validate_parameter_constraints(plain, values, caller_name=caller)
    for value in values.values():
        if isinstance(value, Settings):
            value.check()
