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
    """A claim and its program; the numbers are exact, the multipliers not yet feasible.

    Attributes
    ----------
    title : str
        What the machine is called.
    X : ndarray or CSR of shape (n, m)
        Samples, as the machine sees them.
    y : ndarray of shape (n,)
        Labels -1 and +1 of the program.
    program : dict
        As in the file, with numerals.
    W : sequence of K sequences
        The point.
    b : sequence of K numbers
        Intercepts; empty where the program has none.
    multipliers : dict
        By the names of the rows, arrays of shape (K, n).
    kind : str
        ``"bounds"``; or ``"infeasible"``, of multipliers that are a ray.
    bits : int
        Digits, in bits, of what is made feasible and of the claim.
    tree : dict, optional
        In the place of the multipliers, those of a tree's leaves, as in the file,
    bound : float
        and a number that all of them prove.
    """

    title: str
    X: Matrix
    y: NDArray[Any]
    program: dict[str, Any]
    W: Sequence[Sequence[Number] | NDArray[Any]] | NDArray[Any]
    b: Sequence[Number]
    multipliers: dict[str, Any]
    kind: str = "bounds"
    bits: int = 53
    tree: dict[str, Any] | None = None
    bound: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """The statement of a certificate's claim, made when it is asked for.

    Attributes
    ----------
    state : callable
        Returns the statement.
    names : tuple of str
        The labels, as in the data, of -1 and of +1.
    rows : ndarray of int, optional
        The samples of the data in the statement; all by default.
    factor : float
        The factor of their features.
    fixed : callable, optional
        Of a claim by cases: returns the statement of the convex program of the point's own case.
    """

    state: Callable[[], Statement]
    names: tuple[str, str] = ("-1", "1")
    rows: NDArray[Any] | None = None
    factor: float = 1.0
    fixed: Callable[[], Statement] | None = None

    def of(self, names: tuple[str, str], rows: NDArray[Any], factor: float) -> Evidence:
        """The same of these samples of data whose labels have these names, times a factor."""
        return replace(self, names=names, rows=rows, factor=factor)


def without_form(reason: str) -> tuple[Evidence, ...]:
    """The evidence of a certificate that no file can hold: asking for its statement raises the reason."""
    return (Evidence(partial(_refuse, reason)),)


def _refuse(reason: str) -> Statement:
    raise ValueError(reason)


def numeral(value: Number) -> int | str:
    """A number for the file: whole, a hexadecimal float of any length, or a fraction."""
    exact = Fraction(value)
    top, den = exact.numerator, exact.denominator
    if den == 1 and abs(top) < 1 << 53:
        return top
    if den & (den - 1):
        return f"{top}/{den}"
    zeros = (top & -top).bit_length() - 1
    return f"{'-' if top < 0 else ''}0x{abs(top) >> zeros:x}p{zeros - den.bit_length() + 1}"


def cap_of(costs: Iterable[Number]) -> Any:
    """Caps of a family (inf for a hard row) for the file: one for all if they are the same."""
    found = ["inf" if isinstance(cost, float) and math.isinf(cost) else numeral(cost) for cost in costs]
    return found[0] if len(set(found)) == 1 else found


def numerals(values: Sequence[Number] | NDArray[Any]) -> Any:
    """Numbers for the file: one for all if they are the same, only the nonzero ones if few."""
    plain: Sequence[Number] = values.tolist() if isinstance(values, np.ndarray) else values
    exact = [Fraction(value) for value in plain]
    if len(exact) > 1 and all(value == exact[0] for value in exact):
        return numeral(exact[0])
    at = [k for k, value in enumerate(exact) if value]
    if 2 * len(at) < len(exact):
        return {"at": at, "is": [numeral(exact[k]) for k in at]}
    return [numeral(value) for value in exact]
