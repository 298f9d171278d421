"""How a classifier is declared: each of its parameters once, and described in one place.

A parameter is a field of the class, as in a dataclass, with its type and its default. Those of several
classifiers are fields of the base that they share, and are described there; a classifier's own docstring
describes what is its own or differs. ``help`` shows all of it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

__all__ = ["estimator"]

T = TypeVar("T")

_HEADING = re.compile(r"^(?=\S.*\n-+$)", re.MULTILINE)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def estimator(cls: type[T]) -> type[T]:
    """Give a classifier its ``__init__``, which keeps its parameters, and the whole of its docstring.

    scikit-learn finds the parameters in the signature of ``__init__``, those of the bases first. What is
    annotated and no parameter is a ``ClassVar`` or a ``field(init=False)``.

    The docstring's sections Parameters and Attributes are completed from the bases' docstrings. An entry of
    the class stands in place of a base's entry for the same names.
    """
    own = cls.__doc__
    made = dataclass(eq=False, repr=False)(cls)
    made.__doc__ = _completed(made, own) if own else own
    return made


def _completed(cls: type, own: str) -> str:
    summary, *sections = _HEADING.split(inspect.cleandoc(own))
    taken = inspect.signature(cls).parameters
    described = _entries(cls, "Parameters")
    parameters = [described[name] for name in taken if name in described]
    attributes = list(_entries(cls, "Attributes").values())
    made = [
        f"{heading}\n{'-' * len(heading)}\n" + "\n".join(entries)
        for heading, entries in (("Parameters", parameters), ("Attributes", attributes))
        if entries
    ]
    others = [text for text in sections if text.partition("\n")[0] not in ("Parameters", "Attributes")]
    return "\n\n".join(part.strip() for part in (summary, *made, *others)) + "\n"


def _entries(cls: type, heading: str) -> dict[str, str]:
    """The entries of a section by their names, those of the bases last."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        own = dict(_own_entries(vars(base).get("__doc__") or "", heading))
        found = {name: own[name] for name in own if name not in found} | found | own
    return found


def _own_entries(docstring: str, heading: str) -> Iterator[tuple[str, str]]:
    for section in _HEADING.split(inspect.cleandoc(docstring)):
        if section.startswith(f"{heading}\n"):
            for entry in re.split(r"\n(?=\S)", section.rstrip())[2:]:  # after the heading and its rule
                yield re.split(" : |\n", entry)[0], entry
