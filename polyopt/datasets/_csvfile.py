"""Reading tables of text, with every broken line named.

pandas reads the numbers. Whatever it refuses, or reads as anything but finite numbers, is read once
more by a careful reader of our own, which either names the line or finds it right, and which takes texts and
gaps if asked to.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from polyopt.datasets._dataset import Dataset
from polyopt.datasets._errors import DataFileError
from polyopt.datasets._labels import alike, is_like_number, label_names, labels_of_text, quoted
from polyopt.datasets._layout import (
    Layout,
    find_layout,
    is_number,
    is_well_quoted,
    number_of,
    records,
    separator_of,
)
from polyopt.datasets._preparation import Impute, table_preparation
from polyopt.datasets._source import Source, memory, open_source, text_kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NO_LABEL = ("", "nan")  # in small letters
# More columns, of fewer bytes each, are read here: pandas is six times slower on 5 rows of 20,000 columns.
_MAX_COLUMNS, _MIN_COLUMN_BYTES = 1000, 200
# So are tables of fewer bytes than this: reading them takes less than an import of pandas.
_MIN_BYTES = 2_000_000
_MISSING = ("", "na", "nan", "n/a", "#n/a", "<na>", "null", "?")  # in small letters
_MAX_TEXTS = 1000  # different texts of a column that is not named: more are an identifier
# The words to type, in Python and on the command line.
_FILLING = "impute='median', or --impute median on the command line, fills"


class Table(NamedTuple):
    """A table as it stands in its file.

    Attributes
    ----------
    source : Source
        Where it is.
    layout : Layout
        Its columns.
    cells : Cells
        Its features, and the labels' text.
    """

    source: Source
    layout: Layout
    cells: Cells


def read_csv(
    path: str | Path | Source,
    target: int | str = -1,
    *,
    separator: str | None = None,
    decimal: str = ".",
    categorical: Literal["all"] | Sequence[int | str] = (),
    impute: Impute | None = None,
) -> Dataset:
    """Read a table of features and one label column.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8, compressed (gzip, bzip2, xz) or not; a pipe; ``-`` for standard input. The
        first row is a header when ``target`` is a name, or when none of its feature cells is a number.
        Blank lines are skipped.
    target : int or str
        The label column: its place from 0 (negative from the end; default the last one), or its name.
        Labels may be numbers or any text.
    separator : str, optional
        What separates cells: one character, or its name (comma, semicolon, tab, space); by default that
        of comma, semicolon and tab which makes most numbers of the first lines.
    decimal : str
        The decimal mark, ``"."`` or ``","``.
    categorical : "all" or sequence of int and str
        Columns of text, by place or name, each text of which becomes a feature; all that hold more texts
        than numbers. By default a text is an error.
    impute : {"median", "most-frequent"}, optional
        What fills missing values (empty cells, NA, N/A, NaN, null, ?). By default one is an error.

    Returns
    -------
    Dataset
        ``X`` is a dense float64 array, or one of objects where there are texts; with texts or
        ``impute`` the set has a ``preparation`` that makes numbers of it. ``y`` holds int64 where all
        labels are plain whole numbers, and the texts of the file otherwise.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    DataFileError
        When a line is broken (too many or too few cells, a feature that is not a finite number, an
        empty label); the message has file name, line number and what is wrong.
    ValueError
        When ``target`` or ``categorical`` names no column, or an option has no such value.
    """
    found = read_table(
        path, target, separator=separator, decimal=decimal, categorical=categorical, fill=impute is not None
    )
    if impute not in (None, "median", "most-frequent"):
        raise ValueError(f"impute must be 'median' or 'most-frequent', not {impute!r}")
    source, layout, cells = found
    if isinstance(target, int):
        _check_header(source, layout, cells)
    y = labels_of_text(cells.labels)
    if y.dtype.kind == "U" and (pairs := alike(cells.labels)):
        one, other = pairs[0]
        more = f", as {len(pairs) - 1} more" if len(pairs) > 1 else ""
        warnings.warn(
            f"{source.path}: the labels {one!a} and {other!a} are two classes{more}, but may be meant as "
            "one; if they are, write them alike",
            stacklevel=2,
        )
    return Dataset(
        source.name,
        cells.X,
        y,
        target_names=label_names(y),
        feature_names=layout.names,
        description=f"Read from the table {source.name}.",
        preparation=table_preparation(len(layout.features), cells.text, impute),
        target=layout.target_name,
    )


def read_table(
    path: str | Path | Source,
    target: int | str | None = None,
    *,
    separator: str | None = None,
    decimal: str = ".",
    categorical: Literal["all"] | Sequence[int | str] = (),
    fill: bool = False,
    header: bool | None = None,
    is_new: bool = False,
) -> Table:
    """Read a table with or without labels, as :func:`read_csv` does, and make no data set of it.

    Parameters
    ----------
    path : str, Path or Source
        The file.
    target : int, str or None
        The label column; None where there is none.
    separator, decimal, categorical
        As there.
    fill : bool
        Whether values may be missing.
    header : bool, optional
        Whether the first row is one; by default as there.
    is_new : bool
        Whether a fitted model reads the table: then a column may be all gaps.

    Raises
    ------
    DataFileError
        As there.
    ValueError
        As there.
    """
    if decimal not in (".", ","):
        raise ValueError(f"decimal must be '.' or ',', not {decimal!r}")
    source = open_source(path)
    mark = separator_of(source, separator)
    if mark == decimal:
        raise ValueError(f"separator and decimal are both {decimal!r} in {source.path}")
    layout = find_layout(source, target, mark, decimal, header)
    text = _text_columns(source, layout, categorical)
    _check_size(source, layout)
    cells = None if text else _read_fast(source, layout)
    cells = cells or read_cells(source, layout, text, fill, is_new)
    if len(cells.X) == 0:
        raise DataFileError(source.path, f"holds a header and no rows{text_kind(source)}")
    return Table(source, layout, cells)


def _check_header(source: Source, layout: Layout, cells: Cells) -> None:
    """Refuse a first row that was taken for a header and is none, or the other way round.

    DataFileError: when the header's label is a label of other rows too, and no column has numbers; or when
        the first row's label is the only one that is no number.
    """
    labels, is_text = cells.labels, len(cells.text) == len(layout.features)
    if is_text and layout.header is not None and layout.target is not None:
        name = layout.header[layout.target]
        if name in labels:
            raise DataFileError(
                source.path,
                f"was taken for a header, as no feature in it is a number, but {quoted(name)} is a label of "
                "other lines too; put a line with the columns' names first",
                layout.header_end,
            )
    first, others = labels[0], set(labels[1:])
    if layout.header is not None or not others or first in others or is_number(first, "."):
        return
    line = next(records(source, layout.separator))[0]
    if all(is_number(label, ".") for label in others):
        raise DataFileError(
            source.path,
            f"the label {quoted(first)} is the only one that is no number; if this line is a header, name "
            "the column of the labels (option target)",
            line,
        )
    if Counter(labels).most_common()[-2][1] > 1:
        warnings.warn(
            f"{source.path}, line {line}: no other line has the label {quoted(first)}; if this line is a "
            "header, name the column of the labels (option target)",
            stacklevel=2,
        )


def _text_columns(
    source: Source, layout: Layout, categorical: Literal["all"] | Sequence[int | str]
) -> set[int] | None:
    """Places of the named columns among the features; None for all that turn out to hold text."""
    if categorical == "all":
        return None
    found = set()
    for one in categorical:
        names = layout.header or []
        place = names.index(one) if isinstance(one, str) and one in names else one
        if not isinstance(place, int) or not 0 <= place < layout.width or place == layout.target:
            having = f"it has {', '.join(layout.names)}" if layout.names else f"it has {layout.width}, from 0"
            raise ValueError(f"categorical={one!r} is not a feature column of {source.path}; {having}")
        found.add(layout.features.index(place))
    return found


def _check_size(source: Source, layout: Layout) -> None:
    """Refuse a table whose numbers would not fit in memory, before it is read."""
    beginning = source.beginning().encode()
    rows = source.size * max(beginning.count(b"\n"), 1) / max(len(beginning), 1)
    need = 2 * 8 * rows * layout.width  # the numbers are copied once while a table is read
    if need > memory():
        raise DataFileError(
            source.path,
            f"has about {rows:,.0f} rows of {layout.width:,} columns, and takes {need / 1e9:.1f} GB to read; "
            f"this machine has {memory() / 1e9:.1f} GB. Take a part of the rows, or the svmlight format",
        )


class Cells(NamedTuple):
    """A table as it was read: X (n, m) of float64 or, with texts, of objects; the labels' cells."""

    X: NDArray[Any]
    labels: list[str]
    text: tuple[int, ...] = ()


