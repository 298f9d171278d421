"""The inverse of a basis of :mod:`polyopt.solvers.l0.basis`, as a row or a column of it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyopt.solvers.l0.basis import Given, State, add, inner, within

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["SMALLEST", "grow", "replace_column", "replace_row", "shrink"]

SMALLEST = 1e-9  # pivot of a step


@within
def replace_row(at: State, leaving: int, row: int, weights: Vector) -> bool:
    """The new row is `weights` times the rows of the basis."""
    k, pivot = at.sizes[0], weights[leaving]
    if abs(pivot) < SMALLEST:
        return False
    at.R[leaving] = row
    for q in range(k):
        own = at.W[q, leaving] / pivot
        add(at.W[q, :k], -own, weights)
        at.W[q, leaving] = own
    return True


@within
def _column_of(given: Given, at: State, j: int) -> Vector:
    """A column in terms of those of the basis."""
    k = at.sizes[0]
    found = np.zeros(k)
    for q in range(k):
        found[q] = inner(at.W[q], given.columns[j], at.R, k)
    return found


@within
def replace_column(given: Given, at: State, place: int, j: int) -> bool:
    """The new column is of the program."""
    k = at.sizes[0]
    found = _column_of(given, at, j)
    if abs(found[place]) < SMALLEST:
        return False
    at.Q[place] = j
    for r in range(k):
        at.W[place, r] /= found[place]
    for q in range(k):
        if q != place:
            add(at.W[q, :k], -found[q], at.W[place])
    return True


@within
def grow(given: Given, at: State, row: int, j: int, weights: Vector, pivot: float) -> bool:
    """One row more, which is `weights` times those of the basis, and one column more."""
    k = at.sizes[0]
    if abs(pivot) < SMALLEST or k == len(at.R):
        return False
    found = _column_of(given, at, j)
    for q in range(k):
        add(at.W[q, :k], found[q] / pivot, weights)
        at.W[q, k] = -found[q] / pivot
    for r in range(k):
        at.W[k, r] = -weights[r] / pivot
    at.W[k, k] = 1.0 / pivot
    at.R[k], at.Q[k] = row, j
    at.sizes[0] = k + 1
    return True


@within
def shrink(at: State, place: int, leaving: int) -> bool:
    """One row and one column fewer; the last of each come to their places."""
    k, pivot = at.sizes[0], at.W[place, leaving]
    if abs(pivot) < SMALLEST:
        return False
    for q in range(k):
        if q != place:
            add(at.W[q, :k], -at.W[q, leaving] / pivot, at.W[place])
    for r in range(k):
        at.W[place, r] = at.W[k - 1, r]
    for q in range(k):
        at.W[q, leaving] = at.W[q, k - 1]
    at.R[leaving], at.Q[place] = at.R[k - 1], at.Q[k - 1]
    at.sizes[0] = k - 1
    return True
