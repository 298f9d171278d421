"""The columns of a table as they come: which are numbers and which are texts, and their cells.

Frames of pandas and polars are read by their own types, and arrays by what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.polytope.spellings import text_of_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.language.types import Array
    from polyopt.base.types import SamplesLike

    Texts = NDArray[np.object_]

__all__ = [
    "ColumnTable", "cells_of_column", "column_as_numbers", "column_as_texts", "is_frame",
    "is_missing", "read_columns", "refuse_dates",
]  # fmt: skip

_TIMES = ("m", "M")  # kinds of numpy's types of times and dates


@dataclass(frozen=True)
class ColumnTable:
    """Numbers and texts apart.

    Attributes
    ----------
    numbers : ndarray of shape (n, p)
        The columns of numbers, NaN where a value is missing.
    texts : ndarray of object, shape (n, q)
        The columns of texts, None where a value is missing.
    """

    numbers: Array
    texts: Texts


def is_frame(X: object) -> bool:
    """Whether a table is a frame, with names and a type for each column.

    X: A table.
    """
    return hasattr(X, "columns") and hasattr(X, "shape")


def read_columns(
    X: SamplesLike, is_text: Sequence[bool | None], spellings: Sequence[Mapping[str, str]]
) -> ColumnTable:
    """Numbers and texts of a table.

    X (n, m): the table. "" is a missing text.
    is_text: which columns hold texts; None for a column that is left out.
    spellings: for each column of texts the spellings to be replaced, and by what.
    ValueError: another number of columns, dates and other types that are neither, or numbers that are no
        numbers.
    """
    names, columns = _frame(X) if is_frame(X) else _array(X)
    if len(is_text) != len(names):
        raise ValueError(f"X has {len(names)} features, but {len(is_text)} features are expected as input")
    n = len(columns[0])
    found: dict[bool, list[Any]] = {False: [], True: []}
    for name, column, as_text in zip(names, columns, is_text, strict=True):
        if as_text is not None:
            found[as_text].append(column if as_text else column_as_numbers(column, name))
    numbers = np.column_stack(found[False]) if found[False] else np.empty((n, 0))
    texts = np.empty((n, len(found[True])), dtype=object)
    for k, (column, other) in enumerate(zip(found[True], spellings, strict=True)):
        texts[:, k] = column_as_texts(column, other)
    return ColumnTable(numbers, texts)


def _frame(X: Any) -> tuple[list[str], list[NDArray[Any]]]:
    """Names and cells of a frame's columns: of numbers as floats, of all others as objects."""
    names = [str(name) for name in X.columns]
    columns = [X.iloc[:, k] if hasattr(X, "iloc") else X[:, k] for k in range(len(names))]
    return names, [cells_of_column(column, name) for column, name in zip(columns, names, strict=True)]


def cells_of_column(column: object, name: str) -> NDArray[Any]:
    """Cells of a frame's column, or of an array's: of numbers as floats, of all others as objects.

    ValueError: dates, lists, bytes and other types that are neither.
    """
    if isinstance(column, np.ndarray):
        return _checked(column, name)
    return _of_pandas(column, name) if hasattr(column, "iloc") else _of_polars(column, name)


def _of_pandas(series: Any, name: str) -> NDArray[Any]:
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(kind):
        return _objects(series.astype(object).to_list())  # categories were declared, whatever their type
    if pd.api.types.is_complex_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        raise _neither(name, kind)
    if pd.api.types.is_numeric_dtype(kind):
        return np.asarray(series.to_numpy(dtype=float, na_value=np.nan))
    if pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind):
        return _checked(_objects(series.astype(object).to_list()), name)
    raise _neither(name, kind)


def _of_polars(series: Any, name: str) -> NDArray[Any]:
    kind = series.dtype
    if kind.is_numeric():
        return np.asarray(series.to_numpy(), dtype=float)
    if str(kind).partition("(")[0] in ("String", "Categorical", "Enum", "Boolean", "Object", "Null"):
        return _checked(_objects(series.to_list()), name)
    raise _neither(name, kind)


def refuse_dates(X: Any) -> None:
    """Refuse dates and times, which numpy would make numbers of: nanoseconds, or days, or microseconds."""
    if is_frame(X):
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            if getattr(kind, "kind", "") in _TIMES or (hasattr(kind, "is_temporal") and kind.is_temporal()):
                raise _neither(name, kind)
    elif getattr(getattr(X, "dtype", None), "kind", "") in _TIMES:
        raise ValueError(f"X holds {X.dtype}, which is no number: make numbers of it (days of dates, say)")


def _neither(name: str, kind: object) -> ValueError:
    return ValueError(
        f"column {name!r} holds {kind}, neither numbers nor texts: make numbers of it (days of dates, say) "
        "or texts, or leave it out"
    )


def _checked(cells: NDArray[Any], name: str) -> NDArray[Any]:
    """Cells that are numbers, truths, texts and gaps; of anything else each value would be a category."""
    if cells.dtype.kind in "mMSV":
        raise _neither(name, cells.dtype)
    if cells.dtype != object:
        return cells
    every = cells.tolist()
    plain = str, Number, np.bool_, type(None)
    odd = {kind for kind in set(map(type, every)) if not issubclass(kind, plain) or issubclass(kind, complex)}
    for cell in every if odd else ():
        if type(cell) in odd and not _is_gap(cell):
            raise _neither(name, f"values of type {type(cell).__name__}")
    return cells


def _array(X: Any) -> tuple[list[str], list[NDArray[Any]]]:
    table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(
            f"Expected 2D array, a table with a row for each sample; got {table.ndim}D array instead. "
            "Reshape your data"
        )
    if table.dtype.kind == "c":
        raise ValueError(f"a table must hold numbers or texts, not {table.dtype}: Complex data not supported")
    names = [f"x{j}" for j in range(table.shape[1])]
    return names, [_checked(column, name) for column, name in zip(table.T, names, strict=True)]


def _objects(cells: list[Any]) -> NDArray[np.object_]:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def is_missing(value: object) -> bool:
    """True for None and for values that are not equal to themselves: NaN, and pandas' NA and NaT."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA, which has no truth value
        return True
    except ValueError:  # an array, or a frame
        return False


def _is_gap(cell: object) -> bool:
    """True for a missing value and for the empty text."""
    return not cell if isinstance(cell, str) else is_missing(cell)


def column_as_texts(column: NDArray[Any], other: Mapping[str, str] | None = None) -> NDArray[np.object_]:
    """Cells as texts in their main spelling, None for a gap; whole numbers without a fraction."""
    texts = [None if _is_gap(cell) else _text(cell) for cell in column.tolist()]
    return _objects([None if text is None else other.get(text, text) for text in texts] if other else texts)


def _text(cell: Any) -> str:
    return text_of_number(float(cell)) if isinstance(cell, float | np.floating) else str(cell)


def column_as_numbers(column: NDArray[Any], name: str) -> Array:
    """Cells as numbers, NaN where one is missing.

    ValueError: one that is no number, or infinity.
    """
    if column.dtype.kind in "biuf":
        found = column.astype(float)
    else:
        try:
            found = np.array([np.nan if _is_gap(cell) else float(cell) for cell in column.tolist()])
        except (TypeError, ValueError):
            wrong = next(cell for cell in column.tolist() if not _is_gap(cell) and not _is_number(cell))
            raise ValueError(f"column {name!r} holds {wrong!r}, which is not a number") from None
    if np.isinf(found).any():
        raise ValueError(f"column {name!r} contains infinity")
    return found


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True
