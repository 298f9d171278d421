"""The parameters that estimators share, and what each may be: one table, made of the rules for arguments.

scikit-learn checks an estimator's parameters against its ``_parameter_constraints``, and has sentences of its
own. A :class:`Ruled` constraint among them is the rule of every other public function
(:mod:`formulations.language.arguments`), and :func:`check_parameters` lets that speak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

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

__all__ = ["MACHINE", "Ruled", "check_parameters", "shared"]


@dataclass(frozen=True)
class Ruled:
    """A constraint that is a function: it takes the value, and raises ValueError to refuse it."""

    rule: Callable[[Any], object]


def _ruled(name: str, rule: Callable[..., object], *limits: Any, **more: Any) -> list[Any]:
    return [Ruled(lambda value: rule(name, value, *limits, **more))]


_SHARED: dict[str, list[Any]] = {
    **{name: _ruled(name, positive) for name in ("C", "ridge", "step")},
    **{name: _ruled(name, whole) for name in ("n_faces", "n_init", "max_iter", "patience", "inner")},
    "radius": _ruled("radius", positive, infinite=True),
    "B": _ruled("B", at_least, 1.0, infinite=True),
    "D": _ruled("D", within, 0.0, 1.0),
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
"""Names of those that every Convex Polytope Machine has."""
_OPTIONAL = {name: _ruled(name, whole_or_none) for name in ("inner", "max_iter", "patience")}


def shared(*names: str, optional: Sequence[str] = ()) -> dict[str, list[Any]]:
    """Constraints of parameters, in scikit-learn's form.

    *names: parameters of the table.
    optional: further ones, which may be None as well.
    """
    return {name: _SHARED[name] for name in names} | {name: _OPTIONAL[name] for name in optional}


def check_parameters(constraints: Mapping[str, Any], values: Mapping[str, Any], caller: str) -> None:
    """Refuse a value that is not allowed: in its rule's own sentence, where its parameter has a rule.

    constraints: an estimator's ``_parameter_constraints``; those without a rule are left to scikit-learn.
    values: its parameters.
    caller: what scikit-learn is to call the estimator.
    ValueError: the first value that is refused.
    """
    plain = {}
    for name, allowed in constraints.items():
        rules = [one for one in allowed if isinstance(one, Ruled)]
        if not rules:
            plain[name] = allowed
            continue
        others = [make_constraint(one) for one in allowed if not isinstance(one, Ruled)]
        if not any(other.is_satisfied_by(values[name]) for other in others):
            rules[0].rule(values[name])
    validate_parameter_constraints(plain, values, caller_name=caller)
