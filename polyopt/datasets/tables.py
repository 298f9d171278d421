"""Tables of text: numbers and labels as texts, the layout of a table, and its cells.

numpy reads a table of finite numbers and labels alone. Any other is read cell by cell, which finds texts and
missing values, or the first broken line.
"""

import csv
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from polyopt.base.text import first_of
from polyopt.datasets.dataset import Dataset, Labels
from polyopt.datasets.preparation import Impute, table_preparation
from polyopt.datasets.source import DataFileError, Source, kind_of, memory, open_source, text_kind

# float() would also take "1_000", "nan" and digits of other scripts.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = ("nan", "inf", "infinity")  # in small letters and without sign
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,99})", re.ASCII)  # more digits are no number that anything holds
_LIMITS = np.iinfo(np.int64)
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " ", r"\t": "\t"}
_SNIFFED = (",", ";", "\t")  # the first wins a tie
_NO_LABEL = ("", "nan")  # in small letters
_MISSING = ("", "na", "nan", "n/a", "#n/a", "<na>", "null", "?")  # in small letters
_MAX_TEXTS = 1000  # different texts of a column that is not named: more are an identifier
# Words to type, in Python and on the command line.
_FILLING = "impute='median', or --impute median on the command line, fills"


# -- numbers and labels -------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Quote a text for a message: a long one by its beginning."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}..."


def is_like_number(text: str) -> bool:
    """True if a text spells a number, even one that no float holds."""
    return _NUMBER.fullmatch(text) is not None or text.strip("+-").lower() in _NOT_FINITE


def finite_number(text: str) -> float:
    """Return the finite number that a text spells; a ValueError's message ends a sentence on the text."""
    if not text:
        raise ValueError("is empty")
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not {'finite' if is_like_number(text) else 'a number'}")
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{quoted(text)} is too large for a float")
    return value


def label_names(y: Labels) -> tuple[str, ...]:
    """Return the labels themselves as names, for files without names."""
    return tuple(str(label) for label in np.unique(y))


def labels_of_text(cells: list[str]) -> Labels:
    """Return labels of a table: int64 if all are plain, different whole numbers, else texts.

    ``-1`` and ``+1`` are numbers. If a file holds ``001``, ``1.0`` or ``-0``, all its labels stay texts.
    """
    different = set(cells)
    if all(_WHOLE.fullmatch(cell) and cell != "-0" for cell in different):
        numbers = {cell: int(cell) for cell in different}
        if len(set(numbers.values())) == len(different) and all(map(_fits, numbers.values())):
            return np.array([numbers[cell] for cell in cells], dtype=np.int64)
    return np.array(cells, dtype=str)


