"""The small random data that the cross-checks are evaluated on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from formulations.samples import two_blobs
from polyopt.kernels import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

__all__ = ["blobs", "clusters", "generator", "rbf", "unbalanced"]

_COSTS = (0.3, 1.0, 5.0)


def generator(seed: int) -> np.random.Generator:
    """The generator of what a check draws besides its data."""
    return np.random.default_rng([seed, 50])


def blobs(seed: int, n: int = 40, m: int = 3) -> tuple[Vector, Vector, float]:
    """Two overlapping classes (n, m) away from the origin, their labels (n,), and a cost.

    Parameters
    ----------
    seed : int
        Seed of the data.
    n, m : int
        Samples and features.
    """
    X, y = two_blobs(n=n, m=m, seed=seed)
    return X, y, _COSTS[seed % len(_COSTS)]


def unbalanced(seed: int) -> tuple[Vector, Vector]:
    """Samples (30, 3) of which two thirds are positive, and their labels (30,)."""
    X, y = two_blobs(seed=seed)
    kept = np.sort(np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y < 0)[:10]]))
    return X[kept], y[kept]


def clusters(seed: int, n: int = 42, spread: float = 0.45) -> tuple[Vector, Vector]:
    """Negatives in the middle and three clusters of positives around them: samples (n, 2), labels (n,).

    Parameters
    ----------
    seed : int
        Seed of the data.
    n : int
        Samples, of which the first half are negatives.
    spread : float
        Standard deviation of the clusters, next to their distance of 2 from the middle.
    """
    drawn = np.random.default_rng([seed, 3])
    y = np.where(np.arange(n) < n // 2, -1.0, 1.0)
    angles = 2.0 * np.pi * (np.arange(n) % 3) / 3.0 + 0.3
    centres = np.where(y[:, None] > 0, 2.0 * np.column_stack([np.cos(angles), np.sin(angles)]), 0.0)
    return centres + spread * drawn.normal(size=(n, 2)), y


def rbf(X: Vector, Z: Vector | None = None) -> Vector:
    """The Gaussian kernel between samples, (n, n), or between those of Z and those of X, (t, n)."""
    kernel = Kernel("rbf", 0.4, 3, 0.0)
    return np.asarray(kernel(X) if Z is None else kernel(Z, X))
