"""The exact data of a claim, and its numbers as text for a file.

A *claim* states, for given samples and a given program: the objective at this point is at most *value*, and
no point has a lower objective than *bound*. Weak duality proves the bound from the multipliers. The small
program ``polyopt/check/check.py`` verifies the file, whose format is described beside it in ``FORMAT.md``.

A certificate keeps :class:`Evidence`, which makes the :class:`Statement` only when a file is written.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix

Number: TypeAlias = float | Fraction
Vector: TypeAlias = list[Fraction]
Multipliers: TypeAlias = dict[str, list[Vector]]  # by the name of the family, for each face, n numbers


@dataclass(frozen=True)
class Statement:
    """A program, and a point and multipliers that are made feasible when the file is written."""

    title: str  # name of the machine
    X: Matrix  # samples (n, m), as the machine sees them
    y: NDArray[Any]  # labels -1 and +1 of the program
    program: dict[str, Any]  # penalties, families of constraints and kernel: the file's field "program"
    W: Sequence[Sequence[Number] | NDArray[Any]] | NDArray[Any]  # the point's K faces, (K, m)
    b: Sequence[Number]  # its intercepts; empty for a program without them
    multipliers: dict[str, Any]  # an array (K, n) by the name of each family of constraints, such as "margin"
    kind: str = "bounds"  # or "infeasible": the multipliers are a ray, which proves that no point is feasible
    bits: int = 53  # significant bits of the feasible multipliers, and of the claim's value and bound
    # After branch and bound: its tree, with the multipliers of all nodes, which replaces `multipliers`
    tree: dict[str, Any] | None = None
    bound: float = 0.0  # lower bound that the leaves of the tree prove; not used without a tree


@dataclass(frozen=True)
class Evidence:
    """The content of a claim: a function that makes its statement, and the origin of its samples."""

    state: Callable[[], Statement]
    names: tuple[str, str] = ("-1", "1")  # labels of the classes -1 and +1 in the data set
    rows: NDArray[Any] | None = None  # indices of the statement's samples in the data set; None for all
    factor: float = 1.0  # the statement's features are those of the data set times this factor
    # For a machine with a limited number of kernel centres: states the linear program with these centres
    fixed: Callable[[], Statement] | None = None

    def of(self, names: tuple[str, str], rows: NDArray[Any], factor: float) -> "Evidence":
        """Return the same evidence with this origin of its samples."""
        return replace(self, names=names, rows=rows, factor=factor)


def without_form(reason: str) -> tuple[Evidence, ...]:
    """Return evidence of a result that the file format cannot express: `state` raises ValueError(reason)."""
    return (Evidence(partial(_refuse, reason)),)


def _refuse(reason: str) -> Statement:
    raise ValueError(reason)


def numeral(value: Number) -> int | str:
    """Return a number for the file: an integer, or a fraction "p/q"."""
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 and abs(exact) < 1 << 53 else str(exact)


def cap_of(costs: Iterable[Number]) -> Any:
    """Return a family's caps (bounds on multipliers) for the file, "inf" without slack; equal ones as one."""
    caps = ["inf" if isinstance(cost, float) and math.isinf(cost) else numeral(cost) for cost in costs]
    return caps[0] if len(set(caps)) == 1 else caps


def numerals(values: Sequence[Number] | NDArray[Any]) -> Any:
    """Return a vector for the file: a list, one number if all are equal, or the nonzeros if most are 0."""
    numbers: Sequence[Number] = values.tolist() if isinstance(values, np.ndarray) else values
    exact = [Fraction(value) for value in numbers]
    if len(exact) > 1 and all(value == exact[0] for value in exact):
        return numeral(exact[0])
    nonzero = [j for j, value in enumerate(exact) if value]
    if 2 * len(nonzero) < len(exact):
        return {"at": nonzero, "is": [numeral(exact[j]) for j in nonzero]}
    return [numeral(value) for value in exact]
