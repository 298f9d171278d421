"""Tables with columns of numbers and of texts: names and order of columns, and conversion of cells.

A frame is a table of pandas or polars, with a name and a type for each column. Columns of a frame are read by
their types, columns of an array by their values. A gap is a missing value or the empty text.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Array, Matrix
from formulations.polyhedral import belonging, scores
from polyopt.base.text import first_of, text_of_number, visible
from polyopt.base.types import SamplesLike

if TYPE_CHECKING:
    import pandas as pd

_TIME_KINDS = ("m", "M")  # of numpy's types of durations and dates
_MAX_NAMES = 50  # largest number of names of expected columns in a message
_MARGIN_TOL = 1e-6  # distance of an output from the margin 1 up to which it is on the margin


def is_frame(X: object) -> bool:
    """Return True for a frame of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "shape")


# -- names -----------------------------------------------------------------------------------------------


def column_names(X: object) -> list[str] | None:
    """Return the names of a frame's columns; None for an array, and if a name is not a text."""
    names = list(X.columns) if is_frame(X) else []  # type: ignore[attr-defined]
    return names if names and all(isinstance(name, str) for name in names) else None


def listed(names: Sequence[object]) -> str:
    """Return a list of the first names, quoted, and the number of further names, as a text."""
    return first_of([repr(name) for name in names])


def check_unique(table: object, names: Any) -> None:
    """Raise ValueError for two columns of the same name; the message names the column and the table."""
    if getattr(names, "is_unique", len(names) == 0):  # cached by pandas' index
        return
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise ValueError(f"{table} has two columns named {listed(duplicates)}: rename or drop one of them")


def check_names(table: object, names: Sequence[object], expected: Sequence[object]) -> None:
    """Raise ValueError if the names are not the expected ones; their order is free."""
    check_unique(table, names)
    missing = [name for name in expected if name not in set(names)]
    extra = [name for name in names if name not in set(expected)]
    plural, extra_noun = "s" if len(missing) > 1 else "", "columns" if len(extra) > 1 else "a column"
    problems = ([f"lacks the column{plural} {listed(missing)}"] if missing else []) + (
        [f"has {extra_noun} {listed(extra)}"] if extra else []
    )
    if problems:
        expected_names = visible(", ".join(str(name) for name in expected[:_MAX_NAMES]))
        raise ValueError(f"{table} {' and '.join(problems)}; expected are the columns {expected_names}")


def in_order(frame: Any, expected: Sequence[Any], table: str) -> Any:
    """Return the frame with its columns in the expected order; raise ValueError for other columns."""
    names = list(frame.columns)
    if names == list(expected) and len(set(names)) == len(names):
        return frame
    check_names(table, names, expected)
    return frame[list(expected)]


def named_as(fitted: object, X: Any) -> Any:
    """Return samples with names of columns if the estimator was fitted with names, else without.

    This avoids scikit-learn's warnings about names. The columns of X must be in the order of the fit.
    """
    names = getattr(fitted, "feature_names_in_", None)
    if column_names(X) is None:
        if names is None or len(getattr(X, "shape", ())) != 2 or X.shape[1] != len(names):
            return X
        from pandas import DataFrame
        from scipy.sparse import issparse

        make_frame: Any = DataFrame.sparse.from_spmatrix if issparse(X) else DataFrame  # type: ignore[attr-defined]
        return make_frame(X, columns=names)
    if names is not None:
        return X
    return X.set_axis(range(X.shape[1]), axis=1) if hasattr(X, "set_axis") else X.to_numpy()


# -- numbers and texts -----------------------------------------------------------------------------------


def matrix_of_frame(frame: Any) -> NDArray[Any]:
    """Return a frame as a matrix (n, m) of the common type of its columns, with NaN for gaps.

    Raise ValueError for a column that is not of numbers or booleans, or two columns of the same name.
    """
    check_unique("X", frame.columns)
    if all(_is_numeric(kind) for kind in frame.dtypes):
        matrix = np.asarray(frame.to_numpy())
        if matrix.dtype.kind in "biuf":
            return matrix
    return np.column_stack([column_as_numbers(cells, name) for name, cells in _columns_of_frame(frame)])