def _read_fast(source: Source, layout: Layout, min_bytes: int = _MIN_BYTES) -> Cells | None:
    """What pandas reads, or ``None`` when that takes longer, or may not be what the file says."""
    if source.size < min_bytes:
        return None
    if layout.width > _MAX_COLUMNS and source.size < _MIN_COLUMN_BYTES * layout.width:
        return None
    if not is_well_quoted(source, layout.separator):
        return None  # pandas would read "1"2 as 12
    rows = (cells for _, end, cells in records(source, layout.separator) if end > layout.header_end)
    first = next(rows, [])
    if len(first) != layout.width or not all(is_number(first[i], layout.decimal) for i in layout.features):
        return None  # pandas would read a column of True and False as 1 and 0
    import pandas as pd

    kinds = dict.fromkeys(range(layout.width), "float64")  # a whole -0 would become 0
    options: dict[str, Any] = {}
    if layout.target is not None:
        kinds[layout.target] = "str"
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # exact; from 3.1 on the only way, and not to be asked for
    try:
        with source.open() as stream:
            stream.seek(_first_byte(source, layout))
            frame = pd.read_csv(
                stream,
                header=None,
                keep_default_na=False,
                encoding="utf-8",
                low_memory=False,
                sep=layout.separator,
                decimal=layout.decimal,
                dtype=kinds,
                **options,
            )
    except ValueError:  # pandas' own errors and undecodable bytes are ValueErrors
        return None
    if frame.shape[1] != layout.width:
        return None
    cells: list[str] = []
    if layout.target is not None:
        labels = frame[layout.target]
        frame = frame.drop(columns=[layout.target])
        if labels.isna().any():
            return None
        cells = [label.strip() for label in labels]
    X = frame.to_numpy(dtype=np.float64)
    if not np.isfinite(X).all() or any(cell.lower() in _NO_LABEL or "\0" in cell for cell in set(cells)):
        return None
    return Cells(np.ascontiguousarray(X), cells)


