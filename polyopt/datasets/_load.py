"""`load`, the one front door to every named data set, and the downloads behind it.

Each public set has a small function that makes bare arrays of its publisher's files.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path

import numpy as np
from scipy import sparse

from polyopt.datasets._catalogue import LIBSVM, SHIPPED, UCI_FILES, Entry, find_entry
from polyopt.datasets._dataset import Dataset, Features, Labels
from polyopt.datasets._download import cache_folder, retrieve
from polyopt.datasets._errors import DataFileError, DatasetUnavailable
from polyopt.datasets._npz import Parts, read_npz, write_npz
from polyopt.datasets._svmlight import read_svmlight

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
USPS = "https://hastie.su.domains/ElemStatLearn/datasets/"
ADULT_COLUMNS = 15  # of the file: 14 attributes and the label


def load(name: str) -> Dataset:
    """A named data set.

    ==================  ==================  ========  ===================================================
    name                rows (+ test)       m         labels
    ==================  ==================  ========  ===================================================
    ionosphere          351                 34        0 bad, 1 good radar return
    sonar               208                 60        0 rock, 1 mine
    pima                768                 8         0 tested negative, 1 positive for diabetes
    bupa                345                 6         1, 2: the selector column
    wbc                 683                 9         0 benign, 1 malignant
    wdbc                569                 30        0 malignant, 1 benign (as scikit-learn has it)
    digits              1797                64        0 to 9
    mnist               60000 + 10000       784       0 to 9; X stays uint8
    usps                7291 + 2007         256       0 to 9
    optdigits           3823 + 1797         64        0 to 9
    a9a                 32561 + 16281       123       −1 income up to 50 000 dollars, +1 above; sparse
    ijcnn1              49990               22        −1 common, +1 rare class; sparse
    rcv1                20242 + 677399      47236     −1 GCAT or MCAT, +1 CCAT or ECAT; sparse
    url                 2396130             3231961   −1 benign, +1 malicious; sparse
    kdda                8407752 + 510302    20216830  −1 wrong, +1 right at the first attempt; sparse
    covtype             581012              54        1 to 7, kinds of forest
    cod_rna             59535               8         −1 control, +1 non-coding RNA
    svmguide1           3089 + 4000         4         0, 1
    australian          690                 14        −1, +1: "-" and "+"
    german_numer        1000                24        1 good, 2 bad risk
    heart_statlog       270                 13        1 absent, 2 present
    fourclass_scaled    862                 2         −1, +1
    adult               32561 + 16281       14        0 income up to 50 000 dollars, 1 above; NaN = missing
    ==================  ==================  ========  ===================================================

    The first seven need no download. Any other is taken from the folder that the environment variable
    ``POLYOPT_DATA`` names, if it holds ``<name>.npz``; else from the cache
    (``pooch.os_cache("polyopt")``); else it is downloaded from its publisher, checked against the
    figures above and, where one is known, against its digest (a warning says where none is, then and
    whenever it is read from the cache), and put in the cache. A download that broke goes on where it
    was. Nothing is scaled unless the description says so. Source and licence of a set are in its
    ``description`` and in :func:`polyopt.datasets.catalogue`.

    Parameters
    ----------
    name : str
        One of :func:`polyopt.datasets.names`.

    Returns
    -------
    Dataset
        With float64 features (dense or CSR; ``mnist``: uint8) and integer labels as published.

    Raises
    ------
    ValueError
        When no set has that name.
    DatasetUnavailable
        When the set is not on this machine and cannot be downloaded; the message says how to get it.
    DataFileError
        When a local or cached file is broken.
    NotADirectoryError
        When ``POLYOPT_DATA`` is set to something that is not a folder.
    """
    entry = find_entry(name)
    if entry.name in FETCHERS:
        parts = _local_or_downloaded(entry)
    elif entry in SHIPPED:
        with resources.as_file(resources.files("polyopt.datasets") / "files" / f"{name}.npz") as path:
            parts = read_npz(path)
    else:
        parts = _from_sklearn(entry.name)
    return Dataset(
        name=entry.name,
        X=parts.X.astype(entry.dtype, copy=False),
        y=_whole(parts.y),
        target_names=entry.target_names,
        feature_names=entry.feature_names,
        description=entry.description,
        X_test=None if parts.X_test is None else parts.X_test.astype(entry.dtype, copy=False),
        y_test=None if parts.y_test is None else _whole(parts.y_test),
    )


def _whole(y: Labels) -> Labels:
    """Small integers widened: an int8 label times a count would overflow."""
    return y.astype(np.int64) if y.dtype.kind in "iub" else y


def _from_sklearn(name: str) -> Parts:
    from sklearn.datasets import load_breast_cancer, load_digits

    loader = {"wdbc": load_breast_cancer, "digits": load_digits}[name]
    return Parts(*loader(return_X_y=True))


def _local_or_downloaded(entry: Entry) -> Parts:
    folder = os.environ.get("POLYOPT_DATA")
    if folder and not Path(folder).is_dir():
        raise NotADirectoryError(
            f"the environment variable POLYOPT_DATA is {folder!r}, which is not a folder"
        )
    places = [Path(folder) / f"{file}.npz" for file in entry.files or (entry.name,)] if folder else []
    cached = cache_folder() / f"{entry.name}.npz"
    for path in (*places, cached):
        if path.exists():
            if path == cached and not entry.is_checked:
                warnings.warn(
                    f"{entry.name!r} is read from the cache; it could not be checked when it was downloaded: "
                    "no digest is known here",
                    stacklevel=2,
                )
            return _read_kept(path, entry)
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


def _read_kept(path: Path, entry: Entry) -> Parts:
    parts = read_npz(path)
    for X in (parts.X, parts.X_test):
        if X is not None and X.shape[1] != entry.n_features:
            raise DataFileError(path, f"has {X.shape[1]} columns; {entry.name!r} has {entry.n_features}")
    return parts


def _download(entry: Entry) -> Parts:
    folder = _download_folder(entry.name)
    try:
        parts = FETCHERS[entry.name](folder)
    except OSError as error:
        _remove_empty(folder)  # what arrived stays, for the next attempt to go on from
        raise DatasetUnavailable(
            f"{entry.name!r} is not on this machine and could not be downloaded from {entry.url} "
            f"({error}). {_how_to_get(entry)}"
        ) from error
    shutil.rmtree(folder, ignore_errors=True)
    _remove_empty(folder.parent)
    _check_figures(entry, "training", parts.X, parts.y, entry.n_samples, entry.counts)
    if parts.X_test is not None and parts.y_test is not None:
        _check_figures(entry, "test", parts.X_test, parts.y_test, entry.n_test, entry.counts_test)
    return parts


def _download_folder(name: str) -> Path:
    """A folder for a set's files: in the cache, or a passing one where the cache cannot be written."""
    folder = cache_folder() / "downloads" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="polyopt-"))


