"""Named data sets from local files, the cache and downloads.

A failed download is repeated, and files are checked against known digests.
"""

import gzip
import os
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polyopt.base.files import replacing
from polyopt.datasets.dataset import Dataset, Features, Labels
from polyopt.datasets.named_sets import ENTRIES, Entry, find_entry
from polyopt.datasets.source import DataFileError
from polyopt.datasets.svmlight import read_svmlight


class DatasetUnavailable(OSError):  # noqa: N818 - a public name
    """The error for a public data set that is not on this machine and cannot be downloaded now."""


class Parts(NamedTuple):
    """The arrays of a data set: training part, and test part if there is one."""

    X: Features
    y: Labels
    X_test: Features | None = None
    y_test: Labels | None = None


def load(name: str) -> Dataset:
    """Load a named data set.

    The sets and their labels are listed by :func:`polyopt.datasets.catalogue`; seven need no download. Any
    other is read from ``<name>.npz`` in the folder of the environment variable ``POLYOPT_DATA``, else from
    the cache (``pooch.os_cache("polyopt")``), else it is downloaded from its publisher to the cache. A
    download is checked against published figures and its digest; a warning says if no digest is known.

    Features are float64, dense or CSR (``mnist``: uint8), labels are integers as published, and nothing is
    scaled unless the ``description`` says so, which also names source and licence.

    Raises ValueError for an unknown name, DatasetUnavailable (which says how to get the set) if a download
    fails, DataFileError for a broken file, and NotADirectoryError if ``POLYOPT_DATA`` is not a folder.
    """
    entry = find_entry(name)
    if entry.name in FETCHERS:
        parts = _local_or_downloaded(entry)
    elif name in ("wdbc", "digits"):
        from sklearn.datasets import load_breast_cancer, load_digits

        parts = Parts(*(load_breast_cancer if name == "wdbc" else load_digits)(return_X_y=True))
    else:
        with resources.as_file(resources.files("polyopt.datasets") / "files" / f"{name}.npz") as path:
            parts = read_npz(path)
    X, X_test = (None if part is None else part.astype(entry.dtype, copy=False) for part in parts[::2])
    y: Any
    # Small integers widened: an int8 label times a count would overflow.
    y, y_test = (part.astype(np.int64) if part is not None and part.dtype.kind in "iub" else part
                 for part in parts[1::2])  # fmt: skip
    return Dataset(
        entry.name, X, y, entry.target_names, entry.feature_names, entry.description, X_test, y_test
    )


def _local_or_downloaded(entry: Entry) -> Parts:
    folder = os.environ.get("POLYOPT_DATA")
    if folder and not Path(folder).is_dir():
        raise NotADirectoryError(
            f"the environment variable POLYOPT_DATA is {folder!r}, which is not a folder"
        )
    places = [Path(folder) / f"{file}.npz" for file in entry.files] if folder else []
    cached = cache_folder() / f"{entry.name}.npz"
    for path in (*places, cached):
        if path.exists():
            if path == cached and not entry.is_checked:
                warnings.warn(
                    f"{entry.name!r} is read from the cache; it could not be checked when it was downloaded: "
                    "no digest is known here",
                    stacklevel=2,
                )
            parts = read_npz(path)
            for X in (parts.X, parts.X_test):
                if X is not None and X.shape[1] != entry.n_features:
                    raise DataFileError(
                        path, f"has {X.shape[1]} columns; {entry.name!r} has {entry.n_features}"
                    )
            return parts
    parts = _download(entry)
    try:
        write_npz(cached, parts)
    except OSError as error:
        warnings.warn(
            f"{entry.name!r} was downloaded but cannot be kept for the next time ({error}); the environment "
            "variable XDG_CACHE_HOME can name another folder",
            stacklevel=2,
        )
    return parts


def _download(entry: Entry) -> Parts:
    try:
        with tempfile.TemporaryDirectory(prefix="polyopt-") as folder:
            parts = FETCHERS[entry.name](Path(folder))
    except OSError as error:
        raise DatasetUnavailable(
            f"{entry.name!r} is not on this machine and could not be downloaded from {entry.url} "
            f"({error}). {_how_to_get(entry)}"
        ) from error
    _check_figures(entry, "training", parts.X, parts.y, entry.n_samples, entry.counts)
    if parts.X_test is not None and parts.y_test is not None:
        _check_figures(entry, "test", parts.X_test, parts.y_test, entry.n_test, entry.counts_test)
    return parts


def _check_figures(
    entry: Entry, part: str, X: Features, y: Labels, n: int, counts: Mapping[int, int | None]
) -> None:
    labels, found = np.unique(y, return_counts=True)
    got = dict(zip(labels.tolist(), found.tolist(), strict=True))
    known = {label: got.get(label) if count is None else count for label, count in counts.items()}
    if X.shape != (n, entry.n_features) or got != known:
        raise DatasetUnavailable(
            f"what {entry.url} sent for the {part} part of {entry.name!r} is not that set: expected shape "
            f"{(n, entry.n_features)} and rows per label {dict(counts)}, got {X.shape} and {got}. "
            f"{_how_to_get(entry)}"
        )


def _how_to_get(entry: Entry) -> str:
    arrays = "X_train, y_train, X_test, y_test" if entry.n_test else "X, y"
    return (
        f"Either connect to the internet and call polyopt.datasets.load({entry.name!r}) again, or set the "
        f"environment variable POLYOPT_DATA to a folder that holds {entry.name}.npz, made by "
        f"numpy.savez({arrays}); a sparse X is stored as data, indices, indptr and shape."
    )


