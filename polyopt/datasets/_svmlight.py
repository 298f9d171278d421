"""Reading svmlight / LIBSVM files, with every broken line named.

scikit-learn's reader is fast but says neither which line is broken nor that some are: it takes
``nan``, ``inf`` and ``1_0`` for numbers and drops query ids. So what it refuses, and what holds
anything it should have refused, is read once more by a careful reader of our own, which either names
the line or finds it right.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from scipy import sparse

from polyopt.datasets._dataset import Dataset, Labels
from polyopt.datasets._errors import DataFileError
from polyopt.datasets._labels import labels_of_numbers
from polyopt.datasets._source import Source, open_source
from polyopt.datasets._textfile import finite_number, label_names, quoted

_LINE = re.compile(r"\s*[^\s,:]+(\s+(qid|-?\d+):\S+)+\s*(#.*)?$")
_INDEX = re.compile(r"[+-]?\d+", re.ASCII)
_EXACT = 2**53  # below which a float tells every whole number from the next
_LARGEST_INDEX = 2**31 - 1  # that the column numbers of a CSR matrix hold, at 32 bits
_LONGEST = 100  # digits of an index that are read: more are too many in any case


def is_svmlight(source: Source) -> bool:
    """Whether a file is in svmlight format: by its ending or, failing that, by its first line."""
    if source.ending in (".svm", ".svmlight", ".libsvm"):
        return True
    if source.ending in (".csv", ".tsv"):
        return False
    lines = source.beginning().splitlines()
    line = next((line for line in lines if line.partition("#")[0].strip()), "")
    return _LINE.match(line) is not None


def read_svmlight(path: str | Path | Source, *, n_features: int | None = None) -> Dataset:
    """Read a file in svmlight / LIBSVM format.

    Each row is ``label index:value index:value ...`` with indices from 1, increasing. Features that
    are not listed are 0. Blank lines, tabs, comments from ``#`` on and rows that hold a label alone
    are legal. Labels are numbers: ``+1``, ``1`` and ``1.0`` are one.

    Parameters
    ----------
    path : str or Path
        The file, compressed (gzip, bzip2, xz) or not; a pipe; ``-`` for standard input.
    n_features : int, optional
        Number of columns m; by default the largest index found. Give it for a test file, which may
        lack the last features of its training file.

    Returns
    -------
    Dataset
        ``X`` is a CSR matrix (n, m) of float64; ``y`` holds int64 where all labels are whole numbers,
        float64 otherwise (texts where that would make one label of two).

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    DataFileError
        When a line is broken; the message has file name, line number and what is wrong.
    ValueError
        When ``n_features`` is less than 1.
    """
    source = open_source(path)
    if n_features is not None and n_features < 1:
        raise ValueError(f"n_features must be at least 1; got {n_features!r}")
    X, y = _read_fast(source, n_features) or _read_carefully(source, n_features)
    if X.shape[0] == 0:
        raise DataFileError(source.path, "holds no rows")
    if n_features is None and X.nnz == 0:
        raise DataFileError(source.path, "no row lists a feature, and how many there are is not known")
    return Dataset(
        source.name,
        X,
        y,
        target_names=label_names(y),
        description=f"Read from the svmlight file {source.name}.",
    )


def _read_fast(source: Source, n_features: int | None) -> tuple[sparse.csr_matrix, Labels] | None:
    """What scikit-learn reads, or ``None`` when that may not be what the file says."""
    from sklearn.datasets import load_svmlight_file

    with source.open() as stream:
        while block := stream.read(1 << 22):
            if b"_" in block or b"q" in block:  # 1_0 for 10; qid:
                return None
    try:
        with source.open() as stream:
            X, y = load_svmlight_file(stream, n_features=n_features, zero_based=False)
    except (ValueError, OverflowError):
        return None
    if not (np.isfinite(X.data).all() and (y == np.rint(y)).all() and (np.abs(y) < _EXACT).all()):
        return None
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape), y.astype(np.int64)


def _read_carefully(source: Source, n_features: int | None) -> tuple[sparse.csr_matrix, Labels]:
    labels: list[str] = []
    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    with source.open() as stream:
        for number, line in enumerate(stream, start=1):
            content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            words = [word.decode("utf-8", "replace") for word in content.partition(b"#")[0].split()]
            if not words:
                continue
            try:
                labels.append(_label(words[0]))
                _add_features(words[1:], n_features or _LARGEST_INDEX, indices, values)
            except ValueError as error:
                raise DataFileError(source.path, str(error), number) from error
            starts.append(len(indices))
    columns = np.array(indices, dtype=np.int64)
    width = n_features or int(columns.max(initial=1))
    X = sparse.csr_matrix((np.array(values), columns - 1, np.array(starts)), shape=(len(labels), width))
    return X, labels_of_numbers(labels)


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
        index = int(name[:_LONGEST])
        if index < 1:
            raise ValueError(f"index {index} in {word!r}: indices start at 1")
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
