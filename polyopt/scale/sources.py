"""Samples in blocks that are read when they are needed: from memory, files, or a function.

A source reads any of its blocks, any number of times, and always the same. It may be sent to other processes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from formulations.language.arguments import refuse_masked, whole
from formulations.language.types import MatrixLike, as_csr
from polyopt.datasets.svmlight import svmlight_block, svmlight_lines
from polyopt.estimators.frames import (
    cells_of_column,
    column_as_numbers,
    column_names,
    is_frame,
    matrix_of_frame,
    refuse_dates,
)
from polyopt.estimators.validation import check_label_kinds

ROWS = 1 << 18
"""Samples in a block by default."""


class Samples(NamedTuple):
    """Some samples: ``X`` (n, m), dense, CSR or a frame, ``y`` (n,), and ``weights`` (n,) or None."""

    X: Any
    y: Any
    weights: Any = None


class Source(Protocol):
    """A source of samples."""

    count: int  # of blocks

    def read(self, number: int) -> Samples:
        """Return block `number`, from 0."""


def unframed(samples: Samples) -> Samples:
    """Return the samples with cells of a frame, or objects, as a matrix of floats; NaN for gaps."""
    X = samples.X
    refuse_dates(X)
    if is_frame(X):
        return samples._replace(X=matrix_of_frame(X))
    if getattr(getattr(X, "dtype", None), "kind", "") != "O" or X.ndim != 2:
        return samples
    columns = [column_as_numbers(cells_of_column(x, f"x{j}"), f"x{j}") for j, x in enumerate(X.T)]
    return samples._replace(X=np.column_stack(columns) if columns else np.empty(X.shape))


class Arrays:
    """Samples in memory.

    Parameters
    ----------
    X : array_like, frame or sparse matrix of shape (n, m)
        Samples. Names of a frame's columns are those of the features.
    y : array_like of shape (n,)
        Labels.
    weights : array_like of shape (n,), optional
        Weights.
    rows : int
        Samples in a block.

    Attributes
    ----------
    names : list of str or None
        Names of the features.
    """

    def __init__(self, X: MatrixLike, y: ArrayLike, weights: ArrayLike | None = None, *, rows: int = ROWS):
        for name, each in (("X", X), ("y", y), ("weights", weights)):
            refuse_masked(name, each)
        self.names = column_names(X)
        X = unframed(Samples(X, y)).X
        self._X = as_csr(X) if sp.issparse(X) else np.asarray(X)
        if not hasattr(y, "dtype"):
            check_label_kinds(y)
        self._y = np.asarray(y)
        self._weights = None if weights is None else np.asarray(weights)
        for name, other in (("y", self._y), ("weights", self._weights)):
            if other is not None and len(other) != self._X.shape[0]:
                raise ValueError(f"{name} has {len(other)} entries, and X has {self._X.shape[0]} rows")
        self._rows = whole("rows", rows, 1)
        self.count = max(-(-self._X.shape[0] // rows), 1)  # rounded up

    def read(self, number: int) -> Samples:
        """Return block `number`, without a copy of dense samples."""
        part = slice(number * self._rows, (number + 1) * self._rows)
        weights = None if self._weights is None else self._weights[part]
        return Samples(self._X[part], self._y[part], weights)


class NpyFiles:
    """Files in numpy's format, with one block at a time in memory.

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
        self._rows = rows
        self.count = Arrays(*self._open(), rows=rows).count

    def _open(self) -> list[Any]:
        return [None if path is None else np.load(path, mmap_mode="r") for path in self._paths]

    def read(self, number: int) -> Samples:
        """Return block `number`: views of the files."""
        return Arrays(*self._open(), rows=self._rows).read(number)


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
        self._rows = whole("rows", rows, 1)
        self._starts = [0]  # places of the first byte of each block, and of the end of the file
        end = 0
        with open(self._path, "rb") as stream:
            for number, line in enumerate(svmlight_lines(stream), start=1):
                end += len(line)
                if number % rows == 0:
                    self._starts.append(end)
        if end > self._starts[-1]:
            self._starts.append(end)
        self.count = max(len(self._starts) - 1, 1)

    def read(self, number: int) -> Samples:
        """Return block `number`, as CSR."""
        begin, end = self._starts[number], self._starts[min(number + 1, len(self._starts) - 1)]
        with open(self._path, "rb") as stream:
            stream.seek(begin)
            text = stream.read(end - begin)
        return Samples(*svmlight_block(self._path, text, number * self._rows + 1, self._m))


class Generated:
    """Samples that a function makes or reads, always the same for a block.

    Parameters
    ----------
    make : callable
        Returns X and y, or X, y and weights, for the number of a block.
    count : int
        Number of blocks.
    """

    def __init__(self, make: Callable[[int], tuple[Any, ...]], count: int):
        self._make, self.count = make, whole("count", count, 1)

    def read(self, number: int) -> Samples:
        """Return block `number`."""
        return Samples(*self._make(number))