def _first_byte(source: Source, layout: Layout) -> int:
    """Where the first row begins, after the header and a byte order mark.

    pandas counts lines otherwise: a header over several lines as one, and a blank line that ends with a
    carriage return not at all.
    """
    with source.open() as stream:
        mark = 3 if stream.read(3) == b"\xef\xbb\xbf" else 0
    with source.text() as text:
        return mark + sum(len(line.encode()) for line in islice(text, layout.header_end))


class _Column(NamedTuple):
    """A column's numbers (NaN where there are none), its rows that are gaps or broken, and its texts."""

    values: NDArray[np.float64]
    gaps: list[int]
    broken: dict[int, str]
    texts: int

    @property
    def is_text(self) -> bool:
        """Whether at least half of what is there is no number."""
        return 2 * self.texts >= max(len(self.values) - len(self.gaps), 1)


def read_cells(
    source: Source, layout: Layout, text: set[int] | None, fill: bool, is_new: bool = False
) -> Cells:
    """Every cell, or the first line that is broken.

    text: places, among the features, of those that hold text; None for all whose cells are mostly no numbers.
    fill: whether cells may be missing.
    is_new: whether a fitted model reads the table: nothing is learnt from it, and no option helps.
    """
    lines, rows, labels = _rows(source, layout)
    columns = [_column([row[i] for row in rows], layout.decimal) for i in layout.features]
    chosen = {k for k, column in enumerate(columns) if column.is_text} if text is None else text
    _refuse_broken(source, layout, columns, chosen, lines, fill, is_new)
    if not chosen:
        X = np.column_stack([column.values for column in columns]) if columns else np.empty((len(rows), 0))
        return Cells(X, labels)
    X = np.empty((len(rows), len(columns)), dtype=object)
    for k, (i, column) in enumerate(zip(layout.features, columns, strict=True)):
        if k not in chosen:
            X[:, k] = column.values
            continue
        cells = [row[i] for row in rows]
        if text is None and (found := len(set(cells))) > _MAX_TEXTS:
            raise DataFileError(
                source.path,
                f"{layout.column(i)} holds {found:,} different texts, each of which would be a feature of "
                f"{len(rows):,} numbers; leave it out, or name it to insist (option categorical)",
            )
        X[:, k] = cells
        X[column.gaps, k] = None
    return Cells(X, labels, tuple(sorted(chosen)))


