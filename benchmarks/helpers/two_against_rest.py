"""The data of the polytope machine's races: MNIST digit 2 against the rest, and sparse texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from polyopt import datasets

__all__ = ["Images", "texts", "two_against_rest"]


@dataclass(frozen=True)
class Images:
    """Digits as bytes, and labels: +1 for a 2."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    scale: float


def two_against_rest(smoke: bool = False) -> Images:
    """MNIST where it is at hand, else (and for a smoke run) scikit-learn's digits."""
    try:
        data = datasets.load("digits" if smoke else "mnist")
    except datasets.DatasetUnavailable:
        data = datasets.load("digits")
    name, top = ("MNIST 2 vs rest", 255) if data.X.shape[1] == 784 else ("digits 2 vs rest", 16)
    X, X_test, y, y_test = data.split(random_state=0)
    labels = (np.where(part == 2, 1.0, -1.0) for part in (y, y_test))
    y, y_test = labels
    return Images(f"{name} {X.shape}", X.astype(np.uint8), y, X_test.astype(np.uint8), y_test, 1.0 / top)


def texts(
    n: int = 20_000, m: int = 47_000, words: int = 104, seed: int = 0
) -> tuple[sp.csr_array, np.ndarray]:
    """Rows like texts, of unit length: `words` words by Zipf's law, some 75 different; +1 is a topic."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 4, n)
    common = 1.0 / np.arange(1, m + 1)
    rows, columns = [], []
    for t in range(4):
        # A topic prefers words of its own: a tenth of the vocabulary, ten times as often.
        weights = np.where(rng.random(m) < 0.1, 10.0, 1.0) * common
        mine = np.flatnonzero(topic == t)
        columns.append(rng.choice(m, size=(len(mine), words), p=weights / weights.sum()))
        rows.append(np.repeat(mine, words))
    at = (np.concatenate(rows), np.concatenate([c.ravel() for c in columns]))
    X = sp.csr_array((np.ones(len(at[0]), dtype=np.float32), at), shape=(n, m))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    lengths = np.sqrt(np.asarray((X * X).sum(axis=1)).ravel())
    X.data /= np.repeat(lengths, np.diff(X.indptr)).astype(np.float32)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, np.where(topic == 0, 1.0, -1.0)
