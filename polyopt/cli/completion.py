"""Completions of the shell: methods, data sets, families and words, each looked up when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

__all__ = [
    "among",
    "complete_data",
    "complete_family",
    "complete_method",
    "complete_methods",
    "complete_program",
]


def among(*words: str) -> Callable[[str], list[str]]:
    """Complete one of some words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def complete_method(incomplete: str) -> list[str]:
    """Methods, those of other packages among them."""
    from polyopt.methods import METHODS

    return among(*METHODS)(incomplete)


def complete_methods(incomplete: str) -> list[str]:
    """The last of several methods with commas between."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_method(last)]


def complete_data(incomplete: str) -> list[str]:
    """Names of data sets; the shell adds files where it finds none."""
    from polyopt.datasets import names

    return among(*names())(incomplete)


def complete_family(incomplete: str) -> list[str]:
    """Families of programs."""
    from polyopt.methods.registry import families

    return among(*(name.replace("_", "-") for name in families()))(incomplete)


def complete_program(incomplete: str) -> list[str]:
    """Families, methods, and the programs of a family whose name stands before a dot."""
    family, dot, _ = incomplete.partition(".")
    if not dot:
        return list(dict.fromkeys([*complete_family(incomplete), *complete_method(incomplete)]))
    from polyopt.methods.programs import programs_of
    from polyopt.methods.registry import is_family

    name = family.replace("-", "_")
    return among(*programs_of(name))(f"{name}{incomplete[len(family) :]}") if is_family(name) else []
