"""Columns of a table for the loops: numbers where they are, texts as codes of their levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.answers.cells import Cells, cells_of_columns, cells_of_matrix
from polyopt.estimators.column_table import cells_of_column, column_as_numbers, column_as_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from polyopt.estimators.given import SamplesLike

    Integers = NDArray[np.int64]
    Levels = Mapping[str | None, int]

__all__ = ["TableReader"]

_NONE = np.empty(0, dtype=np.int64)
_FEW = 64  # cells of texts up to which a look at each is quicker than a table of them


class TableReader:
    """Reads some columns of tables.

    Parameters
    ----------
    places : ndarray of int64, shape (c,)
        The columns.
    levels : mapping of int to mapping of text to int
        Of columns of texts, by number, the level of each text; others have level 0.
    names : tuple of str
        The names of all columns, for errors.
    """

    def __init__(self, places: Integers, levels: Mapping[int, Levels], names: tuple[str, ...]):
        self.places, self.levels, self._names = places, {k: levels[k] for k in places if k in levels}, names
        self._known: dict[int, tuple[Any, Integers]] = {}  # the categories met last, and their levels

    def read(self, X: SamplesLike) -> tuple[Cells, tuple[Integers, Integers] | None]:
        """Where the columns are, and the levels of the codes of texts, as a plan takes them.

        Parameters
        ----------
        X : frame, or ndarray of shape (n, m)
            A table.
        """
        if isinstance(X, np.ndarray) and X.dtype != object and not self.levels:
            return cells_of_matrix(X, self.places), None
        columns, levels = [], []
        for k in self.places.tolist():
            column = self._column(X, k)
            known = self.levels.get(k)
            if known is None:
                columns.append(self._numbers(column, k))
                levels.append(_NONE)
            else:
                codes, own = self._codes(column, k, known)
                columns.append(codes)
                levels.append(own)
        starts = np.zeros(len(levels) + 1, dtype=np.int64)
        np.cumsum([len(own) for own in levels], out=starts[1:])
        return cells_of_columns(columns, np.shape(X)[0]), (np.concatenate([_NONE, *levels]), starts)

    def numbers(self, X: SamplesLike, k: int) -> NDArray[Any]:
        """The numbers (n,) of a column."""
        return self._numbers(self._column(X, k), k)

    def _column(self, X: Any, k: int) -> Any:
        """A column as it is: a series, an array, or what a frame of pandas has for categories."""
        if not hasattr(X, "iloc"):
            return X[:, k]
        # A series takes 20 microseconds to make, and this one.
        quick = getattr(getattr(X, "_mgr", None), "iget_values", None)
        if quick is not None:
            values = quick(k)
            if (type(values) is np.ndarray and values.dtype.kind in "iuf") or hasattr(values, "codes"):
                return values
        return X.iloc[:, k]

    def _numbers(self, column: Any, k: int) -> NDArray[Any]:
        if type(column) is np.ndarray and column.dtype.kind in "iuf":
            return column
        kind = getattr(column, "dtype", None)
        if isinstance(kind, np.dtype) and kind.kind in "iuf":
            return np.asarray(column)
        if hasattr(column, "codes"):
            column = np.asarray(column, dtype=object)
        return column_as_numbers(cells_of_column(column, self._names[k]), self._names[k])

    def _codes(self, column: Any, k: int, known: Levels) -> tuple[NDArray[Any], Integers]:
        """Codes of the cells, -1 for a missing one, and the levels of the codes, from -1 on."""
        if hasattr(column, "codes"):
            categories = column.categories
            before = self._known.get(k)
            if before is None or before[0] is not categories:
                texts = column_as_texts(np.array([None, *categories], dtype=object))
                before = (categories, np.array([known.get(text, 0) for text in texts], dtype=np.int64))
                self._known[k] = before
            return np.asarray(column.codes), before[1]
        if len(column) > _FEW:
            found = _counted(column)
            if found is not None:
                codes, different = found
                return codes, np.array([known.get(text, 0) for text in [None, *different]], dtype=np.int64)
        cells = column_as_texts(cells_of_column(column, self._names[k]))
        each = np.array([known.get(text, 0) for text in cells], dtype=np.int64)
        return each, np.arange(-1, max(self.levels[k].values(), default=0) + 1).clip(0)


def _counted(column: Any) -> tuple[NDArray[np.int64], list[str | None]] | None:
    """Codes of the cells, and the text of each; None where not all cells are texts."""
    import pandas as pd

    cells = column if hasattr(column, "iloc") else np.asarray(column)
    if getattr(cells.dtype, "kind", "O") not in "OU" and not pd.api.types.is_string_dtype(cells.dtype):
        return None
    codes, different = pd.factorize(cells, use_na_sentinel=True)
    texts = list(different)
    if not all(isinstance(text, str) for text in texts):
        return None  # 1 and True are one to a table of them, and two texts
    return np.asarray(codes, dtype=np.int64), [text or None for text in texts]
