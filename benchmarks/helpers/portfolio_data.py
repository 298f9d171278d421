"""The data sets of kernel_portfolio: real ones at hand, and seeded ones, of many sizes, shapes and scales.

Every set is a pair: samples in single precision, dense or CSR, and labels -1 and +1. Seeds begin at 1000.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from polyopt.datasets.loading import read_npz

__all__ = ["SETS", "Data", "is_at_hand", "path_of", "samples"]


class Data(NamedTuple):
    """A set: how it is made, the file it needs (none for seeded ones), and which further races it is in."""

    make: Callable[[], tuple[Any, Any]]
    file: str = ""
    has_rmm: bool = False
    has_poly: bool = False


def is_at_hand(name: str) -> bool:
    """Whether the set can be made on this machine; nothing is downloaded."""
    return not SETS[name].file or path_of(SETS[name].file).is_file()


def samples(name: str) -> tuple[Any, Any]:
    """Samples (n, m) of float32, dense or CSR, and labels -1 and +1 of float64."""
    X, positive = SETS[name].make()
    y = np.where(positive, 1.0, -1.0)
    return X.astype(np.float32) if sp.issparse(X) else np.ascontiguousarray(X, dtype=np.float32), y


# -- real ones: files in the folder that POLYOPT_DATA names --------------------------------------------


def path_of(file: str) -> Path:
    """Where a file with this name would be; nowhere without the folder."""
    folder = os.environ.get("POLYOPT_DATA")
    return Path(folder) / f"{file}.npz" if folder else Path(os.devnull) / file


def _real(
    file: str,
    classes: tuple[int, ...],
    n: int = 20_000,
    seed: int = 1000,
    divide: float = 0.0,
    among: tuple[int, ...] = (),
) -> tuple[Any, Any]:
    """Some samples of a file, by a seed; `classes` are positive; dense ones are standardised or divided."""
    parts = read_npz(path_of(file))
    X, y = parts.X, parts.y
    drawn = np.random.default_rng(seed).permutation(len(y))
    drawn = drawn[np.isin(y[drawn], among)][:n] if among else drawn[:n]
    X, positive = X[drawn], np.isin(y[drawn], classes)
    if sp.issparse(X):
        return sp.csr_matrix(X), positive
    X = X.astype(float)
    gaps = np.isnan(X)
    X[gaps] = np.broadcast_to(np.nanmedian(X, axis=0), X.shape)[gaps]
    return (X / divide if divide else _standardised(X)), positive


def _standardised(X: np.ndarray) -> np.ndarray:
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


# -- seeded ones ---------------------------------------------------------------------------------------


def _moons(n: int, noise: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    upper, angle = rng.random(n) < 0.5, np.pi * rng.random(n)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[~upper] = np.array([1.0, 0.5]) - X[~upper]
    return X + noise * rng.normal(size=(n, 2)), upper


def _spirals(n: int, noise: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    first, angle = rng.random(n) < 0.5, 3.5 * np.pi * np.sqrt(rng.random(n))
    X = (angle * np.where(first, 1.0, -1.0))[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + noise * rng.normal(size=(n, 2)), first


def _circles(n: int, noise: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    inner, angle = rng.random(n) < 0.5, 2.0 * np.pi * rng.random(n)
    X = np.where(inner, 0.5, 1.0)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + noise * rng.normal(size=(n, 2)), inner


def _two_gaussians(n: int, m: int, distance: float, seed: int, share: float = 0.5) -> tuple[Any, Any]:
    """Means `distance` apart in the first column: the least error is Φ(-distance/2) for equal shares."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < share
    X = rng.normal(size=(n, m))
    X[:, 0] += distance * positive
    return X, positive