def alike(cells: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different labels that may be the same: one number, or one word in two cases."""
    first: dict[Decimal | str, str] = {}
    pairs = []
    for cell in sorted(set(cells)):
        key: Decimal | str = " ".join(normalize("NFKC", cell).casefold().split())
        if len(cell) < 50 and _NUMBER.fullmatch(cell):
            key = Decimal(cell)
        pairs += [(first[key], cell)] if key in first else []
        first.setdefault(key, cell)
    return pairs


def _fits(number: int) -> bool:
    return _LIMITS.min <= number <= _LIMITS.max


def as_known(labels: Labels, known: Labels) -> Labels:
    """Return labels of a file, replaced by a model's known labels of the same meaning.

    The number 1 of one file is the text ``1`` of another that has labels besides numbers.
    """
    if labels.dtype.kind == known.dtype.kind or {labels.dtype.kind, known.dtype.kind} <= set("iuf"):
        return labels
    same = {_plain(str(label)): label for label in known.tolist()} | {str(x): x for x in known.tolist()}
    return np.array([same.get(str(x), same.get(_plain(str(x)), x)) for x in labels.tolist()], dtype=object)


def _plain(text: str) -> str:
    """Return a whole number without its plus and its fraction, and any other text as it is."""
    if _WHOLE.fullmatch(text):
        return str(int(text))
    return str(int(float(text))) if _NUMBER.fullmatch(text) and float(text).is_integer() else text


# -- the layout of a table ----------------------------------------------------------------------------


class Layout(NamedTuple):
    """The layout of a table."""

    #: header, header_end: names of all columns, if the first row has them, and its last line number.
    header: list[str] | None
    header_end: int
    width: int  #: number of columns
    target: int | None  #: place of the label column, if there is one
    #: separator, decimal: separator of cells, and decimal mark.
    separator: str
    decimal: str

    def column(self, i: int) -> str:
        """Name a column for messages."""
        return f"column {i + 1}" if self.header is None else f"column {self.header[i]!r}"

    @property
    def features(self) -> list[int]:
        """Places of the feature columns."""
        return [i for i in range(self.width) if i != self.target]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        return None if self.header is None else tuple(self.header[i] for i in self.features)

    @property
    def target_name(self) -> str | int | None:
        """Name of the label column or, without a header, its place."""
        if self.target is None or self.header is None:
            return self.target
        return self.header[self.target]


def separator_of(source: Source, given: str | None) -> str:
    """Return the separator: the given one or, by default, the one with most numbers in the first lines."""
    if given is not None:
        separator = SEPARATORS.get(given, given)
        if len(separator) != 1 or separator in '\r\n"':
            raise ValueError(
                f"separator must be one character, or {', '.join(list(SEPARATORS)[:4])}; not {given!r}"
            )
        return separator
    lines = [line for line in source.beginning().splitlines() if line.strip()][:20]

    def score(separator: str) -> tuple[int, int, int]:
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            rows = [line.split(separator) for line in lines]
        if not rows or len(rows[0]) < 2:
            return 0, 0, 0
        marks = ".," if separator != "," else "."
        numbers = sum(any(is_number(cell.strip(), mark) for mark in marks) for row in rows for cell in row)
        return numbers, sum(len(row) == len(rows[0]) for row in rows), len(rows[0])

    return max(_SNIFFED, key=score)


def first_cells(source: Source, separator: str | None = None) -> list[str]:
    """Return the cells of the first row that is not blank, if any; `separator` as in :func:`read_csv`."""
    return next(records(source, separator_of(source, separator)), (0, 0, []))[2]


def records(source: Source, separator: str) -> Iterator[tuple[int, int, list[str]]]:
    """Yield first and last line number, and stripped cells, of every row that is not blank."""
    with source.text() as stream:
        reader = csv.reader(stream, strict=True, delimiter=separator)
        previous = 0
        try:
            for row in reader:
                first, previous = previous + 1, reader.line_num
                cells = list(map(str.strip, row))
                if cells not in ([], [""]):
                    yield first, previous, cells
        except csv.Error as error:
            kind = text_kind(source) if previous == 0 else ""
            raise DataFileError(source.path, f"{error}{kind}", previous + 1) from error
        except UnicodeDecodeError as error:
            raise DataFileError(source.path, kind_of(source), _first_undecodable(source)) from error


def _first_undecodable(source: Source) -> int | None:
    with source.open() as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def is_number(cell: str, decimal: str) -> bool:
    """True if a cell, without blanks around it, spells a finite number with this decimal mark."""
    try:
        number_of(cell, decimal)
    except ValueError:
        return False
    return True


def number_of(cell: str, decimal: str) -> float:
    """Return the number that a cell spells; a ValueError as of :func:`finite_number`."""
    if decimal == ".":
        return finite_number(cell)
    if "." in cell:
        raise ValueError(f"{cell!r} is not a number with a decimal {decimal!r}")
    return finite_number(cell.replace(decimal, ".", 1))


def find_layout(
    source: Source, target: int | str | None, separator: str, decimal: str, header: bool | None = None
) -> Layout:
    """Return the layout by the first row, which by default is a header if no feature cell is a number.

    `target` is the label's place or name, None if there is no label; ValueError if it names no column.
    """
    line, end, cells = next(records(source, separator), (0, 0, []))
    if not cells:
        raise DataFileError(source.path, "is empty")
    if len(cells) < 2 and target is not None:
        raise DataFileError(
            source.path,
            "has one column; features and a label, separated by commas, semicolons or tabs, are expected "
            "(option separator); rows of label index:value are read from a file named .svm"
            f"{text_kind(source)}",
            line,
        )
    place = _place(source, target, cells)
    others = [cell for i, cell in enumerate(cells) if i != place]
    if header is None:
        header = isinstance(target, str) or not any(is_number(cell, decimal) for cell in others)
    if not header:
        return Layout(None, line - 1, len(cells), place, separator, decimal)
    seen: set[str] = set()
    for i, cell in enumerate(cells):
        if not cell:
            why = (
                "a separator at the end of the line"
                if i + 1 == len(cells)
                else "a row index, saved with the table"
            )
            raise DataFileError(source.path, f"column {i + 1} has no name ({why}?)", line)
        if cell in seen:
            raise DataFileError(source.path, f"two columns are named {cell!r}", line)
        seen.add(cell)
    return Layout(cells, end, len(cells), place, separator, decimal)


def _place(source: Source, target: int | str | None, cells: list[str]) -> int | None:
    if target is None:
        return None
    if isinstance(target, str):
        if target not in cells:
            raise ValueError(f"target={target!r} is not a column of {source.path}; the first row is {cells}")
        return cells.index(target)
    if not -len(cells) <= target < len(cells):
        raise ValueError(
            f"target={target!r} is not a column of {source.path}: it has {len(cells)}, counted from 0"
        )
    return target % len(cells)


# -- reading ------------------------------------------------------------------------------------------


class Table(NamedTuple):
    """A table as read: features X (n, m), float64 or, with texts, objects, and the labels' cells."""

    source: Source
    layout: Layout
    X: NDArray[Any]
    labels: list[str]
    text: tuple[int, ...] = ()  #: places of the columns of texts among the features


def read_csv(
    path: str | Path | Source, target: int | str = -1, *, separator: str | None = None, decimal: str = ".",
    categorical: Literal["all"] | Sequence[int | str] = (), impute: Impute | None = None,
) -> Dataset:  # fmt: skip
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
        Columns of text, by place or name, whose texts become features; all that hold more texts than
        numbers. By default a text is an error.
    impute : {"median", "most-frequent"}, optional
        What fills missing values (empty cells, NA, N/A, NaN, null, ?). By default one is an error.

    Returns
    -------
    Dataset
        ``X`` is a dense float64 array, or one of objects if there are texts; with texts or ``impute`` the
        set has a ``preparation`` that makes numbers of it. ``y`` is int64 if all labels are plain whole
        numbers, else the texts of the file. A broken line raises DataFileError, which names it.
    """
    if impute not in (None, "median", "most-frequent"):
        raise ValueError(f"impute must be 'median' or 'most-frequent', not {impute!r}")
    table = read_table(
        path, target, separator=separator, decimal=decimal, categorical=categorical, fill=impute is not None
    )
    if isinstance(target, int):
        _check_header(table)
    y = labels_of_text(table.labels)
    if y.dtype.kind == "U" and (pairs := alike(table.labels)):
        label, other = pairs[0]
        more = f", as {len(pairs) - 1} more" if len(pairs) > 1 else ""
        warnings.warn(
            f"{table.source.path}: the labels {label!a} and {other!a} are two classes{more}, but may be "
            "meant as one; if they are, write them alike",
            stacklevel=2,
        )
    layout, name = table.layout, table.source.name
    return Dataset(
        name, table.X, y, label_names(y), layout.names, f"Read from the table {name}.",
        preparation=table_preparation(len(layout.features), table.text, impute), target=layout.target_name,
    )  # fmt: skip


def read_table(
    path: str | Path | Source, target: int | str | None = None, *, separator: str | None = None,
    decimal: str = ".", categorical: Literal["all"] | Sequence[int | str] = (), fill: bool = False,
    header: bool | None = None, is_new: bool = False,
) -> Table:  # fmt: skip
    """Read a table with or without labels.

    Arguments as in :func:`read_csv`. `target` is None if there is no label. If `fill`, values may be missing;
    `header` is True if the first row is one; `is_new` is True if a fitted model reads the table, which may
    then have columns without any value.
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
    if not text and (numeric := _numeric_table(source, layout)) is not None:
        return numeric
    rows = list(_rows(source, layout))
    if not rows:
        raise DataFileError(source.path, f"holds a header and no rows{text_kind(source)}")
    lines, cells = [line for line, _ in rows], list(zip(*(row for _, row in rows), strict=True))
    columns = [_column(cells[i], decimal) for i in layout.features]
    chosen = {k for k, column in enumerate(columns) if column.is_text} if text is None else text
    _refuse_broken(source, layout, columns, chosen, lines, fill, is_new)
    X = np.empty((len(lines), len(columns)), dtype=object if chosen else np.float64)
    for k, column in enumerate(columns):
        if k in chosen and text is None and (n_texts := len(set(column.cells))) > _MAX_TEXTS:
            raise DataFileError(
                source.path,
                f"{layout.column(layout.features[k])} holds {n_texts:,} different texts, each of which would "
                f"be a feature of {len(lines):,} numbers; leave it out, or name it to insist (option "
                "categorical)",
            )
        X[:, k] = column.cells if k in chosen else column.values
        if k in chosen:
            X[list(column.gaps), k] = None
    labels = [] if layout.target is None else list(cells[layout.target])
    return Table(source, layout, X, labels, tuple(sorted(chosen)))


def _numeric_table(source: Source, layout: Layout) -> Table | None:
    """Read a table of finite numbers and labels by numpy; None if anything else is in it."""
    labels: list[str] = []

    def keep_label(cell: str) -> float:
        label = cell.strip() if layout.decimal == "." else cell.strip().replace(".", ",")
        if label.lower() in _NO_LABEL or '"' in label or "\0" in label:
            raise ValueError("not a plain label")
        labels.append(label)
        return 0.0

    def with_points(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            if "." in line:
                raise ValueError("not a decimal mark")
            yield line.replace(",", ".")

    try:
        with source.text() as stream, warnings.catch_warnings(action="error"):
            lines = islice(stream, layout.header_end, None)
            rows = np.loadtxt(
                lines if layout.decimal == "." else with_points(lines), delimiter=layout.separator,
                comments=None, converters=None if layout.target is None else {layout.target: keep_label},
                ndmin=2, encoding="utf-8",
            )  # fmt: skip
    except (ValueError, UserWarning):  # a ValueError also for bytes that are not UTF-8
        return None
    if rows.shape[1] != layout.width or not np.isfinite(rows).all():
        return None
    return Table(source, layout, np.ascontiguousarray(rows[:, layout.features]), labels)


def _check_header(table: Table) -> None:
    """Refuse a first row that was wrongly read as a header, or as a sample.

    It is no header if its label is a label of other rows too and no column has numbers. It is a header if its
    label is the only one that is not a number.
    """
    source, layout, labels = table.source, table.layout, table.labels
    is_text = len(table.text) == len(layout.features)
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
    """Return the places of the `categorical` columns among the features; None for all that hold text."""
    if categorical == "all":
        return None
    places, names = set(), layout.header or []
    for column in categorical:
        place = names.index(column) if isinstance(column, str) and column in names else column
        if not isinstance(place, int) or not 0 <= place < layout.width or place == layout.target:
            known = ", ".join(layout.names) if layout.names else f"{layout.width}, from 0"
            raise ValueError(
                f"categorical={column!r} is not a feature column of {source.path}; it has {known}"
            )
        places.add(layout.features.index(place))
    return places


def _check_size(source: Source, layout: Layout) -> None:
    """Refuse a table whose numbers would not fit in memory, before it is read."""
    beginning = source.beginning().encode()
    rows = source.size * max(beginning.count(b"\n"), 1) / max(len(beginning), 1)
    n_bytes = 2 * 8 * rows * layout.width  # the numbers are copied once while a table is read
    if n_bytes > memory():
        raise DataFileError(
            source.path,
            f"has about {rows:,.0f} rows of {layout.width:,} columns, and takes {n_bytes / 1e9:.1f} GB to "
            f"read; this machine has {memory() / 1e9:.1f} GB. Take some of the rows, or the svmlight format",
        )


class _Column(NamedTuple):
    """A column of features."""

    cells: Sequence[str]
    values: NDArray[np.float64]  # numbers of the cells, NaN for other cells
    #: gaps, broken: missing cells, and cells that are neither numbers nor missing, by row.
    gaps: dict[int, str]
    broken: dict[int, str]

    @property
    def is_text(self) -> bool:
        """True if at least half of the cells with a value are texts."""
        n_texts = sum(not is_like_number(cell) for cell in self.broken.values())
        return 2 * n_texts >= max(len(self.cells) - len(self.gaps), 1)


def _column(cells: Sequence[str], decimal: str) -> _Column:
    column = _Column(cells, np.full(len(cells), np.nan), {}, {})
    for i, cell in enumerate(cells):
        try:
            column.values[i] = number_of(cell, decimal)
        except ValueError:
            (column.gaps if cell.lower() in _MISSING else column.broken)[i] = cell
    return column


def _rows(source: Source, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of every row; DataFileError for one of another width, or without a label."""
    for line, end, cells in records(source, layout.separator):
        if end <= layout.header_end:
            continue
        if len(cells) != layout.width:
            plural = "s" if len(cells) != 1 else ""
            raise DataFileError(
                source.path, f"has {len(cells)} cell{plural} where {layout.width} are expected", line
            )
        label = "" if layout.target is None else cells[layout.target]
        if layout.target is not None and label.lower() in _NO_LABEL:
            raise DataFileError(source.path, f"the label ({layout.column(layout.target)}) is missing", line)
        if "\0" in label:
            raise DataFileError(source.path, f"the label {quoted(label)} holds a NUL character", line)
        yield line, cells


def _refuse_broken(
    source: Source, layout: Layout, columns: list[_Column], text: set[int], lines: list[int],
    fill: bool, is_new: bool,
) -> None:  # fmt: skip
    """Raise DataFileError for the first cell that cannot be used, with the other cells of its kind."""
    numbers = {k: column for k, column in enumerate(columns) if k not in text}
    problems = [(row, k) for k, column in numbers.items() for row in column.broken]
    if not fill:
        problems += [(row, k) for k, column in enumerate(columns) for row in column.gaps]
    if not problems:
        empty = [k for k, column in enumerate(columns) if len(column.gaps) == len(lines)]
        if empty and not is_new:
            name = layout.column(layout.features[empty[0]])
            raise DataFileError(source.path, f"{name} holds no value at all, from which to impute")
        return
    row, k = min(problems)
    place = layout.column(layout.features[k])
    if (cell := columns[k].broken.get(row)) is not None:
        also = [layout.column(layout.features[k]) for k, column in numbers.items() if column.is_text]
        try:
            number_of(cell, layout.decimal)
        except ValueError as error:
            hint = _hint(layout, cell, str(error), [] if is_new else also, is_new)
            raise DataFileError(source.path, f"{place}: {error}{hint}", lines[row]) from None
    cell = columns[k].gaps[row]
    gaps = sorted({lines[row] for column in columns for row in column.gaps})
    where = [layout.column(layout.features[k]) for k, column in enumerate(columns) if column.gaps]
    plural = "s" if len(gaps) > 1 else ""
    way = "the model fills none, as it was fitted without impute" if is_new else f"{_FILLING} them"
    kind = "finite" if is_like_number(cell) else "a number"
    what = f"{quoted(cell)} is not {kind}" if cell else "the cell is empty"
    raise DataFileError(
        source.path,
        f"{place}: {what}; missing values in {len(gaps)} row{plural} (line{plural} "
        f"{first_of([str(line) for line in gaps], 5)}), {first_of(where, 5)} ({way})",
        lines[row],
    )


def _hint(layout: Layout, cell: str, message: str, texts: list[str], is_new: bool) -> str:
    """Suggest a remedy for a cell that is no number; `texts` are the columns of more texts than numbers."""
    if not message.endswith(("is not a number", "with a decimal ','")):
        return ""
    if layout.decimal == "." and is_number(cell, ","):
        return "; a decimal comma (option decimal)?"
    if texts:
        label = " or, of the labels, target" if len(texts) == 1 and layout.target is not None else ""
        return f"; of text: {first_of(texts, 5)} (option categorical{label})"
    if is_new or any(char.isdigit() for char in cell):
        return ""
    return f"; a missing value is an empty cell, NA, N/A, NaN, null or ? ({_FILLING} it)"
