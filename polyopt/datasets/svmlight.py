"""Reader of svmlight / LIBSVM files, with errors that name the line.

scikit-learn's reader is fast, but names no line, accepts ``nan``, ``inf`` and ``1_0`` as numbers, and drops
query ids. The lines of a text that it refuses, or that may hold any of these, are checked one by one, which
names the broken one. A byte order mark, and CR alone as the end of a line, are accepted.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polyopt.datasets.dataset import Dataset
from polyopt.datasets.source import DataFileError, Source, open_source
from polyopt.datasets.tables import finite_number, label_names, quoted

_LINE = re.compile(r"\s*[^\s,:]+(\s+(qid|-?\d+):\S+)+\s*(#.*)?$")
_MARK = b"\xef\xbb\xbf"  # byte order mark of UTF-8
_MAX_LABEL = 2.0**53  # from here on a float does not tell all whole numbers apart
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
        ``X`` is a CSR matrix (n, m) of float64. ``y`` is int64 if all labels are whole numbers, else float64.
        A broken line raises DataFileError, which names it, as does a whole number of 2⁵³ or more as a label.
    """
    source = open_source(path)
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1; got {n_features!r}")
    with source.open() as stream:
        X, y = _read(source.path, stream, n_features)
    if X.shape[0] == 0:
        raise DataFileError(source.path, "holds no rows")
    if n_features is None and X.nnz == 0:
        raise DataFileError(source.path, "no row lists a feature, and how many there are is not known")
    y = y.astype(np.int64) if (y == np.rint(y)).all() else y
    description = f"Read from the svmlight file {source.name}."
    return Dataset(source.name, X, y, target_names=label_names(y), description=description)


def svmlight_block(
    path: str | Path, text: bytes, first_line: int, n_features: int
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    """Return features (n, m) and labels (n,) of some lines of a file, the first numbered `first_line`."""
    return _read(Path(path), io.BytesIO(text), n_features, first_line)


def svmlight_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream with their ends, which are LF, CR LF or CR."""
    for line in stream:
        yield from line.splitlines(keepends=True) if b"\r" in line else (line,)


def _read(
    path: Path, stream: BinaryIO, n_features: int | None, first_line: int = 1
) -> tuple[sparse.csr_matrix, NDArray[np.float64]]:
    """Return features and labels by scikit-learn, or raise DataFileError for the first broken line."""
    from sklearn.datasets import load_svmlight_file

    begin = len(_MARK) if stream.read(len(_MARK)) == _MARK else 0
    stream.seek(begin)
    needs_check = has_cr = False
    while block := stream.read(1 << 22):
        needs_check = needs_check or b"_" in block or b"q" in block  # 1_0 for 10; qid:
        has_cr = has_cr or b"\r" in block.replace(b"\r\n", b"")
    stream.seek(begin)
    if needs_check:
        _check_lines(path, stream, n_features, first_line)
        stream.seek(begin)
    lines = io.BytesIO(b"\n".join(stream.read().splitlines())) if has_cr else stream
    try:
        X, y = load_svmlight_file(lines, n_features=n_features, zero_based=False)
        is_fine = np.isfinite(X.data).all() and np.isfinite(y).all() and (np.abs(y) < _MAX_LABEL).all()
    except (ValueError, OverflowError):
        is_fine = False
    if not is_fine:
        stream.seek(begin)
        _check_lines(path, stream, n_features, first_line)
        raise DataFileError(path, "is not read by scikit-learn, and no line of it is broken")
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape), y


def _check_lines(path: Path, stream: BinaryIO, n_features: int | None, first_line: int) -> None:
    """Raise DataFileError for the first broken line."""
    for number, line in enumerate(svmlight_lines(stream), start=first_line):
        words = [word.decode("utf-8", "replace") for word in line.partition(b"#")[0].split()]
        try:
            if words:
                _check_label(words[0])
                _check_features(words[1:], n_features or 2**31 - 1)  # 32 bits of a CSR matrix for a column
        except ValueError as error:
            raise DataFileError(path, str(error), number) from error


def _check_label(word: str) -> None:
    if "," in word:
        raise ValueError(
            f"the label {word!r} has a comma: one label per row is supported, with a point for decimals"
        )
    if ":" in word:
        raise ValueError(f"the row has no label: it starts with {word!r}")
    try:
        label = finite_number(word)
    except ValueError as error:
        raise ValueError(f"the label {error}") from error
    if abs(label) >= _MAX_LABEL:
        raise ValueError(
            f"the label {quoted(word)} is larger than the whole numbers that a float tells apart"
        )


def _check_features(words: list[str], largest: int) -> None:
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
            finite_number(value)
        except ValueError as error:
            raise ValueError(f"the value of feature {index} {error}") from error
        previous = index
