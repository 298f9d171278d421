"""The cross-checks: what one is, how it is registered, and what decides it.

A check is a function of a seed that returns what was computed and what it must be. Its docstring is what
the table prints: the first sentence is the identity, the last paragraph its source.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from formulations.language.clock import Clock, running
from polyopt.methods.registry import BUILT_IN, METHODS, answering_for

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Vector = NDArray[np.float64]
    Pair = tuple[ArrayLike, ArrayLike]  # computed, expected
    Evaluate = Callable[[int], Pair]

__all__ = ["Crosscheck", "NotRun", "Outcome", "Registry", "all_checks", "deviation", "run"]

Relation = Literal["=", "≤", "≥", "<", ">"]


class NotRun(Exception):  # noqa: N818 - no error: what the check needs is not installed
    """A check asks for something that is optional and absent."""


@dataclass(frozen=True)
class Crosscheck:
    """An identity or an inequality that the package must satisfy.

    Attributes
    ----------
    name : str
        Its identifier; T01 to T48 are the identities, X those beyond them, and N the negative ones, which
        fail if someone changes the code to what a paper prints in error.
    family : str
        The group it belongs to.
    relation : {"=", "≤", "≥", "<", ">"}
        How what is computed stands to what is expected. The strict ones must hold by more than the
        tolerance, the others up to it.
    tolerance : float
        Relative to the largest expected number, and absolute where that is 0.
    evaluate : callable
        Takes a seed to the numbers computed and expected, of one shape or of shapes that broadcast.
    """

    name: str
    family: str
    relation: Relation
    tolerance: float
    evaluate: Evaluate

    @property
    def identity(self) -> str:
        """Identity that must hold, in a line."""
        return (inspect.getdoc(self.evaluate) or "").split("\n\n")[0].replace("\n", " ").removesuffix(".")

    @property
    def source(self) -> str:
        """Where it is from."""
        paragraph = (inspect.getdoc(self.evaluate) or "").split("\n\n")[-1].replace("\n", " ")
        return paragraph.removeprefix("Source: ").removesuffix(".")

    def holds(self, difference: float) -> bool:
        """True if the check holds with a difference, as :func:`deviation` measures it."""
        if self.relation in ("<", ">"):
            return bool(difference > self.tolerance)
        return bool(difference <= self.tolerance)


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
        What is held against the tolerance.
    seconds : float
        Time taken.
    verdict : str
        ``"ok"``, ``"FAILS"`` or ``"not run"``.
    note : str
        Why it was not run, or which error stopped it.
    """

    check: Crosscheck
    computed: float
    expected: float
    difference: float
    seconds: float
    verdict: str
    note: str = ""


class Registry:
    """The checks of one family, in their order.

    Parameters
    ----------
    family : str
        What the group is called.
    """

    def __init__(self, family: str):
        self.family = family
        self.checks: list[Crosscheck] = []

    def __iter__(self) -> Iterator[Crosscheck]:
        return iter(self.checks)

    def __len__(self) -> int:
        return len(self.checks)

    def add(self, name: str, tolerance: float, relation: Relation = "=") -> Callable[[Evaluate], Evaluate]:
        """Register the function below as a check.

        Parameters
        ----------
        name : str
            Its identifier.
        tolerance : float
            As in :class:`Crosscheck`.
        relation : {"=", "≤", "≥", "<", ">"}
            As in :class:`Crosscheck`.
        """

        def register(evaluate: Evaluate) -> Evaluate:
            self.checks.append(Crosscheck(name, self.family, relation, tolerance, evaluate))
            return evaluate

        return register


def all_checks() -> tuple[Crosscheck, ...]:
    """The checks that the entries of the methods name, each module's once, other packages' among them.

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
    """Measure how far numbers are from what must hold, and return the pair that is farthest.

    computed, expected: the numbers.
    Returns difference, computed, expected: the difference is relative to the largest expected number,
        absolute where that is 0. For "=" it is the distance, for "≤" and "≥" the violation, and for "<" and
        ">" the room that is kept. Numbers that are not finite are infinitely far.
    """
    c, e = np.broadcast_arrays(np.asarray(computed, dtype=float), np.asarray(expected, dtype=float))
    c, e = c.ravel(), e.ravel()
    scale = float(np.abs(e).max()) or 1.0
    off = {"=": np.abs(c - e), "≤": c - e, "≥": e - c, "<": c - e, ">": e - c}[relation]
    off = np.where(np.isfinite(c) & np.isfinite(e), off, np.inf)
    worst = int(off.argmax())
    difference = float(off[worst]) / scale
    # Of a strict inequality what counts is the room that it keeps, of the others the violation.
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
        An error of the check is a failure, with the error as its note.
    """
    started = time.perf_counter()

    def ended(verdict: str, difference: float, pair: Iterable[float], note: str = "") -> Outcome:
        computed, expected = pair
        return Outcome(check, computed, expected, difference, time.perf_counter() - started, verdict, note)

    nothing = (np.nan, np.nan)
    try:
        with running(Clock()) as clock:
            difference, *pair = deviation(check.relation, *check.evaluate(seed))
        if clock.is_stopped:  # a fit that kept its best point
            raise KeyboardInterrupt
    except NotRun as reason:
        return ended("not run", np.nan, nothing, str(reason))
    except Exception as error:  # of any kind: the other checks are still to be run
        return ended("FAILS", np.inf, nothing, f"{type(error).__name__}: {_line(error)}")
    return ended("ok" if check.holds(difference) else "FAILS", difference, pair)


def _line(error: Any) -> str:
    return " ".join(str(error).split())
