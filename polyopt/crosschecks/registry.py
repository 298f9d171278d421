"""Cross-checks: their declaration, evaluation and table.

A function of a seed yields the computed and the expected numbers of some checks. Its docstring states them, a
line each: name, relation and tolerance, place in the paper, and the identity, as the table prints it::

    T12a | = 1e-6 | eq. (5), (7) | RMM: value of the QCQP (5) = value of the QP (7)
"""

import inspect
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from formulations.language.clock import Clock, running
from polyopt.base.table import Column, terminal_table
from polyopt.methods.registry import METHODS, MethodError, answering_for

Vector = NDArray[np.float64]
Pair = tuple[ArrayLike, ArrayLike]  # computed, expected
Pairs = Iterator[Pair]
Evaluate = Callable[[int], Pair]
Relation = Literal["=", "≤", "≥", "<", ">"]

# The papers, as sources name them.
RMM = "Shivaswamy & Jebara (2008)"
CPM = "Kantchelian et al. (2014)"
L0 = "Mannor, Peleg & Rubinstein, slides"
PLUME = "Shah, Sastry & Manwani (2019)"
POLYCEPTRON = "Manwani & Sastry (2011)"
SPLA1 = "Manwani & Sastry (2010)"
PC_SLP = "Astorino & Gaudioso (2002)"

VERDICT_COLOURS = {"ok": "green", "FAILS": "red", "gave up": "yellow", "not run": "yellow"}


@dataclass(frozen=True)
class Crosscheck:
    """An identity or an inequality that the package must satisfy.

    `evaluate` takes a seed to the computed and the expected numbers, of shapes that broadcast. The strict
    relations must hold by more than the tolerance, the others up to it. The tolerance is relative to the
    largest expected number, absolute if that is 0. `source` is the paper and the place in it.
    """

    name: str
    family: str
    relation: Relation
    tolerance: float
    evaluate: Evaluate
    identity: str = ""
    source: str = ""

    @property
    def is_strict(self) -> bool:
        """True if the relation must hold by more than the tolerance."""
        return self.relation in ("<", ">")

    def holds(self, difference: float) -> bool:
        """True if the check holds with a difference, as :func:`deviation` measures it."""
        return bool(difference > self.tolerance if self.is_strict else difference <= self.tolerance)


@dataclass(frozen=True)
class Outcome:
    """Result of a check.

    For arrays, `computed` and `expected` are the pair farthest from what must hold. The verdict is ``"ok"``,
    ``"FAILS"`` or ``"not run"``, and `note` the error of the check or the package that it lacks.
    """

    check: Crosscheck
    computed: float
    expected: float
    difference: float
    seconds: float
    verdict: str
    note: str = ""


class Registry(list[Crosscheck]):
    """The checks of one family, in their order."""

    def __init__(self, family: str):
        super().__init__()
        self.family = family

    def add(self, paper: str) -> Callable[[Callable[[int], Pairs]], Callable[[int], Pairs]]:
        """Register the checks that the docstring of the function below states, of places in a paper."""

        def register(pairs: Callable[[int], Pairs]) -> Callable[[int], Pairs]:
            for number, (name, relation, tolerance, place, identity) in enumerate(_statements(pairs)):
                of_seed, source = partial(_pair_of, pairs, number), f"{paper}, {place}"
                self.append(Crosscheck(name, self.family, relation, tolerance, of_seed, identity, source))
            return pairs

        return register


@lru_cache(maxsize=1)  # the checks of a function are evaluated one after the other
def _all_pairs(pairs: Callable[[int], Pairs], seed: int) -> list[Pair]:
    return list(pairs(seed))


def _pair_of(pairs: Callable[[int], Pairs], number: int, seed: int) -> Pair:
    return _all_pairs(pairs, seed)[number]


def _statements(pairs: Callable[[int], Pairs]) -> Iterator[tuple[str, Relation, float, str, str]]:
    """Yield name, relation, tolerance, place and identity of each check that a docstring states."""
    text = re.sub(r"\n +", " ", inspect.getdoc(pairs) or "")  # an indented line continues the one above
    for line in text.splitlines():
        parts = line.split(" | ", 3)
        if len(parts) == 4:
            relation, tolerance = parts[1].split()
            known: dict[str, Relation] = {each: each for each in get_args(Relation)}
            yield parts[0], known[relation], float(tolerance), parts[2], parts[3].removesuffix(".")