def _remove_empty(folder: Path) -> None:
    """Remove the folder and those above it in the cache, as far as they are empty."""
    for one in (folder, *folder.parents):
        if one != cache_folder() and cache_folder() not in one.parents and one != folder:
            return
        try:
            one.rmdir()
        except OSError:
            return


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


def _svmlight(folder: Path, file: str, n_features: int, *, dense: bool = False) -> tuple[Features, Labels]:
    path = retrieve(LIBSVM + file, folder)
    data = read_svmlight(path, n_features=n_features)
    X = data.X.toarray() if dense and isinstance(data.X, sparse.csr_matrix) else data.X
    return X, data.y


def _table(folder: Path, url: str, delimiter: str | None = None, label: int = -1) -> tuple[Features, Labels]:
    """A plain table of numbers with the label in its last column, or in the one given."""
    rows = np.loadtxt(retrieve(url, folder), delimiter=delimiter, ndmin=2)
    return np.delete(rows, label, axis=1), rows[:, label].astype(np.int64)


def _idx(folder: Path, file: str, header: int) -> np.ndarray:
    with gzip.open(retrieve(MNIST + file, folder)) as stream:
        return np.frombuffer(stream.read(), dtype=np.uint8, offset=header)


def _mnist(folder: Path) -> Parts:
    parts = []
    for part in ("train", "t10k"):
        parts.append(_idx(folder, f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784))
        parts.append(_idx(folder, f"{part}-labels-idx1-ubyte.gz", 8))
    return Parts(*parts)


def _usps(folder: Path) -> Parts:
    return Parts(
        *_table(folder, f"{USPS}zip.train.gz", label=0), *_table(folder, f"{USPS}zip.test.gz", label=0)
    )


