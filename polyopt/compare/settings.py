"""Settings that are given for all methods of a comparison: each goes to the methods that have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from polyopt.methods.registry import answering_for, find_method, for_kernel

__all__ = ["chosen_methods", "given_text", "settings_text"]


def chosen_methods(names: Iterable[str], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The names of the methods to compare, and the settings that each is given.

    names: names of methods. With a ``kernel`` in the settings, a linear machine's name and that of the same
        machine with a kernel stand for the one that the kernel is of.
    settings: parameters of estimators.
    ValueError: A method that is not known, a setting that none of the methods has, or a value that a method
        does not take.
    """
    kernel = settings.get("kernel")
    methods = [for_kernel(find_method(name), kernel) for name in dict.fromkeys(names)]
    given: dict[str, dict[str, Any]] = {}
    known: set[str] = set()
    for method in methods:
        given[method.name] = {}
        if not settings:
            continue
        with answering_for(method):
            known |= set(method.parameters)
            own = {name: value for name, value in settings.items() if name in method.parameters}
            method.check(own)
        given[method.name] = own
    for name in settings:
        if name not in known:
            raise ValueError(f"no compared method has the setting {name}; compared: {', '.join(given)}")
    return given


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings as ``C=1, kernel=rbf, B=8.47``; those that are None are left out."""
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in settings.items()
        if value is not None
    )


def given_text(given: Mapping[str, Mapping[str, Any]]) -> str:
    """Print the given settings, with their methods if not all: ``C=10, n_faces=5 (cpm)``; empty for none."""
    parts = []
    for name in dict.fromkeys(name for own in given.values() for name in own):
        having = [method for method, own in given.items() if name in own]
        value = next(own[name] for own in given.values() if name in own)
        where = "" if len(having) == len(given) else f" ({', '.join(having)})"
        parts.append(f"{settings_text({name: value}) or f'{name}=None'}{where}")
    return ", ".join(parts)
