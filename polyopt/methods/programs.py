"""The programs of all methods by name: those of :mod:`formulations`, and those of other packages."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from formulations import FAMILIES, catalogue
from polyopt.methods.registry import answering_for, families, family_module, owner_of

if TYPE_CHECKING:
    from formulations.language.program import Program

__all__ = ["entries", "find_programs", "programs_of"]


def entries(names: Iterable[str] | None = None, seed: int = 0) -> list[catalogue.Entry]:
    """Return every program of some families, by default of all.

    UserWarning: A family of another package cannot be read; of all families it is left out, asked for by its
        name it is an error.
    """
    found: list[catalogue.Entry] = []
    for name in families() if names is None else names:
        try:
            with answering_for(owner_of(name)):
                state = _stated if name in FAMILIES else catalogue.entries_of  # others' may be in the making
                found += state(name, family_module(name), seed)
        except RuntimeError as error:
            if names is not None:
                raise
            warnings.warn(f"the programs of {name} are left out. {error}", UserWarning, stacklevel=2)
    return found


@lru_cache(maxsize=64)
def _stated(name: str, module: ModuleType, seed: int) -> tuple[catalogue.Entry, ...]:
    """The entries of a family of this package, made once: a report asks for one program after the other."""
    return tuple(catalogue.entries_of(name, module, seed))


def programs_of(name: str) -> dict[str, Program]:
    """Return every program of a family by its name, each primal before its dual."""
    return {entry.name: entry.program for entry in entries((name.replace("-", "_"),))}


def find_programs(name: str) -> list[Program]:
    """Return the program of that name, or all programs of the family of that name, such as ``"rmm"``."""
    return catalogue.find_programs(name, families(), entries)
