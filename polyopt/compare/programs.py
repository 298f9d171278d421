"""The programs by name, on each family's own small data: to be shown, not to be solved for an answer."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from formulations import FAMILIES
from formulations.catalogue import catalogue

if TYPE_CHECKING:
    from formulations.program import Program

__all__ = ["find_programs", "programs_of"]


def programs_of(name: str) -> dict[str, Program]:
    """Every program of a family by its name, each primal before its dual."""
    return {entry.name: entry.program for entry in catalogue((name.replace("-", "_"),))}


def find_programs(name: str) -> list[Program]:
    """The program of that name, or all programs of the family of that name.

    Parameters
    ----------
    name : str
        Such as ``"rmm"`` or ``"rmm.qp"``; a hyphen may stand for an underscore.

    Raises
    ------
    ValueError
        When there is none; the message lists those there are.
    """
    wanted = name.strip().replace("-", "_")
    family_name = wanted.partition(".")[0]
    if family_name not in FAMILIES:
        close = difflib.get_close_matches(family_name, FAMILIES, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no program or family is called {name!r}.{hint} Families: {', '.join(FAMILIES)}")
    programs = programs_of(family_name)
    if wanted == family_name:
        return list(programs.values())
    if wanted not in programs:
        raise ValueError(f"no program is called {name!r}; the family has {', '.join(programs)}")
    return [programs[wanted]]
