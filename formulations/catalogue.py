"""Every program of the package in one list: its name, its paper, its class and its size.

There is no list to keep. Each family names its programs itself, on small random data of its own: the
primal-dual ``pairs()``, and in ``singles()``, where it has any, those that stand without a partner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import formulations

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from formulations.language.program import Program

__all__ = ["Entry", "catalogue", "entries_of"]

# The paper up to its year, or the slides; then where in it.
_SOURCE = re.compile(r"(?P<paper>.*?(?:\(\d{4}\)|\bslides\b))[,;]?\s*(?P<place>.*)")


@dataclass(frozen=True)
class Entry:
    """One program of the catalogue.

    Attributes
    ----------
    family, partner : str
        The family that states it; and the name of its dual, or of the primal whose dual it is, empty where it
        stands alone.
    program : Program
        The program, on the family's own small data.
    """

    family: str
    program: Program
    partner: str

    @property
    def name(self) -> str:
        """The name by which ``polyopt show`` finds it."""
        return self.program.name

    @property
    def paper(self) -> str:
        """The paper, without the place in it."""
        return self._source()[0]

    @property
    def equation(self) -> str:
        """Where in the paper it stands; empty where the source names no place."""
        return self._source()[1]

    @property
    def n_variables(self) -> int:
        """Scalar variables, on the family's own data."""
        return sum(variable.size for variable in self.program.variables.values())

    @property
    def n_constraints(self) -> int:
        """Scalar constraints, on the family's own data."""
        return sum(row.constraint.size for row in self.program.rows)

    def _source(self) -> tuple[str, str]:
        found = _SOURCE.fullmatch(self.program.source)
        return (found["paper"], found["place"]) if found else (self.program.source, "")


def entries_of(name: str, module: ModuleType, seed: int = 0) -> list[Entry]:
    """Every program of one family, each primal followed by its dual.

    Parameters
    ----------
    name : str
        What the family is called.
    module : module
        Its ``pairs(seed)`` and, where there is one, its ``singles(seed)`` state the programs.
    seed : int
        Seed of the data they are stated on.

    Returns
    -------
    list of Entry
        One entry for each name; of a program that the family lists twice, the first.
    """
    found: dict[str, Entry] = {}
    for pair in module.pairs(seed):
        found.setdefault(pair.primal.name, Entry(name, pair.primal, pair.dual.name))
        found.setdefault(pair.dual.name, Entry(name, pair.dual, pair.primal.name))
    for program in getattr(module, "singles", lambda seed: [])(seed):
        found.setdefault(program.name, Entry(name, program, ""))
    return list(found.values())


def catalogue(families: Iterable[str] | None = None, seed: int = 0) -> list[Entry]:
    """Every program of some families of :mod:`formulations`, each primal followed by its dual.

    Parameters
    ----------
    families : iterable of str, optional
        Which families; all by default.
    seed : int
        Seed of the data they are stated on.

    Returns
    -------
    list of Entry
        One entry for each name.
    """
    names = formulations.FAMILIES if families is None else families
    return [entry for name in names for entry in entries_of(name, formulations.family(name), seed)]