def _optdigits(folder: Path) -> Parts:
    train, test = (_table(folder, f"{UCI_FILES}optdigits/optdigits.{part}", ",") for part in ("tra", "tes"))
    return Parts(*train, *test)


def _a9a(folder: Path) -> Parts:
    return Parts(
        *_svmlight(folder, "binary/a9a", 123),
        *_svmlight(folder, "binary/a9a.t", 123),
    )


def _ijcnn1(folder: Path) -> Parts:
    return Parts(*_svmlight(folder, "binary/ijcnn1.bz2", 22))


def _rcv1(folder: Path) -> Parts:
    return Parts(
        *_svmlight(folder, "binary/rcv1_train.binary.bz2", 47236),
        *_svmlight(folder, "binary/rcv1_test.binary.bz2", 47236),
    )


def _url(folder: Path) -> Parts:
    return Parts(*_signed(_svmlight(folder, "binary/url_combined.bz2", 3231961)))


def _kdda(folder: Path) -> Parts:
    train, test = (_svmlight(folder, f"binary/kdda{part}.bz2", 20216830) for part in ("", ".t"))
    return Parts(*_signed(train), *_signed(test))


def _signed(part: tuple[Features, Labels]) -> tuple[Features, Labels]:
    """Labels −1 and +1, whatever the publisher's word for the first class: 0, −1."""
    X, y = part
    return X, np.where(y > 0, 1, -1)


def _covtype(folder: Path) -> Parts:
    from sklearn.datasets import fetch_covtype

    return Parts(*fetch_covtype(data_home=str(folder), return_X_y=True))


def _cod_rna(folder: Path) -> Parts:
    return Parts(*_svmlight(folder, "binary/cod-rna", 8, dense=True))


def _svmguide1(folder: Path) -> Parts:
    return Parts(
        *_svmlight(folder, "binary/svmguide1", 4, dense=True),
        *_svmlight(folder, "binary/svmguide1.t", 4, dense=True),
    )


def _australian(folder: Path) -> Parts:
    return Parts(*_svmlight(folder, "binary/australian", 14, dense=True))


def _german_numer(folder: Path) -> Parts:
    return Parts(*_table(folder, f"{UCI_FILES}statlog/german/german.data-numeric"))


def _heart_statlog(folder: Path) -> Parts:
    return Parts(*_table(folder, f"{UCI_FILES}statlog/heart/heart.dat"))


def _fourclass_scaled(folder: Path) -> Parts:
    X, y = _svmlight(folder, "binary/fourclass", 2, dense=True)
    centred = np.asarray(X) - np.asarray(X).mean(axis=0)
    return Parts(centred / np.abs(centred).max(axis=0), y)


def _adult(folder: Path) -> Parts:
    import pandas as pd

    # The test file opens with a remark line, and its labels end in a full stop.
    train, test = (
        pd.read_csv(
            retrieve(f"{UCI_FILES}adult/adult.{part}", folder),
            header=None,
            names=range(ADULT_COLUMNS),
            comment="|",
            skipinitialspace=True,
            na_values="?",
        )
        for part in ("data", "test")
    )
    both = pd.concat([train, test], ignore_index=True)
    y = both[ADULT_COLUMNS - 1].str.startswith(">50K").to_numpy(dtype=np.int64)
    X = np.empty((len(both), ADULT_COLUMNS - 1))
    for i in range(X.shape[1]):
        if pd.api.types.is_numeric_dtype(both[i]):
            X[:, i] = both[i]
        else:
            codes = both[i].astype("category").cat.codes  # ranks in sorted order, −1 for missing
            X[:, i] = codes.where(codes >= 0)
    n = len(train)
    return Parts(X[:n], y[:n], X[n:], y[n:])


FETCHERS: dict[str, Callable[[Path], Parts]] = {
    "mnist": _mnist,
    "usps": _usps,
    "optdigits": _optdigits,
    "a9a": _a9a,
    "ijcnn1": _ijcnn1,
    "rcv1": _rcv1,
    "url": _url,
    "kdda": _kdda,
    "covtype": _covtype,
    "cod_rna": _cod_rna,
    "svmguide1": _svmguide1,
    "australian": _australian,
    "german_numer": _german_numer,
    "heart_statlog": _heart_statlog,
    "fourclass_scaled": _fourclass_scaled,
    "adult": _adult,
}