def _columns_of_frame(frame: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name and the cells of each column."""
    for k, name in enumerate(frame.columns):
        column = frame.iloc[:, k] if hasattr(frame, "iloc") else frame[:, k]
        yield name, cells_of_column(column, name)


def _is_numeric(kind: Any) -> bool:
    """Return True for a type of pandas, numpy or polars that is numeric or boolean."""
    return getattr(kind, "kind", "O") in "biuf" or (hasattr(kind, "is_numeric") and kind.is_numeric())


@dataclass(frozen=True)
class ColumnTable:
    """The columns of numbers and the columns of texts of a table."""

    numbers: Array  # (n, p), NaN for a missing value
    texts: NDArray[np.object_]  # (n, q), None for a missing value


def read_columns(
    X: "SamplesLike", is_text: Sequence[bool | None], spellings: Sequence[Mapping[str, str]]
) -> ColumnTable:
    """Return the numbers and the texts of a table X (n, m).

    is_text: for each column, True for texts, False for numbers, None to omit the column.
    spellings: for each column of texts, a mapping from spellings to the main spelling.

    Raise ValueError for another number of columns, dates and other types, or a text in a column of numbers.
    """
    columns = list(_columns_of_frame(X) if is_frame(X) else _columns_of_array(X))
    if len(is_text) != len(columns):
        raise ValueError(f"X has {len(columns)} features, but {len(is_text)} features are expected as input")
    n, numbers, texts, spelled = len(columns[0][1]), [], [], iter(spellings)
    for (name, column), as_text in zip(columns, is_text, strict=True):
        if as_text:
            texts.append(column_as_texts(column, next(spelled)))
        elif as_text is not None:
            numbers.append(column_as_numbers(column, str(name)))
    return ColumnTable(
        np.column_stack(numbers) if numbers else np.empty((n, 0)),
        np.column_stack(texts) if texts else np.empty((n, 0), dtype=object),
    )


def _columns_of_array(X: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the columns of an array, named x0, x1, ..., with their cells checked."""
    table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(
            f"Expected 2D array, a table with a row for each sample; got {table.ndim}D array instead. "
            "Reshape your data"
        )
    if table.dtype.kind == "c":
        raise ValueError(f"a table must hold numbers or texts, not {table.dtype}: Complex data not supported")
    for j, column in enumerate(table.T):
        yield f"x{j}", _checked(column, f"x{j}")


def column_as_texts(
    column: NDArray[Any], replacements: Mapping[str, str] | None = None
) -> NDArray[np.object_]:
    """Return cells as texts in their main spelling, None for a gap; the number 1.0 becomes "1"."""

    def text_of(cell: Any) -> str:
        text = text_of_number(float(cell)) if isinstance(cell, float | np.floating) else str(cell)
        return replacements.get(text, text) if replacements else text

    return _objects([None if _is_gap(cell) else text_of(cell) for cell in column.tolist()])


def column_as_numbers(column: NDArray[Any], name: str) -> Array:
    """Return cells as floats, NaN for a gap; raise ValueError for a text or infinity."""
    if column.dtype.kind in "biuf":
        numbers = column.astype(float)
    else:
        numbers = np.empty(len(column))
        for i, cell in enumerate(column.tolist()):
            try:
                numbers[i] = np.nan if _is_gap(cell) else float(cell)
            except (TypeError, ValueError):
                raise ValueError(f"column {name!r} holds {cell!r}, which is not a number") from None
    if np.isinf(numbers).any():
        raise ValueError(f"column {name!r} contains infinity")
    return numbers


# -- cells -----------------------------------------------------------------------------------------------


def cells_of_column(column: object, name: str) -> NDArray[Any]:
    """Return the cells of a column of a frame or an array: numbers as floats, others as objects.

    Raise ValueError for types other than numbers, booleans and texts: dates, lists, bytes.
    """
    if isinstance(column, np.ndarray):
        return _checked(column, name)
    return _pandas_cells(column, name) if hasattr(column, "iloc") else _polars_cells(column, name)


def _pandas_cells(series: Any, name: str) -> NDArray[Any]:
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_bool_dtype(kind):
        return _objects(series.astype(object).to_list())  # declared categories may have any type
    if pd.api.types.is_complex_dtype(kind) or pd.api.types.is_datetime64_any_dtype(kind):
        raise _type_error(name, kind)
    if pd.api.types.is_numeric_dtype(kind):
        return np.asarray(series.to_numpy(dtype=float, na_value=np.nan))
    if pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind):
        return _checked(_objects(series.astype(object).to_list()), name)
    raise _type_error(name, kind)


def _polars_cells(series: Any, name: str) -> NDArray[Any]:
    kind = series.dtype
    if kind.is_numeric():
        return np.asarray(series.to_numpy(), dtype=float)
    if str(kind).partition("(")[0] in ("String", "Categorical", "Enum", "Boolean", "Object", "Null"):
        return _checked(_objects(series.to_list()), name)
    raise _type_error(name, kind)


