"""Reading and writing a data set's arrays as one .npz file, dense or CSR."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polyopt.base.files import replacing
from polyopt.datasets._dataset import Features, Labels
from polyopt.datasets._errors import DataFileError


class Parts(NamedTuple):
    """The bare arrays of a data set: training part, and test part where there is one."""

    X: Features
    y: Labels
    X_test: Features | None = None
    y_test: Labels | None = None


def read_npz(path: Path) -> Parts:
    """The arrays in a .npz file.

    path: A file with ``X, y`` or ``X_train, y_train`` and optionally ``X_test, y_test``. In place of an ``X``
        there may be the four parts of a CSR matrix, ``data, indices, indptr, shape`` (indices counted from
        0), with the same endings. Images (n, h, w) come back flattened, (n, h·w).
    DataFileError: when the file is not a .npz archive, lacks an array or holds ones that do not fit.
    """
    try:
        with np.load(path) as arrays:
            stored = dict(arrays)
    except (zipfile.BadZipFile, ValueError, EOFError, TypeError) as error:
        raise DataFileError(path, f"not a readable .npz archive ({error})") from error
    suffix = "_train" if "y_train" in stored else ""
    if f"y{suffix}" not in stored:
        raise DataFileError(path, f"holds no labels: expected y or y_train, found {sorted(stored)}")
    train = _part(path, stored, suffix)
    return Parts(*train, *_part(path, stored, "_test")) if "y_test" in stored else Parts(*train)


def _part(path: Path, stored: dict[str, NDArray[Any]], suffix: str) -> tuple[Features, Labels]:
    X, y = _features(path, stored, suffix), stored[f"y{suffix}"]
    if y.shape != (X.shape[0],):
        raise DataFileError(path, f"y{suffix} has shape {y.shape}; X{suffix} has {X.shape[0]} rows")
    return X, y


def _features(path: Path, stored: dict[str, NDArray[Any]], suffix: str) -> Features:
    if f"X{suffix}" in stored:
        X = stored[f"X{suffix}"]
        return X.reshape(len(X), -1)
    keys = [key + suffix for key in ("data", "indices", "indptr", "shape")]
    missing = [key for key in keys if key not in stored]
    if missing:
        raise DataFileError(path, f"holds neither X{suffix} nor a whole CSR matrix (no {', '.join(missing)})")
    data, indices, indptr, shape = (stored[key] for key in keys)
    try:
        matrix = sparse.csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
        matrix.check_format(full_check=True)
    except (ValueError, IndexError) as error:
        raise DataFileError(path, f"{', '.join(keys)} are not a CSR matrix ({error})") from error
    return matrix


def write_npz(path: Path, parts: Parts) -> None:
    """Write the arrays in the layout :func:`read_npz` reads; a reader never sees half a file."""
    arrays: dict[str, Any] = {"y": parts.y} | _stored(parts.X, "")
    if parts.X_test is not None and parts.y_test is not None:
        arrays |= {"y_test": parts.y_test} | _stored(parts.X_test, "_test")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        _save(file, arrays)


def _save(file: IO[bytes], arrays: dict[str, Any]) -> None:
    np.savez_compressed(file, **arrays)


def _stored(X: Features, suffix: str) -> dict[str, Any]:
    if isinstance(X, sparse.csr_matrix):
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
        return {key + suffix: value for key, value in parts.items()}
    return {f"X{suffix}": X}
