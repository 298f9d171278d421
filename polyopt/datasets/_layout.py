"""How a table of text is laid out: what separates its cells, whether it has a header, where the label is."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from polyopt.datasets._errors import DataFileError
from polyopt.datasets._labels import finite_number
from polyopt.datasets._source import Source, kind_of, text_kind

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " ", r"\t": "\t"}
_SNIFFED = (",", ";", "\t")  # the first wins a tie
_SEPARATOR_LINE = re.compile(r'"?sep=([^\w\s"]|\t)"?(\r\n|\n|\r)', re.ASCII | re.IGNORECASE)


class Layout(NamedTuple):
    """What the first row tells, and how the cells are written."""

    header: list[str] | None
    header_end: int
    width: int
    target: int | None
    separator: str
    decimal: str

    def column(self, i: int) -> str:
        """A column as messages call it."""
        return f"column {i + 1}" if self.header is None else f"column {self.header[i]!r}"

    @property
    def features(self) -> list[int]:
        """Places of the columns that are features."""
        return [i for i in range(self.width) if i != self.target]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the features."""
        return None if self.header is None else tuple(self.header[i] for i in self.features)

    @property
    def target_name(self) -> str | int | None:
        """The label's column: its name where there is one, else its place."""
        if self.target is None or self.header is None:
            return self.target
        return self.header[self.target]


def separator_of(source: Source, given: str | None) -> str:
    """What separates cells: what was given, or else what makes most numbers of the first lines.

    ValueError: when what was given is not one character, nor the name of one.
    """
    if given is not None:
        found = SEPARATORS.get(given, given)
        if len(found) != 1 or found in '\r\n"':
            raise ValueError(
                f"separator must be one character, or {', '.join(list(SEPARATORS)[:4])}; not {given!r}"
            )
        return found
    told = _separator_line(source)
    if told is not None:
        return told
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


def _separator_line(source: Source) -> str | None:
    """The separator that a spreadsheet has written in a first line such as ``sep=;``; None without one."""
    with source.text() as stream:
        try:
            found = _SEPARATOR_LINE.fullmatch(stream.readline(16))
        except UnicodeDecodeError:
            return None
    return None if found is None else found[1]


def first_cells(source: Source, separator: str | None = None) -> list[str]:
    """Cells of the first row that is not blank; none where there is no such row.

    Parameters
    ----------
    source : Source
        The table.
    separator : str, optional
        As in :func:`polyopt.datasets.read_csv`.

    Raises
    ------
    DataFileError
        When the row is broken.
    """
    return next(records(source, separator_of(source, separator)), (0, 0, []))[2]


def records(source: Source, separator: str) -> Iterator[tuple[int, int, list[str]]]:
    """First and last line number, and stripped cells, of every row that is not blank."""
    skipped = int(_separator_line(source) is not None)
    with source.text() as stream:
        reader = csv.reader(islice(stream, skipped, None), strict=True, delimiter=separator)
        previous = skipped
        try:
            for row in reader:
                first, previous = previous + 1, reader.line_num + skipped
                cells = [cell.strip() for cell in row]
                if cells not in ([], [""]):
                    yield first, previous, cells
        except csv.Error as error:
            kind = text_kind(source) if previous == skipped else ""
            raise DataFileError(source.path, f"{error}{kind}", previous + 1) from error
        except UnicodeDecodeError as error:
            raise DataFileError(source.path, kind_of(source), _first_undecodable(source)) from error


def is_well_quoted(source: Source, separator: str) -> bool:
    """Whether every quoted cell ends where its quotes do."""
    with source.open() as stream:
        if not any(b'"' in block for block in iter(lambda: stream.read(1 << 20), b"")):
            return True
    with source.text() as stream:
        try:
            deque(csv.reader(stream, strict=True, delimiter=separator), maxlen=0)
        except (csv.Error, UnicodeDecodeError):
            return False
    return True


def _first_undecodable(source: Source) -> int | None:
    with source.open() as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def is_number(cell: str, decimal: str) -> bool:
    """Whether a cell spells a finite number.

    Parameters
    ----------
    cell : str
        Its text, without blanks around it.
    decimal : str
        The decimal mark.
    """
    try:
        number_of(cell, decimal)
    except ValueError:
        return False
    return True


def number_of(cell: str, decimal: str) -> float:
    """The number a cell spells.

    ValueError: when it spells none; the message is a sentence fragment.
    """
    if decimal == ".":
        return finite_number(cell)
    if "." in cell:
        raise ValueError(f"{cell!r} is not a number with a decimal {decimal!r}")
    return finite_number(cell.replace(decimal, ".", 1))


def find_layout(
    source: Source, target: int | str | None, separator: str, decimal: str, header: bool | None = None
) -> Layout:
    """What the first row tells.

    target: the label's place or name; None if there is no label.
    header: whether the first row is one; by default it is if no feature cell is a number.
    DataFileError: when there is no first row, or its names are not names.
    ValueError: when ``target`` names no column.
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
