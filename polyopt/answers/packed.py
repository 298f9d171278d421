"""A plan as the arrays that the loops take.

Columns are cut into blocks whose numbers and hinges, a row of the loops' table each, stay in the processor's
first cache. Faces go by twos where they have weights for much the same rows, for what takes time is to load
these. For each block and face, or two, there are the rows with weights, filled up to fours by weights of 0. A
curve of straight pieces is ``level + Σ_h slope_h min(max(u, knot_h), knot_{h+1})``, PIECES at once.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyopt.answers.weighed import Curve, Weighed

    Array = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["PIECES", "packed"]

PIECES = 6
"""Straight pieces that a loop adds at once; the power transform has as many."""

_WIDTH, _FOUR = 16, 4  # rows of the table, unless a column alone has more; rows that a face adds at once
_TWO = 1.4  # what two faces take for four rows, next to one
_MOST_COMPARED = 64  # faces up to which all twos are compared


def packed(plan: Weighed) -> tuple[Any, ...]:
    """What the loops take; the outputs are flipped so that the highest of each group counts.

    Parameters
    ----------
    plan : Weighed
        What is done with each column.
    """
    form, K = plan.form, len(plan.b)
    rows = [_rows_of(plan, p) for p in range(len(plan.places))]
    ends = _blocks([len(own) for own in rows])
    blocks = [_of_block(rows[first:last], K) for first, last in pairwise(ends)]
    steps = [_steps(form.flip * block) for block in blocks]
    return (
        _columns(plan), _bends(plan), np.array(ends, dtype=np.int64), _joined(steps), form.flip * plan.b,
        (np.array([*form.starts, K]), np.array(form.signs, dtype=float), form.is_least,
         max(map(len, blocks), default=0)),
    )  # fmt: skip


def _rows_of(plan: Weighed, p: int) -> Array:
    """The weights (r, K) of a column's number and of its hinges; a text has none."""
    if p in plan.tables:
        return np.empty((0, len(plan.b)))
    own = plan.weights[p : p + 1]
    return np.vstack([own, plan.bends[p].changes]) if p in plan.bends else own


def _blocks(counts: list[int]) -> list[int]:
    """Where blocks of columns with so many rows each begin, and the end."""
    found, room = [0], _WIDTH
    for p, count in enumerate(counts):
        if count > room and p > found[-1]:
            found.append(p)
            room = _WIDTH
        room -= count
    return [*found, len(counts)]


def _of_block(rows: list[Array], K: int) -> Array:
    """The weights of a block, those of all numbers before those of hinges."""
    return np.vstack([np.empty((0, K)), *(own[:1] for own in rows), *(own[1:] for own in rows)])


def _steps(weights: Array) -> list[tuple[tuple[int, int], Integers, Array]]:
    """What is added in one go: to a face, or to two, some rows of the table with weights (2, t), by fours."""
    found = []
    for k, other in _by_twos(weights != 0.0):
        own = weights[:, [k, k if other < 0 else other]].T
        used = np.flatnonzero(own.any(axis=0))
        count = -(-len(used) // _FOUR) * _FOUR
        places, filled = np.full(count, used[0] if count else 0, dtype=np.int64), np.zeros((2, count))
        places[: len(used)], filled[:, : len(used)] = used, own[:, used]
        found.append(((k, other), places, filled))
    return found


def _by_twos(used: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Faces that go together, those first that save the most, and those that go alone, with -1."""
    count, found = used.sum(axis=0), []
    left = set(np.flatnonzero(count).tolist())
    if len(left) <= _MOST_COMPARED:
        shared = used.astype(float).T @ used
        fours = np.ceil(count / _FOUR)
        saved = fours[:, None] + fours - _TWO * np.ceil((count[:, None] + count - shared) / _FOUR)
        one, other = np.nonzero(np.triu(saved > 0.0, 1))
        order = np.argsort(-saved[one, other], kind="stable")
        for k, j in zip(one[order].tolist(), other[order].tolist(), strict=True):
            if k in left and j in left:
                found.append((k, j))
                left -= {k, j}
    return [*found, *((k, -1) for k in sorted(left))]


def _joined(steps: list[list[tuple[tuple[int, int], Integers, Array]]]) -> tuple[Any, ...]:
    """The steps of all blocks: where those of each begin, their faces, where their rows begin, weights."""
    every = [step for own in steps for step in own]
    faces = np.array([both for both, _, _ in every], dtype=np.int64).reshape(-1, 2)
    return (
        _starts(map(len, steps)), *np.ascontiguousarray(faces.T),  # one kind of array: loops compile once
        _starts(len(places) for _, places, _ in every),
        np.concatenate([np.empty(0, np.int64), *(places for _, places, _ in every)]),
        *np.concatenate([np.empty((2, 0)), *(own for _, _, own in every)], axis=1),
    )  # fmt: skip


def _columns(plan: Weighed) -> tuple[Any, ...]:
    """How columns are read: their centres, what gaps count, and the tables of texts."""
    c, flip = len(plan.places), plan.form.flip
    centres, has_gaps = plan.centres.copy(), np.zeros(c, dtype=np.bool_)
    has_gaps[list(plan.gaps)] = True
    centres[list(plan.tables)] = -1.0  # codes from -1 on are places in the levels
    gaps = np.zeros((c, len(plan.b)))
    for p, own in plan.gaps.items():
        gaps[p] = own - plan.at_centre(p)  # as which a gap is read
    places, faces = np.nonzero(gaps)
    users: list[Integers] = [np.empty(0, dtype=np.int64)] * c
    tables: list[Array] = [np.empty(0)] * c
    for p, table in plan.tables.items():
        users[p] = np.flatnonzero(table.any(axis=0))
        tables[p] = flip * table[:, users[p]].T.ravel()
    return (
        centres, has_gaps, _starts(np.bincount(places, minlength=c)), np.ascontiguousarray(faces),
        flip * gaps[places, faces], _starts(map(len, tables)), np.concatenate([np.empty(0), *tables]),
        _starts(map(len, users)), np.concatenate([np.empty(0, dtype=np.int64), *users]),
    )  # fmt: skip


def _bends(plan: Weighed) -> tuple[Any, ...]:
    """Curves and knots of every column."""
    c = len(plan.places)
    knots = [plan.bends[p].knots if p in plan.bends else np.empty(0) for p in range(c)]
    levels, pieces = np.zeros(c), [np.empty((2, 0))] * c
    for p, curve in plan.curves.items():
        levels[p], pieces[p] = _pieces(curve)
    return (
        _starts(own.shape[1] for own in pieces), levels, *np.concatenate([np.empty((2, 0)), *pieces], axis=1),
        _starts(map(len, knots)), np.concatenate([np.empty(0), *knots]),
    )  # fmt: skip


def _pieces(curve: Curve) -> tuple[float, Array]:
    """The level that is added to the pieces of a curve, and their first ends and slopes, and an end more."""
    slopes = np.diff(curve.levels) / np.diff(curve.knots)
    level = math.fsum([curve.levels[0], *(-slopes * curve.knots[:-1])])
    count = -(-len(slopes) // PIECES) * PIECES + 1
    own = np.zeros((2, count))
    own[0], own[0, : len(curve.knots)], own[1, : len(slopes)] = curve.knots[-1], curve.knots, slopes
    return level, own


def _starts(counts: Any) -> Integers:
    """Where parts of so many entries begin, and the end."""
    return np.cumsum([0, *counts], dtype=np.int64)
