"""Downloads: one small function per public set, each from its publisher to bare arrays."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

from polyopt.datasets._dataset import Features, Labels
from polyopt.datasets._download import retrieve
from polyopt.datasets._entry import LIBSVM, UCI_FILES
from polyopt.datasets._npz import Parts
from polyopt.datasets._svmlight import read_svmlight

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
USPS = "https://hastie.su.domains/ElemStatLearn/datasets/"
ADULT_COLUMNS = 15  # of the file: 14 attributes and the label


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
