"""Parameters of estimators: declaration as fields of a class, groups of parameters, and checks of values.

A parameter is a field of the class, as in a dataclass, with its type and its default. A base class declares
and describes the parameters of several classifiers; the docstring of a classifier describes its additional
parameters and those that differ, and :func:`estimator` completes it from the bases.

Parameters that belong together are the fields of one :class:`Settings` object. It has ``get_params``, so that
a grid search can set ``penalty__l1``.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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

# The position before a heading of a docstring: a line that is underlined with dashes.
_HEADING = re.compile(r"^(?=\S.*\n-+$)", re.MULTILINE)


# -- declaration -----------------------------------------------------------------------------------------


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Decorate a class with an ``__init__`` for its parameters, and a docstring that describes all of them.

    scikit-learn reads the parameters from the signature of ``__init__``, those of the bases first. An
    annotated name that is not a parameter is a ``ClassVar`` or a ``field(init=False)``.

    The docstring's sections Parameters and Attributes are completed from the bases' docstrings. An entry of
    the class replaces a base's entry of the same name.
    """
    docstring = cls.__doc__
    declared = dataclass(eq=False, repr=False)(cls)
    declared.__doc__ = _completed(declared, docstring) if docstring else docstring
    return declared


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
    """Return the entries of a section by name, of a class and its bases; those of a subclass come first."""
    entries: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__):
        described = {}
        for section in _HEADING.split(inspect.cleandoc(vars(ancestor).get("__doc__") or "")):
            if section.startswith(f"{heading}\n"):
                for entry in re.split(r"\n(?=\S)", section.rstrip())[2:]:  # after the underlined heading
                    described[re.split(" : |\n", entry)[0]] = entry
        new_entries = {name: text for name, text in described.items() if name not in entries}
        # A known name keeps its position, but takes the text of the subclass.
        entries = new_entries | entries | described
    return entries


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


# -- constraints -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedBy:
    """A constraint given by a function of the value that raises ValueError if the value is not allowed."""

    check: Callable[[Any], object]


def checked_by(name: str, check: Callable[..., object], *limits: Any, **options: Any) -> list[Any]:
    """Return the constraint that ``check(name, value, *limits, **options)`` raises no ValueError.

    `name` is that of the parameter, `check` a function of :mod:`formulations.language.arguments`.
    """
    return [CheckedBy(lambda value: check(name, value, *limits, **options))]


# Constraints of parameters that several estimators have. B bounds the outputs of an RMM; D is the weight of
# the outputs' variance in a Sigma-SVM.
_SHARED: dict[str, list[Any]] = {
    **{name: checked_by(name, positive) for name in ("C", "ridge", "step")},
    **{name: checked_by(name, whole) for name in ("n_faces", "n_init", "max_iter", "patience", "inner")},
    "radius": checked_by("radius", positive, infinite=True),
    "B": checked_by("B", at_least, 1.0, infinite=True),
    "D": checked_by("D", within, 0.0, 1.0),
    "tol": [CheckedBy(tolerance)],
    "time_limit": [CheckedBy(seconds)],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}
POLYTOPE_MACHINE_PARAMETERS = (
    "n_faces", "C", "tol", "max_iter", "time_limit", "class_weight", "random_state", "n_jobs", "verbose",
)  # fmt: skip
"""Names of the parameters that every Convex Polytope Machine has."""


def shared(*names: str, optional: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Return the constraints of parameters by name; the `optional` ones are integers or None."""
    return {name: _SHARED[name] for name in names} | {
        name: checked_by(name, whole_or_none) for name in optional
    }


def check_parameters(constraints: Mapping[str, Any], values: Mapping[str, Any], caller: str) -> None:
    """Raise ValueError for the first value that is not allowed.

    constraints: by parameter the list of alternatives, constraints of scikit-learn or one :class:`CheckedBy`;
    a value must satisfy one of them. The message is that of the :class:`CheckedBy`, if there is one, else
    that of scikit-learn, which names the `caller`.
    """
    without_check = {}
    for name, alternatives in constraints.items():
        checks = [constraint for constraint in alternatives if isinstance(constraint, CheckedBy)]
        if not checks:
            without_check[name] = alternatives
            continue
        others = [make_constraint(option) for option in alternatives if not isinstance(option, CheckedBy)]
        if not any(constraint.is_satisfied_by(values[name]) for constraint in others):
            checks[0].check(values[name])
    validate_parameter_constraints(without_check, values, caller_name=caller)
    for value in values.values():
        if isinstance(value, Settings):
            check_parameters(value._parameter_constraints, value.get_params(), type(value).__name__)