def _checked(cells: NDArray[Any], name: str) -> NDArray[Any]:
    """Return the same cells; raise ValueError if one is not a number, a boolean, a text or a gap."""
    if cells.dtype.kind in "mMSV":
        raise _type_error(name, cells.dtype)
    if cells.dtype != object:
        return cells
    for kind in set(map(type, cells.tolist())):
        is_allowed = issubclass(kind, str | Number | np.bool_ | None) and not issubclass(kind, complex)
        if not is_allowed and not all(_is_gap(cell) for cell in cells.tolist() if type(cell) is kind):
            raise _type_error(name, f"values of type {kind.__name__}")
    return cells


def refuse_dates(X: Any) -> None:
    """Raise ValueError for dates and times, which numpy would convert to numbers in an arbitrary unit."""
    if is_frame(X):
        for name, kind in zip(X.columns, X.dtypes, strict=True):
            is_polars_time = hasattr(kind, "is_temporal") and kind.is_temporal()
            if is_polars_time or getattr(kind, "kind", "") in _TIME_KINDS:
                raise _type_error(name, kind)
    elif getattr(getattr(X, "dtype", None), "kind", "") in _TIME_KINDS:
        raise ValueError(f"X holds {X.dtype}, which is no number: make numbers of it (days of dates, say)")


def _type_error(name: str, kind: object) -> ValueError:
    return ValueError(
        f"column {name!r} holds {kind}, neither numbers nor texts: make numbers of it (days of dates, say) "
        "or texts, or leave it out"
    )


def _objects(cells: list[Any]) -> NDArray[np.object_]:
    """Return a list as an array of objects; np.array would convert the cells."""
    column = np.empty(len(cells), dtype=object)
    column[:] = cells
    return column


def is_missing(value: object) -> bool:
    """Return True for None, NaN, and NA and NaT of pandas: values that are not equal to themselves."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA, which has no truth value
        return True
    except ValueError:  # an array, or a frame
        return False


def _is_gap(cell: object) -> bool:
    """Return True for a missing value and for the empty text."""
    return not cell if isinstance(cell, str) else is_missing(cell)


# -- multipliers -----------------------------------------------------------------------------------------

RowsShown: TypeAlias = tuple[str, str, NDArray[Any], NDArray[Any], NDArray[Any]]
"""A family of constraints: name, letter of the multipliers; multipliers, slacks and states (n,)."""


def margin_state(excess: NDArray[Any]) -> NDArray[np.str_]:
    """Return the state of each sample by its excess y f - 1, which is negative inside the margin."""
    inside = np.where(excess < -_MARGIN_TOL, "inside the margin", "on the margin")
    return np.where(excess > _MARGIN_TOL, "beyond the margin", inside)


def multiplier_frame(
    families: Sequence[RowsShown], rows: NDArray[Any], label: NDArray[Any], outputs: NDArray[Any]
) -> "pd.DataFrame":
    """Return one frame with the rows of all families, each in input order.

    rows, label, outputs (n,): row numbers of the samples in the data passed to ``fit``, labels and outputs.
    """
    import pandas as pd

    frames = [
        pd.DataFrame({
            "row": name, "letter": letter, "sample": rows, "label": label, "multiplier": multiplier,
            "slack": slack, "output": outputs, "state": state,
        })
        for name, letter, multiplier, slack, state in families
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def hinge_columns(
    X: Matrix, y: Array, costs: Array, W: Array, assignment: NDArray[np.int64], multipliers: Array | None
) -> dict[str, Any]:
    """Return the columns of ``duals_`` for the margin constraints of the Polyceptron and of PC-SLP.

    A sample inside (y = +1) has a constraint at every face, a sample outside one at the face of its
    `assignment`. The column "place" is the index of the sample in X, and "share" the multiplier relative to
    the cost of slack.

    costs (n,): costs of slack, the upper bounds of the multipliers.
    multipliers (n, K): None if the solver has none.
    """
    sample, face = np.nonzero(belonging(y, assignment, len(W), "all"))
    excess = y[sample] * scores(X, W)[sample, face] - 1.0
    u = np.full(len(sample), np.nan) if multipliers is None else multipliers[sample, face]
    return {
        "row": np.full(len(sample), "margin"),
        "letter": np.full(len(sample), "u"),
        "place": sample,
        "face": face,
        "multiplier": u,
        "share": u / costs[sample],
        "slack": np.maximum(excess, 0.0),
        "state": margin_state(excess),
    }