def _mixture(n: int, m: int, parts: int, spread: float, seed: int) -> tuple[Any, Any]:
    """Gaussian parts about random centres, of alternate classes."""
    rng = np.random.default_rng(seed)
    centres, part = rng.normal(size=(parts, m)), rng.integers(parts, size=n)
    return centres[part] + spread * rng.normal(size=(n, m)), part % 2 == 0


def _twonorm(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.5
    return rng.normal(size=(n, 20)) + np.where(positive, 1.0, -1.0)[:, None] * 2.0 / np.sqrt(20.0), positive


def _ringnorm(n: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    positive, X = rng.random(n) < 0.5, rng.normal(size=(n, 20))
    X[positive] *= 2.0
    X[~positive] += 2.0 / np.sqrt(20.0)
    return X, positive


def _checkerboard(n: int, cells: int, flipped: float, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = cells * rng.random((n, 2))
    return X, (np.floor(X).sum(axis=1) % 2 == 0) ^ (rng.random(n) < flipped)


def _xor(n: int, m: int, of: int, seed: int) -> tuple[Any, Any]:
    """The parity of the signs of the first columns; the others say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, (X[:, :of] > 0).sum(axis=1) % 2 == 0


def _topics(n: int, words: int, seed: int) -> tuple[Any, Any]:
    """Texts of some 40 words, mixed of two of eight topics; rows of unit length, CSR."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(words, 0.02), size=8)
    first, second = rng.integers(8, size=(2, n))
    weight = 0.5 + 0.5 * rng.random(n)
    X = np.empty((n, words), dtype=np.float32)
    for i in range(n):
        mixed = weight[i] * topics[first[i]] + (1.0 - weight[i]) * topics[second[i]]
        X[i] = rng.multinomial(rng.poisson(40) + 1, mixed / mixed.sum())
    return sp.csr_matrix(X / np.linalg.norm(X, axis=1, keepdims=True)), first % 2 == 0


def _one_hot(n: int, groups: int, levels: int, seed: int) -> tuple[Any, Any]:
    """One column of each group is 1, the later levels rarely; an additive score with noise, CSR."""
    rng = np.random.default_rng(seed)
    odds = 1.0 / np.arange(1, levels + 1) ** 1.5
    chosen = rng.choice(levels, size=(n, groups), p=odds / odds.sum())
    score = rng.normal(size=(groups, levels))[np.arange(groups), chosen].sum(axis=1)
    columns = (chosen + levels * np.arange(groups)).ravel()
    shape = (n, groups * levels)
    X = sp.csr_matrix((np.ones(n * groups), columns, groups * np.arange(n + 1)), shape=shape)
    return X, score + rng.normal(size=n) > np.median(score)


def _threshold(n: int, m: int, noise: float, seed: int) -> tuple[Any, Any]:
    """Friedman's function of five of m uniform columns, above or below its median."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, m))
    value = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, value + noise * rng.normal(size=n) > np.median(value)


def _badly_scaled(n: int, m: int, decades: float, seed: int) -> tuple[Any, Any]:
    """A threshold on Friedman's function; the columns' sizes span `decades` decades."""
    X, positive = _threshold(n, m, 1.0, seed)
    return X * 10.0 ** np.random.default_rng(seed).permutation(np.linspace(-decades, 0, m)), positive


def _flat(n: int, m: int, rank: int, seed: int) -> tuple[Any, Any]:
    """Samples near a plane of few dimensions among many, with a curved boundary."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, rank))
    X = Z @ rng.normal(size=(rank, m)) + 0.05 * rng.normal(size=(n, m))
    return X, (Z**2).sum(axis=1) + rng.normal(size=n) > rank


def _ties(n: int, m: int, seed: int) -> tuple[Any, Any]:
    """Whole numbers from -1 to 1: many samples are equal, some with both labels."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, size=(n, m)).astype(float)
    return X, X @ rng.normal(size=m) + 0.7 * rng.normal(size=n) > 0.0


def _flipped(n: int, m: int, share: float, seed: int) -> tuple[Any, Any]:
    """Two gaussians well apart, with a share of the labels flipped."""
    X, positive = _two_gaussians(n, m, 6.0, seed)
    return X, positive ^ (np.random.default_rng(seed + 100).random(n) < share)


SETS: dict[str, Data] = {
    "banana": Data(partial(_real, "banana", (1,)), "banana", has_rmm=True, has_poly=True),
    "magic": Data(partial(_real, "magic", (1,)), "magic", has_rmm=True),
    "magic, 5,000": Data(partial(_real, "magic", (1,), 5000), "magic", has_poly=True),
    "magic, raw": Data(partial(_real, "magic", (1,), 6000, divide=1.0), "magic"),
    "cod-rna": Data(partial(_real, "cod_rna", (1,)), "cod_rna"),
    "cod-rna, raw": Data(partial(_real, "cod_rna", (1,), 10_000, divide=1.0), "cod_rna"),
    "svmguide1": Data(partial(_real, "svmguide1", (1,)), "svmguide1", has_rmm=True),
    "covtype": Data(partial(_real, "covtype", (2,)), "covtype"),
    "adult": Data(partial(_real, "adult_raw", (1,), 10_000), "adult_raw", has_rmm=True),
    "a9a": Data(partial(_real, "a9a", (1,), 12_000), "a9a"),
    "ijcnn1": Data(partial(_real, "ijcnn1_train", (1,)), "ijcnn1_train", has_rmm=True),
    "MNIST, 3 or 8": Data(
        partial(_real, "mnist", (3,), divide=255.0, among=(3, 8)), "mnist", has_rmm=True, has_poly=True
    ),
    "MNIST, even or odd": Data(partial(_real, "mnist", (0, 2, 4, 6, 8), 10_000, divide=255.0), "mnist"),
    "USPS": Data(partial(_real, "usps", (0, 1, 2, 3, 4), divide=1.0), "usps", has_poly=True),
    "optdigits": Data(partial(_real, "optdigits", (0, 2, 4, 6, 8), divide=16.0), "optdigits"),
    "moons": Data(partial(_moons, 5000, 0.3, 1001), has_rmm=True),
    "spirals": Data(partial(_spirals, 4000, 0.5, 1002)),
    "circles": Data(partial(_circles, 20_000, 0.1, 1003)),
    "30 % overlap": Data(partial(_two_gaussians, 10_000, 3, 1.05, 1004), has_rmm=True),
    "separable": Data(partial(_two_gaussians, 20_000, 50, 12.0, 1005)),
    "1 in 50": Data(partial(_two_gaussians, 12_000, 10, 3.0, 1006, 0.02)),
    "mixture": Data(partial(_mixture, 12_000, 6, 40, 0.6, 1007), has_rmm=True),
    "twonorm": Data(partial(_twonorm, 7400, 1008), has_poly=True),
    "ringnorm": Data(partial(_ringnorm, 7400, 1009)),
    "checkerboard": Data(partial(_checkerboard, 8000, 4, 0.05, 1010), has_rmm=True),
    "parity of 3": Data(partial(_xor, 6000, 20, 3, 1011)),
    "topics": Data(partial(_topics, 6000, 2000, 1012), has_rmm=True),
    "one-hot": Data(partial(_one_hot, 8000, 20, 25, 1013), has_poly=True),
    "Friedman": Data(partial(_threshold, 10_000, 10, 2.0, 1014)),
    "badly scaled": Data(partial(_badly_scaled, 6000, 15, 6.0, 1015)),
    "near a plane": Data(partial(_flat, 8000, 200, 5, 1016), has_rmm=True),
    "ties": Data(partial(_ties, 10_000, 30, 1017), has_poly=True),
    "15 % flipped": Data(partial(_flipped, 10_000, 30, 0.15, 1018), has_rmm=True),
    "wide": Data(partial(_two_gaussians, 2000, 2000, 4.0, 1019)),
}
