"""The pass over the rows of a table, by what is done with each of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.answers.packed import packed
from polyopt.answers.weighed import Weighed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Array
    from polyopt.answers.cells import Cells
    from polyopt.answers.form import Form

    Integers = NDArray[np.int64]

__all__ = ["NotANumberError", "Plan", "plan_of_faces"]

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


@dataclass(frozen=True, eq=False)
class Plan(Weighed):
    """Weighed columns as scores of rows."""

    @cached_property
    def _packed(self) -> tuple[Any, ...]:
        return packed(self)

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
