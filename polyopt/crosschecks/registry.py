"""Cross-checks: their declaration, their decision, and their table.

A check is a function of a seed that returns the computed and the expected numbers. The first paragraph of its
docstring is the identity, as the table prints it.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table
from rich.text import Text

from formulations.language.clock import Clock, running
from polyopt.methods.registry import BUILT_IN, METHODS, answering_for

Vector = NDArray[np.float64]
Pair = tuple[ArrayLike, ArrayLike]  # computed, expected
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

_VERDICT_STYLES = {"ok": "green", "FAILS": "bold red", "not run": "yellow"}


@dataclass(frozen=True)
class Crosscheck:
    """An identity or an inequality that the package must satisfy.

    Attributes
    ----------
    name : str
        Its identifier; T01 to T48 are the identities, N the negative ones, which fail if someone changes the
        code to what a paper prints in error.
    family : str
        The group it belongs to.
    relation : {"=", "≤", "≥", "<", ">"}
        Relation of computed to expected numbers. The strict ones must hold by more than the
        tolerance, the others up to it.
    tolerance : float
        Relative to the largest expected number, and absolute where that is 0.
    evaluate : callable
        Takes a seed to the numbers computed and expected, of one shape or of shapes that broadcast.
    source : str
        The paper and equation, or the module that derives it.
    """

    name: str
    family: str
    relation: Relation
    tolerance: float
    evaluate: Evaluate
    source: str = ""

    @property
    def identity(self) -> str:
        """Identity that must hold, in a line."""
        return (inspect.getdoc(self.evaluate) or "").split("\n\n")[0].replace("\n", " ").removesuffix(".")

    @property
    def is_strict(self) -> bool:
        """True if the relation must hold by more than the tolerance."""
        return self.relation in ("<", ">")

    def holds(self, difference: float) -> bool:
        """True if the check holds with a difference, as :func:`deviation` measures it."""
        return bool(difference > self.tolerance if self.is_strict else difference <= self.tolerance)


@dataclass(frozen=True)
class Outcome:
    """One check, evaluated.

    Attributes
    ----------
    check : Crosscheck
        The check.
    computed, expected : float
        The two numbers; of arrays, where they are farthest from what must hold.
    difference : float
        Compared with the tolerance.
    seconds : float
        Time taken.
    verdict : str
        ``"ok"``, ``"FAILS"`` or ``"not run"``.
    note : str
        The missing package that kept it from running, or the error that stopped it.
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

    def add(
        self, name: str, source: str, tolerance: float, relation: Relation = "="
    ) -> Callable[[Evaluate], Evaluate]:
        """Register the function below as a check; the arguments are those of :class:`Crosscheck`."""

        def register(evaluate: Evaluate) -> Evaluate:
            self.append(Crosscheck(name, self.family, relation, tolerance, evaluate, source))
            return evaluate

        return register


def all_checks() -> tuple[Crosscheck, ...]:
    """List the checks that the entries of the methods name, each module's once, other packages' among them.

    Warns
    -----
    UserWarning
        Those of another package cannot be read; they are left out.
    """
    found: dict[str, list[Crosscheck]] = {}
    for method in METHODS.values():
        for module in method.crosschecks:
            if module not in found:
                try:
                    with answering_for(method):
                        found[module] = list(import_module(module).CHECKS)
                except RuntimeError as error:
                    if method.name in BUILT_IN:
                        raise
                    warnings.warn(f"its cross-checks are left out. {error}", UserWarning, stacklevel=2)
    return tuple(check for checks in found.values() for check in checks)


def deviation(relation: Relation, computed: ArrayLike, expected: ArrayLike) -> tuple[float, float, float]:
    """Return the difference from what must hold, and the computed and expected number where it is largest.

    The difference is relative to the largest expected number, absolute where that is 0. For "=" it is the
    distance, for "≤" and "≥" the violation, and for "<" and ">" the room that is kept. Numbers that are not
    finite are infinitely far.
    """
    c, e = np.broadcast_arrays(np.asarray(computed, dtype=float), np.asarray(expected, dtype=float))
    c, e = c.ravel(), e.ravel()
    scale = float(np.abs(e).max()) or 1.0
    off = {"=": np.abs(c - e), "≤": c - e, "≥": e - c, "<": c - e, ">": e - c}[relation]
    off = np.where(np.isfinite(c) & np.isfinite(e), off, np.inf)
    worst = int(off.argmax())
    difference = float(off[worst]) / scale
    difference = -difference if relation in ("<", ">") else max(difference, 0.0)
    return difference, float(c[worst]), float(e[worst])


def run(check: Crosscheck, seed: int = 0) -> Outcome:
    """Evaluate a check.

    Parameters
    ----------
    check : Crosscheck
        The check.
    seed : int
        Seed of its data.

    Returns
    -------
    Outcome
        An error of the check is a failure, with the error as its note; without an optional package that it
        needs, it is not run.
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


def tolerance_of(outcome: Outcome) -> str:
    """Format the tolerance, with the side of it on which the difference has to be."""
    return f"{'>' if outcome.check.is_strict else '≤'} {outcome.check.tolerance:.0e}"


def captioned_table(title: str, caption: str) -> Table:
    """Return an empty table without rules, under a title and over a caption."""
    return Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", box=None, pad_edge=False,
        header_style="bold",
    )  # fmt: skip


def crosscheck_table(outcomes: list[Outcome]) -> Table:
    """Return the outcomes as a rich table.

    Parameters
    ----------
    outcomes : list of Outcome
        One for each check, from :func:`polyopt.crosschecks.run`.
    """
    table = captioned_table("Cross-checks", summary(outcomes))
    table.add_column("", no_wrap=True)
    table.add_column("identity", ratio=1)
    for header in ("computed", "", "expected", "differs", "tolerance"):
        table.add_column(header, justify="right" if header else "left", no_wrap=True)
    table.add_column("", no_wrap=True)
    family = ""
    for o in outcomes:
        if family and o.check.family != family:
            table.add_row()
        family = o.check.family
        identity = Text(o.check.identity)
        if o.note:
            identity.append(f"\n{o.note}", style="yellow")
        table.add_row(
            o.check.name, identity, f"{o.computed:.6g}", o.check.relation, f"{o.expected:.6g}",
            f"{o.difference:.1e}", tolerance_of(o), Text(o.verdict, style=_VERDICT_STYLES[o.verdict]),
        )  # fmt: skip
    return table