def cache_folder() -> Path:
    """Return the folder of downloaded sets, and of the handbook."""
    import pooch  # type: ignore[import-untyped]

    return Path(pooch.os_cache("polyopt"))


def retrieve(url: str, folder: Path, digest: str = "") -> Path:
    """Download one file into a folder, under the last part of its address, unless it is there.

    After a broken connection or a wrong digest the download is repeated up to three times, and then fails
    with an OSError. The SHA-256 of a file without a known digest is printed in a warning.
    """
    import pooch

    base, _, name = url.rpartition("/")
    pooch.get_logger().setLevel("WARNING")
    source = pooch.create(
        path=folder, base_url=f"{base}/", registry={name: digest or None}, retry_if_failed=3
    )
    try:
        path = Path(source.fetch(name))
    except ValueError as error:  # pooch's error for another digest
        raise OSError(f"what {url} sent is not the file it was: {error}") from error
    if not digest:
        warnings.warn(
            f"{name} was downloaded unchecked, as no digest of it is known here: only its numbers of rows, "
            f"columns and classes are compared; its SHA-256 is {pooch.file_hash(path)}",
            stacklevel=2,
        )
    return path


# -- arrays in a file --------------------------------------------------------------------------------


def read_npz(path: Path) -> Parts:
    """Read ``X, y`` or ``X_train, y_train`` and, if they are there, ``X_test, y_test``.

    In place of an ``X`` there may be the parts of a CSR matrix, ``data, indices, indptr, shape``, with the
    same endings. Images (n, h, w) are flattened to (n, h·w).
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
    """Write the arrays in the layout that :func:`read_npz` reads, all or nothing."""
    arrays: dict[str, Any] = {}
    X: Any
    for suffix, X, y in (("", parts.X, parts.y), ("_test", parts.X_test, parts.y_test)):
        if sparse.issparse(X):
            cells = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
            arrays |= {key + suffix: value for key, value in cells.items()} | {f"y{suffix}": y}
        elif X is not None:
            arrays |= {f"X{suffix}": X, f"y{suffix}": y}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


# -- publishers' files -------------------------------------------------------------------------------


def _files(entry: Entry, folder: Path) -> list[Path]:
    """Retrieve the publisher's files, whose addresses share the folder of the entry's."""
    base = entry.url.rpartition("/")[0]
    return [retrieve(f"{base}/{file}", folder, digest) for file, digest in entry.downloads.items()]


def _fetch(entry: Entry, folder: Path) -> Parts:
    """Return the arrays of a set whose files are in svmlight format or tables, label last or first."""
    found: list[Any] = []
    for path in _files(entry, folder):
        if entry.form.startswith("svmlight"):
            data = read_svmlight(path, n_features=entry.n_features)
            X: Any = data.X
            found += [X.toarray() if "dense" in entry.form else X, data.y]
            continue
        label = 0 if "first" in entry.form else -1
        rows = np.loadtxt(path, delimiter="," if "commas" in entry.form else None, ndmin=2)
        found += [np.delete(rows, label, axis=1), rows[:, label].astype(np.int64)]
    if "signs" in entry.form:  # the publisher's first class is 0 or −1
        found[1::2] = [np.where(y > 0, 1, -1) for y in found[1::2]]
    return Parts(*found)


def _mnist(entry: Entry, folder: Path) -> Parts:
    parts = []
    for path in _files(entry, folder):
        is_image = "images" in path.name
        with gzip.open(path) as stream:
            pixels = np.frombuffer(stream.read(), dtype=np.uint8, offset=16 if is_image else 8)
        parts.append(pixels.reshape(-1, 784) if is_image else pixels)
    return Parts(*parts)


def _covtype(entry: Entry, folder: Path) -> Parts:
    from sklearn.datasets import fetch_covtype

    return Parts(*fetch_covtype(data_home=str(folder), return_X_y=True))


def _fourclass_scaled(entry: Entry, folder: Path) -> Parts:
    X, y, *_ = _fetch(entry, folder)
    centred = np.asarray(X) - np.asarray(X).mean(axis=0)
    return Parts(centred / np.abs(centred).max(axis=0), y)


def _adult(entry: Entry, folder: Path) -> Parts:
    import pandas as pd

    # The test file opens with a remark line, and its labels end in a full stop.
    train, test = (
        pd.read_csv(
            path, header=None, names=range(entry.n_features + 1), comment="|", skipinitialspace=True,
            na_values="?",
        )
        for path in _files(entry, folder)
    )  # fmt: skip
    both = pd.concat([train, test], ignore_index=True)
    y = both[entry.n_features].str.startswith(">50K").to_numpy(dtype=np.int64)
    X = np.empty((len(both), entry.n_features))
    for i in range(X.shape[1]):
        if pd.api.types.is_numeric_dtype(both[i]):
            X[:, i] = both[i]
        else:
            codes = both[i].astype("category").cat.codes  # ranks in sorted order, −1 for missing
            X[:, i] = codes.where(codes >= 0)
    n = len(train)
    return Parts(X[:n], y[:n], X[n:], y[n:])


_FETCHES = {"mnist": _mnist, "covtype": _covtype, "fourclass_scaled": _fourclass_scaled, "adult": _adult}
FETCHERS: dict[str, Callable[[Path], Parts]] = {
    entry.name: partial(_FETCHES.get(entry.name, _fetch), entry) for entry in ENTRIES.values() if entry.url
}
