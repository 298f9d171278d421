"""Every program by name, on its family's own small data: to be shown, not to be solved for an answer.

There is no list of programs to keep. Each family states its own in ``pairs(seed)`` and ``singles(seed)``: to
name them is to make them, and :func:`entries_of` is the one place where that is done.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

from formulations import FAMILIES, family
from formulations.language.program import Duality, Program
from formulations.language.typeset import statement_of

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
    is_dual : bool
        True for the second of a pair.
    """

    family: str
    program: Program
    partner: str
    is_dual: bool = False

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
        """The place in the paper; empty if the source names none."""
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


def pairs_of(name: str, module: ModuleType, seed: int = 0) -> list[Duality]:
    """The pairs of one family; a module may state several, and a program's name begins with its family's."""
    return [pair for pair in module.pairs(seed) if pair.primal.name.partition(".")[0] == name]


def singles_of(name: str, module: ModuleType, seed: int = 0) -> list[Program]:
    """The programs of one family that have no dual."""
    singles: list[Program] = getattr(module, "singles", lambda seed: [])(seed)
    return [program for program in singles if program.name.partition(".")[0] == name]


def entries_of(name: str, module: ModuleType, seed: int = 0) -> list[Entry]:
    """Every program of one family, each primal followed by its dual; of equal names the first."""
    found: dict[str, Entry] = {}
    for pair in pairs_of(name, module, seed):
        found.setdefault(pair.primal.name, Entry(name, pair.primal, pair.dual.name))
        found.setdefault(pair.dual.name, Entry(name, pair.dual, pair.primal.name, is_dual=True))
    for program in singles_of(name, module, seed):
        found.setdefault(program.name, Entry(name, program, ""))
    return list(found.values())


def catalogue(families: Iterable[str] | None = None, seed: int = 0) -> list[Entry]:
    """Every program of some families of :data:`formulations.FAMILIES`, by default of all."""
    return [
        entry
        for name in (FAMILIES if families is None else families)
        for entry in entries_of(name, family(name), seed)
    ]


def find_programs(
    name: str,
    families: Collection[str] = FAMILIES,
    entries: Callable[[Iterable[str]], list[Entry]] = catalogue,
) -> list[Program]:
    """Return the program of a name such as ``"rmm.qp"``, or all programs of a family.

    A hyphen may stand for an underscore. `entries` takes names of `families` to their entries.

    ValueError: there is no such program or family; the message lists those there are.
    """
    wanted = name.strip().replace("-", "_")
    head, dot, _ = wanted.partition(".")
    if head not in families:
        close = difflib.get_close_matches(head, families, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no program or family is called {name!r}.{hint} Families: {', '.join(families)}")
    programs = {entry.name: entry.program for entry in entries((head,))}
    if not dot:
        return list(programs.values())
    if wanted not in programs:
        raise ValueError(f"no program is called {name!r}; the family has {', '.join(programs)}")
    return [programs[wanted]]


def text_of_family(module: ModuleType, entries: Sequence[Entry]) -> str:
    """The docstring of a family without its example, and the statements of its programs in sections of it."""
    text = (inspect.getdoc(module) or "").partition("\nExample\n")[0].rstrip()
    head, heading, rest = text.partition("\nRecovery\n")
    sides = {"Primal": [each.program for each in entries if not each.is_dual],
             "Dual": [each.program for each in entries if each.is_dual]}  # fmt: skip
    for title, programs in sides.items():
        head += f"\n{title}\n{'-' * len(title)}\n" + "\n\n".join(map(statement_of, programs)) + "\n"
    meanings = {f"{row.multiplier}: {row.meaning}" for each in entries for row in each.program.rows}
    rest, end, last = rest.partition("\nInfeasible when\n")
    return f"{head}{heading}{rest}\n" + "\n".join(sorted(meanings)) + f"\n{end}{last}"
