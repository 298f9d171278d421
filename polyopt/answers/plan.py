"""What is done with each column of a table: the weights of its numbers, of its gaps, or of its texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.answers.form import Form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from polyopt.answers.cells import Cells

    Array = NDArray[np.float64]
    Integers = NDArray[np.int64]

__all__ = ["Bend", "Curve", "NotANumberError", "Plan", "plan_of_faces"]

_PART = 1 << 15  # rows of a part of the work that a thread does


class NotANumberError(ValueError):
    """A column has what is no number, or infinity.

    Attributes
    ----------
    column : int
        The column's place in the table.
    """

    def __init__(self, column: int):
        super().__init__(f"column {column} has what is no number")
        self.column = column


class Bend(NamedTuple):
    """What a column adds beyond a multiple of itself: ``changes max(0, u - knot)``, added over the knots.

    Attributes
    ----------
    knots : ndarray of shape (q,)
        Where it bends; u is the number less its column's centre.
    changes : ndarray of shape (q, K)
        By how much the weights of the column change there.
    """

    knots: NDArray[np.float64]
    changes: NDArray[np.float64]

    def at(self, u: float) -> NDArray[np.float64]:
        """What it adds (K,) at one place."""
        return np.asarray(np.maximum(u - self.knots, 0.0) @ self.changes)


class Curve(NamedTuple):
    """A function of straight pieces that stands in place of a number, constant beyond its ends.

    Attributes
    ----------
    knots : ndarray of shape (q,)
        The ends of the pieces, ascending; of the number less its column's centre.
    levels : ndarray of shape (q,)
        The function there.
    """

    knots: NDArray[np.float64]
    levels: NDArray[np.float64]

    def at(self, u: float) -> float:
        """The function at one place."""
        return float(np.interp(u, self.knots, self.levels))


@dataclass(frozen=True, eq=False)
class Plan:
    """Faces as weights of a table's columns, and how their outputs become one score.

    The output of face k is ``b[k]`` and, added over the columns, ``weights u`` and what a bend adds for a
    number, where u is ``x - centre`` or a curve of that; what a gap counts for a missing number; and what the
    level counts for a text.

    Attributes
    ----------
    places : ndarray of int64, shape (c,)
        The columns that are read. One without weights is only checked.
    centres : ndarray of shape (c,)
        What is taken from a number before it is multiplied, so that nothing is lost where all are far from 0.
    weights : ndarray of shape (c, K)
        Of the numbers.
    gaps : mapping of int to ndarray of shape (K,)
        What a missing number counts, by place in `places`; in others a missing one is refused.
    tables : mapping of int to ndarray of shape (levels, K)
        What the levels of a text count, by place in `places`.
    b : ndarray of shape (K,)
        Offsets.
    form : Form
        How the outputs become one.
    bends : mapping of int to Bend
        What numbers add beyond that, by place in `places`.
    curves : mapping of int to Curve
        What stands in place of numbers, by place in `places`.
    """

    places: Integers
    centres: Array
    weights: Array
    gaps: Mapping[int, Array]
    tables: Mapping[int, Array]
    b: Array
    form: Form
    bends: Mapping[int, Bend] = field(default_factory=dict)
    curves: Mapping[int, Curve] = field(default_factory=dict)

    @property
    def n_terms(self) -> int:
        """Products for each row."""
        bends = sum(len(own.knots) + int(np.count_nonzero(own.changes)) for own in self.bends.values())
        curves = sum(len(own.knots) for own in self.curves.values())
        texts = len(self.tables) * len(self.b)
        return int(np.count_nonzero(self.weights)) + len(self.places) + texts + bends + curves

    @cached_property
    def _packed(self) -> tuple[Any, ...]:
        """What the loops take; the outputs are flipped so that the highest of each group counts."""
        c, K, flip = len(self.places), len(self.b), self.form.flip
        gaps = np.zeros((c, K))
        for p, own in self.gaps.items():
            gaps[p] = own - self._at_centre(p)  # as which a gap is read
        bends = [self.bends.get(p, Bend(np.empty(0), np.empty((0, K)))) for p in range(c)]
        changes = np.concatenate([np.empty((0, K)), *(own.changes for own in bends)])
        curves = [self.curves.get(p, Curve(np.empty(0), np.empty(0))) for p in range(c)]
        number, gap = _listed(flip * self.weights), _listed(flip * gaps)
        centres, has_gaps = self.centres.copy(), np.zeros(c, dtype=np.bool_)
        has_gaps[list(self.gaps)] = True
        centres[list(self.tables)] = -1.0  # codes from -1 on are places in the levels
        faces: list[Integers] = [np.empty(0, dtype=np.int64)] * c
        tables: list[Array] = [np.empty(0)] * c
        for p, table in self.tables.items():
            faces[p] = np.flatnonzero(table.any(axis=0))
            tables[p] = flip * table[:, faces[p]].T.ravel()
        return (
            centres, has_gaps, *number, *gap,
            np.cumsum([0, *map(len, tables)]), np.concatenate([np.empty(0), *tables]),
            np.cumsum([0, *map(len, faces)]), np.concatenate([np.empty(0, dtype=np.int64), *faces]),
            np.cumsum([0, *(len(own.knots) for own in bends)]),
            np.concatenate([np.empty(0), *(own.knots for own in bends)]), *_listed(flip * changes),
            np.cumsum([0, *(len(own.knots) for own in curves)]),
            np.concatenate([np.empty(0), *(own.knots for own in curves)]),
            np.concatenate([np.empty(0), *(_rises(own) for own in curves)]),
            flip * self.b, np.array([*self.form.starts, K]), np.array(self.form.signs, dtype=float),
            self.form.is_least,
        )  # fmt: skip

    def _at_centre(self, p: int) -> Array:
        """What a column's numbers add (K,) where they are its centre."""
        u = self.curves[p].at(0.0) if p in self.curves else 0.0
        straight = u * self.weights[p]
        return straight + self.bends[p].at(u) if p in self.bends else straight

    @cached_property
    def _no_levels(self) -> tuple[Integers, Integers]:
        return np.empty(0, dtype=np.int64), np.zeros(len(self.places) + 1, dtype=np.int64)

    def scores(self, cells: Cells, levels: tuple[Integers, Integers] | None = None) -> Array:
        """Scores (n,) of a table's rows.

        Parameters
        ----------
        cells : Cells
            The columns `places`; of texts their codes, whole numbers from -1 on.
        levels : tuple of ndarray, optional
            The levels of the codes, -1 first, of all columns of texts one after the other, and where those of
            each column begin (c + 1,), which for numbers is where they end.

        Raises
        ------
        NotANumberError
            NaN, where no gap is counted, or infinity.
        """
        return self._run(cells, levels, np.empty((cells.rows, 0)))

    def outputs(self, cells: Cells, levels: tuple[Integers, Integers] | None = None) -> Array:
        """Outputs (n, K) of all faces; arguments and errors as in :meth:`scores`."""
        every = np.empty((cells.rows, len(self.b)))
        self._run(cells, levels, every)
        return self.form.flip * every

    def _run(self, cells: Cells, levels: tuple[Integers, Integers] | None, every: Array) -> Array:
        from polyopt.answers.loops import score_rows

        score = np.empty(cells.rows)
        places, starts = self._no_levels if levels is None else levels

        def work(rows: tuple[int, int]) -> int:
            return int(score_rows(cells[:3], self._packed, places, starts, rows, score, every))

        if cells.rows <= _PART:
            wrong = [work((0, cells.rows))]
        else:
            from polyopt.threads import run_blocks

            parts = [(i, min(i + _PART, cells.rows)) for i in range(0, cells.rows, _PART)]
            wrong = run_blocks(work, parts, float(cells.rows * (self.n_terms + 1)))
        bad = next((p for p in wrong if p >= 0), -1)
        if bad >= 0:
            raise NotANumberError(int(self.places[bad]))
        return score


def _rises(curve: Curve) -> Array:
    """A curve as its first level, and by how much it is steeper from each knot but the last one on."""
    slopes = np.diff(curve.levels) / np.diff(curve.knots)
    return np.append(curve.levels[:1], np.diff(slopes, prepend=0.0))


def _listed(weights: Array) -> tuple[Integers, Integers, Array]:
    """Where each row's entries other than 0 begin, their places, and themselves."""
    rows, places = np.nonzero(weights)
    starts = np.zeros(len(weights) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(weights)), out=starts[1:])
    return starts, np.ascontiguousarray(places), weights[rows, places]


def plan_of_faces(W: Array, b: Array, form: Form) -> Plan:
    """Faces of numbers as they are; all columns are read, so that all are checked.

    Parameters
    ----------
    W, b : ndarray of shape (K, m), (K,)
        Faces.
    form : Form
        How their outputs become one.
    """
    m = W.shape[1]
    return Plan(np.arange(m), np.zeros(m), np.asarray(W.T, dtype=float), {}, {}, np.asarray(b, float), form)
