"""Two digits and all kernels between their images, for :mod:`benchmarks.rmm_table`.

One job per pair serves every kernel, machine and setting. The products X X' and T X' (T: the test samples)
are computed once; each kernel is elementwise in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import normalize

from polyopt import datasets

Vector = NDArray[np.float64]
Matrix = NDArray[Any]
Samples = NDArray[np.intp]
Pair = tuple[int, int]

SCALINGS = ("unit length", "pixels in [0, 1]")  # of images; the first is computed first
_SPLITS = 5
_MAX_ROWS_DOUBLE = 4_000  # samples from which products and kernels are in single precision
_CACHE_NUMBERS = 200_000  # numbers that a processor's cache holds


@dataclass(frozen=True)
class Digits:
    """A set of digits, and what of a pair's samples is trained on."""

    name: str  # what the loader calls it, and the value of an empty pixel
    blank: float
    # lines of the table that it gives, and whether all samples of a pair are fitted in the end, or the part
    # that is given
    tables: tuple[tuple[str, bool], ...]
    # samples of a pair (or their share, below 1) that are fitted; the others validate. None for splits
    # 80:20
    part: float | None = None
    methods: tuple[str, ...] = ("SVM", "RMM", "Sigma-SVM", "KLDA")  # what is computed
    classes: int = 10  # how many digits


class PairData:
    """The samples of two digits, and kernels between them.

    `y` has the labels, the second digit is +1; `splits` has pairs of samples to train on and to validate
    on.
    """

    def __init__(self, digits: Digits, scaling: str, pair: Pair):
        _, labels, _, _ = images(digits, scaling)
        rows = np.flatnonzero(np.isin(labels, pair))
        y = np.where(labels[rows] == pair[1], 1.0, -1.0)
        self.splits = [*_splits(digits, y)]
        count = len(y)
        if digits.part is not None:  # the part comes first, and nothing but it where nothing else is fitted
            ((train, rest),) = self.splits
            order = np.concatenate([train, rest])
            rows, y, every = rows[order], y[order], np.arange(len(y))
            self.splits = [(every[: len(train)], every[len(train) :])]
            count = len(y) if any(whole for _, whole in digits.tables) else len(train)
        self.y = y
        self._multiply(digits, scaling, rows, count)

    def _multiply(self, digits: Digits, scaling: str, rows: Samples, count: int) -> None:
        """Products of all samples, and of the test samples, with the first so many samples."""
        X, _, T, _ = images(digits, scaling)
        A = X[rows]
        self._train, self._test = A @ A[:count].T, T @ A[:count].T
        self._sizes, self._test_sizes = _sizes(A), _sizes(T)

    def gram(self, kernel: str, samples: Samples) -> Matrix:
        """The kernel between these samples."""
        return self._values(kernel, self._train[np.ix_(samples, samples)], self._sizes[samples], samples)

    def outputs(self, kernel: str, at: Samples | None, samples: Samples, coefs: Vector) -> Vector:
        """Outputs of machines that are trained on `samples`, without intercepts, a column for each.

        At other training samples, or at all test samples (None); coefficients of shape (samples, machines).
        """
        used = coefs.any(axis=1)
        samples, coefs = samples[used], np.asarray(coefs[used], dtype=self._train.dtype)
        products, sizes = (self._test, self._test_sizes) if at is None else (self._train, self._sizes)
        at = np.arange(len(products)) if at is None else at
        step = max(1, 20 * _CACHE_NUMBERS // max(len(samples), 1))
        parts = [at[start : start + step] for start in range(0, len(at), step)]
        blocks = ((self._values(kernel, products[np.ix_(p, samples)], sizes[p], samples), p) for p in parts)
        return np.vstack([block @ coefs for block, _ in blocks]).astype(float)

    def _values(self, kernel: str, products: Matrix, sizes: Vector, samples: Samples) -> Matrix:
        """Products made kernel values, in place: ``((x'z + 1) / s)^d``, or ``exp(-‖x - z‖² / 2q)``.

        q is the mean of ``‖x‖²`` and ``s^d`` that of ``(x'x + 1)^d`` over the pair's samples: the kernel is
        divided by its mean diagonal. Of images of unit length, s = 2 and q = 1.
        """
        step = max(1, _CACHE_NUMBERS // max(products.shape[1], 1))
        if kernel == "RBF":
            mean = self._sizes.mean()
            left, right = sizes / (2.0 * mean), self._sizes[samples] / (2.0 * mean)
            left, right = left.astype(products.dtype), right.astype(products.dtype)
            for start in range(0, len(products), step):
                block = products[start : start + step]
                block *= products.dtype.type(1.0 / mean)
                block -= left[start : start + step, None]
                block -= right
                np.exp(block, out=block)
            return products
        degree = int(kernel)
        scale = products.dtype.type(1.0 / np.mean((self._sizes + 1.0) ** degree) ** (1.0 / degree))
        for start in range(0, len(products), step):
            block = products[start : start + step]
            block += products.dtype.type(1.0)
            block *= scale
            base = block.copy() if degree > 1 else block
            for _ in range(degree - 1):
                np.multiply(block, base, out=block)
        return products


def _splits(digits: Digits, labels: Vector) -> Iterator[tuple[Samples, Samples]]:
    part, repeats = (0.8, _SPLITS) if digits.part is None else (digits.part, 1)
    part = int(part) if part > 1 else part
    shuffle = StratifiedShuffleSplit(repeats, train_size=part, random_state=0)
    return shuffle.split(labels, labels)


def _sizes(A: Matrix) -> Vector:
    return np.einsum("ij,ij->i", A, A, dtype=float)


@cache
def images(digits: Digits, scaling: str) -> tuple[Matrix, Samples, Matrix, Samples]:
    """Training and test part, scaled as one of SCALINGS; labels of both."""
    data = datasets.load(digits.name)
    X, y, T, t = data.X, data.y, data.X_test, data.y_test
    if T is None:
        X, y = X[data.y < digits.classes], y[data.y < digits.classes]
        X, T, y, t = X[::3], X[1::3], y[::3], y[1::3]
    is_large = 2 * len(X) / digits.classes > _MAX_ROWS_DOUBLE
    kind = np.float32 if is_large and (digits.part or 0.0) <= 1.0 else np.float64
    largest = float(X.max()) - digits.blank
    scaled = [((part - digits.blank) / largest).astype(kind) for part in (X, T)]
    if scaling == "unit length":
        scaled = [normalize(part, copy=False) for part in scaled]
    return scaled[0], y, scaled[1], t


@cache
def is_at_hand(name: str) -> bool:
    """Whether the data set is on this machine, or can be fetched."""
    try:
        datasets.load(name)
    except datasets.DatasetUnavailable:
        return False
    return True