def all_checks() -> tuple[Crosscheck, ...]:
    """List the checks in the modules that methods name.

    Modules of another package that cannot be read are left out with a warning.
    """
    by_module: dict[str, list[Crosscheck]] = {}
    for method in METHODS.values():
        for module in method.crosschecks:
            if module not in by_module:
                try:
                    with answering_for(method):
                        by_module[module] = list(import_module(module).CHECKS)
                except MethodError as error:
                    warnings.warn(f"its cross-checks are left out. {error}", UserWarning, stacklevel=2)
    return tuple(check for checks in by_module.values() for check in checks)


def deviation(relation: Relation, computed: ArrayLike, expected: ArrayLike) -> tuple[float, float, float]:
    """Return the difference from what must hold, and the computed and expected number where it is largest.

    The difference is relative to the largest expected number, absolute if that is 0. For "=" it is the
    distance, for "≤" and "≥" the violation, and for "<" and ">" the distance on the right side. It is
    infinite for numbers that are not finite.
    """
    c, e = np.broadcast_arrays(np.asarray(computed, dtype=float), np.asarray(expected, dtype=float))
    c, e = c.ravel(), e.ravel()
    scale = float(np.abs(e).max()) or 1.0
    excess = {"=": np.abs(c - e), "≤": c - e, "≥": e - c, "<": c - e, ">": e - c}[relation]
    excess = np.where(np.isfinite(c) & np.isfinite(e), excess, np.inf)
    worst = int(excess.argmax())
    difference = float(excess[worst]) / scale
    difference = -difference if relation in ("<", ">") else max(difference, 0.0)
    return difference, float(c[worst]), float(e[worst])


def run(check: Crosscheck, seed: int = 0) -> Outcome:
    """Evaluate a check on the data of a seed.

    An error of the check is a failure with the error as its note. Without an optional package that it needs,
    the check is not run.
    """
    started = time.perf_counter()
    difference, computed, expected, note = np.nan, np.nan, np.nan, ""
    try:
        with running(Clock()) as clock:
            difference, computed, expected = deviation(check.relation, *check.evaluate(seed))
        if clock.is_stopped:  # a fit that kept its best point
            raise KeyboardInterrupt
        verdict = "ok" if check.holds(difference) else "FAILS"
    except ModuleNotFoundError as missing:
        verdict, note = "not run", str(missing)
    except Exception as error:  # of any kind: the other checks are still to be run
        verdict, difference = "FAILS", np.inf
        note = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Outcome(check, computed, expected, difference, time.perf_counter() - started, verdict, note)


def summary(outcomes: list[Outcome]) -> str:
    """Count the checks that hold and the seconds taken, and name the checks that do not hold."""
    text = (
        f"{sum(o.verdict == 'ok' for o in outcomes)} of {len(outcomes)} cross-checks hold, in"
        f" {sum(o.seconds for o in outcomes):.0f} s (= ≤ ≥ up to the tolerance, < > by more than it)"
    )
    for verdict, words in (("FAILS", "FAILING"), ("not run", "not run")):
        if names := [o.check.name for o in outcomes if o.verdict == verdict]:
            text += f"; {words}: {', '.join(names)}"
    return text


CROSSCHECK_COLUMNS: tuple[Column[Outcome], ...] = (
    Column("", lambda o: o.check.name, is_text=True),
    Column(
        "identity", lambda o: "\n".join(filter(None, (o.check.identity, o.check.source, o.note))),
        is_text=True, overflow="wrap",
    ),
    Column("computed", lambda o: f"{o.computed:.6g}"),
    Column("", lambda o: o.check.relation, is_text=True),
    Column("expected", lambda o: f"{o.expected:.6g}"),
    Column("differs", lambda o: f"{o.difference:.1e}"),
    Column("tolerance", lambda o: f"{'>' if o.check.is_strict else '≤'} {o.check.tolerance:.0e}"),
    Column("", lambda o: o.verdict, is_text=True, colour=lambda o: VERDICT_COLOURS[o.verdict]),
)  # fmt: skip


def crosscheck_table(outcomes: list[Outcome], width: int) -> Table:
    """Return a rich table of outcomes for a terminal of `width` columns."""
    return terminal_table(
        CROSSCHECK_COLUMNS, outcomes, width, title="Cross-checks", caption=summary(outcomes),
        group=lambda o: o.check.family,
    )  # fmt: skip
