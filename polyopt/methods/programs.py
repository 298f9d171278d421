"""Every program by name: those of :mod:`formulations`, and those of other packages' methods.

There is no list of programs to keep: a family builds its programs on its own small data, in ``pairs(seed)``
and ``singles(seed)``, and :func:`entries_of` reads their names from them.
"""

import difflib
import inspect
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from formulations import FAMILIES
from formulations.language.program import Duality, Program
from formulations.language.typeset import statement_of
from polyopt.methods.registry import answering_for, families, family_module, owner_of


@dataclass(frozen=True)
class Entry:
    """One program, on its family's small data."""

    family: str
    program: Program
    is_dual: bool = False

    @property
    def name(self) -> str:
        """The name by which ``polyopt show`` finds it."""
        return self.program.name


def pairs_of(name: str, module: ModuleType, seed: int = 0) -> list[Duality]:
    """Return the pairs of one family: the names of its programs begin with its name."""
    return [pair for pair in module.pairs(seed) if pair.primal.name.partition(".")[0] == name]


def singles_of(name: str, module: ModuleType, seed: int = 0) -> list[Program]:
    """Return the programs of one family that have no dual."""
    singles: list[Program] = getattr(module, "singles", lambda seed: [])(seed)
    return [program for program in singles if program.name.partition(".")[0] == name]


def entries_of(name: str, module: ModuleType, seed: int = 0) -> list[Entry]:
    """Build every program of one family, each primal before its dual; of equal names the first is kept."""
    by_name: dict[str, Entry] = {}
    for pair in pairs_of(name, module, seed):
        by_name.setdefault(pair.primal.name, Entry(name, pair.primal))
        by_name.setdefault(pair.dual.name, Entry(name, pair.dual, is_dual=True))
    for program in singles_of(name, module, seed):
        by_name.setdefault(program.name, Entry(name, program))
    return list(by_name.values())


_entries_once = lru_cache(maxsize=64)(entries_of)  # a report asks for one program after another


def entries(names: Iterable[str] | None = None, seed: int = 0) -> list[Entry]:
    """Return every program of some families, by default of all.

    UserWarning: A family of another package cannot be read. It is left out if all families were asked for; if
        it was asked for by its name, the error is raised.
    """
    collected: list[Entry] = []
    for name in families() if names is None else names:
        try:
            with answering_for(owner_of(name)):
                # Another package may be in the making: its programs are built anew.
                build = _entries_once if name in FAMILIES else entries_of
                collected += build(name, family_module(name), seed)
        except RuntimeError as error:
            if names is not None:
                raise
            warnings.warn(f"the programs of {name} are left out. {error}", UserWarning, stacklevel=2)
    return collected


def programs_of(name: str) -> dict[str, Program]:
    """Return every program of a family by its name, each primal before its dual."""
    return {entry.name: entry.program for entry in entries((name.replace("-", "_"),))}


def find_programs(name: str) -> list[Program]:
    """Return the program of a name such as ``"rmm.qp"``, or all programs of a family.

    A hyphen may stand for an underscore.

    ValueError: there is no such program or family; the message lists those there are.
    """
    wanted = name.strip().replace("-", "_")
    head, dot, _ = wanted.partition(".")
    if head not in families():
        close = difflib.get_close_matches(head, families(), n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no program or family is called {name!r}.{hint} Families: {', '.join(families())}")
    programs = programs_of(head)
    if not dot:
        return list(programs.values())
    if wanted not in programs:
        raise ValueError(f"no program is called {name!r}; the family has {', '.join(programs)}")
    return [programs[wanted]]


def text_of_family(module: ModuleType, entries: Sequence[Entry]) -> str:
    """Return a family's docstring without its example, with the statements of its programs in it."""
    text = (inspect.getdoc(module) or "").partition("\nExample\n")[0].rstrip()
    head, heading, rest = text.partition("\nRecovery\n")
    sides = {"Primal": [each.program for each in entries if not each.is_dual],
             "Dual": [each.program for each in entries if each.is_dual]}  # fmt: skip
    for title, programs in sides.items():
        head += f"\n{title}\n{'-' * len(title)}\n" + "\n\n".join(map(statement_of, programs)) + "\n"
    meanings = {f"{row.multiplier}: {row.meaning}" for each in entries for row in each.program.rows}
    rest, end, last = rest.partition("\nInfeasible when\n")
    return f"{head}{heading}{rest}\n" + "\n".join(sorted(meanings)) + f"\n{end}{last}"
