"""The careful reader of tables: it names each broken line, and takes texts and gaps where asked to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyopt.datasets._errors import DataFileError
from polyopt.datasets._layout import Layout, number_of, records
from polyopt.datasets._source import Source
from polyopt.datasets._textfile import is_like_number, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_LABEL = ("", "nan")
MISSING = ("", "na", "nan", "n/a", "#n/a", "<na>", "null", "?")  # in small letters
_MOST_TEXTS = 1000  # of a column that nobody named: more are an identifier rather than a category
_SHOWN = 5  # names or lines in a message
# The words to type, in Python and on the command line.
_FILLING = "impute='median', or --impute median on the command line, fills"


class Cells(NamedTuple):
    """A table as it was read: X (n, m) of float64 or, with texts, of objects; the labels' cells."""

    X: NDArray[Any]
    labels: list[str]
    text: tuple[int, ...] = ()


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

    source: the table.
    layout: its columns.
    text: places, among the features, of those that hold text; None for all whose cells are mostly no numbers.
    fill: whether cells may be missing.
    is_new: whether a fitted model reads the table: nothing is learnt from it, and no option helps.
    DataFileError: when a line is broken.
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
        if text is None and (found := len(set(cells))) > _MOST_TEXTS:
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
            if label.lower() in NO_LABEL:
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
            if cell.lower() in MISSING:
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
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