def _rows(source: Source, layout: Layout) -> tuple[list[int], list[list[str]], list[str]]:
    lines: list[int] = []
    rows: list[list[str]] = []
    labels: list[str] = []
    for line, end, cells in records(source, layout.separator):
        if end <= layout.header_end:
            continue
        if len(cells) != layout.width:
            plural = "s" if len(cells) != 1 else ""
            raise DataFileError(
                source.path, f"has {len(cells)} cell{plural} where {layout.width} are expected", line
            )
        if layout.target is not None:
            label = cells[layout.target]
            if label.lower() in _NO_LABEL:
                raise DataFileError(
                    source.path, f"the label ({layout.column(layout.target)}) is missing", line
                )
            if "\0" in label:
                raise DataFileError(source.path, f"the label {quoted(label)} holds a NUL character", line)
            labels.append(label)
        lines.append(line)
        rows.append(cells)
    return lines, rows, labels


def _column(cells: list[str], decimal: str) -> _Column:
    values = np.full(len(cells), np.nan)
    gaps: list[int] = []
    broken: dict[int, str] = {}
    texts = 0
    for i, cell in enumerate(cells):
        try:
            values[i] = number_of(cell, decimal)
        except ValueError as error:
            if cell.lower() in _MISSING:
                gaps.append(i)
            else:
                broken[i] = str(error)
                texts += not is_like_number(cell)
    return _Column(values, gaps, broken, texts)


def _refuse_broken(
    source: Source, layout: Layout, columns: list[_Column], text: set[int], lines: list[int], fill: bool,
    is_new: bool,
) -> None:  # fmt: skip
    """Name the first cell that cannot be used, and say what else there is of its kind."""
    numbers = {k: column for k, column in enumerate(columns) if k not in text}
    problems = [(row, k) for k, column in numbers.items() for row in column.broken]
    if not fill:
        problems += [(row, k) for k, column in enumerate(columns) for row in column.gaps]
    if not problems:
        empty = [k for k, column in enumerate(columns) if len(lines) and len(column.gaps) == len(lines)]
        if empty and not is_new:
            name = layout.column(layout.features[empty[0]])
            raise DataFileError(source.path, f"{name} holds no value at all, from which to impute")
        return
    row, k = min(problems)
    column, place = columns[k], layout.column(layout.features[k])
    if row in column.broken:
        also = [layout.column(layout.features[k]) for k, column in numbers.items() if column.is_text]
        hint = _hint(layout, column.broken[row], [] if is_new else also, is_new)
        raise DataFileError(source.path, f"{place}: {column.broken[row]}{hint}", lines[row])
    rows = sorted({lines[row] for column in columns for row in column.gaps})
    where = [layout.column(layout.features[k]) for k, column in enumerate(columns) if column.gaps]
    cell = _gap(source, layout, k, lines[row])
    plural = "s" if len(rows) > 1 else ""
    way = f"{_FILLING} them"
    if is_new:
        way = "the model fills none, as it was fitted without impute"
    raise DataFileError(
        source.path,
        f"{place}: {cell}; missing values in {len(rows)} row{plural} (line{plural} "
        f"{_listed([str(line) for line in rows])}), {_listed(where)} ({way})",
        lines[row],
    )


def _hint(layout: Layout, message: str, texts: list[str], is_new: bool) -> str:
    """What may help where a cell is no number; ``texts`` are the columns with more texts than numbers."""
    if not message.endswith(("is not a number", "with a decimal ','")):
        return ""
    if layout.decimal == "." and _with_comma(message):
        return "; a decimal comma (option decimal)?"
    if texts:
        label = " or, of the labels, target" if len(texts) == 1 and layout.target is not None else ""
        return f"; of text: {_listed(texts)} (option categorical{label})"
    if is_new or any(char.isdigit() for char in message):
        return ""
    return f"; a missing value is an empty cell, NA, N/A, NaN, null or ? ({_FILLING} it)"


def _with_comma(message: str) -> bool:
    """Whether the cell that a message quotes would be a number with a decimal comma."""
    try:
        number_of(message.split("'")[1], ",")
    except (IndexError, ValueError):
        return False
    return True


def _gap(source: Source, layout: Layout, k: int, line: int) -> str:
    """What a gap's cell holds, as a sentence fragment."""
    cells = next(cells for first, _, cells in records(source, layout.separator) if first == line)
    try:
        number_of(cells[layout.features[k]], layout.decimal)
    except ValueError as error:
        return f"the cell {error}" if str(error).startswith("is ") else str(error)
    return "the cell is empty"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
