"""A claim in exact numbers: its program, point and multipliers, and numerals for its file.

A certificate keeps :class:`Evidence`, which makes the :class:`Statement` when a file is written.
``polyopt/check/FORMAT.md`` describes the file, and the numerals that :func:`numeral` writes.
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


@dataclass(frozen=True)
class Statement:
    """A program with a point and multipliers, which need not be feasible yet; all numbers count as exact."""

    title: str  # name of the machine
    X: Matrix  # samples (n, m), as the machine sees them
    y: NDArray[Any]  # labels -1 and +1 of the program
    program: dict[str, Any]  # the file's field "program"
    W: Sequence[Sequence[Number] | NDArray[Any]] | NDArray[Any]  # the point's K faces, (K, m)
    b: Sequence[Number]  # its intercepts; empty for a program without them
    multipliers: dict[str, Any]  # by the name of each family of rows, an array (K, n)
    kind: str = "bounds"  # or "infeasible": then the multipliers are a ray
    bits: int = 53  # significant bits of the feasible multipliers and of the claim's numbers
    tree: dict[str, Any] | None = None  # the file's field "multipliers" for a branch-and-bound tree
    bound: float = 0.0  # lower bound that the leaves of the tree prove


@dataclass(frozen=True)
class Evidence:
    """A function that makes the statement of a claim, and the origin of its samples in a data set."""

    state: Callable[[], Statement]
    names: tuple[str, str] = ("-1", "1")  # labels of the classes -1 and +1 in the data set
    rows: NDArray[Any] | None = None  # indices of the statement's samples in the data set; None for all
    factor: float = 1.0  # the statement's features are those of the data set times this factor
    # For an L0 machine: makes the statement of the program in which the centres in use are fixed
    fixed: Callable[[], Statement] | None = None

    def of(self, names: tuple[str, str], rows: NDArray[Any], factor: float) -> "Evidence":
        """Return the same evidence with this origin of its samples."""
        return replace(self, names=names, rows=rows, factor=factor)


def without_form(reason: str) -> tuple[Evidence, ...]:
    """Return evidence for which there is no file format: making its statement raises ValueError(reason)."""
    return (Evidence(partial(_refuse, reason)),)


def _refuse(reason: str) -> Statement:
    raise ValueError(reason)


def numeral(value: Number) -> int | str:
    """Return a number for the file: an integer, a fraction "p/q", or, if q is a power of 2, "0x1fp-3"."""
    p, q = Fraction(value).as_integer_ratio()
    if q == 1 and abs(p) < 1 << 53:
        return p
    if q & (q - 1):
        return f"{p}/{q}"
    trailing_zeros = (p & -p).bit_length() - 1
    return f"{'-' if p < 0 else ''}0x{abs(p) >> trailing_zeros:x}p{trailing_zeros - q.bit_length() + 1}"


def cap_of(costs: Iterable[Number]) -> Any:
    """Return the caps of a family of rows for the file, "inf" for a hard row; one cap if all are equal."""
    caps = ["inf" if isinstance(cost, float) and math.isinf(cost) else numeral(cost) for cost in costs]
    return caps[0] if len(set(caps)) == 1 else caps


def numerals(values: Sequence[Number] | NDArray[Any]) -> Any:
    """Return a vector for the file: one number if all are equal, and only nonzero ones if they are few."""
    numbers: Sequence[Number] = values.tolist() if isinstance(values, np.ndarray) else values
    exact = [Fraction(value) for value in numbers]
    if len(exact) > 1 and all(value == exact[0] for value in exact):
        return numeral(exact[0])
    nonzero = [j for j, value in enumerate(exact) if value]
    if 2 * len(nonzero) < len(exact):
        return {"at": nonzero, "is": [numeral(exact[j]) for j in nonzero]}
    return [numeral(value) for value in exact]
