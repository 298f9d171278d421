"""Reader of svmlight / LIBSVM files, with errors that name the line.

scikit-learn's reader is fast, but names no line, accepts ``nan``, ``inf`` and ``1_0`` as numbers, and drops
query ids. A text that it refuses, or that may hold any of these, is read again by a careful reader, which
names the broken line or accepts the text. Both accept a byte order mark, and CR alone as the end of a line.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polyopt.datasets.dataset import Dataset
from polyopt.datasets.source import DataFileError, Source, open_source
from polyopt.datasets.tables import finite_number, label_names, labels_of_numbers, quoted

_LINE = re.compile(r"\s*[^\s,:]+(\s+(qid|-?\d+):\S+)+\s*(#.*)?$")
_MARK = b"\xef\xbb\xbf"  # byte order mark of UTF-8
_INDEX = re.compile(r"[+-]?\d+", re.ASCII)


def is_svmlight(source: Source) -> bool:
    """True if a file is in svmlight format, by its ending or its first line."""
    if source.ending in (".svm", ".svmlight", ".libsvm"):
        return True
    if source.ending in (".csv", ".tsv"):
        return False
    lines = source.beginning().splitlines()
    line = next((line for line in lines if line.partition("#")[0].strip()), "")
    return _LINE.match(line) is not None


def read_svmlight(path: str | Path | Source, *, n_features: int | None = None) -> Dataset:
    """Read a file in svmlight / LIBSVM format.

    Each row is ``label index:value index:value ...`` with increasing indices from 1. Features that are not
    listed are 0. Blank lines, tabs, comments from ``#`` on, and rows of a label alone are allowed. Labels are
    numbers: ``+1``, ``1`` and ``1.0`` are the same.

    Parameters
    ----------
    path : str or Path
        The file, compressed (gzip, bzip2, xz) or not; a pipe; ``-`` for standard input.
    n_features : int, optional
        Number of columns m; by default the largest index. Pass it for a test file, which may lack the last
        features of its training file.

    Returns
    -------
    Dataset
        ``X`` is a CSR matrix (n, m) of float64. ``y`` is int64 if all labels are whole numbers, else float64,
        or texts if two labels are the same as floats. A broken line raises DataFileError, which names it.
    """
    source = open_source(path)
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1; got {n_features!r}")
    with source.open() as stream:
        found = _read_fast(stream, n_features)
    if found is not None and _are_whole(found[1]):
        X, y = found[0], found[1].astype(np.int64)
    else:
        with source.open() as stream:
            X, labels = _read_carefully(source.path, stream, n_features)
        y = labels_of_numbers(labels)
    if X.shape[0] == 0:
        raise DataFileError(source.path, "holds no rows")
    if n_features is None and X.nnz == 0:
        raise DataFileError(source.path, "no row lists a feature, and how many there are is not known")
    description = f"Read from the svmlight file {source.name}."
    return Dataset(source.name, X, y, target_names=label_names(y), description=description)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream with their ends, which are LF, CR LF or CR."""
    for line in stream:
        yield from line.splitlines(keepends=True) if b"\r" in line else (line,)


def _read_fast(
    stream: BinaryIO, n_features: int | None
) -> tuple[sparse.csr_matrix, NDArray[np.float64]] | None:
    """Return features and labels by scikit-learn, or None if these may differ from the text."""
    from sklearn.datasets import load_svmlight_file

    begin = len(_MARK) if stream.read(len(_MARK)) == _MARK else 0
    stream.seek(begin)
    while block := stream.read(1 << 22):
        if b"_" in block or b"q" in block:  # 1_0 for 10; qid:
            return None
        if b"\r" in block and b"\r" in block.replace(b"\r\n", b"").rstrip(b"\r"):
            return None
    stream.seek(begin)
    try:
        X, y = load_svmlight_file(stream, n_features=n_features, zero_based=False)
    except (ValueError, OverflowError):
        return None
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        return None
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape), y


def _are_whole(y: NDArray[np.float64]) -> bool:
    """True if all labels are whole and exact as floats."""
    return bool((y == np.rint(y)).all() and (np.abs(y) < 2**53).all())


def _read_carefully(
    path: Path, stream: BinaryIO, n_features: int | None = None
) -> tuple[sparse.csr_matrix, list[str]]:
    """Return the features, and each label as it is written."""
    labels: list[str] = []
    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    for number, line in enumerate(_lines(stream), start=1):
        content = line.removeprefix(_MARK) if number == 1 else line
        words = [word.decode("utf-8", "replace") for word in content.partition(b"#")[0].split()]
        if not words:
            continue
        try:
            labels.append(_label(words[0]))
            largest = n_features or 2**31 - 1  # of the 32 bits that a CSR matrix has for a column
            _add_features(words[1:], largest, indices, values)
        except ValueError as error:
            raise DataFileError(path, str(error), number) from error
        starts.append(len(indices))
    columns = np.array(indices, dtype=np.int64)
    width = n_features or int(columns.max(initial=1))
    X = sparse.csr_matrix((np.array(values), columns - 1, np.array(starts)), shape=(len(labels), width))
    return X, labels


def _label(word: str) -> str:
    if "," in word:
        raise ValueError(
            f"the label {word!r} has a comma: one label per row is supported, with a point for decimals"
        )
    if ":" in word:
        raise ValueError(f"the row has no label: it starts with {word!r}")
    try:
        finite_number(word)
    except ValueError as error:
        raise ValueError(f"the label {error}") from error
    return word


def _add_features(words: list[str], largest: int, indices: list[int], values: list[float]) -> None:
    previous = 0
    for word in words:
        name, colon, value = word.partition(":")
        if not colon:
            raise ValueError(f"{word!r} is not index:value")
        if name == "qid":
            raise ValueError(f"query ids ({word!r}) are not supported")
        if not _INDEX.fullmatch(name):
            raise ValueError(f"the index {quoted(name)} of {quoted(word)} is not a whole number")
        index = int(name[:100])  # Python refuses thousands of digits; a hundred are too large in any case
        if index < 1:
            hint = "; scikit-learn's dump_svmlight_file starts at 0 unless it is called with zero_based=False"
            raise ValueError(f"index {index} in {word!r}: indices start at 1{hint if index == 0 else ''}")
        if index == previous:
            raise ValueError(f"index {index} appears twice")
        if index < previous:
            raise ValueError(f"index {index} comes after index {previous}: indices must increase")
        if index > largest:
            raise ValueError(
                f"index {index} in {quoted(word)} is larger than {largest}, the most that is allowed"
            )
        try:
            values.append(finite_number(value))
        except ValueError as error:
            raise ValueError(f"the value of feature {index} {error}") from error
        indices.append(index)
        previous = index
