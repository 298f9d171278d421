"""Data on the command line: the name of a set, or the path of a CSV or svmlight file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from polyopt.base.text import visible

if TYPE_CHECKING:
    from polyopt.datasets import Dataset, Source

__all__ = ["Form", "check_data", "check_faces", "check_read_once", "column_of", "first_row", "load_data"]


class Form(NamedTuple):
    """Options on a table: its separators, and the treatment of texts and gaps."""

    separator: str | None = None
    decimal: str = "."
    categorical: str | None = None
    impute: str | None = None
    large: bool = False


def load_data(text: str, target: str | None = None, form: Form = Form()) -> Dataset:  # noqa: B008 - frozen
    """The data set a user names.

    text: A name that :func:`polyopt.datasets.load` knows, or the path of a file; ``-`` for standard input.
    target: label column of a CSV file: its name, or its place from 0; the last one by default.
    ValueError: when it is neither; the message lists the names. When fitting it would take absurdly long.
    """
    check_data(text, target, form)
    if _is_named(text):
        from polyopt.datasets import load

        return load(text)
    from polyopt.datasets import is_svmlight, open_source, read_csv, read_svmlight

    source = open_source(text)
    if not is_svmlight(source):
        impute = _imputation(form.impute)
        found = read_csv(
            source,
            -1 if target is None else column_of(source, target, form.separator),
            separator=form.separator,
            decimal=form.decimal,
            categorical=_columns(source, form),
            impute=impute,
        )
    else:
        _refuse_options(text, "an svmlight file, whose lines start with the label", target, form)
        found = read_svmlight(source)
        if found.y.dtype.kind == "f":  # numbers with a fraction are names of classes, as they are in a table
            found = replace(found, y=found.y.astype(str))
    if not form.large:
        _check_sizes(found)
    return replace(found, name=visible(found.name))


def check_data(text: str, target: str | None = None, form: Form = Form()) -> None:  # noqa: B008 - frozen
    """Refuse what can be seen to be wrong before any of it is read, and before numpy is imported.

    ValueError: when it is neither a file nor the name of a set, or an option has no such value.
    FileNotFoundError: when it is a folder.
    """
    from polyopt.datasets import names
    from polyopt.datasets.source import check_there

    _imputation(form.impute)
    if _is_named(text):
        _refuse_options(text, "a data set with a form of its own", target, form)
    elif text != "-":
        path = Path(text)
        if not path.exists():
            raise ValueError(f"{text!r} is neither a file nor a known data set; known: {', '.join(names())}")
        check_there(path)


def _is_named(text: str) -> bool:
    """True if the argument names a data set and no file of that name exists."""
    from polyopt.datasets import names

    return text in names() and not Path(text).is_file()


def check_read_once(texts: Sequence[str]) -> None:
    """Refuse standard input, or another pipe, that is named twice: it can be read but once."""
    streams = ["-" if text == "/dev/stdin" else text for text in texts]
    for stream in dict.fromkeys(streams):
        path = Path(stream)
        is_pipe = stream == "-" or (path.exists() and not path.is_file() and not path.is_dir())
        if is_pipe and streams.count(stream) > 1:
            what = "standard input" if stream == "-" else f"the pipe {stream}"
            raise ValueError(f"{what} can be read once, and --data names it {streams.count(stream)} times")


def check_faces(data: Dataset, settings: Mapping[str, object], large: bool) -> None:
    """Refuse, unless asked for, more faces than there are samples, which take long and do nothing."""
    faces, n = settings.get("n_faces"), data.X.shape[0]
    if isinstance(faces, int) and faces > n and not large:
        raise ValueError(
            f"--faces {faces:,} is more than the {n:,} samples of {data.name}: a face that answers for none "
            "does nothing, but takes its time. --large goes on"
        )


def _refuse_options(text: str, kind: str, target: str | None, form: Form) -> None:
    """Refuse what only a CSV file can be asked."""
    decimal = None if form.decimal == "." else form.decimal
    given = {"target": target, **form._asdict(), "decimal": decimal, "large": None}
    if wrong := [name for name, value in given.items() if value is not None]:
        raise ValueError(f"--{wrong[0]} is for CSV files; {text} is {kind}")


def _imputation(value: str | None) -> Literal["median", "most-frequent"] | None:
    """The value of ``--impute``, if it is one."""
    if value not in (None, "median", "most-frequent"):
        raise ValueError(f"--impute must be median or most-frequent, not {value!r}")
    return cast(Literal["median", "most-frequent"] | None, value)


def _columns(source: Source, form: Form) -> Literal["all"] | list[int | str]:
    """The columns of text, each by name or place."""
    import csv

    if form.categorical is None:
        return []
    row = first_row(source, form.separator)
    if form.categorical == "all" and "all" not in row:
        return "all"
    names = next(csv.reader([form.categorical]), [])
    return [column_of(source, name.strip(), form.separator) for name in names]


def _check_sizes(data: Dataset) -> None:
    """Refuse, unless asked for, what would take absurdly long.

    ValueError: more than 100 classes, or 20 in few rows, or ten million columns; the message says what they
        cost.
    """
    import numpy as np

    classes = len(np.unique(data.y))
    # More than 20 labels that mostly stand once are numbers rather than classes.
    if classes > 100 or (classes > 20 and 2 * classes > len(data.y)):
        pairs = classes * (classes - 1) // 2
        time = f"{pairs / 6000:.0f} minutes" if pairs >= 6000 else f"{pairs / 100:.0f} seconds"
        column = "" if data.target is None else f" Is column {data.target!r} that of the labels (--target)?"
        raise ValueError(
            f"{data.name} has {classes:,} different labels, which make {pairs:,} pairs of classes to fit from"
            f" {len(data.y):,} rows; at a hundredth of a second each, {time}.{column} --large goes on"
        )
    n_features = data.X.shape[1]
    if n_features > 10_000_000:
        raise ValueError(
            f"{data.name} has the index {n_features:,}: each vector of weights takes {n_features * 8e-9:.1f} "
            "GB, and a fit several. Number the features without gaps, or --large goes on"
        )


def column_of(source: Source, target: str, separator: str | None = None) -> int | str:
    """A column given as text: a name if the file has it in its first row, else a place."""
    if target in first_row(source, separator):
        return target
    return int(target) if re.fullmatch(r"-?\d{1,9}", target, re.ASCII) else target


def first_row(source: Source, separator: str | None = None) -> list[str]:
    """Cells of the first row of a CSV file that is not blank; none where it cannot be read."""
    from polyopt.datasets import DataFileError
    from polyopt.datasets.tables import first_cells

    try:
        return first_cells(source, separator)
    except DataFileError:
        return []  # the careful reader, which comes next, names the line
