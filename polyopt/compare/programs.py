"""The programs by name, on each family's own small data: to be shown, not to be solved for an answer."""

from __future__ import annotations

import difflib
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING

from formulations import FAMILIES
from formulations.catalogue import Entry, entries_of
from polyopt.methods.registry import answering_for, families, family_module, is_family, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from formulations.language.program import Program

__all__ = ["entries", "find_programs", "programs_of"]


def entries(names: Iterable[str] | None = None, seed: int = 0) -> list[Entry]:
    """Every program of some families, those of other packages' methods included.

    UserWarning: A family of another package cannot be read; of all families it is left out, asked for by its
        name it is an error.
    """
    found: list[Entry] = []
    for name in families() if names is None else names:
        try:
            with answering_for(owner_of(name)):
                state = _stated if name in FAMILIES else entries_of  # another package's may be in the making
                found += state(name, family_module(name), seed)
        except RuntimeError as error:
            if names is not None:
                raise
            warnings.warn(f"the programs of {name} are left out. {error}", UserWarning, stacklevel=2)
    return found


@lru_cache(maxsize=64)
def _stated(name: str, module: ModuleType, seed: int) -> tuple[Entry, ...]:
    """The entries of a family of our own, stated once: a report asks for one program after the other."""
    return tuple(entries_of(name, module, seed))


def programs_of(name: str) -> dict[str, Program]:
    """Every program of a family by its name, each primal before its dual."""
    return {entry.name: entry.program for entry in entries((name.replace("-", "_"),))}


def find_programs(name: str) -> list[Program]:
    """The program of that name, or all programs of the family of that name.

    name: such as ``"rmm"`` or ``"rmm.qp"``; a hyphen may stand for an underscore.
    """
    wanted = name.strip().replace("-", "_")
    family_name = wanted.partition(".")[0]
    if not is_family(family_name):
        known = families()
        close = difflib.get_close_matches(family_name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no program or family is called {name!r}.{hint} Families: {', '.join(known)}")
    programs = programs_of(family_name)
    if wanted == family_name:
        return list(programs.values())
    if wanted not in programs:
        raise ValueError(f"no program is called {name!r}; the family has {', '.join(programs)}")
    return [programs[wanted]]
