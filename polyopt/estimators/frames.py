"""Frames of pandas and polars: the names of their columns, their order, and their numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.base.text import first_of, visible
from polyopt.estimators.column_table import cells_of_column, column_as_numbers, is_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["check_names", "check_unique", "column_names", "in_order", "listed", "matrix_of_frame", "named_as"]


def column_names(X: object) -> list[str] | None:
    """Names of a frame's columns; None for anything else, and if not all of them are texts.

    X: A table.
    """
    names = list(X.columns) if is_frame(X) else []  # type: ignore[attr-defined]
    return names if names and all(isinstance(name, str) for name in names) else None


def listed(names: Sequence[object]) -> str:
    """The first names, quoted, and the number of the others.

    names: the names.
    """
    return first_of([repr(name) for name in names])


def check_unique(where: object, names: Any) -> None:
    """Refuse two columns of one name.

    where: the table, as the message calls it.
    names: its columns.
    ValueError: the message names the columns.
    """
    if getattr(names, "is_unique", len(names) == 0):  # of pandas' index, in no time
        return
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{where} has two columns named {listed(twice)}: rename or drop one of them")


def check_names(where: object, found: Sequence[object], names: Sequence[object]) -> None:
    """Refuse columns that are not the expected ones, in whatever order.

    where: the table, as the message calls it.
    found, names: the table's columns, and the expected ones.
    ValueError: two columns of one name, or a missing or an additional column; the message names them.
    """
    check_unique(where, found)
    missing = [name for name in names if name not in set(found)]
    extra = [name for name in found if name not in set(names)]
    plural, others = "s" if len(missing) > 1 else "", "columns" if len(extra) > 1 else "a column"
    problems = ([f"lacks the column{plural} {listed(missing)}"] if missing else []) + (
        [f"has {others} {listed(extra)}"] if extra else []
    )
    if problems:
        shown = visible(", ".join(str(name) for name in names[:50]))
        raise ValueError(f"{where} {' and '.join(problems)}; expected are the columns {shown}")


def in_order(frame: Any, names: Sequence[Any], where: str) -> Any:
    """The frame with its columns in the order of the names.

    frame: some samples.
    names: the columns, in order.
    where: the frame, as the message calls it.
    ValueError: other columns, as in :func:`check_names`.
    """
    found = list(frame.columns)
    if found == list(names) and len(set(found)) == len(found):
        return frame
    check_names(where, found, names)
    return frame[list(names)]


def matrix_of_frame(frame: Any) -> NDArray[Any]:
    """Numbers (n, m) of a frame, in the common type of its columns: NaN for a gap, 0 and 1 for booleans.

    frame: columns of numbers and booleans.
    ValueError: A column of anything else, or two of one name, which the message names.
    """
    check_unique("X", frame.columns)
    if all(_is_plain(kind) for kind in frame.dtypes):
        found = np.asarray(frame.to_numpy())
        if found.dtype.kind in "biuf":
            return found
    columns = []
    for k, name in enumerate(frame.columns):
        column = frame.iloc[:, k] if hasattr(frame, "iloc") else frame[:, k]
        columns.append(column_as_numbers(cells_of_column(column, name), name))
    return np.column_stack(columns)


def _is_plain(kind: Any) -> bool:
    """True for a type of numbers or truths, as pandas, numpy or polars has it."""
    return getattr(kind, "kind", "O") in "biuf" or (hasattr(kind, "is_numeric") and kind.is_numeric())


def named_as(fitted: object, X: Any) -> Any:
    """Samples with names of columns if the estimator was fitted with names, and else without.

    So scikit-learn has nothing to warn of.

    fitted: A fitted step of a pipeline.
    X: samples whose columns are in the order of the fit.
    """
    names = getattr(fitted, "feature_names_in_", None)
    if column_names(X) is None:
        if names is None or len(getattr(X, "shape", ())) != 2 or X.shape[1] != len(names):
            return X
        from pandas import DataFrame
        from scipy.sparse import issparse

        make: Any = DataFrame.sparse.from_spmatrix if issparse(X) else DataFrame  # type: ignore[attr-defined]
        return make(X, columns=names)
    if names is not None:
        return X
    return X.set_axis(range(X.shape[1]), axis=1) if hasattr(X, "set_axis") else X.to_numpy()
