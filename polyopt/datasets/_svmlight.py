"""Reading svmlight / LIBSVM files, with every broken line named.

scikit-learn's reader is fast but says neither which line is broken nor that some are: it takes
``nan``, ``inf`` and ``1_0`` for numbers and drops query ids. So what it refuses, and what holds
anything it should have refused, is read once more by a careful reader of our own, which either names
the line or finds it right.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from pathlib import Path

import numpy as np
from scipy import sparse

from polyopt.datasets._dataset import Dataset, Labels
from polyopt.datasets._errors import DataFileError
from polyopt.datasets._textfile import existing_file, finite_number, label_names, whole_if_possible

_INDEX = re.compile(r"[+-]?\d+", re.ASCII)
_LARGEST_INDEX = 2**31 - 1  # that the column numbers of a CSR matrix hold, at 32 bits


def read_svmlight(path: str | Path, *, n_features: int | None = None) -> Dataset:
    """Read a file in svmlight / LIBSVM format.

    Each row is ``label index:value index:value ...`` with indices from 1, increasing. Features that
    are not listed are 0. Blank lines, tabs, comments from ``#`` on and rows that hold a label alone
    are legal. Files that end in ``.gz`` or ``.bz2`` are decompressed.

    Parameters
    ----------
    path : str or Path
        The file.
    n_features : int, optional
        Number of columns m; by default the largest index found. Give it for a test file, which may
        lack the last features of its training file.

    Returns
    -------
    Dataset
        ``X`` is a CSR matrix (n, m) of float64; ``y`` holds int64 where all labels are whole numbers,
        float64 otherwise.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    DataFileError
        When a line is broken; the message has file name, line number and what is wrong.
    ValueError
        When ``n_features`` is less than 1.
    """
    file = existing_file(path)
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1; got {n_features!r}")
    try:
        X, y = _read_fast(file, n_features) or _read_carefully(file, n_features)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataFileError(file, f"cannot be decompressed ({error})") from error
    if X.shape[0] == 0:
        raise DataFileError(file, "holds no rows")
    if n_features is None and X.nnz == 0:
        raise DataFileError(file, "no row lists a feature: give n_features")
    y = whole_if_possible(y)
    return Dataset(
        file.name, X, y, target_names=label_names(y), description=f"Read from the svmlight file {file.name}."
    )


def _open(file: Path) -> io.BufferedIOBase:
    if file.suffix == ".gz":
        return gzip.open(file, "rb")
    if file.suffix == ".bz2":
        return bz2.open(file, "rb")
    return file.open("rb")


def _read_fast(file: Path, n_features: int | None) -> tuple[sparse.csr_matrix, Labels] | None:
    """What scikit-learn reads, or ``None`` when that may not be what the file says."""
    from sklearn.datasets import load_svmlight_file

    with _open(file) as stream:
        while block := stream.read(1 << 22):
            if b"_" in block or b"q" in block:  # 1_0 for 10; qid:
                return None
    try:
        X, y = load_svmlight_file(str(file), n_features=n_features, zero_based=False)
    except (ValueError, OverflowError):
        return None
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        return None
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape), y


def _read_carefully(file: Path, n_features: int | None) -> tuple[sparse.csr_matrix, Labels]:
    labels: list[float] = []
    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    with _open(file) as stream:
        for number, line in enumerate(stream, start=1):
            content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            words = [word.decode("utf-8", "replace") for word in content.partition(b"#")[0].split()]
            if not words:
                continue
            try:
                labels.append(_label(words[0]))
                _add_features(words[1:], n_features or _LARGEST_INDEX, indices, values)
            except ValueError as error:
                raise DataFileError(file, str(error), number) from error
            starts.append(len(indices))
    columns = np.array(indices, dtype=np.int64)
    width = n_features or int(columns.max(initial=1))
    X = sparse.csr_matrix((np.array(values), columns - 1, np.array(starts)), shape=(len(labels), width))
    return X, np.array(labels)


def _label(word: str) -> float:
    if "," in word:
        raise ValueError(
            f"the label {word!r} has a comma: one label per row is supported, with a point for decimals"
        )
    if ":" in word:
        raise ValueError(f"the row has no label: it starts with {word!r}")
    try:
        return finite_number(word)
    except ValueError as error:
        raise ValueError(f"the label {error}") from error


def _add_features(words: list[str], largest: int, indices: list[int], values: list[float]) -> None:
    previous = 0
    for word in words:
        name, colon, value = word.partition(":")
        if not colon:
            raise ValueError(f"{word!r} is not index:value")
        if name == "qid":
            raise ValueError(f"query ids ({word!r}) are not supported")
        if not _INDEX.fullmatch(name):
            raise ValueError(f"the index {name!r} of {word!r} is not a whole number")
        index = int(name)
        if index < 1:
            raise ValueError(f"index {index} in {word!r}: indices start at 1")
        if index == previous:
            raise ValueError(f"index {index} appears twice")
        if index < previous:
            raise ValueError(f"index {index} comes after index {previous}: indices must increase")
        if index > largest:
            raise ValueError(f"index {index} in {word!r} is larger than {largest}, the most that is allowed")
        try:
            values.append(finite_number(value))
        except ValueError as error:
            raise ValueError(f"the value of feature {index} {error}") from error
        indices.append(index)
        previous = index
