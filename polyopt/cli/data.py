"""Data on the command line: the name of a set, or the path of a CSV or svmlight file."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polyopt.datasets import Dataset

__all__ = ["column_of", "first_row", "is_svmlight", "load_data"]

_SVMLIGHT_LINE = re.compile(r"\s*[^\s,:]+(\s+\d+:\S+)+\s*(#.*)?$")


def load_data(text: str, target: str | None = None) -> Dataset:
    """The data set a user names.

    Parameters
    ----------
    text : str
        A name that :func:`polyopt.datasets.load` knows, or the path of a file.
    target : str, optional
        Label column of a CSV file: its name, or its place from 0; the last one by default.

    Raises
    ------
    ValueError
        When it is neither; the message lists the names.
    """
    from polyopt.datasets import load, names, read_csv, read_svmlight

    path = Path(text)
    if text in names() and not path.is_file():
        return load(text)
    if not path.exists():
        raise ValueError(f"{text!r} is neither a file nor a known data set; known: {', '.join(names())}")
    if path.is_file() and is_svmlight(path):
        if target is not None:
            raise ValueError(
                f"--target is for CSV files; {text} is an svmlight file, whose lines start with the label"
            )
        return read_svmlight(path)
    return read_csv(path, -1 if target is None else column_of(path, target))


def is_svmlight(path: Path) -> bool:
    """Whether a file is in svmlight format: by its ending or, failing that, by its first line."""
    if path.suffix.lower() in (".svm", ".svmlight", ".libsvm", ".gz", ".bz2"):
        return True
    if path.suffix.lower() == ".csv":
        return False
    with path.open(encoding="utf-8", errors="replace") as stream:
        line = next((line for line in stream if line.partition("#")[0].strip()), "")
    return _SVMLIGHT_LINE.match(line) is not None


def column_of(path: Path, target: str) -> int | str:
    """A column given as text: a name if the file has it in its first row, else a place."""
    if target in first_row(path):
        return target
    return int(target) if re.fullmatch(r"-?\d+", target) else target


def first_row(path: Path) -> list[str]:
    """Cells of the first row of a CSV file that is not blank; none where it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            return [cell.strip() for cell in next((row for row in csv.reader(stream) if row), [])]
    except (UnicodeDecodeError, csv.Error):
        return []  # the careful reader, which comes next, names the line
