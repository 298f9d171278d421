"""Every program of the house in one list: its name, its paper, its class and its size.

There is no list to keep. Each family names its programs itself, on small random data of its own: the
primal-dual ``pairs()``, and in ``singles()``, where it has any, those that stand without a partner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formulations import FAMILIES, family

if TYPE_CHECKING:
    from formulations.program import Program

__all__ = ["Entry", "catalogue"]

# The paper up to its year, or the slides; then where in it.
_SOURCE = re.compile(r"(?P<paper>.*?(?:\(\d{4}\)|\bslides\b))[,;]?\s*(?P<place>.*)")


@dataclass(frozen=True)
class Entry:
    """One program of the catalogue.

    Attributes
    ----------
    family : str
        The module of :mod:`formulations` that states it.
    program : Program
        The program, on the family's own small data.
    partner : str
        Name of its dual, or of the primal whose dual it is; empty where it stands alone.
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


def catalogue(families: tuple[str, ...] = FAMILIES, seed: int = 0) -> list[Entry]:
    """Every program of some families, each primal followed by its dual.

    Parameters
    ----------
    families : tuple of str
        Which families; all by default.
    seed : int
        Seed of the data they are stated on.

    Returns
    -------
    list of Entry
        One entry for each name; of a program that a family lists twice, the first.
    """
    found: dict[str, Entry] = {}
    for name in families:
        module = family(name)
        entries = []
        for pair in module.pairs(seed):
            entries.append(Entry(name, pair.primal, pair.dual.name))
            entries.append(Entry(name, pair.dual, pair.primal.name))
        entries += [Entry(name, program, "") for program in getattr(module, "singles", lambda seed: [])(seed)]
        for entry in entries:
            found.setdefault(entry.name, entry)
    return list(found.values())
