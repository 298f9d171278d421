"""Reading comma-separated tables, with every broken line named.

pandas reads the numbers. Whatever it refuses, or reads as anything but finite numbers, is read once
more by a careful reader of our own, which either names the line or finds it right.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyopt.datasets._dataset import Dataset, Labels
from polyopt.datasets._errors import DataFileError
from polyopt.datasets._textfile import existing_file, finite_number, label_names, whole_if_possible

_MISSING = ("", "nan")


class _Layout(NamedTuple):
    """What the first row tells: column names if it is a header, number of columns, the label's place."""

    header: list[str] | None
    header_end: int
    width: int
    target: int

    def column(self, i: int) -> str:
        return f"column {i + 1}" if self.header is None else f"column {self.header[i]!r}"


def read_csv(path: str | Path, target: int | str = -1) -> Dataset:
    """Read a comma-separated table of numeric features and one label column.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8. The first row is a header when ``target`` is a name, or when none of its
        feature cells is a number. Blank lines are skipped.
    target : int or str
        The label column: its place from 0 (negative from the end; default the last one), or its name.
        Labels may be numbers or any text.

    Returns
    -------
    Dataset
        ``X`` is a dense float64 array; ``y`` holds int64 where all labels are whole numbers, float64
        where they are numbers, and strings otherwise.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    DataFileError
        When a line is broken (too many or too few cells, a feature that is not a finite number, an
        empty label); the message has file name, line number and what is wrong.
    ValueError
        When ``target`` names no column.
    """
    file = existing_file(path)
    layout = _find_layout(file, target)
    X, cells = _read_fast(file, layout) or _read_carefully(file, layout)
    if len(X) == 0:
        raise DataFileError(file, "holds a header and no rows")
    y = _labels(cells)
    names = None if layout.header is None else tuple(np.delete(layout.header, layout.target).tolist())
    return Dataset(
        file.name,
        X,
        y,
        target_names=label_names(y),
        feature_names=names,
        description=f"Read from the comma-separated file {file.name}.",
    )


def _records(file: Path) -> Iterator[tuple[int, int, list[str]]]:
    """First and last line number, and stripped cells, of every row that is not blank."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        previous = 0
        try:
            for row in reader:
                first, previous = previous + 1, reader.line_num
                cells = [cell.strip() for cell in row]
                if cells not in ([], [""]):
                    yield first, previous, cells
        except csv.Error as error:
            raise DataFileError(file, str(error), previous + 1) from error
        except UnicodeDecodeError as error:
            raise DataFileError(file, "is not UTF-8 text", _first_undecodable(file)) from error


def _first_undecodable(file: Path) -> int | None:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def _find_layout(file: Path, target: int | str) -> _Layout:
    line, end, cells = next(_records(file), (0, 0, []))
    if not cells:
        raise DataFileError(file, "is empty")
    if len(cells) < 2:
        raise DataFileError(
            file, "has one column; features and a label, separated by commas, are expected", line
        )
    if isinstance(target, str):
        if target not in cells:
            raise ValueError(f"target={target!r} is not a column of {file}; the first row is {cells}")
        place, has_header = cells.index(target), True
    else:
        if not -len(cells) <= target < len(cells):
            raise ValueError(
                f"target={target!r} is not a column of {file}: it has {len(cells)}, counted from 0"
            )
        place = target % len(cells)
        has_header = not any(_is_number(cell) for i, cell in enumerate(cells) if i != place)
    if not has_header:
        return _Layout(None, 0, len(cells), place)
    for i, cell in enumerate(cells):
        if not cell:
            raise DataFileError(
                file, f"column {i + 1} has no name (a row index, saved with the table?)", line
            )
        if cell in cells[:i]:
            raise DataFileError(file, f"two columns are named {cell!r}", line)
    return _Layout(cells, end, len(cells), place)


def _is_number(cell: str) -> bool:
    try:
        finite_number(cell)
    except ValueError:
        return False
    return True


def _read_fast(file: Path, layout: _Layout) -> tuple[NDArray[np.float64], list[str]] | None:
    """What pandas reads, or ``None`` when that may not be what the file says."""
    import pandas as pd

    if layout.header is not None and any("\n" in cell or "\r" in cell for cell in layout.header):
        return None  # pandas would count a header over several lines as one

    options: dict[str, Any] = {"dtype": {layout.target: str}}
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # exact; from 3.1 on the only way, and not to be asked for
    try:
        frame = pd.read_csv(
            file,
            header=None,
            skiprows=layout.header_end,
            keep_default_na=False,
            encoding="utf-8-sig",
            low_memory=False,
            **options,
        )
    except ValueError:  # pandas' own errors and undecodable bytes are ValueErrors
        return None
    if frame.shape[1] != layout.width:
        return None
    labels = frame[layout.target]
    frame = frame.drop(columns=[layout.target])
    if labels.isna().any() or any(kind.kind not in "iuf" for kind in frame.dtypes):
        return None
    cells = [label.strip() for label in labels]
    X = frame.to_numpy(dtype=np.float64)
    if not np.isfinite(X).all() or any(cell.lower() in _MISSING for cell in cells):
        return None
    return np.ascontiguousarray(X), cells


def _read_carefully(file: Path, layout: _Layout) -> tuple[NDArray[np.float64], list[str]]:
    rows: list[list[float]] = []
    labels: list[str] = []
    for line, end, cells in _records(file):
        if end <= layout.header_end:
            continue
        if len(cells) != layout.width:
            raise DataFileError(file, f"has {len(cells)} cells where {layout.width} are expected", line)
        if cells[layout.target].lower() in _MISSING:
            raise DataFileError(file, f"the label ({layout.column(layout.target)}) is missing", line)
        labels.append(cells[layout.target])
        row = []
        for i, cell in enumerate(cells):
            if i != layout.target:
                try:
                    row.append(finite_number(cell))
                except ValueError as error:
                    raise DataFileError(file, f"{layout.column(i)}: {_subject(error)}", line) from error
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), layout.width - 1), labels


def _subject(error: ValueError) -> str:
    return f"the cell {error}" if str(error).startswith("is ") else str(error)


def _labels(cells: list[str]) -> Labels:
    try:
        return whole_if_possible(np.array([finite_number(cell) for cell in cells]))
    except ValueError:
        return np.array(cells)
