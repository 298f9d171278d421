"""Samples in blocks, each of which is read when it is needed: from memory, files, or whatever makes them.

A source knows how many blocks it has and reads one of them, as often as it is asked and always the same. It
may be sent to other processes, which read it for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from formulations.arguments import refuse_masked, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from pandas import DataFrame

    from formulations.matrices import MatrixLike

__all__ = [
    "Arrays", "Generated", "NpyFiles", "ParquetFiles", "Samples", "Source", "SvmlightFile", "heading_of",
    "in_order",
]  # fmt: skip

ROWS = 1 << 18
"""Samples in a block, where nothing else is said."""


class Samples(NamedTuple):
    """Some samples, as they are read: ``X`` (n, m) dense or CSR, ``y`` (n,), ``weights`` (n,) or None."""

    X: Any
    y: Any
    weights: Any = None


@runtime_checkable
class Source(Protocol):
    """What samples are read from."""

    count: int  # of blocks

    def read(self, number: int) -> Samples:
        """Block `number`, from 0."""


def _cut(n: int, rows: int) -> int:
    return max(-(-n // whole("rows", rows, 1)), 1)


def heading_of(X: object) -> Any:
    """A frame with the columns of samples, which may have no rows; None where these have no names.

    Parameters
    ----------
    X : object
        A frame, a Dask frame, a source that has ``names``, or anything else.
    """
    if isinstance(X, Source):
        if not hasattr(X, "names"):
            return None
        from pandas import DataFrame

        return DataFrame(columns=X.names)
    return getattr(X, "_meta", X) if hasattr(X, "columns") else None


def in_order(frame: DataFrame, names: Sequence[Any], where: str) -> Any:
    """A frame's columns in the order of the others'.

    Parameters
    ----------
    frame : DataFrame
        Some samples.
    names : sequence
        The columns, in order.
    where : str
        What it is, for what is said of it.

    Raises
    ------
    ValueError
        Other columns.
    """
    columns = list(frame.columns)
    if columns == list(names):
        return frame
    if sorted(map(repr, columns)) != sorted(map(repr, names)):
        raise ValueError(f"{where} has the columns {columns}, and others have {list(names)}")
    return frame[list(names)]


class Arrays:
    """Samples in memory.

    Parameters
    ----------
    X : array_like or sparse matrix of shape (n, m)
        Samples.
    y : array_like of shape (n,)
        Labels.
    weights : array_like of shape (n,), optional
        Weights.
    rows : int
        Samples in a block.

    Raises
    ------
    ValueError
        Lengths that differ, or masked entries.
    """

    def __init__(self, X: MatrixLike, y: ArrayLike, weights: ArrayLike | None = None, *, rows: int = ROWS):
        for name, each in (("X", X), ("y", y), ("weights", weights)):
            refuse_masked(name, each)
        self._X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
        self._y = np.asarray(y)
        self._weights = None if weights is None else np.asarray(weights)
        for name, other in (("y", self._y), ("weights", self._weights)):
            if other is not None and len(other) != self._X.shape[0]:
                raise ValueError(f"{name} has {len(other)} entries, and X has {self._X.shape[0]} rows")
        self._rows, self.count = rows, _cut(self._X.shape[0], rows)

    def read(self, number: int) -> Samples:
        """Block `number`, without a copy of dense samples."""
        part = slice(number * self._rows, (number + 1) * self._rows)
        weights = None if self._weights is None else self._weights[part]
        return Samples(self._X[part], self._y[part], weights)


class NpyFiles:
    """Files of numpy's format, of which no more than a block is in memory.

    Parameters
    ----------
    X, y : str or Path
        The files, of shapes (n, m) and (n,).
    weights : str or Path, optional
        A file of shape (n,).
    rows : int
        Samples in a block.
    """

    def __init__(self, X: str | Path, y: str | Path, weights: str | Path | None = None, *, rows: int = ROWS):
        self._paths = [None if path is None else Path(path) for path in (X, y, weights)]
        self._rows, self.count = rows, Arrays(*self._open(), rows=rows).count

    def _open(self) -> list[Any]:
        return [None if path is None else np.load(path, mmap_mode="r") for path in self._paths]

    def read(self, number: int) -> Samples:
        """Block `number`: views of the files."""
        return Arrays(*self._open(), rows=self._rows).read(number)


class ParquetFiles:
    """Parquet files; a block is a row group.

    Parameters
    ----------
    paths : str, Path or sequence of them
        The files, in order.
    target : str
        The column of labels.
    weights : str, optional
        The column of weights. All other columns are features, in the order that the first file has them in.
    """

    def __init__(self, paths: str | Path | Sequence[str | Path], target: str, weights: str | None = None):
        paths = [paths] if isinstance(paths, str | Path) else list(paths)
        self._target, self._weights = target, weights
        self._groups = [(Path(path), k) for path in paths for k in range(self._file(path).num_row_groups)]
        self.count = len(self._groups)
        head = self._file(paths[0]).schema_arrow.empty_table().to_pandas()
        self.names = [name for name in head if name not in (target, weights)]

    @staticmethod
    def _file(path: str | Path) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise ImportError("Parquet files need pyarrow: pip install 'polyopt[dask]'") from error
        return ParquetFile(path)

    def read(self, number: int) -> Samples:
        """Block `number`."""
        path, group = self._groups[number]
        frame = self._file(path).read_row_group(group).to_pandas()
        beside = [name for name in (self._target, self._weights) if name is not None]
        for name in (*beside, *self.names):
            if name not in frame:
                raise ValueError(f"{path} has no column {name!r}")
        weights = None if self._weights is None else frame[self._weights].to_numpy()
        X = in_order(frame.drop(columns=beside), self.names, str(path))
        return Samples(X.to_numpy(), frame[self._target].to_numpy(), weights)


class SvmlightFile:
    """A file in svmlight / LIBSVM format, read by chunks of lines, whose places are looked up once.

    Parameters
    ----------
    path : str or Path
        The file, not compressed.
    n_features : int
        Number of columns m.
    rows : int
        Lines in a block.
    """

    def __init__(self, path: str | Path, n_features: int, *, rows: int = ROWS):
        self._path, self._m = Path(path), whole("n_features", n_features, 1)
        whole("rows", rows, 1)
        self._starts = [0]
        with open(self._path, "rb") as stream:
            for number, _ in enumerate(iter(stream.readline, b""), start=1):
                if number % rows == 0:
                    self._starts.append(stream.tell())
            if stream.tell() > self._starts[-1]:
                self._starts.append(stream.tell())
        self.count = max(len(self._starts) - 1, 1)

    def read(self, number: int) -> Samples:
        """Block `number`, as CSR."""
        from io import BytesIO

        from sklearn.datasets import load_svmlight_file

        with open(self._path, "rb") as stream:
            stream.seek(self._starts[number])
            text = stream.read(self._starts[number + 1] - self._starts[number])
        X, y = load_svmlight_file(BytesIO(text), n_features=self._m, zero_based=False)
        return Samples(X, y)


class Generated:
    """Samples that a function makes, the same whenever it is called.

    Parameters
    ----------
    make : callable
        Takes the number of a block, and gives X and y, or X, y and weights.
    count : int
        How many blocks there are.
    """

    def __init__(self, make: Callable[[int], tuple[Any, ...]], count: int):
        self._make, self.count = make, whole("count", count, 1)

    def read(self, number: int) -> Samples:
        """Block `number`."""
        return Samples(*self._make(number))
