"""A claim's program, point and multipliers, as numbers that are exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix

Number: TypeAlias = "float | Fraction"


@dataclass(frozen=True)
class Statement:
    """A claim and its program; the numbers are exact, the multipliers not yet feasible."""

    title: str  # name of the machine
    X: Matrix  # samples (n, m), as the machine sees them
    y: NDArray[Any]  # labels -1 and +1 of the program
    program: dict[str, Any]  # as in the file, with numerals
    W: Sequence[Sequence[Number] | NDArray[Any]] | NDArray[Any]  # the point, (K, m)
    b: Sequence[Number]  # intercepts; empty for a program without them
    multipliers: dict[str, Any]  # arrays (K, n) by the names of the rows
    kind: str = "bounds"  # or "infeasible", of multipliers that are a ray
    bits: int = 53  # precision of the repaired multipliers and of the claim
    tree: dict[str, Any] | None = None  # multipliers of a tree's leaves, in place of the others
    bound: float = 0.0  # lower bound that all leaves of the tree prove


@dataclass(frozen=True)
class Evidence:
    """The statement of a certificate's claim, made when it is asked for."""

    state: Callable[[], Statement]
    names: tuple[str, str] = ("-1", "1")  # labels of the classes -1 and +1 in the data
    rows: NDArray[Any] | None = None  # samples of the data in the statement; None for all
    factor: float = 1.0  # factor of their features
    fixed: Callable[[], Statement] | None = None  # statement of the program of one case of several

    def of(self, names: tuple[str, str], rows: NDArray[Any], factor: float) -> Evidence:
        """Return the same evidence for other label names, sample numbers and a factor of the features."""
        return replace(self, names=names, rows=rows, factor=factor)


def without_form(reason: str) -> tuple[Evidence, ...]:
    """Return the evidence of a certificate that no file can hold; its statement raises the reason."""
    return (Evidence(partial(_refuse, reason)),)


def _refuse(reason: str) -> Statement:
    raise ValueError(reason)


def numeral(value: Number) -> int | str:
    """Return a number for the file: an integer, a hexadecimal float of any length, or a fraction."""
    exact = Fraction(value)
    top, den = exact.numerator, exact.denominator
    if den == 1 and abs(top) < 1 << 53:
        return top
    if den & (den - 1):
        return f"{top}/{den}"
    zeros = (top & -top).bit_length() - 1
    return f"{'-' if top < 0 else ''}0x{abs(top) >> zeros:x}p{zeros - den.bit_length() + 1}"


def cap_of(costs: Iterable[Number]) -> Any:
    """Return the caps of a family (inf for a hard row) for the file: one number if all are equal."""
    found = ["inf" if isinstance(cost, float) and math.isinf(cost) else numeral(cost) for cost in costs]
    return found[0] if len(set(found)) == 1 else found


def numerals(values: Sequence[Number] | NDArray[Any]) -> Any:
    """Return numbers for the file: one number if all are equal, and only the nonzero ones if they are few."""
    plain: Sequence[Number] = values.tolist() if isinstance(values, np.ndarray) else values
    exact = [Fraction(value) for value in plain]
    if len(exact) > 1 and all(value == exact[0] for value in exact):
        return numeral(exact[0])
    at = [k for k, value in enumerate(exact) if value]
    if 2 * len(at) < len(exact):
        return {"at": at, "is": [numeral(exact[k]) for k in at]}
    return [numeral(value) for value in exact]
